//! `fd_read`, `fd_write`, `fd_seek` and variants.

use wasmtime::Caller;

use super::Snapshot;
use crate::abi::memory::{Direction, GuestMemory};
use crate::abi::{Answer, Answering, Process, call, call_waiting, trace};
use crate::base::errno::Errno;
use crate::kernel::guest::{Buffers, Fault, Guest, Whence};

/// `fd_read(fd, iovs) -> size`
pub fn fd_read(
    caller: Caller<'_, Process>,
    (fd, iovs, iovs_len, out): (u32, u32, u32, u32),
) -> Answering<'_> {
    Box::new(call_waiting(caller, "fd_read", move |memory, guest| {
        guest.rest_if_busy()?;
        transfer(memory, guest, fd, (iovs, iovs_len), None, out, Direction::ToGuest, Guest::fd_read)
    }))
}

/// `fd_pread(fd, iovs, offset) -> size`
pub fn fd_pread(
    caller: Caller<'_, Process>,
    fd: u32,
    iovs: u32,
    iovs_len: u32,
    offset: u64,
    out: u32,
) -> wasmtime::Result<i32> {
    call(caller, "fd_pread", |memory, guest| {
        let op =
            |guest: &mut Guest, fd, bufs: &mut Buffers<'_>| Ok(guest.fd_pread(fd, offset, bufs)?);
        transfer(memory, guest, fd, (iovs, iovs_len), Some(offset), out, Direction::ToGuest, op)
    })
}

/// `fd_write(fd, iovs) -> size`
pub fn fd_write(
    caller: Caller<'_, Process>,
    (fd, iovs, iovs_len, out): (u32, u32, u32, u32),
) -> Answering<'_> {
    Box::new(call_waiting(caller, "fd_write", move |memory, guest| {
        guest.rest_if_busy()?;
        let op = |guest: &mut Guest, fd, bufs: &mut Buffers<'_>| guest.fd_write(fd, bufs);
        transfer(memory, guest, fd, (iovs, iovs_len), None, out, Direction::FromGuest, op)
    }))
}

/// `fd_pwrite(fd, iovs, offset) -> size`
pub fn fd_pwrite(
    caller: Caller<'_, Process>,
    fd: u32,
    iovs: u32,
    iovs_len: u32,
    offset: u64,
    out: u32,
) -> wasmtime::Result<i32> {
    call(caller, "fd_pwrite", |memory, guest| {
        let op =
            |guest: &mut Guest, fd, bufs: &mut Buffers<'_>| Ok(guest.fd_pwrite(fd, offset, bufs)?);
        transfer(memory, guest, fd, (iovs, iovs_len), Some(offset), out, Direction::FromGuest, op)
    })
}

/// Moves bytes between `fd` and the buffers in the list `iovs`.
#[inline]
#[expect(clippy::too_many_arguments, reason = "what four imports have in common")]
fn transfer(
    memory: &mut GuestMemory<'_>,
    guest: &mut Guest,
    fd: u32,
    iovs: (u32, u32),
    offset: Option<u64>,
    out: u32,
    direction: Direction,
    op: impl FnOnce(&mut Guest, u32, &mut Buffers<'_>) -> Result<u64, Fault>,
) -> Result<Answer, Fault> {
    let (ranges, out) = (memory.buffers(iovs.0, iovs.1)?, memory.place_u32(out)?);
    let count = memory.transfer(ranges, direction, |bufs| {
        match offset {
            None => trace!(guest, "fd={fd}, len={}", bufs.total()),
            Some(offset) => trace!(guest, "fd={fd}, len={}, offset={offset}", bufs.total()),
        }
        op(guest, fd, bufs)
    })?;
    memory.put_u32(out, u32::try_from(count).map_err(|_| Errno::Overflow)?);
    Ok(Some(("count", count)))
}

/// `fd_seek(fd, offset, whence) -> filesize`
pub(super) fn fd_seek<const UNSTABLE: bool>(
    caller: Caller<'_, Process>,
    fd: u32,
    delta: i64,
    whence: u32,
    out: u32,
) -> wasmtime::Result<i32> {
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
pub fn fd_tell(caller: Caller<'_, Process>, fd: u32, out: u32) -> wasmtime::Result<i32> {
    call(caller, "fd_tell", |memory, guest| {
        trace!(guest, "fd={fd}");
        let out = memory.place_u64(out)?;
        let offset = guest.fd_tell(fd)?;
        memory.put_u64(out, offset);
        Ok(Some(("offset", offset)))
    })
}
