//! The bytes of an HTTP answer's body, counted as they come.
//!
//! A body that is packed although that was declined is unpacked where it is packed once and with gzip: there are servers
//! that pack whatever is asked of them, and their other clients never notice. Everything else stays unread.
//!
//! Invariant: every byte is counted before it is kept, both as it came and unpacked; nothing is unpacked beyond the limit
//! of whoever reads, nor beyond a hundred times what came.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::GzDecoder;
use reqwest::Response;
use reqwest::header::{self, HeaderMap};
use tokio::time::{Instant, timeout_at};

use crate::wire::error::WireError;
use crate::wire::http::HttpError;
use crate::wire::limits::{Limits, Pace};

/// How many times its size a packed body may be when it is unpacked.
const MAX_RATIO: usize = 100;

/// What a packed body may come to whatever its size: little repeats itself so much that it is worth a look.
const FREE_OF_RATIO: usize = 64 << 10;

/// What may still come in a conversation, and how.
pub(in crate::wire) struct Budget {
    received: usize,
    limit: usize,
    /// How slowly a body that is no stream may come.
    pace: Pace,
    /// Bytes of one stream.
    stream_bytes: usize,
}

impl Budget {
    /// For the gate, whose conversations last as long as somebody wants them to.
    pub(in crate::wire) fn endless() -> Budget {
        Budget {
            received: 0,
            limit: usize::MAX,
            pace: Pace::ANY,
            stream_bytes: usize::MAX,
        }
    }

    pub(in crate::wire) fn of(limits: &Limits) -> Budget {
        Budget {
            received: 0,
            limit: limits.total_bytes,
            pace: limits.pace,
            stream_bytes: limits.stream_bytes,
        }
    }

    fn spend(&mut self, bytes: usize) -> Result<(), WireError> {
        self.received = self.received.saturating_add(bytes);
        if self.received > self.limit {
            return Err(WireError::OverLimit {
                what: "bytes in all",
                limit: self.limit,
            });
        }
        Ok(())
    }
}

/// A body that is being read.
pub(in crate::wire) struct Body {
    response: Response,
    unpacking: Option<Box<GzDecoder<Unpacked>>>,
    /// Bytes as they came.
    received: usize,
    /// Bytes given to the reader.
    given: usize,
    ended: bool,
}

impl Body {
    /// The body of this answer; an error when it is packed in a way that is not read.
    pub(in crate::wire) fn of(response: Response) -> Result<Body, WireError> {
        let unpacking = match packed_as(response.headers()).as_str() {
            "" | "identity" => None,
            "gzip" | "x-gzip" => Some(Box::new(GzDecoder::new(Unpacked::default()))),
            other => {
                return Err(WireError::NotMcp {
                    reason: format!(
                        "HTTP {} is packed as `{other}`, though that was declined",
                        response.status()
                    ),
                });
            }
        };
        Ok(Body {
            response,
            unpacking,
            received: 0,
            given: 0,
            ended: false,
        })
    }

    /// The body's next bytes, never none; `None` at its end. `what` and `limit` say how many there may be. Safe to drop
    /// half-way.
    async fn chunk(
        &mut self,
        what: &'static str,
        limit: usize,
        budget: &mut Budget,
    ) -> Result<Option<Bytes>, WireError> {
        while !self.ended {
            let chunk = self.response.chunk().await.map_err(|error| broken(&error))?;
            self.ended = chunk.is_none();
            let mut chunk = chunk.unwrap_or_default();
            budget.spend(chunk.len())?;
            self.received = self.received.saturating_add(chunk.len());
            if self.unpacking.is_some() {
                chunk = self.unpack(&chunk, what, limit)?.into();
                budget.spend(chunk.len())?;
            }
            self.given = self.given.saturating_add(chunk.len());
            if self.given > limit {
                return Err(WireError::OverLimit { what, limit });
            }
            if !chunk.is_empty() {
                return Ok(Some(chunk));
            }
        }
        Ok(None)
    }

    /// What these bytes come to, as far as they are within both bounds.
    fn unpack(&mut self, packed: &[u8], what: &'static str, limit: usize) -> Result<Vec<u8>, WireError> {
        let Some(decoder) = &mut self.unpacking else {
            return Ok(packed.to_vec());
        };
        let by_limit = limit.saturating_sub(self.given);
        let by_ratio = self.received.saturating_mul(MAX_RATIO).max(FREE_OF_RATIO);
        let by_ratio = by_ratio.saturating_sub(self.given);
        decoder.get_mut().room = by_limit.min(by_ratio);
        let mut done = decoder.write_all(packed).and_then(|()| decoder.flush());
        if self.ended {
            done = done.and_then(|()| decoder.try_finish());
        }
        match done {
            Ok(()) => Ok(std::mem::take(&mut decoder.get_mut().bytes)),
            Err(error) if error.kind() != io::ErrorKind::FileTooLarge => Err(WireError::NotMcp {
                reason: "the answer is packed, though that was declined, and can't be unpacked".to_owned(),
            }),
            Err(_) if by_ratio < by_limit => Err(WireError::OverLimit {
                what: "times the size that the answer was packed in",
                limit: MAX_RATIO,
            }),
            Err(_) => Err(WireError::OverLimit { what, limit }),
        }
    }

    /// The next bytes of a stream.
    pub(in crate::wire) async fn next(&mut self, budget: &mut Budget) -> Result<Option<Bytes>, WireError> {
        let limit = budget.stream_bytes;
        self.chunk("bytes in one stream", limit, budget).await
    }

    /// All of it: one message, which comes at the pace that is asked for.
    pub(in crate::wire) async fn whole(
        mut self,
        limit: usize,
        budget: &mut Budget,
    ) -> Result<Vec<u8>, WireError> {
        let mut body = Vec::new();
        let Pace { bytes, within } = budget.pace;
        let mut seen = 0;
        let mut span_ends = Instant::now().checked_add(within).filter(|_| bytes > 0);
        loop {
            let next = self.chunk("bytes in one message", limit, budget);
            let next = match span_ends {
                Some(end) => timeout_at(end, next).await.ok(),
                None => Some(next.await),
            };
            match next {
                Some(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
                Some(Ok(None)) => return Ok(body),
                Some(Err(error)) => return Err(error),
                None => {}
            }
            // A drip that is always just there never lets the time run out above.
            if span_ends.is_some_and(|end| Instant::now() >= end) {
                if self.received - seen < bytes {
                    return Err(WireError::TooSlow { bytes, within });
                }
                seen = self.received;
                span_ends = Instant::now().checked_add(within);
            }
        }
    }
}

/// Every packing that the head names, in lower case; empty where it names none.
fn packed_as(headers: &HeaderMap) -> String {
    let values = headers.get_all(header::CONTENT_ENCODING).iter();
    let values: Vec<_> = values
        .map(|value| {
            String::from_utf8_lossy(value.as_bytes())
                .trim()
                .to_ascii_lowercase()
        })
        .collect();
    values.join(", ")
}

/// Unpacked bytes that nobody took yet.
#[derive(Default)]
struct Unpacked {
    bytes: Vec<u8>,
    /// How many there may be.
    room: usize,
}

impl Write for Unpacked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len().saturating_add(bytes.len()) > self.room {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn broken(error: &reqwest::Error) -> WireError {
    if error.is_timeout() {
        return HttpError::TimedOut.into();
    }
    HttpError::Unreachable {
        reason: "the connection broke while the answer was read".to_owned(),
    }
    .into()
}
