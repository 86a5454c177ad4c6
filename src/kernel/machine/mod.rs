//! The state that one process tree shares: files, clock, random bytes, limits.

mod builder;
pub mod clock;
pub mod config;
mod error;
pub mod fork;
mod interrupt;
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
pub use self::interrupt::Interrupter;
pub(crate) use self::interrupt::OnUse;
use self::lack::Lacks;
use self::limits::Limits;
use self::random::Random;
use self::run_state::RunState;
use self::timeout::Timeouts;
use self::trace::Trace;
use super::host::Host;
use super::process::programs::NeededTree;
use super::process::programs::Programs;
use super::process::wakeup::HostBell;
pub use super::vfs::WORKTREE;
use super::vfs::{Overlay, Source};
use crate::base::errno::Errno;
use crate::results::Results;
use crate::tape::Recorder;

/// The directory of the namespace in which toolchains have their files. Nothing else is mounted there, and its name
/// means this directory wherever a program looks it up, so that a worktree cannot hide it.
pub const TOOLCHAINS_ROOT: &str = "/.belljar";

/// The mount point of a worktree in version 0 of the kernel.
pub(crate) const WORKTREE_OF_VERSION_0: &str = "/src";

/// The mount point of a worktree in version `kernel_version` of the kernel.
fn worktree_of(kernel_version: u32) -> &'static str {
    if kernel_version == 0 { WORKTREE_OF_VERSION_0 } else { WORKTREE }
}

/// The clock of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockConfig {
    /// Virtual: paused at this time until a process sleeps.
    Paused {
        /// The start, in nanoseconds since the Unix epoch.
        start_ns: u64,
    },
    /// The host's clock. Runs with it differ.
    Host,
}

impl Default for ClockConfig {
    fn default() -> Self {
        Self::Paused { start_ns: DEFAULT_START_NS }
    }
}

/// A virtual machine: the kernel state that the processes of one tree share. It owns everything that its
/// guests can observe; any number of machines may run side by side on different threads.
pub struct Machine {
    pub(crate) vfs: Overlay,
    /// Programs that processes may start.
    pub(crate) programs: Option<Arc<dyn Programs>>,
    /// What answers host calls.
    pub(crate) host: Option<Arc<dyn Host>>,
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) random: Random,
    pub(crate) limits: Limits,
    /// The state of the current run, or of the last one.
    pub(crate) run: RunState,
    /// Where timeouts end runs.
    pub(crate) timeouts: Timeouts,
    /// Ends runs from another thread.
    interrupter: Option<Interrupter>,
    /// Where recorded runs lacked host resources.
    pub(crate) lacks: Lacks,
    pub(crate) trace: Option<Trace>,
    /// Records what crosses the boundary.
    pub(crate) tape: Option<Recorder>,
    /// See [`KERNEL_VERSION`].
    pub(crate) kernel_version: u32,
    /// Whether lookups of programs are recorded.
    pub(crate) tapes_finds: bool,
    /// Results of processes of earlier runs.
    pub(crate) results: Option<Arc<Results>>,
}

impl Machine {
    /// Mounts those of `trees` that are not mounted yet, read-only: every process sees them from then on.
    ///
    /// # Errors
    /// Those of [`Overlay::mount`].
    pub(crate) fn mount_trees(&mut self, trees: &[NeededTree]) -> Result<(), Errno> {
        for NeededTree { at, layer } in trees {
            if self.vfs.has_mount_at(at) {
                continue;
            }
            let (source, mtimes) = (Source::Layers(vec![layer.clone()]), self.vfs.mtimes());
            self.vfs.mount(at, source, true, mtimes, 0)?;
        }
        Ok(())
    }

    /// Returns a builder with the defaults: an empty root, a `/tmp` in memory, the clock paused at
    /// [`DEFAULT_START_NS`], seed 0, [`Limits::default`].
    pub fn builder() -> MachineBuilder {
        MachineBuilder::default()
    }

    /// Placeholder while a run owns the machine.
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
            interrupter: None,
            lacks: Lacks::default(),
            trace: None,
            tape: None,
            kernel_version: KERNEL_VERSION,
            tapes_finds: true,
            results: None,
        }
    }

    /// The mount point of its worktree, if it has one: [`WORKTREE`], or `/src` in a replay of an old tape.
    pub fn worktree(&self) -> Option<&'static str> {
        self.vfs.worktree().map(|_| worktree_of(self.kernel_version))
    }

    /// See [`KERNEL_VERSION`].
    pub(crate) fn kernel_version(&self) -> u32 {
        self.kernel_version
    }

    /// Sets what answers host calls from now on.
    pub fn set_host(&mut self, host: impl Host + 'static) {
        self.host = Some(Arc::new(host));
    }

    /// Processes are answered from `results` from now on, as far as these have what they do, and are added to them. A
    /// machine with a tape or a trace, or whose engine counts fuel, runs everything.
    pub fn set_results(&mut self, results: Option<Arc<Results>>) {
        self.results = results;
    }

    /// The namespace.
    pub fn vfs(&self) -> &Overlay {
        &self.vfs
    }

    /// The namespace, mutable, for use between runs.
    pub fn vfs_mut(&mut self) -> &mut Overlay {
        &mut self.vfs
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The time of the machine's clock, in nanoseconds since the Unix epoch.
    pub fn now_ns(&mut self) -> u64 {
        self.catch_up();
        self.clock.now(ClockId::Realtime)
    }

    /// Sets a virtual clock forward to the last write: no file is later than the clock.
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

    /// Time elapsed on the machine's clock.
    pub fn elapsed(&mut self) -> Duration {
        Duration::from_nanos(self.clock.now(ClockId::Monotonic))
    }

    /// Advances the machine's clock by `duration`. A virtual clock jumps; the host's is waited for.
    pub fn advance(&mut self, duration: Duration) {
        let duration = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let t = self.clock.now(ClockId::Monotonic).saturating_add(duration);
        self.clock.sleep_until(t);
    }

    /// Real time left of the run, if it is limited.
    pub fn time_left(&self) -> Option<Duration> {
        self.time_left_ns().map(Duration::from_nanos)
    }
}
