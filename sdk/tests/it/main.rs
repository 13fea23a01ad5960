//! Real processes and real sockets: the fixture server, rmcp, and the official SDKs as foreign peers.

mod check;
mod cli;
mod client;
mod explain;
mod http;
mod peers;
mod pins;
mod refusal;
mod report;
mod review;
mod rmcp;
mod status;
mod stdio;
