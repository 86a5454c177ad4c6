//! Why changes cannot be told.

use crate::base::errno::Errno;
use crate::kernel::vfs::path::VPath;

/// Why changes could not be told.
#[derive(thiserror::Error)]
pub enum DiffError {
    /// A layer did not answer.
    #[error("cannot {operation} {path}: {errno}")]
    Layer {
        /// What was tried, as a verb.
        operation: &'static str,
        /// The path relative to its mount's root.
        path: VPath,
        /// What the layer answered. `EIO` if a file became shorter than it was.
        errno: Errno,
    },
    /// Directories are nested so deeply that no path names what is in them.
    #[error("{path} is a longer path than the {max} bytes that a path may have")]
    TooDeep {
        /// The path relative to its mount's root.
        path: VPath,
        /// The limit.
        max: usize,
    },
    /// A file that no patch can hold.
    #[error("{path} is too large for a patch: {len} bytes")]
    TooLarge {
        /// The path relative to its mount's root.
        path: VPath,
        /// Its length in bytes.
        len: u64,
    },
    /// Files that no patch can hold together.
    #[error("the files up to {path} hold more than the {max} bytes that one patch may be about")]
    PatchTooLarge {
        /// The first path that goes beyond, relative to its mount's root.
        path: VPath,
        /// The limit.
        max: u64,
    },
    /// So many changes, in such deep directories, that their paths take more memory than they did.
    #[error(
        "the paths of all changes together are longer than {max} bytes \
         (raise `VfsLimits::change_path_bytes_max`)"
    )]
    TooMany {
        /// The limit.
        max: u64,
    },
}

crate::base::readable::readable!(DiffError);
