//! Telemetry against an index of ours on loopback: in this process, and as `mcpindex gate` does it.

mod program;
mod sending;
mod stand_in;
