//! The way to what is written in a directory of the host. No link is followed on it: a directory that
//! somebody has put a link in the place of is no directory any more, wherever the link leads.

use std::io;
use std::ops::Deref;
use std::path::Path;

use cap_std::fs::Dir;
#[cfg(unix)]
use cap_std::fs::OpenOptions;

use super::host_dir::{HostDir, native};
#[cfg(unix)]
use super::way;
use crate::kernel::vfs::path::VPath;

/// A directory that was walked to.
pub(super) enum Walked<'a> {
    /// The root, which is open anyway.
    Root(&'a Dir),
    /// One below it.
    #[cfg(unix)]
    Below(Dir),
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
    /// The directory `path`.
    ///
    /// # Errors
    /// As the host answers; `NotADirectory` if there is a link, or a file, on the way or at its end.
    #[cfg(unix)]
    fn walk_to(&self, path: &VPath) -> io::Result<Walked<'_>> {
        if path.is_root() {
            return Ok(Walked::Root(&self.dir));
        }
        let dir = way::open(&self.dir, native(path)?)?;
        Ok(Walked::Below(Dir::from_std_file(dir)))
    }

    /// The directory that holds `path`, and the name by which it does.
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

    /// Makes the names in the directory `path` survive a power cut, where a directory can be synced.
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

    /// Makes all of the file systems that the directories `dirs` lie in survive a power cut; answers
    /// whether the host can do that.
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
