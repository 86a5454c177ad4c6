//! `belljar run`.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Result;

use super::args::groups::ClockArg;
use super::args::record::RecordArgs;
use super::args::run::RunArgs;
use super::args::values::Sink;
use super::found::{Found, Start, find};
use super::host_paths::View;
use super::loaded::Loads;
use super::options;
use super::overtime::Overtime;
use super::planted_links::{Folders, check_folders};
use super::record::Recording;
use super::recover::before_opening;
#[cfg(feature = "remote")]
use super::remote_exec;
use super::replaceable::{Written, expect_apart};
use super::report::{Report, Status, ms, raised_with};
use super::results::Caching;
use super::sink::{self, Failure, Opened, Stdout, Watched, WriteOnce};
use super::started_natives::StartedNatives;
use super::{changes, ending, exit, hints, host, mounts, setup, terminal};
use crate::base::{ambient, disk};
use crate::engine::LateProgram;
use crate::native::{NativeChildren, NativeCommand, NativeError, ProfileError, SandboxProfile};
use crate::results::Results;
use crate::store::FileState;
use crate::{
    Command, Encoding, Engine, ExitStatus, Machine, Module, Outcome, OutputStream, Overlay,
    Preopen, Program, ProgramError, Stdio, UnknownImports,
};

/// Runs a program, and writes the report however that ends.
pub fn run(args: &RunArgs, record: Option<&RecordArgs>) -> Result<u8> {
    check_paths(args, record)?;
    let stdout = Stdout::default();
    let open = |sink: &Sink| Opened::new(Written::Report, sink, &stdout);
    let report_to = WriteOnce::new(args.json.as_ref().map(open).transpose()?);
    let mut report = Report::default();
    let tape_before = record.and_then(tape_state);
    let done = perform_somewhere(args, record, &stdout, &report_to, &mut report);
    if let (Err(_), Some(record), Some(_)) = (&done, record, tape_before)
        && tape_state(record) == tape_before
    {
        note!("belljar: note: {} has an earlier run", record.tape.display());
    }
    report.concluded(&done);
    let written = report_to.print(&report.to_line());
    let code = done?;
    written.map(|()| code)
}

/// Length, time and identity of the tape, as far as the system tells them; `None` if there is none.
fn tape_state(record: &RecordArgs) -> Option<(u64, Option<SystemTime>, Option<FileState>)> {
    let file = disk::open(&record.tape).ok()?;
    let metadata = file.metadata().ok()?;
    Some((metadata.len(), metadata.modified().ok(), FileState::of(&file)))
}

/// Refuses paths that a program of an earlier run may have redirected by a link.
pub fn check_paths(args: &RunArgs, record: Option<&RecordArgs>) -> Result<()> {
    let folders = Folders::of(&args.mounts);
    let sinks = [("--json", &args.json), ("--diff", &args.diff), ("--trace", &args.trace)];
    let mut written: Vec<(&str, &Path)> = Vec::new();
    for (option, sink) in sinks {
        if let Some(Sink::File(path)) = sink {
            folders.check(option, path)?;
            written.push((option, path));
        }
    }
    written.extend(record.map(|record| ("--tape", &*record.tape)));
    expect_apart(&written)?;
    check_folders(&args.mounts)?;
    match record {
        Some(record) => folders.check("--tape", &record.tape),
        None => Ok(()),
    }
}

/// Writes the report of a run whose options are invalid, with `message`, unless a program of an earlier
/// run may have redirected its path.
pub fn report_misunderstood(message: &str, sink: &Sink, folders: Vec<PathBuf>) {
    if let Sink::File(path) = sink
        && let Err(error) = Folders::at(folders).check("--json", path)
    {
        complain!("belljar: {}", exit::describe(&error).1);
        return;
    }
    let mut report = Report::default();
    report.failed((exit::USAGE, message.to_owned()));
    // The error of the command line is printed already.
    let _ = Opened::new(Written::Report, sink, &Stdout::default())
        .and_then(|opened| opened.print(&report.to_line()));
}

/// Performs the run on the workers of `--remote-exec`, or here.
fn perform_somewhere(
    args: &RunArgs,
    record: Option<&RecordArgs>,
    stdout: &Stdout,
    report_to: &WriteOnce,
    report: &mut Report,
) -> Result<u8> {
    #[cfg(feature = "remote")]
    if let Some(address) = &args.remote_exec {
        if record.is_some() {
            let message = "--remote-exec: a recorded run runs here; omit it";
            return Err(super::exit::Usage(message.to_owned()).into());
        }
        return match remote_exec::run(args, address, stdout, report_to, report)? {
            remote_exec::Ran::There(code) => Ok(code),
            remote_exec::Ran::Nowhere(stdin) => {
                let here = RunArgs { stdin, remote_exec: None, ..args.clone() };
                perform(&here, record, stdout, report_to, report)
            }
        };
    }
    perform(args, record, stdout, report_to, report)
}

fn perform(
    args: &RunArgs,
    record: Option<&RecordArgs>,
    stdout: &Stdout,
    report_to: &WriteOnce,
    report: &mut Report,
) -> Result<u8> {
    let started = ambient::instant_now();
    let named = hints::program_of(args)?;
    report.program = named.to_string_lossy().into_owned();
    let open = |sink: &Sink| Opened::new(Written::Patch, sink, stdout);
    let diff_to = args.diff.as_ref().map(open).transpose()?;
    let trace_failure = Failure::default();
    let trace = trace(args, &trace_failure)?;
    let recording = record.map(Recording::begin).transpose()?;
    let children = setup::native_children(args)?;
    let toolchains = setup::toolchains_of_run(args)?;
    let (found, start) = find(args, &toolchains, named, children.is_some(), &report.program)?;
    let (module, native) = match (found, &children) {
        (Found::Module(module), _) => (Some(module), None),
        (Found::Native, Some(_)) if recording.is_none() => return run_native(args, report),
        (Found::Native, Some(children)) => {
            expect_native(args.profile, children, &report.program)?;
            (None, Some(Command::native(children, &report.program)))
        }
        (Found::Native, None) | (Found::Shell, _) => (None, None),
    };
    note_misread_value(args, &report.program);
    let engine = Engine::new(setup::engine_config(args)?)?;
    let host = host::of_args(args)?;
    let handle = host.handle();
    let (tape, natives) = (recording.as_ref(), children.as_ref());
    let caching = caching(args, not_cached(args, record, module.as_ref()))?;
    let results = caching.as_ref().and_then(Caching::results);
    let (mut machine, preopens) =
        setup::machine(args, tape, natives, host, &report.tiers, toolchains, results.as_ref())?;
    machine.set_trace(trace);
    let stdio = stdio(args, stdout, &report.program, report_to)?;

    let loads = Loads::default();
    let mut command = match &module {
        None => native.unwrap_or_else(Command::sh),
        Some(module) => of_module(args, &engine, module, report, results.as_deref(), &loads)?,
    };
    if let (Some(recording), Some(module)) = (&recording, &module) {
        recording.embed(module)?;
    }
    let name = &module.as_ref().map_or_else(|| report.program.clone(), |it| it.name().to_owned());
    report.timings.load_ms = ms(ambient::elapsed_since(started));
    set_up_named(&mut command, args, preopens, start)?;

    let run_started = ambient::instant_now();
    let running = Overtime::watch(args.limits.timeout, name, "ended", report_to);
    let status = command.status(&mut machine, stdio);
    drop(running);
    note_run(report, &mut machine, &loads, caching.as_ref(), args.quiet);
    let status = status.map_err(|error| hints::not_started(error, args))?;
    report.timings.run_ms = ms(ambient::elapsed_since(run_started));
    machine.set_trace(None);
    report.ended(&status);
    report.host_result = handle.result();
    ending::tell(name, &status, &machine.limits_hit(), args.quiet, &raised_with);
    let missing = machine.missing_programs();
    report.host_programs = note_not_hermetic(args, children.as_deref(), &status, missing);
    note_natives(report, caching.as_ref());

    let changes_started = ambient::instant_now();
    if let Some(recording) = recording {
        finish_tape(recording, args, name, &mut machine, report_to)?;
    }
    let settled = changes::settle(args, &mut machine, status.outcome(), diff_to, report_to, report);
    changes::tell_torn(machine.vfs_mut());
    report.timings.changes_ms = ms(ambient::elapsed_since(changes_started));
    advise(args, &status, report, machine.vfs_mut());
    settled?;
    trace_failure.check("--trace")?;
    caching.as_ref().map_or(Ok(()), Caching::expect_right)?;
    Ok(report.exit_code_of(args, &status))
}

/// Notes in `report` what a run on `machine` used.
fn note_run(
    report: &mut Report,
    machine: &mut Machine,
    loads: &Loads,
    caching: Option<&Caching>,
    quiet: bool,
) {
    let elapsed = machine.elapsed();
    report.spent(machine, elapsed);
    report.loaded(loads);
    if let Some(caching) = caching {
        report.answered(caching.tell(quiet));
    }
}

/// Notes in `report` that programs of the host always run.
fn note_natives(report: &mut Report, caching: Option<&Caching>) {
    if let (Some(caching), Some(results)) = (caching, &mut report.results) {
        caching.tell_natives(&report.host_programs, results);
        report.cached &= report.host_programs.is_empty();
    }
}

/// The cache of results, if `args` ask for it; `not_used` says why the run cannot use it.
fn caching(args: &RunArgs, not_used: Option<&'static str>) -> Result<Option<Caching>> {
    Caching::of_args(&args.results, &args.command, &args.env, &args.answers.credential, not_used)
}

/// Why the results of a run cannot be cached.
fn not_cached(
    args: &RunArgs,
    record: Option<&RecordArgs>,
    module: Option<&Module>,
) -> Option<&'static str> {
    if record.is_some() {
        Some("a recorded run runs")
    } else if args.trace.is_some() {
        Some("--trace shows the calls of a run")
    } else if args.limits.fuel.is_some() {
        Some("--fuel is counted by running")
    } else if module.is_some_and(|module| module.encoding() == Encoding::Component) {
        Some("results of components are not cached")
    } else if args.invoke.is_some() {
        Some("--invoke makes a call of its own")
    } else if args.time.clock == ClockArg::Real {
        Some("--clock real shows another time in each run")
    } else {
        None
    }
}

/// Completes the tape of a run of the program `name`, within its timeout.
fn finish_tape(
    recording: Recording,
    args: &RunArgs,
    name: &str,
    machine: &mut Machine,
    report_to: &WriteOnce,
) -> Result<()> {
    let _writing = Overtime::watch(args.limits.timeout, name, "not recorded in time", report_to);
    recording.finish(machine).map(drop)
}

/// Notes before the run that `program` may be a misread value: `yes` would not end.
fn note_misread_value(args: &RunArgs, program: &str) {
    if let Some(hint) = hints::misread_value(&args.command).filter(|_| !args.quiet) {
        note!("belljar: note: this runs the program {program}; {hint}");
    }
}

/// The command that is `module`: compiled, or, if `results` know it, to be loaded when its code has to run. `loads` get
/// what is loaded.
fn of_module(
    args: &RunArgs,
    engine: &Engine,
    module: &Module,
    report: &mut Report,
    results: Option<&Results>,
    loads: &Loads,
) -> Result<Command> {
    let (compiler, unknown) = (setup::compiler(args)?, options::unknown_imports(args));
    report.program = module.name().into();
    let (tiers, noted) = (report.tiers.clone(), loads.clone());
    let load = move |engine: &Engine, module: &Module| {
        let cached = Program::from_cache(engine, module, unknown)?;
        let is_cached = cached.is_some();
        let program = match cached {
            Some(program) => {
                compiler.loaded(&program, module);
                program
            }
            None => compiler.compile(engine, module, unknown)?,
        };
        tiers.note(&program);
        noted.note(&program, is_cached);
        Ok(program)
    };
    // What it imports is known when it is loaded.
    let is_refusable = unknown == UnknownImports::Deny;
    let is_known = |results: &Results| results.knows(module.digest());
    if !is_refusable && results.is_some_and(is_known) {
        let (on, of) = (engine.clone(), module.clone());
        let late = LateProgram::new(engine, module, move || load(&on, &of));
        return Ok(Command::late(&late));
    }
    let program: Result<_, ProgramError> = load(engine, module);
    let program = program?;
    report.loaded(loads);
    Ok(Command::new(&program))
}

/// Gives `command` the arguments, name and environment of PROGRAM.
fn set_up_named(
    command: &mut Command,
    args: &RunArgs,
    preopens: Option<Vec<Preopen>>,
    Start { launch, trees }: Start,
) -> Result<()> {
    command.trees(trees);
    command.args(&launch.args);
    if let Some(argv0) = launch.argv0 {
        command.argv0(argv0);
    }
    for (key, value) in launch.env.iter().filter_map(|variable| variable.split_once('=')) {
        command.env(key, value);
    }
    if let Some(call) = &args.invoke {
        command.invoke(options::call(call, args.program_args()));
    }
    command.args(args.program_args().iter().map(|arg| options::guest_bytes(arg)));
    if let Some(name) = &args.argv0 {
        command.argv0(options::guest_bytes(name));
    }
    if preopens.is_none() {
        // Go's runtime knows its current directory by nothing else.
        command
            .env("PWD", args.cwd.as_deref().map_or(crate::WORKTREE.to_owned(), options::absolute));
    }
    set_up(command, args, options::environment(&args.env)?, preopens);
    Ok(())
}

/// Gives `command` the variables of `environment`, its directories and the current one.
pub fn set_up(
    command: &mut Command,
    args: &RunArgs,
    environment: Vec<(OsString, OsString)>,
    preopens: Option<Vec<Preopen>>,
) {
    for (key, value) in environment {
        command.env(options::guest_bytes(&key), options::guest_bytes(&value));
    }
    if let Some(preopens) = preopens {
        command.preopens(preopens);
    }
    if let Some(cwd) = &args.cwd {
        command.current_dir(options::absolute(cwd));
    }
}

/// Prints hints about the arguments of a program that failed, or whose changes are not written.
fn advise(args: &RunArgs, status: &ExitStatus, report: &Report, vfs: &mut Overlay) {
    if args.quiet {
        return;
    }
    let is_content = status.success() && (report.applied || report.changes.is_empty());
    let misplaced = if is_content {
        None
    } else {
        hints::misplaced_option(args.program_args(), hints::command_of_run())
    };
    let path = if status.success() { None } else { path_hint(args, vfs) };
    for hint in misplaced.into_iter().chain(path) {
        note!("belljar: note: {hint}");
    }
}

/// The hint for an argument that is a path of the host which the program does not see.
fn path_hint(args: &RunArgs, vfs: &mut Overlay) -> Option<String> {
    let folders = mounts::folders(&args.mounts);
    let cwd = args.cwd.as_deref().map_or(crate::WORKTREE.to_owned(), options::absolute);
    let view = View { folders: &folders, cwd: &cwd, option: "--dir" };
    view.hint(&args.command, vfs)
}

/// Checks that the host has `program`, and that the profile allows it.
fn expect_native(profile: SandboxProfile, children: &NativeChildren, program: &str) -> Result<()> {
    if !children.has(program) {
        return Err(NativeError::NotFound { program: program.to_owned() }.into());
    }
    if profile == SandboxProfile::Wasi {
        return Err(NativeError::Profile(ProfileError::Wasi).into());
    }
    Ok(())
}

/// The protection of the host from native programs, in words.
fn protection(profile: SandboxProfile) -> String {
    match profile {
        SandboxProfile::Unrestricted => "without protection".to_owned(),
        profile => format!("in the sandbox profile `{profile}`"),
    }
}

/// Runs the native program on the streams of this process, including its terminal, outside of any
/// machine.
fn run_native(args: &RunArgs, report: &mut Report) -> Result<u8> {
    // With the profile `wasi` it is refused.
    if !args.quiet && args.profile != SandboxProfile::Wasi {
        note!(
            "belljar: running the native program {:?} {}: its effects are real, and no limit holds",
            report.program,
            protection(args.profile)
        );
    }
    let current_dir = args.mounts.worktree.clone().unwrap_or_default().host;
    before_opening(&current_dir, args.quiet)?;
    let code = NativeCommand {
        program: report.program.clone(),
        args: args.program_args().to_vec(),
        env: options::environment(&args.env)?,
        current_dir,
        profile: args.profile,
    }
    .status()?;
    (report.status, report.guest_exit_code) = (Status::Native, u32::try_from(code).ok());
    report.host_programs.push(report.program.clone());
    if let Some(caching) = caching(args, Some("programs of the host run"))? {
        report.answered(caching.tell(args.quiet));
    }
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

/// The streams of `program`. Opening a pipe at `--stdin` blocks until it has a writer.
fn stdio(args: &RunArgs, stdout: &Stdout, program: &str, report_to: &WriteOnce) -> Result<Stdio> {
    let what = "not loaded in time";
    let _opening = Overtime::watch(args.limits.timeout, program, what, report_to);
    Ok(Stdio {
        stdin: options::stdin(&args.stdin)?,
        stdout: OutputStream::Writer(Box::new(stdout.clone())),
        stderr: OutputStream::Writer(Box::new(terminal::Stderr)),
    })
}

/// The output of `--trace`. If writing to it fails, `failure` has the error.
pub fn trace(args: &RunArgs, failure: &Failure) -> Result<Option<Box<dyn Write + Send>>> {
    Ok(match &args.trace {
        None => None,
        Some(Sink::Stream) => Some(Box::new(io::stderr())),
        Some(Sink::File(path)) => {
            let file = sink::create(Written::Trace, path)?;
            Some(Box::new(BufWriter::new(Watched::new(file, failure.clone()))))
        }
    })
}

/// Notes what made the run not hermetic, the host's clock or native programs, and how programs that were
/// not found could be; returns the names of the native programs.
fn note_not_hermetic(
    args: &RunArgs,
    children: Option<&NativeChildren>,
    status: &ExitStatus,
    missing: &[String],
) -> Vec<String> {
    if !args.quiet && args.time.clock == ClockArg::Real {
        note!("belljar: note: with --clock real the run cannot be repeated exactly");
    }
    if !args.quiet {
        options::note_dense_times(&args.time);
    }
    let ran = StartedNatives::from(children.map(NativeChildren::started).unwrap_or_default());
    if !args.quiet && !ran.is_empty() {
        note!("belljar: note: {ran}, {}", protection(args.profile));
    }
    let has_missed = *status.outcome() == Outcome::Exited(exit::NOT_FOUND.into());
    if !args.quiet && (has_missed || !status.success() && !missing.is_empty()) {
        hints::on_missing(args, missing);
    }
    ran.names
}
