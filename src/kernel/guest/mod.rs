//! The one door from the ABI into the kernel.
//!
//! Every call that a guest makes is one method of [`Guest`], named after the call. Whatever is
//! limited, denied or traced is decided here. Methods take decoded arguments and touch no guest
//! memory but the buffers that they are handed.

mod buffers;
mod fd;
mod fd_io;
mod path;
mod poll;
mod tape;

use std::fmt;

use super::clock::{ClockId, SPIN_FREE_READS, SPIN_TICK_NS};
use super::fd::{Descriptor, FdTable, OpenDir};
use super::limits::{Limit, Stop};
use super::machine::{Machine, WORKTREE};
use super::stdio::Stdio;
use super::vfs::{Base, Mount, NodeId};
use crate::base::ambient;
use crate::base::digest::Digest;
use crate::base::errno::Errno;

pub use buffers::{Buffers, Range, Ranges};
pub use fd::{FdStat, FileStat, ReadDir, rights};
pub use fd_io::Whence;
pub use path::OFlags;
pub use poll::{Event, EventKind, Subscription, SubscriptionKind};

/// Random bytes that are made between two looks at the deadline.
const RANDOM_PIECE_BYTES: usize = 1 << 20;

/// Why a call does not answer success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The guest gets this number and runs on.
    Errno(Errno),
    /// The guest ends.
    Stop(Stop),
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// The kernel's side of one process: what it may do, and the machine it does it to.
pub struct Guest {
    machine: Machine,
    fds: FdTable,
    args: Vec<Vec<u8>>,
    environ: Vec<Vec<u8>>,
    stdio: Stdio,
    /// Reads of the clock since the last other call.
    clock_reads: u32,
    /// The call that is being made, for the trace.
    call: &'static str,
    call_is_traced: bool,
    /// What [`Reach::NamespaceOrRoot`] looks up from the root first.
    mount_names: Vec<Box<str>>,
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

/// Where lookups from a preopened directory may lead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Only beneath it, and only beneath each directory that is opened through it.
    Confined,
    /// Through the whole namespace.
    Namespace,
    /// Through the whole namespace, and what is not found from it is looked up from the root.
    ///
    /// For the current directory: C libraries strip the slash off an absolute path and look it up
    /// from the same descriptor as a relative one, so that nothing tells `/tmp/x` from `tmp/x`.
    NamespaceOrRoot,
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
    /// The digest of the module, for the tape.
    pub module_hash: Option<Digest>,
}

impl Guest {
    /// A process in `machine`.
    ///
    /// # Errors
    /// [`BadPreopen`] if a preopen is not there or no directory.
    pub fn new(machine: Machine, startup: Startup) -> Result<Self, Box<BadPreopen>> {
        let mut guest = Self {
            machine,
            fds: FdTable::default(),
            args: startup.args,
            environ: startup.environ,
            stdio: startup.stdio,
            clock_reads: 0,
            call: "",
            call_is_traced: false,
            mount_names: Vec::new(),
        };
        guest.tape_spawn(startup.module_hash, &startup.preopens);
        guest.mount_names = named_mounts(guest.machine.vfs.mounts());
        for descriptor in [Descriptor::Stdin, Descriptor::Stdout, Descriptor::Stderr] {
            guest.fds.push(descriptor);
        }
        for preopen in startup.preopens {
            match guest.open_preopen(&preopen) {
                Ok(dir) => {
                    guest.fds.push(Descriptor::Dir(dir));
                }
                Err(errno) => {
                    let machine = guest.end().0;
                    return Err(Box::new(BadPreopen { machine, preopen, errno }));
                }
            }
        }
        Ok(guest)
    }

    fn open_preopen(&mut self, preopen: &Preopen) -> Result<OpenDir, Errno> {
        let vfs = &mut self.machine.vfs;
        let node = vfs.open_dir(&preopen.path)?;
        let confines = preopen.reach == Reach::Confined;
        let root = if confines { node } else { vfs.root() };
        Ok(OpenDir {
            base: Base { dir: node, root },
            confines,
            or_root: preopen.reach == Reach::NamespaceOrRoot,
            preopen: Some(preopen.name.as_str().into()),
            taped_path: self.machine.tape.is_some().then(|| preopen.path.as_str().into()),
            listing: None,
        })
    }

    /// Ends the process: closes its descriptors and gives back the machine and the streams.
    pub fn end(mut self) -> (Machine, Stdio) {
        let descriptors: Vec<Descriptor> = self.fds.drain().collect();
        for descriptor in descriptors {
            self.tape_close(&descriptor);
            if let Some(node) = node_of(&descriptor) {
                self.machine.vfs.close(node);
            }
        }
        (self.machine, self.stdio)
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
        self.call = name;
        self.call_is_traced = false;
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
        self.call_is_traced = true;
        self.machine.trace_line(format_args!("==> {}({args})", self.call));
    }

    /// Notes the answer of the current call in the trace.
    #[cold]
    pub fn trace_answer(&mut self, answer: Result<Option<(&'static str, u64)>, Fault>) {
        if !self.call_is_traced {
            self.trace_call(format_args!("?"));
        }
        let machine = &mut self.machine;
        match answer {
            Ok(None) => machine.trace_line(format_args!("<== errno=success")),
            Ok(Some((name, value))) => {
                machine.trace_line(format_args!("<== {name}={value}, errno=success"));
            }
            Err(Fault::Errno(errno)) => {
                machine.trace_line(format_args!("<== errno={}", errno.name()));
            }
            Err(Fault::Stop(stop)) => machine.trace_line(format_args!("<== {stop}")),
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
                self.sleep_until(t)?;
            }
        }
        let value_ns = self.read_clock(id);
        self.tape_clock_read(id, value_ns);
        Ok(value_ns)
    }

    /// `random_get`: fills `buf` with the next bytes of the machine's stream.
    ///
    /// # Errors
    /// [`Stop::Limit`] when the run's timeout comes first: filling a whole memory takes seconds.
    pub fn random_get(&mut self, buf: &mut [u8]) -> Result<(), Fault> {
        for piece in buf.chunks_mut(RANDOM_PIECE_BYTES) {
            if self.machine.deadline.is_some_and(|deadline| deadline <= ambient::instant_now()) {
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

    /// Lets time pass until the monotonic clock shows `t`.
    ///
    /// # Errors
    /// [`Stop::Limit`] when a timeout comes first; the clock then stands at that timeout.
    pub(super) fn sleep_until(&mut self, t: u64) -> Result<(), Fault> {
        let machine = &mut self.machine;
        let stop_at = machine.limits.virtual_timeout.map(|timeout| timeout.as_nanos());
        if let Some(stop_at) = stop_at.and_then(|ns| u64::try_from(ns).ok())
            && t > stop_at
        {
            self.tape_sleep(stop_at);
            self.machine.clock.sleep_until(stop_at);
            return Err(self.stop_at(Limit::VirtualTimeout));
        }
        if !machine.clock.is_virtual()
            && let Some(deadline) = machine.deadline
        {
            let left = deadline.saturating_duration_since(ambient::instant_now());
            let now = machine.clock.now(ClockId::Monotonic);
            let end = now.saturating_add(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
            if t > end {
                machine.clock.sleep_until(end);
                return Err(self.stop_at(Limit::Timeout));
            }
        }
        self.tape_sleep(t);
        self.machine.clock.sleep_until(t);
        Ok(())
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

/// The mount points, without their first slash, of all mounts but those that are there anyway: the
/// root, the worktree and `/tmp`.
fn named_mounts(mounts: &[Mount]) -> Vec<Box<str>> {
    let usual = ["", "tmp", &WORKTREE[1..]];
    let points: Vec<String> = mounts.iter().map(Mount::path).collect();
    let points = points.iter().map(|at| at.trim_start_matches('/'));
    points.filter(|at| !usual.contains(at)).map(Into::into).collect()
}

/// The node that a descriptor keeps open.
fn node_of(descriptor: &Descriptor) -> Option<NodeId> {
    match descriptor {
        Descriptor::File(file) => Some(file.node),
        Descriptor::Dir(dir) => Some(dir.base.dir),
        Descriptor::Stdin | Descriptor::Stdout | Descriptor::Stderr => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::kernel::limits::Limits;

    /// A guest with 4 GiB of memory can ask for as many random bytes at once.
    #[test]
    fn random_bytes_end_at_the_timeout() {
        let limits = Limits { timeout: Some(Duration::ZERO), ..Limits::default() };
        let mut machine = Machine::builder().limits(limits).build().unwrap();
        machine.start_run();
        let Ok(mut guest) = Guest::new(machine, Startup::default()) else { panic!("no preopens") };
        let mut bytes = [0; 8];
        let timeout = Fault::Stop(Stop::Limit(Limit::Timeout));
        assert_eq!(guest.random_get(&mut bytes), Err(timeout));
        assert_eq!(bytes, [0; 8]);
    }
}
