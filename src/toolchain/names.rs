//! Names of programs and files.

use std::path::{Path, PathBuf};

use crate::kernel::vfs::VPath;

/// Why `name` cannot be the name of a program; `None` if it can.
pub(super) fn why_not(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("it is empty")
    } else if name == "." || name == ".." {
        Some("it is a directory")
    } else if name.contains(['/', '\\']) {
        Some("it contains a path separator")
    } else if name.contains(':') {
        Some("it contains a drive letter")
    } else if name.contains('\0') {
        Some("it contains NUL")
    } else {
        None
    }
}

/// Whether `c` can be in the name of a toolchain.
pub fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._+-".contains(c)
}

/// Longest path of a file of a toolchain, in bytes.
pub const PATH_BYTES_MAX: usize = 1024;

/// Most names of such a path.
pub const PATH_NAMES_MAX: usize = 64;

/// What [`is_below_a_folder`] expects, for people.
pub(super) fn path_rule() -> String {
    format!(
        "expected names separated by `/`, without `.`, `..`, `\\` and `:`, at most {PATH_NAMES_MAX} names and \
         {PATH_BYTES_MAX} bytes"
    )
}

/// Whether `path` is a path below a folder on any system: names separated by `/`, without `.`, `..`, `\` and `:`, at most
/// [`PATH_NAMES_MAX`].
pub fn is_below_a_folder(path: &str) -> bool {
    if path.len() > PATH_BYTES_MAX || path.split('/').count() > PATH_NAMES_MAX {
        return false;
    }
    let is_name = |name: &str| !matches!(name, "" | "." | "..");
    !path.contains(['\\', '\0', ':']) && path.split('/').all(is_name) && VPath::parse(path).is_ok()
}

/// The file or folder `path` of the folder `dir`.
pub fn at(dir: &Path, path: &str) -> PathBuf {
    path.split('/').filter(|name| *name != ".").fold(dir.to_owned(), |dir, name| dir.join(name))
}
