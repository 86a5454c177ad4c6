//! The changes of a run: shown, reported, written to the disk.

use std::error::Error;
use std::io::ErrorKind;

use anyhow::{Context, Result, bail};

use super::args::run::{ApplyArg, RunArgs};
use super::exit;
use super::exit::Hinted;
use super::home;
use super::overtime::Overtime;
use super::portable::not_portable;
use super::progress::Progress;
use super::recover::RecoveryMessages;
use super::report::{Change, Report};
use super::signals::Deferred;
use super::sink::{Opened, WriteOnce};
use super::text::{count, printable};
use crate::kernel::vfs::{
    Applied, ApplyError, ChangedTimes, DiffEntry, DiffKind, Drift, Journals, MountId, VPath,
    Witness, diff_between, left_out_of_diff, render_reported_diff, reported_changes,
    reported_changes_since, shown_in_unified_diff,
};
use crate::sandbox::CopyError;
use crate::{Machine, Outcome, Overlay, WORKTREE};

/// How many changes the summary names.
const NAMED_MAX: usize = 3;

/// How many paths are named that could not be shown as they were.
const DRIFTS_MAX: usize = 10;
/// How many changes that other tools may run or obey a warning names.
const SENSITIVE_NAMED_MAX: usize = 20;

/// Prints the diff to `diff_to` and writes changes to the disk, as asked; otherwise says what changed
/// and how to keep it. Fills in the report as far as possible, also if something fails.
pub fn settle(
    args: &RunArgs,
    machine: &mut Machine,
    outcome: &Outcome,
    diff_to: Option<Opened>,
    report_to: &WriteOnce,
    report: &mut Report,
) -> Result<()> {
    let vfs = machine.vfs_mut();
    let unread = tell_torn(vfs);
    let what = "ended, and its changes were not found in time";
    let telling = Overtime::watch(args.limits.timeout, &report.program, what, report_to);
    let entries = vfs.diff().context("cannot determine what the program changed")?;
    report.changes = reported_changes(vfs, &entries);
    let diff = match diff_to {
        Some(opened) => Some((opened, render_reported_diff(vfs, &entries).context("--diff")?)),
        None => None,
    };
    // Writing to the disk has no timeout.
    drop(telling);
    let finished = matches!(outcome, Outcome::Exited(_));
    let applies = match args.apply {
        None => false,
        Some(ApplyArg::Always) => finished,
        Some(ApplyArg::Success) => *outcome == Outcome::Exited(0),
    };
    report.sensitive = warn_of_sensitive(&report.changes, args.quiet);
    report.not_portable = not_portable(&report.changes);
    if !args.quiet {
        tell_of_tmp(vfs, &entries);
    }
    let written = if applies { apply(args, vfs, &report.changes, &unread) } else { Ok(()) };
    report.applied = applies && written.is_ok();
    if report.applied && !report.changes.is_empty() && !args.quiet {
        note!("belljar: {} written to the disk", summary(&report.changes));
    }
    // After the changes are written: the program may have read the file that the diff goes to.
    if let Some((opened, text)) = diff {
        opened.print(&text)?;
        if !args.quiet {
            tell_left_out_of_diff(&entries);
        }
        let said = shown_in_unified_diff(&entries).len();
        if said < report.changes.len() && !args.quiet {
            let left_out = count(report.changes.len() - said, "change");
            note!("belljar: note: the diff does not show {left_out} (empty directories, times)");
        }
    }
    if !applies && !report.changes.is_empty() && !args.quiet {
        let why = why_not_written(args, outcome, &report.changes);
        note!("belljar: {} {why}", summary(&report.changes));
    }
    written
}

/// Writes `changes` to the disk, unless the program could not read some of its files, as `unread` names.
fn apply(args: &RunArgs, vfs: &mut Overlay, changes: &[Change], unread: &[Drift]) -> Result<()> {
    let message = format!("writing {} to the disk", count(changes.len(), "change"));
    let _progress = (changes.len() > 100).then(|| Progress::start(message, args.quiet));
    // Only writing needs a home.
    if changes.is_empty() {
        // Names that came and went are told by the times of directories.
        if unread.is_empty() && vfs.has_changed_dirs() {
            vfs.apply().context("cannot write the times of directories")?;
        }
        return Ok(());
    }
    // The program ran without those files, so its changes may be wrong.
    if let Some(Drift { mount, path, kind }) = unread.first() {
        let path = printable(&shown_path(vfs, *mount, path));
        let why = kind.since("the run began");
        bail!(
            "nothing was written to the disk, because the program could not read {path}, which {why}"
        );
    }
    write(vfs, args.quiet)
}

/// The path `path` of a mount, relative to the worktree, or absolute in the namespace if it is elsewhere.
pub fn shown_path(vfs: &Overlay, mount: MountId, path: &VPath) -> String {
    match (mount_path(vfs, mount).as_str(), path.as_str()) {
        (crate::WORKTREE, "") => ".".to_owned(),
        (crate::WORKTREE, path) => path.to_owned(),
        (mount, path) => format!("{}/{path}", mount.trim_end_matches('/')),
    }
}

/// Names the `drifts`: paths that could not be shown as they were when the `what` began.
pub fn tell_drifts(vfs: &Overlay, drifts: &[Drift], what: &str) {
    for Drift { mount, path, kind } in drifts.iter().take(DRIFTS_MAX) {
        let path = printable(&shown_path(vfs, *mount, path));
        note!("belljar: {path} {}", kind.since(&format!("the {what} began")));
    }
    if let Some(more @ 1..) = drifts.len().checked_sub(DRIFTS_MAX) {
        note!("belljar: {} more", count(more, "path"));
    }
}

/// Names the files that a run could not read because they changed on the disk meanwhile, and returns
/// them.
pub fn tell_torn(vfs: &mut Overlay) -> Vec<Drift> {
    let mut drifts = vfs.take_drifts();
    // A name that was looked up and did not exist is not an error.
    drifts.retain(|drift| drift.kind.is_error());
    tell_drifts(vfs, &drifts, "run");
    if !drifts.is_empty() {
        note!("belljar: note: mounted files must not change while a program runs; run it again");
    }
    drifts
}

/// The changes between the states `before` and `now` of a namespace, including times that were set.
///
/// # Errors
/// A file cannot be read.
pub fn changes_since(before: &Changed, now: &Changed, vfs: &Overlay) -> Result<Vec<Change>> {
    let entries = diff_between(&before.entries, &now.entries)?;
    Ok(reported_changes_since(&before.times, vfs, &entries))
}

/// All changes of a namespace at one point.
pub struct Changed {
    entries: Vec<DiffEntry>,
    times: Vec<ChangedTimes>,
}

impl Changed {
    /// The changes of `vfs` so far.
    ///
    /// # Errors
    /// A layer cannot be read.
    pub fn of(vfs: &mut Overlay) -> Result<Self> {
        let entries = vfs.diff().context("cannot determine what changed")?;
        Ok(Self { entries, times: vfs.changed_times() })
    }
}

/// The paths of the changes that other tools may run or obey; warns of them, unless `quiet`. Hooks come
/// first, so that a long list cannot hide them.
pub fn warn_of_sensitive(changes: &[Change], quiet: bool) -> Vec<String> {
    let found: Vec<&Change> = changes.iter().filter(|change| change.is_sensitive()).collect();
    let mut named: Vec<&&Change> =
        found.iter().filter(|change| !change.kind.starts_with("directory_")).collect();
    if named.is_empty() {
        named.extend(&found);
    }
    named.sort_by_key(|change| !is_hook(change));
    if !named.is_empty() && !quiet {
        let paths = listed(named.iter().map(|it| it.shown_path()), SENSITIVE_NAMED_MAX);
        note!("belljar: warning: the program changed {paths}, which other tools may run or obey");
    }
    found.iter().map(|change| change.shown_path()).collect()
}

/// Writes all changes to the disk, and warns of attributes that the host refused.
pub fn write(vfs: &mut Overlay, quiet: bool) -> Result<()> {
    write_by(quiet, |journals, witness| vfs.apply_journaled(journals, witness))
}

/// As [`write`], by `apply`.
///
/// # Errors
/// Those of `apply`; the journal cannot be written.
pub fn write_by<E>(
    quiet: bool,
    apply: impl FnOnce(&Journals, &dyn Witness) -> Result<Applied, E>,
) -> Result<()>
where
    anyhow::Error: From<E>,
{
    let applied = journaled(quiet, apply).context("cannot write the changes to the disk")?;
    for path in applied.attributes_refused.iter().filter(|_| !quiet) {
        note!("belljar: warning: {path} is written, but its times or permissions could not be set");
    }
    for path in applied.leftovers {
        note!("belljar: warning: cannot remove the temporary {path}");
    }
    Ok(())
}

/// Lets `write` write to the disk. A signal that comes meanwhile ends belljar once everything is
/// written or undone.
///
/// # Errors
/// As `write`; the journal cannot be written.
pub fn journaled<T, E>(
    quiet: bool,
    write: impl FnOnce(&Journals, &dyn Witness) -> Result<T, E>,
) -> Result<T>
where
    anyhow::Error: From<E>,
{
    let journals = home::journals()?;
    let deferred = Deferred::begin()?;
    let teller = RecoveryMessages::new(quiet, Some(&deferred));
    let written = write(&journals, &teller).map_err(|error| with_remedy(error.into()));
    if let Some(signal) = deferred.caught() {
        match &written {
            Ok(_) => note!("belljar: ended by {signal}, after all changes were written"),
            Err(error) => {
                let (_, message) = exit::describe(error);
                complain!("belljar: ended by {signal}: {message}");
            }
        }
    }
    deferred.end();
    if written.is_ok() {
        exit::note_applied();
    }
    written
}

/// `error`, with a hint if some of what was written could not be undone, or a directory is not writable.
fn with_remedy(error: anyhow::Error) -> anyhow::Error {
    let hint_of = |cause: &(dyn Error + 'static)| {
        let of_copy = cause.downcast_ref().and_then(|error| match error {
            CopyError::Apply(error) => Some(error),
            _ => None,
        });
        match of_copy.or_else(|| cause.downcast_ref())? {
            ApplyError::HalfDone { .. } => Some(
                "the journal has the earlier versions: remove the cause, and then run `belljar recover`",
            ),
            ApplyError::Host { error, .. } if error.kind() == ErrorKind::PermissionDenied => Some(
                "the directory that holds it must be writable, also if the program moved it: see `chmod u+w`",
            ),
            _ => None,
        }
    };
    match error.chain().find_map(hint_of) {
        Some(hint) => Hinted { error, hint: hint.to_owned() }.into(),
        None => error,
    }
}

fn why_not_written(args: &RunArgs, outcome: &Outcome, changes: &[Change]) -> &'static str {
    if args.check {
        "not written to the disk (--check)"
    } else if args.apply.is_some() && matches!(outcome, Outcome::Exited(_)) {
        "not written to the disk, because the program failed"
    } else if args.apply.is_some() {
        "not written to the disk, because the program did not end by itself"
    } else if args.diff.is_some() || changes.iter().all(Change::is_of_times) {
        "not written to the disk (--apply writes it)"
    } else {
        "not written to the disk (--apply writes it, --diff shows it)"
    }
}

fn mount_path(vfs: &Overlay, mount: MountId) -> String {
    vfs.mounts()[mount.index()].path()
}

/// Says that what a program wrote to `tmp/…` after it had removed the worktree's `tmp` is in `/tmp`, and so not kept.
fn tell_of_tmp(vfs: &mut Overlay, entries: &[DiffEntry]) {
    let is_tmp = |entry: &DiffEntry| {
        matches!(entry.kind, DiffKind::DirDeleted)
            && entry.path.as_str() == "tmp"
            && mount_path(vfs, entry.mount) == WORKTREE
    };
    if !entries.iter().any(is_tmp) {
        return;
    }
    let Ok(id) = vfs.open_dir("/tmp") else { return };
    let listed = vfs.list(id);
    vfs.close(id);
    if listed.is_ok_and(|listed| !listed.is_empty()) {
        note!(
            "belljar: note: the program removed the worktree's tmp; what it has written to tmp/… since then is in /tmp, which is not \
             kept"
        );
    }
}

/// Names the files and links among `entries` that the diff leaves out, as `git apply` would refuse it, or lose a file.
pub fn tell_left_out_of_diff(entries: &[DiffEntry]) {
    let paths = left_out_of_diff(entries);
    if !paths.is_empty() {
        let paths = listed(paths, NAMED_MAX);
        note!("belljar: note: the diff leaves out {paths}: git refuses such changes");
    }
}

/// The first `most` of `paths`, and how many more there are.
fn listed<P: AsRef<str>>(paths: impl IntoIterator<Item = P>, most: usize) -> String {
    let mut paths = paths.into_iter();
    let shown = paths.by_ref().take(most).map(|path| printable(path.as_ref()));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match paths.count() {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Whether the changed file is run by itself: it lies in a directory of hooks.
fn is_hook(change: &Change) -> bool {
    const FOLDERS: [&str; 3] = ["hooks", ".githooks", ".husky"];
    let is_folder = |name: &str| FOLDERS.iter().any(|known| name.eq_ignore_ascii_case(known));
    change.path.split('/').any(is_folder)
}

/// The changes in one line.
pub fn summary(changes: &[Change]) -> String {
    let words = |change: &Change| {
        format!("{} {}", printable(&change.shown_path()), change.kind.replace('_', " "))
    };
    let mut parts: Vec<String> = changes.iter().take(NAMED_MAX).map(words).collect();
    if changes.len() > NAMED_MAX {
        parts.push(format!("{} more", changes.len() - NAMED_MAX));
    }
    format!("{} ({}),", count(changes.len(), "change"), parts.join(", "))
}
