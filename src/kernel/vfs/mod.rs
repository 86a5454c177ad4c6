//! The file system of the kernel: one namespace of copy-on-write mounts.
//!
//! - [`Layer`] is a read-only tree; [`HostDir`] is a layer over a directory of the host.
//! - [`Overlay`] holds the rest in memory: names, links, contents, times, inode numbers, all changes.
//!
//! Only [`Overlay::apply`], [`Overlay::apply_journaled`] and the recovery of [`Journals`] write to mounted
//! directories.

mod apply;
mod diff;
mod journal;
mod layer;
mod overlay;
mod path;
mod refresh;
mod saved;
#[cfg(test)]
mod test_trees;

pub use apply::conflicts::{Conflict, ConflictKind};
pub use apply::{Applied, ApplyError};
pub use diff::between::{CompareError, diff_between, diff_overlays};
pub use diff::file_version::FileVersion;
pub use diff::git_patch::{is_in_unified_diff, render_unified_diff, shown_in_unified_diff};
pub(crate) use diff::report::is_sensitive;
pub use diff::report::{
    ReportedChange, left_out_of_diff, render_reported_diff, reported_changes,
    reported_changes_since,
};
pub use diff::{DiffEntry, DiffError, DiffKind};
pub use journal::error::JournalError;
pub use journal::recovery::{ChangedKind, ChangedSince};
pub use journal::{Journals, OnChanged, Recovered, Witness};
pub use layer::contents::Contents;
pub use layer::empty::EmptyTree;
pub use layer::host_dir::{HostDir, HostFile};
pub use layer::host_scan::{EntryState, FolderScan, KnownDigests, ScanError, StateChange};
pub use layer::portable::{NameProblem, folded, folded_and_normalised, windows_problem};
pub use layer::recording::RecordingLayer;
pub use layer::taped::{TapedLayer, TapedTree, TapedTreeError};
pub use layer::{Blob, DirEntry, FileType, Layer, Stat, Times};
pub use overlay::attr::{Metadata, SetTime};
pub use overlay::baseline::Baseline;
pub use overlay::drift::Drift;
pub use overlay::drift_kind::DriftKind;
pub use overlay::listing::{Listed, Listing};
pub use overlay::mount::{Mount, Source};
pub(in crate::kernel) use overlay::node::ino_below;
pub use overlay::node::{MountId, NodeId};
pub use overlay::open::OpenFlags;
pub use overlay::resolve::{Base, Follow};
pub use overlay::times::{ChangedTimes, FILES_END_NS, Mtimes, SHIFTED_NS, TimeScale};
pub use overlay::{Overlay, VfsLimits};
pub use path::{NAME_MAX, PATH_BYTES_MAX, SYMLOOP_MAX, VPath, beneath, check_name};
pub use refresh::{Refreshed, Taken, TakenKind};
pub use saved::{RestoreError, SavedOverlay};

/// The mount point of a worktree: a name that directories rarely have, so that it does not clash with
/// programs' relative paths.
pub const WORKTREE: &str = "/worktree";
