//! The operations that writing to a directory of the host takes, one by one.
//!
//! [`HostDir`] does them. A test stands in between, to record them or to let them fail.

use std::ffi::OsString;
use std::fs::File;
use std::io;

use crate::base::errno::Errno;
use crate::kernel::vfs::layer::Times;
use crate::kernel::vfs::layer::host_dir::{Access, HostDir};
use crate::kernel::vfs::layer::host_permissions::HostPermissions;
use crate::kernel::vfs::layer::{FileType, Stat};
use crate::kernel::vfs::path::VPath;

/// A directory of the host that is written to. Paths are relative to it, and no link is followed.
pub(in crate::kernel::vfs) trait Tree: Send + Sync {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno>;
    fn names(&self, path: &VPath) -> io::Result<Vec<OsString>>;
    fn create_file(&self, path: &VPath, access: Access) -> io::Result<File>;
    fn create_dir(&self, path: &VPath, access: Access) -> io::Result<()>;
    fn hard_link(&self, from: &VPath, to: &VPath) -> io::Result<()>;
    fn symlink(&self, target: &str, path: &VPath) -> io::Result<()>;
    fn rename(&self, from: &VPath, to: &VPath) -> io::Result<()>;
    fn remove_file(&self, path: &VPath) -> io::Result<()>;
    fn remove_dir(&self, path: &VPath) -> io::Result<()>;
    fn set_times(&self, path: &VPath, times: Times) -> io::Result<()>;
    fn set_dir_mode(&self, path: &VPath, mode: u32) -> io::Result<()>;
    /// Gives a new directory the owner of another one.
    fn give_dir(&self, path: &VPath, permissions: &HostPermissions) -> io::Result<()>;
    /// Makes the content of `file`, which stands at `path`, survive a power cut.
    fn sync_file(&self, path: &VPath, file: &File) -> io::Result<()>;
    /// Makes the names in the directory `path` survive a power cut.
    fn sync_dir(&self, path: &VPath) -> io::Result<()>;
    /// Makes everything on the file systems of the directories `dirs` survive a power cut. `Ok(false)`
    /// where the host has no call for that: nothing is done then.
    fn sync_file_systems(&self, dirs: &[VPath]) -> io::Result<bool>;

    /// What stands at `path`; `None` if nothing does.
    fn look(&self, path: &VPath) -> io::Result<Option<Stat>> {
        match self.stat(path) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::Noent | Errno::Notdir) => Ok(None),
            Err(errno) => Err(io::Error::other(errno)),
        }
    }

    /// Whether a directory stands at `path`.
    fn is_dir(&self, path: &VPath) -> io::Result<bool> {
        Ok(self.look(path)?.is_some_and(|stat| stat.file_type == FileType::Directory))
    }

    /// Removes what stands at `path`, be it an empty directory; answers whether something did.
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
        crate::kernel::vfs::layer::Layer::stat(self, path)
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
