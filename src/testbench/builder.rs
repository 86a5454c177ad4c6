//! A testbench: the axes of a session, composed.

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
use crate::native::{OnMissing, SandboxProfile};
use crate::net::EgressRule;

/// Bytes that the tape of a session may take, unless told otherwise.
const TAPE_BYTES_MAX: u64 = 1 << 30;

/// What a session runs against: each axis is the host's unless it is set.
///
/// A testbench is a value: it can be activated any number of times, and the sessions share nothing.
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
    /// Time.
    pub(super) clock: ClockConfig,
    /// Files.
    pub(super) filesystem: FilesystemConfig,
    /// What a spawn does.
    pub(super) subprocess: SubprocessConfig,
    /// Language models.
    #[cfg(feature = "llm")]
    pub(super) llm: LlmConfig,
    /// What the host's code may reach.
    pub(super) network: NetworkConfig,
    /// The record of the session.
    pub(super) tape: TapeConfig,
    /// What to do about a program that a toolchain lacks, be it one that a module starts. Default:
    /// run the host's.
    pub(super) on_missing: OnMissing,
    /// Whether a paused clock shows the real time of programs of the host that modules start.
    /// Default: it stands still.
    pub(super) charge_native_time: bool,
    /// What programs of the host may do.
    pub(super) sandbox_profile: SandboxProfile,
    /// Where confined ones may write; `None` for the worktree.
    pub(super) sandbox_roots: Option<Vec<PathBuf>>,
    /// The bounds of programs that are modules.
    pub(super) limits: Limits,
    /// The seed of their random numbers.
    pub(super) seed: u64,
    /// The times that files of the worktree show them until they are changed.
    pub(super) mtimes: Mtimes,
    /// Bytes that the tape and its contents may take together.
    pub(super) tape_bytes_max: u64,
    /// What runs them; `None` makes one when it is needed, which costs milliseconds.
    pub(super) engine: Option<Engine>,
    /// Which commands may run.
    pub(super) host_policy: CommandPolicy,
    /// Who is asked for calls of the host that no mock answers.
    pub(super) host_bridge: Option<Arc<dyn HostBridge>>,
    /// Who answers questions.
    pub(super) host_answers: Option<Arc<dyn Answers>>,
    /// What programs are to do: the answer of `runtime.task`.
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
    /// A builder whose every axis is the host's.
    pub fn builder() -> TestbenchBuilder {
        TestbenchBuilder(Self::default())
    }
}

/// Puts a [`Testbench`] together.
#[derive(Clone)]
#[must_use]
pub struct TestbenchBuilder(Testbench);

impl TestbenchBuilder {
    /// The clock stands at `starting_at_ms`, milliseconds since the Unix epoch, until somebody
    /// sleeps.
    pub fn paused_clock_at_ms(mut self, starting_at_ms: i64) -> Self {
        self.0.clock = ClockConfig::Paused { starting_at_ms };
        self
    }

    /// Modules work on a copy-on-write view of `worktree`.
    pub fn fs_overlay(mut self, worktree: impl Into<PathBuf>) -> Self {
        self.0.filesystem = FilesystemConfig::Overlay { worktree: worktree.into() };
        self
    }

    /// Spawns run the host's programs and are recorded at `path`.
    pub fn record_subprocesses(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.subprocess = SubprocessConfig::Record { tape: path.into() };
        self
    }

    /// Spawns answer what is recorded at `path`.
    pub fn replay_subprocesses(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.subprocess = SubprocessConfig::Replay { tape: path.into() };
        self
    }

    /// Spawns run `<dir>/<program>.wasm`.
    pub fn wasi_toolchain(mut self, dir: impl Into<PathBuf>) -> Self {
        self.0.subprocess = SubprocessConfig::WasiToolchain { dir: dir.into() };
        self
    }

    /// Language models answer what is recorded at `fixture`.
    #[cfg(feature = "llm")]
    pub fn replay_llm(mut self, fixture: impl Into<PathBuf>) -> Self {
        self.0.llm = LlmConfig::Replay { fixture: fixture.into() };
        self
    }

    /// What language models answer is recorded at `fixture`.
    #[cfg(feature = "llm")]
    pub fn record_llm(mut self, fixture: impl Into<PathBuf>) -> Self {
        self.0.llm = LlmConfig::Record { fixture: fixture.into() };
        self
    }

    /// The host's code may reach nobody.
    pub fn deny_network(self) -> Self {
        self.allow_network([])
    }

    /// The host's code may reach those of `rules`, and nobody else.
    pub fn allow_network(mut self, rules: impl IntoIterator<Item = EgressRule>) -> Self {
        self.0.network = NetworkConfig::DenyByDefault { allow: rules.into_iter().collect() };
        self
    }

    /// What to do about a program that the toolchain lacks, be it one that a module starts.
    pub fn on_missing(mut self, on_missing: OnMissing) -> Self {
        self.0.on_missing = on_missing;
        self
    }

    /// Whether a paused clock shows the real time of programs of the host that modules start.
    pub fn charge_native_time(mut self, charge: bool) -> Self {
        self.0.charge_native_time = charge;
        self
    }

    /// What programs of the host may do. A session on a machine that cannot give that does not begin.
    pub fn sandbox_profile(mut self, profile: SandboxProfile) -> Self {
        self.0.sandbox_profile = profile;
        self
    }

    /// Where confined programs of the host may write, instead of in the worktree.
    pub fn sandbox_roots<P: Into<PathBuf>>(mut self, roots: impl IntoIterator<Item = P>) -> Self {
        self.0.sandbox_roots = Some(roots.into_iter().map(Into::into).collect());
        self
    }

    /// Records the session on a tape at `path`.
    pub fn emit_tape(self, path: impl Into<PathBuf>) -> Self {
        self.emit_tape_with(path.into(), None, Vec::new())
    }

    /// Records the session on a tape at `path`, whose header says what it is of.
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

    /// The bounds of programs that are modules.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.0.limits = limits;
        self
    }

    /// The seed of their random numbers.
    pub fn seed(mut self, seed: u64) -> Self {
        self.0.seed = seed;
        self
    }

    /// The times that files of the worktree show them until they are changed. Default:
    /// [`Mtimes::Host`], which are on the tape, so that the tapes of two checkouts of the same files
    /// differ in them. With [`Mtimes::Content`] they do not.
    pub fn mtimes(mut self, mtimes: Mtimes) -> Self {
        self.0.mtimes = mtimes;
        self
    }

    /// What runs them. Sessions that share one start in microseconds.
    pub fn engine(mut self, engine: &Engine) -> Self {
        self.0.engine = Some(engine.clone());
        self
    }

    /// Which commands may run.
    pub fn host_policy(mut self, policy: CommandPolicy) -> Self {
        self.0.host_policy = policy;
        self
    }

    /// Who is asked for calls of the host that no mock answers.
    pub fn host_bridge(mut self, bridge: Arc<dyn HostBridge>) -> Self {
        self.0.host_bridge = Some(bridge);
        self
    }

    /// Who answers questions. Sessions of one testbench share it.
    pub fn host_answers(mut self, answers: impl Answers + 'static) -> Self {
        self.0.host_answers = Some(Arc::new(answers));
        self
    }

    /// What programs are to do: the answer of `runtime.task`.
    pub fn host_task(mut self, task: impl Into<Value>) -> Self {
        self.0.host_task = task.into();
        self
    }

    /// The testbench.
    pub fn build(self) -> Testbench {
        self.0
    }
}
