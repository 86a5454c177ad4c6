//! Standard input, output and error of a process.

use std::io::{self, Read, Write};

use super::capture::capture;
use super::host_stdin;
use super::taped_stdio::{TapedInput, TapedOutput};
use crate::base::errno::Errno;

/// The source of standard input.
#[derive(Default)]
pub enum Input {
    /// Empty.
    #[default]
    Empty,
    /// These bytes.
    Bytes(io::Cursor<Vec<u8>>),
    /// The standard input of the host process, read as the guest reads.
    Host,
    /// A reader, read as the guest reads. If it blocks, the guest waits.
    Reader(Box<dyn Read + Send>),
    /// The answers on a tape.
    Taped(TapedInput),
}

impl Input {
    /// Returns whether bytes arrive while the guest runs, so that a tape records each read.
    pub(in crate::kernel) fn is_stream(&self) -> bool {
        matches!(self, Self::Host | Self::Reader(_) | Self::Taped(_))
    }

    /// Returns whether [`Input::wait`] may wait, or did so when the tape was recorded.
    pub(in crate::kernel) fn may_block(&self) -> bool {
        match self {
            Self::Host => true,
            Self::Taped(taped) => taped.may_block(),
            Self::Empty | Self::Bytes(_) | Self::Reader(_) => false,
        }
    }

    /// Waits until it is readable, for `timeout_ns` at most; returns whether it is. True if that cannot
    /// be told: a read waits instead.
    pub(in crate::kernel) fn wait(&mut self, timeout_ns: Option<u64>) -> bool {
        match self {
            Self::Host => host_stdin::wait(timeout_ns),
            Self::Taped(taped) => taped.wait(),
            Self::Empty | Self::Bytes(_) | Self::Reader(_) => true,
        }
    }

    /// Reads some bytes; 0 at the end.
    ///
    /// # Errors
    /// Errors of the host.
    pub fn read(&mut self, buf: &mut [u8]) -> Result<usize, Errno> {
        loop {
            let read = match self {
                Self::Empty => return Ok(0),
                Self::Bytes(bytes) => bytes.read(buf),
                Self::Host => host_stdin::read(buf),
                Self::Reader(reader) => reader.read(buf),
                Self::Taped(taped) => return taped.read(buf),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map_err(|error| Errno::from_io(&error)),
            }
        }
    }

    /// Bytes that a read would return at once, if known: a reader may have more.
    pub fn available(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Bytes(bytes) => {
                Some((bytes.get_ref().len() as u64).saturating_sub(bytes.position()))
            }
            Self::Host | Self::Reader(_) | Self::Taped(_) => None,
        }
    }
}

/// The destination of standard output or standard error.
#[derive(Default)]
pub enum OutputStream {
    /// Discarded.
    #[default]
    Discard,
    /// Kept in memory.
    Capture(Vec<u8>),
    /// Written and flushed at each write.
    Writer(Box<dyn Write + Send>),
    /// Kept in memory; writes fail where they did on a tape.
    Taped(TapedOutput),
}

impl OutputStream {
    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// Errors of the host; `EPIPE` if the reader has gone.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        match self {
            Self::Discard => Ok(()),
            Self::Capture(captured) => capture(captured, bytes),
            Self::Taped(taped) => taped.write(bytes),
            Self::Writer(writer) => writer
                .write_all(bytes)
                .and_then(|()| writer.flush())
                .map_err(|error| Errno::from_io(&error)),
        }
    }

    /// The captured bytes, if any.
    pub fn into_captured(self) -> Vec<u8> {
        match self {
            Self::Capture(captured) => captured,
            Self::Taped(taped) => taped.into_captured(),
            Self::Discard | Self::Writer(_) => Vec::new(),
        }
    }
}

/// The three streams of a process.
#[derive(Default)]
pub struct Stdio {
    /// Descriptor 0.
    pub stdin: Input,
    /// Descriptor 1.
    pub stdout: OutputStream,
    /// Descriptor 2.
    pub stderr: OutputStream,
}
