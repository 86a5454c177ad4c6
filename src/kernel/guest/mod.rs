//! The one door from the ABI into the kernel.
//!
//! Every call of a guest is one method of [`Guest`], named after the call; limits, denials, the trace and
//! the tape are decided there. Methods take decoded arguments and touch no guest memory except the
//! buffers that they are passed.

mod buffers;
mod current_dir;
mod device;
mod fd;
mod fd_io;
mod find;
mod host_call;
mod lookup;
mod native;
mod path;
mod poll;
mod process;
mod spin;
mod streams;
mod tape;
mod turns;

use std::fmt;

pub use super::io::fd::Reach;
use super::io::fd::{Description, Descriptor, FdTable, OpenDir, OpenPipe};
use super::io::pipe::End;
use super::io::stdio::Stdio;
use super::machine::Machine;
use super::machine::clock::ClockId;
use super::machine::limits::{Limit, Stop};
use super::machine::memory::Charge;
use super::pid::Pid;
use super::process::schedule::{Image, Mode};
use super::process::turn::Turn;
use super::vfs::NodeId;
use crate::base::digest::Digest;
use crate::base::errno::Errno;
use crate::tape::LaunchTree;

pub use buffers::{Buffers, Range, Ranges};
pub use device::is_special;
pub use fd::{FdStat, FileStat, ReadDir, rights};
pub use fd_io::Whence;
pub use host_call::HostRecord;
pub use native::InputState;
pub use path::{OFlags, absolute};
pub use poll::{Event, EventKind, Subscription, SubscriptionKind};
pub use process::{ARG_BYTES_MAX, FdAction, SpawnError, SpawnRequest};
use tape::Origin;

/// Stands for the current directory (POSIX `AT_FDCWD`). Not for modules.
pub const AT_FDCWD: u32 = (-100_i32).cast_unsigned();

/// The first descriptor of the preopens of a module or component.
pub const FIRST_PREOPEN: u32 = 3;

/// Exit status of a process that could not be started, as in a shell.
const NOT_RUNNABLE: u32 = 126;

/// Random bytes between two checks of the deadline.
const RANDOM_PIECE_BYTES: usize = 1 << 20;

/// Why a call does not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The guest receives this errno and continues.
    Errno(Errno),
    /// The process ends.
    Stop(Stop),
    /// The process waits: make the same call again after [`Guest::pause`]. Only calls that document it
    /// return this.
    Wait,
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// The kernel's side of one process, and in its turns the machine.
pub struct Guest {
    machine: Turn,
    pid: Pid,
    is_module: bool,
    fds: FdTable,
    args: Vec<Vec<u8>>,
    environ: Vec<Vec<u8>>,
    /// The directories that it started with; the current directory is called `.`.
    preopens: Vec<Preopen>,
    /// The call that it makes in place of its start function.
    invoke: Option<Box<str>>,
    /// The current directory, whatever became of its descriptor. Unless the program is a module, the last
    /// preopen. `None` for a module with confined preopens.
    current_dir: Option<OpenDir>,
    /// Whether a write to a pipe without readers returns `EPIPE` instead of ending the process.
    ignores_sigpipe: bool,
    /// The memory of its arguments and environment, which the parent chooses.
    args_charge: Option<Charge>,
    /// Progress of a call that waits.
    progress: Option<Progress>,
    /// The answer of the last host call, and its memory.
    host_reply: Option<(String, Charge)>,
    /// Number of host calls that the process runs within.
    host_depth: u32,
    /// Programs that it has tried to start, if the host is asked.
    starts: u32,
    /// Start time in milliseconds, on the tape's clock.
    started_ms: u64,
    /// What it did without a wait.
    spin: spin::Spin,
    /// The call that is being made, for the trace.
    call: &'static str,
    call_is_traced: bool,
}

/// The progress of a call that is made again after a wait.
#[derive(Default)]
struct Progress {
    /// Bytes written.
    written: u64,
    /// The poll.
    poll: Option<poll::Polling>,
    /// Whether it has given up its turn.
    yielded: bool,
    /// The host call.
    asked: Option<host_call::Asked>,
}

/// A directory that a process starts with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Preopen {
    /// Its absolute path in the namespace.
    pub path: String,
    /// The name under which the guest's libc finds it.
    pub name: String,
    /// Where lookups from it may lead.
    pub reach: Reach,
}

/// A preopen that cannot be opened.
pub struct BadPreopen {
    /// The machine that the process was to run in.
    pub machine: Machine,
    /// The directory.
    pub preopen: Preopen,
    /// The error.
    pub errno: Errno,
}

/// The initial state of a process.
#[derive(Default)]
pub struct Startup {
    /// Arguments, the program's name first. None may hold NUL.
    pub args: Vec<Vec<u8>>,
    /// The environment, as `NAME=value`. None may hold NUL.
    pub environ: Vec<Vec<u8>>,
    /// Descriptors 0, 1 and 2.
    pub stdio: Stdio,
    /// Descriptors from 3 on.
    pub preopens: Vec<Preopen>,
    /// The name of the program, for the tape; `None` if that is the first argument.
    pub program: Option<String>,
    /// The digest of the module, for the tape.
    pub module_hash: Option<Digest>,
    /// The trees that were mounted with it, for the tape.
    pub trees: Vec<LaunchTree>,
    /// The call that the program makes in place of its start function: `NAME(ARGUMENTS)`.
    pub invoke: Option<String>,
}

impl Guest {
    /// Creates the first process of a run in `machine`, with the turn.
    ///
    /// # Errors
    /// [`BadPreopen`] if a preopen does not exist or is not a directory.
    pub(super) fn first(
        mut machine: Machine,
        startup: Startup,
        image: &dyn Image,
    ) -> Result<Self, Box<BadPreopen>> {
        let Startup { args, environ, stdio, preopens, program, module_hash, trees, invoke } =
            startup;
        let name = args.first().map(|name| String::from_utf8_lossy(name)).unwrap_or_default();
        let pid = machine.run.processes.add(Pid::MACHINE, &name);
        machine.run.stdio = stdio;
        let machine = Turn::with(Box::new(machine));
        let mode = image.mode();
        let is_module = mode == Mode::Module;
        let mut guest = Self::new(machine, pid, is_module, args, environ, preopens);
        guest.machine.run.processes.modules += u32::from(is_module);
        guest.tape_spawn(Origin {
            program,
            path: None,
            module_hash,
            mode,
            trees,
            invoke: invoke.clone(),
        });
        guest.invoke = invoke.map(String::into_boxed_str);
        for stream in [Description::Stdin, Description::Stdout, Description::Stderr] {
            guest.push(stream);
        }
        if let Err((preopen, errno)) = guest.open_preopens(None) {
            guest.close_all();
            let machine = guest.machine.into_machine();
            return Err(Box::new(BadPreopen { machine, preopen, errno }));
        }
        Ok(guest)
    }

    fn new(
        machine: Turn,
        pid: Pid,
        is_module: bool,
        args: Vec<Vec<u8>>,
        environ: Vec<Vec<u8>>,
        preopens: Vec<Preopen>,
    ) -> Self {
        Self {
            machine,
            pid,
            is_module,
            fds: FdTable::default(),
            args,
            environ,
            preopens,
            invoke: None,
            current_dir: None,
            ignores_sigpipe: false,
            args_charge: None,
            progress: None,
            host_reply: None,
            host_depth: 0,
            starts: 0,
            started_ms: 0,
            spin: spin::Spin::default(),
            call: "",
            call_is_traced: false,
        }
    }

    /// Opens the preopens: as descriptors for a module; otherwise the last becomes the current directory.
    /// `current` is the current directory of the parent.
    fn open_preopens(&mut self, current: Option<NodeId>) -> Result<(), (Preopen, Errno)> {
        let preopens = std::mem::take(&mut self.preopens);
        let opened = preopens.iter().zip(FIRST_PREOPEN..).try_for_each(|(preopen, fd)| {
            let inherited = current.filter(|_| preopen.is_current_dir());
            let node = if let Some(node) = inherited {
                self.machine.vfs.reopen(node);
                node
            } else {
                let opened = self.machine.vfs.open_dir(&preopen.path);
                opened.map_err(|errno| (preopen.clone(), errno))?
            };
            let dir = self.preopened(preopen, node);
            if self.is_module {
                if preopen.is_current_dir() {
                    self.machine.vfs.reopen(node);
                    self.set_current_dir(dir.clone());
                }
                let description = self.machine.run.descriptions.insert(Description::Dir(dir));
                self.fds.put(fd, Descriptor { description, close_on_exec: false });
            } else {
                self.set_current_dir(dir);
            }
            Ok(())
        });
        self.preopens = preopens;
        opened
    }

    /// Inserts `description` at the lowest free descriptor.
    fn push(&mut self, description: Description) -> u32 {
        let description = self.machine.run.descriptions.insert(description);
        self.fds.push(Descriptor { description, close_on_exec: false })
    }

    /// The description that `fd` refers to.
    ///
    /// # Errors
    /// `EBADF` if it is not open.
    fn description(&self, fd: u32) -> Result<&Description, Errno> {
        Ok(self.machine.run.descriptions.get(self.fds.get(fd)?.description))
    }

    /// The description that `fd` refers to, mutable.
    ///
    /// # Errors
    /// `EBADF` if it is not open.
    fn description_mut(&mut self, fd: u32) -> Result<&mut Description, Errno> {
        let id = self.fds.get(fd)?.description;
        Ok(self.machine.run.descriptions.get_mut(id))
    }

    /// Releases a descriptor that was removed; with the last one, its description.
    fn release(&mut self, descriptor: Descriptor) {
        let Some(description) = self.machine.run.descriptions.release(descriptor.description)
        else {
            return;
        };
        self.tape_close(&description);
        let machine = &mut *self.machine;
        match description {
            Description::Stdin
            | Description::Stdout
            | Description::Stderr
            | Description::Device(_) => {}
            Description::File(file) => machine.vfs.end_description(file.node, file.write),
            Description::Dir(dir) => machine.vfs.close(dir.base.dir),
            Description::PipeReader(OpenPipe { pipe, .. }) => {
                machine.run.processes.wake_all(machine.run.pipes.close(pipe, End::Reader));
            }
            Description::PipeWriter(OpenPipe { pipe, .. }) => {
                machine.run.processes.wake_all(machine.run.pipes.close(pipe, End::Writer));
            }
        }
    }

    fn close_all(&mut self) {
        let descriptors: Vec<Descriptor> = self.fds.drain().collect();
        for descriptor in descriptors {
            self.release(descriptor);
        }
        if let Some(dir) = self.current_dir.take() {
            self.machine.vfs.close(dir.base.dir);
        }
    }

    /// The machine that the process runs in.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The machine that the process runs in, mutable.
    pub fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// Begins the call `name`: counts a step.
    #[inline]
    pub fn begin_call(&mut self, name: &'static str) {
        self.begin_any_call(name);
        self.spin.note_call(name == "clock_time_get");
    }

    /// As [`Guest::begin_call`], for a call that reads a clock: see [`Guest::clock_time_get`].
    pub fn begin_clock_call(&mut self, name: &'static str) {
        self.begin_any_call(name);
    }

    #[inline]
    fn begin_any_call(&mut self, name: &'static str) {
        self.machine.timeouts.step();
        self.call = name;
        self.call_is_traced = false;
        if self.progress.is_some() {
            self.progress = None;
        }
    }

    /// Returns whether calls are traced.
    #[inline]
    pub fn is_traced(&self) -> bool {
        self.machine.trace.is_some()
    }

    /// Writes the current call to the trace, before it is made.
    #[cold]
    pub fn trace_call(&mut self, args: fmt::Arguments<'_>) {
        if std::mem::replace(&mut self.call_is_traced, true) {
            return;
        }
        let call = self.call;
        self.trace_line(format_args!("==> {call}({args})"));
    }

    /// Writes the answer of the current call to the trace.
    #[cold]
    pub fn trace_answer(&mut self, answer: Result<Option<(&'static str, u64)>, Fault>) {
        if !self.call_is_traced {
            self.trace_call(format_args!("?"));
        }
        match answer {
            Ok(None) => self.trace_line(format_args!("<== errno=success")),
            Ok(Some((name, value))) => {
                self.trace_line(format_args!("<== {name}={value}, errno=success"));
            }
            Err(Fault::Errno(errno)) => {
                self.trace_line(format_args!("<== errno={}", errno.name()));
            }
            Err(Fault::Stop(stop)) => self.trace_line(format_args!("<== {stop}")),
            Err(Fault::Wait) => self.trace_line(format_args!("<== waits")),
        }
    }

    /// Writes a line of the trace, with the process's number unless it is the first.
    fn trace_line(&mut self, line: fmt::Arguments<'_>) {
        let (pid, machine) = (self.pid, &mut *self.machine);
        if pid == Pid::FIRST {
            machine.trace_line(line);
        } else {
            machine.trace_line(format_args!("[{pid}] {line}"));
        }
    }

    /// The call that the process makes in place of its start function: `NAME(ARGUMENTS)`.
    pub fn invoke(&self) -> Option<&str> {
        self.invoke.as_deref()
    }

    /// `args_get`, `args_sizes_get`: the arguments, without their closing NULs.
    pub fn args(&self) -> &[Vec<u8>] {
        &self.args
    }

    /// `environ_get`, `environ_sizes_get`: the environment, without closing NULs.
    pub fn environ(&self) -> &[Vec<u8>] {
        &self.environ
    }

    /// `clock_res_get`: the resolution of a clock in nanoseconds.
    pub fn clock_res_get(&mut self, id: ClockId) -> u64 {
        self.machine.clock.resolution(id)
    }

    /// `random_get`: fills `buf` with the next bytes of the machine's stream.
    ///
    /// # Errors
    /// [`Stop::Limit`] if the run's timeout passes: filling a whole memory takes seconds.
    pub fn random_get(&mut self, buf: &mut [u8]) -> Result<(), Fault> {
        for piece in buf.chunks_mut(RANDOM_PIECE_BYTES) {
            if self.machine.is_out_of_time() {
                return Err(self.stop_at(Limit::Timeout));
            }
            self.machine.random.fill(piece);
        }
        self.tape_random(buf);
        Ok(())
    }

    /// `proc_exit`: ends the process.
    pub fn proc_exit(&mut self, code: u32) -> Fault {
        Fault::Stop(Stop::Exit(code))
    }

    pub(super) fn stop_at(&mut self, limit: Limit) -> Fault {
        self.machine.note_limit(limit);
        Fault::Stop(Stop::Limit(limit))
    }

    /// The timestamp of a change to the file system.
    pub(super) fn now(&mut self) -> u64 {
        self.read_clock(ClockId::Realtime)
    }

    /// Checks that one more descriptor may be opened.
    ///
    /// # Errors
    /// `EMFILE` at the limit.
    pub(super) fn check_open_files(&mut self) -> Result<(), Errno> {
        if self.fds.count() >= self.machine.limits.open_files_max {
            self.machine.note_limit(Limit::OpenFiles);
            return Err(Errno::Mfile);
        }
        Ok(())
    }
}

/// The node that a description keeps open.
fn node_of(description: &Description) -> Option<NodeId> {
    match description {
        Description::File(file) => Some(file.node),
        Description::Dir(dir) => Some(dir.base.dir),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::kernel::machine::limits::Limits;
    use crate::kernel::process::schedule::Running;

    pub(super) struct Nothing;

    impl Image for Nothing {
        fn name(&self) -> &'static str {
            "nothing"
        }

        fn mode(&self) -> Mode {
            Mode::Module
        }

        fn start(self: Box<Self>, _: Guest) -> Running {
            Box::pin(std::future::pending())
        }
    }

    /// A guest with 4 GiB of memory can ask for as many random bytes at once.
    #[test]
    fn random_bytes_end_at_the_timeout() {
        let limits = Limits { timeout: Some(Duration::ZERO), ..Limits::default() };
        let mut machine = Machine::builder().limits(limits).build().unwrap();
        machine.start_run();
        let guest = Guest::first(machine, Startup::default(), &Nothing);
        let Ok(mut guest) = guest else { panic!("no preopens") };
        let mut bytes = [0; 8];
        let timeout = Fault::Stop(Stop::Limit(Limit::Timeout));
        assert_eq!(guest.random_get(&mut bytes), Err(timeout));
        assert_eq!(bytes, [0; 8]);
    }
}
