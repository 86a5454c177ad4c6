//! Names of programs.

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
