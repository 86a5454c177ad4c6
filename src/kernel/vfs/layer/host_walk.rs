//! From the root of a host directory to the directory that an operation changes. No symbolic link is followed:
//! one on the way is `ENOTDIR`, wherever it leads.

use std::io;
use std::ops::Deref;
use std::path::Path;
#[cfg(unix)]
use std::sync::Arc;

use cap_std::fs::Dir;
#[cfg(unix)]
use cap_std::fs::OpenOptions;

use super::host_dir::HostDir;
use super::host_syntax::native;
#[cfg(unix)]
use super::way;
use crate::kernel::vfs::path::VPath;

/// A directory reached from the root.
pub(super) enum Walked<'a> {
    /// The root itself.
    Root(&'a Dir),
    /// A directory below the root.
    #[cfg(unix)]
    Below(Arc<Dir>),
}

impl Deref for Walked<'_> {
    type Target = Dir;

    fn deref(&self) -> &Dir {
        match self {
            Self::Root(dir) => dir,
            #[cfg(unix)]
            Self::Below(dir) => dir,
        }
    }
}

impl HostDir {
    /// Opens the directory `path`.
    ///
    /// # Errors
    /// Those of the host; `NotADirectory` if a component is a symbolic link or a file.
    #[cfg(unix)]
    pub(super) fn walk_to(&self, path: &VPath) -> io::Result<Walked<'_>> {
        if path.is_root() {
            return Ok(Walked::Root(&self.dir));
        }
        let dir = way::open(&self.dir, native(path)?)?;
        Ok(Walked::Below(Arc::new(Dir::from_std_file(dir))))
    }

    /// Opens the directory that holds `path`; returns it with the name of `path` in it.
    pub(super) fn place<'a>(&'a self, path: &'a VPath) -> io::Result<(Walked<'a>, &'a Path)> {
        let native = native(path)?;
        if path.is_root() {
            return Ok((Walked::Root(&self.dir), Path::new(".")));
        }
        #[cfg(unix)]
        if let (Some((dir, _)), Some(name)) = (path.split_last(), native.file_name()) {
            return Ok((self.walk_to(&dir)?, Path::new(name)));
        }
        Ok((Walked::Root(&self.dir), native))
    }

    /// Syncs the directory `path`, so that its names survive a power cut; does nothing except on Unix.
    pub(in crate::kernel::vfs) fn sync_dir(&self, path: &VPath) -> io::Result<()> {
        #[cfg(unix)]
        return self.open_dir_to_sync(path)?.sync_all();
        #[cfg(not(unix))]
        {
            let _ = path;
            Ok(())
        }
    }

    #[cfg(unix)]
    fn open_dir_to_sync(&self, path: &VPath) -> io::Result<std::fs::File> {
        let mut options = OpenOptions::new();
        options.read(true);
        self.walk_to(path)?.open_with(".", &options).map(cap_std::fs::File::into_std)
    }

    /// Syncs the file systems of the directories `dirs`; returns whether the host can do that.
    pub(in crate::kernel::vfs) fn sync_file_systems(&self, dirs: &[VPath]) -> io::Result<bool> {
        #[cfg(target_os = "linux")]
        {
            use cap_std::fs::MetadataExt;
            let mut synced = std::collections::HashSet::new();
            for path in dirs {
                let dir = self.open_dir_to_sync(path)?;
                let device = cap_std::fs::Metadata::from_file(&dir)?.dev();
                if synced.insert(device) {
                    rustix::fs::syncfs(&dir)?;
                }
            }
            Ok(true)
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = dirs;
            Ok(false)
        }
    }
}
