//! What becomes of a run's changes to files.

use std::collections::HashSet;

use anyhow::{Context, Result};
use belljar::kernel::vfs::{
    ChangedTimes, DiffEntry, DiffKind, Journals, MountId, VPath, Witness, is_in_unified_diff,
    render_unified_diff,
};
use belljar::{Machine, Outcome, Overlay};

use super::args::{ApplyArg, RunArgs};
use super::progress::Progress;
use super::recover::Teller;
use super::report::{Change, Report, count, printable};
use super::signals::Deferred;
use super::sink::Opened;
use super::{exit, setup};

/// How many changes the summary names.
const NAMED_MAX: usize = 3;

/// Prints the diff to `diff_to` and writes changes to the disk, as asked; otherwise says what changed
/// and how to keep it. What is known of it goes into the report, also where something fails.
pub fn settle(
    args: &RunArgs,
    machine: &mut Machine,
    outcome: &Outcome,
    diff_to: Option<Opened>,
    report: &mut Report,
) -> Result<()> {
    let vfs = machine.vfs_mut();
    let entries = vfs.diff().context("cannot tell what the program changed")?;
    report.changes = changes_of(vfs, &entries);
    let diff = match diff_to {
        Some(opened) => Some((opened, render_diff(vfs, &entries)?)),
        None => None,
    };
    let finished = matches!(outcome, Outcome::Exited(_));
    let applies = match args.apply {
        None => false,
        Some(ApplyArg::Always) => finished,
        Some(ApplyArg::Success) => *outcome == Outcome::Exited(0),
    };
    report.sensitive = warn_of_sensitive(&report.changes, args.quiet);
    let written = if applies { apply(args, vfs, &report.changes) } else { Ok(()) };
    report.applied = applies && written.is_ok();
    // After the changes are written: the program may have read the file that the diff goes to.
    if let Some((opened, text)) = diff {
        opened.print(&text)?;
        let said = entries.iter().filter(|entry| is_in_unified_diff(entry)).count();
        if said < report.changes.len() && !args.quiet {
            let left_out = count(report.changes.len() - said, "change");
            note!("belljar: note: {left_out} cannot be said in a diff (empty directories, times)");
        }
    }
    if !applies && !report.changes.is_empty() && !args.quiet {
        note!("belljar: {} {}", summary(&report.changes), why_not_written(args, outcome));
    }
    written
}

fn apply(args: &RunArgs, vfs: &mut Overlay, changes: &[Change]) -> Result<()> {
    let message = format!("writing {} to the disk", count(changes.len(), "change"));
    let _progress = (changes.len() > 100).then(|| Progress::start(message, args.quiet));
    // A home is needed only where something is written.
    if changes.is_empty() { Ok(()) } else { write(vfs, args.quiet) }
}

/// Everything that is not what it was below, times that were set included.
pub fn changes_of(vfs: &Overlay, entries: &[DiffEntry]) -> Vec<Change> {
    let mut changes: Vec<_> = entries.iter().map(|entry| describe(vfs, entry)).collect();
    changes.extend(only_times(vfs, entries));
    changes
}

/// The paths of the changes that other tools may run or obey; says so, unless it is to be quiet.
pub fn warn_of_sensitive(changes: &[Change], quiet: bool) -> Vec<String> {
    let found: Vec<String> = changes.iter().filter_map(sensitive).collect();
    if let Some(path) = found.first()
        && !quiet
    {
        let more = match found.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let path = printable(path);
        note!(
            "belljar: warning: the program changed {path}{more}, which other tools may run or obey"
        );
    }
    found
}

/// Writes all changes to the disk, and says what of them the host refused.
pub fn write(vfs: &mut Overlay, quiet: bool) -> Result<()> {
    let applied = journaled(quiet, |journals, witness| vfs.apply_journaled(journals, witness))
        .context("cannot write the changes to the disk")?;
    for path in applied.attributes_refused.iter().filter(|_| !quiet) {
        note!("belljar: warning: {path} is written, but its times or permissions are not");
    }
    for path in applied.leftovers {
        note!("belljar: warning: {path} is left over and could not be removed");
    }
    Ok(())
}

/// Lets `write` write to the disk. A signal that comes meanwhile ends belljar once everything is
/// written, or taken back.
///
/// # Errors
/// As `write` answers; what it notes cannot be noted.
pub fn journaled<T, E>(
    quiet: bool,
    write: impl FnOnce(&Journals, &dyn Witness) -> Result<T, E>,
) -> Result<T>
where
    anyhow::Error: From<E>,
{
    let journals = setup::journals()?;
    let deferred = Deferred::begin()?;
    let teller = Teller::new(quiet, Some(&deferred));
    let written = write(&journals, &teller).map_err(anyhow::Error::from);
    if let Some(signal) = deferred.caught() {
        match &written {
            Ok(_) => note!("belljar: ended by {signal}, after all changes were written"),
            Err(error) => {
                let (_, message) = exit::describe(error);
                note!("belljar: ended by {signal}: {message}");
            }
        }
    }
    deferred.end();
    if written.is_ok() {
        exit::note_applied();
    }
    written
}

fn why_not_written(args: &RunArgs, outcome: &Outcome) -> &'static str {
    if args.apply.is_some() && matches!(outcome, Outcome::Exited(_)) {
        "not written to the disk, because the program failed"
    } else if args.apply.is_some() {
        "not written to the disk, because the program did not end by itself"
    } else if args.diff.is_some() {
        "not written to the disk (--apply writes it)"
    } else {
        "not written to the disk (--apply writes it, --diff shows it)"
    }
}

fn mount_path(vfs: &Overlay, mount: MountId) -> String {
    vfs.mounts()[mount.index()].path()
}

fn describe(vfs: &Overlay, entry: &DiffEntry) -> Change {
    let kind = match entry.kind {
        DiffKind::Added { .. } => "added",
        DiffKind::Modified { .. } => "modified",
        DiffKind::Deleted { .. } => "deleted",
        DiffKind::DirAdded => "directory_added",
        DiffKind::DirDeleted => "directory_deleted",
        DiffKind::SymlinkAdded { .. } => "symlink_added",
        DiffKind::SymlinkModified { .. } => "symlink_modified",
        DiffKind::SymlinkDeleted { .. } => "symlink_deleted",
        DiffKind::SpecialAdded { .. } => "special_added",
        DiffKind::SpecialDeleted { .. } => "special_deleted",
    };
    Change {
        mount: mount_path(vfs, entry.mount),
        path: entry.path.as_str().to_owned(),
        kind,
        renamed_from: entry.renamed_from.as_ref().map(|path| path.as_str().to_owned()),
    }
}

/// What is as it was but for a time that the program set, or made later by writing what was there
/// before: `--apply` writes that as well.
fn only_times(vfs: &Overlay, entries: &[DiffEntry]) -> Vec<Change> {
    let changed: HashSet<(MountId, &VPath)> =
        entries.iter().map(|entry| (entry.mount, &entry.path)).collect();
    let mut times = vfs.changed_times();
    times.retain(|times| !changed.contains(&(times.mount, &times.path)));
    let describe = |times: ChangedTimes| Change {
        mount: mount_path(vfs, times.mount),
        path: times.path.as_str().to_owned(),
        kind: "times",
        renamed_from: None,
    };
    times.into_iter().map(describe).collect()
}

/// The changes of the worktree, or of the only mount that has any, go under their own paths, so
/// that `git apply` takes the diff there; those of other mounts under the guest's.
pub fn render_diff(vfs: &Overlay, entries: &[DiffEntry]) -> Result<String> {
    let is_alone = entries.iter().all(|entry| entry.mount == entries[0].mount);
    let mut text = String::new();
    for of_mount in entries.chunk_by(|a, b| a.mount == b.mount) {
        let (mount, path) = (of_mount[0].mount, mount_path(vfs, of_mount[0].mount));
        let prefix = if is_alone || vfs.worktree() == Some(mount) { "" } else { &path };
        let prefix = VPath::parse(prefix).expect("a mount point is a path");
        text.push_str(&render_unified_diff(of_mount, &prefix).context("--diff")?);
    }
    Ok(text)
}

/// Names of files and folders from which version control, editors, shells and build tools take
/// commands without being asked.
const SENSITIVE_NAMES: &[&str] = &[
    ".cargo",
    ".devcontainer",
    ".direnv",
    ".envrc",
    ".git",
    ".gitattributes",
    ".githooks",
    ".github",
    ".gitlab-ci.yml",
    ".gitmodules",
    ".husky",
    ".idea",
    ".npmrc",
    ".pre-commit-config.yaml",
    ".vscode",
];

/// The path of a change that other tools may run or obey.
fn sensitive(change: &Change) -> Option<String> {
    let is_sensitive =
        |name: &str| SENSITIVE_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known));
    change.path.split('/').any(is_sensitive).then(|| change.shown_path())
}

/// What changed, in one line.
fn summary(changes: &[Change]) -> String {
    let words = |change: &Change| {
        format!("{} {}", printable(&change.shown_path()), change.kind.replace('_', " "))
    };
    let mut parts: Vec<String> = changes.iter().take(NAMED_MAX).map(words).collect();
    if changes.len() > NAMED_MAX {
        parts.push(format!("{} more", changes.len() - NAMED_MAX));
    }
    format!("{} ({}),", count(changes.len(), "change"), parts.join(", "))
}
