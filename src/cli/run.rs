//! `belljar run`.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

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
use super::overtime::Overtime;
use super::progress::Progress;
use super::report::{Report, Timings, ms, option_of, printable, status_of};
use super::setup;
use super::values::{Sink, StdinFrom};

pub fn run(args: &RunArgs) -> Result<u8> {
    let started = ambient::instant_now();
    let why = format!("{} was not loaded in time: timeout", printable(args.program()?));
    let loading = Overtime::watch(args.timeout, why);
    let module = match setup::module(args) {
        Ok(module) => module,
        Err(error) if may_be_native(args, &error) => {
            drop(loading);
            return run_native(args);
        }
        Err(error) => return Err(hint_at_programs(error)),
    };
    let (mut machine, preopens) = setup::machine(args)?;
    let variables = setup::environment(args)?;
    machine.set_trace(trace(args)?);
    // Opened before the program runs, so that no link of its making stands there.
    let report_to: Option<Box<dyn Write + Send>> = match &args.json {
        None => None,
        Some(Sink::Stream) => Some(Box::new(io::stdout())),
        Some(Sink::File(path)) => Some(open_report("--json", path)?),
    };
    let last_byte = Arc::new(AtomicU8::new(b'\n'));
    let stdio = stdio(args, &last_byte)?;

    let engine = Engine::new(setup::engine_config(args)?)?;
    let (program, cache_hit) = load(args, &engine, &module)?;
    let load_ms = ms(ambient::elapsed_since(started));
    drop(loading);
    let mut command = Command::new(&program);
    command.args(args.program_args().iter().map(|arg| setup::guest_bytes(arg)));
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
    let why = format!("{} was ended: timeout", printable(module.name()));
    let running = Overtime::watch(args.timeout, why);
    let status = command.status(&mut machine, stdio);
    drop(running);
    let status = status?;
    let run_ms = ms(ambient::elapsed_since(run_started));
    machine.set_trace(None);

    let changes_started = ambient::instant_now();
    let code = exit::of_outcome(status.outcome());
    complain(args, &machine, &module, status.outcome());
    let upper_bytes = machine.vfs().upper_bytes();
    let settled = changes::settle(args, &mut machine, status.outcome());
    if let Some(mut sink) = report_to {
        let nothing = Changes::default();
        let changes_ms = ms(ambient::elapsed_since(changes_started));
        let timings = Timings { load_ms, run_ms, changes_ms };
        let changes = settled.as_ref().unwrap_or(&nothing);
        let mut report = report(&mut machine, &program, &status, changes, cache_hit, timings);
        report.upper_bytes = upper_bytes;
        if let Err(error) = &settled {
            let (code, message) = exit::describe(error);
            (report.exit_code, report.error) = (code, Some(message));
        }
        if args.json == Some(Sink::Stream) && last_byte.load(Ordering::Relaxed) != b'\n' {
            sink.write_all(b"\n").context("--json")?;
        }
        serde_json::to_writer(&mut sink, &report).context("--json")?;
        sink.write_all(b"\n").and_then(|()| sink.flush()).context("--json")?;
    }
    settled.map(|_| code)
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
        note!(
            "belljar: running the host's {:?} without protection: what it does is real",
            args.program()?
        );
    }
    let code = NativeCommand {
        program: args.program()?.to_owned(),
        args: args.program_args().to_vec(),
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

fn stdio(args: &RunArgs, last_byte: &Arc<AtomicU8>) -> Result<Stdio> {
    let stdin = match &args.stdin {
        StdinFrom::Inherit => Input::Host,
        StdinFrom::Null => Input::Empty,
        StdinFrom::File(path) => Input::Reader(Box::new(disk::open(path).context("--stdin")?)),
    };
    let stdout = Noting { inner: io::stdout(), last_byte: last_byte.clone() };
    Ok(Stdio {
        stdin,
        stdout: OutputStream::Writer(Box::new(stdout)),
        stderr: OutputStream::Writer(Box::new(io::stderr())),
    })
}

/// Standard output, and its last byte, so that a report after it begins on a line of its own.
struct Noting {
    inner: io::Stdout,
    last_byte: Arc<AtomicU8>,
}

impl Write for Noting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        if let Some(last) = bytes[..count].last() {
            self.last_byte.store(*last, Ordering::Relaxed);
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn trace(args: &RunArgs) -> Result<Option<Box<dyn Write + Send>>> {
    Ok(match &args.trace {
        None => None,
        Some(Sink::Stream) => Some(Box::new(io::stderr())),
        Some(Sink::File(path)) => Some(open_report("--trace", path)?),
    })
}

/// A file to report to, opened before the program runs. A symbolic link in its place may be one
/// that an earlier program left there, and is not followed, but for those of the system.
fn open_report(option: &'static str, path: &Path) -> Result<Box<dyn Write + Send>> {
    let is_link = disk::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    if is_link && !path.starts_with("/dev") {
        let message = format!("{option}: {} is a symbolic link; name the file", path.display());
        return Err(exit::Usage(message).into());
    }
    Ok(Box::new(io::BufWriter::new(disk::create(path).context(option)?)))
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
        note!("belljar: warning: the compiled code was not kept: {error:#}");
    }
    Ok((program, false))
}

/// Says on standard error why the guest did not end by itself, and which limits it met.
fn complain(args: &RunArgs, machine: &Machine, module: &Module, outcome: &Outcome) {
    let name = printable(module.name());
    match outcome {
        Outcome::Exited(_) => {}
        Outcome::Limit(limit) => {
            note!("belljar: {name} was ended: {limit} (raise it with {})", option_of(*limit));
        }
        Outcome::Trapped(trap) => {
            note!("belljar: {name} trapped: {}", printable(&trap.message));
            for function in trap.backtrace.iter().take(16) {
                note!("    in {}", printable(function));
            }
        }
    }
    if args.quiet {
        return;
    }
    for limit in machine.limits_hit() {
        if *outcome != Outcome::Limit(limit) {
            let option = option_of(limit);
            note!("belljar: note: {name} ran into the {limit} (raise it with {option})");
        }
    }
    if args.clock == ClockArg::Real {
        note!("belljar: note: with --clock real the run cannot be repeated exactly");
    }
}

fn report<'c>(
    machine: &mut Machine,
    program: &Program,
    status: &ExitStatus,
    changes: &'c Changes,
    cache_hit: bool,
    timings: Timings,
) -> Report<'c> {
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
        changes: &changes.list,
        applied: changes.applied,
        timings,
    }
}
