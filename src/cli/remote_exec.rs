//! `--remote-exec`: runs that a cluster executes.

use std::cell::RefCell;
use std::io::{IsTerminal, Read};
use std::sync::Arc;

use anyhow::{Context, Result};

use super::args::groups::{
    AnswerArgs, ClockArg, MountArgs, MtimesArg, ResultArgs, RuleArgs, TimeArgs,
};
use super::args::run::{OnMissing, RunArgs, UnknownImportsArg};
use super::args::values::{SHELL, Sink, StdinFrom};
use super::compile::engine_for_info;
use super::exit::{self, CommandFailed, Usage};
use super::found::{Found, find};
use super::options;
use super::progress::Progress;
use super::replaceable::Written;
use super::report::{Report, ms};
use super::signals::Deferred;
use super::sink::{Opened, Stdout, WriteOnce};
use super::terminal;
use super::text::printable;
use super::{changes, ending, hints, home, host, setup};
use crate::actions::{
    self, ActionError, ProgramSpec, Progress as Stage, RemoteRun, Request, Spec, ToolchainSpec,
};
use crate::base::ambient;
use crate::base::errno::Errno;
use crate::engine::ModuleInfo;
use crate::kernel::machine::config::KERNEL_VERSION;
use crate::remote::code::{DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED};
use crate::remote::{Connection, RemoteError, ServerConfig};
use crate::{ClockConfig, Limit, Limits, Machine, OutputStream, Resolved, Toolchains};

/// Memory for what it takes to make changes again.
const ROOM_BYTES: u64 = 64 << 20;

/// Most bytes of standard input, which are in memory.
const STDIN_BYTES_MAX: u64 = 1 << 30;

/// `args` for the machine in which the changes of a worker are made again. The limit held there, and to make them takes somewhat more
/// memory, such as that for where moved files wait.
fn with_room(args: &RunArgs) -> RunArgs {
    let mut here = args.clone();
    here.limits.max_upper = args.limits.max_upper.saturating_mul(2).saturating_add(ROOM_BYTES);
    here
}

/// Where a run was made.
pub enum Ran {
    /// By a worker; this is the exit code.
    There(u8),
    /// Nowhere: the server failed, and the run is to be made here, with this standard input.
    Nowhere(StdinFrom),
}

/// Has the run executed by the server at `address`; its changes, output and report are those of a run here.
pub fn run(
    args: &RunArgs,
    address: &str,
    stdout: &Stdout,
    report_to: &WriteOnce,
    report: &mut Report,
) -> Result<Ran> {
    expect_possible(args)?;
    let started = ambient::instant_now();
    let named = hints::program_of(args)?;
    report.program = named.to_string_lossy().into_owned();
    let open = |sink: &Sink| Opened::new(Written::Patch, sink, stdout);
    let diff_to = args.diff.as_ref().map(open).transpose()?;
    let server = connection(args, address)?;
    let toolchains = setup::toolchains_of_run(args)?;
    let program = Program::find(args, &toolchains, report)?;
    let toolchain_specs = toolchains_of(&toolchains, program.toolchain.as_deref());
    let host = host::of_args(args)?;
    let here = with_room(args);
    let (mut machine, _) =
        setup::machine(&here, None, None, host, &report.tiers, toolchains, None)?;
    expect_current_dir(args, &mut machine)?;
    let name = report.program.clone();
    let request = Request {
        server: Arc::new(server),
        spec: spec(args, &machine, program.spec, program.env, toolchain_specs)?,
        argv0: program.argv0,
        args: program.args,
        module: program.module,
        stdin: stdin(args, &report.program)?,
        anew: args.no_cache,
        needs_contents: args.diff.is_some() || args.apply.is_some(),
        // Without a directory for it, all files are read.
        digests: home::cache_dir().ok(),
    };
    report.timings.load_ms = ms(ambient::elapsed_since(started));

    let run_started = ambient::instant_now();
    let what = format!("{} at {address}", printable(&name));
    let ran = match executed(&request, &mut machine, &what, args.quiet) {
        Err(error) if args.remote_exec_fallback && is_of_others(&error) => {
            tell_fallback(&error, &name, args.quiet, report);
            let read = request.stdin.map(StdinFrom::Read);
            return Ok(Ran::Nowhere(read.unwrap_or_else(|| args.stdin.clone())));
        }
        ran => ran.map_err(explained)?,
    };
    let RemoteRun { end, stdout: printed, stderr, known } = ran;
    print(OutputStream::Writer(Box::new(stdout.clone())), &printed, "standard output");
    print(OutputStream::Writer(Box::new(terminal::Stderr)), &stderr, "standard error");
    report.timings.run_ms = ms(ambient::elapsed_since(run_started));
    let elapsed = machine.elapsed();
    report.spent(&machine, elapsed);
    report.upper_bytes = end.upper_bytes;
    report.limits_hit = end.limits_hit.iter().copied().map(Limit::name).collect();
    report.cached = known;
    let raised = super::report::raised_with;
    let status = end.status().map_err(|reason| {
        let hints: String = end.limits_hit.iter().copied().map(raised).collect();
        let message = format!("{}{hints}", printable(&reason));
        CommandFailed { code: exit::NOT_RUNNABLE, message }
    })?;
    report.ended(&status);
    ending::tell(&name, &status, &end.limits_hit, args.quiet, &raised);
    if !args.quiet && !status.success() && !end.missing_programs.is_empty() {
        note!(
            "belljar: note: {}: a worker has the toolchains that are installed there; `belljar install` adds one, here and there",
            hints::not_found(&end.missing_programs)
        );
    }
    if known && !args.quiet {
        note!("belljar: note: the server knew the result of {}", printable(&name));
    }
    let changes_started = ambient::instant_now();
    let settled = changes::settle(args, &mut machine, status.outcome(), diff_to, report_to, report);
    report.timings.changes_ms = ms(ambient::elapsed_since(changes_started));
    settled?;
    Ok(Ran::There(report.exit_code_of(args, &status)))
}

/// Says that the program `name` runs here, because of `error`.
fn tell_fallback(error: &ActionError, name: &str, quiet: bool, report: &mut Report) {
    let error = error.to_string();
    if !quiet {
        note!("belljar: warning: {}; {} runs here", printable(&error), printable(name));
    }
    report.remote_exec_error = Some(error);
}

/// Whether a run failed with `error` for a reason that a run here need not have.
fn is_of_others(error: &ActionError) -> bool {
    let is_of_user = matches!(error, ActionError::Remote(RemoteError::Cancelled { .. }));
    !is_of_user && !matches!(error, ActionError::Input { .. })
}

/// Writes `bytes`, the output of a program that has ended, to `stream`. A failure is told and ends nothing: the changes of the
/// program are still to be made.
fn print(mut stream: OutputStream, bytes: &[u8], name: &str) {
    if let Err(error) = stream.write(bytes)
        && error != Errno::Pipe
    {
        complain!("belljar: cannot write {name}: {error}");
    }
}

/// What `request` does elsewhere. A signal that comes meanwhile ends it there, and then belljar.
fn executed(
    request: &Request,
    machine: &mut Machine,
    what: &str,
    quiet: bool,
) -> Result<RemoteRun, ActionError> {
    let progress = Progress::start(what.to_owned(), quiet);
    let signals: RefCell<Option<Deferred>> = RefCell::default();
    let told = |stage| {
        progress.say(format!("{what}: {}", stage_in_words(stage)));
        let is_there = !matches!(stage, Stage::Uploading | Stage::Fetching);
        let mut signals = signals.borrow_mut();
        match (is_there, signals.is_some()) {
            // Without it, a signal ends belljar alone.
            (true, false) => *signals = Deferred::begin().ok(),
            (false, true) => signals.take().into_iter().for_each(Deferred::end),
            _ => {}
        }
    };
    let stopped = || signals.borrow().as_ref().is_some_and(|signals| signals.caught().is_some());
    let ran = request.run(machine, &stopped, told);
    drop(progress);
    signals.take().into_iter().for_each(Deferred::end);
    ran
}

/// `error` with the exit code that a run here would have.
fn explained(error: ActionError) -> anyhow::Error {
    let code = match &error {
        ActionError::Remote(RemoteError::Refused { code: DEADLINE_EXCEEDED, .. }) => {
            exit::TIMED_OUT
        }
        ActionError::Remote(RemoteError::Refused { code: RESOURCE_EXHAUSTED, .. }) => exit::ENDED,
        _ => return error.into(),
    };
    CommandFailed { code, message: error.to_string() }.into()
}

fn stage_in_words(stage: Stage) -> &'static str {
    match stage {
        Stage::Uploading => "its inputs are uploaded",
        Stage::Taken => "the server has it",
        Stage::Queued => "it waits for a worker",
        Stage::Executing => "a worker executes it",
        Stage::Fetching => "its changes are fetched",
    }
}

/// Fails if `args` ask for something that a worker does not have. All options are named: what is forgotten here would be
/// left out in silence.
fn expect_possible(args: &RunArgs) -> Result<(), Usage> {
    let RunArgs {
        command: _,
        toolchain: _,
        locked: _,
        argv0: _,
        invoke,
        env: _,
        stdin: _,
        unknown_imports,
        on_missing,
        // Those of native programs, which there are none of.
        native_time: _,
        profile: _,
        no_cache: _,
        remote_exec: _,
        remote_exec_fallback: _,
        mounts: MountArgs { worktree: _, no_worktree, dir: _ },
        cwd: _,
        time: TimeArgs { clock, start_at: _, mtimes, seed: _ },
        limits,
        // The worker has its own.
        compile: _,
        results,
        rules: RuleArgs { host_policy, allow_net, deny_net: _ },
        answers: AnswerArgs { host_answers, host_task, credential },
        apply: _,
        check: _,
        diff: _,
        json: _,
        trace,
        quiet: _,
    } = args;
    // The server answers what it knows; variables may ask for the rest of them in all runs.
    let ResultArgs { cache_results: _, cache_secrets, rerun, explain, remote: _ } = results;
    let cases = [
        (*no_worktree, "--no-worktree"),
        (invoke.is_some(), "--invoke"),
        (*unknown_imports != UnknownImportsArg::Trap, "--unknown-imports"),
        (trace.is_some(), "--trace"),
        (limits.fuel.is_some(), "--fuel"),
        (*on_missing != OnMissing::Deny, "--on-missing"),
        (*clock == ClockArg::Real, "--clock real"),
        (*mtimes == MtimesArg::Host, "--mtimes host"),
        (host_policy.is_some(), "--host-policy"),
        (host_answers.is_some(), "--host-answers"),
        (host_task.is_some(), "--host-task"),
        (!credential.is_empty(), "--credential"),
        (!allow_net.is_empty(), "--allow-net"),
        (*rerun > 0.0, "--rerun"),
        (*explain, "--explain"),
        (*cache_secrets, "--cache-secrets"),
    ];
    match cases.iter().find(|(given, _)| *given) {
        None => Ok(()),
        Some((_, option)) => Err(Usage(format!(
            "{option}: a worker of --remote-exec cannot do that; omit one of the two"
        ))),
    }
}

/// Fails if the current directory of the run is none.
fn expect_current_dir(args: &RunArgs, machine: &mut Machine) -> Result<(), Usage> {
    let path = current_dir(args);
    let opened = machine.vfs_mut().open_dir(&path);
    let id = opened.map_err(|errno| Usage(format!("--cwd: {}: {errno}", printable(&path))))?;
    machine.vfs_mut().close(id);
    Ok(())
}

fn connection(args: &RunArgs, address: &str) -> Result<Connection> {
    let remote = &args.results.remote;
    let config = ServerConfig {
        address: address.to_owned(),
        instance: String::new(),
        headers: remote.headers(),
        certificates: remote.certificates(),
        timeout: remote.remote_timeout,
    };
    Connection::new(&config).map_err(|error| match error {
        RemoteError::Address { .. } => Usage(format!("--remote-exec {error}")).into(),
        error => error.into(),
    })
}

/// The program of a run, and what it is called with.
struct Program {
    spec: ProgramSpec,
    module: Option<Vec<u8>>,
    argv0: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    /// The toolchain that it belongs to.
    toolchain: Option<String>,
}

impl Program {
    fn find(args: &RunArgs, toolchains: &Toolchains, report: &mut Report) -> Result<Self> {
        let named = hints::program_of(args)?;
        let (found, start) = find(args, toolchains, named, false, &report.program)?;
        let toolchain = match named.to_str().filter(|_| !setup::is_path(named)) {
            Some(name) => match toolchains.find(name)? {
                Some(Resolved::Described(described)) => Some(described.toolchain),
                _ => None,
            },
            None => None,
        };
        let installed = toolchain.filter(|toolchain| toolchain.is_installed());
        let mut words = Vec::new();
        let mut env: Vec<(String, String)> = Vec::new();
        let (spec, module) = match (found, &installed) {
            (_, Some(_)) => (ProgramSpec::Named(report.program.clone()), None),
            (Found::Module(module), None) => {
                if !start.trees.is_empty() {
                    return Err(Usage(format!(
                        "{}: its toolchain is a folder of this machine; `belljar install` it here and on the worker",
                        report.program
                    ))
                    .into());
                }
                report.program = module.name().into();
                words.extend(start.launch.args);
                let variables = start.launch.env.iter().filter_map(|text| text.split_once('='));
                env.extend(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
                let name = module.name().to_owned();
                let info = ModuleInfo::of(&engine_for_info()?, &module)?;
                report.unknown_imports = info.unknown_imports;
                (ProgramSpec::Module { name }, Some(module.bytes()?.to_vec()))
            }
            (Found::Shell | Found::Native, None) => (ProgramSpec::Named(SHELL.to_owned()), None),
        };
        let argv0 = args.argv0.as_deref().map(text).transpose()?.or(match &installed {
            Some(_) => None,
            None => start.launch.argv0,
        });
        for word in args.program_args() {
            words.push(text(word)?);
        }
        env.push(("PWD".to_owned(), current_dir(args)));
        for (name, value) in options::environment(&args.env)? {
            let (name, value) = (text(&name)?, text(&value)?);
            env.retain(|(other, _)| *other != name);
            env.push((name, value));
        }
        let toolchain = installed.map(|toolchain| toolchain.manifest().name.clone());
        Ok(Self { spec, module, argv0: argv0.unwrap_or_default(), args: words, env, toolchain })
    }
}

fn text(word: &std::ffi::OsStr) -> Result<String> {
    word.to_str().map(str::to_owned).ok_or_else(|| {
        Usage(format!("{}: --remote-exec takes arguments in UTF-8", word.display())).into()
    })
}

fn current_dir(args: &RunArgs) -> String {
    args.cwd.as_deref().map_or(crate::WORKTREE.to_owned(), options::absolute)
}

/// The installed toolchains among `toolchains`; the run needs that of the program.
fn toolchains_of(toolchains: &Toolchains, needed: Option<&str>) -> Vec<ToolchainSpec> {
    let installed = toolchains.described().filter(|toolchain| toolchain.is_installed());
    let spec = |name: &str, digest| ToolchainSpec {
        name: name.to_owned(),
        digest,
        needed: needed == Some(name),
    };
    installed.map(|toolchain| spec(&toolchain.manifest().name, toolchain.digest())).collect()
}

fn spec(
    args: &RunArgs,
    machine: &Machine,
    program: ProgramSpec,
    env: Vec<(String, String)>,
    toolchains: Vec<ToolchainSpec>,
) -> Result<Spec> {
    let start_ns = match options::clock(&args.time)? {
        ClockConfig::Paused { start_ns } => start_ns,
        ClockConfig::Host => return Err(Usage("--clock real".to_owned()).into()),
    };
    let limits: Limits = options::limits(&args.limits);
    let mounts = machine.vfs().mounts().iter().filter(|mount| mount.host().is_some());
    let mounts = mounts
        .map(|mount| actions::MountSpec { path: mount.path(), read_only: mount.is_read_only() });
    Ok(Spec {
        belljar: env!("CARGO_PKG_VERSION").to_owned(),
        kernel_version: KERNEL_VERSION,
        start_ns,
        mtimes: options::mtimes(&args.time)?,
        seed: args.time.seed,
        limits,
        mounts: mounts.collect(),
        current_dir: current_dir(args),
        env,
        program,
        toolchains,
    })
}

/// Standard input, which is read to its end; that of a terminal is not.
fn stdin(args: &RunArgs, name: &str) -> Result<Option<Vec<u8>>> {
    if args.stdin == StdinFrom::Inherit && std::io::stdin().is_terminal() {
        return Ok(None);
    }
    let what = format!("{}: standard input is read to its end", printable(name));
    let _progress = Progress::start(what, args.quiet);
    let mut bytes = Vec::new();
    // One more, to know that there is more.
    let most = STDIN_BYTES_MAX + 1;
    match options::stdin(&args.stdin)? {
        crate::Input::Host => {
            let read = std::io::stdin().lock().take(most).read_to_end(&mut bytes);
            read.context("cannot read standard input")?;
        }
        crate::Input::Reader(reader) => {
            reader.take(most).read_to_end(&mut bytes).context("--stdin")?;
        }
        _ => return Ok(None),
    }
    if bytes.len() as u64 > STDIN_BYTES_MAX {
        let message = "standard input has more than 1 GiB, which --remote-exec takes at most; give the program a file";
        return Err(Usage(message.to_owned()).into());
    }
    Ok(Some(bytes))
}
