//! Folders for the time of an installation.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::installed::{InstallError, InstalledToolchains};
use crate::base::ambient;
use crate::base::atomic_file::TEMPORARY_PREFIX;
use crate::base::disk::{self, DiskError};

/// The folder of downloads in that of installed toolchains.
pub const DOWNLOADS: &str = "downloads";

/// How long an interrupted download is kept.
const DOWNLOAD_KEPT: Duration = Duration::from_hours(24);

/// In such a folder: the file that the process holds to which it belongs.
const HELD: &str = "held";

/// A folder in the store, which disappears when it is dropped. [`InstalledToolchains::gc`] removes those of processes that
/// were killed.
#[derive(Debug)]
pub struct Temporary {
    files: PathBuf,
    _held: File,
    // Dropped last.
    _folder: TempDir,
}

impl Temporary {
    /// The folder, which is empty at first.
    pub fn path(&self) -> &Path {
        &self.files
    }
}

impl InstalledToolchains {
    /// Makes a folder in the store.
    ///
    /// # Errors
    /// [`InstallError::Disk`].
    pub fn temporary(&self) -> Result<Temporary, InstallError> {
        // Until it is held, `gc` must not find it.
        let _lock = self.lock()?;
        let folder = tempfile::Builder::new().prefix(TEMPORARY_PREFIX).tempdir_in(self.dir());
        let folder = folder.map_err(DiskError::new("create a folder in", self.dir()))?;
        let path = folder.path().join(HELD);
        let held = disk::open_lock(&path)?;
        held.lock().map_err(DiskError::new("lock", &path))?;
        let files = folder.path().join("files");
        disk::create_private_dir_all(&files)?;
        Ok(Temporary { files, _held: held, _folder: folder })
    }

    /// Removes what killed processes have left. Only for who holds the lock.
    pub(super) fn remove_abandoned(&self) -> Result<(), DiskError> {
        for path in disk::list_if_there(&self.dir().join(DOWNLOADS))? {
            let written = disk::metadata(&path)?.modified().ok();
            let is_old = |time| ambient::time_since(time).is_some_and(|age| age > DOWNLOAD_KEPT);
            if written.is_some_and(is_old) {
                disk::remove_file(&path)?;
            }
        }
        let of_records = [self.versions_dir(), self.projects_dir()];
        let folders = [self.dir()].into_iter().chain(of_records.iter().map(PathBuf::as_path));
        let mut paths = Vec::new();
        for folder in folders {
            paths.extend(disk::list_if_there(folder)?);
        }
        for path in paths {
            let name = path.file_name().unwrap_or_default();
            if !name.as_encoded_bytes().starts_with(TEMPORARY_PREFIX.as_bytes()) {
                continue;
            }
            // Its process removes it without the lock, so that it may be gone at any moment.
            let Ok(metadata) = disk::symlink_metadata(&path) else { continue };
            // Records are written under the lock.
            if !metadata.is_dir() {
                disk::remove_file(&path)?;
                continue;
            }
            let is_abandoned = match disk::open(&path.join(HELD)) {
                Ok(held) => held.try_lock().is_ok(),
                // Its process was killed while it made it, or removes it now.
                Err(_) => true,
            };
            if is_abandoned {
                // What cannot be removed must not keep what can be.
                let _ = disk::remove_dir_all(&path);
            }
        }
        Ok(())
    }
}
