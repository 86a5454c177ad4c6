//! A run repeated from its tape alone.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::changes::record_changes;
use crate::base::digest::Digest;
use crate::base::errno::Errno;
use crate::engine::{Outcome, Program, RunError};
use crate::host::{SessionHost, TapedCall, TapedCalls};
use crate::kernel::guest::{Preopen, Reach};
use crate::kernel::limits::Limits;
use crate::kernel::machine::{Machine, MachineBuilder, MachineError};
use crate::kernel::machine_config::{MachineConfig, MountConfig};
use crate::kernel::process::Pid;
use crate::kernel::programs::{Found, NotRunnable, Programs};
use crate::kernel::stdio::{Input, Output as Stream, Stdio};
use crate::kernel::taped_stdio::{TapedInput, TapedOutput};
use crate::kernel::vfs::{DiffError, TapedTree, TapedTreeError};
use crate::process::{Command, HostImage, Output, ShellImage, TapedChildren};
use crate::store::{Cas, StoreError};
use crate::tape::{
    Kind, NativeEvent, Player, Preopened, Record, Recorder, Redaction, TapeError, TapeReader,
    Withheld, cas_dir,
};
use crate::toolchain::{ToolchainPrograms, Toolchains};

/// Mounts of a machine that is put together from a tape, and bytes of the path of each.
const MOUNTS_MAX: usize = 1000;
const PATH_BYTES_MAX: usize = 4096;

/// What a tape says of a process that is no module: that is the shell.
const BUILT_IN: &str = "builtin";

/// What it says of one that stands for a program of the host.
const NATIVE: &str = "native";

/// What it says of one that makes a call of the host.
const HOST: &str = "host";

/// A run could not be repeated, or did something else than its tape says.
#[derive(thiserror::Error)]
pub enum ReplayError {
    /// The tape cannot be read; or, as [`TapeError::Desync`], the run leaves it.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// The tape does not say how to run it.
    #[error("{tape} is no tape of a run: {message}")]
    Incomplete {
        /// The tape.
        tape: String,
        /// What it lacks.
        message: String,
    },
    /// The tape says something of the tree below that nothing can have answered.
    #[error("{tape}: {source}")]
    Tree {
        /// The tape.
        tape: String,
        /// What.
        source: TapedTreeError,
    },
    /// The store beside the tape.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine cannot be put together again.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A program cannot be started.
    #[error(transparent)]
    Run(#[from] RunError),
    /// What the run changed cannot be told.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// Whoever was asked for a program has none.
    #[error("cannot load {program}: {message}")]
    Program {
        /// Its name on the tape.
        program: String,
        /// Why not.
        message: String,
    },
}

crate::base::readable::readable!(ReplayError);

/// A run that was repeated to its end.
pub struct Replayed {
    /// The machine, after the run.
    pub machine: Machine,
    /// What each of its processes left, in the order in which they ran.
    pub outputs: Vec<Output>,
    /// Records that were compared, all of which agreed.
    pub records: u64,
}

/// What a tape says of one process.
pub(super) struct Spawn {
    program: String,
    runs: Runs,
    /// What is passed to a call of the host.
    params: Vec<u8>,
    args: Vec<String>,
    env: Vec<String>,
    preopens: Vec<Preopen>,
    module_hash: Option<Digest>,
    stdin: Input,
    stdout: TapedOutput,
    stderr: TapedOutput,
}

/// What a process runs on.
enum Runs {
    Module,
    Shell,
    /// Whoever answers calls of the host.
    HostCall,
    /// The host, confined by this profile.
    Native(Option<String>),
}

impl Spawn {
    /// Learns what `kind` says of its streams.
    ///
    /// # Errors
    /// What is wrong with it.
    fn learn(&mut self, kind: &Kind) -> Result<(), String> {
        match kind {
            Kind::StreamRead { bytes, .. } => {
                self.learn_input(|it| it.learn_read(Ok(bytes.clone())));
            }
            Kind::StreamPoll { ready, .. } => self.learn_input(|it| it.learn_poll(*ready)),
            Kind::StreamWrite { fd: 1, .. } => self.stdout.learn_write(Ok(())),
            Kind::StreamWrite { fd: 2, .. } => self.stderr.learn_write(Ok(())),
            Kind::StreamError { fd, errno: name, .. } => {
                let errno = Errno::from_name(name);
                let errno = errno.ok_or_else(|| format!("{name:?} is no errno of preview1"))?;
                match fd {
                    0 => self.learn_input(|it| it.learn_read(Err(errno))),
                    1 => self.stdout.learn_write(Err(errno)),
                    2 => self.stderr.learn_write(Err(errno)),
                    _ => return Err(format!("{fd} is no standard stream")),
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn learn_input(&mut self, learn: impl FnOnce(&mut TapedInput)) {
        if let Input::Taped(input) = &mut self.stdin {
            learn(input);
        }
    }
}

/// All that must be known before a run is repeated.
pub(super) struct Script {
    config: Option<MachineConfig>,
    spawns: Vec<Spawn>,
    /// The programs of toolchains that processes started, and the digest of each one's module.
    children: HashMap<String, Digest>,
    /// Whether a process started the shell, which is no module.
    has_shell: bool,
    host_calls: TapedCalls,
    /// The programs of the host that processes started, and the profile of each; what the host did
    /// for all of them.
    natives: HashMap<String, Option<String>>,
    native_events: Vec<(Pid, NativeEvent)>,
    clock_values_ns: Vec<u64>,
    tree: TapedTree,
    /// What the egress policy has decided for the call of the host that is next.
    egress: Vec<Kind>,
}

impl Script {
    pub fn read(path: &Path) -> Result<Self, ReplayError> {
        let tree_error = |source| ReplayError::Tree { tape: path.display().to_string(), source };
        let cas = Cas::new(cas_dir(path));
        let mut script = Self {
            config: None,
            spawns: Vec::new(),
            children: HashMap::new(),
            has_shell: false,
            host_calls: TapedCalls::default(),
            egress: Vec::new(),
            natives: HashMap::new(),
            native_events: Vec::new(),
            clock_values_ns: Vec::new(),
            tree: TapedTree::new(cas.clone()),
        };
        for record in TapeReader::open(path)? {
            let record = record?;
            script.tree.learn(&record).map_err(tree_error)?;
            match record.kind {
                Kind::Machine { config } if script.config.is_none() => {
                    let config = serde_json::from_value(config);
                    let config: MachineConfig =
                        config.map_err(|error| incomplete(path, error.to_string()))?;
                    let is_sane = |mount: &MountConfig| mount.path.len() <= PATH_BYTES_MAX;
                    if config.mounts.len() > MOUNTS_MAX || !config.mounts.iter().all(is_sane) {
                        return Err(incomplete(path, "its mounts are too many, or too deep"));
                    }
                    script.config = Some(config);
                }
                Kind::ClockRead { value_ns, .. } => script.clock_values_ns.push(value_ns),
                Kind::ProcessSpawn {
                    program,
                    parent: Some(_),
                    path: None,
                    module_hash: Some(digest),
                    ..
                } => {
                    script.children.insert(program, digest);
                }
                Kind::ProcessSpawn { parent: Some(_), program, profile, mode, .. } => {
                    script.has_shell |= mode == BUILT_IN;
                    if mode == NATIVE {
                        script.natives.insert(program, profile);
                    }
                }
                Kind::Native { pid, event } => script.native_events.push((Pid(pid), event)),
                Kind::ProcessSpawn {
                    program,
                    args,
                    env,
                    preopens,
                    module_hash,
                    stdin,
                    stdin_bytes,
                    mode,
                    profile,
                    ..
                } => {
                    let stdin = match (stdin.as_str(), stdin_bytes) {
                        ("bytes", Some(payload)) => {
                            Input::Bytes(io::Cursor::new(payload.bytes(&cas)?))
                        }
                        ("stream", _) => Input::Taped(TapedInput::new(cas.clone())),
                        _ => Input::Empty,
                    };
                    let preopens = preopens.into_iter().map(preopen).collect::<Result<_, _>>();
                    let preopens = preopens.map_err(|message: String| incomplete(path, message))?;
                    let (stdout, stderr) = (TapedOutput::default(), TapedOutput::default());
                    let runs = match mode.as_str() {
                        BUILT_IN => Runs::Shell,
                        HOST => Runs::HostCall,
                        NATIVE => Runs::Native(profile),
                        _ => Runs::Module,
                    };
                    let spawn = Spawn {
                        program,
                        runs,
                        params: Vec::new(),
                        args,
                        env,
                        preopens,
                        module_hash,
                        stdin,
                        stdout,
                        stderr,
                    };
                    script.spawns.push(spawn);
                }
                call @ Kind::HostCall { .. } => script.learn_host_call(call, &cas)?,
                decision @ Kind::Egress { .. } if is_for_a_guest(&decision) => {
                    script.egress.push(decision);
                }
                kind => {
                    if let Some(spawn) = script.spawns.last_mut() {
                        spawn.learn(&kind).map_err(|message| incomplete(path, message))?;
                    }
                }
            }
        }
        Ok(script)
    }

    fn learn_host_call(&mut self, call: Kind, cas: &Cas) -> Result<(), StoreError> {
        let Kind::HostCall {
            pid: Some(pid),
            capability,
            operation,
            params,
            done_as,
            result,
            answered_by,
            amended,
        } = call
        else {
            return Ok(());
        };
        let taped = TapedCall {
            name: if operation.is_empty() {
                capability
            } else {
                format!("{capability}.{operation}")
            },
            params: params.bytes(cas)?,
            done_as: done_as.map(|params| params.bytes(cas)).transpose()?,
            answer: String::from_utf8_lossy(&result.bytes(cas)?).into_owned(),
            answered_by: answered_by.unwrap_or_default(),
            amended,
            egress: std::mem::take(&mut self.egress),
        };
        if let Some(spawn) = self.spawns.last_mut()
            && matches!(spawn.runs, Runs::HostCall)
            && pid == Pid::FIRST.0
        {
            spawn.params.clone_from(&taped.params);
        }
        self.host_calls.push(pid, taped);
        Ok(())
    }

    /// The tree below as the run found it in the end, for those who ask in another order.
    pub fn at_the_end(mut self) -> Self {
        self.tree.keep_last_answers();
        self
    }

    /// A builder of the machine of the tape at `path`, and the processes that ran in it.
    pub fn into_builder(
        self,
        path: &Path,
        bounds: &Limits,
    ) -> Result<(MachineBuilder, Vec<Spawn>), ReplayError> {
        let Some(config) = self.config else {
            return Err(incomplete(path, "no record says how its machine was made"));
        };
        Ok((config.builder(&Arc::new(self.tree), self.clock_values_ns, bounds), self.spawns))
    }
}

fn incomplete(path: &Path, message: impl Into<String>) -> ReplayError {
    ReplayError::Incomplete { tape: path.display().to_string(), message: message.into() }
}

fn preopen(preopened: Preopened) -> Result<Preopen, String> {
    let Preopened { path, name, reach } = preopened;
    let reach = Reach::from_name(&reach).ok_or_else(|| format!("there is no reach {reach:?}"))?;
    Ok(Preopen { path, name, reach })
}

/// Runs again what the tape at `path` has recorded, without the tree it ran over: files, clock,
/// chance and input are those of the tape. Every record of the new run is compared with the tape's,
/// and the first that differs ends it.
///
/// The bounds are those of the tape, and no larger than `bounds`: the tape may be anybody's.
///
/// `load` is asked for each program, by its name and the digest of its module.
///
/// # Errors
/// [`ReplayError`]; [`TapeError::Desync`] in [`ReplayError::Tape`] if the run leaves its tape.
pub fn replay(
    path: &Path,
    bounds: &Limits,
    mut load: impl FnMut(&str, Option<Digest>) -> Result<Program, String>,
) -> Result<Replayed, ReplayError> {
    let mut script = Script::read(path)?;
    let (children, has_shell) = (std::mem::take(&mut script.children), script.has_shell);
    let host_config = script.config.as_ref().and_then(|config| config.host);
    let checks_starts = host_config.is_some_and(|host| host.checks_starts);
    let calls = std::mem::take(&mut script.host_calls);
    let host = SessionHost::builder().taped(calls, checks_starts).build();
    let natives = std::mem::take(&mut script.natives);
    let events = std::mem::take(&mut script.native_events);
    let is_beside = events.is_empty();
    let taped = Arc::new(TapedChildren::new(events, Cas::new(cas_dir(path))));
    let (builder, spawns) = script.into_builder(path, bounds)?;
    if spawns.is_empty() {
        return Err(incomplete(path, "no record is of a process"));
    }
    if is_beside && spawns.iter().any(|spawn| matches!(spawn.runs, Runs::Native(_))) {
        let message = "a program of the host ran beside its machine, which a process tape repeats";
        return Err(incomplete(path, message));
    }
    let mut load = |name: &str, digest| {
        let failed = |message| ReplayError::Program { program: name.to_owned(), message };
        load(name, digest).map_err(failed)
    };
    let (by_name, modules) = (HashMap::new(), None);
    let mut programs =
        TapedPrograms { by_name, has_shell, natives, taped: Arc::clone(&taped), modules };
    for (name, digest) in children {
        let program = load(&name, Some(digest))?;
        programs.by_name.insert(name, program);
    }
    let mut firsts = Vec::new();
    for spawn in spawns {
        let program = match spawn.runs {
            Runs::Module => Some(load(&spawn.program, spawn.module_hash)?),
            Runs::Shell | Runs::HostCall | Runs::Native(_) => None,
        };
        firsts.push((program, spawn));
    }
    let firsts_loaded = firsts.iter().filter_map(|(program, _)| program.as_ref());
    let any = firsts_loaded.chain(programs.by_name.values()).next();
    programs.modules =
        any.map(|program| ToolchainPrograms::new(program.engine(), Toolchains::default()));
    let reader = TapeReader::open(path)?;
    let redaction = Redaction::of_version(reader.header().version);
    let recorder = Recorder::new(Player::new(reader), redaction);
    let mut builder = builder.tape(recorder.clone()).programs(Arc::new(programs));
    if host_config.is_some() {
        builder = builder.host(Arc::new(host.clone()));
    }
    let mut machine = builder.taped_bell(taped.bell()).build()?;
    let mut outputs = Vec::new();
    for (program, spawn) in firsts {
        let output = run(&mut machine, &host, program.as_ref(), spawn, &taped)?;
        let is_in_step = *output.status.outcome() != Outcome::Tape;
        outputs.push(output);
        if !is_in_step {
            break;
        }
    }
    let changes = record_changes(&mut machine, &recorder);
    // That the run leaves its tape may be why its changes cannot be told.
    let records = recorder.finish().map_err(|error| with_withheld(path, error))?;
    changes?;
    Ok(Replayed { machine, outputs, records })
}

/// `error`, and if the run left its tape, whether the tape at `path` had lost a secret by then.
fn with_withheld(path: &Path, mut error: TapeError) -> TapeError {
    if let TapeError::Desync(desync) = &mut error
        && let Ok(tape) = TapeReader::open(path)
    {
        let until = desync.seq();
        let records = tape.map_while(Result::ok).take_while(|record| record.seq <= until);
        desync.withheld = records
            .filter(Record::seems_withheld)
            .last()
            .map(|record| Withheld { seq: record.seq, kind: record.kind.name().to_owned() });
    }
    error
}

/// What processes find that start others: what they found when the tape was recorded.
struct TapedPrograms {
    by_name: HashMap<String, Program>,
    has_shell: bool,
    natives: HashMap<String, Option<String>>,
    taped: Arc<TapedChildren>,
    /// Those of the namespace, compiled once each.
    modules: Option<ToolchainPrograms>,
}

impl Programs for TapedPrograms {
    fn named(&self, name: &str) -> Result<Option<Found>, NotRunnable> {
        let program = self.by_name.get(name).cloned().map(Program::found);
        let is_shell = name == "sh" && self.has_shell;
        Ok(program.or_else(|| is_shell.then(|| ShellImage::new().found())))
    }

    fn module(&self, path: &str, bytes: Vec<u8>) -> Result<Found, NotRunnable> {
        let modules = self.modules.as_ref().ok_or_else(|| NotRunnable("no engine".to_owned()))?;
        modules.module(path, bytes)
    }

    fn missing(&self, name: &str) -> Result<Option<Found>, NotRunnable> {
        let native = |profile: &Option<String>| {
            HostImage::taped(name, profile.clone(), Arc::clone(&self.taped)).found()
        };
        Ok(self.natives.get(name).map(native))
    }
}

/// Runs `spawn`, which is of `program` if it is of a module.
fn run(
    machine: &mut Machine,
    host: &SessionHost,
    program: Option<&Program>,
    spawn: Spawn,
    taped: &Arc<TapedChildren>,
) -> Result<Output, RunError> {
    let mut command = match spawn.runs {
        Runs::Native(profile) => Command::taped_native(taped, &spawn.program, profile),
        Runs::HostCall => host.taped_command(&spawn.program, &spawn.params),
        Runs::Module | Runs::Shell => program.map_or_else(Command::sh, Command::new),
    };
    command.argv0(&spawn.program).args(&spawn.args).preopens(spawn.preopens);
    for variable in &spawn.env {
        let (key, value) = variable.split_once('=').unwrap_or((variable, ""));
        command.env(key, value);
    }
    let (stdout, stderr) = (Stream::Taped(spawn.stdout), Stream::Taped(spawn.stderr));
    command.output_on(machine, Stdio { stdin: spawn.stdin, stdout, stderr })
}

/// Whether `decision` was for a request that the host's side made for a guest.
fn is_for_a_guest(decision: &Kind) -> bool {
    matches!(decision, Kind::Egress { surface, .. } if surface == "http")
}
