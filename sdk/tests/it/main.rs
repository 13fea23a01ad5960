//! Real processes and real sockets: the fixture server, rmcp, and the official SDKs as foreign peers.

mod cli;
mod client;
mod explain;
mod gate;
mod gate_http;
mod gate_http_listen;
mod gate_http_peers;
mod http;
mod peers;
mod pins;
mod proxy;
mod proxy_attach;
mod proxy_endings;
mod proxy_load;
mod proxy_peers;
mod refusal;
mod report;
mod rmcp;
mod stdio;
