//! Streams that a component reads.

use wasmtime::component::Resource;

use super::errors::{Failure, IoError};
use super::file_io::{READ_BYTES_MAX, read_at};
use crate::abi::Process;
use crate::base::errno::Errno;
use crate::kernel::guest::{Buffers, EventKind, Fault, Range, rights};
use crate::kernel::vfs::FileType;

/// `wasi:io/streams.input-stream`
#[derive(Clone, Copy)]
pub(super) struct InputStream {
    pub fd: u32,
    /// Where the next bytes are in the file; `None` for what has no places.
    offset: Option<u64>,
    /// Whether the stream keeps the descriptor open.
    pub is_kept: bool,
    is_closed: bool,
}

impl InputStream {
    /// Standard input.
    pub fn standard() -> Self {
        Self { fd: 0, offset: None, is_kept: false, is_closed: false }
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
                Ok(Self { fd, offset, is_kept: true, is_closed: false })
            }
        }
    }

    /// Whether a read never waits.
    pub fn is_file(&self) -> bool {
        self.offset.is_some()
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
    let InputStream { fd, offset, is_closed, .. } = *process.resource(stream)?;
    if is_closed {
        return Err(Failure::Closed);
    }
    if len == 0 {
        return Ok(Vec::new());
    }
    let read = match offset {
        Some(offset) => read_at(process, fd, len, offset),
        None if !waits && !is_ready(process, fd)? => return Ok(Vec::new()),
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
            stream.offset = offset.map(|offset| offset + bytes.len() as u64);
            Ok(bytes)
        }
        Err(Fault::Errno(errno)) => {
            Err(Failure::Errno(IoError { errno, is_of_file: offset.is_some() }))
        }
        Err(fault) => Err(Failure::Halt(fault.into())),
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
