//! `belljar sandbox exec`.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use belljar::sandbox::{
    ExecRequest, MountSource, Sandbox, SandboxError, SandboxHome, SandboxMount,
};
use belljar::{Limit, OutputStream, Stdio};
use serde_json::{Value, json};

use super::args::ExecArgs;
use super::create::environment;
use super::disk::{tell_met, with_drifts};
use super::show::{absolute, start_dir};
use super::{KeptPolicy, home_with, waiting};
use crate::cli::changes::{Changed, changes_since, warn_of_sensitive};
use crate::cli::exit::{self, Hinted, Usage};
use crate::cli::host::HostSettings;
use crate::cli::host_paths::{Folder, View};
use crate::cli::overtime::Overtime;
use crate::cli::planted::Folders;
use crate::cli::report::{Report, Status, raised_with};
use crate::cli::sink::{Once, Opened, Stdout};
use crate::cli::values::Sink;
use crate::cli::{ending, setup};

pub fn run(args: &ExecArgs) -> Result<u8> {
    let home = home_with(Some(args.compile))?;
    let stdout = Stdout::default();
    let report_to = Once::new(open_report(args, &home, &stdout)?);
    let mut report = Report { program: program_of(args), ..Report::default() };
    let done = perform(args, &home, &stdout, &report_to, &mut report);
    report.concluded(&done);
    let written = report_to.print(&line(&args.id, &report));
    let code = done?;
    written.map(|()| code)
}

fn program_of(args: &ExecArgs) -> String {
    args.command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
}

/// What the report goes to, unless a program of the session may have led it astray.
fn open_report(args: &ExecArgs, home: &SandboxHome, stdout: &Stdout) -> Result<Option<Opened>> {
    let Some(sink) = &args.json else { return Ok(None) };
    if let Sink::File(path) = sink {
        Folders::of_session(&home.details(&args.id)?.mounts).check("--json", path)?;
    }
    Opened::new("--json", sink, stdout).map(Some)
}

fn perform(
    args: &ExecArgs,
    home: &SandboxHome,
    stdout: &Stdout,
    report_to: &Once,
    report: &mut Report,
) -> Result<u8> {
    let mut words = args.command.iter().map(text).collect::<Result<Vec<_>>>()?.into_iter();
    let mut request = ExecRequest {
        command: words.next().unwrap_or_default(),
        args: words.collect(),
        env: environment(&args.env)?,
        timeout: args.timeout,
        // Without it the session's own holds, and --timeout is real time, as it is everywhere.
        virtual_timeout: Some(args.virtual_timeout.unwrap_or(Duration::MAX)),
        ..ExecRequest::default()
    };
    let stdio = Stdio {
        stdin: setup::stdin(&args.stdin)?,
        stdout: OutputStream::Writer(Box::new(stdout.clone())),
        stderr: OutputStream::Writer(Box::new(io::stderr())),
    };
    let mut held = home.hold(&args.id, || waiting(&args.id))?;
    let mut sandbox = held.resume()?;
    sandbox.files().hide_temporaries(&setup::journals_dir()?);
    let policy = KeptPolicy::of(sandbox.metadata())?;
    let settings = HostSettings::of_args(policy, &args.answers)?;
    sandbox.set_host(Arc::new(move |_| settings.builder()));
    let cwd = match args.cwd.as_deref() {
        None => start_dir(&sandbox).to_owned(),
        Some(cwd) => absolute(&sandbox, cwd),
    };
    request.cwd = Some(cwd.clone());
    let before = args.json.is_some().then(|| Changed::of(sandbox.files())).transpose()?;
    let elapsed = sandbox.elapsed();
    // Whoever waits for the session must not wait for somebody who does not read.
    let timeout = [sandbox.machine().limits().timeout, args.timeout].into_iter().flatten().min();
    let what = "ended, and its session is as it was before";
    let running = Overtime::watch(timeout, &request.command, what, report_to);
    let result = sandbox.output_on(&request, stdio).map_err(|error| hinted(error, args));
    drop(running);
    let status = match result {
        Ok(result) => result.status,
        // The program itself may be what cannot be read.
        Err(error) => return Err(with_drifts(error, &mut sandbox, &args.id)),
    };
    report.ended(&status);
    let took = sandbox.elapsed().saturating_sub(elapsed);
    let machine = sandbox.machine();
    let limits_hit = machine.limits_hit();
    report.limits_hit = limits_hit.iter().map(|limit| limit.name()).collect();
    report.virtual_time_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    report.upper_bytes = machine.vfs().upper_bytes();
    report.host_result = sandbox.host().result();
    ending::tell(&request.command, &status, &limits_hit, false, &|limit| raised(args, limit));
    if !status.success()
        && let Some(hint) = path_hint(args, &mut sandbox, &cwd)
    {
        note!("belljar: note: {hint}");
    }
    report.drifts = tell_met(&mut sandbox, &args.id);
    held.save(&mut sandbox).with_context(|| {
        format!("the program has run, but session {} is as it was before", args.id)
    })?;
    if let Some(before) = before {
        let now = Changed::of(sandbox.files())?;
        report.changes = changes_since(&before, &now, sandbox.files())?;
        report.sensitive = warn_of_sensitive(&report.changes, true);
    }
    Ok(exit::of_outcome(status.outcome()))
}

/// The report as a line of JSON: that of a run, without what a session does not have.
fn line(id: &str, report: &Report) -> String {
    let timed_out = report.status == Status::TimedOut;
    let mut line = json!({ "id": id, "timed_out": timed_out, "message": report.error, "drifts": report.drifts });
    if let (Some(line), Ok(Value::Object(fields))) =
        (line.as_object_mut(), serde_json::to_value(report))
    {
        let of_runs = ["applied", "cache_hit", "host_programs", "timings", "unknown_imports"];
        line.extend(fields.into_iter().filter(|(name, _)| !of_runs.contains(&name.as_str())));
    }
    format!("{line}\n")
}

/// What a message about a limit adds: how to raise it.
fn raised(args: &ExecArgs, limit: Limit) -> String {
    let is_of_exec = match limit {
        Limit::Timeout => args.timeout.is_some(),
        Limit::VirtualTimeout => args.virtual_timeout.is_some(),
        _ => false,
    };
    match raised_with(limit) {
        how if is_of_exec => how.replace(')', "; the session's own limits hold as well)"),
        how => how.replace(')', " of `belljar sandbox create`)"),
    }
}

/// What to say of an argument that names something of the host which the program does not see.
fn path_hint(args: &ExecArgs, sandbox: &mut Sandbox, cwd: &str) -> Option<String> {
    let of_host = |mount: &SandboxMount| match &mount.source {
        MountSource::Host(host) => Some(Folder { host: host.clone(), at: mount.target.clone() }),
        MountSource::Memory => None,
    };
    let folders: Vec<Folder> = sandbox.mounts().iter().filter_map(of_host).collect();
    let view = View { folders: &folders, cwd, option: "belljar sandbox create --dir" };
    view.hint(args.command.get(1..)?, sandbox.files())
}

/// Adds to `error`, if it is a program that was not found, where programs come from.
fn hinted(error: SandboxError, args: &ExecArgs) -> anyhow::Error {
    let hint = match &error {
        SandboxError::Exec { is_found: false, command, .. } if command.contains('/') => {
            format!("`belljar sandbox ls {}` lists what is there", args.id)
        }
        SandboxError::Exec { is_found: false, .. } => {
            "`belljar programs` lists what there is; `belljar sandbox create --toolchain` adds folders"
                .to_owned()
        }
        _ => return error.into(),
    };
    Hinted { error: error.into(), hint }.into()
}

fn text(word: &OsString) -> Result<String> {
    let is_no_text = || Usage(format!("{} is not UTF-8, as a session wants it", word.display()));
    Ok(word.to_str().ok_or_else(is_no_text)?.to_owned())
}
