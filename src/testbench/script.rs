//! What must be known of a tape before its run is replayed.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::changes::UNKNOWN;
use super::replay_error::ReplayError;
use super::taped_programs::TapedFinds;
use crate::base::digest::Digest;
use crate::base::errno::Errno;
use crate::host::{TapedCall, TapedCalls};
use crate::kernel::guest::{Preopen, Reach};
use crate::kernel::io::stdio::Input;
use crate::kernel::io::taped_stdio::{TapedInput, TapedOutput};
use crate::kernel::machine::MachineBuilder;
use crate::kernel::machine::config::{KERNEL_VERSION, MachineConfig, MountConfig};
use crate::kernel::machine::lack::TapedLack;
use crate::kernel::machine::limits::{Limit, Limits};
use crate::kernel::machine::timeout::TapedTimeout;
use crate::kernel::process::Pid;
use crate::kernel::vfs::TapedTree;
use crate::store::StoreError;
use crate::tape::{Kind, LaunchTree, NativeEvent, Preopened, TapeReader, TapeStore};

/// Limits of the mounts on a tape, and of the length of their paths.
const MOUNTS_MAX: usize = 1000;
const PATH_BYTES_MAX: usize = 4096;

/// `mode` on a tape: the shell.
const BUILT_IN: &str = "builtin";

/// `mode` on a tape: stands for the program of its name.
const NAMED: &str = "named";

/// `mode` on a tape: a native program.
const NATIVE: &str = "native";

/// `mode` on a tape: a host call.
const HOST: &str = "host";

/// A recorded process.
pub(super) struct Spawn {
    pub program: String,
    pub argv0: Option<String>,
    pub runs: Runs,
    /// Parameters of a host call.
    pub params: Vec<u8>,
    pub args: Vec<String>,
    pub env: Vec<String>,
    pub preopens: Vec<Preopen>,
    pub module_hash: Option<Digest>,
    pub trees: Vec<LaunchTree>,
    pub invoke: Option<String>,
    pub stdin: Input,
    pub stdout: TapedOutput,
    pub stderr: TapedOutput,
}

/// How a process runs.
pub(super) enum Runs {
    Module,
    Shell,
    /// The program that the machine finds by its name.
    Named,
    HostCall,
    /// A native program, confined by this profile.
    Native(Option<String>),
}

impl Spawn {
    /// Takes in a record of the process's streams.
    ///
    /// # Errors
    /// What is wrong with the record.
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
                let errno = errno.ok_or_else(|| format!("{name:?} is not an errno of preview1"))?;
                match fd {
                    0 => self.learn_input(|it| it.learn_read(Err(errno))),
                    1 => self.stdout.learn_write(Err(errno)),
                    2 => self.stderr.learn_write(Err(errno)),
                    _ => return Err(format!("{fd} is not a standard stream")),
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

pub(super) struct Script {
    pub config: Option<MachineConfig>,
    spawns: Vec<Spawn>,
    /// Results of searches for programs.
    pub finds: TapedFinds,
    /// Programs of toolchains that were started, with the digests of their modules.
    pub children: HashMap<String, Digest>,
    /// Digests of all modules that were started.
    pub started: HashSet<Digest>,
    /// Whether a process started the shell.
    pub has_shell: bool,
    pub host_calls: TapedCalls,
    /// Native programs that processes started, with their profiles; then their events.
    pub natives: HashMap<String, Option<String>>,
    pub native_events: Vec<(Pid, NativeEvent)>,
    /// Whether the timeout ended the run.
    pub times_out: bool,
    /// The steps at which it did, by run.
    pub timeouts: Vec<TapedTimeout>,
    /// Where the host had no process or memory left.
    pub lacks: Vec<TapedLack>,
    clock_values_ns: Vec<u64>,
    /// What programs found below.
    pub tree: Arc<TapedTree>,
    /// Decisions of the egress policy during the next host call.
    egress: Vec<Kind>,
    /// Whether the changes could not be determined when the tape was recorded.
    pub are_changes_unknown: bool,
}

impl Script {
    pub fn read(path: &Path) -> Result<Self, ReplayError> {
        let tree_error = |source| ReplayError::Tree { tape: path.display().to_string(), source };
        let store = TapeStore::of(path);
        let mut script = Self {
            config: None,
            spawns: Vec::new(),
            finds: TapedFinds::default(),
            children: HashMap::new(),
            started: HashSet::new(),
            times_out: false,
            timeouts: Vec::new(),
            lacks: Vec::new(),
            has_shell: false,
            host_calls: TapedCalls::default(),
            egress: Vec::new(),
            are_changes_unknown: false,
            natives: HashMap::new(),
            native_events: Vec::new(),
            clock_values_ns: Vec::new(),
            tree: Arc::new(TapedTree::new(store.clone())),
        };
        for record in TapeReader::open(path)? {
            let record = record?;
            own(&mut script.tree).learn(&record).map_err(tree_error)?;
            match record.kind {
                Kind::Machine { config } if script.config.is_none() => {
                    script.config = Some(machine_config(path, config)?);
                }
                Kind::ClockRead { value_ns, .. } => script.clock_values_ns.push(value_ns),
                child @ Kind::ProcessSpawn { parent: Some(_), .. } => script.learn_child(child),
                find @ Kind::ProgramFind { .. } => {
                    script.finds.learn(find).map_err(|message| incomplete(path, message))?;
                }
                Kind::ProcessExit { status, .. } => {
                    script.times_out |= status == Limit::Timeout.name();
                }
                Kind::Timeout { steps } => script.learn_timeout(record.seq, steps),
                Kind::Native { pid, event: NativeEvent::Lacking { message } } => {
                    script.lacks.push(TapedLack { seq: record.seq, pid: Pid(pid), message });
                }
                Kind::Native { pid, event } => script.native_events.push((Pid(pid), event)),
                spawn @ Kind::ProcessSpawn { .. } => script.learn_spawn(spawn, &store, path)?,
                call @ Kind::HostCall { .. } => script.learn_host_call(call, &store)?,
                decision @ Kind::Egress { .. } if is_for_a_guest(&decision) => {
                    script.egress.push(decision);
                }
                Kind::Change { change, .. } => script.are_changes_unknown |= change == UNKNOWN,
                kind => {
                    if let Some(spawn) = script.spawns.last_mut() {
                        spawn.learn(&kind).map_err(|message| incomplete(path, message))?;
                    }
                }
            }
        }
        Ok(script)
    }

    /// Takes in the start of a process by host code.
    fn learn_spawn(
        &mut self,
        spawn: Kind,
        store: &TapeStore,
        tape: &Path,
    ) -> Result<(), ReplayError> {
        let Kind::ProcessSpawn {
            program,
            argv0,
            args,
            env,
            preopens,
            module_hash,
            stdin,
            stdin_bytes,
            mode,
            profile,
            trees,
            invoke,
            ..
        } = spawn
        else {
            return Ok(());
        };
        let stdin = match (stdin.as_str(), stdin_bytes) {
            ("bytes", Some(payload)) => Input::Bytes(io::Cursor::new(payload.bytes(store)?)),
            ("stream", _) => Input::Taped(TapedInput::new(store.clone())),
            _ => Input::Empty,
        };
        let preopens = preopens.into_iter().map(preopen).collect::<Result<_, _>>();
        let preopens = preopens.map_err(|message: String| incomplete(tape, message))?;
        let runs = match mode.as_str() {
            BUILT_IN => Runs::Shell,
            NAMED => Runs::Named,
            HOST => Runs::HostCall,
            NATIVE => Runs::Native(profile),
            _ => Runs::Module,
        };
        self.spawns.push(Spawn {
            program,
            argv0,
            runs,
            params: Vec::new(),
            args,
            env,
            preopens,
            module_hash,
            trees,
            invoke,
            stdin,
            stdout: TapedOutput::default(),
            stderr: TapedOutput::default(),
        });
        Ok(())
    }

    fn learn_timeout(&mut self, seq: u64, steps: u64) {
        self.timeouts.push(TapedTimeout { seq, steps });
    }

    fn learn_child(&mut self, child: Kind) {
        let Kind::ProcessSpawn { program, path, module_hash, mode, profile, .. } = child else {
            return;
        };
        self.started.extend(module_hash);
        self.has_shell |= mode == BUILT_IN;
        if mode == NATIVE {
            self.natives.insert(program, profile);
        } else if let (None, Some(digest)) = (path, module_hash) {
            // A path that is not in the namespace: `/bin/NAME` stands for the program NAME.
            let name = program.rsplit('/').next().unwrap_or_default().to_owned();
            self.children.insert(name, digest);
        }
    }

    fn learn_host_call(&mut self, call: Kind, store: &TapeStore) -> Result<(), StoreError> {
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
            params: params.bytes(store)?,
            done_as: done_as.map(|params| params.bytes(store)).transpose()?,
            answer: String::from_utf8_lossy(&result.bytes(store)?).into_owned(),
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

    /// Keeps the final state of the recorded tree, for access in another order.
    pub fn at_the_end(mut self) -> Self {
        own(&mut self.tree).keep_last_answers();
        self
    }

    /// A builder of the machine of the tape at `path`, and its first processes.
    pub fn into_builder(
        self,
        path: &Path,
        bounds: &Limits,
    ) -> Result<(MachineBuilder, Vec<Spawn>), ReplayError> {
        let Some(mut config) = self.config else {
            return Err(incomplete(path, "it has no record of the machine"));
        };
        let recorded = config.clone();
        // The timeout of the recording does not apply, unless it ended the run and an older tape
        // does not have the step.
        if !self.times_out || !self.timeouts.is_empty() {
            config.limits.timeout = None;
        }
        let builder = config.builder(&self.tree, self.clock_values_ns, bounds);
        let builder =
            builder.recorded_as(recorded).taped_timeouts(self.timeouts).taped_lacks(self.lacks);
        Ok((builder, self.spawns))
    }
}

/// The tree of a script that no machine has yet.
fn own(tree: &mut Arc<TapedTree>) -> &mut TapedTree {
    Arc::get_mut(tree).expect("it is shared only once the tape is read")
}

/// The configuration of the machine of the tape at `path`.
fn machine_config(path: &Path, config: serde_json::Value) -> Result<MachineConfig, ReplayError> {
    let config: MachineConfig =
        serde_json::from_value(config).map_err(|error| incomplete(path, error.to_string()))?;
    if config.kernel_version > KERNEL_VERSION {
        let (tape, found) = (path.display().to_string(), config.kernel_version);
        return Err(ReplayError::Kernel { tape, found, known: KERNEL_VERSION });
    }
    let is_sane = |mount: &MountConfig| mount.path.len() <= PATH_BYTES_MAX;
    if config.mounts.len() > MOUNTS_MAX || !config.mounts.iter().all(is_sane) {
        return Err(incomplete(path, "it has too many mounts, or too long paths of mounts"));
    }
    Ok(config)
}

pub(super) fn incomplete(path: &Path, message: impl Into<String>) -> ReplayError {
    ReplayError::Incomplete { tape: path.display().to_string(), message: message.into() }
}

fn preopen(preopened: Preopened) -> Result<Preopen, String> {
    let Preopened { path, name, reach } = preopened;
    let reach = Reach::from_name(&reach).ok_or_else(|| format!("unknown reach {reach:?}"))?;
    Ok(Preopen { path, name, reach })
}

/// Whether `decision` is of a request that the host made for a guest.
fn is_for_a_guest(decision: &Kind) -> bool {
    matches!(decision, Kind::Egress { surface, .. } if surface == "http")
}
