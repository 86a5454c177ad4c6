//! What one process tree shares: files, clock, chance, limits.

mod builder;
pub mod clock;
pub mod config;
mod error;
pub mod fork;
pub mod limits;
pub mod memory;
pub mod random;
pub mod timeout;

use std::collections::VecDeque;
use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use self::builder::MachineBuilder;
use self::clock::{Clock, ClockId, DEFAULT_START_NS, VirtualClock};
use self::config::KERNEL_VERSION;
pub use self::error::MachineError;
use self::limits::{Limit, Limits};
use self::memory::Memory;
use self::random::Random;
use self::timeout::Timeouts;
use super::host::Host;
use super::io::fd::Descriptions;
use super::io::pipe::Pipes;
use super::io::stdio::Stdio;
use super::process::Processes;
use super::process::programs::Programs;
use super::process::wakeup::HostBell;
use super::vfs::Overlay;
use crate::tape::Recorder;

/// Where a worktree is mounted: a name that folders do not have, so that no relative path of a program
/// is taken for it.
pub const WORKTREE: &str = "/worktree";

/// Where a worktree was mounted by version 0 of the kernel.
pub(crate) const WORKTREE_OF_VERSION_0: &str = "/src";

/// Where the version `kernel_version` of the kernel has a worktree.
fn worktree_of(kernel_version: u32) -> &'static str {
    if kernel_version == 0 { WORKTREE_OF_VERSION_0 } else { WORKTREE }
}

/// What a machine's clock is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockConfig {
    /// Virtual: it stands at this instant, nanoseconds since the Unix epoch, until somebody sleeps.
    Paused {
        /// Where it stands at first.
        start_ns: u64,
    },
    /// The host's. What guests do with it cannot be repeated.
    Host,
}

impl Default for ClockConfig {
    fn default() -> Self {
        Self::Paused { start_ns: DEFAULT_START_NS }
    }
}

/// A virtual machine: the kernel state that the processes of one tree share.
///
/// It owns everything that its guests can observe. Two machines share nothing, and any number of
/// them run side by side on different threads.
pub struct Machine {
    pub(crate) vfs: Overlay,
    pub(crate) descriptions: Descriptions,
    pub(crate) pipes: Pipes,
    pub(crate) processes: Processes,
    /// The streams of the run that is going on.
    pub(crate) stdio: Stdio,
    /// What processes may start.
    pub(crate) programs: Option<Arc<dyn Programs>>,
    /// Whom processes may ask by name.
    pub(crate) host: Option<Arc<dyn Host>>,
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) random: Random,
    pub(crate) limits: Limits,
    /// Rings for processes that wait for the host.
    pub(crate) bell: HostBell,
    /// Bytes of standard input that were taken and given back, to be read again.
    pub(crate) stdin_given_back: VecDeque<u8>,
    /// What processes have taken.
    pub(crate) memory: Memory,
    /// Fuel that is left, if it is counted.
    pub(crate) fuel_left: Option<u64>,
    /// Output bytes that may still be written.
    pub(crate) output_left: u64,
    /// When the run that is going on must end, on the host's clock.
    pub(super) deadline: Option<Instant>,
    /// What no timeout counts, when the run began.
    pub(super) uncounted_before: Duration,
    /// Where real time ends runs.
    pub(crate) timeouts: Timeouts,
    pub(crate) limits_hit: Vec<Limit>,
    /// Names of programs that processes looked for in vain.
    pub(super) missing_programs: Vec<String>,
    pub(crate) trace: Option<Box<dyn Write + Send>>,
    /// Bytes that the trace may still take.
    pub(crate) trace_left: u64,
    /// Where what crosses the boundary is recorded.
    pub(crate) tape: Option<Recorder>,
    /// What it answers: see [`KERNEL_VERSION`].
    pub(crate) kernel_version: u32,
    /// Whether the tape has what processes found when they looked for programs.
    pub(crate) tapes_finds: bool,
}

impl Machine {
    /// A builder with the defaults: an empty root, a `/tmp` in memory, the clock paused at
    /// [`DEFAULT_START_NS`], seed 0, [`Limits::default`].
    pub fn builder() -> MachineBuilder {
        MachineBuilder::default()
    }

    /// Nothing to speak of, to stand where a machine was while a process has it.
    pub(crate) fn vacant() -> Self {
        let limits = Limits::default();
        Self {
            vfs: Overlay::new(limits.vfs, 0),
            descriptions: Descriptions::default(),
            pipes: Pipes::default(),
            processes: Processes::default(),
            stdio: Stdio::default(),
            programs: None,
            host: None,
            bell: HostBell::default(),
            stdin_given_back: VecDeque::new(),
            memory: Memory::new(0),
            fuel_left: None,
            clock: Box::new(VirtualClock::starting_at(0)),
            random: Random::seeded(0),
            limits,
            output_left: 0,
            deadline: None,
            uncounted_before: Duration::ZERO,
            timeouts: Timeouts::default(),
            limits_hit: Vec::new(),
            missing_programs: Vec::new(),
            trace: None,
            trace_left: 0,
            tape: None,
            kernel_version: KERNEL_VERSION,
            tapes_finds: true,
        }
    }

    /// Where its worktree is mounted, if it has one: at [`WORKTREE`], or, where an old tape is
    /// replayed, at `/src`.
    pub fn worktree(&self) -> Option<&'static str> {
        self.vfs.worktree().map(|_| worktree_of(self.kernel_version))
    }

    /// What it answers: see [`KERNEL_VERSION`].
    pub(crate) fn kernel_version(&self) -> u32 {
        self.kernel_version
    }

    /// Sets whom processes may ask by name from now on. A host is for one machine.
    pub fn set_host(&mut self, host: Arc<dyn Host>) {
        self.host = Some(host);
    }

    /// The namespace.
    pub fn vfs(&self) -> &Overlay {
        &self.vfs
    }

    /// The namespace, to look into or to change between runs.
    pub fn vfs_mut(&mut self) -> &mut Overlay {
        &mut self.vfs
    }

    /// The bounds that hold.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The time that the machine's clock shows, nanoseconds since the Unix epoch.
    pub fn now_ns(&mut self) -> u64 {
        self.catch_up();
        self.clock.now(ClockId::Realtime)
    }

    /// Sets a paused clock forward to the last write: no file is later than the clock.
    #[inline]
    pub(crate) fn catch_up(&mut self) {
        if let Some(written_ns) = self.vfs.last_write_ns()
            && self.clock.now(ClockId::Realtime) < written_ns
        {
            self.clock.set_forward(written_ns);
            if let Some(tape) = &self.tape {
                tape.set_realtime(written_ns);
            }
        }
    }

    /// Time that has passed on the machine's clock.
    pub fn elapsed(&mut self) -> Duration {
        Duration::from_nanos(self.clock.now(ClockId::Monotonic))
    }

    /// Lets `duration` pass on the machine's clock. A virtual clock jumps; the host's is waited for.
    pub fn advance(&mut self, duration: Duration) {
        let duration = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let t = self.clock.now(ClockId::Monotonic).saturating_add(duration);
        self.clock.sleep_until(t);
    }

    /// The limits that guests ran into, each once, in the order in which they did.
    pub fn limits_hit(&self) -> Vec<Limit> {
        let mut hit = self.limits_hit.clone();
        if self.memory.has_refused() && !hit.contains(&Limit::Memory) {
            hit.push(Limit::Memory);
        }
        match self.vfs.limit_hit() {
            Some("upper_bytes_max") => hit.push(Limit::Upper),
            Some(_) => hit.push(Limit::FileSize),
            None => {}
        }
        hit
    }

    /// Notes that a guest ran into `limit`.
    pub(crate) fn note_limit(&mut self, limit: Limit) {
        if !self.limits_hit.contains(&limit) {
            self.limits_hit.push(limit);
        }
        if limit == Limit::Timeout {
            self.tape_timeout();
        }
    }

    /// Forgets which limits were met, and lets the next run write as much as the first.
    pub(crate) fn renew_budgets(&mut self) {
        self.output_left = self.limits.output_bytes_max;
        self.memory = Memory::new(self.limits.memory_bytes_max);
        self.limits_hit.clear();
        self.missing_programs.clear();
        self.vfs.forget_limit_hit();
    }

    /// Writes a line for every call of a guest, with its arguments and its answer, to `sink`, up to
    /// [`Limits::trace_bytes_max`].
    pub fn set_trace(&mut self, sink: Option<Box<dyn Write + Send>>) {
        self.trace = sink;
        self.trace_left = self.limits.trace_bytes_max;
    }

    /// Adds a line to the trace. One that cannot be written must not change what the guest does.
    pub(crate) fn trace_line(&mut self, line: fmt::Arguments<'_>) {
        let Some(trace) = &mut self.trace else { return };
        let line = format!("{line}\n");
        if let Some(left) = self.trace_left.checked_sub(line.len() as u64) {
            self.trace_left = left;
            let _ = trace.write_all(line.as_bytes());
            return;
        }
        let max = self.limits.trace_bytes_max;
        let _ = writeln!(trace, "the trace ends here: it has reached its limit of {max} bytes");
        self.trace = None;
        self.note_limit(Limit::Trace);
    }

    /// Real time that the run has left, if it is bounded.
    pub fn time_left(&self) -> Option<Duration> {
        self.time_left_ns().map(Duration::from_nanos)
    }

    /// Fuel that a run has at first, if it is counted.
    pub(crate) fn fuel(&self) -> u64 {
        self.limits.fuel.unwrap_or(u64::MAX)
    }

    /// Starts the countdown of [`Limits::timeout`], and with it a run.
    pub(crate) fn start_run(&mut self) {
        self.start_countdown();
        self.processes = Processes::default();
        self.vfs.note_process_end();
        self.bell = self.bell.for_next_run();
        self.stdin_given_back = VecDeque::new();
        self.fuel_left = None;
    }
}
