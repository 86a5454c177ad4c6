//! What one process tree shares: files, clock, chance, limits.

mod builder;
pub mod clock;
pub mod config;
mod error;
pub mod fork;
pub mod lack;
pub mod limits;
pub mod memory;
pub mod random;
pub(crate) mod run_state;
pub mod timeout;
pub(crate) mod trace;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::builder::MachineBuilder;
use self::clock::{Clock, ClockId, DEFAULT_START_NS, VirtualClock};
use self::config::KERNEL_VERSION;
pub use self::error::MachineError;
use self::lack::Lacks;
use self::limits::Limits;
use self::random::Random;
use self::run_state::RunState;
use self::timeout::Timeouts;
use self::trace::Trace;
use super::host::Host;
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
    /// What processes may start.
    pub(crate) programs: Option<Arc<dyn Programs>>,
    /// Whom processes may ask by name.
    pub(crate) host: Option<Arc<dyn Host>>,
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) random: Random,
    pub(crate) limits: Limits,
    /// What belongs to the run that is going on, or else to the last one.
    pub(crate) run: RunState,
    /// Where real time ends runs.
    pub(crate) timeouts: Timeouts,
    /// Where the host had nothing left, in the runs that it repeats.
    pub(crate) lacks: Lacks,
    pub(crate) trace: Option<Trace>,
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
            programs: None,
            host: None,
            clock: Box::new(VirtualClock::starting_at(0)),
            random: Random::seeded(0),
            run: RunState::new(&limits, HostBell::default()),
            limits,
            timeouts: Timeouts::default(),
            lacks: Lacks::default(),
            trace: None,
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

    /// Sets what answers the calls that processes make by name from now on.
    pub fn set_host(&mut self, host: impl Host + 'static) {
        self.host = Some(Arc::new(host));
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

    /// Real time that the run has left, if it is bounded.
    pub fn time_left(&self) -> Option<Duration> {
        self.time_left_ns().map(Duration::from_nanos)
    }
}
