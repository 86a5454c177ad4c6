//! Building a machine.

use std::sync::Arc;

use super::clock::{Clock, ClockId, HostClock, TapedClock, VirtualClock};
use super::config::{
    HostConfig, KERNEL_VERSION, MachineConfig, MountConfig, SourceKind, time_scale,
};
use super::error::MachineError;
use super::lack::{Lacks, TapedLack};
use super::limits::Limits;
use super::random::Random;
use super::run_state::RunState;
use super::timeout::{TapedTimeout, Timeouts};
use super::{ClockConfig, Machine, TOOLCHAINS_ROOT, WORKTREE, worktree_of};
use crate::kernel::host::Host;
use crate::kernel::process::programs::Programs;
use crate::kernel::process::wakeup::HostBell;
use crate::kernel::vfs::{
    HostDir, Layer, MountId, Mtimes, Overlay, Source, TapedLayer, TapedTree, VPath,
};
use crate::tape::{Kind, Recorder};

/// Builds a [`Machine`].
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
    directories_tape: Option<(Recorder, String)>,
    taped_clock: Option<(u64, u64, Vec<u64>)>,
    shared_clock: Option<Box<dyn Clock>>,
    recorded_as: Option<MachineConfig>,
    programs: Option<Arc<dyn Programs>>,
    host: Option<Arc<dyn Host>>,
    bell: HostBell,
    timeouts: Timeouts,
    lacks: Lacks,
    is_to_be_restored: bool,
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
            directories_tape: None,
            taped_clock: None,
            shared_clock: None,
            recorded_as: None,
            programs: None,
            host: None,
            bell: HostBell::default(),
            timeouts: Timeouts::default(),
            lacks: Lacks::default(),
            is_to_be_restored: false,
        }
    }
}

impl MachineBuilder {
    /// Mounts `source` at the absolute path `at`, copy-on-write. Later mounts hide earlier ones.
    pub fn mount(mut self, at: impl Into<String>, source: Source) -> Self {
        self.mounts.push((at.into(), source, false));
        self
    }

    /// Mounts `source` read-only at the absolute path `at`: writes of guests are `EROFS`.
    pub fn mount_read_only(mut self, at: impl Into<String>, source: Source) -> Self {
        self.mounts.push((at.into(), source, true));
        self
    }

    /// Mounts the host directory `dir` copy-on-write at [`WORKTREE`], where programs start.
    pub fn worktree(self, dir: HostDir) -> Self {
        self.mount(WORKTREE, Source::Host(Arc::new(dir)))
    }

    /// Sets the clock.
    pub fn clock(mut self, clock: ClockConfig) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the times that files below show until they are changed. Default: [`Mtimes::Host`].
    pub fn mtimes(mut self, mtimes: Mtimes) -> Self {
        self.mtimes = Some(mtimes);
        self
    }

    /// Sets the seed of `random_get`.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets whether there is a `/tmp` in memory. Default: true.
    pub fn tmp(mut self, tmp: bool) -> Self {
        self.tmp = tmp;
        self
    }

    /// Sets the programs that processes can start. Default: none.
    pub fn programs(mut self, programs: Arc<dyn Programs>) -> Self {
        self.programs = Some(programs);
        self
    }

    /// Sets what answers host calls. Default: nothing, such calls fail.
    pub fn host(mut self, host: impl Host + 'static) -> Self {
        self.host = Some(Arc::new(host));
        self
    }

    /// Replaces the bell by one that has rung as on a tape.
    pub fn taped_bell(mut self, bell: HostBell) -> Self {
        self.bell = bell;
        self
    }

    /// Sets where processes of recorded runs could not start for lack of host resources.
    pub fn taped_lacks(mut self, lacks: Vec<TapedLack>) -> Self {
        self.lacks = Lacks::taped(lacks);
        self
    }

    /// Sets where recorded runs timed out, in place of real time.
    pub fn taped_timeouts(mut self, ends: Vec<TapedTimeout>) -> Self {
        self.timeouts = Timeouts::taped(ends);
        self
    }

    /// Records what crosses the boundary of the machine.
    pub fn tape(mut self, recorder: Recorder) -> Self {
        self.tape = Some(recorder);
        self
    }

    /// Records the directories of the host that it mounts, as if they were mounted below the absolute path `at`, and
    /// nothing else: such a machine can be forked.
    pub fn directories_tape(mut self, recorder: Recorder, at: impl Into<String>) -> Self {
        self.directories_tape = Some((recorder, at.into()));
        self
    }

    /// Replaces the host's clock by one that showed `start_ns` and `start_monotonic_ns` when the machine
    /// was built, and shows `values_ns` one after the other.
    pub fn taped_clock(
        mut self,
        start_ns: u64,
        start_monotonic_ns: u64,
        values_ns: Vec<u64>,
    ) -> Self {
        self.taped_clock = Some((start_ns, start_monotonic_ns, values_ns));
        self
    }

    /// Sets a clock that other code uses, too.
    pub fn shared_clock(mut self, clock: Box<dyn Clock>) -> Self {
        self.shared_clock = Some(clock);
        self
    }

    /// Sets the configuration on the tape that the machine replays.
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

    /// The mount point of the worktree, if there is one.
    fn worktree_path(&self) -> Option<&'static str> {
        let has = |at: &str| self.mounts.iter().any(|(path, ..)| path.trim_end_matches('/') == at);
        let at = worktree_of(self.kernel_version());
        has(at).then_some(at)
    }

    fn kernel_version(&self) -> u32 {
        self.recorded_as.as_ref().map_or(KERNEL_VERSION, |config| config.kernel_version)
    }

    /// Checks that no mount begins with a name that the worktree has.
    fn check_names(&self) -> Result<(), MachineError> {
        let Some(WORKTREE) = self.worktree_path() else { return Ok(()) };
        let is_worktree =
            |(path, ..): &&(String, Source, bool)| path.trim_end_matches('/') == WORKTREE;
        let Some((_, worktree, _)) = self.mounts.iter().find(is_worktree) else { return Ok(()) };
        let has = |name: &str| {
            let path = VPath::parse(name).ok();
            path.is_some_and(|path| worktree.layers().iter().any(|layer| layer.stat(&path).is_ok()))
        };
        // Directories in memory give way to the worktree's.
        let in_memory = |source: &Source| matches!(source, Source::Memory);
        for (path, ..) in self.mounts.iter().filter(|(_, source, _)| !in_memory(source)) {
            let Some(name) = path.split('/').find(|name| !name.is_empty()) else { continue };
            let is_reserved = [WORKTREE, TOOLCHAINS_ROOT].iter().any(|root| name == &root[1..]);
            if !is_reserved && has(name) {
                let names = (2..).map(|number| format!("{name}{number}"));
                let free = names.into_iter().find(|name| !has(name)).unwrap_or_default();
                let free = path.replacen(name, &free, 1);
                let (path, name) = (path.clone(), name.to_owned());
                return Err(MachineError::Ambiguous { path, name, free });
            }
        }
        Ok(())
    }

    /// Makes the clock of the machine, and sets its kind from a shared one.
    fn make_clock(&mut self) -> Box<dyn Clock> {
        if let Some(mut shared) = self.shared_clock.take() {
            let start_ns = shared.now(ClockId::Realtime);
            let is_virtual = shared.is_virtual();
            self.clock =
                if is_virtual { ClockConfig::Paused { start_ns } } else { ClockConfig::Host };
            return shared;
        }
        match (&self.taped_clock, self.clock) {
            (Some((start_ns, start_monotonic_ns, values_ns)), _) => {
                Box::new(TapedClock::new(*start_ns, *start_monotonic_ns, values_ns.clone()))
            }
            (None, ClockConfig::Paused { start_ns }) => {
                Box::new(VirtualClock::starting_at(start_ns))
            }
            (None, ClockConfig::Host) => Box::new(HostClock::start()),
        }
    }

    /// The machine is for [`Machine::restore`] alone: what the directories of the disk have at mount points now does not
    /// matter.
    pub(crate) fn awaiting_restore(mut self) -> Self {
        self.is_to_be_restored = true;
        self
    }

    /// Builds the machine.
    ///
    /// # Errors
    /// [`MachineError::Mount`]: see [`Overlay::mount`]. [`MachineError::Layers`] if it has a tape.
    /// [`MachineError::Ambiguous`].
    pub fn build(mut self) -> Result<Machine, MachineError> {
        let mut clock = self.make_clock();
        let now = clock.now(ClockId::Realtime);
        let mtimes = self.mtimes.unwrap_or(Mtimes::Host);
        let mut vfs = Overlay::new(self.limits.vfs, now);
        if self.is_to_be_restored {
            vfs.await_restore();
        } else {
            self.check_names()?;
        }
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
        if let Some((tape, at)) = &self.directories_tape {
            let below = VPath::parse(at)
                .map_err(|errno| MachineError::Mount { path: at.clone(), errno })?;
            vfs.set_directories_tape(tape.clone(), below);
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
        vfs.set_kernel_version(kernel_version);
        if kernel_version > 1 && clock.is_virtual() {
            vfs.tell_writes_apart(now);
        }
        Ok(Machine {
            vfs,
            programs: self.programs,
            host: self.host,
            clock,
            random: Random::seeded(self.seed),
            run: RunState::new(&self.limits, self.bell),
            limits: self.limits,
            timeouts: self.timeouts,
            interrupter: None,
            lacks: self.lacks,
            trace: None,
            tape: self.tape,
            kernel_version,
            results: None,
            tapes_finds: self.recorded_as.is_none_or(|config| config.has_programs.is_some()),
        })
    }
}

impl MachineConfig {
    /// Returns a builder of this machine, with `tree` for the files below and, if the clock was the host's, the
    /// readings `clock_values_ns`. Limits are the recorded ones, but none larger than `bounds`.
    pub fn builder(
        &self,
        tree: &Arc<TapedTree>,
        clock_values_ns: Vec<u64>,
        bounds: &Limits,
    ) -> MachineBuilder {
        let mut builder = Machine::builder()
            .clock(self.clock)
            .mtimes(self.mtimes)
            .seed(self.seed)
            .limits(self.limits.within(bounds))
            .recorded_as(self.clone())
            .tmp(self.tmp);
        if self.clock == ClockConfig::Host {
            builder = builder.taped_clock(self.start_ns, self.start_monotonic_ns, clock_values_ns);
        }
        for mount in &self.mounts {
            let taped = || -> Arc<dyn Layer> {
                Arc::new(TapedLayer::new(tree.clone(), &mount.path, mount.exact_names))
            };
            let source = match mount.source {
                SourceKind::Memory => Source::Memory,
                SourceKind::Tree => Source::Layers(vec![taped()]),
            };
            builder = if mount.read_only {
                builder.mount_read_only(&mount.path, source)
            } else {
                builder.mount(&mount.path, source)
            };
        }
        builder
    }
}
