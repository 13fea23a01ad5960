//! Our own stdin and stdout, without a thread in between where they are pipes or sockets, as hosts give them; and the
//! signals that end us.
//!
//! Invariant: whoever shares them with us finds them as they were once we are done, and our stderr, which the server
//! shares too, always.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream as Socket;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Our stdin.
pub struct OwnInput(Input);

/// Our stdout.
pub struct OwnOutput(Output);

enum Input {
    Pipe(Option<pipe::Receiver>),
    Socket(Option<UnixStream>),
    /// A file or a terminal.
    Other(tokio::io::Stdin),
}

enum Output {
    Pipe(Option<pipe::Sender>),
    Socket(Option<UnixStream>),
    Other(tokio::io::Stdout),
}

enum Kind {
    Pipe(OwnedFd),
    Socket(UnixStream),
    Other,
}

impl OwnInput {
    /// Must be called within a Tokio runtime with I/O, and once: a second one would take half of the bytes.
    pub fn open() -> io::Result<OwnInput> {
        Ok(OwnInput(match kind(io::stdin())? {
            Kind::Pipe(pipe) => Input::Pipe(Some(pipe::Receiver::from_owned_fd(pipe)?)),
            Kind::Socket(socket) => Input::Socket(Some(socket)),
            Kind::Other => Input::Other(tokio::io::stdin()),
        }))
    }
}

impl OwnOutput {
    /// Must be called within a Tokio runtime with I/O.
    pub fn open() -> io::Result<OwnOutput> {
        Ok(OwnOutput(match kind(io::stdout())? {
            Kind::Pipe(pipe) => Output::Pipe(Some(pipe::Sender::from_owned_fd(pipe)?)),
            Kind::Socket(socket) => Output::Socket(Some(socket)),
            Kind::Other => Output::Other(tokio::io::stdout()),
        }))
    }
}

fn kind(stream: impl AsFd) -> io::Result<Kind> {
    let file = File::from(stream.as_fd().try_clone_to_owned()?);
    let metadata = file.metadata()?;
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?).metadata()?;
    if (metadata.dev(), metadata.ino()) == (stderr.dev(), stderr.ino()) {
        // Not to wait is a property of the pipe: our stderr, and the server's, would have it too.
        return Ok(Kind::Other);
    }
    if metadata.file_type().is_fifo() {
        return Ok(Kind::Pipe(file.into()));
    }
    if metadata.file_type().is_socket() {
        let socket = Socket::from(OwnedFd::from(file));
        socket.set_nonblocking(true)?;
        return Ok(Kind::Socket(UnixStream::from_std(socket)?));
    }
    Ok(Kind::Other)
}

fn make_blocking(socket: &mut Option<UnixStream>) {
    if let Some(socket) = socket.take()
        && let Ok(socket) = socket.into_std()
    {
        // There is nobody left to tell about an error.
        let _ = socket.set_nonblocking(false);
    }
}

impl Drop for OwnInput {
    fn drop(&mut self) {
        match &mut self.0 {
            Input::Pipe(pipe) => drop(pipe.take().map(pipe::Receiver::into_blocking_fd)),
            Input::Socket(socket) => make_blocking(socket),
            Input::Other(_) => {}
        }
    }
}

impl Drop for OwnOutput {
    fn drop(&mut self) {
        match &mut self.0 {
            Output::Pipe(pipe) => drop(pipe.take().map(pipe::Sender::into_blocking_fd)),
            Output::Socket(socket) => make_blocking(socket),
            Output::Other(_) => {}
        }
    }
}

impl OwnInput {
    fn stream(self: Pin<&mut Self>) -> Option<Pin<&mut (dyn AsyncRead + Unpin)>> {
        Some(match &mut self.get_mut().0 {
            Input::Pipe(pipe) => Pin::new(pipe.as_mut()?),
            Input::Socket(socket) => Pin::new(socket.as_mut()?),
            Input::Other(stdin) => Pin::new(stdin),
        })
    }
}

impl OwnOutput {
    fn stream(self: Pin<&mut Self>) -> io::Result<Pin<&mut (dyn AsyncWrite + Unpin)>> {
        Ok(match &mut self.get_mut().0 {
            Output::Pipe(pipe) => Pin::new(pipe.as_mut().ok_or(io::ErrorKind::BrokenPipe)?),
            Output::Socket(socket) => Pin::new(socket.as_mut().ok_or(io::ErrorKind::BrokenPipe)?),
            Output::Other(stdout) => Pin::new(stdout),
        })
    }
}

impl AsyncRead for OwnInput {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.stream() {
            Some(stream) => stream.poll_read(context, buffer),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for OwnOutput {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write_vectored(context, slices)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(context)
    }
}

/// What tells a program to end: SIGINT, SIGTERM, and SIGHUP when its terminal is closed.
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl StopSignals {
    /// From now on these signals don't end the process by themselves.
    pub fn listen() -> io::Result<StopSignals> {
        Ok(StopSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for one of them.
    pub async fn recv(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
