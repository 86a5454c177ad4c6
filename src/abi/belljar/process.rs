//! Processes, pipes and descriptors.

use wasmtime::{Caller, Result};

use crate::abi::memory::{GuestMemory, Place};
use crate::abi::{Answering, Process, call, call_waiting, known_bits, number, trace};
use crate::base::errno::Errno;
use crate::kernel::guest::{ARG_BYTES_MAX, Fault, FdAction, SpawnRequest};
use crate::kernel::process::Pid;
use crate::kernel::process::{Signal, WaitStatus};

/// Size of `struct belljar_spawn` in bytes.
const SPAWN_BYTES: u32 = 48;

/// Size of an action on descriptors in bytes.
const ACTION_BYTES: usize = 12;

/// Most arguments of a process; the same limit for variables and for actions.
const LIST_MAX: u32 = 1 << 16;

/// Longest path in bytes.
const PATH_BYTES_MAX: usize = 4096;

/// `proc_spawn(request) -> pid`
pub(super) fn proc_spawn(caller: Caller<'_, Process>, request: u32, out: u32) -> Result<i32> {
    call(caller, "proc_spawn", |memory, guest| {
        let (request, out) = (spawn_request(memory, request)?, memory.place_u32(out)?);
        trace!(guest, "program={:?}, argc={}", request.program, request.args.len());
        let pid = guest.proc_spawn(request).map_err(|error| error.errno)?;
        memory.put_u32(out, pid.0);
        Ok(Some(("pid", pid.0.into())))
    })
}

fn spawn_request(memory: &GuestMemory<'_>, at: u32) -> Result<SpawnRequest, Errno> {
    let at = memory.place(at, SPAWN_BYTES.into(), 4)?;
    let word = |index: usize| memory.u32_at(at, index * 4);
    if word(0) != SPAWN_BYTES {
        return Err(Errno::Inval);
    }
    let program = memory.path(word(1), word(2), PATH_BYTES_MAX)?.to_owned();
    let mut left = ARG_BYTES_MAX;
    let args = strings(memory, word(3), word(4), &mut left)?;
    let environ = strings(memory, word(5), word(6), &mut left)?;
    let current_dir = match word(7) {
        0 => None,
        at => Some(memory.path(at, word(8), PATH_BYTES_MAX)?.to_owned()),
    };
    if word(10) > LIST_MAX {
        return Err(Errno::Toobig);
    }
    let list = memory.place(word(9), u64::from(word(10)) * ACTION_BYTES as u64, 4)?;
    let actions = (0..word(10) as usize).map(|index| action(memory, list, index * ACTION_BYTES));
    let actions = actions.collect::<Result<_, _>>()?;
    let inherit = known_bits(word(11), 1)? == 1;
    Ok(SpawnRequest { program, args, environ, current_dir, inherit, actions })
}

fn action(memory: &GuestMemory<'_>, list: Place, at: usize) -> Result<FdAction, Errno> {
    let (from, to) = (memory.u32_at(list, at + 4), memory.u32_at(list, at + 8));
    match memory.u32_at(list, at) {
        0 => Ok(FdAction::Inherit { from, to }),
        1 => Ok(FdAction::Dup { from, to }),
        2 => Ok(FdAction::Close(from)),
        _ => Err(Errno::Inval),
    }
}

/// Reads `count` strings from a list of pointers and lengths; subtracts their bytes from `left`.
fn strings(
    memory: &GuestMemory<'_>,
    list: u32,
    count: u32,
    left: &mut usize,
) -> Result<Vec<Vec<u8>>, Errno> {
    if count > LIST_MAX {
        return Err(Errno::Toobig);
    }
    let list = memory.place(list, u64::from(count) * 8, 4)?;
    (0..count as usize)
        .map(|index| {
            let ptr = memory.u32_at(list, index * 8);
            let bytes = memory.bytes(ptr, memory.u32_at(list, index * 8 + 4))?;
            *left = left.checked_sub(bytes.len() + 1).ok_or(Errno::Toobig)?;
            if bytes.contains(&0) { Err(Errno::Inval) } else { Ok(bytes.to_vec()) }
        })
        .collect()
}

/// `proc_wait(pid, flags) -> (pid, how, code)`
pub(super) fn proc_wait(
    caller: Caller<'_, Process>,
    (pid, flags, out): (u32, u32, u32),
) -> Answering<'_> {
    Box::new(call_waiting(caller, "proc_wait", move |memory, guest| {
        trace!(guest, "pid={pid}, flags={flags}");
        let nohang = known_bits(flags, 1)? == 1;
        let out = memory.place(out, 12, 4)?;
        let which = if pid == 0 { None } else { Some(Pid(pid)) };
        let (pid, how, code) = match guest.proc_wait(which, !nohang)? {
            None => (0, 0, 0),
            Some((pid, WaitStatus::Exited(code))) => (pid.0, 0, code),
            Some((pid, WaitStatus::Signalled(signal))) => (pid.0, 1, signal.number().into()),
        };
        for (index, word) in [pid, how, code].into_iter().enumerate() {
            memory.put(out, index * 4, &word.to_le_bytes());
        }
        Ok(Some(("pid", pid.into())))
    }))
}

/// `proc_kill(pid, signal)`
pub(super) fn proc_kill(caller: Caller<'_, Process>, pid: u32, signal: u32) -> Result<i32> {
    call(caller, "proc_kill", |_, guest| {
        trace!(guest, "pid={pid}, signal={signal}");
        let signal = match signal {
            0 => None,
            number => Some(Signal::from_number(number).ok_or(Errno::Inval)?),
        };
        guest.proc_kill(Pid(pid), signal)?;
        Ok(None)
    })
}

/// `proc_become(pid)`
pub(super) fn proc_become(caller: Caller<'_, Process>, pid: u32) -> Result<i32> {
    call(caller, "proc_become", |_, guest| {
        trace!(guest, "pid={pid}");
        guest.proc_become(Pid(pid))?;
        Ok(None)
    })
}

/// `proc_id() -> pid`; cannot fail
pub(super) fn proc_id(caller: Caller<'_, Process>) -> Result<u32> {
    number(caller, |guest| guest.pid().0)
}

/// `proc_parent() -> pid`; cannot fail
pub(super) fn proc_parent(caller: Caller<'_, Process>) -> Result<u32> {
    number(caller, |guest| guest.proc_parent().0)
}

/// `proc_chdir(path)`
pub(super) fn proc_chdir(caller: Caller<'_, Process>, path: u32, len: u32) -> Result<i32> {
    call(caller, "proc_chdir", |memory, guest| {
        let path = memory.path(path, len, PATH_BYTES_MAX)?;
        trace!(guest, "path={path:?}");
        guest.proc_chdir(path)?;
        Ok(None)
    })
}

/// `proc_getcwd(buf, len) -> size`: the path, without a closing NUL. `ERANGE` if it does not fit, `ENOENT`
/// if the directory was removed.
pub(super) fn proc_getcwd(
    caller: Caller<'_, Process>,
    buf: u32,
    len: u32,
    out: u32,
) -> Result<i32> {
    call(caller, "proc_getcwd", |memory, guest| {
        trace!(guest, "len={len}");
        let (buf, out) = (memory.place(buf, len.into(), 1)?, memory.place_u32(out)?);
        let path = guest.current_dir()?;
        let path = path.as_bytes();
        let size = u32::try_from(path.len()).map_err(|_| Errno::Range)?;
        if size > len {
            return Err(Errno::Range.into());
        }
        memory.put(buf, 0, path);
        memory.put_u32(out, size);
        Ok(Some(("size", size.into())))
    })
}

/// `paths_exact(flag)`
pub(super) fn paths_exact(caller: Caller<'_, Process>, flag: u32) -> Result<i32> {
    call(caller, "paths_exact", |_, guest| {
        trace!(guest, "flag={flag}");
        guest.set_paths_exact(known_bits(flag, 1)? == 1)?;
        Ok(None)
    })
}

/// `pipe(flags) -> (reader, writer)`
pub(super) fn pipe(caller: Caller<'_, Process>, flags: u32, out: u32) -> Result<i32> {
    call(caller, "pipe", |memory, guest| {
        trace!(guest, "flags={flags}");
        let close_on_exec = known_bits(flags, 1)? == 1;
        let out = memory.place(out, 8, 4)?;
        let (reader, writer) = guest.pipe(close_on_exec)?;
        memory.put(out, 0, &reader.to_le_bytes());
        memory.put(out, 4, &writer.to_le_bytes());
        Ok(Some(("reader", reader.into())))
    })
}

/// `fd_dup(fd, lowest, flags) -> fd`
pub(super) fn fd_dup(
    caller: Caller<'_, Process>,
    fd: u32,
    lowest: u32,
    flags: u32,
    out: u32,
) -> Result<i32> {
    call(caller, "fd_dup", |memory, guest| {
        trace!(guest, "fd={fd}, lowest={lowest}, flags={flags}");
        let close_on_exec = known_bits(flags, 1)? == 1;
        let out = memory.place_u32(out)?;
        let fd = guest.fd_dup(fd, lowest, close_on_exec)?;
        memory.put_u32(out, fd);
        Ok(Some(("fd", fd.into())))
    })
}

/// `fd_dup2(fd, to)`
pub(super) fn fd_dup2(caller: Caller<'_, Process>, fd: u32, to: u32) -> Result<i32> {
    call(caller, "fd_dup2", |_, guest| {
        trace!(guest, "fd={fd}, to={to}");
        guest.fd_dup2(fd, to)?;
        Ok(None)
    })
}

/// `fd_close_from(lowest)`
pub(super) fn fd_close_from(caller: Caller<'_, Process>, lowest: u32) -> Result<i32> {
    call(caller, "fd_close_from", |_, guest| {
        trace!(guest, "lowest={lowest}");
        guest.fd_close_from(lowest);
        Ok(None)
    })
}

/// `fd_cloexec_get(fd) -> flag`
pub(super) fn fd_cloexec_get(caller: Caller<'_, Process>, fd: u32, out: u32) -> Result<i32> {
    call(caller, "fd_cloexec_get", |memory, guest| {
        trace!(guest, "fd={fd}");
        let out = memory.place_u32(out)?;
        let flag = u32::from(guest.fd_close_on_exec(fd)?);
        memory.put_u32(out, flag);
        Ok(Some(("flag", flag.into())))
    })
}

/// `fd_cloexec_set(fd, flag)`
pub(super) fn fd_cloexec_set(caller: Caller<'_, Process>, fd: u32, flag: u32) -> Result<i32> {
    call(caller, "fd_cloexec_set", |_, guest| {
        trace!(guest, "fd={fd}, flag={flag}");
        guest.fd_set_close_on_exec(fd, known_bits(flag, 1)? == 1)?;
        Ok(None)
    })
}

/// `sigpipe_ignore(flag)`
pub(super) fn sigpipe_ignore(caller: Caller<'_, Process>, flag: u32) -> Result<i32> {
    call(caller, "sigpipe_ignore", |_, guest| {
        trace!(guest, "flag={flag}");
        let ignore = known_bits(flag, 1).map_err(Fault::Errno)? == 1;
        guest.ignore_sigpipe(ignore);
        Ok(None)
    })
}
