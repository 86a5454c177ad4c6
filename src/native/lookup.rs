//! Which file of the host a program's name means.

use std::ffi::{OsStr, OsString};

/// What to start for `program`: on Windows, the file that `cmd` would start, with an extension of `PATHEXT` such as
/// `.cmd`; elsewhere the system looks the name up.
pub(super) fn to_start(program: &OsStr) -> OsString {
    #[cfg(windows)]
    if let Ok(found) = which::which(program) {
        return found.into_os_string();
    }
    program.to_owned()
}
