//! Files that appear whole or not at all.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

use crate::base::disk::{self, DiskError};
use crate::base::patience;

/// Prefix of temporary files. One that is left when nothing is being written belonged to a process that
/// was killed.
pub const TEMPORARY_PREFIX: &str = ".belljar-";

/// Writes `parts`, in order, as [`write_with`] does.
///
/// # Errors
/// As [`write_with`].
pub fn write(path: &Path, parts: &[&[u8]]) -> Result<(), DiskError> {
    write_with(path, |file| {
        parts
            .iter()
            .try_for_each(|part| file.write_all(part))
            .map_err(DiskError::new("write", path))
    })
}

/// Lets `write` fill a temporary file beside `path`, syncs it and renames it to `path`. Readers see the old file or the
/// new one; a crash leaves at most the temporary file. On Unix only this user can read and write it.
///
/// # Errors
/// Those of `write`; the directory does not exist or cannot be written, the disk is full, or `path` is not a regular
/// file. `path` is then unchanged.
pub fn write_with<E: From<DiskError>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    fill(path, Builder::new().prefix(TEMPORARY_PREFIX), Existing::Goes, write)
}

/// As [`write_with`], but the `umask` of the process says who can read the file, as for one that an editor writes.
///
/// # Errors
/// As [`write_with`].
#[cfg(feature = "cli")]
pub fn write_shared_with<E: From<DiskError>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    let mut builder = Builder::new();
    builder.prefix(TEMPORARY_PREFIX);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    fill(path, &builder, Existing::Goes, write)
}

/// As [`write()`], but a power cut may leave a file of any content: for files whose content is checked when they are read.
///
/// # Errors
/// As [`write()`].
pub fn write_unsynced(path: &Path, parts: &[&[u8]]) -> Result<(), DiskError> {
    disk::expect_replaceable(path)?;
    let mut file = Builder::new()
        .prefix(TEMPORARY_PREFIX)
        .tempfile_in(disk::folder_of(path))
        .map_err(DiskError::new("create a temporary file for", path))?;
    for part in parts {
        file.write_all(part).map_err(DiskError::new("write", path))?;
    }
    rename(file, path).map_err(DiskError::new("replace", path))
}

/// Writes `bytes` to a new file `path`, which only this user can read: as [`write()`], but replaces nothing.
///
/// # Errors
/// As [`write()`]; something exists at `path`.
#[cfg(feature = "import")]
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let builder = &mut Builder::new();
    let write = |file: &mut File| file.write_all(bytes).map_err(DiskError::new("write", path));
    fill(path, builder.prefix(TEMPORARY_PREFIX), Existing::Stays, write)
}

/// What becomes of a file that exists already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    /// It is replaced.
    Goes,
    /// It stays, and nothing is written.
    #[cfg(feature = "import")]
    Stays,
}

/// Renames the complete `file` to `path`, and replaces what is there.
///
/// # Errors
/// Those of the host.
pub fn rename(file: NamedTempFile, path: &Path) -> io::Result<()> {
    persist(file, path, Existing::Goes)
}

fn persist(file: NamedTempFile, path: &Path, existing: Existing) -> io::Result<()> {
    let mut file = Some(file);
    patience::repeat(|| {
        let complete = file.take().expect("a failed renaming gives the file back");
        let persisted = match existing {
            Existing::Goes => complete.persist(path),
            #[cfg(feature = "import")]
            Existing::Stays => complete.persist_noclobber(path),
        };
        persisted.map(drop).map_err(|failed| {
            file = Some(failed.file);
            failed.error
        })
    })
}

fn fill<E: From<DiskError>>(
    path: &Path,
    builder: &Builder<'_, '_>,
    existing: Existing,
    write: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    let fail = |operation| DiskError::new(operation, path);
    disk::expect_replaceable(path)?;
    let mut file =
        builder.tempfile_in(disk::folder_of(path)).map_err(fail("create a temporary file for"))?;
    write(file.as_file_mut())?;
    file.as_file().sync_all().map_err(fail("sync"))?;
    Ok(persist(file, path, existing).map_err(fail("replace"))?)
}
