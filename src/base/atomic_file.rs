//! Files that are either whole or not there, whatever happens while they are written.

use std::io::Write;
use std::path::Path;

use crate::base::disk::{self, DiskError};

/// How the names of files begin that are not whole yet. One that is there while nobody writes was
/// left by a process that was killed.
pub const TEMPORARY_PREFIX: &str = ".belljar-";

/// Writes `parts`, one after the other, to `path`: into a temporary file beside it, synced, then
/// renamed over it. Readers see the old file or the new one; a crash leaves at most a temporary.
///
/// On Unix the file can be read and written by this user alone.
///
/// # Errors
/// The folder is missing or cannot be written, or the disk is full; `path` is a folder, a device, or
/// whatever else is no file. It is then as it was.
pub fn write(path: &Path, parts: &[&[u8]]) -> Result<(), DiskError> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let fail = |operation| DiskError::new(operation, path);
    disk::expect_replaceable(path)?;
    let mut file = tempfile::Builder::new()
        .prefix(TEMPORARY_PREFIX)
        .tempfile_in(folder)
        .map_err(fail("create a temporary file for"))?;
    for part in parts {
        file.write_all(part).map_err(fail("write"))?;
    }
    file.as_file().sync_all().map_err(fail("sync"))?;
    file.persist(path).map_err(|error| fail("replace")(error.error))?;
    Ok(())
}
