//! `belljar verify --cached`: what is known of a run is run again, and compared.

use std::ffi::OsString;
use std::process::Stdio;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::args::verify::VerifyArgs;
use super::exit::{CommandFailed, DIFFERENT, FAILED};
use super::replaceable::Written;
use super::results::processes;
use super::run::check_paths;
use super::sink::{Opened, Stdout};
use super::text::printable;
use super::verify::{expect_nothing_kept, stdin};
use crate::base::disk;

/// The parts of the report of the run that are compared.
#[derive(Deserialize)]
struct Report {
    results: Option<Results>,
}

#[derive(Deserialize)]
struct Results {
    rerun: u64,
    misses: u64,
    contradictions: Vec<Contradiction>,
    not_used: Option<String>,
}

/// A process that did something else than what is known of it.
#[derive(Serialize, Deserialize)]
struct Contradiction {
    program: String,
    call: u64,
    how: String,
}

/// Runs the program, with all processes that the cache of results knows, and compares these.
///
/// # Errors
/// The program cannot be run, or its results cannot be cached.
pub fn run(args: &VerifyArgs) -> Result<u8> {
    expect_nothing_kept(&args.run)?;
    check_paths(&args.run, None)?;
    let open = |sink| Opened::new(Written::Report, sink, &Stdout::default());
    let report_to = args.run.json.as_ref().map(open).transpose()?;
    let results = results(args)?;
    let Results { rerun, misses, contradictions, .. } = results;
    let wrong = contradictions.len() as u64;
    if let Some(report_to) = report_to {
        let report = json!({
            "equal": wrong == 0, "compared": rerun + wrong, "unknown": misses,
            "contradictions": contradictions,
        });
        report_to.print(&format!("{report}\n"))?;
    } else {
        tell(rerun, misses, &contradictions);
    }
    Ok(if wrong == 0 { 0 } else { DIFFERENT })
}

fn tell(same: u64, unknown: u64, contradictions: &[Contradiction]) {
    for Contradiction { program, call, how } in contradictions {
        say!("{} differs from its results in call {call}: {}", printable(program), printable(how));
    }
    if !contradictions.is_empty() {
        let wrong = processes(contradictions.len() as u64);
        say!("the results of {wrong} are wrong, those of {same} right");
        say!(
            "`belljar cache results clear` removes all; whoever can write to the cache can make wrong ones"
        );
    } else if same > 0 {
        say!("{} ran again, and did what is known", processes(same));
    } else {
        say!(
            "nothing to compare: the cache knows no process of this run; `--cache-results` adds them"
        );
        return;
    }
    if unknown > 0 {
        say!("{} not known before", processes(unknown));
    }
}

/// Runs the program in a process of its own; all processes that are known run again.
fn results(args: &VerifyArgs) -> Result<Results> {
    let run = &args.run;
    let scratch = tempfile::Builder::new().prefix("belljar-verify-").tempdir()?;
    let stdin = stdin(&run.stdin, scratch.path(), run.quiet)?;
    let report = scratch.path().join("report");
    #[allow(
        clippy::disallowed_methods,
        reason = "this is belljar itself, and no program of the host's"
    )]
    let mut child = std::process::Command::new(std::env::current_exe()?);
    let mut to_report = OsString::from("--json=");
    to_report.push(&report);
    child.args(["run", "--quiet", "--cache-results", "--rerun=100"]).arg(to_report);
    child.args(run.to_options(&stdin)?).arg("--").args(&run.command);
    child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = child.output().context("cannot start belljar again")?;
    let text = disk::read_at_most(&report, 1 << 30).ok().flatten().unwrap_or_default();
    let reported: Option<Report> = serde_json::from_slice(&text).ok();
    let failed = |message: String| {
        let code = output.status.code().and_then(|code| u8::try_from(code).ok());
        CommandFailed { code: code.filter(|code| *code != 0).unwrap_or(FAILED), message }
    };
    match reported.and_then(|report| report.results) {
        Some(Results { not_used: Some(why), .. }) => {
            Err(failed(format!("the results of the run are not cached: {}", printable(&why)))
                .into())
        }
        Some(results) => Ok(results),
        None => {
            let message = String::from_utf8_lossy(&output.stderr);
            let message = message.trim().trim_start_matches("belljar: ");
            Err(failed(format!("the run cannot be repeated: {}", printable(message))).into())
        }
    }
}
