//! Real processes and real sockets: the fixture server, rmcp, and the official SDKs as foreign peers.

mod check;
mod cli;
mod client;
mod clients;
mod clients_edits;
mod clients_properties;
mod clients_undo;
mod explain;
mod gate;
mod http;
mod peers;
mod pins;
mod refusal;
mod report;
mod review;
mod rmcp;
mod status;
mod stdio;
mod wire;
