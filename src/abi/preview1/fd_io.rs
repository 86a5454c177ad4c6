//! `fd_read`, `fd_write` and their kin.

use wasmtime::{Caller, Result};

use super::Snapshot;
use crate::abi::{Process, call, trace};
use crate::base::errno::Errno;
use crate::kernel::guest::{Buffers, Whence};

/// `fd_read(fd, iovs) -> size`
pub fn fd_read(
    caller: Caller<'_, Process>,
    fd: u32,
    iovs: u32,
    iovs_len: u32,
    out: u32,
) -> Result<i32> {
    call(caller, "fd_read", |memory, guest| {
        let (ranges, out) = (memory.buffers(iovs, iovs_len)?, memory.place_u32(out)?);
        let mut bufs = Buffers::new(memory.all(), ranges);
        trace!(guest, "fd={fd}, len={}", bufs.total());
        let count = guest.fd_read(fd, &mut bufs)?;
        memory.put_u32(out, u32::try_from(count).map_err(|_| Errno::Overflow)?);
        Ok(Some(("nread", count)))
    })
}

/// `fd_pread(fd, iovs, offset) -> size`
pub fn fd_pread(
    caller: Caller<'_, Process>,
    fd: u32,
    iovs: u32,
    iovs_len: u32,
    offset: u64,
    out: u32,
) -> Result<i32> {
    call(caller, "fd_pread", |memory, guest| {
        let (ranges, out) = (memory.buffers(iovs, iovs_len)?, memory.place_u32(out)?);
        let mut bufs = Buffers::new(memory.all(), ranges);
        trace!(guest, "fd={fd}, len={}, offset={offset}", bufs.total());
        let count = guest.fd_pread(fd, offset, &mut bufs)?;
        memory.put_u32(out, u32::try_from(count).map_err(|_| Errno::Overflow)?);
        Ok(Some(("nread", count)))
    })
}

/// `fd_write(fd, iovs) -> size`
pub fn fd_write(
    caller: Caller<'_, Process>,
    fd: u32,
    iovs: u32,
    iovs_len: u32,
    out: u32,
) -> Result<i32> {
    call(caller, "fd_write", |memory, guest| {
        let (ranges, out) = (memory.buffers(iovs, iovs_len)?, memory.place_u32(out)?);
        let bufs = Buffers::new(memory.all(), ranges);
        trace!(guest, "fd={fd}, len={}", bufs.total());
        let count = guest.fd_write(fd, &bufs)?;
        memory.put_u32(out, u32::try_from(count).map_err(|_| Errno::Overflow)?);
        Ok(Some(("nwritten", count)))
    })
}

/// `fd_pwrite(fd, iovs, offset) -> size`
pub fn fd_pwrite(
    caller: Caller<'_, Process>,
    fd: u32,
    iovs: u32,
    iovs_len: u32,
    offset: u64,
    out: u32,
) -> Result<i32> {
    call(caller, "fd_pwrite", |memory, guest| {
        let (ranges, out) = (memory.buffers(iovs, iovs_len)?, memory.place_u32(out)?);
        let bufs = Buffers::new(memory.all(), ranges);
        trace!(guest, "fd={fd}, len={}, offset={offset}", bufs.total());
        let count = guest.fd_pwrite(fd, offset, &bufs)?;
        memory.put_u32(out, u32::try_from(count).map_err(|_| Errno::Overflow)?);
        Ok(Some(("nwritten", count)))
    })
}

/// `fd_seek(fd, offset, whence) -> filesize`
pub(super) fn fd_seek<const UNSTABLE: bool>(
    caller: Caller<'_, Process>,
    fd: u32,
    delta: i64,
    whence: u32,
    out: u32,
) -> Result<i32> {
    let snapshot = Snapshot::of(UNSTABLE);
    call(caller, "fd_seek", |memory, guest| {
        trace!(guest, "fd={fd}, offset={delta}, whence={whence}");
        let order = match snapshot {
            Snapshot::Preview1 => [Whence::Set, Whence::Cur, Whence::End],
            Snapshot::Unstable => [Whence::Cur, Whence::End, Whence::Set],
        };
        let whence = *order.get(whence as usize).ok_or(Errno::Inval)?;
        let out = memory.place_u64(out)?;
        let offset = guest.fd_seek(fd, delta, whence)?;
        memory.put_u64(out, offset);
        Ok(Some(("offset", offset)))
    })
}

/// `fd_tell(fd) -> filesize`
pub fn fd_tell(caller: Caller<'_, Process>, fd: u32, out: u32) -> Result<i32> {
    call(caller, "fd_tell", |memory, guest| {
        trace!(guest, "fd={fd}");
        let out = memory.place_u64(out)?;
        let offset = guest.fd_tell(fd)?;
        memory.put_u64(out, offset);
        Ok(Some(("offset", offset)))
    })
}
