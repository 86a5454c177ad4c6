//! Names and texts of links as the host has them, and those that it cannot have.

use std::io;
use std::path::{Path, PathBuf};

use super::portable::{NameProblem, windows_problem};
use crate::kernel::vfs::path::VPath;

/// Whether disks of this system find a file by names that differ from its own: in another case on Windows and macOS.
pub(in crate::kernel::vfs) const NAMES_FOLD: bool = cfg!(any(windows, target_vendor = "apple"));

/// `path` in the host's syntax.
///
/// # Errors
/// [`io::ErrorKind::InvalidFilename`] if the system has no file of such a name.
pub(super) fn native(path: &VPath) -> io::Result<&Path> {
    if cfg!(windows) && path.as_str().split('/').any(|name| windows_problem(name).is_some()) {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    Ok(Path::new(path.as_str()))
}

/// Why this system can have no file with the last name of `path`.
pub(in crate::kernel::vfs) fn problem(path: &VPath) -> Option<NameProblem> {
    if !cfg!(windows) {
        return None;
    }
    path.split_last().and_then(|(_, name)| windows_problem(name))
}

/// Why this system can have no symbolic link with the text `target`: a backslash separates names on Windows.
pub(in crate::kernel::vfs) fn link_problem(target: &str) -> Option<NameProblem> {
    (cfg!(windows) && target.contains('\\')).then_some(NameProblem::Character('\\'))
}

/// The text of a link, as programs see it on every system.
pub(super) fn link_text(target: PathBuf) -> Box<[u8]> {
    let mut text = target.into_os_string().into_encoded_bytes();
    if cfg!(windows) {
        text.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
    }
    text.into()
}
