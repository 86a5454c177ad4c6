//! Changes by name, for reports.

use std::collections::HashSet;

use serde::Serialize;

use super::git_patch::{render_unified_diff, shown_in_unified_diff};
use super::{DiffEntry, DiffError, DiffKind};
use crate::kernel::vfs::WORKTREE;
use crate::kernel::vfs::overlay::Overlay;
use crate::kernel::vfs::overlay::node::MountId;
use crate::kernel::vfs::overlay::times::ChangedTimes;
use crate::kernel::vfs::path::VPath;

/// One changed path.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct ReportedChange {
    /// Where it is mounted.
    pub mount: String,
    /// Its path below that.
    pub path: String,
    /// `added`, `modified`, `deleted`, or these after `directory_`, `symlink_` or `special_`; `times`
    /// if nothing but those changed.
    pub kind: &'static str,
    /// The path that it had before, if it was moved.
    pub renamed_from: Option<String>,
    /// Whether its owner may execute it, if it is a file that was added or modified.
    pub executable: Option<bool>,
}

/// Names of files and directories from which version control, editors, shells and build tools take
/// commands by themselves.
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

/// Whether other tools may run or obey what is at `path`, relative to a mount.
pub(crate) fn is_sensitive(path: &str) -> bool {
    let is_known =
        |name: &str| SENSITIVE_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known));
    path.split('/').any(is_known)
}

impl ReportedChange {
    /// Whether nothing but times changed.
    pub fn is_of_times(&self) -> bool {
        self.kind == "times"
    }

    /// Its path: relative to the worktree, or absolute in the namespace if it is elsewhere.
    pub fn shown_path(&self) -> String {
        match self.mount.as_str() {
            WORKTREE => self.path.clone(),
            mount => format!("{}/{}", mount.trim_end_matches('/'), self.path),
        }
    }

    /// Whether other tools may run or obey it.
    pub fn is_sensitive(&self) -> bool {
        is_sensitive(&self.path)
    }

    fn of(vfs: &Overlay, entry: &DiffEntry) -> Self {
        let kind = match entry.kind {
            _ if entry.is_equal => "replaced",
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
        let executable = match &entry.kind {
            DiffKind::Added { content } | DiffKind::Modified { content, .. } => {
                Some(content.executable)
            }
            _ => None,
        };
        Self {
            mount: mount_path(vfs, entry.mount),
            path: entry.path.as_str().to_owned(),
            kind,
            renamed_from: entry.renamed_from.as_ref().map(|path| path.as_str().to_owned()),
            executable,
        }
    }

    fn of_times(vfs: &Overlay, mount: MountId, path: &VPath) -> Self {
        Self {
            mount: mount_path(vfs, mount),
            path: path.as_str().to_owned(),
            kind: "times",
            renamed_from: None,
            executable: None,
        }
    }
}

/// The changes of `entries`, which are all of `vfs`, and files of which only a time changed: a program set it, or wrote
/// the same content again. An apply writes these as well.
pub fn reported_changes(vfs: &Overlay, entries: &[DiffEntry]) -> Vec<ReportedChange> {
    reported_changes_since(&[], vfs, entries)
}

/// The changes of `entries`, and those of times in `vfs` that are not in `before`.
pub fn reported_changes_since(
    before: &[ChangedTimes],
    vfs: &Overlay,
    entries: &[DiffEntry],
) -> Vec<ReportedChange> {
    let mut changes: Vec<_> = entries.iter().map(|entry| ReportedChange::of(vfs, entry)).collect();
    let known: HashSet<(MountId, &VPath)> =
        entries.iter().map(|entry| (entry.mount, &entry.path)).collect();
    let mut times = vfs.changed_times();
    times.retain(|time| !before.contains(time) && !known.contains(&(time.mount, &time.path)));
    changes.extend(times.iter().map(|it| ReportedChange::of_times(vfs, it.mount, &it.path)));
    changes
}

/// The patch of `entries` for `git apply`. The changes of the worktree, or of the only mount that has any, go under
/// their own paths, so that it applies there; those of other mounts under the guest's.
///
/// # Errors
/// As [`render_unified_diff`].
pub fn render_reported_diff(vfs: &Overlay, entries: &[DiffEntry]) -> Result<String, DiffError> {
    let is_alone = entries.iter().all(|entry| entry.mount == entries[0].mount);
    let mut text = String::new();
    for of_mount in shown_in_unified_diff(entries).chunk_by(|a, b| a.mount == b.mount) {
        let (mount, path) = (of_mount[0].mount, mount_path(vfs, of_mount[0].mount));
        let prefix = if is_alone || vfs.worktree() == Some(mount) { "" } else { &path };
        // A mount point is a path.
        let prefix = VPath::parse(prefix).unwrap_or_else(|_| VPath::root());
        text.push_str(&render_unified_diff(of_mount.iter().copied(), &prefix)?);
    }
    Ok(text)
}

/// The paths among `entries` that the patch leaves out, as `git apply` would refuse such changes, or would lose a file.
pub fn left_out_of_diff(entries: &[DiffEntry]) -> Vec<&str> {
    let is_dir = |kind: &DiffKind| matches!(kind, DiffKind::DirAdded | DiffKind::DirDeleted);
    let shown: HashSet<_> =
        shown_in_unified_diff(entries).into_iter().map(std::ptr::from_ref).collect();
    let is_shown = |entry: &DiffEntry| shown.contains(&std::ptr::from_ref(entry));
    let left_out = entries.iter().filter(|entry| !is_dir(&entry.kind) && !is_shown(entry));
    left_out.map(|entry| entry.path.as_str()).collect()
}

fn mount_path(vfs: &Overlay, mount: MountId) -> String {
    vfs.mounts()[mount.index()].path()
}
