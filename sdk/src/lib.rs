//! Speaks MCP on raw bytes and finds out what a server declares.
//!
//! [`wire`] carries messages and never judges them; [`inspect`] lists, and can do nothing else: the sending half it holds
//! refuses every method that is not on its allow-list.
//!
//! Invariant: a definition reaches `contract` as the bytes that the server sent.
#![warn(missing_docs)]

pub mod check;
pub mod clients;
pub mod clock;
pub mod gate;
pub mod inspect;
pub mod pins;
pub mod proxy;
pub mod state;
pub mod text_diff;
pub mod visible;
pub mod wire;
