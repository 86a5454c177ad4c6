//! Whether the changes of a recorded run are made already.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::changes::describe;
use super::taped_changes::{Change, NOW, TapedChangesError, content_of, read_changes, relative};
use crate::base::ambient;
use crate::base::errno::Errno;
use crate::kernel::vfs::{FileType, Follow, Metadata, Overlay, SetTime};
use crate::tape::Kind;

/// The metadata of `path`, following no links: recorded paths have none.
///
/// # Errors
/// `ENOTDIR` if a component is not a directory, and the errnos of `stat`.
fn stat_in_place(vfs: &mut Overlay, path: &str) -> Result<Metadata, Errno> {
    let base = vfs.host_base();
    for (end, _) in path.match_indices('/') {
        if vfs.stat(base, &path[..end], Follow::No)?.file_type != FileType::Directory {
            return Err(Errno::Notdir);
        }
    }
    vfs.stat(base, path, Follow::No)
}

/// Whether `vfs` has the state after `changes`: contents, links, execute permissions, and no deleted paths.
///
/// # Errors
/// [`TapedChangesError::Diff`] if something cannot be read.
fn is_made(mut fork: Overlay, changes: &[Change]) -> Result<bool, TapedChangesError> {
    let base = fork.host_base();
    let there: HashSet<&str> =
        changes.iter().filter(|it| it.how != "deleted").map(|it| &*it.path).collect();
    let mut left: HashMap<&str, &Change> = HashMap::new();
    for change in changes {
        let (path, file_type) = (relative(&change.path), change.text("file_type"));
        let found = stat_in_place(&mut fork, path);
        let is_as_left = match (&*change.how, file_type) {
            ("deleted", _) => there.contains(&*change.path) || found.is_err(),
            ("times", _) => match change.time("mtime_ns") {
                // A time of the run's clock was applied as the time of the apply, which the tape does not have.
                SetTime::At(mtime_ns) => {
                    let is_of_clock = fork.is_clock_time(mtime_ns, change.set_ns());
                    let is_date = !is_of_clock && mtime_ns <= ambient::wall_now_ns();
                    let shown = [mtime_ns, fork.shown_time(mtime_ns)];
                    found.is_ok_and(|it| !is_date || shown.contains(&it.times.mtim))
                }
                _ => found.is_ok(),
            },
            (_, Some("dir")) => found.is_ok_and(|it| it.file_type == FileType::Directory),
            (_, Some("file" | "link")) => {
                left.insert(&change.path, change);
                found.is_ok()
            }
            _ => false,
        };
        if !is_as_left {
            return Ok(false);
        }
    }
    // After unlinking, the diff describes what was there.
    for path in left.keys() {
        if fork.unlink(base, relative(path), NOW).is_err() {
            return Ok(false);
        }
    }
    for entry in fork.diff()? {
        let Kind::Change { path, change, detail } = describe(&fork, &entry, content_of)? else {
            continue;
        };
        let Some(expected) = left.remove(&*path).filter(|_| change == "deleted") else {
            return Ok(false);
        };
        let fields = ["content_hash", "executable", "target", "file_type"];
        let is_same = |field: &&str| {
            let before =
                if *field == "file_type" { (*field).to_owned() } else { format!("before_{field}") };
            detail.get(&before) == expected.detail.get(*field)
        };
        if !fields.iter().all(is_same) {
            return Ok(false);
        }
    }
    Ok(left.is_empty())
}

/// Whether `vfs` already has the state after the run on the tape at `path`. Then [`super::make_taped_changes`] would find
/// conflicts.
///
/// # Errors
/// [`TapedChangesError`].
pub fn taped_changes_are_made(path: &Path, vfs: &Overlay) -> Result<bool, TapedChangesError> {
    let mut fork = vfs.clone();
    let changes = read_changes(path, &mut fork)?;
    is_made(fork, &changes)
}
