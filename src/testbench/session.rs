//! Sessions of a testbench.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::builder::Testbench;
use super::changes::record_changes;
use super::clock::ClockHandle;
use super::config::{ClockConfig, FilesystemConfig, NetworkConfig, SubprocessConfig, TapeConfig};
use super::error::TestbenchError;
#[cfg(feature = "llm")]
use super::llm::{LlmAxis, SessionLlm};
use crate::engine::{Engine, EngineConfig, Module, Program};
use crate::host::{HostHandle, Question, SessionHost};
use crate::kernel::machine::Machine;
use crate::kernel::machine::clock::{Clock, ClockId};
use crate::kernel::process::programs::Programs;
use crate::kernel::vfs::{DiffEntry, HostDir, Overlay};
#[cfg(feature = "llm")]
use crate::llm::LlmProvider;
use crate::native::{
    FindError, NativeChildren, NativePrograms, OnMissing, ProcessTape, SandboxProfile,
    SubprocessError, SubprocessOutput, SubprocessRequest, Subprocesses, TapeEntry, UnmadeFile,
};
#[cfg(feature = "http")]
use crate::net::HttpClient;
use crate::net::{Allowed, EgressBlocked, EgressPolicy};
use crate::process::ShellImage;
use crate::tape::{ClockLeak, FileTape, Header, Recorder, Redaction, TapeError};
use crate::toolchain::{ResolveError, Resolved, ToolchainPrograms, Toolchains};

/// A tape that was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EmittedTape {
    /// Its path.
    pub path: PathBuf,
    /// Its number of records.
    pub records: u64,
}

/// The results of a session.
#[derive(Debug)]
pub struct TestbenchFinalize {
    /// What the overlay has and the disk has not: changes by modules, and what replayed native programs changed.
    pub fs_diff: Vec<DiffEntry>,
    /// The recorded subprocesses.
    pub recorded_subprocesses: Vec<TapeEntry>,
    /// The files that recorded programs changed, and that this replay has not made.
    pub unmade_files: Vec<UnmadeFile>,
    /// The tape, if there is one.
    pub tape: Option<EmittedTape>,
    /// Reads of real time under a paused clock.
    pub clock_leaks: Vec<ClockLeak>,
}

/// A running session. [`TestbenchSession::finalize`] writes what was recorded; dropping it writes
/// nothing.
#[must_use = "dropping a session discards it"]
pub struct TestbenchSession {
    // Dropped in this order, the reverse of construction.
    pub(super) machine: Machine,
    pub(super) host: HostHandle,
    tape: Option<SessionTape>,
    egress: EgressPolicy,
    #[cfg(feature = "llm")]
    llm: LlmAxis,
    subprocesses: Subprocesses,
    subprocess: SubprocessConfig,
    filesystem: FilesystemConfig,
    clock: ClockHandle,
}

/// The tape of a session, abandoned when the session is dropped, even if recorders are left.
struct SessionTape {
    recorder: Recorder,
    path: PathBuf,
}

impl SessionTape {
    fn finish(self) -> Result<EmittedTape, TapeError> {
        let records = self.recorder.finish()?;
        Ok(EmittedTape { path: self.path.clone(), records })
    }
}

impl Drop for SessionTape {
    fn drop(&mut self) {
        self.recorder.abandon();
    }
}

impl Testbench {
    /// Begins a session.
    ///
    /// # Errors
    /// [`TestbenchError`] if a directory or a tape cannot be used. Then nothing is left behind.
    pub fn activate(&self) -> Result<TestbenchSession, TestbenchError> {
        TestbenchSession::begin(self)
    }
}

fn egress_policy(network: &NetworkConfig) -> Result<EgressPolicy, TestbenchError> {
    Ok(match network {
        NetworkConfig::Real => {
            EgressPolicy::from_environment()?.unwrap_or_else(EgressPolicy::allow_by_default)
        }
        NetworkConfig::DenyByDefault { allow } => {
            allow.iter().cloned().fold(EgressPolicy::default(), EgressPolicy::allow)
        }
    })
}

/// The subprocesses of `testbench`, which run in `worktree`.
fn subprocesses(
    testbench: &Testbench,
    programs: Option<Arc<ToolchainPrograms>>,
    worktree: &Path,
) -> Result<Subprocesses, SubprocessError> {
    let subprocesses = Subprocesses::open(testbench.subprocess.clone(), finder(programs))?
        .root(worktree)
        .on_missing(testbench.on_missing)
        .files(testbench.files_of_subprocesses())
        .sandbox_profile(testbench.sandbox_profile)?;
    Ok(match &testbench.sandbox_roots {
        Some(roots) => subprocesses.sandbox_roots(roots),
        None => subprocesses,
    })
}

/// Begins the tape of `testbench`, if there is one; `clock` writes to it as well.
fn begin_tape(
    testbench: &Testbench,
    clock: &mut ClockHandle,
) -> Result<Option<SessionTape>, TestbenchError> {
    let TapeConfig::Emit { path, argv, script_path } = &testbench.tape else { return Ok(None) };
    let started_ns = clock.now(ClockId::Realtime);
    let mut header = Header::new((started_ns / 1_000_000).cast_signed());
    header.argv.clone_from(argv);
    header.script_path.clone_from(script_path);
    let redaction = Redaction::default();
    let header = header.without_secrets(&redaction);
    let file = FileTape::create(path, &header, testbench.tape_bytes_max)?;
    let recorder = Recorder::new(file, redaction);
    clock.set_tape(recorder.clone());
    Ok(Some(SessionTape { recorder, path: path.clone() }))
}

impl TestbenchSession {
    fn begin(testbench: &Testbench) -> Result<Self, TestbenchError> {
        let mut clock = match testbench.clock {
            ClockConfig::Real => ClockHandle::real(),
            ClockConfig::Paused { starting_at_ms } => ClockHandle::paused_at_ms(starting_at_ms),
        };
        let programs = match &testbench.subprocess {
            SubprocessConfig::WasiToolchain { dir } => Some(programs(testbench, dir)?),
            _ => None,
        };
        let worktree = match &testbench.filesystem {
            FilesystemConfig::Real => Path::new("."),
            FilesystemConfig::Overlay { worktree } => worktree,
        };
        let opened = HostDir::open(worktree)
            .map_err(|source| TestbenchError::Worktree { path: worktree.to_owned(), source })?;
        let subprocesses = subprocesses(testbench, programs.clone(), worktree)?;
        #[cfg(feature = "llm")]
        let llm = LlmAxis::open(&testbench.llm)?;
        let egress = egress_policy(&testbench.network)?;
        // Native programs would be missing from the process tape.
        let is_taped = matches!(
            testbench.subprocess,
            SubprocessConfig::Record { .. } | SubprocessConfig::Replay { .. }
        );
        let runs_native = testbench.on_missing == OnMissing::Native && !is_taped;
        let profile = if runs_native { testbench.sandbox_profile } else { SandboxProfile::Wasi };
        let mut host = SessionHost::builder()
            .sandbox_profile(profile)
            .policy(testbench.host_policy.clone())
            .task(testbench.host_task.clone());
        if let Some(answers) = testbench.host_answers.clone() {
            host = host.answers(move |question: &Question| answers.answer(question));
        }
        #[cfg(feature = "http")]
        {
            host = host.http(HttpClient::new(egress.clone()));
        }
        let host = host.build();
        let handle = host.handle();
        if let Some(bridge) = &testbench.host_bridge {
            host.set_bridge(bridge.clone());
        }
        // Tapes are files: they are begun after everything else that can fail.
        let mut builder = Machine::builder()
            .worktree(opened)
            .limits(testbench.limits)
            .seed(testbench.seed)
            .mtimes(testbench.mtimes)
            .shared_clock(Box::new(clock.clone()))
            .host(host);
        let programs = programs.unwrap_or_else(|| built_in(testbench));
        builder = builder.programs(if runs_native {
            with_native(testbench, programs, worktree)?
        } else {
            programs
        });
        let tape = begin_tape(testbench, &mut clock)?;
        if let Some(tape) = &tape {
            builder = builder.tape(tape.recorder.clone());
        }
        Ok(Self {
            machine: builder.build()?,
            host: handle,
            tape,
            egress,
            #[cfg(feature = "llm")]
            llm,
            subprocesses,
            subprocess: testbench.subprocess.clone(),
            filesystem: testbench.filesystem.clone(),
            clock,
        })
    }

    /// The session's clock.
    pub fn clock(&self) -> ClockHandle {
        self.clock.clone()
    }

    /// How subprocesses run.
    pub fn subprocess_mode(&self) -> &SubprocessConfig {
        &self.subprocess
    }

    /// The path of the process tape.
    pub fn subprocess_tape_path(&self) -> Option<&Path> {
        match &self.subprocess {
            SubprocessConfig::Record { tape } | SubprocessConfig::Replay { tape } => Some(tape),
            SubprocessConfig::Real | SubprocessConfig::WasiToolchain { .. } => None,
        }
    }

    /// The subprocesses recorded so far, or all that are replayed; `None` in other modes.
    pub fn process_tape(&self) -> Option<Cow<'_, ProcessTape>> {
        self.subprocesses.process_tape()
    }

    /// The files that recorded programs changed, and that this replay has not made so far.
    pub fn unmade_files(&self) -> Vec<UnmadeFile> {
        self.subprocesses.unmade_files()
    }

    /// The files of modules if they are an overlay, with the worktree at `/worktree`.
    pub fn overlay(&mut self) -> Option<&mut Overlay> {
        match self.filesystem {
            FilesystemConfig::Real => None,
            FilesystemConfig::Overlay { .. } => Some(self.machine.vfs_mut()),
        }
    }

    /// The recorder of the tape, if there is one, for records of host code. They are stamped with
    /// the time of this call, unless the clock moved since. It records nothing after the session
    /// has ended.
    pub fn tape_recorder(&self) -> Option<Recorder> {
        self.clock.stamp();
        self.tape.as_ref().map(|tape| tape.recorder.clone())
    }

    /// The egress policy of host code.
    pub fn egress(&self) -> &EgressPolicy {
        &self.egress
    }

    /// Whether `surface` (such as `http`) may request `url`; the decision is recorded. Addresses
    /// that the host resolves to must still pass [`EgressPolicy::check_addresses`].
    ///
    /// # Errors
    /// [`EgressBlocked`] if it may not.
    pub fn check_egress(&self, surface: &str, url: &str) -> Result<Allowed, EgressBlocked> {
        self.egress.check_on_tape(surface, url, self.tape_recorder().as_ref())
    }

    /// The language model: `real`, which is made at the first call, or a fixture. Calls are
    /// recorded on the session's tape.
    #[cfg(feature = "llm")]
    pub fn llm(&mut self, real: impl FnOnce() -> Box<dyn LlmProvider>) -> SessionLlm<'_> {
        let tape = self.tape_recorder();
        SessionLlm::new(self.llm.provider(real), tape)
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    /// [`TestbenchError::Subprocess`] if it cannot be started, or does not match the recording.
    pub fn output(
        &mut self,
        request: &SubprocessRequest,
    ) -> Result<SubprocessOutput, TestbenchError> {
        self.with_subprocesses(|subprocesses, machine| subprocesses.output(request, machine))
    }

    /// Uses the subprocesses, and applies changes of modules to the disk if that is their file
    /// system.
    pub(super) fn with_subprocesses<T>(
        &mut self,
        act: impl FnOnce(&mut Subprocesses, &mut Machine) -> Result<T, SubprocessError>,
    ) -> Result<T, TestbenchError> {
        let done = act(&mut self.subprocesses, &mut self.machine)?;
        if matches!(self.subprocess, SubprocessConfig::WasiToolchain { .. }) {
            self.settle()?;
        }
        Ok(done)
    }

    /// Applies changes of modules to the disk if that is their file system.
    pub(super) fn settle(&mut self) -> Result<(), TestbenchError> {
        if self.filesystem == FilesystemConfig::Real {
            self.machine.vfs_mut().apply()?;
        }
        Ok(())
    }

    /// Ends the session and writes its tapes.
    ///
    /// # Errors
    /// [`TestbenchError`]: a tape is full or cannot be written, recorded subprocesses are left over; after these
    /// nothing more is written. Or the changes cannot be determined: the tapes are complete without them.
    pub fn finalize(mut self) -> Result<TestbenchFinalize, TestbenchError> {
        let unmade_files = self.subprocesses.unmade_files();
        let recorded_subprocesses = self.subprocesses.finish()?;
        #[cfg(feature = "llm")]
        self.llm.finish()?;
        let clock_leaks = self.clock.leaks();
        let mut tape = None;
        if let Some(begun) = self.tape {
            let changes = record_changes(&mut self.machine, &begun.recorder);
            tape = Some(begun.finish()?);
            changes?;
        }
        let is_overlay = matches!(self.filesystem, FilesystemConfig::Overlay { .. });
        let fs_diff = if is_overlay { self.machine.vfs_mut().diff()? } else { Vec::new() };
        Ok(TestbenchFinalize { fs_diff, recorded_subprocesses, unmade_files, tape, clock_leaks })
    }
}

/// The programs of the toolchain in `dir`, for modules.
fn programs(testbench: &Testbench, dir: &Path) -> Result<Arc<ToolchainPrograms>, TestbenchError> {
    let toolchains = Toolchains::new(vec![dir.to_owned()])?;
    // A pool costs more than the few runs of one session gain from it.
    let config = EngineConfig { pool_slots: 0, ..EngineConfig::default() };
    let engine = testbench.engine.clone().map_or_else(|| Engine::new(config), Ok)?;
    let programs = ToolchainPrograms::new(&engine, toolchains);
    Ok(Arc::new(programs.with("sh", ShellImage::maker())))
}

/// The programs of a session without a toolchain.
fn built_in(testbench: &Testbench) -> Arc<ToolchainPrograms> {
    let programs = if let Some(engine) = &testbench.engine {
        ToolchainPrograms::new(engine, Toolchains::default())
    } else {
        let config = EngineConfig { pool_slots: 0, ..EngineConfig::default() };
        ToolchainPrograms::with_engine_config(config, Toolchains::default())
    };
    Arc::new(programs.with("sh", ShellImage::maker()))
}

/// `programs`, with native programs for missing names.
fn with_native(
    testbench: &Testbench,
    programs: Arc<ToolchainPrograms>,
    worktree: &Path,
) -> Result<Arc<dyn Programs>, TestbenchError> {
    let mut children = NativeChildren::new(worktree)
        .sandbox_profile(testbench.sandbox_profile)
        .map_err(SubprocessError::Profile)?
        .charge_time(testbench.charge_native_time);
    if let Some(roots) = &testbench.sandbox_roots {
        children = children.sandbox_roots(roots);
    }
    Ok(Arc::new(NativePrograms::new(programs, Arc::new(children))))
}

/// Finds modules in the directory of a toolchain; built-in programs do not count.
fn finder(
    programs: Option<Arc<ToolchainPrograms>>,
) -> impl FnMut(&Path, &str) -> Result<Option<Program>, FindError> + Send + 'static {
    let mut loaded: HashMap<PathBuf, Program> = HashMap::new();
    move |dir, name| {
        let Some(programs) = &programs else { return Ok(None) };
        let path = match Toolchains::new(vec![dir.to_owned()])?.resolve(name) {
            Ok(Resolved::File(path)) => path,
            Ok(Resolved::Described(described)) => {
                return Err(format!(
                    "the program {} is described by a manifest: run it with Session::command",
                    described.name
                )
                .into());
            }
            Ok(Resolved::BuiltIn { .. }) | Err(ResolveError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if let Some(program) = loaded.get(&path) {
            return Ok(Some(program.clone()));
        }
        let program = programs.program(&Module::read(&path)?)?;
        loaded.insert(path, program.clone());
        Ok(Some(program))
    }
}
