//! Every bound on what a server may send, in one value that the caller passes.

use std::time::Duration;

/// The bounds of one inspection. Each has an outcome of its own when it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// For the handshake (the era probe included).
    pub handshake: Duration,
    /// For each listing request, absolute, not idle.
    pub request: Duration,
    /// For the whole inspection.
    pub whole: Duration,
    /// How long `server/discover` may stay unanswered, within the handshake, once `initialize` was refused.
    pub era_probe: Duration,
    /// Bytes of one message (a line, an HTTP body, one event).
    pub message_bytes: usize,
    /// Bytes in all.
    pub total_bytes: usize,
    /// Pages of one list.
    pub pages: usize,
    /// Items of one list.
    pub items: usize,
    /// Bytes of one item.
    pub item_bytes: usize,
    /// Bytes of one cursor.
    pub cursor_bytes: usize,
    /// Events of one HTTP answer that comes as a stream.
    pub stream_events: usize,
    /// Lines on stdout that are no JSON-RPC.
    pub noise_lines: usize,
    /// Bytes of stderr kept (the last ones).
    pub stderr_bytes: usize,
    /// Requests that the server may send us.
    pub server_requests: usize,
}

impl Limits {
    /// For a person at a desk.
    pub fn desk() -> Limits {
        Limits {
            handshake: Duration::from_secs(30),
            request: Duration::from_secs(30),
            whole: Duration::from_secs(120),
            era_probe: Duration::from_secs(10),
            message_bytes: 16 << 20,
            total_bytes: 64 << 20,
            pages: 1_000,
            items: 20_000,
            item_bytes: 16 << 20,
            cursor_bytes: 4 << 10,
            stream_events: 10_000,
            noise_lines: 1_000,
            stderr_bytes: 64 << 10,
            server_requests: 100,
        }
    }

    /// For a crawler among servers that nobody trusts.
    pub fn crawl() -> Limits {
        Limits {
            handshake: Duration::from_secs(45),
            request: Duration::from_secs(10),
            whole: Duration::from_secs(60),
            era_probe: Duration::from_secs(5),
            message_bytes: 8 << 20,
            total_bytes: 32 << 20,
            pages: 100,
            items: 2_000,
            item_bytes: 256 << 10,
            cursor_bytes: 4 << 10,
            stream_events: 10_000,
            noise_lines: 1_000,
            stderr_bytes: 64 << 10,
            server_requests: 100,
        }
    }
}
