//! Errors of building a machine.

use crate::base::errno::Errno;
#[cfg(doc)]
use crate::kernel::vfs::Overlay;

/// A machine could not be built.
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
    /// The worktree has an entry of the first name of a mount: programs could not tell `lib/x` from `/lib/x`.
    #[error(
        "cannot mount at {path}: the worktree has {name:?} of its own, and programs cannot tell \
         {name}/x from /{name}/x; {free} is free"
    )]
    Ambiguous {
        /// The mount point.
        path: String,
        /// The name.
        name: String,
        /// A similar mount point that the worktree does not have.
        free: String,
    },
    /// A mount of several layers, whose answers a tape cannot tell apart.
    #[error("cannot record the mount at {path:?}: it has more than one layer")]
    Layers {
        /// The mount point.
        path: String,
    },
}

crate::base::readable::readable!(MachineError);
