//! Streams that a component reads.

use std::fmt;

use wasmtime::component::Resource;

use super::errors::{Failure, IoError, Origin};
use super::exchange;
use super::file_io::{Next, READ_BYTES_MAX, read_at};
use super::poll::Condition;
use crate::abi::Process;
use crate::base::errno::Errno;
use crate::kernel::guest::{Buffers, EventKind, Fault, Range, rights};
use crate::kernel::vfs::FileType;

/// `wasi:io/streams.input-stream`
#[derive(Clone, Copy)]
pub(in crate::abi) struct InputStream {
    source: Source,
    is_closed: bool,
}

/// Where the bytes of a stream come from.
#[derive(Clone, Copy)]
enum Source {
    /// A descriptor. `offset` is where the next bytes are in the file; `None` for what has no places. `is_kept` tells
    /// whether the stream keeps the descriptor open.
    Descriptor { fd: u32, offset: Option<u64>, is_kept: bool },
    /// The body of an answer, by its index.
    Body(u32),
}

impl fmt::Display for InputStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            Source::Descriptor { fd, .. } => write!(f, "fd={fd}"),
            Source::Body(body) => write!(f, "body={body}"),
        }
    }
}

impl InputStream {
    /// Standard input.
    pub fn standard() -> Self {
        let source = Source::Descriptor { fd: 0, offset: None, is_kept: false };
        Self { source, is_closed: false }
    }

    /// The body of an answer whose index is `body`.
    pub fn of_body(body: u32) -> Self {
        Self { source: Source::Body(body), is_closed: false }
    }

    /// What the descriptor `fd` has from `offset` on.
    ///
    /// # Errors
    /// `EBADF` unless it was opened for reading; `EISDIR`.
    pub fn of_file(process: &mut Process, fd: u32, offset: u64) -> Result<Self, Fault> {
        let stat = process.guest.fd_fdstat_get(fd)?;
        match stat.file_type {
            FileType::Directory => Err(Errno::Isdir.into()),
            _ if stat.rights_base & rights::FD_READ == 0 => Err(Errno::Badf.into()),
            file_type => {
                let offset = (file_type == FileType::RegularFile).then_some(offset);
                let source = Source::Descriptor { fd, offset, is_kept: true };
                Ok(Self { source, is_closed: false })
            }
        }
    }

    /// The descriptor that it keeps open.
    pub fn kept(&self) -> Option<u32> {
        match self.source {
            Source::Descriptor { fd, is_kept: true, .. } => Some(fd),
            Source::Descriptor { .. } | Source::Body(_) => None,
        }
    }

    /// Its descriptor, and where its next bytes are; none for what has no descriptor.
    pub fn origin(&self) -> Option<(u32, Next)> {
        match self.source {
            Source::Descriptor { fd, offset, .. } => {
                Some((fd, offset.map_or(Next::Here, Next::At)))
            }
            Source::Body(_) => None,
        }
    }

    /// When a read does not wait.
    pub fn readiness(&self) -> Condition {
        match self.source {
            Source::Descriptor { fd, offset: None, .. } => Condition::Readable(fd),
            // No time passes while the host waits for bytes.
            Source::Descriptor { .. } | Source::Body(_) => Condition::Met,
        }
    }
}

/// At most `len` bytes of `stream`: at least one if the call waits, as many as there are otherwise.
///
/// # Errors
/// `Closed` at the end.
pub(super) fn read(
    process: &mut Process,
    stream: &Resource<InputStream>,
    len: u64,
    waits: bool,
) -> Result<Vec<u8>, Failure> {
    let InputStream { source, is_closed } = *process.resource(stream)?;
    if is_closed {
        return Err(Failure::Closed);
    }
    if len == 0 {
        return Ok(Vec::new());
    }
    match source {
        Source::Descriptor { .. } if waits => process.guest.rest_if_busy()?,
        Source::Descriptor { fd, offset: None, .. } if !is_ready(process, fd)? => {
            return Ok(Vec::new());
        }
        Source::Descriptor { .. } | Source::Body(_) => {}
    }
    read_here(process, stream, len)
}

/// As [`read`], of a stream that is open: its bytes are waited for if it is not ready.
///
/// # Errors
/// As [`read`].
pub(in crate::abi) fn read_here(
    process: &mut Process,
    stream: &Resource<InputStream>,
    len: u64,
) -> Result<Vec<u8>, Failure> {
    let (fd, offset, is_kept) = match process.resource(stream)?.source {
        Source::Descriptor { fd, offset, is_kept } => (fd, offset, is_kept),
        Source::Body(body) => return read_body(process, stream, body, len),
    };
    let read = match offset {
        Some(offset) => read_at(process, fd, len, offset),
        None => read_next(process, fd, len),
    };
    let is_at_end = match &read {
        Ok(bytes) => bytes.is_empty(),
        Err(fault) => matches!(fault, Fault::Errno(_)),
    };
    let stream = process.resource(stream)?;
    stream.is_closed = is_at_end;
    match read {
        Ok(bytes) if bytes.is_empty() => Err(Failure::Closed),
        Ok(bytes) => {
            let offset = offset.map(|offset| offset + bytes.len() as u64);
            stream.source = Source::Descriptor { fd, offset, is_kept };
            Ok(bytes)
        }
        Err(Fault::Errno(errno)) => {
            let origin = if offset.is_some() { Origin::File } else { Origin::Stream };
            Err(Failure::Error(IoError { errno, origin }))
        }
        Err(fault) => Err(Failure::Halt(fault.into())),
    }
}

/// At most `len` bytes of the body of an answer.
fn read_body(
    process: &mut Process,
    stream: &Resource<InputStream>,
    body: u32,
    len: u64,
) -> Result<Vec<u8>, Failure> {
    let read = exchange::read(process, body, len)?;
    process.resource(stream)?.is_closed = read.as_ref().map_or(true, Vec::is_empty);
    match read {
        Ok(bytes) if bytes.is_empty() => Err(Failure::Closed),
        Ok(bytes) => Ok(bytes),
        Err(code) => {
            let origin = Origin::Http(Box::new(code));
            Err(Failure::Error(IoError { errno: Errno::Io, origin }))
        }
    }
}

/// Whether `fd` has bytes, or is at its end. If not, other processes get a turn first.
fn is_ready(process: &mut Process, fd: u32) -> Result<bool, Failure> {
    let is_ready = process.guest.fd_is_ready(fd, EventKind::FdRead)?;
    if !is_ready {
        process.guest.sched_yield()?;
    }
    Ok(is_ready)
}

/// The next bytes of `fd`, at least one unless it is at its end.
fn read_next(process: &mut Process, fd: u32, len: u64) -> Result<Vec<u8>, Fault> {
    // A pipe has no more.
    let mut bytes = vec![0; len.min(READ_BYTES_MAX / 16) as usize];
    let range = Range { start: 0, len: bytes.len() };
    let buffers = &mut Buffers::new(&mut bytes, std::iter::once(range).collect());
    let count = process.guest.fd_read(fd, buffers)?;
    bytes.truncate(count as usize);
    Ok(bytes)
}

/// As [`read`], without the bytes: returns how many there were.
///
/// # Errors
/// As [`read`].
pub(super) fn skip(
    process: &mut Process,
    stream: &Resource<InputStream>,
    len: u64,
    waits: bool,
) -> Result<u64, Failure> {
    read(process, stream, len, waits).map(|bytes| bytes.len() as u64)
}
