//! Standard input, output and error of a process.

use std::io::{self, Read, Write};

use super::capture::capture;
use super::host_stdin;
use super::taped_stdio::{TapedInput, TapedOutput};
use crate::base::errno::Errno;

/// Where standard input comes from.
#[derive(Default)]
pub enum Input {
    /// It is empty.
    #[default]
    Empty,
    /// It is these bytes.
    Bytes(io::Cursor<Vec<u8>>),
    /// It is the host process's standard input, read as the guest reads.
    Host,
    /// It is read from this as the guest reads; the guest waits where the reader waits.
    Reader(Box<dyn Read + Send>),
    /// It answers as it did when a tape was recorded.
    Taped(TapedInput),
}

impl Input {
    /// Whether its bytes come while the guest runs, so that a tape needs them read by read.
    pub(in crate::kernel) fn is_stream(&self) -> bool {
        matches!(self, Self::Host | Self::Reader(_) | Self::Taped(_))
    }

    /// Whether [`Input::wait`] may wait, or did when the tape was recorded.
    pub(in crate::kernel) fn may_block(&self) -> bool {
        match self {
            Self::Host => true,
            Self::Taped(taped) => taped.may_block(),
            Self::Empty | Self::Bytes(_) | Self::Reader(_) => false,
        }
    }

    /// Waits until it can be read, for `timeout_ns` at most; answers whether it can. Where that
    /// cannot be told, it always can: a read waits instead.
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
    /// As the host answers.
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

    /// Bytes that a read would answer at once, as far as that is known: a reader may have more.
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

/// Where standard output or standard error goes.
#[derive(Default)]
pub enum OutputStream {
    /// Nowhere.
    #[default]
    Discard,
    /// Into memory.
    Capture(Vec<u8>),
    /// To the host, while the guest runs: every write is flushed.
    Writer(Box<dyn Write + Send>),
    /// Into memory, and writes fail where they did when a tape was recorded.
    Taped(TapedOutput),
}

impl OutputStream {
    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// As the host answers, `EPIPE` when nobody reads any more.
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

    /// What was captured; empty if nothing was.
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
