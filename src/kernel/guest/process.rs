//! Calls on processes: POSIX `posix_spawn`, `waitpid`, `kill`, `pipe`, `dup`.

use super::tape::Origin;
use super::{FIRST_PREOPEN, Fault, Guest};
use crate::base::errno::Errno;
use crate::kernel::io::fd::{Description, Descriptor, FdTable, OpenPipe};
use crate::kernel::machine::limits::{Limit, Stop};
use crate::kernel::pid::Pid;
use crate::kernel::process::programs::Found;
use crate::kernel::process::schedule::Mode;
use crate::kernel::process::{NewProcess, Signal, Wait, WaitStatus};
use crate::kernel::vfs::NodeId;
use crate::tape::Recorder;

/// Most bytes of a process's arguments and environment, with their NULs (POSIX `ARG_MAX`).
pub const ARG_BYTES_MAX: usize = 8 << 20;

/// Memory charged for an argument or environment variable beside its bytes: about what the host needs to keep it.
const TEXT_BYTES: usize = 48;

/// A process to start.
#[derive(Clone, Debug, Default)]
pub struct SpawnRequest {
    /// The program: a name, or, with a slash, the path of a module or script.
    pub program: String,
    /// The arguments, the program's name first.
    pub args: Vec<Vec<u8>>,
    /// The environment. Its `PATH` is searched for names that no toolchain has.
    pub environ: Vec<Vec<u8>>,
    /// The current directory; `None` for the parent's.
    pub current_dir: Option<String>,
    /// Whether it inherits the parent's descriptors that are not close-on-exec. Otherwise it has none.
    pub inherit: bool,
    /// Changes to its descriptors after that, in order.
    pub actions: Vec<FdAction>,
}

/// A change to the descriptors of a child before it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FdAction {
    /// `to` becomes a duplicate of the parent's `from`.
    Inherit {
        /// The parent's number.
        from: u32,
        /// The child's.
        to: u32,
    },
    /// `to` becomes a duplicate of the child's `from` (POSIX `dup2`).
    Dup {
        /// The descriptor to duplicate.
        from: u32,
        /// The duplicate.
        to: u32,
    },
    /// The descriptor is closed, if it is open.
    Close(u32),
}

/// A process could not be started.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{program}: {reason}")]
pub struct SpawnError {
    /// The program.
    pub program: String,
    /// The errno for the guest.
    pub errno: Errno,
    /// The reason.
    pub reason: String,
}

crate::base::readable::readable!(SpawnError);

impl Guest {
    /// Starts `request.program` as a child, which runs after the processes that are ready.
    ///
    /// # Errors
    /// `ENOENT` if there is no such program, `ENOEXEC` if it cannot run, `EACCES` if it is not a file, `EAGAIN`
    /// at the limit of processes or modules, `E2BIG` beyond [`ARG_BYTES_MAX`], `ENOMEM` at the limit of memory,
    /// `ENOTDIR` and the like for the current directory, `EBADF` for a descriptor that is not open, `ENOSYS` if
    /// the machine has no programs, `EPERM` if the host refuses.
    pub fn proc_spawn(&mut self, request: SpawnRequest) -> Result<Pid, SpawnError> {
        self.start(request, true)
    }

    /// As [`Guest::proc_spawn`], for the host's own code: the host is not asked.
    ///
    /// # Errors
    /// As [`Guest::proc_spawn`].
    pub fn proc_spawn_unasked(&mut self, request: SpawnRequest) -> Result<Pid, SpawnError> {
        self.start(request, false)
    }

    fn start(&mut self, mut request: SpawnRequest, asks: bool) -> Result<Pid, SpawnError> {
        let program = request.program.clone();
        let spawned = self.find_allowed(&mut request, asks).and_then(|found| {
            self.spawn(found, request).map_err(|errno| (errno, errno.to_string()))
        });
        spawned.map_err(|(errno, reason)| SpawnError { program, errno, reason })
    }

    /// Counts `fuel` instructions for work outside modules.
    ///
    /// # Errors
    /// [`Stop::Limit`] at the run's timeout or without fuel; [`Stop::Signalled`] if the process was
    /// killed; [`Stop::Tape`].
    pub fn spend(&mut self, fuel: u64) -> Result<(), Stop> {
        self.check_killed()?;
        let machine = &mut *self.machine;
        if machine.tape.as_ref().is_some_and(Recorder::failed) {
            return Err(Stop::Tape);
        }
        let mut limit = None;
        machine.timeouts.step();
        if machine.is_out_of_time() {
            limit = Some(Limit::Timeout);
        } else if let Some(max) = machine.limits.fuel {
            let left = machine.run.fuel_left.get_or_insert(max);
            *left = left.saturating_sub(fuel);
            limit = (*left == 0).then_some(Limit::Fuel);
        }
        let Some(limit) = limit else { return Ok(()) };
        machine.note_limit(limit);
        Err(Stop::Limit(limit))
    }

    /// Starts `found` as a child, whatever program `request` names.
    ///
    /// # Errors
    /// As [`Guest::proc_spawn`], without those of finding the program.
    pub fn spawn(&mut self, found: Found, mut request: SpawnRequest) -> Result<Pid, Errno> {
        self.note_start();
        found.launch.apply(&mut request.args, &mut request.environ);
        self.machine.mount_trees(&found.trees)?;
        if self.machine.run.processes.count() >= self.machine.limits.processes_max as usize {
            self.machine.note_limit(Limit::Processes);
            return Err(Errno::Again);
        }
        let modules_max = found.image.live_max().unwrap_or(u32::MAX);
        if found.image.mode() == Mode::Module && self.machine.run.processes.modules >= modules_max {
            self.machine.note_limit(Limit::Modules);
            return Err(Errno::Again);
        }
        let texts = request.args.iter().chain(&request.environ);
        let bytes = texts.clone().map(|text| text.len() + 1).sum::<usize>();
        if bytes > ARG_BYTES_MAX {
            return Err(Errno::Toobig);
        }
        let kept = if self.knows_version_11() { texts.count() * TEXT_BYTES } else { 0 };
        let mut args_charge = self.machine.run.memory.charge();
        if args_charge.grow((bytes + kept) as u64).is_err() {
            self.machine.note_limit(Limit::Memory);
            return Err(Errno::Nomem);
        }
        let (preopens, current) = self.preopens_of_child(request.current_dir.as_deref())?;
        let SpawnRequest { program, args, environ, inherit, actions, .. } = request;
        let Found { image, digest: module_hash, path, .. } = found;
        let pid = self.machine.run.processes.add(self.pid, &program);
        let mode = image.mode();
        let is_module = mode == Mode::Module;
        let mut child = Self::new(self.machine.later(), pid, is_module, args, environ, preopens);
        child.args_charge = Some(args_charge);
        child.ignores_sigpipe = self.ignores_sigpipe;
        child.host_depth = self.host_depth;
        // Until the child has a turn, its calls need the parent's.
        self.machine.lend(&mut child.machine);
        let done = child.set_up(&self.fds, inherit, &actions, current);
        match done {
            Ok(()) => {
                child.tape_spawn(Origin {
                    program: Some(program),
                    path,
                    module_hash,
                    mode,
                    trees: Vec::new(),
                    invoke: None,
                });
            }
            Err(_) => child.close_all(),
        }
        self.machine.take_back(&mut child.machine);
        if let Some(current) = current {
            self.machine.vfs.close(current);
        }
        match done {
            Ok(()) => {
                self.machine.run.processes.modules += u32::from(is_module);
                self.machine.run.processes.newborn.push(NewProcess { pid, guest: child, image });
                Ok(pid)
            }
            Err(errno) => {
                self.machine.run.processes.forget(pid);
                Err(errno)
            }
        }
    }

    fn set_up(
        &mut self,
        parents: &FdTable,
        inherit: bool,
        actions: &[FdAction],
        current: Option<NodeId>,
    ) -> Result<(), Errno> {
        let own = FIRST_PREOPEN..FIRST_PREOPEN + self.preopens.len() as u32;
        let preopened = if self.is_module { own.clone() } else { 0..0 };
        let inherited: Vec<(u32, Descriptor)> = parents.iter().collect();
        for (fd, descriptor) in inherited {
            // Preopens are not inherited: the child opens its own.
            let is_own = match self.machine.run.descriptions.get(descriptor.description) {
                Description::Dir(dir) => dir.preopen.is_some() && own.contains(&fd),
                _ => false,
            };
            if inherit && !descriptor.close_on_exec && !is_own && !preopened.contains(&fd) {
                self.put(fd, descriptor)?;
            }
        }
        for action in actions {
            match *action {
                FdAction::Inherit { to, .. } | FdAction::Dup { to, .. }
                    if preopened.contains(&to) =>
                {
                    return Err(Errno::Notsup);
                }
                FdAction::Inherit { from, to } => self.put(to, parents.get(from)?)?,
                FdAction::Dup { from, to } if from == to => {
                    self.fds.get(from)?;
                }
                FdAction::Dup { from, to } => self.put(to, self.fds.get(from)?)?,
                FdAction::Close(fd) => {
                    if let Ok(closed) = self.fds.remove(fd) {
                        self.release(closed);
                    }
                }
            }
        }
        self.open_preopens(current).map_err(|(_, errno)| errno)
    }

    /// Makes `fd` another descriptor of the description of `descriptor`.
    fn put(&mut self, fd: u32, descriptor: Descriptor) -> Result<(), Errno> {
        if fd >= self.machine.limits.open_files_max {
            return Err(Errno::Badf);
        }
        self.machine.run.descriptions.retain(descriptor.description);
        let replaced = self.fds.put(fd, Descriptor { close_on_exec: false, ..descriptor });
        if let Some(replaced) = replaced {
            self.release(replaced);
        }
        Ok(())
    }

    /// Waits for the child `which`, or any, to end (POSIX `waitpid`). `None` if none has ended and the
    /// call does not `block`.
    ///
    /// # Errors
    /// `ECHILD` if there is no such child. [`Fault::Wait`].
    pub fn proc_wait(
        &mut self,
        which: Option<Pid>,
        block: bool,
    ) -> Result<Option<(Pid, WaitStatus)>, Fault> {
        if block {
            self.rest_if_busy()?;
        }
        let ended = self.machine.run.processes.reap(self.pid, which)?;
        match ended {
            Some((pid, status)) => {
                self.tape_wait(pid, status);
                if self.machine.run.processes.count() == 1 {
                    // This process is alone, and keeps no other one waiting.
                    self.machine.run.busy = 0;
                }
                Ok(ended)
            }
            None if block => Err(self.wait(Wait::Child(which), None)),
            None => {
                self.ask_in_vain()?;
                Ok(None)
            }
        }
    }

    /// Gives up the child `pid`: it need not be waited for, and its parent is the first process. No effect if it is no
    /// child.
    pub fn proc_disown(&mut self, pid: Pid) {
        self.machine.run.processes.disown(self.pid, pid);
    }

    /// Sends `signal` to `pid`; with `None`, only checks that the process exists (POSIX `kill`). Signals
    /// end the process, except those that are ignored by default.
    ///
    /// # Errors
    /// `ESRCH`; `ENOTSUP` for a signal that stops. [`Fault::Stop`] if it ends the caller.
    pub fn proc_kill(&mut self, pid: Pid, signal: Option<Signal>) -> Result<(), Fault> {
        self.machine.run.processes.kill(pid, signal)?;
        Ok(self.check_killed()?)
    }

    /// Lets this process stand for its child `pid`, as after `exec`: a signal that ends it ends the child, too.
    ///
    /// # Errors
    /// `ECHILD` if it is no child of this process.
    pub fn proc_become(&mut self, pid: Pid) -> Result<(), Errno> {
        let is_known = self.machine.kernel_version > 8;
        if is_known { self.machine.run.processes.become_child(self.pid, pid) } else { Ok(()) }
    }

    /// The number of the parent process; 0 for the first process, 1 for an orphan.
    pub fn proc_parent(&self) -> Pid {
        self.machine.run.processes.parent(self.pid)
    }

    /// Creates a pipe; returns its read and write descriptors.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE` at the limits.
    pub fn pipe(&mut self, close_on_exec: bool) -> Result<(u32, u32), Errno> {
        if self.fds.count() + 2 > self.machine.limits.open_files_max {
            self.machine.note_limit(Limit::OpenFiles);
            return Err(Errno::Mfile);
        }
        if self.machine.run.pipes.count() >= self.machine.limits.pipes_max as usize {
            self.machine.note_limit(Limit::Pipes);
            return Err(Errno::Nfile);
        }
        let pipe = self.machine.run.pipes.create();
        let reader = self.push(Description::PipeReader(OpenPipe { pipe, nonblock: false }));
        let writer = self.push(Description::PipeWriter(OpenPipe { pipe, nonblock: false }));
        for fd in [reader, writer] {
            self.fds.get_mut(fd)?.close_on_exec = close_on_exec;
        }
        self.tape_pipe(pipe, reader, writer);
        Ok((reader, writer))
    }

    /// Duplicates `fd` at the lowest free number from `lowest` on (POSIX `F_DUPFD`).
    ///
    /// # Errors
    /// `EBADF`; `EMFILE` at the limit; `EINVAL` if `lowest` is beyond it.
    pub fn fd_dup(&mut self, fd: u32, lowest: u32, close_on_exec: bool) -> Result<u32, Errno> {
        let Descriptor { description, .. } = self.fds.get(fd)?;
        if lowest >= self.machine.limits.open_files_max {
            return Err(Errno::Inval);
        }
        self.check_open_files()?;
        let fd = self.fds.lowest_free_from(lowest);
        if fd >= self.machine.limits.open_files_max {
            return Err(Errno::Mfile);
        }
        self.machine.run.descriptions.retain(description);
        self.fds.put(fd, Descriptor { description, close_on_exec });
        Ok(fd)
    }

    /// Duplicates `fd` at `to` (POSIX `dup2`).
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open, or `to` is beyond the limit of open files.
    pub fn fd_dup2(&mut self, fd: u32, to: u32) -> Result<(), Errno> {
        let descriptor = self.fds.get(fd)?;
        if fd == to { Ok(()) } else { self.put(to, descriptor) }
    }

    /// Returns whether `fd` is close-on-exec.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn fd_close_on_exec(&self, fd: u32) -> Result<bool, Errno> {
        Ok(self.fds.get(fd)?.close_on_exec)
    }

    /// Sets whether `fd` is close-on-exec.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn fd_set_close_on_exec(&mut self, fd: u32, close_on_exec: bool) -> Result<(), Errno> {
        self.fds.get_mut(fd)?.close_on_exec = close_on_exec;
        Ok(())
    }
}

impl From<Stop> for Fault {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}
