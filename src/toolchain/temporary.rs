//! Folders for the time of an installation.

use std::fs::File;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::installed::{InstallError, InstalledToolchains};
use crate::base::atomic_file::TEMPORARY_PREFIX;
use crate::base::disk::{self, DiskError};

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
        for path in disk::list_if_there(self.dir())? {
            let name = path.file_name().unwrap_or_default();
            if !name.as_encoded_bytes().starts_with(TEMPORARY_PREFIX.as_bytes()) {
                continue;
            }
            // Records are written under the lock.
            if !disk::symlink_metadata(&path)?.is_dir() {
                disk::remove_file(&path)?;
                continue;
            }
            let held = disk::open_lock(&path.join(HELD))?;
            if held.try_lock().is_ok() {
                drop(held);
                disk::remove_dir_all(&path)?;
            }
        }
        Ok(())
    }
}
