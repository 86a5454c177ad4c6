//! Testbenches and their builder.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

#[cfg(feature = "llm")]
use super::config::LlmConfig;
use super::config::{ClockConfig, FilesystemConfig, NetworkConfig, SubprocessConfig, TapeConfig};
use crate::engine::Engine;
use crate::host::{Answers, CommandPolicy, HostBridge};
use crate::kernel::machine::limits::Limits;
use crate::kernel::vfs::Mtimes;
use crate::native::{MakeFiles, OnMissing, SandboxProfile, SubprocessFiles};
use crate::net::EgressRule;

/// Default limit of the bytes of a session's tape.
const TAPE_BYTES_MAX: u64 = 1 << 30;

/// What a session runs against. Each axis is the host's unless it is set.
///
/// A testbench is a value: it can be activated any number of times, and its sessions share nothing.
///
/// ```
/// use belljar::testbench::Testbench;
///
/// let mut session = Testbench::builder().paused_clock_at_ms(0).fs_overlay(".").build().activate()?;
/// session.clock().sleep(std::time::Duration::from_hours(1));
/// assert_eq!(session.clock().now_ms(), 3_600_000);
/// let finalized = session.finalize()?;
/// assert!(finalized.fs_diff.is_empty() && finalized.clock_leaks.is_empty());
/// # Ok::<(), belljar::testbench::TestbenchError>(())
/// ```
#[derive(Clone)]
pub struct Testbench {
    pub(super) clock: ClockConfig,
    pub(super) filesystem: FilesystemConfig,
    /// How subprocesses run.
    pub(super) subprocess: SubprocessConfig,
    #[cfg(feature = "llm")]
    pub(super) llm: LlmConfig,
    /// Network access of host code.
    pub(super) network: NetworkConfig,
    pub(super) tape: TapeConfig,
    /// What happens if a toolchain lacks a program, also one that a module starts. Default: the
    /// host's runs.
    pub(super) on_missing: OnMissing,
    /// Whether a paused clock moves by the real duration of native programs that modules start.
    /// Default: no.
    pub(super) charge_native_time: bool,
    /// What native programs may do.
    pub(super) sandbox_profile: SandboxProfile,
    /// Where confined programs may write; `None` for the worktree.
    pub(super) sandbox_roots: Option<Vec<PathBuf>>,
    /// Where files that recorded programs changed are recorded, and made again; `None` for the overlay, if there is
    /// one.
    pub(super) subprocess_files: Option<SubprocessFiles>,
    /// Limits of modules.
    pub(super) limits: Limits,
    /// Seed of the random numbers of modules.
    pub(super) seed: u64,
    /// Times of unchanged files of the worktree, as modules see them.
    pub(super) mtimes: Mtimes,
    /// Limit of the bytes of the tape and its contents together.
    pub(super) tape_bytes_max: u64,
    /// Runs modules; `None` makes an engine when needed, which takes milliseconds.
    pub(super) engine: Option<Engine>,
    /// Which commands may run.
    pub(super) host_policy: CommandPolicy,
    /// Asked for host calls that no mock answers.
    pub(super) host_bridge: Option<Arc<dyn HostBridge>>,
    /// Answers questions.
    pub(super) host_answers: Option<Arc<dyn Answers>>,
    /// The answer of `runtime.task`.
    pub(super) host_task: Value,
}

impl Default for Testbench {
    fn default() -> Self {
        Self {
            clock: ClockConfig::default(),
            filesystem: FilesystemConfig::default(),
            subprocess: SubprocessConfig::default(),
            #[cfg(feature = "llm")]
            llm: LlmConfig::default(),
            network: NetworkConfig::default(),
            tape: TapeConfig::default(),
            on_missing: OnMissing::default(),
            charge_native_time: false,
            sandbox_profile: SandboxProfile::default(),
            sandbox_roots: None,
            subprocess_files: None,
            limits: Limits::default(),
            seed: 0,
            mtimes: Mtimes::Host,
            tape_bytes_max: TAPE_BYTES_MAX,
            engine: None,
            host_policy: CommandPolicy::default(),
            host_bridge: None,
            host_answers: None,
            host_task: Value::Null,
        }
    }
}

impl Testbench {
    /// A builder with every axis set to the host's.
    pub fn builder() -> TestbenchBuilder {
        TestbenchBuilder(Self::default())
    }

    /// Where files that recorded programs changed are recorded, and made again. Without an overlay there is no namespace
    /// in which they could be made.
    pub(super) fn files_of_subprocesses(&self) -> SubprocessFiles {
        let is_overlay = matches!(self.filesystem, FilesystemConfig::Overlay { .. });
        match &self.subprocess_files {
            None if is_overlay => SubprocessFiles::in_overlay(),
            None => SubprocessFiles::nowhere(),
            Some(files) if files.make() == MakeFiles::InOverlay && !is_overlay => {
                SubprocessFiles::nowhere()
            }
            Some(files) => files.clone(),
        }
    }
}

/// Builds a [`Testbench`].
#[derive(Clone)]
#[must_use]
pub struct TestbenchBuilder(Testbench);

impl TestbenchBuilder {
    /// Stops the clock at `starting_at_ms`, in milliseconds since the Unix epoch. It moves when a
    /// process or host code sleeps.
    pub fn paused_clock_at_ms(mut self, starting_at_ms: i64) -> Self {
        self.0.clock = ClockConfig::Paused { starting_at_ms };
        self
    }

    /// Gives modules a copy-on-write view of `worktree`.
    pub fn fs_overlay(mut self, worktree: impl Into<PathBuf>) -> Self {
        self.0.filesystem = FilesystemConfig::Overlay { worktree: worktree.into() };
        self
    }

    /// Runs native programs and records them on a process tape at `path`.
    pub fn record_subprocesses(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.subprocess = SubprocessConfig::Record { tape: path.into() };
        self
    }

    /// Replays native programs from the process tape at `path`.
    pub fn replay_subprocesses(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.subprocess = SubprocessConfig::Replay { tape: path.into() };
        self
    }

    /// Runs `<dir>/<program>.wasm` as modules.
    pub fn wasi_toolchain(mut self, dir: impl Into<PathBuf>) -> Self {
        self.0.subprocess = SubprocessConfig::WasiToolchain { dir: dir.into() };
        self
    }

    /// Replays language models from `fixture`.
    #[cfg(feature = "llm")]
    pub fn replay_llm(mut self, fixture: impl Into<PathBuf>) -> Self {
        self.0.llm = LlmConfig::Replay { fixture: fixture.into() };
        self
    }

    /// Records language models in `fixture`.
    #[cfg(feature = "llm")]
    pub fn record_llm(mut self, fixture: impl Into<PathBuf>) -> Self {
        self.0.llm = LlmConfig::Record { fixture: fixture.into() };
        self
    }

    /// Denies network access of host code.
    pub fn deny_network(self) -> Self {
        self.allow_network([])
    }

    /// Restricts network access of host code to `rules`.
    pub fn allow_network(mut self, rules: impl IntoIterator<Item = EgressRule>) -> Self {
        self.0.network = NetworkConfig::DenyByDefault { allow: rules.into_iter().collect() };
        self
    }

    /// Sets what happens if the toolchain lacks a program, also one that a module starts.
    pub fn on_missing(mut self, on_missing: OnMissing) -> Self {
        self.0.on_missing = on_missing;
        self
    }

    /// Sets whether a paused clock moves by the real duration of native programs that modules
    /// start.
    pub fn charge_native_time(mut self, charge: bool) -> Self {
        self.0.charge_native_time = charge;
        self
    }

    /// Sets what native programs may do. If the system cannot enforce it, activation fails.
    pub fn sandbox_profile(mut self, profile: SandboxProfile) -> Self {
        self.0.sandbox_profile = profile;
        self
    }

    /// Sets where confined native programs may write, instead of the worktree.
    pub fn sandbox_roots<P: Into<PathBuf>>(mut self, roots: impl IntoIterator<Item = P>) -> Self {
        self.0.sandbox_roots = Some(roots.into_iter().map(Into::into).collect());
        self
    }

    /// Sets what is recorded of the files that native programs change in the worktree, and where a replay makes them:
    /// with [`SubprocessFiles::on_disk`] on the disk. Default: [`SubprocessFiles::in_overlay`] with
    /// [`TestbenchBuilder::fs_overlay`], else [`SubprocessFiles::nowhere`].
    pub fn subprocess_files(mut self, files: SubprocessFiles) -> Self {
        self.0.subprocess_files = Some(files);
        self
    }

    /// Records the session on a tape at `path`.
    pub fn emit_tape(self, path: impl Into<PathBuf>) -> Self {
        self.emit_tape_with(path.into(), None, Vec::new())
    }

    /// Records the session on a tape at `path`, with a script path and arguments in its header.
    pub fn emit_tape_for(
        self,
        path: impl Into<PathBuf>,
        script_path: impl Into<String>,
        argv: Vec<String>,
    ) -> Self {
        self.emit_tape_with(path.into(), Some(script_path.into()), argv)
    }

    fn emit_tape_with(
        mut self,
        path: PathBuf,
        script_path: Option<String>,
        argv: Vec<String>,
    ) -> Self {
        self.0.tape = TapeConfig::Emit { path, argv, script_path };
        self
    }

    /// Sets the limits of modules.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.0.limits = limits;
        self
    }

    /// Sets the seed of the random numbers of modules.
    pub fn seed(mut self, seed: u64) -> Self {
        self.0.seed = seed;
        self
    }

    /// Sets the times of unchanged files of the worktree, as modules see them. Default:
    /// [`Mtimes::Host`]; then tapes of two checkouts of the same files differ in these times. With
    /// [`Mtimes::Content`] they do not.
    pub fn mtimes(mut self, mtimes: Mtimes) -> Self {
        self.0.mtimes = mtimes;
        self
    }

    /// Sets the engine of modules. Sessions that share one start in microseconds.
    pub fn engine(mut self, engine: &Engine) -> Self {
        self.0.engine = Some(engine.clone());
        self
    }

    /// Sets which commands may run.
    pub fn host_policy(mut self, policy: CommandPolicy) -> Self {
        self.0.host_policy = policy;
        self
    }

    /// Sets the bridge, which is asked for host calls that no mock answers.
    pub fn host_bridge(mut self, bridge: Arc<dyn HostBridge>) -> Self {
        self.0.host_bridge = Some(bridge);
        self
    }

    /// Sets what answers questions. Sessions of one testbench share it.
    pub fn host_answers(mut self, answers: impl Answers + 'static) -> Self {
        self.0.host_answers = Some(Arc::new(answers));
        self
    }

    /// Sets the answer of `runtime.task`.
    pub fn host_task(mut self, task: impl Into<Value>) -> Self {
        self.0.host_task = task.into();
        self
    }

    /// Builds the testbench.
    pub fn build(self) -> Testbench {
        self.0
    }
}
