//! Replay of a run from its tape.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::changes::record_changes;
use super::replay_error::ReplayError;
use super::script::{Runs, Script, Spawn, incomplete};
use super::taped_programs::{FoundPrograms, StartedPrograms, taped_trees};
use crate::base::digest::Digest;
use crate::engine::{Engine, EngineConfig, Module, Outcome, Program, RunError};
use crate::host::{HostHandle, SessionHost};
use crate::kernel::io::stdio::{OutputStream, Stdio};
use crate::kernel::machine::Machine;
use crate::kernel::machine::limits::{Limit, Limits};
use crate::kernel::process::programs::Programs;
use crate::kernel::vfs::TapedTree;
use crate::native::TapedChildren;
use crate::process::{Command, Output};
use crate::tape::{
    Phase, Player, Record, Recorder, Redaction, TapeError, TapeReader, TapeStore, Withheld,
};
use crate::toolchain::{ToolchainPrograms, Toolchains};

/// A run that was replayed to its end.
pub struct Replayed {
    /// The machine, after the run.
    pub machine: Machine,
    /// The output of each process of host code, in order, or why it did not start, as recorded.
    pub outputs: Vec<Result<Output, RunError>>,
    /// Number of compared records, all equal.
    pub records: u64,
}

/// Replays the run on the tape at `path`, without the files it read: files, clock, random numbers
/// and input come from the tape. Every record is compared with the tape's; the first difference
/// ends the replay.
///
/// Limits are the tighter of the tape's and `bounds`, as a tape may come from an untrusted source.
/// The timeout is that of `bounds` only, so that a replay may take longer; where the recorded run
/// reached its timeout, the replay ends at the same step.
///
/// Programs run on `engine`, or on one like it that counts fuel if the tape does. `load` returns
/// the module of each program that was started, by name and digest, except files of the recorded
/// tree, which the tape has.
///
/// # Errors
/// [`ReplayError`]; [`TapeError::Desync`] in [`ReplayError::Tape`] if the run diverges from its
/// tape.
pub fn replay(
    engine: &Engine,
    path: &Path,
    bounds: &Limits,
    load: impl FnMut(&str, Option<Digest>) -> Result<Module, String>,
) -> Result<Replayed, ReplayError> {
    let mut script = Script::read(path)?;
    let config = script.config.as_ref();
    let host_config = config.and_then(|config| config.host);
    let has_programs = config.and_then(|config| config.has_programs);
    let counts_fuel = config.is_some_and(|config| config.limits.fuel.is_some());
    let memory_bytes = config.map_or(0, |config| config.limits.memory_bytes_max);
    let checks_starts = host_config.is_some_and(|host| host.checks_starts);
    let calls = std::mem::take(&mut script.host_calls);
    let host = SessionHost::builder().taped(calls, checks_starts).build();
    let handle = host.handle();
    let (events, times_out) = (std::mem::take(&mut script.native_events), script.times_out);
    // A native process that did nothing before the timeout has no events.
    let is_beside = events.is_empty() && script.lacks.is_empty() && script.timeouts.is_empty();
    let taped = Arc::new(TapedChildren::new(events, TapeStore::of(path)));
    let engine = if counts_fuel && !engine.config().fuel {
        Engine::new(EngineConfig { fuel: true, ..engine.config().clone() })?
    } else {
        engine.clone()
    };
    let mut loader = Loader { modules: modules(&engine), load };
    let programs = programs(&mut script, has_programs, &taped, &engine, &mut loader)?;
    let tree = script.tree.clone();
    let are_changes_unknown = script.are_changes_unknown;
    let (builder, spawns) = script.into_builder(path, bounds)?;
    if spawns.is_empty() {
        return Err(incomplete(path, "it has no process"));
    }
    if is_beside && spawns.iter().any(|spawn| matches!(spawn.runs, Runs::Native(_))) {
        let message = "a native program ran outside of the machine; replay it from a process tape";
        return Err(incomplete(path, message));
    }
    let mut firsts = Vec::new();
    for spawn in spawns {
        let program = match spawn.runs {
            Runs::Module => Some(loader.program(&spawn.program, spawn.module_hash)?),
            Runs::Shell | Runs::Named | Runs::HostCall | Runs::Native(_) => None,
        };
        firsts.push((program, spawn));
    }
    let reader = TapeReader::open(path)?;
    let redaction = Redaction::of_version(reader.header().version);
    let recorder = Recorder::new(Player::new(reader), redaction);
    let mut builder = builder.tape(recorder.clone());
    if let Some(programs) = programs {
        builder = builder.programs(programs);
    }
    if host_config.is_some() {
        builder = builder.host(host);
    }
    let mut machine = builder.taped_bell(taped.bell(times_out)).build()?;
    let mut outputs = Vec::new();
    for (program, spawn) in firsts {
        let output = run(&mut machine, &handle, program.as_ref(), spawn, &taped, &tree);
        let is_over = match &output {
            Ok(output) => *output.status.outcome() == Outcome::Tape,
            Err(_) => recorder.failed(),
        };
        outputs.push(output);
        if is_over {
            break;
        }
    }
    let changes = if are_changes_unknown {
        repeat_changes(path, &recorder)?;
        Ok(())
    } else {
        record_changes(&mut machine, &recorder)
    };
    // A divergence may be the reason why changes cannot be determined.
    let lacks_memory = bounds.memory_bytes_max < memory_bytes && ran_short(&machine);
    let records = recorder.finish().map_err(|error| explained(path, lacks_memory, error))?;
    changes?;
    Ok(Replayed { machine, outputs, records })
}

fn ran_short(machine: &Machine) -> bool {
    machine.limits_hit().contains(&Limit::Memory)
}

/// Takes what the tape at `path` says of the changes as it is: some are unknown, so that nothing can be compared.
///
/// # Errors
/// The tape cannot be read.
fn repeat_changes(path: &Path, recorder: &Recorder) -> Result<(), TapeError> {
    recorder.set_phase(Phase::Finalize);
    for record in TapeReader::open(path)? {
        let record = record?;
        if record.phase == Phase::Finalize {
            recorder.push(record.kind);
        }
    }
    Ok(())
}

/// Compiles each module once.
fn modules(engine: &Engine) -> ToolchainPrograms {
    ToolchainPrograms::new(engine, Toolchains::default())
}

struct Loader<L> {
    modules: ToolchainPrograms,
    load: L,
}

impl<L: FnMut(&str, Option<Digest>) -> Result<Module, String>> Loader<L> {
    fn program(&mut self, name: &str, digest: Option<Digest>) -> Result<Program, ReplayError> {
        let failed = |message| ReplayError::Program { program: name.to_owned(), message };
        let module = (self.load)(name, digest).map_err(failed)?;
        self.modules.program(&module).map_err(|error| failed(error.to_string()))
    }
}

/// The programs that processes of `script` find; `None` if their machine had none to start.
fn programs<L: FnMut(&str, Option<Digest>) -> Result<Module, String>>(
    script: &mut Script,
    has_programs: Option<bool>,
    taped: &Arc<TapedChildren>,
    engine: &Engine,
    loader: &mut Loader<L>,
) -> Result<Option<Arc<dyn Programs>>, ReplayError> {
    let (taped, modules) = (Arc::clone(taped), modules(engine));
    Ok(match has_programs {
        Some(false) => None,
        Some(true) => {
            let started = std::mem::take(&mut script.started);
            let finds = std::mem::take(&mut script.finds);
            let mut programs = HashMap::new();
            for (digest, name) in finds.modules().filter(|(digest, _)| started.contains(digest)) {
                programs.insert(digest, loader.program(name, Some(digest))?);
            }
            Some(Arc::new(FoundPrograms::new(
                finds,
                programs,
                started,
                taped,
                modules,
                script.tree.clone(),
            )))
        }
        None => {
            let mut by_name = HashMap::new();
            for (name, digest) in &script.children {
                by_name.insert(name.clone(), loader.program(name, Some(*digest))?);
            }
            let natives = std::mem::take(&mut script.natives);
            let has_shell = script.has_shell;
            Some(Arc::new(StartedPrograms { by_name, has_shell, natives, taped, modules }))
        }
    })
}

/// Adds to a divergence whether a secret was removed before it, or the replay lacked memory.
fn explained(path: &Path, lacks_memory: bool, mut error: TapeError) -> TapeError {
    let TapeError::Desync(desync) = &mut error else { return error };
    desync.lacks_memory = lacks_memory;
    if let Ok(tape) = TapeReader::open(path) {
        let until = desync.seq();
        let records = tape.map_while(Result::ok).take_while(|record| record.seq <= until);
        desync.withheld = records
            .filter(Record::seems_withheld)
            .last()
            .map(|record| Withheld { seq: record.seq, kind: record.kind.name().to_owned() });
    }
    error
}

/// Runs the process `spawn`; `program` is its module, if it has one.
fn run(
    machine: &mut Machine,
    host: &HostHandle,
    program: Option<&Program>,
    spawn: Spawn,
    taped: &Arc<TapedChildren>,
    tree: &Arc<TapedTree>,
) -> Result<Output, RunError> {
    let mut command = match spawn.runs {
        Runs::Native(profile) => Command::taped_native(taped, &spawn.program, profile),
        Runs::HostCall => host.taped_command(&spawn.program, &spawn.params),
        Runs::Named => Command::taped_named(&spawn.program),
        Runs::Module | Runs::Shell => program.map_or_else(Command::sh, Command::new),
    };
    command.taped_name(&spawn.program).argv0(spawn.argv0.as_ref().unwrap_or(&spawn.program));
    command.args(&spawn.args).preopens(spawn.preopens);
    command.trees(taped_trees(tree, &spawn.trees));
    if let Some(call) = spawn.invoke {
        command.invoke(call);
    }
    for variable in &spawn.env {
        let (key, value) = variable.split_once('=').unwrap_or((variable, ""));
        command.env(key, value);
    }
    let (stdout, stderr) = (OutputStream::Taped(spawn.stdout), OutputStream::Taped(spawn.stderr));
    command.output_on(machine, Stdio { stdin: spawn.stdin, stdout, stderr })
}
