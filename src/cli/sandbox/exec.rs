//! `belljar sandbox exec`.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;

use anyhow::{Context, Result};
use belljar::sandbox::{ExecRequest, SandboxError};
use belljar::{OutputStream, Stdio};
use serde_json::json;

use super::args::ExecArgs;
use super::create::environment;
use super::disk::{tell_met, with_drifts};
use super::show::{absolute, start_dir};
use super::{KeptPolicy, home, waiting};
use crate::cli::exit::{Hinted, Usage};
use crate::cli::host::HostSettings;
use crate::cli::overtime::Overtime;
use crate::cli::report::printable;
use crate::cli::setup;
use crate::cli::sink::{Once, Opened, Stdout};
use crate::cli::values::Sink;

pub fn run(args: &ExecArgs) -> Result<u8> {
    let mut words = args.command.iter().map(text).collect::<Result<Vec<_>>>()?.into_iter();
    let mut request = ExecRequest {
        command: words.next().unwrap_or_default(),
        args: words.collect(),
        env: environment(&args.env)?,
        timeout: args.timeout,
        ..ExecRequest::default()
    };
    let stdout = Stdout::default();
    let stdio = Stdio {
        stdin: setup::stdin(&args.stdin)?,
        stdout: OutputStream::Writer(Box::new(stdout.clone())),
        stderr: OutputStream::Writer(Box::new(io::stderr())),
    };
    let home = home()?;
    let mut held = home.hold(&args.id, || waiting(&args.id))?;
    let mut sandbox = held.resume()?;
    sandbox.files().hide_temporaries(&setup::journals_dir()?);
    let policy = KeptPolicy::of(sandbox.metadata())?;
    let settings = HostSettings::of_args(policy, &args.answers)?;
    sandbox.set_host(Arc::new(move |_| settings.builder()));
    request.cwd = Some(match args.cwd.as_deref() {
        None => start_dir(&sandbox).to_owned(),
        Some(cwd) => absolute(&sandbox, cwd),
    });
    // Whoever waits for the session must not wait for somebody who does not read.
    let timeout = [sandbox.machine().limits().timeout, args.timeout].into_iter().flatten().min();
    let what = "ended, and its session is as it was before";
    let running = Overtime::watch(timeout, &request.command, what, &Once::new(None));
    let result = sandbox.exec_on(&request, stdio).map_err(|error| hinted(error, args));
    drop(running);
    let result = match result {
        Ok(result) => result,
        // The program itself may be what cannot be read.
        Err(error) => return Err(with_drifts(error, &mut sandbox, &args.id)),
    };
    if let Some(message) = &result.message {
        let name = printable(&request.command);
        let hint = match args.timeout {
            _ if !result.timed_out => "",
            Some(_) => " (raise it with --timeout; the session's own limits hold as well)",
            None => " (one of the session's own limits, from `belljar sandbox create`)",
        };
        for line in message.lines() {
            note!("belljar: {name} was ended: {}{hint}", printable(line));
        }
    }
    let drifts = tell_met(&mut sandbox, &args.id);
    held.save(&mut sandbox).with_context(|| {
        format!("the program has run, but session {} is as it was before", args.id)
    })?;
    if args.json {
        let report = json!({
            "id": args.id,
            "exit_code": result.exit_code,
            "timed_out": result.timed_out,
            "message": result.message,
            "host_result": sandbox.host().result(),
            "drifts": drifts,
        });
        Opened::new("--json", &Sink::Stream, &stdout)?.print(&format!("{report}\n"))?;
    }
    Ok(u8::try_from(result.exit_code).unwrap_or(u8::MAX))
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
