//! `belljar recover`, and the recovery before every command that opens a directory: the interrupted
//! writes of a killed belljar are completed or undone.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use serde_json::json;

use super::args::changes::RecoverArgs;
use super::exit::{FAILED, Usage};
use super::home::journals_dir;
use super::signals::Deferred;
use super::text::{count, printable};
use crate::HostDir;
use crate::kernel::vfs::{JournalError, Journals, OnChanged, Recovered, VPath, Witness};

pub fn run(args: &RecoverArgs) -> Result<u8> {
    if args.forget {
        return forget(args);
    }
    let folder = match HostDir::open(&args.dir) {
        _ if args.all => None,
        Ok(folder) => Some(folder),
        Err(error) => {
            let message = format!("cannot open the directory {}: {error}", args.dir.display());
            return Err(Usage(message).into());
        }
    };
    let on_changed = if args.skip_changed { OnChanged::Skip } else { OnChanged::Refuse };
    let teller = RecoveryMessages::new(args.json, None);
    let recovered = match (Journals::open_existing(&journals_dir()?)?, folder) {
        (None, _) => Vec::new(),
        (Some(journals), Some(folder)) => journals.recover(&folder, on_changed, &teller)?,
        (Some(journals), None) => {
            let recovered = journals.recover_all(on_changed, &teller)?;
            for folder in journals.folders()? {
                let folder = shown(&folder);
                note!(
                    "belljar: note: the directory that a journal names is not at {folder} any more; if it was \
                     moved, run `belljar recover` on its new place; if it was removed, run \
                     `belljar recover --forget {folder}`"
                );
            }
            recovered
        }
    };
    if args.json {
        let recovered: Vec<_> = recovered.iter().map(to_json).collect();
        say!("{}", json!({ "recovered": recovered }));
    } else if recovered.is_empty() && !teller.is_unreadable.get() {
        let place =
            if args.all { "any directory".to_owned() } else { args.dir.display().to_string() };
        say!("nothing to recover in {}", printable(&place));
    }
    Ok(if teller.is_unreadable.get() { FAILED } else { 0 })
}

/// Drops the journals for a directory that was removed.
fn forget(args: &RecoverArgs) -> Result<u8> {
    let folder = std::path::absolute(&args.dir)
        .with_context(|| format!("cannot determine the absolute path of {}", args.dir.display()))?;
    let dropped = match Journals::open_existing(&journals_dir()?)? {
        Some(journals) => journals.forget(&folder, &RecoveryMessages::new(args.json, None))?,
        None => 0,
    };
    if args.json {
        say!("{}", json!({ "forgotten": dropped }));
        return Ok(0);
    }
    let shown = shown(&folder);
    if dropped == 0 {
        say!("no journal names a removed directory that was at {shown}");
    } else {
        say!("{} for {shown} dropped", count(dropped, "journal"));
    }
    Ok(0)
}

/// Recovers the directory `path`, which is about to be opened; does nothing if it cannot be opened.
pub fn before_opening(path: &Path, quiet: bool) -> Result<()> {
    let Some(journals) = Journals::open_existing(&journals_dir()?)? else { return Ok(()) };
    let Ok(folder) = HostDir::open(path) else { return Ok(()) };
    journals.recover(&folder, OnChanged::Refuse, &RecoveryMessages::new(quiet, None))?;
    Ok(())
}

fn to_json(recovered: &Recovered) -> serde_json::Value {
    let paths = |paths: &[VPath]| paths.iter().map(|p| p.as_str().to_owned()).collect::<Vec<_>>();
    json!({
        "folder": recovered.folder.to_string_lossy(),
        "outcome": if recovered.is_finished { "finished" } else { "taken_back" },
        "files": recovered.files,
        "left": paths(&recovered.left),
        "kept": paths(&recovered.kept),
    })
}

/// Prints messages about recovery.
pub struct RecoveryMessages<'d> {
    quiet: bool,
    deferred: Option<&'d Deferred>,
    is_unreadable: Cell<bool>,
}

impl<'d> RecoveryMessages<'d> {
    /// Prints only warnings if `quiet`; is interrupted by a signal if signals are `deferred`.
    pub fn new(quiet: bool, deferred: Option<&'d Deferred>) -> Self {
        Self { quiet, deferred, is_unreadable: Cell::new(false) }
    }
}

impl Witness for RecoveryMessages<'_> {
    fn waiting(&self, folder: &Path) {
        if !self.quiet {
            note!("belljar: waiting for another belljar, which is writing to {}", shown(folder));
        }
    }

    fn recovered(&self, recovered: &Recovered) {
        let Recovered { folder, is_finished, files, left, kept } = recovered;
        let folder = shown(folder);
        if !self.quiet {
            let files = count(*files, "file");
            let outcome = match (is_finished, recovered.files) {
                (true, _) => format!("completed: all changes are on the disk ({files})"),
                (false, _) if !left.is_empty() => {
                    format!("undone, except for the paths below ({files})")
                }
                (false, 0) => "undone: no file had been changed yet".to_owned(),
                (false, _) => format!("undone: the directory is as it was before ({files})"),
            };
            note!("belljar: an earlier belljar was ended while it wrote to {folder}; {outcome}");
        }
        for path in left {
            note!("belljar: warning: {} is left as it is", printable(path.as_str()));
        }
        for path in kept {
            note!("belljar: note: its earlier version is in {}", printable(path.as_str()));
        }
    }

    fn unreadable(&self, error: &JournalError) {
        // The recovery of several directories can meet the same journal.
        static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        self.is_unreadable.set(true);
        let text = error.to_string();
        if TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(text.clone()) {
            note!("belljar: warning: {}", printable(&text));
        }
    }

    fn is_interrupted(&self) -> bool {
        self.deferred.is_some_and(|deferred| deferred.caught().is_some())
    }
}

fn shown(folder: &Path) -> String {
    let text = folder.display().to_string();
    if text.is_empty() { "a directory".to_owned() } else { printable(&text) }
}
