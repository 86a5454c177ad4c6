//! A run repeated from its tape alone.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::changes::record_changes;
use super::replay_error::ReplayError;
use super::script::{Runs, Script, Spawn, incomplete};
use super::taped_programs::{FoundPrograms, StartedPrograms};
use crate::base::digest::Digest;
use crate::engine::{Engine, EngineConfig, Module, Outcome, Program, RunError};
use crate::host::{HostHandle, SessionHost};
use crate::kernel::io::stdio::{OutputStream, Stdio};
use crate::kernel::machine::Machine;
use crate::kernel::machine::limits::Limits;
use crate::kernel::process::programs::Programs;
use crate::native::TapedChildren;
use crate::process::{Command, Output};
use crate::store::Cas;
use crate::tape::{Player, Record, Recorder, Redaction, TapeError, TapeReader, Withheld, cas_dir};
use crate::toolchain::{ToolchainPrograms, Toolchains};

/// A run that was repeated to its end.
pub struct Replayed {
    /// The machine, after the run.
    pub machine: Machine,
    /// What each of its first processes left, in the order in which they ran, or why it did not
    /// start, as it did not when it was recorded.
    pub outputs: Vec<Result<Output, RunError>>,
    /// Records that were compared, all of which agreed.
    pub records: u64,
}

/// Runs again what the tape at `path` has recorded, without the tree it ran over: files, clock,
/// chance and input are those of the tape. Every record of the new run is compared with the tape's,
/// and the first that differs ends it.
///
/// The bounds are those of the tape, and no larger than `bounds`: the tape may be anybody's. The
/// timeout is that of `bounds` alone, so that a replay may take longer than the run did: what the
/// recorded one ended is ended at the same step.
///
/// Programs run on `engine`, or, where the tape counts fuel and `engine` does not, on one like it that
/// does. `load` is asked for the module of each that was started, by its name and digest, but for
/// those that are files of the tree: the tape has them.
///
/// # Errors
/// [`ReplayError`]; [`TapeError::Desync`] in [`ReplayError::Tape`] if the run leaves its tape.
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
    let checks_starts = host_config.is_some_and(|host| host.checks_starts);
    let calls = std::mem::take(&mut script.host_calls);
    let host = SessionHost::builder().taped(calls, checks_starts).build();
    let handle = host.handle();
    let (events, times_out) = (std::mem::take(&mut script.native_events), script.times_out);
    // A native process that did nothing before the timeout has no events.
    let is_beside = events.is_empty() && script.lacks.is_empty() && script.timeouts.is_empty();
    let taped = Arc::new(TapedChildren::new(events, Cas::new(cas_dir(path))));
    let engine = if counts_fuel && !engine.config().fuel {
        Engine::new(EngineConfig { fuel: true, ..engine.config().clone() })?
    } else {
        engine.clone()
    };
    let mut loader = Loader { modules: modules(&engine), load };
    let programs = programs(&mut script, has_programs, &taped, &engine, &mut loader)?;
    let (builder, spawns) = script.into_builder(path, bounds)?;
    if spawns.is_empty() {
        return Err(incomplete(path, "no record is of a process"));
    }
    if is_beside && spawns.iter().any(|spawn| matches!(spawn.runs, Runs::Native(_))) {
        let message = "a program of the host ran beside its machine, which a process tape repeats";
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
        let output = run(&mut machine, &handle, program.as_ref(), spawn, &taped);
        let is_over = match &output {
            Ok(output) => *output.status.outcome() == Outcome::Tape,
            Err(_) => recorder.failed(),
        };
        outputs.push(output);
        if is_over {
            break;
        }
    }
    let changes = record_changes(&mut machine, &recorder);
    // That the run leaves its tape may be why its changes cannot be told.
    let records = recorder.finish().map_err(|error| with_withheld(path, error))?;
    changes?;
    Ok(Replayed { machine, outputs, records })
}

/// Modules, compiled once each.
fn modules(engine: &Engine) -> ToolchainPrograms {
    ToolchainPrograms::new(engine, Toolchains::default())
}

/// Compiles the modules that `load` has.
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

/// What processes of `script` find; `None` if their machine had no programs to start.
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
            Some(Arc::new(FoundPrograms::new(finds, programs, started, taped, modules)))
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

/// Runs `spawn`, which is of `program` if it is of a module.
fn run(
    machine: &mut Machine,
    host: &HostHandle,
    program: Option<&Program>,
    spawn: Spawn,
    taped: &Arc<TapedChildren>,
) -> Result<Output, RunError> {
    let mut command = match spawn.runs {
        Runs::Native(profile) => Command::taped_native(taped, &spawn.program, profile),
        Runs::HostCall => host.taped_command(&spawn.program, &spawn.params),
        Runs::Named => Command::taped_named(&spawn.program),
        Runs::Module | Runs::Shell => program.map_or_else(Command::sh, Command::new),
    };
    command.taped_name(&spawn.program).argv0(spawn.argv0.as_ref().unwrap_or(&spawn.program));
    command.args(&spawn.args).preopens(spawn.preopens);
    for variable in &spawn.env {
        let (key, value) = variable.split_once('=').unwrap_or((variable, ""));
        command.env(key, value);
    }
    let (stdout, stderr) = (OutputStream::Taped(spawn.stdout), OutputStream::Taped(spawn.stderr));
    command.output_on(machine, Stdio { stdin: spawn.stdin, stdout, stderr })
}
