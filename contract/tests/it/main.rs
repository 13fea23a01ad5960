//! The crate's tests from outside, one module by subject.

mod accuracy;
mod action;
mod canonical;
mod capability;
mod contract_hash;
mod corpus;
mod definition;
mod depth;
mod diff;
mod digest;
mod figures;
mod golden;
mod golden_kinds;
mod identity;
mod json;
mod markers;
mod markers_corpus;
mod markers_disguise;
mod posture;
mod properties;
mod schema;
mod schema_corpus;
mod schema_properties;
mod shared;
mod surface;
mod vocabulary;
