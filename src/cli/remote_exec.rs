//! `--remote-exec`: runs that a cluster executes.

use std::io::{IsTerminal, Read};
use std::sync::Arc;

use anyhow::{Context, Result};

use super::args::groups::{ClockArg, MtimesArg};
use super::args::run::{OnMissing, RunArgs};
use super::args::values::{SHELL, Sink, StdinFrom};
use super::exit::{self, CommandFailed, Usage};
use super::found::{Found, find};
use super::options;
use super::progress::Progress;
use super::replaceable::Written;
use super::report::{Report, ms};
use super::sink::{Opened, Stdout, WriteOnce};
use super::text::printable;
use super::{changes, ending, hints, host, setup};
use crate::actions::{self, ActionError, ProgramSpec, RemoteRun, Request, Spec, ToolchainSpec};
use crate::base::ambient;
use crate::kernel::machine::config::KERNEL_VERSION;
use crate::process::ExitStatus;
use crate::remote::code::{DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED};
use crate::remote::{Connection, RemoteError, ServerConfig};
use crate::{ClockConfig, Limits, OutputStream, Resolved, Toolchains};

/// Has the run executed by the server at `address`; its changes, output and report are those of a run here.
pub fn run(
    args: &RunArgs,
    address: &str,
    stdout: &Stdout,
    report_to: &WriteOnce,
    report: &mut Report,
) -> Result<u8> {
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
    let (mut machine, _) = setup::machine(args, None, None, host, &report.tiers, toolchains, None)?;
    let name = report.program.clone();
    let request = Request {
        server: Arc::new(server),
        spec: spec(args, &machine, program.spec, program.env, toolchain_specs)?,
        argv0: program.argv0,
        args: program.args,
        module: program.module,
        stdin: stdin(args)?,
        anew: args.no_cache,
    };
    report.timings.load_ms = ms(ambient::elapsed_since(started));

    let run_started = ambient::instant_now();
    let RemoteRun { exit_code, stdout: printed, stderr, known } = {
        let what = format!("{} at {address}", printable(&name));
        let progress = Progress::start(what.clone(), args.quiet);
        let told = |stage| progress.say(format!("{what}: {}", stage_in_words(stage)));
        request.run(&mut machine, told).map_err(explained)?
    };
    OutputStream::Writer(Box::new(stdout.clone()))
        .write(&printed)
        .context("cannot write standard output")?;
    OutputStream::Writer(Box::new(std::io::stderr()))
        .write(&stderr)
        .context("cannot write standard error")?;
    report.timings.run_ms = ms(ambient::elapsed_since(run_started));
    let status = ExitStatus::exited(exit_code);
    let elapsed = machine.elapsed();
    report.spent(&machine, elapsed);
    report.cached = known;
    report.ended(&status);
    ending::tell(&name, &status, &[], args.quiet, &super::report::raised_with);
    if known && !args.quiet {
        note!("belljar: note: the server knew the result of {}", printable(&name));
    }
    let changes_started = ambient::instant_now();
    let settled = changes::settle(args, &mut machine, status.outcome(), diff_to, report_to, report);
    report.timings.changes_ms = ms(ambient::elapsed_since(changes_started));
    settled?;
    Ok(report.exit_code_of(args, &status))
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

fn stage_in_words(stage: actions::Progress) -> &'static str {
    match stage {
        actions::Progress::Uploading => "its inputs are uploaded",
        actions::Progress::Queued => "it waits for a worker",
        actions::Progress::Executing => "a worker executes it",
        actions::Progress::Fetching => "its changes are fetched",
    }
}

/// Fails if `args` ask for something that a worker does not have.
fn expect_possible(args: &RunArgs) -> Result<(), Usage> {
    let cases = [
        (args.mounts.no_worktree, "--no-worktree"),
        (args.invoke.is_some(), "--invoke"),
        (args.trace.is_some(), "--trace"),
        (args.limits.fuel.is_some(), "--fuel"),
        (args.on_missing != OnMissing::Deny, "--on-missing"),
        (args.time.clock == ClockArg::Real, "--clock real"),
        (args.time.mtimes == MtimesArg::Host, "--mtimes host"),
        (args.answers.host_answers.is_some(), "--host-answers"),
        (args.answers.host_task.is_some(), "--host-task"),
        (!args.answers.credential.is_empty(), "--credential"),
        (!args.rules.allow_net.is_empty(), "--allow-net"),
        (args.results.rerun > 0.0, "--rerun"),
    ];
    match cases.iter().find(|(given, _)| *given) {
        None => Ok(()),
        Some((_, option)) => Err(Usage(format!(
            "{option}: a worker of --remote-exec has nothing of this machine; omit one of the two"
        ))),
    }
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
    machine: &crate::Machine,
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
fn stdin(args: &RunArgs) -> Result<Option<Vec<u8>>> {
    if args.stdin == StdinFrom::Inherit && std::io::stdin().is_terminal() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    match options::stdin(&args.stdin)? {
        crate::Input::Host => {
            std::io::stdin()
                .lock()
                .read_to_end(&mut bytes)
                .context("cannot read standard input")?;
        }
        crate::Input::Reader(mut reader) => {
            reader.read_to_end(&mut bytes).context("--stdin")?;
        }
        _ => return Ok(None),
    }
    Ok(Some(bytes))
}
