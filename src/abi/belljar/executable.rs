//! The permission to execute a file, which preview1 lacks.

use wasmtime::{Caller, Result};

use crate::abi::preview1::path::{follow, path_at};
use crate::abi::{Process, call, known_bits, trace};

/// `path_executable_get(dirfd, lookup_flags, path) -> executable`
pub(super) fn path_executable_get(
    caller: Caller<'_, Process>,
    fd: u32,
    flags: u32,
    path: u32,
    path_len: u32,
    out: u32,
) -> Result<i32> {
    call(caller, "path_executable_get", |memory, guest| {
        let path = path_at(memory, guest, path, path_len)?;
        trace!(guest, "fd={fd}, flags={flags:#x}, {path:?}");
        let follow = follow(flags)?;
        let out = memory.place_u32(out)?;
        let executable = u32::from(guest.path_executable_get(fd, follow, path)?);
        memory.put_u32(out, executable);
        Ok(Some(("executable", executable.into())))
    })
}

/// `path_executable_set(dirfd, lookup_flags, path, executable)`
pub(super) fn path_executable_set(
    caller: Caller<'_, Process>,
    fd: u32,
    flags: u32,
    path: u32,
    path_len: u32,
    executable: u32,
) -> Result<i32> {
    call(caller, "path_executable_set", |memory, guest| {
        let path = path_at(memory, guest, path, path_len)?;
        trace!(guest, "fd={fd}, flags={flags:#x}, {path:?}, executable={executable}");
        let follow = follow(flags)?;
        guest.path_executable_set(fd, follow, path, known_bits(executable, 1)? == 1)?;
        Ok(None)
    })
}

/// `fd_executable_set(fd, executable)`
pub(super) fn fd_executable_set(
    caller: Caller<'_, Process>,
    fd: u32,
    executable: u32,
) -> Result<i32> {
    call(caller, "fd_executable_set", |_, guest| {
        trace!(guest, "fd={fd}, executable={executable}");
        guest.fd_executable_set(fd, known_bits(executable, 1)? == 1)?;
        Ok(None)
    })
}
