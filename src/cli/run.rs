//! `belljar run`.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use belljar::base::{ambient, disk};
use belljar::engine::CacheUse;
use belljar::process::NativeCommand;
use belljar::{
    Command, Engine, ExitStatus, Input, Limit, Machine, Module, Outcome, OutputStream, Program,
    ResolveError, Stdio, UnknownImports,
};

use super::args::{ClockArg, OnMissing, RunArgs, UnknownImportsArg};
use super::changes::{self, Changes};
use super::exit;
use super::progress::Progress;
use super::report::{Report, Timings, ms, option_of, status_of};
use super::setup;
use super::values::{Sink, StdinFrom};

pub fn run(args: &RunArgs) -> Result<u8> {
    let started = ambient::instant_now();
    let module = match setup::module(args) {
        Ok(module) => module,
        Err(error) if may_be_native(args, &error) => return run_native(args),
        Err(error) => return Err(hint_at_programs(error)),
    };
    let (mut machine, preopens) = setup::machine(args)?;
    let variables = setup::environment(args)?;
    let stdio = stdio(args)?;
    machine.set_trace(trace(args)?);

    let engine = Engine::new(setup::engine_config(args)?)?;
    let (program, cache_hit) = load(args, &engine, &module)?;
    let load_ms = ms(ambient::elapsed_since(started));
    let mut command = Command::new(&program);
    command.args(args.args.iter().map(|arg| setup::guest_bytes(arg)));
    if let Some(name) = &args.argv0 {
        command.argv0(setup::guest_bytes(name));
    }
    for (key, value) in &variables {
        command.env(key, setup::guest_bytes(value));
    }
    if let Some(preopens) = preopens {
        command.preopens(preopens);
    }
    if let Some(cwd) = &args.cwd {
        command.current_dir(guest_path(cwd));
    }

    let run_started = ambient::instant_now();
    let status = command.status(&mut machine, stdio)?;
    let run_ms = ms(ambient::elapsed_since(run_started));
    machine.set_trace(None);

    let changes_started = ambient::instant_now();
    let code = exit::of_outcome(status.outcome());
    complain(args, &machine, &module, status.outcome());
    let changes = changes::settle(args, &mut machine, status.outcome())?;
    let timings =
        Timings { load_ms, run_ms, changes_ms: ms(ambient::elapsed_since(changes_started)) };
    if let Some(sink) = &args.json {
        let report = report(&mut machine, &program, &status, changes, cache_hit, timings);
        write_report(sink, &report)?;
    }
    Ok(code)
}

/// The guest's path of `--cwd`: a relative one begins at the worktree.
fn guest_path(cwd: &str) -> String {
    if cwd.starts_with('/') { cwd.to_owned() } else { format!("{}/{cwd}", belljar::WORKTREE) }
}

fn may_be_native(args: &RunArgs, error: &anyhow::Error) -> bool {
    args.on_missing == OnMissing::Native
        && matches!(error.downcast_ref::<ResolveError>(), Some(ResolveError::NotFound { .. }))
}

fn run_native(args: &RunArgs) -> Result<u8> {
    if !args.quiet {
        eprintln!(
            "belljar: running the host's {:?} without protection: what it does is real",
            args.program
        );
    }
    let code = NativeCommand {
        program: args.program.clone(),
        args: args.args.clone(),
        env: setup::environment(args)?.into_iter().map(|(k, v)| (k.into(), v)).collect(),
        current_dir: args.worktree.clone().unwrap_or_else(|| ".".into()),
    }
    .status()?;
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

fn hint_at_programs(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<ResolveError>() {
        Ok(error @ ResolveError::NotFound { .. }) => anyhow::Error::from(error).context(
            "program not found (`belljar programs` lists what there is; name a folder with \
             --toolchain or BELLJAR_TOOLCHAIN, or a module by its path)",
        ),
        Ok(error) => error.into(),
        Err(error) => error,
    }
}

fn stdio(args: &RunArgs) -> Result<Stdio> {
    let stdin = match &args.stdin {
        StdinFrom::Inherit => Input::Host,
        StdinFrom::Null => Input::Empty,
        StdinFrom::File(path) => Input::Reader(Box::new(disk::open(path).context("--stdin")?)),
    };
    Ok(Stdio {
        stdin,
        stdout: OutputStream::Writer(Box::new(io::stdout())),
        stderr: OutputStream::Writer(Box::new(io::stderr())),
    })
}

fn trace(args: &RunArgs) -> Result<Option<Box<dyn Write + Send>>> {
    Ok(match &args.trace {
        None => None,
        Some(Sink::Stream) => Some(Box::new(io::stderr())),
        Some(Sink::File(path)) => {
            Some(Box::new(io::BufWriter::new(disk::create(path).context("--trace")?)))
        }
    })
}

/// The program, and whether its code came from the cache.
fn load(args: &RunArgs, engine: &Engine, module: &Module) -> Result<(Program, bool)> {
    let unknown = match args.unknown_imports {
        UnknownImportsArg::Trap => UnknownImports::Trap,
        UnknownImportsArg::Deny => UnknownImports::Deny,
    };
    if let Some(program) = Program::from_cache(engine, module, unknown)? {
        return Ok((program, true));
    }
    let (program, used) = {
        let size = bytesize::ByteSize(module.size()).display().iec();
        let name = Path::new(module.name()).file_name().unwrap_or_default().to_string_lossy();
        let _progress = Progress::start(format!("compiling {name} ({size}), once"));
        Program::compile(engine, module, unknown)?
    };
    if let CacheUse::Failed(error) = used
        && !args.quiet
    {
        let error = anyhow::Error::from(error);
        eprintln!("belljar: warning: the compiled code was not kept: {error:#}");
    }
    Ok((program, false))
}

/// Says on standard error why the guest did not end by itself, and which limits it met.
fn complain(args: &RunArgs, machine: &Machine, module: &Module, outcome: &Outcome) {
    let name = module.name();
    match outcome {
        Outcome::Exited(_) => {}
        Outcome::Limit(limit) => {
            eprintln!("belljar: {name} was ended: {limit} (raise it with {})", option_of(*limit));
        }
        Outcome::Trapped(trap) => {
            eprintln!("belljar: {name} trapped: {}", trap.message);
            for function in trap.backtrace.iter().take(16) {
                eprintln!("    in {function}");
            }
        }
    }
    if args.quiet {
        return;
    }
    for limit in machine.limits_hit() {
        if *outcome != Outcome::Limit(limit) {
            let option = option_of(limit);
            eprintln!("belljar: note: {name} ran into the {limit} (raise it with {option})");
        }
    }
    if args.clock == ClockArg::Real {
        eprintln!("belljar: note: with --clock real the run cannot be repeated exactly");
    }
}

fn report(
    machine: &mut Machine,
    program: &Program,
    status: &ExitStatus,
    changes: Changes,
    cache_hit: bool,
    timings: Timings,
) -> Report {
    let outcome = status.outcome();
    let (error, backtrace) = match outcome {
        Outcome::Exited(_) => (None, Vec::new()),
        Outcome::Limit(limit) => (Some(limit.to_string()), Vec::new()),
        Outcome::Trapped(trap) => (Some(trap.message.clone()), trap.backtrace.clone()),
    };
    Report {
        status: status_of(outcome),
        exit_code: exit::of_outcome(outcome),
        guest_exit_code: status.code(),
        error,
        backtrace,
        limits_hit: machine.limits_hit().into_iter().map(Limit::name).collect(),
        program: program.name().to_owned(),
        unknown_imports: program.unknown_imports().to_vec(),
        cache_hit,
        virtual_time_ms: u64::try_from(machine.elapsed().as_millis()).unwrap_or(u64::MAX),
        fuel_used: status.fuel_used(),
        upper_bytes: machine.vfs().upper_bytes(),
        changes: changes.list,
        applied: changes.applied,
        timings,
    }
}

fn write_report(sink: &Sink, report: &Report) -> Result<()> {
    let mut line = serde_json::to_vec(report).context("--json")?;
    line.push(b'\n');
    match sink {
        Sink::Stream => io::stdout().write_all(&line).context("--json")?,
        Sink::File(path) => disk::create(path)?.write_all(&line).context("--json")?,
    }
    Ok(())
}
