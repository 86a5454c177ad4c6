//! `belljar sandbox exec`.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::create::environment;
use super::disk::{resumed, tell_damage, tell_new_drifts, with_drifts};
use super::{KeptPolicy, TOOLCHAIN, home_with, waiting};
use crate::base::ambient;
use crate::cli::args::sandbox::ExecArgs;
use crate::cli::args::values::SHELL;
use crate::cli::args::values::Sink;
use crate::cli::changes::{Changed, changes_since, warn_of_sensitive};
use crate::cli::exit::{self, Hinted, Usage};
use crate::cli::home;
use crate::cli::host::HostSettings;
use crate::cli::host_paths::{Folder, View};
use crate::cli::loaded::LoadedPrograms;
use crate::cli::options;
use crate::cli::overtime::Overtime;
use crate::cli::planted_links::Folders;
use crate::cli::portable::not_portable;
use crate::cli::replaceable::Written;
use crate::cli::report::{Change, Report, Status, ms, raised_with};
use crate::cli::results::Caching;
use crate::cli::sink::{Opened, Stdout, WriteOnce};
use crate::cli::terminal;
use crate::cli::text::printable;
use crate::cli::{ending, hints};
use crate::sandbox::{ExecRequest, MountSource, Sandbox, SandboxError, SandboxHome, SandboxMount};
use crate::toolchain::{Loaded, similar};
use crate::{Limit, OutputStream, Stdio, Toolchains};

/// How PROGRAM's module was loaded.
struct Load {
    at: Instant,
    is_cached: bool,
    unknown_imports: Vec<String>,
}

/// The [`Load`] of PROGRAM, not of the programs that it starts.
type Noted = Arc<Mutex<Option<Load>>>;

pub fn run(args: &ExecArgs) -> Result<u8> {
    let noted = Noted::default();
    let mut report = Report { program: program_of(args), ..Report::default() };
    let caching =
        Caching::of_args(&args.results, &args.command, &args.env, &args.answers.credential, None)?;
    let results = caching.as_ref().and_then(Caching::results);
    let loaded = note_load(args, &noted, &report.tiers);
    let home = home_with(Some(args.compile), Some(loaded), results)?;
    let stdout = Stdout::default();
    let report_to = WriteOnce::new(open_report(args, &home, &stdout)?);
    let done = perform(args, &home, &stdout, &report_to, (&noted, caching.as_ref()), &mut report);
    report.concluded(&done);
    let written = report_to.print(&line(&args.id, &report));
    let code = done?;
    written.map(|()| code)
}

fn program_of(args: &ExecArgs) -> String {
    args.command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Notes the load of PROGRAM, whatever the path at which it is found, and all programs in `loaded`.
fn note_load(args: &ExecArgs, noted: &Noted, loaded: &LoadedPrograms) -> Loaded {
    let (asked, noted) = (module_name(&program_of(args)), Arc::clone(noted));
    let loaded = loaded.clone();
    Arc::new(move |program, _, is_cached| {
        loaded.note(program);
        let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.is_none() && module_name(program.name()) == asked {
            let unknown_imports = program.unknown_imports().to_vec();
            *noted = Some(Load { at: ambient::instant_now(), is_cached, unknown_imports });
        }
    })
}

/// Puts the load of PROGRAM into `report`; returns when it was loaded. The shell is not a module, and is not loaded: then
/// it is `otherwise`.
fn tell_load(noted: &Noted, otherwise: Instant, report: &mut Report) -> Instant {
    let Some(load) = noted.lock().unwrap_or_else(PoisonError::into_inner).take() else {
        return otherwise;
    };
    (report.cache_hit, report.unknown_imports) = (load.is_cached, load.unknown_imports);
    load.at
}

fn module_name(path: &str) -> String {
    let name = path.rsplit(std::path::is_separator).next().unwrap_or_default();
    name.strip_suffix(".wasm").unwrap_or(name).to_owned()
}

/// Opens the report, unless a program of the session may have redirected its path by a link.
fn open_report(args: &ExecArgs, home: &SandboxHome, stdout: &Stdout) -> Result<Option<Opened>> {
    let Some(sink) = &args.json else { return Ok(None) };
    if let Sink::File(path) = sink {
        Folders::of_session(&home.details(&args.id)?.mounts).check("--json", path)?;
    }
    Opened::new(Written::Report, sink, stdout).map(Some)
}

fn perform(
    args: &ExecArgs,
    home: &SandboxHome,
    stdout: &Stdout,
    report_to: &WriteOnce,
    (noted, caching): (&Noted, Option<&Caching>),
    report: &mut Report,
) -> Result<u8> {
    let started = ambient::instant_now();
    if let Some(option) = args.command[0].to_str().filter(|word| word.starts_with('-')) {
        return Err(hints::no_such_option(option, &["sandbox", "exec"]).into());
    }
    let mut request = request(args)?;
    let stdio = Stdio {
        stdin: options::stdin(&args.stdin)?,
        stdout: OutputStream::Writer(Box::new(stdout.clone())),
        stderr: OutputStream::Writer(Box::new(terminal::Stderr)),
    };
    let mut held = home.hold(&args.id, || waiting(&args.id))?;
    let mut sandbox = resumed(&held, &args.id)?;
    sandbox.files().hide_temporaries(&home::journals_dir()?);
    let policy = KeptPolicy::of(sandbox.metadata())?;
    let settings = HostSettings::of_args(policy, &args.answers)?;
    sandbox.set_host(Arc::new(move |_| settings.builder()));
    let cwd = match args.cwd.as_deref() {
        None => sandbox.start_dir().to_owned(),
        Some(cwd) => sandbox.absolute(cwd),
    };
    request.cwd = Some(cwd.clone());
    sandbox.set_results(caching.and_then(Caching::results));
    // If the changes cannot be determined, the program runs all the same.
    let before = args.json.is_some().then(|| Changed::of(sandbox.files()));
    let elapsed = sandbox.elapsed();
    // A reader that blocks must not block others that wait for the session.
    let timeout = [sandbox.machine().limits().timeout, args.timeout].into_iter().flatten().min();
    let what = "ended, and its session is as it was before";
    let run_started = ambient::instant_now();
    let running = Overtime::watch(timeout, &request.command, what, report_to);
    let result = sandbox.output_on(&request, stdio);
    drop(running);
    let run_ended = ambient::instant_now();
    let loaded_at = tell_load(noted, run_started, report);
    report.timings.load_ms = ms(loaded_at.duration_since(started));
    let status = match result {
        Ok(result) => result.status,
        // The program's own file may be the one that changed on the disk.
        Err(error) => {
            let error = hinted(error, args, &mut sandbox, &cwd);
            return Err(with_drifts(error, &mut sandbox, &args.id));
        }
    };
    report.timings.run_ms = ms(run_ended.duration_since(loaded_at));
    report.ended(&status);
    let took = sandbox.elapsed().saturating_sub(elapsed);
    let machine = sandbox.machine();
    let limits_hit = machine.limits_hit();
    report.spent(machine, took);
    if let Some(caching) = caching {
        report.answered(caching.tell(false));
    }
    report.host_result = sandbox.host().result();
    ending::tell(&request.command, &status, &limits_hit, false, &|limit| raised(args, limit));
    if !status.success() {
        advise(args, &mut sandbox, &cwd);
    }
    report.drifts = tell_new_drifts(&mut sandbox, &args.id);
    tell_damage(&mut sandbox, &args.id);
    held.save(&mut sandbox).with_context(|| {
        format!(
            "the program has run, but session {} could not be saved, and is as it was before",
            args.id
        )
    })?;
    if let Some(before) = before {
        tell_changes(before, &mut sandbox, &args.id, report);
    }
    report.timings.changes_ms = ms(ambient::elapsed_since(run_ended));
    caching.map_or(Ok(()), Caching::expect_right)?;
    Ok(exit::of_outcome(status.outcome()))
}

fn request(args: &ExecArgs) -> Result<ExecRequest> {
    let mut words = args.command.iter().map(text).collect::<Result<Vec<_>>>()?.into_iter();
    Ok(ExecRequest {
        command: words.next().unwrap_or_default(),
        args: words.collect(),
        env: environment(&args.env)?,
        timeout: args.timeout,
        // Without the option only the session's limit holds, and --timeout stays real time.
        virtual_timeout: Some(args.virtual_timeout.unwrap_or(Duration::MAX)),
        ..ExecRequest::default()
    })
}

/// Prints hints about a command that failed.
fn advise(args: &ExecArgs, sandbox: &mut Sandbox, cwd: &str) {
    let misplaced = hints::misplaced_option(&args.command[1..], &["sandbox", "exec"]);
    let path = path_hint(&args.command, sandbox, cwd);
    let missing = match sandbox.machine().missing_programs() {
        [] => None,
        names => Some(format!(
            "{}: `belljar sandbox create --toolchain` adds directories of modules",
            hints::not_found(names)
        )),
    };
    for hint in missing.into_iter().chain(misplaced).chain(path) {
        note!("belljar: note: {hint}");
    }
}

/// Puts the changes of the program into `report`; `before` are the session's earlier ones.
fn tell_changes(before: Result<Changed>, sandbox: &mut Sandbox, id: &str, report: &mut Report) {
    match changes_by(before, sandbox) {
        Ok(changes) => {
            report.sensitive = warn_of_sensitive(&changes, true);
            report.not_portable = not_portable(&changes);
            report.changes = changes;
        }
        Err(error) => {
            let error = with_drifts(error, sandbox, id);
            note!("belljar: warning: {}", printable(&format!("{error:#}")));
            report.changes_error = Some(format!("{error:#}"));
        }
    }
}

/// The changes of the program; `before` are the session's earlier ones.
fn changes_by(before: Result<Changed>, sandbox: &mut Sandbox) -> Result<Vec<Change>> {
    let now = Changed::of(sandbox.files())?;
    changes_since(&before?, &now, sandbox.files())
}

/// The report as a line of JSON: that of a run, and the fields of the session.
fn line(id: &str, report: &Report) -> String {
    let timed_out = report.status == Status::TimedOut;
    let mut line = json!({ "id": id, "timed_out": timed_out, "message": report.error, "drifts": report.drifts, "changes_error": report.changes_error });
    if let (Some(line), Ok(Value::Object(fields))) =
        (line.as_object_mut(), serde_json::to_value(report))
    {
        line.extend(fields);
    }
    format!("{line}\n")
}

/// The end of a message about a limit: how to raise it.
fn raised(args: &ExecArgs, limit: Limit) -> String {
    let is_of_exec = match limit {
        Limit::Timeout => args.timeout.is_some(),
        Limit::VirtualTimeout => args.virtual_timeout.is_some(),
        _ => false,
    };
    match raised_with(limit) {
        how if !how.starts_with(" (raise") => how,
        how if is_of_exec => how.replace(')', "; the session's own limits hold as well)"),
        how => how.replace(')', " of `belljar sandbox create`)"),
    }
}

/// The hint for the first argument of `command` that is a path of the host which the program does not see.
fn path_hint(command: &[OsString], sandbox: &mut Sandbox, cwd: &str) -> Option<String> {
    let of_host = |mount: &SandboxMount| match &mount.source {
        MountSource::Host(host) => Some(Folder { host: host.clone(), at: mount.target.clone() }),
        MountSource::Memory => None,
    };
    let folders: Vec<Folder> = sandbox.mounts().iter().filter_map(of_host).collect();
    let view = View { folders: &folders, cwd, option: "belljar sandbox create --dir" };
    view.hint(command, sandbox.files())
}

/// Adds a hint to `error` if a program was not found: the intended one, or where programs come from.
fn hinted(error: SandboxError, args: &ExecArgs, sandbox: &mut Sandbox, cwd: &str) -> anyhow::Error {
    let hint = match &error {
        SandboxError::Exec { is_found: false, command, .. } if command.contains('/') => {
            path_hint(&[OsString::new(), args.command[0].clone()], sandbox, cwd)
                .unwrap_or_else(|| format!("`belljar sandbox ls {}` lists what is there", args.id))
        }
        SandboxError::Exec { is_found: false, command, .. } => program_hint(command, args, sandbox),
        _ => return error.into(),
    };
    Hinted { error: error.into(), hint }.into()
}

/// The hint for a name that no program of the session has.
fn program_hint(name: &str, args: &ExecArgs, sandbox: &Sandbox) -> String {
    let dirs = sandbox.metadata().get(TOOLCHAIN).map_or("[]", String::as_str);
    let dirs = serde_json::from_str(dirs).unwrap_or_default();
    let mut names = Toolchains::new(dirs).and_then(|it| it.names()).unwrap_or_default();
    names.push(SHELL.to_owned());
    let meant = match similar(name, &names) {
        similar if similar.is_empty() => String::new(),
        similar => format!("did you mean {}? ", similar.join(", ")),
    };
    let show = format!("`belljar sandbox show {}` shows its toolchains", args.id);
    format!("{meant}`belljar programs` lists the built-in ones; {show}")
}

fn text(word: &OsString) -> Result<String> {
    let is_no_text = || Usage(format!("{}: arguments must be UTF-8 in a session", word.display()));
    Ok(word.to_str().ok_or_else(is_no_text)?.to_owned())
}
