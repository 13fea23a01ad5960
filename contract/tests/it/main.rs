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
mod properties;
mod schema;
mod schema_corpus;
mod schema_hostile;
mod schema_properties;
mod shared;
mod surface;
mod vocabulary;
