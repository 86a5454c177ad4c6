//! Which file of the host a program's name means.

use std::ffi::{OsStr, OsString};

#[cfg(not(windows))]
use crate::base::{ambient, disk};

/// Whether a folder of `PATH` has the program `name`, on Windows with an extension of `PATHEXT`. `name` has no separator.
pub(super) fn is_in_path(name: &str) -> bool {
    #[cfg(windows)]
    return which::which(name).is_ok();
    #[cfg(not(windows))]
    {
        let path = ambient::env_var("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|dir| disk::is_executable(&dir.join(name)))
    }
}

/// What to start for `program`: on Windows, the file that `cmd` would start, with an extension of `PATHEXT` such as
/// `.cmd`; elsewhere the system looks the name up.
pub(crate) fn to_start(program: &OsStr) -> OsString {
    #[cfg(windows)]
    if let Ok(found) = which::which(program) {
        return found.into_os_string();
    }
    program.to_owned()
}
