//! `belljar host`: calls of the host from the command line.

use std::io::Read;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::args::host::{CallArgs, HostAction, HostArgs};
use super::args::run::RunArgs;
use super::args::values::{Sink, StdinFrom};
use super::exit::{Usage, WOULD_CHANGE};
use super::host;
use super::loaded::LoadedPrograms;
use super::options;
use super::overtime::Overtime;
use super::replaceable::Written;
use super::report::Report;
use super::sink::{self, Failure, Opened, Stdout, WriteOnce};
use super::text::printable;
use super::{changes, hints, run, setup};
use crate::Outcome;
use crate::base::disk;
use crate::host::{HostError, HostHandle, SessionHost};
use crate::toolchain::similar;

/// Exit code of a call that failed.
const CALL_FAILED: u8 = 1;

/// Longest parameters that are read, in bytes.
const PARAMS_BYTES_MAX: u64 = 1 << 30;

pub fn run(args: &HostArgs) -> Result<u8> {
    match &args.action {
        HostAction::Manifest { json } => manifest(*json),
        HostAction::Call(args) => call(args),
    }
}

fn manifest(json: bool) -> Result<u8> {
    let manifest = SessionHost::default().capabilities();
    if json {
        say!("{}", serde_json::to_string(&manifest)?);
        return Ok(0);
    }
    let operations = manifest.iter().flat_map(|(capability, entry)| {
        let name = move |operation: &String| format!("{capability}.{operation}");
        entry.operations.iter().map(move |(op, what)| (name(op), what.description.clone()))
    });
    for (name, description) in operations {
        say!("{name:28} {description}");
    }
    Ok(0)
}

fn call(call: &CallArgs) -> Result<u8> {
    let args = &call.run.0;
    refuse_unused(args)?;
    run::check_paths(args, None)?;
    let name = hints::program_of(args)?.to_string_lossy().into_owned();
    let stdout = Stdout::default();
    let open = |what, sink: &Sink| Opened::new(what, sink, &stdout);
    let json_to = args.json.as_ref().map(|sink| open(Written::Report, sink)).transpose()?;
    let diff_to = args.diff.as_ref().map(|sink| open(Written::Patch, sink)).transpose()?;
    let params = params(call)?;
    let host = host::of_args(args)?;
    let children = setup::native_children(args)?;
    let handle = host.handle();
    let (mut machine, preopens) = setup::machine(
        args,
        None,
        children.as_ref(),
        host,
        &LoadedPrograms::default(),
        setup::toolchains_of_run(args)?,
        None,
    )?;
    let trace_failure = Failure::default();
    machine.set_trace(run::trace(args, &trace_failure)?);
    let environment = options::environment(&args.env)?;
    let calling = Overtime::watch(args.limits.timeout, &name, "ended", &WriteOnce::new(None));
    let result = handle.call_as(&mut machine, &name, &params, |command| {
        run::set_up(command, args, environment, preopens);
    });
    drop(calling);
    machine.set_trace(None);
    let code = match &result {
        Err(_) => CALL_FAILED,
        Ok(value) if name == "process.exec" && value["status"] == "blocked" => {
            super::exit::NOT_RUNNABLE
        }
        Ok(_) => 0,
    };
    match (json_to, &result) {
        (Some(to), result) => to.print(&format!("{}\n", answer(result)))?,
        (None, Ok(Value::String(text))) => {
            let end = if text.ends_with('\n') { "" } else { "\n" };
            sink::print(format!("{text}{end}").as_bytes());
        }
        (None, Ok(value)) => say!("{}", serde_json::to_string_pretty(value)?),
        (None, Err(error)) => {
            let hint = hint(error, &name, args, &handle);
            let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            complain!("belljar: {}{hint}", printable(&error.to_string()));
        }
    }
    let outcome = Outcome::Exited(code.into());
    let mut report = Report::default();
    changes::settle(args, &mut machine, &outcome, diff_to, &WriteOnce::new(None), &mut report)?;
    trace_failure.check("--trace")?;
    if args.check && code == 0 && !report.changes.is_empty() {
        return Ok(WOULD_CHANGE);
    }
    Ok(code)
}

/// The hint for a call that failed.
fn hint(error: &HostError, name: &str, args: &RunArgs, host: &HostHandle) -> Option<String> {
    match error {
        HostError::Unsupported { .. } => {
            let known = host.capabilities().into_iter().flat_map(|(capability, entry)| {
                entry.operations.into_keys().map(move |op| format!("{capability}.{op}"))
            });
            let meant = match similar(name, &known.collect::<Vec<_>>()) {
                similar if similar.is_empty() => String::new(),
                similar => format!("did you mean {}? ", similar.join(", ")),
            };
            Some(format!("{meant}`belljar host manifest` lists all operations"))
        }
        HostError::EgressBlocked { .. } => Some("--allow-net can allow it".to_owned()),
        HostError::Failed { .. }
            if name == "interaction.ask" && args.answers.host_answers.is_none() =>
        {
            Some(
                "--host-answers names a file of answers; without it, belljar asks on a terminal"
                    .to_owned(),
            )
        }
        _ => None,
    }
}

fn refuse_unused(args: &RunArgs) -> Result<()> {
    if let [_, more, ..] = args.command.as_slice() {
        let more = printable(&more.to_string_lossy());
        let why = format!("unexpected argument {more}: parameters come after --params");
        return Err(Usage(why).into());
    }
    let options = [
        ("--argv0", args.argv0.is_some()),
        ("--invoke", args.invoke.is_some()),
        ("--stdin", !matches!(args.stdin, StdinFrom::Inherit)),
    ];
    match options.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => Err(Usage(format!(
            "{option} is not an option of calls; see `belljar host call --help`"
        ))
        .into()),
    }
}

fn answer(result: &Result<Value, HostError>) -> Value {
    match result {
        Ok(value) => json!({ "ok": value }),
        Err(error) => json!({ "error": { "kind": error.kind(), "message": error.to_string() } }),
    }
}

/// The parameters of the call.
fn params(call: &CallArgs) -> Result<Value> {
    let Some(given) = &call.params else { return Ok(json!({})) };
    let text = if given == "-" {
        let mut text = Vec::new();
        let mut stdin = std::io::stdin().lock().take(PARAMS_BYTES_MAX);
        stdin.read_to_end(&mut text).context("cannot read standard input")?;
        text
    } else if let Some(path) = given.strip_prefix('@') {
        let read = disk::read_at_most(path.as_ref(), PARAMS_BYTES_MAX);
        read.map_err(|error| Usage::of("--params", error))?.ok_or_else(|| {
            let size = bytesize::ByteSize(PARAMS_BYTES_MAX).display().iec();
            Usage(format!("--params: {path} is larger than {size}"))
        })?
    } else {
        given.clone().into_bytes()
    };
    let value = crate::host::parse_json(&text);
    value.map_err(|error| Usage(format!("--params is not JSON: {error}")).into())
}
