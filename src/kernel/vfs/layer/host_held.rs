//! A directory of the host that stays open while several things are asked of it.

use super::host_dir::HostDir;
#[cfg(unix)]
use super::host_dir::{blob, errno, open_unfollowed};
use super::host_examined::Examined;
#[cfg(unix)]
use super::host_examined::examined;
#[cfg(unix)]
use super::host_syntax::NAMES_FOLD;
#[cfg(unix)]
use super::host_walk::Walked;
use super::{Blob, DirEntry};
use crate::base::errno::Errno;
use crate::kernel::vfs::path::VPath;

/// A directory beneath a [`HostDir`]. On Unix all answers are of the directory that was opened, wherever it is moved;
/// elsewhere they are of its path.
pub(in crate::kernel::vfs) struct HeldDir<'a> {
    host: &'a HostDir,
    path: &'a VPath,
    #[cfg(unix)]
    dir: Walked<'a>,
}

impl HostDir {
    /// Opens the directory `path`. No symbolic link is followed.
    ///
    /// # Errors
    /// `ENOENT`; `ENOTDIR`; those of the host.
    pub(in crate::kernel::vfs) fn hold<'a>(
        &'a self,
        path: &'a VPath,
    ) -> Result<HeldDir<'a>, Errno> {
        #[cfg(unix)]
        let dir = self.walk_to(path).map_err(errno)?;
        #[cfg(unix)]
        if let Walked::Below(dir) = &dir {
            self.last_held.set(path, dir);
        }
        Ok(HeldDir {
            host: self,
            path,
            #[cfg(unix)]
            dir,
        })
    }

    /// The directory `path` without opening it, if it is the one that was opened last by [`HostDir::hold`]. Another one
    /// may be there by now. `None` except on Unix.
    pub(in crate::kernel::vfs) fn hold_again<'a>(&'a self, path: &'a VPath) -> Option<HeldDir<'a>> {
        #[cfg(unix)]
        return Some(HeldDir { host: self, path, dir: Walked::Below(self.last_held.get(path)?) });
        #[cfg(not(unix))]
        {
            let _ = path;
            None
        }
    }

    /// Opens the file `path` as [`Layer::open`] does, in the directory that was opened last by [`HostDir::hold`]. Returns
    /// `None` if the file is in another directory, or cannot be opened.
    ///
    /// [`Layer::open`]: super::Layer::open
    pub(in crate::kernel::vfs) fn open_again(&self, path: &VPath) -> Option<Blob> {
        #[cfg(unix)]
        {
            let (dir, name) = path.split_last()?;
            let dir = self.last_held.get(&dir)?;
            self.expect_exact(path).ok()?;
            blob(open_unfollowed(&dir, name.as_ref()).ok()?).ok()
        }
        #[cfg(not(unix))]
        {
            let _ = path;
            None
        }
    }
}

impl HeldDir<'_> {
    /// The directory itself.
    ///
    /// # Errors
    /// Those of the host.
    pub(in crate::kernel::vfs) fn examine_itself(&self) -> Result<Examined, Errno> {
        #[cfg(unix)]
        return self.dir.dir_metadata().map(|metadata| examined(&metadata)).map_err(errno);
        #[cfg(not(unix))]
        self.host.examine(self.path)
    }

    /// The entry `name`; a symbolic link is not followed.
    ///
    /// # Errors
    /// `ENOENT`; those of the host.
    pub(in crate::kernel::vfs) fn examine(&self, name: &str) -> Result<Examined, Errno> {
        #[cfg(unix)]
        {
            let metadata = self.dir.symlink_metadata(name).map_err(errno)?;
            if NAMES_FOLD {
                self.host.expect_exact(&self.path.join(name)).map_err(errno)?;
            }
            Ok(examined(&metadata))
        }
        #[cfg(not(unix))]
        self.host.examine(&self.path.join(name))
    }

    /// The entries, as [`HostDir::list_with_inodes`] returns them.
    ///
    /// # Errors
    /// Those of the host.
    pub(in crate::kernel::vfs) fn list(&self) -> Result<Vec<(DirEntry, u64)>, Errno> {
        #[cfg(unix)]
        return self.host.sorted(self.path, self.dir.entries());
        #[cfg(not(unix))]
        self.host.list_with_inodes(self.path)
    }
}
