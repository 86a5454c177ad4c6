//! The file system of the kernel: one namespace of copy-on-write mounts.
//!
//! - [`Layer`] is a read-only tree below; [`HostDir`] is the one over a directory of the host.
//! - [`Overlay`] is everything else: names, links, contents, times, inode numbers. All changes
//!   live there, in memory.
//!
//! Nothing here writes to the disk but [`Overlay::apply`] and [`Overlay::apply_journaled`], when they
//! are asked to, and [`Journals`], which takes back what they began, or finishes it.

mod attr;
mod baseline;
mod below_files;
mod between;
mod conflicts;
mod content;
mod contents;
mod diff;
mod dirs;
mod drift;
mod file_io;
mod file_version;
mod git_binary;
mod host;
mod host_walk;
mod journal;
mod journal_error;
mod journal_follow;
mod journal_format;
mod keeping;
mod layer;
mod line_diff;
mod links;
mod listing;
mod mount;
mod node;
mod nodes;
mod open;
mod origins;
mod overlay;
mod patch;
mod path;
mod path_length;
mod rebase;
mod recording;
mod recovery;
mod refresh;
mod rename;
mod resolve;
mod saved;
mod saved_baseline;
mod saved_content;
mod settle;
mod staging;
mod steps;
mod taped;
mod times;
mod transaction;
mod tree;
mod unified;
#[cfg(unix)]
mod way;
mod write_times;
mod written;

#[cfg(test)]
mod diff_tests;
#[cfg(all(test, unix))]
mod host_tests;
#[cfg(test)]
mod journal_follow_tests;
#[cfg(test)]
mod journal_format_tests;
#[cfg(test)]
mod journal_tests;
#[cfg(test)]
mod limit_tests;
#[cfg(test)]
mod patch_tests;
#[cfg(test)]
mod power_tests;
#[cfg(test)]
mod race_tests;

pub use attr::{Metadata, SetTime};
pub use baseline::Baseline;
pub use between::{CompareError, diff_between, diff_overlays};
pub use conflicts::{Conflict, ConflictKind};
pub use contents::Contents;
pub use diff::{DiffEntry, DiffError, DiffKind};
pub use drift::{Drift, DriftKind};
pub use file_version::FileVersion;
pub use host::{HostDir, HostFile};
pub use journal::{Journals, OnChanged, Recovered, Witness};
pub use journal_error::JournalError;
pub use layer::{Blob, DirEntry, FileType, Layer, Stat};
pub use listing::{Listed, Listing};
pub use mount::{Mount, Source};
pub use node::{MountId, NodeId, Times};
pub use open::OpenFlags;
pub use overlay::{Overlay, VfsLimits};
pub use patch::{Applied, ApplyError};
pub use path::{NAME_MAX, PATH_BYTES_MAX, SYMLOOP_MAX, VPath, beneath};
pub use recording::RecordingLayer;
pub use recovery::{ChangedKind, ChangedSince};
pub use refresh::{Refreshed, Taken, TakenKind};
pub use resolve::{Base, Follow};
pub use saved::{RestoreError, SavedOverlay};
pub use taped::{TapedLayer, TapedTree, TapedTreeError};
pub use times::{ChangedTimes, FILES_END_NS, Mtimes, TimeScale};
pub use unified::{is_in_unified_diff, render_unified_diff};
