//! Which file of the host a program's name means.

use std::ffi::{OsStr, OsString};

use crate::base::ambient;

/// Whether `PATH` has the program `name`, which is no path: on Windows with an extension of `PATHEXT`.
pub(super) fn is_in_path(name: &str) -> bool {
    let path = ambient::env_var("PATH").unwrap_or_default();
    #[cfg(windows)]
    return which::which_in(name, Some(path), ".").is_ok();
    #[cfg(not(windows))]
    return std::env::split_paths(&path)
        .any(|dir| crate::base::disk::is_executable(&dir.join(name)));
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
