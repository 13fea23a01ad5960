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
    /// Bytes of all items of one list.
    pub list_bytes: usize,
    /// Bytes of what the server says of itself: the result of the handshake.
    pub hello_bytes: usize,
    /// Bytes of one cursor.
    pub cursor_bytes: usize,
    /// How slowly an HTTP body that is no stream may come.
    pub pace: Pace,
    /// Events of one HTTP answer that comes as a stream.
    pub stream_events: usize,
    /// Bytes of one HTTP answer that comes as a stream, comments and all.
    pub stream_bytes: usize,
    /// How long such a stream may go on without the answer that it was opened for.
    pub stream_wait: Duration,
    /// Lines on stdout that are no JSON-RPC.
    pub noise_lines: usize,
    /// Bytes of stderr kept (the last ones).
    pub stderr_bytes: usize,
    /// Requests that the server may send us.
    pub server_requests: usize,
}

/// The least that has to come of a body: so many bytes in each such span of time, up to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// 0 admits any pace.
    pub bytes: usize,
    /// How long a span is.
    pub within: Duration,
}

impl Pace {
    /// As slow as it likes: the time for the whole answer is the bound.
    pub const ANY: Pace = Pace {
        bytes: 0,
        within: Duration::MAX,
    };
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
            list_bytes: 64 << 20,
            hello_bytes: 16 << 20,
            cursor_bytes: 4 << 10,
            pace: Pace::ANY,
            stream_events: 10_000,
            stream_bytes: 64 << 20,
            stream_wait: Duration::from_secs(30),
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
            list_bytes: 8 << 20,
            hello_bytes: 1 << 20,
            cursor_bytes: 4 << 10,
            pace: Pace {
                bytes: 10 << 10,
                within: Duration::from_secs(10),
            },
            stream_events: 10_000,
            stream_bytes: 8 << 20,
            stream_wait: Duration::from_secs(30),
            noise_lines: 1_000,
            stderr_bytes: 64 << 10,
            server_requests: 100,
        }
    }
}
