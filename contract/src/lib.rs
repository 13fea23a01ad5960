//! What an MCP server declares: read strictly, digested exactly, compared.
//!
//! Everything here is a pure function of bytes. The flow is one way: the text that a server sent
//! ([`json`]) becomes a [`definition::Definition`] with its [`digest::Digest`], definitions make a
//! [`surface::Surface`], and two surfaces make a list of [`change::Change`]s. What a definition can do
//! ([`action`], [`capability`]) and what its text tries ([`markers`]) are read from it alone; [`posture`] decides.
//!
//! Invariant: no I/O, no clock, no randomness, no async, and no typed `Tool` that drops a member.
#![warn(missing_docs)]

pub mod action;
pub mod approval;
pub mod canonical;
pub mod capability;
pub mod change;
pub mod contract_hash;
pub mod declaration;
pub mod definition;
pub mod diff;
pub mod digest;
pub mod identity;
pub mod json;
pub mod markers;
pub mod numeric;
pub mod outcome;
pub mod posture;
pub mod receipt;
pub mod schema;
pub mod signal;
pub mod surface;
pub mod words;
