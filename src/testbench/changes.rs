//! Records the changes of a run.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::base::errno::Errno;
use crate::kernel::machine::Machine;
use crate::kernel::vfs::{
    ChangedTimes, DiffEntry, DiffError, DiffKind, FileVersion, MountId, Overlay, VPath,
};
use crate::tape::{Kind, Phase, Recorder, TapedContent};

/// The field of a change with the time of the last write to the file.
pub(super) const WRITTEN_NS: &str = "written_ns";

/// The field of a change with the time at which the file's times were set.
pub(super) const SET_NS: &str = "set_ns";

/// The word of a change on tapes whose changes could not be determined.
pub(super) const UNKNOWN: &str = "unknown";

/// The field of an unknown change that says why.
pub(super) const ERROR: &str = "error";

/// Records all changes in the overlay of `machine`. Contents go into the store of the tape. Does
/// nothing if the tape has failed.
///
/// # Errors
/// [`DiffError`] if a layer cannot be read. The tape then says that the changes are unknown, and can be finished.
pub fn record_changes(machine: &mut Machine, recorder: &Recorder) -> Result<(), DiffError> {
    if recorder.failed() {
        return Ok(());
    }
    recorder.set_phase(Phase::Finalize);
    let changes = record_known_changes(machine.vfs_mut(), recorder);
    if let Err(error) = &changes {
        let detail = Map::from_iter([(ERROR.to_owned(), error.to_string().into())]);
        recorder.push(Kind::Change { path: "/".to_owned(), change: UNKNOWN.to_owned(), detail });
    }
    changes
}

/// # Errors
/// [`DiffError`] if a layer cannot be read.
fn record_known_changes(vfs: &mut Overlay, recorder: &Recorder) -> Result<(), DiffError> {
    let mut times: HashMap<(MountId, VPath), ChangedTimes> = HashMap::new();
    for changed in vfs.changed_times() {
        times.insert((changed.mount, changed.path.clone()), changed);
    }
    for entry in vfs.diff()? {
        let content = |path: &str, file: &FileVersion| recorder.content_from(path, file.reader()?);
        let mut record = describe(vfs, &entry, content)?;
        let written = (entry.mount, entry.path);
        if let Kind::Change { change, detail, .. } = &mut record
            && change != "deleted"
            && times.get(&written).is_some_and(|times| !times.was_set)
            && let Some(times) = times.remove(&written)
        {
            detail.insert(WRITTEN_NS.to_owned(), times.times.mtim.into());
        }
        recorder.push(record);
    }
    let mut times: Vec<_> = times.into_values().collect();
    times.sort_unstable_by(|a, b| (a.mount, &a.path).cmp(&(b.mount, &b.path)));
    for ChangedTimes { mount, path, times, was_set } in times {
        let detail = if was_set {
            vec![("atime_ns", times.atim), ("mtime_ns", times.mtim), (SET_NS, times.ctim)]
        } else {
            vec![(WRITTEN_NS, times.mtim)]
        };
        let detail = detail.into_iter().map(|(name, time)| (name.to_owned(), time.into()));
        recorder.push(Kind::Change {
            path: absolute(vfs, mount, &path),
            change: "times".to_owned(),
            detail: detail.collect(),
        });
    }
    Ok(())
}

fn absolute(vfs: &Overlay, mount: MountId, path: &VPath) -> String {
    path.absolute(&vfs.mounts()[mount.index()].path())
}

/// The record of `entry`. `content` returns the taped form of each content, by its path.
///
/// # Errors
/// [`DiffError`] if a content cannot be read.
pub(super) fn describe(
    vfs: &Overlay,
    entry: &DiffEntry,
    mut content: impl FnMut(&str, &FileVersion) -> Result<TapedContent, Errno>,
) -> Result<Kind, DiffError> {
    let path = absolute(vfs, entry.mount, &entry.path);
    let mut detail = Map::new();
    let mut describe = |which: &str, file: &FileVersion| {
        let unreadable =
            |errno| DiffError::Layer { operation: "read", path: entry.path.clone(), errno };
        let TapedContent { content_hash, len_bytes, withheld_by } =
            content(&path, file).map_err(unreadable)?;
        detail.insert(format!("{which}content_hash"), content_hash.to_string().into());
        detail.insert(format!("{which}len_bytes"), len_bytes.into());
        if let Some(rule) = withheld_by {
            detail.insert(format!("{which}withheld_by"), rule.into());
        }
        detail.insert(format!("{which}executable"), Value::from(file.executable));
        Ok::<_, DiffError>(())
    };
    let text = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes).into_owned());
    let (change, file_type) = match &entry.kind {
        DiffKind::Added { content } => {
            describe("", content)?;
            ("added", "file")
        }
        DiffKind::Modified { before, content } => {
            describe("before_", before)?;
            describe("", content)?;
            ("modified", "file")
        }
        DiffKind::Deleted { before } => {
            describe("before_", before)?;
            ("deleted", "file")
        }
        DiffKind::DirAdded => ("added", "dir"),
        DiffKind::DirDeleted => ("deleted", "dir"),
        DiffKind::SymlinkAdded { target } => {
            detail.insert("target".to_owned(), text(target));
            ("added", "link")
        }
        DiffKind::SymlinkModified { before, target } => {
            detail.insert("before_target".to_owned(), text(before));
            detail.insert("target".to_owned(), text(target));
            ("modified", "link")
        }
        DiffKind::SymlinkDeleted { before } => {
            detail.insert("before_target".to_owned(), text(before));
            ("deleted", "link")
        }
        DiffKind::SpecialAdded { .. } => ("added", "other"),
        DiffKind::SpecialDeleted { .. } => ("deleted", "other"),
    };
    detail.insert("file_type".to_owned(), file_type.into());
    let mut name = |field: &str, (mount, path): (MountId, &VPath)| {
        detail.insert(field.to_owned(), absolute(vfs, mount, path).into());
    };
    if let Some(from) = &entry.renamed_from {
        name("renamed_from", (entry.mount, from));
    }
    if let Some((mount, path)) = &entry.origin {
        name("origin", (*mount, path));
    }
    if let Some(path) = &entry.link_of {
        name("link_of", (entry.mount, path));
    }
    Ok(Kind::Change { path, change: change.to_owned(), detail })
}
