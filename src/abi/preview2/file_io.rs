//! Reading and writing files at a place.

use crate::abi::Process;
use crate::kernel::guest::{Buffers, Fault, Range};

/// Where the next bytes of a stream are.
pub(in crate::abi) enum Next {
    /// In a file.
    At(u64),
    /// At the end of a file.
    End,
    /// It has no places.
    Here,
}

/// Most bytes that one call reads: an answer is in the memory of the host first.
pub(super) const READ_BYTES_MAX: u64 = 1 << 20;

/// The bytes of `fd` from `offset` on, at most `len`.
pub(super) fn read_at(
    process: &mut Process,
    fd: u32,
    len: u64,
    offset: u64,
) -> Result<Vec<u8>, Fault> {
    let stat = process.guest.fd_filestat_get(fd)?;
    let left = stat.metadata.size.saturating_sub(offset);
    // Within the memory of the host.
    let mut bytes = vec![0; len.min(READ_BYTES_MAX).min(left) as usize];
    let range = Range { start: 0, len: bytes.len() };
    let buffers = &mut Buffers::new(&mut bytes, std::iter::once(range).collect());
    let count = process.guest.fd_pread(fd, offset, buffers)?;
    bytes.truncate(count as usize);
    Ok(bytes)
}

/// Writes `bytes` to `fd` at `offset`; returns how many were written.
pub(super) fn write_at(
    process: &mut Process,
    fd: u32,
    mut bytes: Vec<u8>,
    offset: u64,
) -> Result<u64, Fault> {
    let range = Range { start: 0, len: bytes.len() };
    let buffers = Buffers::new(&mut bytes, std::iter::once(range).collect());
    Ok(process.guest.fd_pwrite(fd, offset, &buffers)?)
}
