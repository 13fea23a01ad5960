//! Real processes and real sockets: the fixture server, rmcp, and the official SDKs as foreign peers.

mod cli;
mod client;
mod explain;
mod gate;
mod http;
mod peers;
mod refusal;
mod report;
mod rmcp;
mod stdio;
