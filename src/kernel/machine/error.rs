//! Why a machine could not be put together.

use crate::base::errno::Errno;
#[cfg(doc)]
use crate::kernel::vfs::Overlay;

/// A machine could not be put together.
#[derive(thiserror::Error)]
pub enum MachineError {
    /// A mount failed.
    #[error("cannot mount at {path:?}: {errno}")]
    Mount {
        /// The mount point, as given.
        path: String,
        /// Why; see [`Overlay::mount`].
        errno: Errno,
    },
    /// A mount that begins with a name which the worktree has: programs cannot tell `lib/x` from
    /// `/lib/x`.
    #[error(
        "cannot mount at {path}: the worktree has {name:?} of its own, and programs cannot tell \
         {name}/x from /{name}/x; {free} is free"
    )]
    Ambiguous {
        /// The mount point.
        path: String,
        /// The name.
        name: String,
        /// A mount point like it that the worktree does not have.
        free: String,
    },
    /// A mount of several layers, whose answers a tape could not tell apart.
    #[error("cannot record the mount at {path:?}: it has more than one layer")]
    Layers {
        /// The mount point.
        path: String,
    },
}

crate::base::readable::readable!(MachineError);
