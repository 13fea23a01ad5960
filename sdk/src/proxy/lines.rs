//! One end of a connection in lines: what comes in is cut into messages, what goes out waits in a queue.
//!
//! A message is what stands before a `\n`; a `\r` in front of it stays the message's last byte (white space to any JSON
//! reader), so that a line that is passed on is the same to the byte. Everything here is polled and nothing is lost
//! between two polls.
//!
//! Invariant: no long message is copied more than once on its way, and no more memory is kept than for what has not been
//! sent, and for one piece of short messages.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

/// Room that there is for each read: as much as a pipe holds.
const READ_BYTES: usize = 64 << 10;

/// From this length on a line that stands alone in the buffer takes the buffer with it, and is not copied.
const OWN_BUFFER_BYTES: usize = 16 << 10;

/// Messages up to this length are put together, so that a burst of them goes out in one piece.
const SHORT_BYTES: usize = 4 << 10;

/// The longest such piece.
const PIECE_BYTES: usize = 32 << 10;

/// How many pieces go into one write.
const PIECES_AT_ONCE: usize = 32;

/// A line that is longer than a message may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

/// What comes in.
pub(super) struct Incoming<R> {
    stream: Option<R>,
    /// Bytes before `start` were given out; between `start` and `searched` there is no line end.
    buffer: Vec<u8>,
    start: usize,
    searched: usize,
    message_bytes: usize,
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    pub(super) fn new(stream: R, message_bytes: usize) -> Incoming<R> {
        Incoming {
            stream: Some(stream),
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            message_bytes,
        }
    }

    /// Whether anything can still come.
    pub(super) fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Reads no more.
    pub(super) fn close(&mut self) {
        self.stream = None;
        self.buffer = Vec::new();
        self.start = 0;
        self.searched = 0;
    }

    /// Reads once. `false`: nothing more comes. An error of the stream is its end, since neither can be read past.
    pub(super) fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(false);
        };
        if self.buffer.capacity() - self.buffer.len() < READ_BYTES / 4 {
            self.buffer.reserve(READ_BYTES);
        }
        match pin!(stream.read_buf(&mut self.buffer)).poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(1..)) => Poll::Ready(true),
            Poll::Ready(Ok(0) | Err(_)) => {
                self.stream = None;
                Poll::Ready(false)
            }
        }
    }

    /// The next message. Once nothing more comes, what stands after the last line end is one too.
    pub(super) fn next(&mut self) -> Option<Result<Vec<u8>, TooLong>> {
        let found = memchr::memchr(b'\n', &self.buffer[self.searched..]);
        let end = match found {
            Some(offset) => self.searched + offset,
            None if self.stream.is_none() && self.start < self.buffer.len() => self.buffer.len(),
            None => return self.rest(),
        };
        if end - self.start > self.message_bytes {
            return Some(Err(TooLong));
        }
        let after = (end + 1).min(self.buffer.len());
        if self.start == 0 && after == self.buffer.len() && end >= OWN_BUFFER_BYTES {
            let mut line = std::mem::take(&mut self.buffer);
            line.truncate(end);
            self.searched = 0;
            return Some(Ok(line));
        }
        // One byte more, for the line end that it goes out with.
        let mut line = Vec::with_capacity(end - self.start + 1);
        line.extend_from_slice(&self.buffer[self.start..end]);
        self.start = after;
        self.searched = after;
        Some(Ok(line))
    }

    /// Makes room: what was given out goes, what has no end yet is kept.
    fn rest(&mut self) -> Option<Result<Vec<u8>, TooLong>> {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.searched = self.buffer.len();
        (self.buffer.len() > self.message_bytes).then_some(Err(TooLong))
    }
}

/// What goes out.
pub(super) struct Outgoing<W> {
    stream: Option<W>,
    /// One message or several, each with its line end.
    pieces: VecDeque<Vec<u8>>,
    /// A piece that went out and has room for other short messages.
    spare: Vec<u8>,
    /// How much of the first piece is written.
    written: usize,
    /// How much waits in all.
    bytes: usize,
    flushed: bool,
    closing: bool,
}

impl<W: AsyncWrite + Unpin> Outgoing<W> {
    pub(super) fn new(stream: W) -> Outgoing<W> {
        Outgoing {
            stream: Some(stream),
            pieces: VecDeque::new(),
            spare: Vec::new(),
            written: 0,
            bytes: 0,
            flushed: true,
            closing: false,
        }
    }

    /// Puts a message at the end. To a stream that is closed, or about to be, nothing is said.
    pub(super) fn push(&mut self, mut message: Vec<u8>) {
        if self.stream.is_none() || self.closing {
            return;
        }
        message.push(b'\n');
        self.bytes += message.len();
        if message.len() > SHORT_BYTES {
            return self.pieces.push_back(message);
        }
        match self.pieces.back_mut() {
            Some(last) if last.len() + message.len() <= PIECE_BYTES => last.extend_from_slice(&message),
            _ if self.spare.capacity() >= message.len() => {
                let mut piece = std::mem::take(&mut self.spare);
                piece.extend_from_slice(&message);
                self.pieces.push_back(piece);
            }
            _ => self.pieces.push_back(message),
        }
    }

    /// How many bytes wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether all that was put in is out.
    pub(super) fn is_drained(&self) -> bool {
        self.pieces.is_empty() && self.flushed
    }

    /// Whether nothing can be written any more.
    pub(super) fn is_closed(&self) -> bool {
        self.stream.is_none()
    }

    /// Closes the stream once everything is out; whether that is news.
    pub(super) fn close(&mut self) -> bool {
        !std::mem::replace(&mut self.closing, true)
    }

    /// Closes it now, and forgets what waits.
    pub(super) fn abandon(&mut self) {
        self.stream = None;
        self.pieces.clear();
        self.spare = Vec::new();
        self.bytes = 0;
        self.flushed = true;
    }

    /// Writes as much as goes out at once; whether anything did.
    pub(super) fn write(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        let mut moved = false;
        loop {
            let Some(stream) = self.stream.as_mut().map(Pin::new) else {
                return Ok(moved);
            };
            if self.pieces.is_empty() {
                if !self.flushed {
                    match stream.poll_flush(context)? {
                        Poll::Ready(()) => self.flushed = true,
                        Poll::Pending => return Ok(moved),
                    }
                }
                if self.closing
                    && let Some(stream) = self.stream.as_mut().map(Pin::new)
                    && stream.poll_shutdown(context)?.is_ready()
                {
                    self.stream = None;
                    moved = true;
                }
                return Ok(moved);
            }
            let sent = match self.pieces.as_slices().0 {
                [only] => stream.poll_write(context, &only[self.written..])?,
                several => {
                    let mut slices = [IoSlice::new(&[]); PIECES_AT_ONCE];
                    let mut count = 0;
                    for (slice, piece) in slices.iter_mut().zip(several) {
                        *slice = IoSlice::new(piece);
                        count += 1;
                    }
                    slices[0].advance(self.written);
                    stream.poll_write_vectored(context, &slices[..count])?
                }
            };
            match sent {
                Poll::Pending => return Ok(moved),
                Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(sent) => self.advance(sent),
            }
            moved = true;
        }
    }

    fn advance(&mut self, sent: usize) {
        self.bytes -= sent;
        self.written += sent;
        self.flushed = false;
        while let Some(first) = self.pieces.front()
            && self.written >= first.len()
        {
            self.written -= first.len();
            if let Some(mut piece) = self.pieces.pop_front()
                && (self.spare.capacity()..=PIECE_BYTES).contains(&piece.capacity())
            {
                piece.clear();
                self.spare = piece;
            }
        }
        if self.pieces.is_empty() {
            // A burst of answers is no reason to keep room for the next.
            self.pieces.shrink_to(PIECES_AT_ONCE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::future::poll_fn;

    /// The messages that come out of these pieces, each given at one read.
    async fn cut(pieces: &[Vec<u8>], message_bytes: usize) -> Vec<Result<Vec<u8>, TooLong>> {
        let mut builder = Pieces(pieces.iter().filter(|piece| !piece.is_empty()).cloned().collect());
        let mut incoming = Incoming::new(&mut builder, message_bytes);
        let mut found = Vec::new();
        loop {
            let more = poll_fn(|context| incoming.poll_fill(context)).await;
            while let Some(message) = incoming.next() {
                let is_end = message.is_err();
                found.push(message);
                if is_end {
                    return found;
                }
            }
            if !more {
                return found;
            }
        }
    }

    struct Pieces(VecDeque<Vec<u8>>);

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _context: &mut Context<'_>,
            buffer: &mut tokio::io::ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if let Some(mut piece) = self.0.pop_front() {
                let rest = piece.split_off(piece.len().min(buffer.remaining()));
                buffer.put_slice(&piece);
                if !rest.is_empty() {
                    self.0.push_front(rest);
                }
            }
            Poll::Ready(Ok(()))
        }
    }

    /// Takes `step` bytes at each second write, and none at the others.
    struct Slow {
        taken: Vec<u8>,
        step: usize,
        ready: bool,
    }

    impl AsyncWrite for Slow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.ready = !self.ready;
            if !self.ready {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let count = bytes.len().min(self.step);
            self.taken.extend_from_slice(&bytes[..count]);
            Poll::Ready(Ok(count))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            self.as_mut().poll_write(context, &bytes)
        }

        fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    proptest! {
        #[test]
        fn messages_are_the_lines_however_they_are_cut_and_however_they_go_out(
            lines in proptest::collection::vec("[a-z\r ]{0,9}", 0..20),
            last in "[a-z]{0,3}",
            cuts in proptest::collection::vec(0_usize..200, 0..20),
            step in 1_usize..30,
        ) {
            let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>() + &last;
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<Vec<u8>> = cuts.windows(2).map(|pair| text.as_bytes()[pair[0]..pair[1]].to_vec()).collect();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let found = runtime.block_on(cut(&pieces, 100));
            let mut expected: Vec<Vec<u8>> = lines.iter().map(|line| line.clone().into_bytes()).collect();
            expected.extend((!last.is_empty()).then(|| last.clone().into_bytes()));
            prop_assert_eq!(&found, &expected.iter().cloned().map(Ok).collect::<Vec<_>>());

            let mut slow = Slow { taken: Vec::new(), step, ready: false };
            let mut outgoing = Outgoing::new(&mut slow);
            expected.iter().cloned().for_each(|message| outgoing.push(message));
            runtime.block_on(poll_fn(|context| match outgoing.write(context) {
                Ok(_) if outgoing.is_drained() => Poll::Ready(()),
                Ok(_) => Poll::Pending,
                Err(error) => panic!("{error}"),
            }));
            prop_assert_eq!(outgoing.bytes(), 0);
            let end = if last.is_empty() { "" } else { "\n" };
            prop_assert_eq!(slow.taken, (text + end).into_bytes());
        }
    }

    #[tokio::test]
    async fn a_long_line_takes_the_buffer_with_it() {
        let line = vec![b'x'; 3 << 20];
        let text = [line.clone(), b"\nshort\n".to_vec()].concat();
        assert_eq!(cut(&[text], 3 << 20).await, [Ok(line), Ok(b"short".to_vec())]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_known_before_and_after_its_end() {
        assert_eq!(
            cut(&[b"ab\nabcd".to_vec()], 3).await,
            [Ok(b"ab".to_vec()), Err(TooLong)]
        );
        assert_eq!(cut(&[b"abcd\n".to_vec()], 3).await, [Err(TooLong)]);
        assert_eq!(cut(&[b"abc\n".to_vec()], 3).await, [Ok(b"abc".to_vec())]);
    }
}
