//! The operations on a directory of the host that an apply uses. Tests wrap [`HostDir`] to record them or make them
//! fail.

use std::ffi::OsString;
use std::fs::File;
use std::io;

use crate::base::errno::Errno;
use crate::kernel::vfs::layer::Times;
use crate::kernel::vfs::layer::host_dir::{Access, HostDir};
use crate::kernel::vfs::layer::host_permissions::HostPermissions;
use crate::kernel::vfs::layer::{FileType, Stat};
use crate::kernel::vfs::path::VPath;

/// A directory of the host for writing. Paths are relative to it; symbolic links are not followed.
pub(in crate::kernel::vfs) trait Tree: Send + Sync {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno>;
    fn names(&self, path: &VPath) -> io::Result<Vec<OsString>>;
    fn create_file(&self, path: &VPath, access: Access) -> io::Result<File>;
    fn create_dir(&self, path: &VPath, access: Access) -> io::Result<()>;
    fn hard_link(&self, from: &VPath, to: &VPath) -> io::Result<()>;
    fn symlink(&self, target: &str, path: &VPath) -> io::Result<()>;
    fn rename(&self, from: &VPath, to: &VPath) -> io::Result<()>;
    /// Renames to a name that nothing has, as far as the host can check that in the same step.
    fn rename_to_new(&self, from: &VPath, to: &VPath) -> io::Result<()>;
    fn remove_file(&self, path: &VPath) -> io::Result<()>;
    fn remove_dir(&self, path: &VPath) -> io::Result<()>;
    fn set_times(&self, path: &VPath, times: Times) -> io::Result<()>;
    fn set_dir_mode(&self, path: &VPath, mode: u32) -> io::Result<()>;
    /// Sets the owner of a new directory to that in `permissions`.
    fn give_dir(&self, path: &VPath, permissions: &HostPermissions) -> io::Result<()>;
    /// Syncs `file`, which is at `path`.
    fn sync_file(&self, path: &VPath, file: &File) -> io::Result<()>;
    /// Syncs the directory `path`.
    fn sync_dir(&self, path: &VPath) -> io::Result<()>;
    /// Syncs the file systems of the directories `dirs`. Does nothing and returns `Ok(false)` if the host cannot.
    fn sync_file_systems(&self, dirs: &[VPath]) -> io::Result<bool>;

    /// Returns what is at `path`; `None` if nothing is.
    fn look(&self, path: &VPath) -> io::Result<Option<Stat>> {
        match self.stat(path) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::Noent | Errno::Notdir) => Ok(None),
            Err(errno) => Err(io::Error::other(errno)),
        }
    }

    /// Whether `path` is a directory.
    fn is_dir(&self, path: &VPath) -> io::Result<bool> {
        Ok(self.look(path)?.is_some_and(|stat| stat.file_type == FileType::Directory))
    }

    /// Removes `path`, a file or an empty directory; returns whether it existed.
    fn remove(&self, path: &VPath) -> io::Result<bool> {
        match self.look(path)?.map(|stat| stat.file_type) {
            None => return Ok(false),
            Some(FileType::Directory) => self.remove_dir(path)?,
            Some(_) => self.remove_file(path)?,
        }
        Ok(true)
    }
}

impl Tree for HostDir {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        self.stat_as_found(path)
    }

    fn names(&self, path: &VPath) -> io::Result<Vec<OsString>> {
        self.names(path)
    }

    fn create_file(&self, path: &VPath, access: Access) -> io::Result<File> {
        self.create_file(path, access)
    }

    fn create_dir(&self, path: &VPath, access: Access) -> io::Result<()> {
        self.create_dir(path, access)
    }

    fn hard_link(&self, from: &VPath, to: &VPath) -> io::Result<()> {
        self.hard_link(from, to)
    }

    fn symlink(&self, target: &str, path: &VPath) -> io::Result<()> {
        self.symlink(target, path)
    }

    fn rename(&self, from: &VPath, to: &VPath) -> io::Result<()> {
        self.rename(from, to)
    }

    fn rename_to_new(&self, from: &VPath, to: &VPath) -> io::Result<()> {
        self.rename_to_new(from, to)
    }

    fn remove_file(&self, path: &VPath) -> io::Result<()> {
        self.remove_file(path)
    }

    fn remove_dir(&self, path: &VPath) -> io::Result<()> {
        self.remove_dir(path)
    }

    fn set_times(&self, path: &VPath, times: Times) -> io::Result<()> {
        self.set_times(path, times)
    }

    fn give_dir(&self, path: &VPath, permissions: &HostPermissions) -> io::Result<()> {
        self.give_dir(path, permissions)
    }

    fn set_dir_mode(&self, path: &VPath, mode: u32) -> io::Result<()> {
        self.set_dir_mode(path, mode)
    }

    fn sync_file(&self, _path: &VPath, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn sync_dir(&self, path: &VPath) -> io::Result<()> {
        self.sync_dir(path)
    }

    fn sync_file_systems(&self, dirs: &[VPath]) -> io::Result<bool> {
        self.sync_file_systems(dirs)
    }
}
