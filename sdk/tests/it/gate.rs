//! The gate's state machine: scripted exchanges, and what goes where.

mod approvals;
mod calls;
mod context;
mod drift;
mod envelopes;
mod hostile;
mod listings;
mod models;
mod own;
mod session;
mod sightings;
