//! Real processes and real sockets: the fixture server, rmcp, and the official SDKs as foreign peers.

mod cli;
mod client;
mod clients;
mod clients_edits;
mod clients_properties;
mod clients_undo;
mod explain;
mod http;
mod peers;
mod report;
mod rmcp;
mod stdio;
mod wire;
