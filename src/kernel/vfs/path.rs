//! Paths inside the namespace and inside layers.

use std::fmt;
use std::sync::Arc;

use crate::base::errno::Errno;

/// Longest name of one directory entry, in bytes (POSIX `NAME_MAX`).
pub const NAME_MAX: usize = 255;

/// Longest path in bytes: `PATH_MAX` of Linux without the closing NUL.
pub const PATH_BYTES_MAX: usize = 4095;

/// Symbolic links followed in one lookup before it fails with `ELOOP`, as on Linux.
pub const SYMLOOP_MAX: u32 = 40;

/// A normalised path relative to the root of a layer: names joined by single slashes, without
/// `.`, `..`, empty names or NUL. The root itself is the empty path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VPath(Arc<str>);

impl VPath {
    /// The root of a layer.
    pub fn root() -> Self {
        Self(Arc::from(""))
    }

    /// Normalises `path` lexically.
    ///
    /// # Errors
    /// `EPERM` if a `..` leaves the root; `EINVAL` on NUL; `ENAMETOOLONG` if a name exceeds [`NAME_MAX`] bytes.
    pub fn parse(path: &str) -> Result<Self, Errno> {
        let mut names: Vec<&str> = Vec::new();
        for name in path.split('/') {
            match name {
                "" | "." => {}
                ".." => {
                    names.pop().ok_or(Errno::Perm)?;
                }
                name => names.push(check_name(name)?),
            }
        }
        Ok(Self(names.join("/").into()))
    }

    /// The path of the entry `name`, a valid name, in this directory.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        if self.0.is_empty() {
            return Self(name.into());
        }
        let mut joined = String::with_capacity(self.0.len() + 1 + name.len());
        joined.push_str(&self.0);
        joined.push('/');
        joined.push_str(name);
        Self(joined.into())
    }

    /// The absolute path of `self` in a tree that is mounted at the absolute path `at`.
    pub fn absolute(&self, at: &str) -> String {
        let at = at.trim_end_matches('/');
        if self.is_root() && !at.is_empty() { at.to_owned() } else { format!("{at}/{}", self.0) }
    }

    /// The path as text; empty for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path of the directory that holds this entry, and the entry's name; `None` for the root.
    pub fn split_last(&self) -> Option<(VPath, &str)> {
        if self.is_root() {
            return None;
        }
        Some(match self.0.rsplit_once('/') {
            Some((parent, name)) => (Self(parent.into()), name),
            None => (Self::root(), &self.0),
        })
    }
}

impl fmt::Display for VPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_root() { "." } else { &self.0 })
    }
}

impl fmt::Debug for VPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Checks one name of a path.
///
/// # Errors
/// `EINVAL` if it holds NUL, `ENAMETOOLONG` if it is longer than [`NAME_MAX`].
pub fn check_name(name: &str) -> Result<&str, Errno> {
    if name.len() > NAME_MAX {
        return Err(Errno::Nametoolong);
    }
    if memchr::memchr(0, name.as_bytes()).is_some() {
        return Err(Errno::Inval);
    }
    Ok(name)
}

/// The path of `path` relative to the directory `dir`, empty if they are equal; `None` if it is not in `dir`.
/// Both are absolute and have no `.`, `..` or empty names.
pub fn beneath<'a>(dir: &str, path: &'a str) -> Option<&'a str> {
    let rest = path.strip_prefix(dir.trim_end_matches('/'))?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beneath_compares_whole_names() {
        for (dir, path, expected) in [
            ("/a", "/a/b/c", Some("b/c")),
            ("/a", "/a", Some("")),
            ("/", "/a", Some("a")),
            ("/", "/", Some("")),
            ("/a", "/ab", None),
            ("/a/b", "/a", None),
        ] {
            assert_eq!(beneath(dir, path), expected, "{dir} {path}");
        }
    }

    #[test]
    fn parse_normalises() {
        for (given, expected) in [("", ""), ("/", ""), ("a//b/./c/", "a/b/c"), ("/a/../b", "b")] {
            assert_eq!(VPath::parse(given).unwrap().as_str(), expected, "{given}");
        }
        assert_eq!(VPath::parse("a/../../b"), Err(Errno::Perm));
        assert_eq!(VPath::parse("a\0b"), Err(Errno::Inval));
        assert_eq!(VPath::parse(&"x".repeat(256)), Err(Errno::Nametoolong));
    }

    #[test]
    fn join_and_split_last_are_inverse() {
        let path = VPath::root().join("a").join("b");
        let (parent, name) = path.split_last().unwrap();
        assert_eq!((parent.as_str(), name), ("a", "b"));
        assert_eq!(parent.split_last().unwrap(), (VPath::root(), "a"));
        assert_eq!(VPath::root().split_last(), None);
    }
}
