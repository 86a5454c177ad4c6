//! Streams that a component writes.

use std::fmt;

use wasmtime::component::Resource;

use super::call::Halt;
use super::errors::{Failure, IoError, Origin};
use super::exchange;
use super::file_io::{Next, write_at};
use super::poll::Condition;
use crate::abi::Process;
use crate::base::errno::Errno;
use crate::kernel::guest::{Fault, rights};
use crate::kernel::vfs::FileType;

/// Bytes that may be written at once to what never waits.
const PERMIT_BYTES: u64 = 1 << 20;

/// `wasi:io/streams.output-stream`
#[derive(Clone, Copy)]
pub(in crate::abi) struct OutputStream {
    sink: Sink,
    is_closed: bool,
    /// Bytes that the last `check-write` allows.
    permit: u64,
}

/// Where the bytes of a stream go.
#[derive(Clone, Copy)]
enum Sink {
    /// A descriptor. `is_kept` tells whether the stream keeps it open.
    Descriptor { fd: u32, place: Place, is_kept: bool },
    /// The body of a request, by its index.
    Body(u32),
}

impl fmt::Display for OutputStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sink {
            Sink::Descriptor { fd, .. } => write!(f, "fd={fd}"),
            Sink::Body(body) => write!(f, "body={body}"),
        }
    }
}

/// Where the next bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    At(u64),
    End,
    /// It has no places: a pipe, a device, a stream of the machine.
    Next,
}

impl OutputStream {
    /// Standard output, or error.
    pub fn standard(fd: u32) -> Self {
        Self::of(Sink::Descriptor { fd, place: Place::Next, is_kept: false })
    }

    /// The body of a request whose index is `body`.
    pub fn of_body(body: u32) -> Self {
        Self::of(Sink::Body(body))
    }

    fn of(sink: Sink) -> Self {
        Self { sink, is_closed: false, permit: 0 }
    }

    /// Writes to the descriptor `fd` at `offset`, or at its end.
    ///
    /// # Errors
    /// `EBADF` unless it was opened for writing; `EISDIR`.
    pub fn of_file(process: &mut Process, fd: u32, offset: Option<u64>) -> Result<Self, Fault> {
        let stat = process.guest.fd_fdstat_get(fd)?;
        let place = match (stat.file_type, offset) {
            (FileType::Directory, _) => return Err(Errno::Isdir.into()),
            _ if stat.rights_base & rights::FD_WRITE == 0 => return Err(Errno::Badf.into()),
            (FileType::RegularFile, Some(offset)) => Place::At(offset),
            (FileType::RegularFile, None) => Place::End,
            _ => Place::Next,
        };
        Ok(Self::of(Sink::Descriptor { fd, place, is_kept: true }))
    }

    /// The descriptor that it keeps open.
    pub fn kept(&self) -> Option<u32> {
        match self.sink {
            Sink::Descriptor { fd, is_kept: true, .. } => Some(fd),
            Sink::Descriptor { .. } | Sink::Body(_) => None,
        }
    }

    /// Its descriptor, and where its next bytes go; none for what has no descriptor.
    pub fn destination(&self) -> Option<(u32, Next)> {
        match self.sink {
            Sink::Descriptor { fd, place, .. } => {
                let next = match place {
                    Place::At(offset) => Next::At(offset),
                    Place::End => Next::End,
                    Place::Next => Next::Here,
                };
                Some((fd, next))
            }
            Sink::Body(_) => None,
        }
    }

    /// When a write does not wait.
    pub fn readiness(&self) -> Condition {
        match self.sink {
            Sink::Descriptor { fd, place: Place::Next, .. } => Condition::Writable(fd),
            Sink::Descriptor { .. } | Sink::Body(_) => Condition::Met,
        }
    }
}

/// Bytes that may be written to `stream` now.
///
/// # Errors
/// `Closed` after a failed write.
pub(super) fn check_write(
    process: &mut Process,
    stream: &Resource<OutputStream>,
) -> Result<u64, Failure> {
    let permit = room_now(process, stream)?;
    if permit == 0 {
        // Whoever asks again and again waits for another process.
        process.guest.sched_yield()?;
    }
    process.resource(stream)?.permit = permit;
    Ok(permit)
}

/// Bytes that can be written to `stream` without a wait.
///
/// # Errors
/// `Closed` after a failed write.
pub(in crate::abi) fn room_now(
    process: &mut Process,
    stream: &Resource<OutputStream>,
) -> Result<u64, Failure> {
    let OutputStream { sink, is_closed, .. } = *process.resource(stream)?;
    if is_closed {
        return Err(Failure::Closed);
    }
    Ok(match sink {
        Sink::Descriptor { fd, place: Place::Next, .. } => {
            process.guest.fd_room(fd).map_err(Halt::Unsaid)?.unwrap_or(PERMIT_BYTES)
        }
        Sink::Descriptor { .. } | Sink::Body(_) => PERMIT_BYTES,
    })
}

/// Checks that `stream` is open.
///
/// # Errors
/// `Closed` after a failed write.
pub(super) fn check_open(
    process: &mut Process,
    stream: &Resource<OutputStream>,
) -> Result<(), Failure> {
    if process.resource(stream)?.is_closed { Err(Failure::Closed) } else { Ok(()) }
}

/// As [`check_write`]; waits until there is room if the call `waits`.
///
/// # Errors
/// As [`check_write`].
pub(super) fn room(
    process: &mut Process,
    stream: &Resource<OutputStream>,
    waits: bool,
) -> Result<u64, Failure> {
    let room = check_write(process, stream)?;
    if room == 0 && waits {
        let condition = process.resource(stream)?.readiness();
        let subscription = condition.subscription(process, 0)?;
        process.guest.poll_oneoff(&[subscription])?;
        return check_write(process, stream);
    }
    Ok(room)
}

/// Writes `bytes`, which the last [`check_write`] allowed.
///
/// # Errors
/// As [`write`]; a trap if it allowed fewer.
pub(super) fn write_permitted(
    process: &mut Process,
    stream: &Resource<OutputStream>,
    bytes: &[u8],
) -> Result<(), Failure> {
    check_permit(process, stream, bytes.len() as u64)?;
    write(process, stream, bytes)?;
    process.resource(stream)?.permit -= bytes.len() as u64;
    Ok(())
}

/// `len` zeroes, which the last [`check_write`] allowed.
///
/// # Errors
/// A trap if it allowed fewer.
pub(super) fn zeroes(
    process: &mut Process,
    stream: &Resource<OutputStream>,
    len: u64,
) -> Result<Vec<u8>, Failure> {
    check_permit(process, stream, len)?;
    // At most the largest permit.
    Ok(vec![0; len as usize])
}

fn check_permit(
    process: &mut Process,
    stream: &Resource<OutputStream>,
    len: u64,
) -> Result<(), Failure> {
    if len <= process.resource(stream)?.permit {
        return Ok(());
    }
    Err(Halt::Trap("more bytes are written than check-write allowed").into())
}

/// Writes `bytes` to `stream`, all or as far as it goes before an error.
///
/// # Errors
/// An error of the file, after which the stream is closed; `Closed`.
pub(in crate::abi) fn write(
    process: &mut Process,
    stream: &Resource<OutputStream>,
    bytes: &[u8],
) -> Result<(), Failure> {
    let OutputStream { sink, is_closed, .. } = *process.resource(stream)?;
    if is_closed {
        return Err(Failure::Closed);
    }
    let (fd, place, is_kept) = match sink {
        Sink::Descriptor { fd, place, is_kept } => (fd, place, is_kept),
        Sink::Body(body) => return Ok(exchange::write(process, body, bytes)?),
    };
    let written = match place {
        // It may wait for room, and is then made again: the kernel knows how far it was.
        Place::Next => process.write_next(fd, bytes),
        Place::At(offset) => write_all_at(process, fd, bytes, offset),
        Place::End => process
            .guest
            .fd_filestat_get(fd)
            .map_err(Fault::from)
            .and_then(|stat| write_all_at(process, fd, bytes, stat.metadata.size)),
    };
    let stream = process.resource(stream)?;
    match written {
        Ok(()) => {
            if let Place::At(offset) = place {
                let place = Place::At(offset + bytes.len() as u64);
                stream.sink = Sink::Descriptor { fd, place, is_kept };
            }
            Ok(())
        }
        Err(Fault::Errno(errno)) => {
            stream.is_closed = true;
            let origin = if place == Place::Next { Origin::Stream } else { Origin::File };
            Err(Failure::Error(IoError { errno, origin }))
        }
        Err(fault) => Err(fault.into()),
    }
}

fn write_all_at(process: &mut Process, fd: u32, bytes: &[u8], offset: u64) -> Result<(), Fault> {
    let end = offset.checked_add(bytes.len() as u64).ok_or(Errno::Fbig)?;
    let mut at = offset;
    while at < end {
        let rest = bytes[(at - offset) as usize..].to_vec();
        at += write_at(process, fd, rest, at)?.max(1);
    }
    Ok(())
}
