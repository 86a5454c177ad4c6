//! Limits of an overlay.

use serde::{Deserialize, Serialize};

use super::Overlay;
use crate::kernel::vfs::path::PATH_BYTES_MAX;

/// Limits on what guests can make an overlay hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VfsLimits {
    /// Bytes of all that was written or created, contents and bookkeeping. Beyond: `ENOSPC`.
    pub upper_bytes_max: u64,
    /// Bytes of one file, holes included. Beyond: `EFBIG`.
    pub file_bytes_max: u64,
    /// Bytes of a path that a guest passes, of a symbolic link's text, and of the path of anything that is
    /// created, from its mount point. Beyond: `ENAMETOOLONG`.
    pub path_bytes_max: usize,
    /// Bytes of unchanged files kept in memory once read. Beyond: they are read again.
    pub cache_bytes_max: u64,
    /// Bytes of the paths of all changes in a diff. Beyond: [`crate::kernel::vfs::DiffError::TooMany`]. In the
    /// overlay paths share their directories, in a list they do not: it could be much larger than the overlay.
    pub change_path_bytes_max: u64,
}

impl VfsLimits {
    /// The tighter of each of these limits and the one in `bounds`.
    #[must_use]
    pub fn within(&self, bounds: &Self) -> Self {
        Self {
            upper_bytes_max: self.upper_bytes_max.min(bounds.upper_bytes_max),
            file_bytes_max: self.file_bytes_max.min(bounds.file_bytes_max),
            path_bytes_max: self.path_bytes_max.min(bounds.path_bytes_max),
            cache_bytes_max: self.cache_bytes_max.min(bounds.cache_bytes_max),
            change_path_bytes_max: self.change_path_bytes_max.min(bounds.change_path_bytes_max),
        }
    }
}

impl Overlay {
    /// Sets [`VfsLimits::upper_bytes_max`].
    #[cfg(feature = "mcp")]
    pub(crate) fn set_upper_bytes_max(&mut self, bytes: u64) {
        self.limits.upper_bytes_max = bytes;
    }
}

impl Default for VfsLimits {
    fn default() -> Self {
        Self {
            upper_bytes_max: 4 << 30,
            file_bytes_max: 16 << 30,
            path_bytes_max: PATH_BYTES_MAX,
            cache_bytes_max: 512 << 20,
            change_path_bytes_max: 1 << 30,
        }
    }
}
