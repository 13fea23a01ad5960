//! Reading an event stream (`text/event-stream`): bytes in, the data of each event out.
//!
//! Only `data` counts here; `event`, `id`, `retry` and comments are read past. Lines end with LF, CRLF or CR, and bytes
//! may be cut anywhere, also inside a character or between CR and LF.
//!
//! Invariant: what is kept is never more than the limit for one message and what one `push` brought.

use std::collections::VecDeque;

use crate::wire::error::WireError;

/// One stream.
pub(super) struct Events {
    pending: VecDeque<u8>,
    line: Vec<u8>,
    data: Option<Vec<u8>>,
    after_return: bool,
    seen: usize,
    message_bytes: usize,
    most: usize,
}

impl Events {
    /// A stream of at most `most` events of at most `message_bytes` each.
    pub(super) fn new(message_bytes: usize, most: usize) -> Events {
        Events {
            pending: VecDeque::new(),
            line: Vec::new(),
            data: None,
            after_return: false,
            seen: 0,
            message_bytes,
            most,
        }
    }

    /// More bytes of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend(bytes);
    }

    /// The data of the next event that is there in whole. An event without data is none.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, WireError> {
        while let Some(byte) = self.pending.pop_front() {
            let second_of_two = std::mem::replace(&mut self.after_return, byte == b'\r') && byte == b'\n';
            if second_of_two {
                continue;
            }
            if byte == b'\r' || byte == b'\n' {
                if let Some(data) = self.end_line()? {
                    return Ok(Some(data));
                }
                continue;
            }
            self.line.push(byte);
            if self.line.len() + self.data.as_ref().map_or(0, Vec::len) > self.message_bytes {
                return Err(WireError::OverLimit {
                    what: "bytes in one message",
                    limit: self.message_bytes,
                });
            }
        }
        Ok(None)
    }

    fn end_line(&mut self) -> Result<Option<Vec<u8>>, WireError> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            self.seen += 1;
            if self.seen > self.most {
                return Err(WireError::OverLimit {
                    what: "events in one answer",
                    limit: self.most,
                });
            }
            return Ok(self.data.take().filter(|data| !data.is_empty()));
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (
                &line[..colon],
                line[colon + 1..].strip_prefix(b" ").unwrap_or(&line[colon + 1..]),
            ),
            None => (&line[..], &b""[..]),
        };
        // The byte order mark may stand before the first field only; a field never starts with it otherwise.
        if field == b"data" || field == b"\xef\xbb\xbfdata" {
            match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a stream that arrives in pieces of every size.
    fn check(stream: &str, expected: &[&str]) {
        for size in [1, 2, 3, stream.len().max(1)] {
            let mut events = Events::new(1_000, 100);
            let mut found = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                events.push(piece);
                while let Some(data) = events.next().unwrap() {
                    found.push(String::from_utf8(data).unwrap());
                }
            }
            assert_eq!(found, expected, "{stream:?} in pieces of {size}");
        }
    }

    #[test]
    fn the_three_line_ends_are_one() {
        check(
            "data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\n\n",
            &["a", "b", "c", "d"],
        );
    }

    #[test]
    fn data_of_several_lines_is_joined() {
        check("data: {\ndata:  \"a\": 1}\ndata\n\n", &["{\n \"a\": 1}\n"]);
    }

    #[test]
    fn comments_other_fields_and_empty_events_are_read_past() {
        check(
            ": hello\nid: 1\nretry: 5\ndata: \n\nevent: message\ndata:x\nid:2\n\n",
            &["x"],
        );
    }

    #[test]
    fn an_event_that_was_cut_off_is_none() {
        check("data: a\n\ndata: b\n", &["a"]);
    }

    #[test]
    fn a_long_event_and_an_endless_stream_stop_at_their_limits() {
        let mut events = Events::new(10, 100);
        events.push(b"data: 1\ndata: 2345678901");
        assert_eq!(
            events.next(),
            Err(WireError::OverLimit {
                what: "bytes in one message",
                limit: 10
            })
        );
        let mut events = Events::new(10, 2);
        events.push(b"\n\n\n");
        assert_eq!(
            events.next(),
            Err(WireError::OverLimit {
                what: "events in one answer",
                limit: 2
            })
        );
    }

    proptest::proptest! {
        #[test]
        fn where_a_stream_is_cut_makes_no_difference(
            stream in "(data: ?[a-c]{0,3}|:|id|\r|\n){0,30}",
            cuts in proptest::collection::vec(1..4_usize, 1..40),
        ) {
            let read = |pieces: &mut dyn Iterator<Item = &[u8]>| {
                let mut events = Events::new(1_000, 1_000);
                let mut found = Vec::new();
                for piece in pieces {
                    events.push(piece);
                    while let Some(data) = events.next().unwrap() {
                        found.push(data);
                    }
                }
                found
            };
            let mut rest = stream.as_bytes();
            let mut cuts = cuts.iter().cycle();
            let mut pieces = std::iter::from_fn(|| {
                let (piece, after) = rest.split_at_checked(*cuts.next()?).unwrap_or((rest, &[]));
                rest = after;
                (!piece.is_empty()).then_some(piece)
            });
            let in_pieces = read(&mut pieces);
            proptest::prop_assert_eq!(in_pieces, read(&mut [stream.as_bytes()].into_iter()));
        }
    }
}
