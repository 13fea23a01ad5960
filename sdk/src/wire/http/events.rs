//! Reading an event stream (`text/event-stream`): bytes in, events out.
//!
//! Comments are read past, and so is an event without data, but for its id. Lines end with LF, CRLF or CR, and bytes may
//! be cut anywhere, also inside a character or between CR and LF.
//!
//! Invariant: what is kept is never more than the limit for one message and what one `push` brought.

use std::time::Duration;

use crate::wire::error::WireError;

/// The longest id that is kept; a server's longer one is taken for none.
const MAX_ID_BYTES: usize = 1_024;

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StreamEvent {
    /// `event`, where it was named.
    pub(crate) name: Option<Vec<u8>>,
    /// `id`, where it was given.
    pub(crate) id: Option<Vec<u8>>,
    /// `data`, its lines joined; never empty.
    pub(crate) data: Vec<u8>,
}

/// One stream.
pub(in crate::wire) struct Events {
    pending: Vec<u8>,
    start: usize,
    line: Vec<u8>,
    name: Option<Vec<u8>>,
    id: Option<Vec<u8>>,
    data: Option<Vec<u8>>,
    last_id: Option<Vec<u8>>,
    retry: Option<Duration>,
    after_return: bool,
    seen: usize,
    message_bytes: usize,
    most: usize,
}

impl Events {
    /// A stream of at most `most` events of at most `message_bytes` each.
    pub(in crate::wire) fn new(message_bytes: usize, most: usize) -> Events {
        Events {
            pending: Vec::new(),
            start: 0,
            line: Vec::new(),
            name: None,
            id: None,
            data: None,
            last_id: None,
            retry: None,
            after_return: false,
            seen: 0,
            message_bytes,
            most,
        }
    }

    /// More bytes of the stream.
    pub(in crate::wire) fn push(&mut self, bytes: &[u8]) {
        self.pending.drain(..self.start);
        self.start = 0;
        self.pending.extend_from_slice(bytes);
    }

    /// This stream goes on where another broke off, after the event of this id.
    pub(in crate::wire) fn go_on_after(&mut self, id: &[u8]) {
        self.last_id = Some(id.to_vec());
    }

    /// The id of the last event that was there in whole; `None` when the server gives none.
    pub(in crate::wire) fn last_id(&self) -> Option<&[u8]> {
        self.last_id.as_deref()
    }

    /// How long the server wants us to wait before the stream is opened again.
    pub(in crate::wire) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// The next event that is there in whole.
    pub(in crate::wire) fn next(&mut self) -> Result<Option<StreamEvent>, WireError> {
        while self.start < self.pending.len() {
            let rest = &self.pending[self.start..];
            if std::mem::take(&mut self.after_return) && rest.first() == Some(&b'\n') {
                self.start += 1;
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let piece = &rest[..end.unwrap_or(rest.len())];
            let kept = self.line.len() + self.data.as_ref().map_or(0, Vec::len);
            if kept + piece.len() > self.message_bytes {
                return Err(WireError::OverLimit {
                    what: "bytes in one message",
                    limit: self.message_bytes,
                });
            }
            self.line.extend_from_slice(piece);
            match end {
                None => self.start = self.pending.len(),
                Some(end) => {
                    self.after_return = rest.get(end) == Some(&b'\r');
                    self.start += end + 1;
                    if let Some(event) = self.end_line()? {
                        return Ok(Some(event));
                    }
                }
            }
        }
        Ok(None)
    }

    fn end_line(&mut self) -> Result<Option<StreamEvent>, WireError> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (
                &line[..colon],
                line[colon + 1..].strip_prefix(b" ").unwrap_or(&line[colon + 1..]),
            ),
            None => (&line[..], &b""[..]),
        };
        // The byte order mark may stand before the first field only; a field never starts with it otherwise.
        match field.strip_prefix(b"\xef\xbb\xbf").unwrap_or(field) {
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            b"event" if value.len() <= MAX_ID_BYTES => self.name = Some(value.to_vec()),
            b"id" if value.len() <= MAX_ID_BYTES && !value.contains(&0) => self.id = Some(value.to_vec()),
            b"retry" => {
                let number = std::str::from_utf8(value)
                    .ok()
                    .filter(|_| value.iter().all(u8::is_ascii_digit));
                if let Some(milliseconds) = number.and_then(|number| number.parse().ok()) {
                    self.retry = Some(Duration::from_millis(milliseconds));
                }
            }
            _ => {}
        }
        Ok(None)
    }

    fn end_event(&mut self) -> Result<Option<StreamEvent>, WireError> {
        self.seen = self.seen.saturating_add(1);
        if self.seen > self.most {
            return Err(WireError::OverLimit {
                what: "events in one answer",
                limit: self.most,
            });
        }
        let name = self.name.take();
        let id = self.id.take();
        if let Some(id) = &id {
            // An empty id takes the last one back.
            self.last_id = Some(id.clone()).filter(|id| !id.is_empty());
        }
        let data = self.data.take().filter(|data| !data.is_empty());
        Ok(data.map(|data| StreamEvent { name, id, data }))
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
                while let Some(event) = events.next().unwrap() {
                    found.push(String::from_utf8(event.data).unwrap());
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
    fn the_last_id_is_that_of_the_last_whole_event_also_of_one_without_data() {
        let mut events = Events::new(1_000, 100);
        events.push(b"id: 1\ndata:\nretry: 250\n\nevent: endpoint\ndata: /x\nid: 2\n");
        assert_eq!(events.next(), Ok(None));
        assert_eq!(events.last_id(), Some(&b"1"[..]));
        assert_eq!(events.retry(), Some(Duration::from_millis(250)));
        events.push(b"\nid\n\n");
        assert_eq!(
            events.next(),
            Ok(Some(StreamEvent {
                name: Some(b"endpoint".to_vec()),
                id: Some(b"2".to_vec()),
                data: b"/x".to_vec()
            }))
        );
        assert_eq!(events.last_id(), Some(&b"2"[..]));
        assert_eq!(events.next(), Ok(None));
        assert_eq!(events.last_id(), None);
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
                    while let Some(event) = events.next().unwrap() {
                        found.push(event);
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
