//! The host's files by path, for belljar's own needs (modules, caches, reports).
//!
//! Guests never come here: their files go through the kernel and its capability-based host layer.
//! Every error carries the operation and the path.
#![allow(clippy::disallowed_methods, reason = "this file is the door to the host's files by path")]

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// A host file operation that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}", path.display())]
pub struct DiskError {
    /// What was tried, as a verb: `read`, `create folder`.
    pub operation: &'static str,
    /// The path as the caller gave it.
    pub path: PathBuf,
    /// What the host answered.
    pub source: io::Error,
}

impl DiskError {
    /// Wraps `source` for `map_err`.
    pub fn new(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { operation, path: path.to_owned(), source }
    }
}

/// The whole content of a file.
pub fn read(path: &Path) -> Result<Vec<u8>, DiskError> {
    std::fs::read(path).map_err(DiskError::new("read", path))
}

/// A file opened for reading.
pub fn open(path: &Path) -> Result<File, DiskError> {
    File::open(path).map_err(DiskError::new("open", path))
}

/// A file created, or emptied, for writing.
pub fn create(path: &Path) -> Result<File, DiskError> {
    File::create(path).map_err(DiskError::new("create", path))
}

/// A file opened for reading and writing, and created if it is not there.
pub fn open_or_create(path: &Path) -> Result<File, DiskError> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).map_err(DiskError::new("create", path))
}

/// A file opened for reading from its start and writing at its end.
pub fn open_append(path: &Path) -> Result<File, DiskError> {
    File::options().read(true).append(true).open(path).map_err(DiskError::new("open", path))
}

/// Gives `from` the name `to`, whatever stood there.
pub fn rename(from: &Path, to: &Path) -> Result<(), DiskError> {
    std::fs::rename(from, to).map_err(DiskError::new("rename", from))
}

/// Metadata of what `path` names, links followed.
pub fn metadata(path: &Path) -> Result<Metadata, DiskError> {
    std::fs::metadata(path).map_err(DiskError::new("examine", path))
}

/// Metadata of `path` itself: a symbolic link is not followed.
pub fn symlink_metadata(path: &Path) -> Result<Metadata, DiskError> {
    std::fs::symlink_metadata(path).map_err(DiskError::new("examine", path))
}

/// The names in a folder, sorted.
pub fn list(path: &Path) -> Result<Vec<PathBuf>, DiskError> {
    let entries = std::fs::read_dir(path).map_err(DiskError::new("list", path))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()
        .map_err(DiskError::new("list", path))?;
    paths.sort();
    Ok(paths)
}

/// Removes a file. A file that is not there is no error.
pub fn remove_file(path: &Path) -> Result<(), DiskError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(DiskError::new("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Removes a folder that is empty.
pub fn remove_empty_dir(path: &Path) -> Result<(), DiskError> {
    std::fs::remove_dir(path).map_err(DiskError::new("remove", path))
}

/// Creates a folder and its parents; on Unix, new ones can be entered by this user alone.
pub fn create_private_dir_all(path: &Path) -> Result<(), DiskError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(DiskError::new("create folder", path))
}

/// The absolute path of `path` without links, `.` and `..`. What does not exist at its end stays as
/// it is.
pub fn canonical(path: &Path) -> Result<PathBuf, DiskError> {
    match std::fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match (path.parent(), path.file_name()) {
                (Some(parent), Some(name)) => {
                    let parent =
                        if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                    Ok(canonical(parent)?.join(name))
                }
                _ => Err(DiskError::new("find", path)(error)),
            }
        }
        found => found.map_err(DiskError::new("find", path)),
    }
}

/// The process's current folder.
pub fn current_dir() -> Result<PathBuf, DiskError> {
    std::env::current_dir().map_err(DiskError::new("find", Path::new(".")))
}
