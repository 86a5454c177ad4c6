//! Errors of diffs.

use crate::base::errno::Errno;
use crate::kernel::vfs::path::VPath;
use crate::store::StoreError;

/// Why changes cannot be determined.
#[derive(thiserror::Error)]
pub enum DiffError {
    /// A layer failed.
    #[error("cannot {operation} {path}: {errno}")]
    Layer {
        /// What failed, as a verb.
        operation: &'static str,
        /// The path relative to its mount's root.
        path: VPath,
        /// The layer's error; `EIO` if a file became shorter.
        errno: Errno,
    },
    /// Directories are nested so deeply that the path exceeds the limit.
    #[error("{path} exceeds the limit of {max} bytes for a path")]
    TooDeep {
        /// The path relative to its mount's root.
        path: VPath,
        /// The limit.
        max: usize,
    },
    /// A file is too large for a patch.
    #[error("{path} is too large for a patch: {len} bytes")]
    TooLarge {
        /// The path relative to its mount's root.
        path: VPath,
        /// Its length in bytes.
        len: u64,
    },
    /// The files of a patch are too large together.
    #[error("the changed files up to {path} exceed the limit of {max} bytes for one patch")]
    PatchTooLarge {
        /// The first path past the limit, relative to its mount's root.
        path: VPath,
        /// The limit.
        max: u64,
    },
    /// The worktree has an entry of the first name of a mount by now: after a refresh, programs could not tell `lib/x` from
    /// `/lib/x`.
    #[error(
        "the worktree has {name:?} of its own on the disk now, and programs cannot tell {name}/x from /{name}/x, while \
         something is mounted at {path}: rename it"
    )]
    Ambiguous {
        /// The mount point.
        path: String,
        /// The name.
        name: String,
    },
    /// What is known of a resumed session cannot be read.
    #[error("cannot read the state of the session: {0}")]
    State(StoreError),
    /// The paths of the changes are too long together.
    #[error(
        "the paths of all changes exceed {max} bytes in total \
         (raise `VfsLimits::change_path_bytes_max`)"
    )]
    TooMany {
        /// The limit.
        max: u64,
    },
}

crate::base::readable::readable!(DiffError);
