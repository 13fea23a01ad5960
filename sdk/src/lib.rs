//! Speaks MCP on raw bytes, finds out what a server declares, and stands between a client and a server.
//!
//! [`wire`] carries messages and never judges them. [`inspect`] lists, and can do nothing else: the sending half it holds
//! refuses every method that is not on its allow-list. [`gate`] decides what of a server reaches a client and which call goes
//! on, by what [`pins`] remember; [`proxy`] moves the bytes for it, below a Rust client too ([`proxy::attach`]). [`telemetry`] tells an
//! [`index`] what a gate sees, where a program asked for that ([`gate::Gate::watched_by`]), and [`approvals`] follow what an
//! organisation decides at one ([`gate::Gate::obeying`]).
//!
//! Invariant: a definition reaches `contract` as the bytes that the server sent.
#![warn(missing_docs)]

pub mod aged;
pub mod approvals;
pub mod check;
pub mod clients;
pub mod clock;
pub mod gate;
pub mod index;
pub mod inspect;
pub mod login;
pub mod pins;
pub mod proxy;
pub mod sandbox;
pub mod state;
pub mod telemetry;
pub mod text_diff;
pub mod visible;
pub mod wire;
