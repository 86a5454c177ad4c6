//! `belljar native`: one native program, recorded on a process tape or replayed from it.

use std::io::{Read, Write};

use anyhow::{Context, Result};

use super::args::native::NativeArgs;
use super::exit::{self, Usage};
use super::planted_links::Folders;
use super::recover::before_opening;
use super::text::{count, printable};
use super::{changes, signals, sink, terminal};
use crate::base::disk;
use crate::kernel::vfs::{render_reported_diff, reported_changes};
use crate::native::{
    ProcessTape, SUBPROCESS_OUTPUT_BYTES_MAX, SubprocessError, SubprocessFiles, SubprocessRequest,
    TapedState, UnmadeFile,
};
use crate::tape::Version;
use crate::testbench::{Testbench, TestbenchError, TestbenchSession};

/// The first version of process tapes that has files.
const FILES_SINCE: Version = Version { major: 1, minor: 2 };

/// How many files a message names.
const NAMED_MAX: usize = 3;

pub fn run(args: &NativeArgs) -> Result<u8> {
    let is_there = disk::metadata(&args.tape).is_ok();
    if args.replay && !is_there {
        let tape = args.tape.display();
        return Err(Usage(format!(
            "--tape: there is no tape {tape}; record it once without --replay"
        ))
        .into());
    }
    let is_replay = is_there && !args.record;
    let loaded = is_there.then(|| ProcessTape::load_with_version(&args.tape)).transpose();
    let loaded = loaded.map_err(|error| {
        let hint = "name another file, or remove this one, to record";
        Usage(format!("--tape: {:#}; {hint}", anyhow::Error::from(error)))
    })?;
    Folders::at(vec![args.root.clone()]).check("--tape", &args.tape)?;
    if let Some((_, version)) = loaded.filter(|_| is_replay && !args.quiet)
        && version < FILES_SINCE
    {
        note!(
            "belljar: note: the tape is of version {version}, which has no files: record it again with --record if \
             something reads what the program wrote"
        );
    }
    before_opening(&args.root, args.quiet)?;
    let request = request(args)?;
    let quiet = args.quiet;
    let files = if args.apply {
        SubprocessFiles::on_disk().write_by(move |vfs| Ok(changes::write(vfs, quiet)?))
    } else {
        SubprocessFiles::in_overlay()
    };
    let files = args.ignore.iter().cloned().fold(files, SubprocessFiles::ignore);
    // The time that the program takes is not on the tape: a replay would take it again.
    let bench = Testbench::builder()
        .paused_clock_at_ms(0)
        .fs_overlay(&args.root)
        .sandbox_profile(args.profile)
        .subprocess_files(files);
    if !is_replay {
        signals::pass_to_natives()?;
    }
    let bench = if is_replay {
        bench.replay_subprocesses(&args.tape)
    } else {
        bench.record_subprocesses(&args.tape)
    };
    let mut session = bench
        .build()
        .activate()
        .map_err(|error| Usage(format!("{:#}", anyhow::Error::from(error))))?;
    let output = match session.output(&request) {
        Ok(output) => output,
        Err(error) => return Err(failed(error, session)),
    };
    sink::print(&output.stdout);
    // Standard error may be closed.
    let _ = terminal::Stderr.write_all(&output.stderr);
    if is_replay {
        tell_replayed(args, session)?;
    } else {
        tell_recorded(args, session)?;
    }
    Ok(exit::of_subprocess(&output.status))
}

fn request(args: &NativeArgs) -> Result<SubprocessRequest> {
    let mut request = SubprocessRequest::new(&args.command[0]);
    request.args(&args.command[1..]);
    for variable in &args.env {
        let text = variable.to_string_lossy();
        let Some((key, value)) = text.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            let text = printable(&text);
            return Err(Usage(format!("--env {text}: give NAME=value")).into());
        };
        request.env(key, value);
    }
    if args.stdin {
        let mut bytes = Vec::new();
        let mut input = std::io::stdin().lock().take(SUBPROCESS_OUTPUT_BYTES_MAX + 1);
        input.read_to_end(&mut bytes).context("cannot read standard input")?;
        if bytes.len() as u64 > SUBPROCESS_OUTPUT_BYTES_MAX {
            return Err(Usage("--stdin: standard input exceeds 64 MiB".to_owned()).into());
        }
        request.stdin(bytes);
    }
    if let Some(timeout) = args.timeout {
        request.timeout(timeout);
    }
    Ok(request)
}

/// The error of a program that did not run to its end. That it did not start is recorded, too.
fn failed(error: TestbenchError, session: TestbenchSession) -> anyhow::Error {
    let TestbenchError::Subprocess(error) = error else { return error.into() };
    let is_recorded = matches!(
        error,
        SubprocessError::NotFound { .. }
            | SubprocessError::PermissionDenied { .. }
            | SubprocessError::Denied { .. }
    );
    match session.finalize() {
        Err(unwritten) if is_recorded => unwritten.into(),
        _ => error.into(),
    }
}

fn tell_recorded(args: &NativeArgs, session: TestbenchSession) -> Result<()> {
    let finalized = session.finalize()?;
    let changes: Vec<_> =
        finalized.recorded_subprocesses.iter().flat_map(|entry| &entry.changes).collect();
    let withheld = changes.iter().filter_map(|change| match &change.after {
        Some(TapedState::File { withheld_by: Some(rule), .. }) => Some((&change.path, rule)),
        _ => None,
    });
    for (path, rule) in withheld {
        let path = printable(path);
        note!(
            "belljar: warning: {path} holds a secret (rule {rule}), so its content is not on the tape, and a replay \
             fails; leave it out with --ignore {path}"
        );
    }
    if !args.quiet {
        let inputs = finalized.recorded_subprocesses.iter().map(|entry| entry.inputs.len()).sum();
        let (tape, changes) = (args.tape.display(), count(changes.len(), "change"));
        note!("belljar: recorded on {tape}: {changes}, {}", count(inputs, "input"));
    }
    Ok(())
}

fn tell_replayed(args: &NativeArgs, mut session: TestbenchSession) -> Result<()> {
    let what = "cannot determine what the program changed";
    let (mut told, mut diff) = (Vec::new(), None);
    if let Some(vfs) = session.overlay() {
        let entries = vfs.diff().context(what)?;
        told = reported_changes(vfs, &entries);
        if args.diff {
            diff = Some(render_reported_diff(vfs, &entries).context("--diff")?);
        }
    }
    let changed = session
        .process_tape()
        .map_or(0, |tape| tape.entries.iter().map(|entry| entry.changes.len()).sum());
    let finalized = session.finalize()?;
    if let Some(diff) = diff {
        sink::print(diff.as_bytes());
    }
    tell_unmade(args, &finalized.unmade_files);
    let written = changed.saturating_sub(finalized.unmade_files.len());
    if args.apply && written > 0 && !args.quiet {
        note!("belljar: {} written to the disk", count(written, "change"));
    }
    if !args.quiet && !told.is_empty() {
        let hint = if args.diff { "" } else { ", --diff shows it" };
        let summary = changes::summary(&told);
        note!("belljar: {summary} not written to the disk (--apply writes it{hint})");
    }
    Ok(())
}

fn tell_unmade(args: &NativeArgs, unmade: &[UnmadeFile]) {
    if unmade.is_empty() || args.quiet {
        return;
    }
    let named: Vec<String> =
        unmade.iter().take(NAMED_MAX).map(|file| printable(&file.path)).collect();
    let more = match unmade.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    note!(
        "belljar: warning: left out {}{more}: other tools may run or obey it, or it is no file, directory or link",
        named.join(", ")
    );
}
