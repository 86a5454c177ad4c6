//! Limits on everything that a guest drives.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kernel::process::Signal;
use crate::kernel::vfs::VfsLimits;

/// The limits of a machine. Where a guest can continue it gets an errno, else [`Stop::Limit`] ends the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Bytes of the memories and tables (8 per entry) of all processes, and of shells' values. Beyond:
    /// `memory.grow` returns −1, and a shell ends with a message.
    pub memory_bytes_max: u64,
    /// Instructions, roughly, of all processes; `None`: no limit. Beyond: ended. Needs an engine that
    /// counts fuel.
    pub fuel: Option<u64>,
    /// Real time of a run. Beyond: ended, after a call of the host that is under way, such as a write to
    /// a pipe without reader, which cannot be interrupted. Loading and compiling programs does not count.
    pub timeout: Option<Duration>,
    /// Time on the machine's own clock. Beyond: ended; with the host's clock, when a process sleeps.
    pub virtual_timeout: Option<Duration>,
    /// Open descriptors of a process. Beyond: `EMFILE`.
    pub open_files_max: u32,
    /// Processes of a run, zombies included. Beyond: `EAGAIN`.
    pub processes_max: u32,
    /// Pipes of a run. Beyond: `ENFILE`.
    pub pipes_max: u32,
    /// Bytes written to standard output and standard error together. Beyond: ended.
    pub output_bytes_max: u64,
    /// Bytes of a trace. Beyond: the trace ends with a line that says so; the guest continues.
    pub trace_bytes_max: u64,
    /// Bytes of the parameters of a host call, and of its answer. Beyond: `E2BIG`, or an error as the answer.
    pub host_call_bytes_max: u64,
    /// Limits of the file system.
    pub vfs: VfsLimits,
}

impl Limits {
    /// Returns these limits, each no larger than in `bounds`.
    #[must_use]
    pub fn within(&self, bounds: &Self) -> Self {
        fn tighter<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            }
        }
        Self {
            memory_bytes_max: self.memory_bytes_max.min(bounds.memory_bytes_max),
            fuel: tighter(self.fuel, bounds.fuel),
            timeout: tighter(self.timeout, bounds.timeout),
            virtual_timeout: tighter(self.virtual_timeout, bounds.virtual_timeout),
            open_files_max: self.open_files_max.min(bounds.open_files_max),
            processes_max: self.processes_max.min(bounds.processes_max),
            pipes_max: self.pipes_max.min(bounds.pipes_max),
            output_bytes_max: self.output_bytes_max.min(bounds.output_bytes_max),
            trace_bytes_max: self.trace_bytes_max.min(bounds.trace_bytes_max),
            host_call_bytes_max: self.host_call_bytes_max.min(bounds.host_call_bytes_max),
            vfs: self.vfs.within(&bounds.vfs),
        }
    }
}

impl Limits {
    /// [`Limits::virtual_timeout`] in nanoseconds, if they fit.
    pub(in crate::kernel) fn virtual_timeout_ns(&self) -> Option<u64> {
        self.virtual_timeout?.as_nanos().try_into().ok()
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes_max: 4 << 30,
            fuel: None,
            timeout: None,
            virtual_timeout: None,
            open_files_max: 1024,
            processes_max: 500,
            pipes_max: 1000,
            output_bytes_max: 64 << 20,
            trace_bytes_max: 1 << 30,
            host_call_bytes_max: 8 << 20,
            vfs: VfsLimits::default(),
        }
    }
}

/// The name of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// [`Limits::memory_bytes_max`]
    Memory,
    /// [`Limits::fuel`]
    Fuel,
    /// [`Limits::timeout`]
    Timeout,
    /// [`Limits::virtual_timeout`]
    VirtualTimeout,
    /// [`Limits::open_files_max`]
    OpenFiles,
    /// [`Limits::processes_max`]
    Processes,
    /// Modules alive at once: [`crate::kernel::process::schedule::Image::live_max`]
    Modules,
    /// Host resources of one user: native programs, their pipes, memory to start a program.
    Host,
    /// [`Limits::pipes_max`]
    Pipes,
    /// [`Limits::output_bytes_max`]
    Output,
    /// [`Limits::trace_bytes_max`]
    Trace,
    /// [`Limits::host_call_bytes_max`]
    HostCall,
    /// [`VfsLimits::upper_bytes_max`]
    Upper,
    /// [`VfsLimits::file_bytes_max`]
    FileSize,
}

impl Limit {
    /// Its name in reports, such as `virtual_timeout`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Fuel => "fuel",
            Self::Timeout => "timeout",
            Self::VirtualTimeout => "virtual_timeout",
            Self::OpenFiles => "open_files",
            Self::Processes => "processes",
            Self::Modules => "modules",
            Self::Host => "host",
            Self::Pipes => "pipes",
            Self::Output => "output",
            Self::Trace => "trace",
            Self::HostCall => "host_call",
            Self::Upper => "upper",
            Self::FileSize => "file_size",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory limit",
            Self::Fuel => "fuel limit",
            Self::Timeout => "timeout",
            Self::VirtualTimeout => "virtual timeout",
            Self::OpenFiles => "limit of open files",
            Self::Processes => "limit of processes",
            Self::Modules => "limit of live modules",
            Self::Host => "limit of host resources",
            Self::Pipes => "limit of pipes",
            Self::Output => "output limit",
            Self::Trace => "trace limit",
            Self::HostCall => "limit of host calls",
            Self::Upper => "limit of written bytes",
            Self::FileSize => "file size limit",
        })
    }
}

/// Why a guest ends other than by a trap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It called `proc_exit` with this code.
    Exit(u32),
    /// It reached a limit that it cannot continue past.
    Limit(Limit),
    /// A signal killed it.
    Signalled(Signal),
    /// The machine's tape failed: it is full, cannot be written, or differs from the run that replays it.
    Tape,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exited with code {code}"),
            Self::Limit(limit) => write!(f, "reached the {limit}"),
            Self::Signalled(signal) => write!(f, "was killed by {signal}"),
            Self::Tape => f.write_str("stopped because its tape failed"),
        }
    }
}

impl std::error::Error for Stop {}
