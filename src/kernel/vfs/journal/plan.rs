//! What writing to one directory of the host consists of: decided first, then done, and, if it was
//! not done to the end, taken back.

use crate::kernel::vfs::layer::Times;
use crate::kernel::vfs::layer::{FileType, Stat};
use crate::kernel::vfs::path::VPath;

/// The steps of one directory, in the order in which they are done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::kernel::vfs) struct Plan {
    pub steps: Vec<Step>,
    /// What is set once everything has its place, in this order.
    pub attributes: Vec<Attributes>,
}

/// A change of one name. Temporaries and backups are names that nothing has before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::kernel::vfs) enum Step {
    /// What stands at `path` goes to `backup`, and is removed in the end.
    Remove {
        path: VPath,
        backup: VPath,
        /// The permissions of a directory, to make it again; `None` for anything else.
        dir_mode: Option<u32>,
    },
    /// A directory is made at `temporary`, and then goes to `path`, where nothing is.
    CreateDir { path: VPath, temporary: VPath },
    /// A file or link is made at `temporary`, and then goes to `path`, in place of the file or link
    /// that has the further name `backup` meanwhile.
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

    /// The names that are there only while it is done.
    pub fn temporaries(&self) -> impl Iterator<Item = &VPath> {
        let (one, other) = match self {
            Self::Remove { backup, .. } => (Some(backup), None),
            Self::CreateDir { temporary, .. } => (Some(temporary), None),
            Self::Place { temporary, backup, .. } => (Some(temporary), backup.as_ref()),
        };
        one.into_iter().chain(other)
    }

    /// Whether `path` is where it keeps what stood in its place before.
    pub fn keeps_at(&self, path: &VPath) -> bool {
        match self {
            Self::Remove { backup, .. } | Self::Place { backup: Some(backup), .. } => {
                backup == path
            }
            Self::CreateDir { .. } | Self::Place { backup: None, .. } => false,
        }
    }

    /// Whether it is about a file or a link.
    pub fn is_of_file(&self) -> bool {
        matches!(self, Self::Remove { dir_mode: None, .. } | Self::Place { .. })
    }
}

/// Times and permissions that are set last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::kernel::vfs) struct Attributes {
    pub path: VPath,
    pub times: Option<Times>,
    pub mode: Option<u32>,
    /// What must stand at `path`; `None` for a directory that is made.
    pub of: Option<Identity>,
}

/// What tells something that was made from what somebody puts in its place later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kernel::vfs) struct Identity {
    pub file_type: FileType,
    /// 0 where the host does not say.
    pub inode: u64,
    /// 0 for a directory, which changes with what is put into it; so is the time.
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
