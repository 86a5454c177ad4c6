//! The one door from the ABI into the kernel.
//!
//! Every call that a guest makes is one method of [`Guest`], named after the call. Whatever is
//! limited, denied or traced is decided here. Methods take decoded arguments and touch no guest
//! memory but the buffers that they are handed.

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
mod streams;
mod tape;
mod turns;

use std::fmt;

pub use super::io::fd::Reach;
use super::io::fd::{Description, Descriptor, FdTable, OpenDir, OpenPipe};
use super::io::pipe::End;
use super::io::stdio::Stdio;
use super::machine::Machine;
use super::machine::clock::{ClockId, SPIN_FREE_READS, SPIN_TICK_NS, UPTIME_NS};
use super::machine::limits::{Limit, Stop};
use super::machine::memory::Charge;
use super::pid::Pid;
use super::process::schedule::{Image, Mode};
use super::process::turn::Turn;
use super::vfs::NodeId;
use crate::base::digest::Digest;
use crate::base::errno::Errno;

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

/// Instead of a directory's descriptor: the current directory (POSIX `AT_FDCWD`). Only for programs
/// that are no modules.
pub const AT_FDCWD: u32 = (-100_i32).cast_unsigned();

/// The number of the first directory that a module starts with.
const FIRST_PREOPEN: u32 = 3;

/// The code with which a process ends that could not be started, as a shell has it.
const NOT_RUNNABLE: u32 = 126;

/// Random bytes that are made between two looks at the deadline.
const RANDOM_PIECE_BYTES: usize = 1 << 20;

/// Why a call does not answer success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The guest gets this number and runs on.
    Errno(Errno),
    /// The guest ends.
    Stop(Stop),
    /// The guest has to wait: the same call is to be made again after [`Guest::pause`]. Only calls
    /// that say so answer this.
    Wait,
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// The kernel's side of one process: what it may do, and the machine it does it to.
pub struct Guest {
    machine: Turn,
    pid: Pid,
    is_module: bool,
    fds: FdTable,
    args: Vec<Vec<u8>>,
    environ: Vec<Vec<u8>>,
    /// The directories that it started with; the current one is called `.`.
    preopens: Vec<Preopen>,
    /// The current directory, whatever has become of its descriptor; of a program that is no module,
    /// the last of those that it started with. `None` for a module that started with confined ones.
    current_dir: Option<OpenDir>,
    /// Whether a write that nobody can read answers `EPIPE` instead of ending it.
    ignores_sigpipe: bool,
    /// The memory of its arguments and its environment, which whoever started it has chosen.
    args_charge: Option<Charge>,
    /// What a call that has to wait has done already.
    progress: Option<Progress>,
    /// The answer of the last call of the host, and the memory that it takes.
    host_reply: Option<(String, Charge)>,
    /// Calls of the host that the process runs within.
    host_depth: u32,
    /// Programs that it has tried to start, where the host is asked.
    starts: u32,
    /// When it started, on the tape's clock.
    started_ms: u64,
    /// Reads of the clock since the last other call.
    clock_reads: u32,
    /// The call that is being made, for the trace.
    call: &'static str,
    call_is_traced: bool,
}

/// How far a call has come that is made again after a wait.
#[derive(Default)]
struct Progress {
    /// Bytes that it has written.
    written: u64,
    /// What it polls.
    poll: Option<poll::Polling>,
    /// Whether it has given others their turn.
    yielded: bool,
    /// What it has asked the host for.
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

/// A directory that a process was to start with cannot be opened.
pub struct BadPreopen {
    /// The machine that the process was to run in.
    pub machine: Machine,
    /// The directory.
    pub preopen: Preopen,
    /// Why not.
    pub errno: Errno,
}

/// What a process starts with.
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
}

impl Guest {
    /// The first process of a run in `machine`, whose turn it is.
    ///
    /// # Errors
    /// [`BadPreopen`] if a preopen is not there or no directory.
    pub(super) fn first(
        mut machine: Machine,
        startup: Startup,
        image: &dyn Image,
    ) -> Result<Self, Box<BadPreopen>> {
        let Startup { args, environ, stdio, preopens, program, module_hash } = startup;
        let name = args.first().map(|name| String::from_utf8_lossy(name)).unwrap_or_default();
        let pid = machine.run.processes.add(Pid::MACHINE, &name);
        machine.run.stdio = stdio;
        let machine = Turn::with(Box::new(machine));
        let mode = image.mode();
        let is_module = mode == Mode::Module;
        let mut guest = Self::new(machine, pid, is_module, args, environ, preopens);
        guest.machine.run.processes.modules += u32::from(is_module);
        guest.tape_spawn(Origin { program, path: None, module_hash, mode });
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
            current_dir: None,
            ignores_sigpipe: false,
            args_charge: None,
            progress: None,
            host_reply: None,
            host_depth: 0,
            starts: 0,
            started_ms: 0,
            clock_reads: 0,
            call: "",
            call_is_traced: false,
        }
    }

    /// Gives the directories that the process starts with numbers, or, if it is no module, makes
    /// the last its current one. `current` is the current directory that it has from its parent.
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

    /// Gives a new description the lowest free number.
    fn push(&mut self, description: Description) -> u32 {
        let description = self.machine.run.descriptions.insert(description);
        self.fds.push(Descriptor { description, close_on_exec: false })
    }

    /// What `fd` refers to.
    ///
    /// # Errors
    /// `EBADF` if it is not open.
    fn description(&self, fd: u32) -> Result<&Description, Errno> {
        Ok(self.machine.run.descriptions.get(self.fds.get(fd)?.description))
    }

    /// What `fd` refers to, to change it.
    ///
    /// # Errors
    /// `EBADF` if it is not open.
    fn description_mut(&mut self, fd: u32) -> Result<&mut Description, Errno> {
        let id = self.fds.get(fd)?.description;
        Ok(self.machine.run.descriptions.get_mut(id))
    }

    /// Lets go of what a number referred to.
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

    /// The machine that the process runs in, to change.
    pub fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// Begins a call.
    #[inline]
    pub fn begin_call(&mut self, name: &'static str) {
        self.machine.timeouts.step();
        self.call = name;
        self.call_is_traced = false;
        if self.progress.is_some() {
            self.progress = None;
        }
        if name != "clock_time_get" {
            self.clock_reads = 0;
        }
    }

    /// Whether calls are traced.
    #[inline]
    pub fn is_traced(&self) -> bool {
        self.machine.trace.is_some()
    }

    /// Notes the current call in the trace, before it is made.
    #[cold]
    pub fn trace_call(&mut self, args: fmt::Arguments<'_>) {
        if std::mem::replace(&mut self.call_is_traced, true) {
            return;
        }
        let call = self.call;
        self.trace_line(format_args!("==> {call}({args})"));
    }

    /// Notes the answer of the current call in the trace.
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

    /// A line of the trace, which tells the processes of a tree apart.
    fn trace_line(&mut self, line: fmt::Arguments<'_>) {
        let (pid, machine) = (self.pid, &mut *self.machine);
        if pid == Pid::FIRST {
            machine.trace_line(line);
        } else {
            machine.trace_line(format_args!("[{pid}] {line}"));
        }
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

    /// `clock_time_get`: what a clock shows, in nanoseconds.
    ///
    /// A paused clock that is read more than [`SPIN_FREE_READS`] times with no other call in between
    /// moves by [`SPIN_TICK_NS`] with every further read.
    ///
    /// # Errors
    /// [`Stop::Limit`] when that passes the virtual timeout.
    pub fn clock_time_get(&mut self, id: ClockId) -> Result<u64, Fault> {
        self.clock_reads += 1;
        if self.clock_reads > SPIN_FREE_READS {
            self.clock_reads = SPIN_FREE_READS;
            if self.machine.clock.is_virtual() {
                let t = self.machine.clock.now(ClockId::Monotonic).saturating_add(SPIN_TICK_NS);
                self.pass_time(t)?;
            }
        }
        let value_ns = self.read_clock(id);
        self.tape_clock_read(id, value_ns);
        Ok(value_ns)
    }

    /// What a module sees besides what the clock `id` shows: see [`UPTIME_NS`].
    pub fn uptime_ns(&self, id: ClockId) -> u64 {
        let starts_at_0 = id != ClockId::Monotonic || self.machine.kernel_version() == 0;
        if starts_at_0 { 0 } else { UPTIME_NS }
    }

    /// `random_get`: fills `buf` with the next bytes of the machine's stream.
    ///
    /// # Errors
    /// [`Stop::Limit`] when the run's timeout comes first: filling a whole memory takes seconds.
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

    /// Lets time pass until the monotonic clock shows `t`, in the middle of a turn.
    ///
    /// # Errors
    /// [`Stop::Limit`] when a timeout comes first; the clock then stands at that timeout.
    pub fn pass_time(&mut self, t: u64) -> Result<(), Fault> {
        self.tape_sleep(t);
        self.machine.sleep_until(t).map_err(|limit| self.stop_at(limit))
    }

    pub(super) fn stop_at(&mut self, limit: Limit) -> Fault {
        self.machine.note_limit(limit);
        Fault::Stop(Stop::Limit(limit))
    }

    /// The time of a change to the file system.
    pub(super) fn now(&mut self) -> u64 {
        self.read_clock(ClockId::Realtime)
    }

    /// Gives `descriptor` a number.
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
