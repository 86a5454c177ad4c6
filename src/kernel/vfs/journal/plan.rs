//! The plan of an apply for one directory of the host: decided first, then carried out, and taken back if it could
//! not be completed.

use crate::kernel::vfs::layer::Times;
use crate::kernel::vfs::layer::{FileType, Stat};
use crate::kernel::vfs::path::VPath;

/// The steps of one directory, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::kernel::vfs) struct Plan {
    pub steps: Vec<Step>,
    /// Set last, in this order.
    pub attributes: Vec<Attributes>,
}

/// A change of one name. Temporaries and backups are new names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::kernel::vfs) enum Step {
    /// Moves `path` to `backup`, which is removed in the end.
    Remove {
        path: VPath,
        backup: VPath,
        /// The mode of a directory, to create it again; `None` for anything else.
        dir_mode: Option<u32>,
    },
    /// Creates a directory at `temporary` and moves it to `path`, where nothing is.
    CreateDir { path: VPath, temporary: VPath },
    /// Creates a file or symbolic link at `temporary` and moves it to `path`, over the file that has the
    /// further name `backup` meanwhile.
    Place { path: VPath, temporary: VPath, backup: Option<VPath> },
}

impl Step {
    /// The name that it changes.
    pub fn path(&self) -> &VPath {
        match self {
            Self::Remove { path, .. } | Self::CreateDir { path, .. } | Self::Place { path, .. } => {
                path
            }
        }
    }

    /// The names that exist only during the step.
    pub fn temporaries(&self) -> impl Iterator<Item = &VPath> {
        let (one, other) = match self {
            Self::Remove { backup, .. } => (Some(backup), None),
            Self::CreateDir { temporary, .. } => (Some(temporary), None),
            Self::Place { temporary, backup, .. } => (Some(temporary), backup.as_ref()),
        };
        one.into_iter().chain(other)
    }

    /// Whether `path` is its backup.
    pub fn keeps_at(&self, path: &VPath) -> bool {
        match self {
            Self::Remove { backup, .. } | Self::Place { backup: Some(backup), .. } => {
                backup == path
            }
            Self::CreateDir { .. } | Self::Place { backup: None, .. } => false,
        }
    }

    /// Whether it concerns a file or symbolic link.
    pub fn is_of_file(&self) -> bool {
        matches!(self, Self::Remove { dir_mode: None, .. } | Self::Place { .. })
    }
}

/// Times and mode that are set last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::kernel::vfs) struct Attributes {
    pub path: VPath,
    pub times: Option<Times>,
    pub mode: Option<u32>,
    /// What must be at `path`; `None` for a new directory.
    pub of: Option<Identity>,
}

/// Distinguishes what was made from what others put in its place later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kernel::vfs) struct Identity {
    pub file_type: FileType,
    /// 0 if unknown.
    pub inode: u64,
    /// Size and time are 0 for a directory, as they change with its entries.
    pub size: u64,
    pub mtime_ns: u64,
}

impl Identity {
    pub fn of(stat: &Stat) -> Self {
        let (size, mtime_ns) = match stat.file_type {
            FileType::Directory => (0, 0),
            _ => (stat.size, stat.mtime_ns),
        };
        Self { file_type: stat.file_type, inode: stat.inode, size, mtime_ns }
    }

    pub fn is(&self, stat: &Stat) -> bool {
        *self == Self::of(stat)
    }
}
