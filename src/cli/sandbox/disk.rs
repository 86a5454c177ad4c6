//! `belljar sandbox apply` and `refresh`: between a session and the directories of the host; and messages
//! about files that changed there.

use std::collections::BTreeSet;
use std::sync::Once;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{home, or_explain, repair, waiting};
use crate::Overlay;
use crate::cli::args::sandbox::{ApplyArgs, RefreshArgs};
use crate::cli::changes::{self, shown_path, tell_drifts};
use crate::cli::exit::{DIFFERENT, Hinted, Unsettled};
use crate::cli::home::journals_dir;
use crate::cli::report::Change;
use crate::cli::text::{count, printable};
use crate::kernel::vfs::{ApplyError, Conflict, ConflictKind, Drift, Taken, reported_changes};
use crate::sandbox::{HeldSession, HomeError, Sandbox, SnapshotError};

pub fn apply(args: &ApplyArgs) -> Result<u8> {
    let home = home()?;
    let mut held = home.hold(&args.id, || waiting(&args.id))?;
    let mut sandbox = resumed(&held, &args.id)?;
    let vfs = sandbox.files();
    vfs.hide_temporaries(&journals_dir()?);
    let entries = vfs.diff().context("cannot determine what the session changed");
    let entries = entries.map_err(|error| with_drifts(error, &mut sandbox, &args.id))?;
    let vfs = sandbox.files();
    let changes: Vec<Change> = reported_changes(vfs, &entries);
    changes::warn_of_sensitive(&changes, args.json);
    // Taken before the write, which forgets them.
    let drifts = sandbox_drifts(&mut sandbox);
    // It only warns, so that an error is none of the apply.
    let unseen = sandbox.files().changed_on_disk().unwrap_or_default();
    let mut saved = None;
    let written = changes::write_by(args.json, |journals, witness| -> Result<_> {
        held.begin_apply()?;
        let applied = sandbox.files().apply_journaled(journals, witness);
        // Before a signal takes effect, and after an error as well: writing and undoing change the change times of
        // files, which must not count as changes by others.
        saved = Some(held.save(&mut sandbox));
        Ok(applied?)
    });
    // Nothing was begun.
    let saved = saved.unwrap_or_else(|| held.save(&mut sandbox));
    written.map_err(|error| {
        let id = &args.id;
        let hint = format!(
            "`belljar sandbox refresh {id}` takes in what changed on the disk, and names conflicts"
        );
        let is_conflict = error
            .chain()
            .any(|cause| matches!(cause.downcast_ref(), Some(ApplyError::Conflicts(_))));
        if is_conflict {
            return Hinted { error, hint }.into();
        }
        tell_damage(&mut sandbox, id);
        error
    })?;
    let saved = saved.with_context(|| {
        format!(
            "the changes are on the disk, but session {0} is not updated; run \
             `belljar sandbox refresh {0}`, which takes them in",
            args.id
        )
    });
    saved.map_err(Unsettled)?;
    let vfs = sandbox.files();
    tell(vfs, &drifts, &args.id);
    if args.json {
        let unseen: Vec<Value> = unseen.iter().map(|it| taken_json(vfs, it)).collect();
        say!("{}", json!({ "id": args.id, "changes": changes, "unseen": unseen }));
    } else if changes.is_empty() {
        note!("belljar: session {} has changed nothing in directories of the host", args.id);
    } else {
        note!("belljar: {} written to the disk", count(changes.len(), "change"));
        tell_unseen(vfs, &unseen, &args.id);
    }
    Ok(0)
}

/// The session `id`; says if its last apply was interrupted.
pub fn resumed(held: &HeldSession<'_>, id: &str) -> Result<Sandbox> {
    let sandbox = or_explain(held.resume(), id)?;
    if held.was_interrupted() {
        note!(
            "belljar: note: an apply of session {id} was interrupted: what the disk has by now counts as applied, and what else \
             changed there is taken in"
        );
    }
    Ok(sandbox)
}

/// Says that what was written is newer than changes of the disk that the session `id` has not seen: a build tool takes what
/// was made without them for up to date.
fn tell_unseen(vfs: &Overlay, unseen: &[Taken], id: &str) {
    let Some(first) = unseen.first() else { return };
    let paths = count(unseen.len(), "path");
    let name = printable(&shown_path(vfs, first.mount, &first.path));
    let named = match unseen.len() {
        1 => format!("{name} was {} on the disk", first.kind.name()),
        _ => format!("{paths} that it had looked at have changed on the disk, such as {name}"),
    };
    note!(
        "belljar: note: {named}, and the session has not seen that. What it wrote is newer now, so that make takes it for up to \
         date: run `belljar sandbox refresh {id}`, build again there, and apply that"
    );
}

fn taken_json(vfs: &Overlay, it: &Taken) -> Value {
    json!({ "path": shown_path(vfs, it.mount, &it.path), "kind": it.kind.name() })
}

pub fn refresh(args: &RefreshArgs) -> Result<u8> {
    let home = home()?;
    let mut held = home.hold(&args.id, || waiting(&args.id))?;
    let resumed = held.resume();
    let is_damaged = matches!(resumed, Err(HomeError::Snapshot(SnapshotError::Restore { .. })));
    let resumed = if is_damaged && args.discard { held.resume_without_files() } else { resumed };
    let mut sandbox = or_explain(resumed, &args.id)?;
    sandbox.files().hide_temporaries(&journals_dir()?);
    let drifts = sandbox_drifts(&mut sandbox);
    let refreshed = if args.discard {
        let given_up = match sandbox.diff() {
            Ok(changes) if !is_damaged => count(changes.len(), "change"),
            _ => "all changes".to_owned(),
        };
        sandbox.files().check_mount_names().context("nothing is taken in")?;
        sandbox.discard_and_refresh().context("cannot give up the session's changes")?;
        if !args.json {
            note!("belljar: gave up {given_up} of the session");
        }
        crate::kernel::vfs::Refreshed::default()
    } else {
        let refreshed = sandbox.refresh().context("nothing is taken in");
        refreshed.map_err(|error| with_drifts(error, &mut sandbox, &args.id))?
    };
    held.save(&mut sandbox)?;
    let vfs = sandbox.files();
    if args.json {
        let conflict = |it: &Conflict| json!({ "path": shown_path(vfs, it.mount, &it.path), "message": it.to_string() });
        let taken: Vec<Value> = refreshed.taken.iter().map(|it| taken_json(vfs, it)).collect();
        let conflicts: Vec<Value> = refreshed.conflicts.iter().map(conflict).collect();
        let drifts = drifts_json(vfs, &drifts);
        say!(
            "{}",
            json!({ "id": args.id, "taken": taken, "conflicts": conflicts, "drifts": drifts })
        );
    } else {
        // Errors are taken in now. Names that may have existed before are reported once more.
        let unsure: Vec<Drift> = drifts.into_iter().filter(|it| !it.kind.is_error()).collect();
        tell_drifts(vfs, &unsure, "session");
        for it in &refreshed.taken {
            say!("{} {}", it.kind.name(), printable(&shown_path(vfs, it.mount, &it.path)));
        }
        for conflict in &refreshed.conflicts {
            say!("conflict {}", printable(&shown_path(vfs, conflict.mount, &conflict.path)));
        }
    }
    Ok(tell_conflicts(&refreshed.conflicts, &args.id))
}

/// Says what to do about `conflicts` of session `id`; returns the exit code.
fn tell_conflicts(conflicts: &[Conflict], id: &str) -> u8 {
    if conflicts.is_empty() {
        return 0;
    }
    let mut open = 0;
    for conflict in conflicts {
        let text = printable(&conflict.to_string());
        match &conflict.what {
            ConflictKind::OriginGone(..) => {
                note!(
                    "belljar: conflict: {text}; the session has its own version there, as a new file"
                );
                continue;
            }
            ConflictKind::Holds(_) => {
                note!(
                    "belljar: conflict: {text}, which the session does not have: move it elsewhere"
                );
            }
            _ => note!("belljar: conflict: {text}, and in the session"),
        }
        open += 1;
    }
    if open == 0 {
        note!("belljar: note: `belljar sandbox apply {id}` writes what the session has");
        return DIFFERENT;
    }
    let paths = count(open, "path");
    note!(
        "belljar: note: the session keeps its own version of {paths}; everything else is taken in. To resolve, \
         restore the file on the disk, or copy the session's version there (`belljar sandbox cp {id}:PATH PATH`; move away what \
         is there if one of the two is a directory; `chmod` it if only its execute permission differs), or give up all changes of the session (`belljar sandbox refresh --discard {id}`)"
    );
    DIFFERENT
}

/// All files that could not be shown as they were, including those met just now.
fn sandbox_drifts(sandbox: &mut Sandbox) -> Vec<Drift> {
    let mut drifts: BTreeSet<Drift> = sandbox.files().take_drifts().into_iter().collect();
    drifts.extend(sandbox.drifts());
    drifts.into_iter().collect()
}

/// Names all files of the host that a session could not show as they were, now or before, and what of its state is damaged.
pub fn tell_all(sandbox: &mut Sandbox, id: &str) {
    let drifts = sandbox_drifts(sandbox);
    tell(sandbox.files(), &drifts, id);
    tell_damage(sandbox, id);
}

/// Names the files of the host at which programs met errors; returns all that could not be shown as they
/// were. Names that did not exist are not errors; `diff`, `apply` and `refresh` report those.
pub fn tell_new_drifts(sandbox: &mut Sandbox, id: &str) -> Vec<Value> {
    let drifts = sandbox.files().take_drifts();
    let errors: Vec<Drift> = drifts.iter().filter(|it| it.kind.is_error()).cloned().collect();
    tell(sandbox.files(), &errors, id);
    drifts_json(sandbox.files(), &drifts)
}

/// Says once why there are I/O errors if a part of the session's state could not be read.
pub fn tell_damage(sandbox: &mut Sandbox, id: &str) {
    static TOLD: Once = Once::new();
    let vfs = sandbox.files();
    let (why, remedy) = match (vfs.damage(), vfs.damaged_content()) {
        (Some(why), _) => (why, repair(id)),
        (None, Some(why)) => {
            (why, format!("`belljar sandbox refresh {id}` takes in what is on the disk now"))
        }
        (None, None) => return,
    };
    let why = printable(why);
    TOLD.call_once(|| {
        note!(
            "belljar: warning: the state of session {id} cannot be read in whole, so programs get I/O errors: {why}; {remedy}"
        );
    });
}

fn drifts_json(vfs: &Overlay, drifts: &[Drift]) -> Vec<Value> {
    let line =
        |it: &Drift| json!({ "path": shown_path(vfs, it.mount, &it.path), "kind": it.kind.name() });
    drifts.iter().map(line).collect()
}

fn tell(vfs: &Overlay, drifts: &[Drift], id: &str) {
    tell_drifts(vfs, drifts, "session");
    if !drifts.is_empty() {
        note!("belljar: note: `belljar sandbox refresh {id}` takes in what is on the disk now");
    }
}

/// Returns `error`, after naming the changed files that may be its cause.
pub fn with_drifts(error: anyhow::Error, sandbox: &mut Sandbox, id: &str) -> anyhow::Error {
    tell_all(sandbox, id);
    error
}
