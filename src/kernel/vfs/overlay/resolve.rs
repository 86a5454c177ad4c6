//! From a path to a node, component by component.

use std::borrow::Cow;

use memchr::memchr;

use super::Overlay;
use super::node::{Body, NodeId};
use crate::base::errno::Errno;
use crate::kernel::vfs::path::{SYMLOOP_MAX, check_name};

/// Where a lookup starts, and the directory that it must not leave.
///
/// Every operation that takes a path has these errors:
/// - `EPERM` if the path is absolute, or a `..` in it leaves `root`;
/// - `ENOENT` if it is empty, a component on the way does not exist, or a symbolic link leads out of `root`;
/// - `ENOTDIR` if a component on the way is not a directory;
/// - `ELOOP` after [`SYMLOOP_MAX`] symbolic links;
/// - `ENAMETOOLONG`, `EINVAL` (NUL in a name); those of the layers below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Base {
    /// The directory in which relative paths start.
    pub dir: NodeId,
    /// The directory that the lookup must not leave. It holds `dir`, unless `dir` was moved away.
    pub root: NodeId,
}

/// Whether a symbolic link in the last component is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Follow {
    /// Followed.
    Yes,
    /// Not followed, unless a slash comes after it.
    No,
}

/// The result of a lookup.
#[derive(Debug)]
pub(super) struct Resolved<'a> {
    /// The directory that holds the entry; if `name` is empty, the entry itself.
    pub dir: NodeId,
    /// The entry's name; empty if the path ends in `.` or `..`.
    pub name: Cow<'a, str>,
    /// The node, if the entry exists.
    pub node: Option<NodeId>,
    /// The path ends in a slash, so only a directory is accepted.
    pub wants_dir: bool,
}

impl Resolved<'_> {
    /// The node, which must exist, and be a directory if the path ends in a slash.
    pub fn existing(&self, overlay: &Overlay) -> Result<NodeId, Errno> {
        let node = self.node.ok_or(Errno::Noent)?;
        if self.wants_dir {
            overlay.expect_dir(node)?;
        }
        Ok(node)
    }
}

/// The part of a path that remains.
struct Rest<'a> {
    text: Cow<'a, str>,
    at: usize,
}

impl Overlay {
    /// Resolves `path` from `base`.
    ///
    /// # Errors
    /// See [`Base`].
    pub(super) fn resolve<'a>(
        &mut self,
        base: Base,
        path: &'a str,
        follow: Follow,
    ) -> Result<Resolved<'a>, Errno> {
        self.resolve_last(base, path, follow, false)
    }

    /// As [`Overlay::resolve`]; if `creates` and the path ends in a slash after a name, `EISDIR`, as on Linux.
    pub(super) fn resolve_last<'a>(
        &mut self,
        base: Base,
        path: &'a str,
        follow: Follow,
        creates: bool,
    ) -> Result<Resolved<'a>, Errno> {
        self.walk(base, path, follow, creates, false)
    }

    /// Looks up the directory `path` from the directory `dir`, or from the root if the path is absolute. `..` in
    /// the root is the root.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, and those of [`Base`].
    pub(super) fn lookup_dir(&mut self, dir: NodeId, path: &str) -> Result<NodeId, Errno> {
        let root = self.root();
        let (dir, path) = match path.strip_prefix('/').map(|rest| rest.trim_start_matches('/')) {
            None => (dir, path),
            Some("") => (root, "."),
            Some(path) => (root, path),
        };
        let found = self.walk(Base { dir, root }, path, Follow::Yes, false, true)?;
        let id = found.node.ok_or(Errno::Noent)?;
        self.expect_dir(id)?;
        Ok(id)
    }

    /// As [`Overlay::resolve_last`]; with `from_top`, `..` in the root is the root, as on Linux, and not `EPERM`.
    fn walk<'a>(
        &mut self,
        base: Base,
        path: &'a str,
        follow: Follow,
        creates: bool,
        mut from_top: bool,
    ) -> Result<Resolved<'a>, Errno> {
        self.check_path(path)?;
        self.expect_dir(base.dir)?;
        let base = self.confine(base);
        let mut rest = Rest { text: Cow::Borrowed(path), at: 0 };
        let mut dir = base.dir;
        let mut links = 0;
        // While an absolute link is resolved from the root, before it reaches `base.root`.
        let mut outside = false;
        // A directory of the root entered through the worktree, which is then its parent.
        let mut entered: Option<NodeId> = None;
        loop {
            let (name, is_last, wants_dir) = next_component(&mut rest);
            let finish = |dir, name, node| match node {
                _ if !outside => Ok(Resolved { dir, name, node, wants_dir }),
                // Its name is outside: within `base.root` it is `.`.
                Some(root) if root == base.root => {
                    Ok(Resolved { dir: root, name: Cow::Borrowed(""), node, wants_dir })
                }
                _ => Err(Errno::Noent),
            };
            let seen = |errno| if outside { Errno::Noent } else { errno };
            if matches!(&*name, "" | "." | "..") {
                if name == ".." {
                    if dir == base.root && !(from_top && dir == self.root()) {
                        return Err(if links == 0 { Errno::Perm } else { Errno::Noent });
                    }
                    dir = self.above(dir, entered)?;
                }
                if is_last {
                    return finish(dir, Cow::Borrowed(""), Some(dir));
                }
                continue;
            }
            if creates && wants_dir {
                return Err(seen(Errno::Isdir));
            }
            check_name(&name).map_err(|errno| self.in_present_dir(dir, errno))?;
            let mut found = self.child(dir, &name).map_err(seen)?;
            if found.is_none() && base.root == self.root() {
                found = self.shown(dir, &name);
                entered = found.or(entered);
            }
            let Some(node) = found else {
                if is_last {
                    return finish(dir, name, None);
                }
                return Err(Errno::Noent);
            };
            match &self.node(node).body {
                Body::Symlink(target) if !is_last || wants_dir || follow == Follow::Yes => {
                    links += 1;
                    if links > SYMLOOP_MAX {
                        return Err(seen(Errno::Loop));
                    }
                    let text = self.spliced(target, &rest.text[rest.at..], wants_dir)?;
                    if target.starts_with('/') {
                        // An absolute link starts at the root, where `..` is the root.
                        from_top = true;
                        (dir, outside) = (self.root(), self.root() != base.root);
                    }
                    rest = Rest { text: Cow::Owned(text), at: 0 };
                    self.note_link_read(node);
                }
                _ if is_last => return finish(dir, name, Some(node)),
                Body::Dir(_) => {
                    dir = node;
                    outside &= dir != base.root;
                }
                _ => return Err(seen(Errno::Notdir)),
            }
        }
    }

    /// `errno`, or `ENOENT` if `dir` was removed: there, nothing is looked up.
    fn in_present_dir(&self, dir: NodeId, errno: Errno) -> Errno {
        if self.dir(dir).parent.is_none() { Errno::Noent } else { errno }
    }

    fn check_path(&self, path: &str) -> Result<(), Errno> {
        if path.is_empty() {
            return Err(Errno::Noent);
        }
        if path.len() > self.limits.path_bytes_max {
            return Err(Errno::Nametoolong);
        }
        if path.starts_with('/') { Err(Errno::Perm) } else { Ok(()) }
    }

    /// The parent of `dir`: the worktree, if `dir` was `entered` through it.
    fn above(&self, dir: NodeId, entered: Option<NodeId>) -> Result<NodeId, Errno> {
        match self.dir_with_root().filter(|_| entered == Some(dir)) {
            Some(worktree) => Ok(worktree),
            None => self.dir(dir).parent.ok_or(Errno::Noent),
        }
    }

    /// The path that replaces a symbolic link to `target` and the `remaining` components.
    fn spliced(&self, target: &str, remaining: &str, wants_dir: bool) -> Result<String, Errno> {
        if target.is_empty() {
            return Err(Errno::Noent);
        }
        let mut text = target.to_owned();
        if !remaining.is_empty() || wants_dir {
            text.push('/');
            text.push_str(remaining);
        }
        // A path and a link text each have their limit, and a path follows a limited number of links.
        let is_long = self.kernel_version < 11 && text.len() > self.limits.path_bytes_max;
        if is_long { Err(Errno::Nametoolong) } else { Ok(text) }
    }

    /// Confines lookups from a directory that was moved out of `base.root` to that directory.
    fn confine(&self, base: Base) -> Base {
        let is_inside = base.dir == base.root
            || base.root == self.root()
            || self.is_beneath(base.dir, base.root);
        if is_inside { base } else { Base { root: base.dir, ..base } }
    }

    /// Whether `path` exists from `base`, or, with `makes`, could be created.
    pub fn reaches(&mut self, base: Base, path: &str, makes: bool) -> bool {
        self.resolve(base, path, Follow::No).is_ok_and(|found| makes || found.node.is_some())
    }

    /// Resolves `path` to an existing node.
    pub(in crate::kernel::vfs) fn lookup(
        &mut self,
        base: Base,
        path: &str,
        follow: Follow,
    ) -> Result<NodeId, Errno> {
        self.resolve(base, path, follow)?.existing(self)
    }
}

/// `path` without trailing slashes, for calls that do not follow a symbolic link before them; unchanged if it
/// has nothing else.
pub(super) fn without_slashes(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => path,
        trimmed => trimmed,
    }
}

/// Removes the next component from `rest`: its name, whether it is the last, and whether the last has a slash
/// after it.
fn next_component<'a>(rest: &mut Rest<'a>) -> (Cow<'a, str>, bool, bool) {
    let len = rest.text.len();
    let bytes = rest.text.as_bytes();
    let mut start = rest.at;
    while start < len && bytes[start] == b'/' {
        start += 1;
    }
    let end = memchr(b'/', &bytes[start..]).map_or(len, |at| start + at);
    let mut next = end;
    while next < len && bytes[next] == b'/' {
        next += 1;
    }
    rest.at = next;
    let is_last = next == len;
    let name = match &rest.text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[start..end]),
        Cow::Owned(text) => Cow::Owned(text[start..end].to_owned()),
    };
    (name, is_last, is_last && next > end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::vfs::VfsLimits;

    #[test]
    fn directory_moved_out_of_root_confines_lookups() {
        let mut overlay = Overlay::new(VfsLimits::default(), 1);
        let top = overlay.host_base();
        for dir in ["given", "given/inner", "other"] {
            overlay.create_dir(top, dir, 1).unwrap();
        }
        let root = overlay.open_dir("/given").unwrap();
        let base = Base { dir: overlay.open_dir("/given/inner").unwrap(), root };
        assert!(overlay.reaches(base, "../inner", false), "still within its root");
        overlay.rename((top, "given/inner"), (top, "inner"), 2).unwrap();
        for out in ["..", "../other", "../given"] {
            assert!(!overlay.reaches(base, out, false), "{out}");
        }
    }
}
