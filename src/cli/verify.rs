//! `belljar verify`: the same run, several times, under varied conditions.

use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use super::args::groups::MtimesArg;
use super::args::run::RunArgs;
use super::args::spelled::value_name;
use super::args::values::StdinFrom;
use super::args::verify::VerifyArgs;
use super::cause::cause;
use super::exit::{CommandFailed, DIFFERENT, FAILED, Usage};
use super::hints::program_of;
use super::progress::Progress;
use super::repetition::{Repetition, Seen, on_a_busy_machine, varied};
use super::replaceable::Written;
use super::run::check_paths;
use super::sink::{Opened, Stdout};
use super::started_natives::StartedNatives;
use super::text::printable;
use crate::Limit;
use crate::base::{ambient, atomic_file, disk};
use crate::tape::{
    FidelityMode, FidelityReport, Found, Kind, Record, TapeError, TapeReader, TapeSource, compare,
};

pub fn run(args: &VerifyArgs) -> Result<u8> {
    let run = &args.run;
    expect_nothing_kept(run)?;
    check_paths(run, None)?;
    program_of(run)?;
    let open = |sink| Opened::new(Written::Report, sink, &Stdout::default());
    let report_to = run.json.as_ref().map(open).transpose()?;
    let scratch = tempfile::Builder::new().prefix("belljar-verify-").tempdir()?;
    let stdin = stdin(&run.stdin, scratch.path(), run.quiet)?;
    let first = scratch.path().join("0.tape");
    let started_s = now_s();
    perform(run, &stdin, &first, &[])?;
    let seen = Seen::on(&first)?;
    let message = format!("{} runs", args.runs);
    let _progress = Progress::start(message, run.quiet);
    let mut records = 0;
    for number in 1..args.runs {
        let home = scratch.path().join(format!("other folder {number}"));
        let again = Repetition::prepare(run, number, home.clone(), &seen)?;
        let variables = again.variables();
        // The resolution of a leaked time is often a second.
        while now_s() == started_s {
            ambient::sleep(Duration::from_millis(10));
        }
        let tape = scratch.path().join(format!("{number}.tape"));
        on_a_busy_machine(|| perform(&again.run, &stdin, &tape, &variables))?;
        let report = compared(&first, &tape)?;
        records = report.recorded_records;
        if !report.is_faithful() {
            let follows_times = run.time.mtimes == MtimesArg::Host
                && follows_times(run, number, &stdin, scratch.path())?;
            let (mut ran, on_tape) = (StartedNatives::on(&first)?, StartedNatives::on(&tape)?);
            if ran.is_empty() {
                ran = on_tape;
            }
            let timed_out = is_timed_out(&first)? || is_timed_out(&tape)?;
            let cause = cause_of(&report, timed_out, &ran, follows_times);
            return different(args, report_to, number, report, &cause);
        }
        disk::remove_file(&tape)?;
        disk::remove_dir_all(&home)?;
    }
    let (varied, ran) = (varied(run), StartedNatives::on(&first)?);
    if let Some(report_to) = report_to {
        let report = json!({ "equal": true, "runs": args.runs, "records": records, "varied": varied,
                "host_programs": ran.names });
        report_to.print(&format!("{report}\n"))?;
    } else {
        say!("{} runs are the same, in {records} records each", args.runs);
        say!("varied: {}", varied.join(", "));
        if !ran.is_empty() {
            say!("{ran}");
        }
    }
    Ok(0)
}

/// Checks that `run` asks for nothing that a comparison does not do.
///
/// # Errors
/// It does.
pub fn expect_nothing_kept(run: &RunArgs) -> Result<()> {
    if run.apply.is_some() || run.check || run.diff.is_some() || run.trace.is_some() {
        let message = "verify runs the program again and keeps nothing: omit --apply, --check, --diff and \
                       --trace";
        return Err(Usage(message.to_owned()).into());
    }
    #[cfg(feature = "remote")]
    if run.remote_exec.is_some() {
        return Err(Usage("verify runs the program here: omit --remote-exec".to_owned()).into());
    }
    Ok(())
}

fn now_s() -> u64 {
    ambient::wall_now_ns() / 1_000_000_000
}

/// Whether `--timeout` ended the run on `tape`.
fn is_timed_out(tape: &Path) -> Result<bool> {
    for record in TapeReader::open(tape)? {
        if let Kind::ProcessExit { status, .. } = record?.kind
            && status == Limit::Timeout.name()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Compares the runs on two tapes, without the times of files on the disk: if the program depends on them,
/// something else differs as well.
fn compared(first: &Path, again: &Path) -> Result<FidelityReport> {
    let (first, again) = (WithoutFileTimes(first), WithoutFileTimes(again));
    Ok(compare(&first, &again, FidelityMode::ByteIdentical)?)
}

struct WithoutFileTimes<'a>(&'a Path);

impl TapeSource for WithoutFileTimes<'_> {
    fn records(&self) -> Result<impl Iterator<Item = Result<Record, TapeError>>, TapeError> {
        Ok(TapeReader::open(self.0)?.map(|record| {
            let mut record = record?;
            if let Kind::FileStat { found: Found::Entry { mtime_ns, .. }, .. } = &mut record.kind {
                *mtime_ns = None;
            }
            Ok(record)
        }))
    }
}

/// Whether the runs are equal if the program does not see the times of files on the disk, and differ if
/// it does.
fn follows_times(run: &RunArgs, number: u32, stdin: &OsString, scratch: &Path) -> Result<bool> {
    let is_same = |mtimes: MtimesArg| -> Result<bool> {
        let tapes =
            [0, 1].map(|number| scratch.join(format!("{} {number}.tape", value_name(&mtimes))));
        let mut run = run.clone();
        run.time.mtimes = mtimes;
        perform(&run, stdin, &tapes[0], &[])?;
        let home = scratch.join(format!("other folder {}", value_name(&mtimes)));
        let again = Repetition::prepare(&run, number, home, &Seen::on(&tapes[0])?)?;
        perform(&again.run, stdin, &tapes[1], &again.variables())?;
        Ok(compared(&tapes[0], &tapes[1])?.is_faithful())
    };
    Ok(is_same(MtimesArg::Content)? && !is_same(MtimesArg::Host)?)
}

/// The cause of a difference between two runs.
fn cause_of(
    report: &FidelityReport,
    timed_out: bool,
    ran: &StartedNatives,
    follows_times: bool,
) -> String {
    match report.divergences.first() {
        _ if !ran.is_empty() => {
            format!("{ran}, which cannot be repeated: use modules (--toolchain)")
        }
        _ if follows_times => {
            "the program depends on the times of files on the disk: use --mtimes content".to_owned()
        }
        Some(first) => cause(first, timed_out).to_owned(),
        None => String::new(),
    }
}

fn different(
    args: &VerifyArgs,
    report_to: Option<Opened>,
    number: u32,
    mut report: FidelityReport,
    cause: &str,
) -> Result<u8> {
    if let Some(report_to) = report_to {
        let report = json!({
            "equal": false, "runs": number + 1, "cause": cause, "varied": varied(&args.run),
            "divergences": report.divergences, "divergence_count": report.divergence_count,
        });
        report_to.print(&format!("{report}\n"))?;
    } else {
        say!("run {number} differs: {cause}");
        // Later differences usually follow from the first one.
        report.divergences.truncate(1);
        say!("{}", report.render().trim_end());
    }
    Ok(DIFFERENT)
}

/// Standard input for all runs: it can be read only once. A line says so if that takes long, unless `quiet`.
pub fn stdin(from: &StdinFrom, scratch: &Path, quiet: bool) -> Result<OsString> {
    let keep = |bytes: &[u8]| {
        let path = scratch.join("stdin");
        atomic_file::write(&path, &[bytes])?;
        Ok(path.into())
    };
    match from {
        StdinFrom::File(path) => Ok(disk::canonical(path)?.into()),
        StdinFrom::Read(bytes) => keep(bytes),
        StdinFrom::Inherit if !std::io::stdin().is_terminal() => {
            let message = "reading standard input until it ends (`--stdin null` runs without it)";
            let _progress = Progress::start(message.to_owned(), quiet);
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
            keep(&bytes)
        }
        StdinFrom::Inherit | StdinFrom::Null => Ok("null".into()),
    }
}

/// Records one run in a process of its own, with these environment variables changed.
fn perform(
    run: &RunArgs,
    stdin: &OsString,
    tape: &Path,
    variables: &[(&str, OsString)],
) -> Result<()> {
    #[allow(
        clippy::disallowed_methods,
        reason = "this is belljar itself, and no program of the host's"
    )]
    let mut child = std::process::Command::new(std::env::current_exe()?);
    child.args(["record", "--quiet", "--tape"]).arg(tape).args(run.to_options(stdin)?);
    child.arg("--").args(&run.command).envs(variables.iter().cloned());
    child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = child.output().context("cannot start belljar again")?;
    if !disk::metadata(tape).is_ok_and(|metadata| metadata.is_file()) {
        let message = String::from_utf8_lossy(&output.stderr);
        let message = message.trim().trim_start_matches("belljar: ");
        let message = format!("the run cannot be recorded: {}", printable(message));
        let code = output.status.code().and_then(|code| u8::try_from(code).ok());
        return Err(CommandFailed { code: code.unwrap_or(FAILED), message }.into());
    }
    Ok(())
}
