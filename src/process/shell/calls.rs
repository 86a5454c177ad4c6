//! The calls of a shell on the kernel, with their traces.

use std::fmt;

use super::context::{Leave, Run, Shell};
use super::held::Held;
use crate::base::errno::Errno;
use crate::kernel::guest::{
    AT_FDCWD, Buffers, Fault, FileStat, Guest, OFlags, Range, SpawnError, SpawnRequest,
};
use crate::kernel::io::fd::FdFlags;
use crate::kernel::process::Pid;
use crate::kernel::process::programs::Found;
use crate::kernel::process::{Signal, WaitStatus};
use crate::kernel::vfs::Follow;

/// An answer that may show a number in the trace.
pub trait Answer {
    /// The name of the number, and the number.
    fn shown(&self) -> Option<(&'static str, u64)> {
        None
    }
}

impl Answer for () {}
impl Answer for FileStat {}
impl Answer for (u32, u32) {}
impl Answer for bool {}
impl Answer for Vec<String> {}

impl Answer for u32 {
    fn shown(&self) -> Option<(&'static str, u64)> {
        Some(("fd", (*self).into()))
    }
}

impl Answer for u64 {
    fn shown(&self) -> Option<(&'static str, u64)> {
        Some(("count", *self))
    }
}

impl Answer for Pid {
    fn shown(&self) -> Option<(&'static str, u64)> {
        Some(("pid", self.0.into()))
    }
}

impl Answer for Option<(Pid, WaitStatus)> {
    fn shown(&self) -> Option<(&'static str, u64)> {
        Some(("pid", self.map_or(0, |(pid, _)| pid.0.into())))
    }
}

impl Shell {
    fn begin_call(&mut self, name: &'static str, args: fmt::Arguments<'_>) {
        self.guest.begin_call(name);
        if self.guest.is_traced() {
            self.guest.trace_call(args);
        }
    }

    fn end_call<T: Answer>(&mut self, answer: Result<&T, Fault>) {
        if self.guest.is_traced() {
            self.guest.trace_answer(answer.map(Answer::shown));
        }
    }

    /// Makes a call that does not wait.
    fn ask<T: Answer>(
        &mut self,
        name: &'static str,
        args: fmt::Arguments<'_>,
        call: impl FnOnce(&mut Guest) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.begin_call(name, args);
        let answer = call(&mut self.guest);
        self.end_call(answer.as_ref().map_err(|errno| Fault::Errno(*errno)));
        answer
    }

    /// Makes a call that may wait.
    async fn call<T: Answer>(
        &mut self,
        name: &'static str,
        args: fmt::Arguments<'_>,
        mut call: impl FnMut(&mut Guest) -> Result<T, Fault>,
    ) -> Run<Result<T, Errno>> {
        self.begin_call(name, args);
        let mut answer = call(&mut self.guest);
        while matches!(answer, Err(Fault::Wait)) {
            self.guest.pause().await?;
            answer = call(&mut self.guest);
        }
        self.end_call(answer.as_ref().map_err(|fault| *fault));
        match answer {
            Ok(answer) => Ok(Ok(answer)),
            Err(Fault::Errno(errno)) => Ok(Err(errno)),
            Err(Fault::Stop(stop)) => Err(Leave::Stop(stop)),
            Err(Fault::Wait) => Ok(Err(Errno::Again)),
        }
    }

    /// Opens `path`; returns the descriptor.
    pub fn path_open(
        &mut self,
        path: &str,
        oflags: OFlags,
        rights: u64,
        flags: FdFlags,
    ) -> Result<u32, Errno> {
        self.ask("path_open", format_args!("{path:?}, rights={rights:#x}"), |guest| {
            guest.path_open(AT_FDCWD, Follow::Yes, path, oflags, rights, flags)
        })
    }

    /// Returns the attributes of `path`; `ENOENT` if it is not UTF-8.
    pub fn path_filestat_get(&mut self, path: &[u8], follow: Follow) -> Result<FileStat, Errno> {
        let path = std::str::from_utf8(path).map_err(|_| Errno::Noent)?;
        self.ask("path_filestat_get", format_args!("{path:?}"), |guest| {
            guest.path_filestat_get(AT_FDCWD, follow, path)
        })
    }

    /// Returns whether `path` may be executed, symbolic links followed; `ENOENT` if it is not UTF-8.
    pub fn path_executable_get(&mut self, path: &[u8]) -> Result<bool, Errno> {
        let path = std::str::from_utf8(path).map_err(|_| Errno::Noent)?;
        self.ask("path_executable_get", format_args!("{path:?}"), |guest| {
            guest.path_executable_get(AT_FDCWD, Follow::Yes, path)
        })
    }

    /// Returns the names in the directory `fd`.
    pub fn fd_readdir(&mut self, fd: u32) -> Result<Vec<String>, Errno> {
        self.ask("fd_readdir", format_args!("fd={fd}"), |guest| {
            let listing = guest.fd_readdir(fd, 0)?;
            Ok(listing.entries_from(0).map(|(_, entry)| entry.name.to_string()).collect())
        })
    }

    /// Creates a pipe that children do not inherit; returns its read and write ends.
    pub fn pipe(&mut self) -> Result<(u32, u32), Errno> {
        self.ask("pipe", format_args!("flags=1"), |guest| guest.pipe(true))
    }

    /// Duplicates `fd` at the lowest free number from `lowest` on, close-on-exec.
    pub fn fd_dup(&mut self, fd: u32, lowest: u32) -> Result<u32, Errno> {
        self.ask("fd_dup", format_args!("fd={fd}, lowest={lowest}, flags=1"), |guest| {
            guest.fd_dup(fd, lowest, true)
        })
    }

    /// Duplicates `fd` at `to`.
    pub fn fd_dup2(&mut self, fd: u32, to: u32) -> Result<(), Errno> {
        self.ask("fd_dup2", format_args!("fd={fd}, to={to}"), |guest| guest.fd_dup2(fd, to))
    }

    /// Closes `fd`, if it is open.
    pub fn close(&mut self, fd: u32) {
        // Fails only if it is not open.
        let _ = self.ask("fd_close", format_args!("fd={fd}"), |guest| guest.fd_close(fd));
    }

    /// Changes the current directory to `path`; `is_physical` for `cd -P`.
    pub fn proc_chdir(&mut self, path: &str, is_physical: bool) -> Result<(), Errno> {
        self.ask("proc_chdir", format_args!("path={path:?}"), |guest| {
            if is_physical { guest.proc_chdir_physical(path) } else { guest.proc_chdir(path) }
        })
    }

    /// Starts a program.
    pub fn proc_spawn(&mut self, request: SpawnRequest) -> Result<Pid, SpawnError> {
        let (program, argc) = (request.program.clone(), request.args.len());
        self.begin_call("proc_spawn", format_args!("program={program:?}, argc={argc}"));
        let answer = self.guest.proc_spawn(request);
        self.end_call(answer.as_ref().map_err(|error| Fault::Errno(error.errno)));
        answer
    }

    /// Starts a shell, or a subshell of this one.
    pub fn spawn_shell(&mut self, found: Found, request: SpawnRequest) -> Result<Pid, Errno> {
        self.ask(
            "proc_spawn",
            format_args!("program=\"sh\", argc={}", request.args.len()),
            |guest| guest.spawn(found, request),
        )
    }

    /// Sends a signal; with `None` only checks that the process exists.
    pub async fn proc_kill(&mut self, pid: Pid, signal: Option<Signal>) -> Run<Result<(), Errno>> {
        let number = signal.map_or(0, Signal::number);
        self.call("proc_kill", format_args!("pid={pid}, signal={number}"), |guest| {
            guest.proc_kill(pid, signal)
        })
        .await
    }

    /// Waits for a child to end; returns at once unless it is to `block`.
    pub async fn proc_wait(
        &mut self,
        which: Option<Pid>,
        block: bool,
    ) -> Run<Result<Option<(Pid, WaitStatus)>, Errno>> {
        let (pid, flags) = (which.map_or(0, |pid| pid.0), u32::from(!block));
        self.call("proc_wait", format_args!("pid={pid}, flags={flags}"), |guest| {
            guest.proc_wait(which, block)
        })
        .await
    }

    /// Lets other processes run, after work that takes `time_ns`.
    pub async fn pass_turn(&mut self, time_ns: u64) -> Run {
        let passed = self.call("sched_yield", format_args!(""), |guest| guest.pass_turn(time_ns));
        // It cannot fail.
        passed.await?.unwrap_or_default();
        Ok(())
    }

    /// Writes all of `bytes` to `fd`.
    pub async fn write(&mut self, fd: u32, bytes: &mut [u8]) -> Run<Result<(), Errno>> {
        let mut done = 0;
        while done < bytes.len() {
            let range = Range { start: done, len: bytes.len() - done };
            let count = self
                .call("fd_write", format_args!("fd={fd}, len={}", range.len), |guest| {
                    guest.rest_if_busy()?;
                    guest.fd_write(fd, &Buffers::new(bytes, [range].into_iter().collect()))
                })
                .await?;
            match count {
                Ok(0) => return Ok(Err(Errno::Io)),
                Ok(count) => done += count as usize,
                Err(errno) => return Ok(Err(errno)),
            }
        }
        Ok(Ok(()))
    }

    /// Reads some bytes from `fd`; 0 at the end.
    pub async fn read(&mut self, fd: u32, bytes: &mut [u8]) -> Run<Result<usize, Errno>> {
        let range = Range { start: 0, len: bytes.len() };
        let count = self
            .call("fd_read", format_args!("fd={fd}, len={}", range.len), |guest| {
                guest.rest_if_busy()?;
                guest.fd_read(fd, &mut Buffers::new(bytes, [range].into_iter().collect()))
            })
            .await?;
        Ok(count.map(|count| count as usize))
    }

    /// Reads `fd` to its end, but at most `max` bytes.
    pub async fn read_to_end(&mut self, fd: u32, max: usize) -> Run<Result<Held<Vec<u8>>, Errno>> {
        let mut all = Held::none(self.memory());
        let mut piece = vec![0; 16 << 10];
        loop {
            match self.read(fd, &mut piece).await? {
                Ok(0) => return Ok(Ok(all)),
                Ok(count) if all.len() + count > max => return Ok(Err(Errno::Fbig)),
                Ok(count) => {
                    let added = all.extend(&piece[..count]);
                    self.check_memory(added).await?;
                }
                Err(errno) => return Ok(Err(errno)),
            }
        }
    }
}
