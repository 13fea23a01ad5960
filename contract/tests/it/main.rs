//! The crate's tests from outside, one module by subject.

mod canonical;
mod contract_hash;
mod corpus;
mod definition;
mod depth;
mod diff;
mod digest;
mod golden;
mod identity;
mod json;
mod markers;
mod markers_corpus;
mod markers_disguise;
mod properties;
mod shared;
mod surface;
mod vocabulary;
