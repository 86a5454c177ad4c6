//! `belljar diff` and `belljar apply`: the changes of a recorded run, from its tape.

use std::path::Path;

use anyhow::{Context, Result};

use super::args::changes::{ApplyArgs, DiffArgs};
use super::changes;
use super::exit::{Hinted, Usage};
use super::mounts;
use super::planted_links::Folders;
use super::recover::before_opening;
use super::text::{count, printable};
use super::{sink, tape};
use crate::kernel::process::Pid;
use crate::kernel::vfs::{render_reported_diff, reported_changes};
use crate::tape::Kind;
use crate::testbench::{
    TapedChangesError, changed_machine, make_taped_changes, taped_changes_are_made, taped_worktree,
};
use crate::{Machine, Source, WORKTREE};

/// Prints the changes of a recorded run.
pub fn diff(args: &DiffArgs) -> Result<u8> {
    let what = "cannot determine what the run changed";
    tape::open(&args.tape)?;
    let mut machine = changed_machine(&args.tape).map_err(classify(what))?;
    let vfs = machine.vfs_mut();
    let entries = vfs.diff().context(what)?;
    let text = render_reported_diff(vfs, &entries).context("--diff")?;
    sink::print(text.as_bytes());
    changes::tell_left_out_of_diff(&entries);
    Ok(0)
}

/// Writes the changes of a recorded run to the disk.
pub fn apply(args: &ApplyArgs) -> Result<u8> {
    check_folders(args)?;
    let open = |path: &Path| -> Result<Source> {
        before_opening(path, args.quiet)?;
        Ok(mounts::open(path).map_err(Usage)?)
    };
    tape::open(&args.tape)?;
    let nothing_written = || classify("nothing is written to the disk");
    let worktree = taped_worktree(&args.tape).map_err(nothing_written())?;
    let worktree = worktree.unwrap_or_else(|| WORKTREE.to_owned());
    let mut builder = Machine::builder().mount(worktree, open(&args.worktree)?);
    for mount in &args.dir {
        if !mount.guest.starts_with('/') {
            let message = format!(
                "--dir {0}: give the path that the run had for it: {0}::/GUEST",
                mount.host.display()
            );
            return Err(Usage(message).into());
        }
        builder = builder.mount(&mount.guest, open(&mount.host)?);
    }
    let mut machine = builder.build().map_err(|error| Usage(error.to_string()))?;
    let count_changed = match make_taped_changes(&args.tape, machine.vfs_mut()) {
        Err(TapedChangesError::Conflicts(_))
            if taped_changes_are_made(&args.tape, machine.vfs()).is_ok_and(|made| made) =>
        {
            tell(args, "already applied: nothing to do");
            return Ok(0);
        }
        Err(error @ TapedChangesError::Conflicts(_)) => {
            let tape = printable(&args.tape.to_string_lossy());
            let hint = format!(
                "the directory must be as the run found it; `belljar diff {tape}` shows what the run changed"
            );
            return Err(Hinted { error: nothing_written()(error), hint }.into());
        }
        made => made.map_err(nothing_written())?,
    };
    if count_changed == 0 {
        tell(args, "the run changed nothing: nothing to do");
        return Ok(0);
    }
    // Read before anything is written: an error afterwards would hide that.
    let unfinished = unfinished(&args.tape)?;
    let vfs = machine.vfs_mut();
    let entries = vfs.diff().context("nothing is written to the disk")?;
    changes::warn_of_sensitive(&reported_changes(vfs, &entries), args.quiet);
    changes::write(vfs, args.quiet)?;
    tell(args, &format!("{} written to the disk", count(count_changed, "change")));
    if let Some(how) = unfinished {
        tell(
            args,
            &format!(
                "note: the run did not end by itself ({how}): these are its changes until then"
            ),
        );
    }
    Ok(0)
}

/// Refuses directories to which a link leads out of another one: the run itself may have put it there.
fn check_folders(args: &ApplyArgs) -> Result<()> {
    let dirs = || args.dir.iter().map(|mount| &mount.host);
    let folders = Folders::at(std::iter::once(&args.worktree).chain(dirs()).cloned().collect());
    folders.check("--worktree", &args.worktree)?;
    dirs().try_for_each(|dir| folders.check("--dir", dir))
}

/// How the run on the tape ended, unless it exited by itself.
fn unfinished(tape: &Path) -> Result<Option<String>> {
    for record in tape::open(tape)? {
        if let Kind::ProcessExit { pid, status, .. } = record?.kind
            && pid == Pid::FIRST.0
        {
            return Ok((status != "exited").then_some(status));
        }
    }
    Ok(None)
}

fn tell(args: &ApplyArgs, what: &str) {
    if !args.quiet {
        note!("belljar: {what}");
    }
}

/// A tape that cannot be read is a usage error; other errors get the context `what`.
fn classify(what: &'static str) -> impl FnOnce(TapedChangesError) -> anyhow::Error {
    move |error| match error {
        TapedChangesError::Replay(error) => Usage::because(error).into(),
        other => anyhow::Error::from(other).context(what),
    }
}
