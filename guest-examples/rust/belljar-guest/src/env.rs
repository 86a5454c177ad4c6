//! The current directory, which the standard library cannot change on WASI.

use std::io;
use std::path::{Path, PathBuf};

/// The absolute path of the current directory, without links.
///
/// # Errors
/// `NotFound` if it was removed.
pub fn current_dir() -> io::Result<PathBuf> {
    #[cfg(target_os = "wasi")]
    return crate::sys::current_dir().map(PathBuf::from);
    #[cfg(not(target_os = "wasi"))]
    return std::env::current_dir();
}

/// Changes it: relative paths begin there, and children start there.
///
/// # Errors
/// `NotFound`, `NotADirectory`; `Unsupported` under `--no-worktree`.
pub fn set_current_dir(path: impl AsRef<Path>) -> io::Result<()> {
    #[cfg(target_os = "wasi")]
    return crate::sys::set_current_dir(crate::sys::text(path.as_ref().as_os_str())?);
    #[cfg(not(target_os = "wasi"))]
    return std::env::set_current_dir(path);
}
