//! The present path of an open directory of the host.

use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

use super::host_dir::HostDir;
#[cfg(target_os = "linux")]
use crate::base::disk;
use crate::base::exhausted::is_exhausted;

impl HostDir {
    /// The present canonical path of this directory, which may have been moved since it was opened; `None` if
    /// the system does not know it.
    ///
    /// # Errors
    /// The host is exhausted: nothing can be said.
    pub(crate) fn path_now(&self) -> io::Result<Option<PathBuf>> {
        let id = self.id()?;
        let found = |path: &Path| match Self::open(path) {
            Ok(there) => Ok((there.id()? == id).then(|| there.path().to_owned())),
            Err(error) if is_exhausted(&error) => Err(error),
            Err(_) => Ok(None),
        };
        match found(self.path())? {
            Some(path) => Ok(Some(path)),
            None => path_of(self.dir()).map_or(Ok(None), |path| found(&path)),
        }
    }
}

/// The path that the system has for an open directory.
#[cfg(target_os = "linux")]
fn path_of(dir: &Dir) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    disk::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd()).as_ref()).ok()
}

#[cfg(target_vendor = "apple")]
fn path_of(dir: &Dir) -> Option<PathBuf> {
    let path = rustix::fs::getpath(dir).ok()?;
    Some(std::os::unix::ffi::OsStringExt::from_vec(path.into_bytes()))
        .map(|path: std::ffi::OsString| path.into())
}

/// Windows does not let an open directory be moved.
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn path_of(_dir: &Dir) -> Option<PathBuf> {
    None
}
