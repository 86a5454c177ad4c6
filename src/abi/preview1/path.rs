//! `path_*`.

use wasmtime::{Caller, Result};

use super::Snapshot;
use super::fd::{filestat_place, put_filestat, set_times};
use crate::abi::memory::GuestMemory;
use crate::abi::{Process, call, known_bits, trace};
use crate::base::errno::Errno;
use crate::kernel::guest::{Guest, OFlags};
use crate::kernel::io::fd::FdFlags;
use crate::kernel::vfs::Follow;

/// The path of `len` bytes at `ptr`.
pub(in crate::abi) fn path_at<'m>(
    memory: &'m GuestMemory<'_>,
    guest: &Guest,
    ptr: u32,
    len: u32,
) -> Result<&'m str, Errno> {
    memory.path(ptr, len, guest.machine().limits().vfs.path_bytes_max)
}

/// Decodes `lookupflags`.
pub(in crate::abi) fn follow(flags: u32) -> Result<Follow, Errno> {
    Ok(if known_bits(flags, 1)? == 1 { Follow::Yes } else { Follow::No })
}

/// `path_create_directory(fd, path)`
pub fn path_create_directory(
    caller: Caller<'_, Process>,
    fd: u32,
    path: u32,
    path_len: u32,
) -> Result<i32> {
    call(caller, "path_create_directory", |memory, guest| {
        let path = path_at(memory, guest, path, path_len)?;
        trace!(guest, "fd={fd}, {path:?}");
        guest.path_create_directory(fd, path)?;
        Ok(None)
    })
}

/// `path_filestat_get(fd, flags, path) -> filestat`
pub(super) fn path_filestat_get<const UNSTABLE: bool>(
    caller: Caller<'_, Process>,
    fd: u32,
    flags: u32,
    path: u32,
    path_len: u32,
    out: u32,
) -> Result<i32> {
    let snapshot = Snapshot::of(UNSTABLE);
    call(caller, "path_filestat_get", |memory, guest| {
        let path = path_at(memory, guest, path, path_len)?;
        trace!(guest, "fd={fd}, flags={flags:#x}, {path:?}");
        let follow = follow(flags)?;
        let out = filestat_place(memory, snapshot, out)?;
        let stat = guest.path_filestat_get(fd, follow, path)?;
        put_filestat(memory, snapshot, out, &stat);
        Ok(Some(("size", stat.metadata.size)))
    })
}

/// `path_filestat_set_times(fd, flags, path, atim, mtim, fst_flags)`
#[expect(clippy::too_many_arguments, reason = "the signature of the import")]
pub fn path_filestat_set_times(
    caller: Caller<'_, Process>,
    fd: u32,
    flags: u32,
    path: u32,
    path_len: u32,
    atim: u64,
    mtim: u64,
    fst_flags: u32,
) -> Result<i32> {
    call(caller, "path_filestat_set_times", |memory, guest| {
        let path = path_at(memory, guest, path, path_len)?;
        trace!(guest, "fd={fd}, {path:?}, atim={atim}, mtim={mtim}, flags={fst_flags:#x}");
        let follow = follow(flags)?;
        let (atim, mtim) = set_times(fst_flags, atim, mtim)?;
        guest.path_filestat_set_times(fd, follow, path, atim, mtim)?;
        Ok(None)
    })
}

/// `path_link(old_fd, old_flags, old_path, new_fd, new_path)`
#[expect(clippy::too_many_arguments, reason = "the signature of the import")]
pub fn path_link(
    caller: Caller<'_, Process>,
    old_fd: u32,
    old_flags: u32,
    old_path: u32,
    old_path_len: u32,
    new_fd: u32,
    new_path: u32,
    new_path_len: u32,
) -> Result<i32> {
    call(caller, "path_link", |memory, guest| {
        let from = path_at(memory, guest, old_path, old_path_len)?;
        let to = path_at(memory, guest, new_path, new_path_len)?;
        trace!(guest, "fd={old_fd}, {from:?}, fd={new_fd}, {to:?}");
        guest.path_link((old_fd, from), follow(old_flags)?, (new_fd, to))?;
        Ok(None)
    })
}

/// `path_open(fd, dirflags, path, oflags, fs_rights_base, fs_rights_inheriting, fdflags) -> fd`
#[expect(clippy::too_many_arguments, reason = "the signature of the import")]
pub fn path_open(
    caller: Caller<'_, Process>,
    fd: u32,
    dirflags: u32,
    path: u32,
    path_len: u32,
    oflags: u32,
    rights_base: u64,
    _rights_inheriting: u64,
    fdflags: u32,
    out: u32,
) -> Result<i32> {
    call(caller, "path_open", |memory, guest| {
        let path = path_at(memory, guest, path, path_len)?;
        trace!(
            guest,
            "fd={fd}, {path:?}, oflags={oflags:#x}, rights={rights_base:#x}, fdflags={fdflags:#x}"
        );
        let follow = follow(dirflags)?;
        let oflags = known_bits(oflags, 0b1111)?;
        let oflags = OFlags {
            creat: oflags & 1 != 0,
            directory: oflags & 2 != 0,
            excl: oflags & 4 != 0,
            trunc: oflags & 8 != 0,
        };
        let fdflags = FdFlags::from_bits(fdflags).ok_or(Errno::Inval)?;
        let out = memory.place_u32(out)?;
        let opened = guest.path_open(fd, follow, path, oflags, rights_base, fdflags)?;
        memory.put_u32(out, opened);
        Ok(Some(("fd", opened.into())))
    })
}

/// `path_readlink(fd, path, buf, buf_len) -> size`: cut to the size of the buffer.
pub fn path_readlink(
    caller: Caller<'_, Process>,
    fd: u32,
    path: u32,
    path_len: u32,
    buf: u32,
    buf_len: u32,
    out: u32,
) -> Result<i32> {
    call(caller, "path_readlink", |memory, guest| {
        let path = path_at(memory, guest, path, path_len)?;
        trace!(guest, "fd={fd}, {path:?}, len={buf_len}");
        let (buf, out) = (memory.place(buf, buf_len.into(), 1)?, memory.place_u32(out)?);
        let text = guest.path_readlink(fd, path)?.as_bytes();
        let count = text.len().min(buf_len as usize);
        memory.put(buf, 0, &text[..count]);
        memory.put_u32(out, u32::try_from(count).map_err(|_| Errno::Overflow)?);
        Ok(Some(("size", count as u64)))
    })
}

/// `path_remove_directory(fd, path)`
pub fn path_remove_directory(
    caller: Caller<'_, Process>,
    fd: u32,
    path: u32,
    path_len: u32,
) -> Result<i32> {
    call(caller, "path_remove_directory", |memory, guest| {
        let path = path_at(memory, guest, path, path_len)?;
        trace!(guest, "fd={fd}, {path:?}");
        guest.path_remove_directory(fd, path)?;
        Ok(None)
    })
}

/// `path_rename(fd, old_path, new_fd, new_path)`
pub fn path_rename(
    caller: Caller<'_, Process>,
    fd: u32,
    old_path: u32,
    old_path_len: u32,
    new_fd: u32,
    new_path: u32,
    new_path_len: u32,
) -> Result<i32> {
    call(caller, "path_rename", |memory, guest| {
        let from = path_at(memory, guest, old_path, old_path_len)?;
        let to = path_at(memory, guest, new_path, new_path_len)?;
        trace!(guest, "fd={fd}, {from:?}, fd={new_fd}, {to:?}");
        guest.path_rename((fd, from), (new_fd, to))?;
        Ok(None)
    })
}

/// `path_symlink(old_path, fd, new_path)`
pub fn path_symlink(
    caller: Caller<'_, Process>,
    text: u32,
    text_len: u32,
    fd: u32,
    path: u32,
    path_len: u32,
) -> Result<i32> {
    call(caller, "path_symlink", |memory, guest| {
        let text = path_at(memory, guest, text, text_len)?;
        let path = path_at(memory, guest, path, path_len)?;
        trace!(guest, "{text:?}, fd={fd}, {path:?}");
        guest.path_symlink(text, fd, path)?;
        Ok(None)
    })
}

/// `path_unlink_file(fd, path)`
pub fn path_unlink_file(
    caller: Caller<'_, Process>,
    fd: u32,
    path: u32,
    path_len: u32,
) -> Result<i32> {
    call(caller, "path_unlink_file", |memory, guest| {
        let path = path_at(memory, guest, path, path_len)?;
        trace!(guest, "fd={fd}, {path:?}");
        guest.path_unlink_file(fd, path)?;
        Ok(None)
    })
}
