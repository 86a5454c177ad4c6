//! What a run leaves changed, on its tape.

use serde_json::{Map, Value};

use crate::kernel::machine::Machine;
use crate::kernel::vfs::{DiffEntry, DiffError, DiffKind, FileVersion};
use crate::tape::{Kind, Phase, Recorder};

/// Records every file that is not, in `machine`, what it is in the tree below. Contents go into the
/// store of the tape. A tape that has failed takes no more.
///
/// # Errors
/// [`DiffError`]: a layer does not answer.
pub fn record_changes(machine: &mut Machine, recorder: &Recorder) -> Result<(), DiffError> {
    if recorder.failed() {
        return Ok(());
    }
    recorder.set_phase(Phase::Finalize);
    for entry in machine.vfs_mut().diff()? {
        let kind = change(machine, recorder, &entry)?;
        recorder.push(kind);
    }
    for (mount, path) in machine.vfs().times_set() {
        let at = machine.vfs().mounts()[mount.index()].path();
        recorder.push(Kind::Change {
            path: path.absolute(&at),
            change: "times".to_owned(),
            detail: Map::new(),
        });
    }
    Ok(())
}

fn change(machine: &Machine, recorder: &Recorder, entry: &DiffEntry) -> Result<Kind, DiffError> {
    let at = machine.vfs().mounts()[entry.mount.index()].path();
    let mut detail = Map::new();
    let mut describe = |which: &str, file: &FileVersion| {
        let unreadable =
            |errno| DiffError::Layer { operation: "read", path: entry.path.clone(), errno };
        let reader = file.reader().map_err(unreadable)?;
        let path = entry.path.absolute(&at);
        let content = recorder.content_from(&path, reader).map_err(unreadable)?;
        detail.insert(format!("{which}content_hash"), content.content_hash.to_string().into());
        detail.insert(format!("{which}len_bytes"), content.len_bytes.into());
        if let Some(rule) = content.withheld_by {
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
        _ => ("modified", "other"),
    };
    detail.insert("file_type".to_owned(), file_type.into());
    if let Some(from) = &entry.renamed_from {
        detail.insert("renamed_from".to_owned(), from.absolute(&at).into());
    }
    Ok(Kind::Change { path: entry.path.absolute(&at), change: change.to_owned(), detail })
}
