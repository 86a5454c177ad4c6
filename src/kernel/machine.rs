//! What one process tree shares: files, clock, chance, limits.

use std::collections::VecDeque;
use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::bell::HostBell;
use super::clock::{Clock, ClockId, DEFAULT_START_NS, HostClock, TapedClock, VirtualClock};
use super::fd::Descriptions;
use super::host::Host;
use super::limits::{Limit, Limits};
use super::machine_config::{HostConfig, KERNEL_VERSION, MachineConfig, MountConfig, time_scale};
pub use super::machine_error::MachineError;
use super::memory::Memory;
use super::pipe::Pipes;
use super::process::Processes;
use super::programs::Programs;
use super::random::Random;
use super::stdio::Stdio;
use super::timeout::{TapedTimeout, Timeouts};

use super::vfs::{HostDir, MountId, Mtimes, Overlay, Source, VPath};
use crate::tape::{Kind, Recorder};

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

/// Puts a [`Machine`] together.
///
/// ```
/// use belljar::{Machine, Source};
///
/// let mut machine = Machine::builder().mount("/job", Source::Memory).seed(7).build()?;
/// machine.vfs_mut().write("/job/note", b"hello", 0).unwrap();
/// assert_eq!(machine.vfs_mut().read("/job/note").unwrap(), b"hello");
/// # Ok::<(), belljar::MachineError>(())
/// ```
#[must_use]
pub struct MachineBuilder {
    mounts: Vec<(String, Source, bool)>,
    clock: ClockConfig,
    mtimes: Option<Mtimes>,
    seed: u64,
    limits: Limits,
    tmp: bool,
    tape: Option<Recorder>,
    taped_clock: Option<(u64, u64, Vec<u64>)>,
    shared_clock: Option<Box<dyn Clock>>,
    recorded_as: Option<MachineConfig>,
    programs: Option<Arc<dyn Programs>>,
    host: Option<Arc<dyn Host>>,
    bell: HostBell,
    timeouts: Timeouts,
}

impl Default for MachineBuilder {
    fn default() -> Self {
        Self {
            mounts: Vec::new(),
            clock: ClockConfig::default(),
            mtimes: None,
            seed: 0,
            limits: Limits::default(),
            tmp: true,
            tape: None,
            taped_clock: None,
            shared_clock: None,
            recorded_as: None,
            programs: None,
            host: None,
            bell: HostBell::default(),
            timeouts: Timeouts::default(),
        }
    }
}

impl MachineBuilder {
    /// Mounts `source` at the absolute path `at`, copy-on-write. Later mounts hide earlier ones.
    pub fn mount(mut self, at: impl Into<String>, source: Source) -> Self {
        self.mounts.push((at.into(), source, false));
        self
    }

    /// Mounts `source` at the absolute path `at`; guests that write to it meet `EROFS`.
    pub fn mount_read_only(mut self, at: impl Into<String>, source: Source) -> Self {
        self.mounts.push((at.into(), source, true));
        self
    }

    /// Mounts the host directory `dir` copy-on-write at [`WORKTREE`], where programs start.
    pub fn worktree(self, dir: HostDir) -> Self {
        self.mount(WORKTREE, Source::Host(Arc::new(dir)))
    }

    /// What the clock is.
    pub fn clock(mut self, clock: ClockConfig) -> Self {
        self.clock = clock;
        self
    }

    /// Times that files below show until they are changed. Default: the start time of the clock.
    pub fn mtimes(mut self, mtimes: Mtimes) -> Self {
        self.mtimes = Some(mtimes);
        self
    }

    /// The seed of `random_get`.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The bounds.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Whether there is a `/tmp` in memory. Default: there is.
    pub fn tmp(mut self, tmp: bool) -> Self {
        self.tmp = tmp;
        self
    }

    /// What processes can start. Default: nothing.
    pub fn programs(mut self, programs: Arc<dyn Programs>) -> Self {
        self.programs = Some(programs);
        self
    }

    /// Whom processes may ask by name, such as [`crate::host::SessionHost`]. Default: nobody. A host
    /// is for one machine.
    pub fn host(mut self, host: Arc<dyn Host>) -> Self {
        self.host = Some(host);
        self
    }

    /// Instead of a bell that the host rings: one that has rung as it did when a tape was recorded.
    pub fn taped_bell(mut self, bell: HostBell) -> Self {
        self.bell = bell;
        self
    }

    /// Instead of real time, which ends a run at its timeout: where it ended runs that were recorded.
    pub fn taped_timeouts(mut self, ends: Vec<TapedTimeout>) -> Self {
        self.timeouts = Timeouts::taped(ends);
        self
    }

    /// Records what crosses the boundary of the machine.
    pub fn tape(mut self, recorder: Recorder) -> Self {
        self.tape = Some(recorder);
        self
    }

    /// Instead of the host's clock: one that showed `start_ns`, and `start_monotonic_ns`, when the
    /// machine was made, and shows `values_ns` one after the other.
    pub fn taped_clock(
        mut self,
        start_ns: u64,
        start_monotonic_ns: u64,
        values_ns: Vec<u64>,
    ) -> Self {
        self.taped_clock = Some((start_ns, start_monotonic_ns, values_ns));
        self
    }

    /// Instead of one of the machine's own: a clock that others use as well.
    pub fn shared_clock(mut self, clock: Box<dyn Clock>) -> Self {
        self.shared_clock = Some(clock);
        self
    }

    /// What a tape says of how the machine was made, instead of how it is made: it plays back one
    /// that was made so.
    pub fn recorded_as(mut self, config: MachineConfig) -> Self {
        self.recorded_as = Some(config);
        self
    }

    fn config(&self, start_ns: u64, start_monotonic_ns: u64, mtimes: Mtimes) -> MachineConfig {
        let mount = |(path, source, read_only): &(String, Source, bool)| {
            MountConfig::of(path, source, *read_only)
        };
        MachineConfig {
            clock: self.clock,
            start_ns,
            start_monotonic_ns,
            mtimes,
            seed: self.seed,
            limits: self.limits,
            tmp: self.tmp,
            host: self.host.as_ref().map(|host| HostConfig { checks_starts: host.checks_starts() }),
            kernel_version: self.kernel_version(),
            has_programs: Some(self.programs.is_some()),
            mounts: self.mounts.iter().map(mount).collect(),
        }
    }

    /// Where the worktree is, if there is one.
    fn worktree_path(&self) -> Option<&'static str> {
        let has = |at: &str| self.mounts.iter().any(|(path, ..)| path.trim_end_matches('/') == at);
        let at = worktree_of(self.kernel_version());
        has(at).then_some(at)
    }

    fn kernel_version(&self) -> u32 {
        self.recorded_as.as_ref().map_or(KERNEL_VERSION, |config| config.kernel_version)
    }

    /// Makes sure that no mount begins with a name that the worktree has.
    fn check_names(&self) -> Result<(), MachineError> {
        let Some(WORKTREE) = self.worktree_path() else { return Ok(()) };
        let is_worktree =
            |(path, ..): &&(String, Source, bool)| path.trim_end_matches('/') == WORKTREE;
        let Some((_, worktree, _)) = self.mounts.iter().find(is_worktree) else { return Ok(()) };
        let has = |name: &str| {
            let path = VPath::parse(name).ok();
            path.is_some_and(|path| worktree.layers().iter().any(|layer| layer.stat(&path).is_ok()))
        };
        // Directories in memory give way.
        let in_memory = |source: &Source| matches!(source, Source::Memory);
        for (path, ..) in self.mounts.iter().filter(|(_, source, _)| !in_memory(source)) {
            let Some(name) = path.split('/').find(|name| !name.is_empty()) else { continue };
            if name != &WORKTREE[1..] && has(name) {
                let names = (2..).map(|number| format!("{name}{number}"));
                let free = names.into_iter().find(|name| !has(name)).unwrap_or_default();
                let free = path.replacen(name, &free, 1);
                let (path, name) = (path.clone(), name.to_owned());
                return Err(MachineError::Ambiguous { path, name, free });
            }
        }
        Ok(())
    }

    /// The machine.
    ///
    /// # Errors
    /// [`MachineError::Mount`]: see [`Overlay::mount`]. [`MachineError::Layers`] if it has a tape.
    /// [`MachineError::Ambiguous`].
    pub fn build(mut self) -> Result<Machine, MachineError> {
        if let Some(shared) = &mut self.shared_clock {
            let start_ns = shared.now(ClockId::Realtime);
            let is_virtual = shared.is_virtual();
            self.clock =
                if is_virtual { ClockConfig::Paused { start_ns } } else { ClockConfig::Host };
        }
        let mut clock: Box<dyn Clock> = match (&self.taped_clock, self.clock) {
            (Some((start_ns, start_monotonic_ns, values_ns)), _) => {
                Box::new(TapedClock::new(*start_ns, *start_monotonic_ns, values_ns.clone()))
            }
            (None, ClockConfig::Paused { start_ns }) => {
                Box::new(VirtualClock::starting_at(start_ns))
            }
            (None, ClockConfig::Host) => Box::new(HostClock::start()),
        };
        if let Some(shared) = self.shared_clock.take() {
            clock = shared;
        }
        let now = clock.now(ClockId::Realtime);
        let mtimes = self.mtimes.unwrap_or(Mtimes::Host);
        self.check_names()?;
        let mut vfs = Overlay::new(self.limits.vfs, now);
        vfs.set_time_scale(time_scale(self.kernel_version(), self.clock));
        if let Some(tape) = &self.tape {
            let is_merged = |source: &Source| matches!(source, Source::Layers(l) if l.len() > 1);
            if let Some((path, ..)) = self.mounts.iter().find(|(_, source, _)| is_merged(source)) {
                return Err(MachineError::Layers { path: path.clone() });
            }
            let monotonic_ns = clock.now(ClockId::Monotonic);
            tape.set_time(now, monotonic_ns);
            let config = self.recorded_as.clone();
            let config = config.unwrap_or_else(|| self.config(now, monotonic_ns, mtimes));
            let config = serde_json::to_value(config);
            tape.push(Kind::Machine { config: config.unwrap_or_default() });
            vfs.set_tape(tape.clone());
        }
        let (worktree, kernel_version) = (self.worktree_path(), self.kernel_version());
        let mut mount = |path: String, source, read_only| -> Result<MountId, MachineError> {
            vfs.mount(&path, source, read_only, mtimes, now)
                .map_err(|errno| MachineError::Mount { path, errno })
        };
        let (root, rest): (Vec<_>, Vec<_>) =
            self.mounts.into_iter().partition(|(path, ..)| path.trim_matches('/').is_empty());
        for (path, source, read_only) in root {
            mount(path, source, read_only)?;
        }
        if self.tmp && !rest.iter().any(|(path, ..)| path.trim_end_matches('/') == "/tmp") {
            mount("/tmp".to_owned(), Source::Memory, false)?;
        }
        for (path, source, read_only) in rest {
            mount(path, source, read_only)?;
        }
        if let Some(at) = worktree {
            vfs.set_worktree(at)
                .map_err(|errno| MachineError::Mount { path: at.to_owned(), errno })?;
        }
        if kernel_version > 0 && worktree.is_some() {
            vfs.show_root_in_worktree();
        }
        if kernel_version == 2 {
            vfs.count_readers_as_writers();
        }
        if kernel_version > 1 && clock.is_virtual() {
            vfs.tell_writes_apart(now);
        }
        Ok(Machine {
            vfs,
            descriptions: Descriptions::default(),
            pipes: Pipes::default(),
            processes: Processes::default(),
            stdio: Stdio::default(),
            programs: self.programs,
            host: self.host,
            bell: self.bell,
            stdin_given_back: VecDeque::new(),
            memory: Memory::new(self.limits.memory_bytes_max),
            fuel_left: None,
            clock,
            random: Random::seeded(self.seed),
            output_left: self.limits.output_bytes_max,
            limits: self.limits,
            deadline: None,
            uncounted_before: Duration::ZERO,
            timeouts: self.timeouts,
            limits_hit: Vec::new(),
            missing_programs: Vec::new(),
            trace: None,
            trace_left: 0,
            tape: self.tape,
            kernel_version,
            tapes_finds: self.recorded_as.is_none_or(|config| config.has_programs.is_some()),
        })
    }
}
