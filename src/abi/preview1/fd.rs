//! `fd_*`, except reading and writing.

use wasmtime::{Caller, Result};

use super::Snapshot;
use crate::abi::memory::{GuestMemory, Place};
use crate::abi::{Process, call, known_bits, trace};
use crate::base::errno::Errno;
use crate::kernel::guest::{Fault, FileStat, ReadDir};
use crate::kernel::io::fd::FdFlags;
use crate::kernel::vfs::{FileType, SetTime};

/// Size of a `dirent` without its name, in bytes.
const DIRENT_BYTES: usize = 24;

/// `fd_advise(fd, offset, len, advice)`
pub fn fd_advise(
    caller: Caller<'_, Process>,
    fd: u32,
    offset: u64,
    len: u64,
    advice: u32,
) -> Result<i32> {
    call(caller, "fd_advise", |_, guest| {
        trace!(guest, "fd={fd}, offset={offset}, len={len}, advice={advice}");
        if advice > 5 {
            return Err(Errno::Inval.into());
        }
        guest.fd_advise(fd)?;
        Ok(None)
    })
}

/// `fd_allocate(fd, offset, len)`
pub fn fd_allocate(caller: Caller<'_, Process>, fd: u32, offset: u64, len: u64) -> Result<i32> {
    call(caller, "fd_allocate", |_, guest| {
        trace!(guest, "fd={fd}, offset={offset}, len={len}");
        guest.fd_allocate(fd, offset, len)?;
        Ok(None)
    })
}

/// `fd_close(fd)`
pub fn fd_close(caller: Caller<'_, Process>, fd: u32) -> Result<i32> {
    call(caller, "fd_close", |_, guest| {
        trace!(guest, "fd={fd}");
        guest.fd_close(fd)?;
        Ok(None)
    })
}

/// `fd_datasync(fd)`
pub fn fd_datasync(caller: Caller<'_, Process>, fd: u32) -> Result<i32> {
    call(caller, "fd_datasync", |_, guest| {
        trace!(guest, "fd={fd}");
        guest.fd_sync(fd)?;
        Ok(None)
    })
}

/// `fd_sync(fd)`
pub fn fd_sync(caller: Caller<'_, Process>, fd: u32) -> Result<i32> {
    call(caller, "fd_sync", |_, guest| {
        trace!(guest, "fd={fd}");
        guest.fd_sync(fd)?;
        Ok(None)
    })
}

/// `fd_fdstat_get(fd) -> fdstat`
pub fn fd_fdstat_get(caller: Caller<'_, Process>, fd: u32, out: u32) -> Result<i32> {
    call(caller, "fd_fdstat_get", |memory, guest| {
        trace!(guest, "fd={fd}");
        let out = memory.place(out, 24, 8)?;
        let stat = guest.fd_fdstat_get(fd)?;
        let mut bytes = [0; 24];
        bytes[0] = stat.file_type as u8;
        bytes[2..4].copy_from_slice(&stat.flags.bits().to_le_bytes());
        bytes[8..16].copy_from_slice(&stat.rights_base.to_le_bytes());
        bytes[16..24].copy_from_slice(&stat.rights_inheriting.to_le_bytes());
        memory.put(out, 0, &bytes);
        Ok(Some(("filetype", stat.file_type as u64)))
    })
}

/// `fd_fdstat_set_flags(fd, flags)`
pub fn fd_fdstat_set_flags(caller: Caller<'_, Process>, fd: u32, flags: u32) -> Result<i32> {
    call(caller, "fd_fdstat_set_flags", |_, guest| {
        trace!(guest, "fd={fd}, flags={flags:#x}");
        let flags = FdFlags::from_bits(flags).ok_or(Errno::Inval)?;
        guest.fd_fdstat_set_flags(fd, flags)?;
        Ok(None)
    })
}

/// `fd_fdstat_set_rights(fd, fs_rights_base, fs_rights_inheriting)`
pub fn fd_fdstat_set_rights(
    caller: Caller<'_, Process>,
    fd: u32,
    base: u64,
    inheriting: u64,
) -> Result<i32> {
    call(caller, "fd_fdstat_set_rights", |_, guest| {
        trace!(guest, "fd={fd}, base={base:#x}, inheriting={inheriting:#x}");
        guest.fd_fdstat_set_rights(fd)?;
        Ok(None)
    })
}

/// `fd_filestat_get(fd) -> filestat`
pub(super) fn fd_filestat_get<const UNSTABLE: bool>(
    caller: Caller<'_, Process>,
    fd: u32,
    out: u32,
) -> Result<i32> {
    let snapshot = Snapshot::of(UNSTABLE);
    call(caller, "fd_filestat_get", |memory, guest| {
        trace!(guest, "fd={fd}");
        let out = filestat_place(memory, snapshot, out)?;
        let stat = guest.fd_filestat_get(fd)?;
        put_filestat(memory, snapshot, out, &stat);
        Ok(Some(("size", stat.metadata.size)))
    })
}

/// Checks the place of a `filestat`.
pub(super) fn filestat_place(
    memory: &GuestMemory<'_>,
    snapshot: Snapshot,
    out: u32,
) -> Result<Place, Errno> {
    let size = if snapshot == Snapshot::Preview1 { 64 } else { 56 };
    memory.place(out, size, 8)
}

pub(super) fn put_filestat(
    memory: &mut GuestMemory<'_>,
    snapshot: Snapshot,
    out: Place,
    stat: &FileStat,
) {
    let metadata = &stat.metadata;
    let mut bytes = [0; 64];
    bytes[0..8].copy_from_slice(&stat.dev.to_le_bytes());
    bytes[8..16].copy_from_slice(&metadata.ino.to_le_bytes());
    bytes[16] = metadata.file_type as u8;
    // The number of links is 8 bytes after the padding, or 4 within it.
    let rest = if snapshot == Snapshot::Preview1 {
        bytes[24..32].copy_from_slice(&u64::from(metadata.nlink).to_le_bytes());
        32
    } else {
        bytes[20..24].copy_from_slice(&metadata.nlink.to_le_bytes());
        24
    };
    let times = &metadata.times;
    for (index, value) in
        [metadata.size, times.atim, times.mtim, times.ctim].into_iter().enumerate()
    {
        let at = rest + index * 8;
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    memory.put(out, 0, &bytes[..rest + 32]);
}

/// `fd_filestat_set_size(fd, size)`
pub fn fd_filestat_set_size(caller: Caller<'_, Process>, fd: u32, size: u64) -> Result<i32> {
    call(caller, "fd_filestat_set_size", |_, guest| {
        trace!(guest, "fd={fd}, size={size}");
        guest.fd_filestat_set_size(fd, size)?;
        Ok(None)
    })
}

/// `fd_filestat_set_times(fd, atim, mtim, fst_flags)`
pub fn fd_filestat_set_times(
    caller: Caller<'_, Process>,
    fd: u32,
    atim: u64,
    mtim: u64,
    flags: u32,
) -> Result<i32> {
    call(caller, "fd_filestat_set_times", |_, guest| {
        trace!(guest, "fd={fd}, atim={atim}, mtim={mtim}, flags={flags:#x}");
        let (atim, mtim) = set_times(flags, atim, mtim)?;
        guest.fd_filestat_set_times(fd, atim, mtim)?;
        Ok(None)
    })
}

/// Decodes `fstflags` and two times.
///
/// # Errors
/// `EINVAL` for an unknown flag, or if a time is both given and now.
pub(super) fn set_times(flags: u32, atim: u64, mtim: u64) -> Result<(SetTime, SetTime), Errno> {
    let flags = known_bits(flags, 0b1111)?;
    let set = |given: u32, time| match flags >> given & 0b11 {
        0b00 => Ok(SetTime::Keep),
        0b01 => Ok(SetTime::At(time)),
        0b10 => Ok(SetTime::Now),
        _ => Err(Errno::Inval),
    };
    Ok((set(0, atim)?, set(2, mtim)?))
}

/// `fd_prestat_get(fd) -> prestat`
pub fn fd_prestat_get(caller: Caller<'_, Process>, fd: u32, out: u32) -> Result<i32> {
    call(caller, "fd_prestat_get", |memory, guest| {
        trace!(guest, "fd={fd}");
        let out = memory.place(out, 8, 4)?;
        let len = guest.fd_prestat(fd)?.len();
        memory.put(out, 0, &[0; 4]);
        memory.put(out, 4, &u32::try_from(len).map_err(|_| Errno::Overflow)?.to_le_bytes());
        Ok(Some(("len", len as u64)))
    })
}

/// `fd_prestat_dir_name(fd, path, path_len)`
pub fn fd_prestat_dir_name(
    caller: Caller<'_, Process>,
    fd: u32,
    path: u32,
    path_len: u32,
) -> Result<i32> {
    call(caller, "fd_prestat_dir_name", |memory, guest| {
        trace!(guest, "fd={fd}, len={path_len}");
        let room = memory.place(path, path_len.into(), 1)?;
        let name = guest.fd_prestat(fd)?;
        if name.len() > path_len as usize {
            return Err(Errno::Nametoolong.into());
        }
        memory.put(room, 0, name.as_bytes());
        Ok(None)
    })
}

/// `fd_readdir(fd, buf, buf_len, cookie) -> bufused`: as many entries as fit, the last one perhaps cut.
/// Fewer bytes than `buf_len` mean the end.
pub fn fd_readdir(
    caller: Caller<'_, Process>,
    fd: u32,
    buf: u32,
    buf_len: u32,
    cookie: u64,
    out: u32,
) -> Result<i32> {
    call(caller, "fd_readdir", |memory, guest| {
        trace!(guest, "fd={fd}, len={buf_len}, cookie={cookie}");
        let (buf, out) = (memory.range(buf, buf_len.into())?, memory.place_u32(out)?);
        let dir = guest.fd_readdir(fd, cookie)?;
        let used = memory.fill(buf, |buf| {
            let used = put_entries(buf, &dir, cookie);
            Ok::<_, Fault>((used, used))
        })?;
        memory.put_u32(out, u32::try_from(used).map_err(|_| Errno::Overflow)?);
        Ok(Some(("bufused", used as u64)))
    })
}

/// Writes the entries of `dir` from `cookie` on to `buf`, as far as they fit; returns the number of bytes.
fn put_entries(buf: &mut [u8], dir: &ReadDir<'_>, cookie: u64) -> usize {
    let mut writer = DirentWriter { buf, used: 0 };
    for (index, name, ino) in [(0, ".", dir.ino), (1, "..", dir.parent_ino)] {
        if cookie <= index && !writer.put(index + 1, ino, FileType::Directory, name) {
            return writer.used;
        }
    }
    let first = usize::try_from(cookie.saturating_sub(2)).unwrap_or(usize::MAX);
    for (index, entry) in dir.entries_from(first) {
        if !writer.put(index as u64 + 3, entry.ino, entry.file_type, &entry.name) {
            break;
        }
    }
    writer.used
}

struct DirentWriter<'b> {
    buf: &'b mut [u8],
    used: usize,
}

impl DirentWriter<'_> {
    /// Writes an entry as far as it fits; returns whether there is room for more.
    fn put(&mut self, next: u64, ino: u64, file_type: FileType, name: &str) -> bool {
        let mut head = [0; DIRENT_BYTES];
        head[0..8].copy_from_slice(&next.to_le_bytes());
        head[8..16].copy_from_slice(&ino.to_le_bytes());
        // A name has at most NAME_MAX bytes.
        head[16..20].copy_from_slice(&(name.len() as u32).to_le_bytes());
        head[20] = file_type as u8;
        self.put_bytes(&head) && self.put_bytes(name.as_bytes())
    }

    fn put_bytes(&mut self, bytes: &[u8]) -> bool {
        let count = bytes.len().min(self.buf.len() - self.used);
        self.buf[self.used..self.used + count].copy_from_slice(&bytes[..count]);
        self.used += count;
        self.used < self.buf.len()
    }
}

/// `fd_renumber(from, to)`
pub fn fd_renumber(caller: Caller<'_, Process>, from: u32, to: u32) -> Result<i32> {
    call(caller, "fd_renumber", |_, guest| {
        trace!(guest, "from={from}, to={to}");
        guest.fd_renumber(from, to)?;
        Ok(None)
    })
}
