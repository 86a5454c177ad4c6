//! From a path to a node, component by component.

use std::borrow::Cow;

use super::Overlay;
use super::node::{Body, NodeId};
use crate::base::errno::Errno;
use crate::kernel::vfs::path::{SYMLOOP_MAX, check_name};

/// Where a lookup starts and what it may not leave.
///
/// Every operation that takes a path fails as lookups do:
/// - `EPERM` if the path is absolute, or a `..` in it leaves `root`;
/// - `ENOENT` if it is empty, if a component on the way does not exist, or if a symbolic link leads
///   outside `root`: seen from inside, there is nothing;
/// - `ENOTDIR` if a component on the way is no directory;
/// - `ELOOP` after [`SYMLOOP_MAX`] symbolic links;
/// - `ENAMETOOLONG`, `EINVAL` (NUL in a name); and as the layers below answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Base {
    /// The directory that relative paths are relative to.
    pub dir: NodeId,
    /// The directory whose tree the lookup stays in: it holds `dir`, if `dir` was not moved away.
    pub root: NodeId,
}

/// Whether the last component is followed if it is a symbolic link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Follow {
    /// It is.
    Yes,
    /// It is not, unless a slash comes after it.
    No,
}

/// What a path denotes.
#[derive(Debug)]
pub(super) struct Resolved<'a> {
    /// The directory that holds the entry; the directory itself where `name` is empty.
    pub dir: NodeId,
    /// The entry's name; empty if the path ends in `.` or `..`.
    pub name: Cow<'a, str>,
    /// What stands there now.
    pub node: Option<NodeId>,
    /// Whether the path ends in a slash, so that only a directory will do.
    pub wants_dir: bool,
}

impl Resolved<'_> {
    /// The node, which must exist, and be a directory if a slash said so.
    pub fn existing(&self, overlay: &Overlay) -> Result<NodeId, Errno> {
        let node = self.node.ok_or(Errno::Noent)?;
        if self.wants_dir {
            overlay.expect_dir(node)?;
        }
        Ok(node)
    }
}

/// The rest of a path, and what is known of it.
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

    /// As [`Overlay::resolve`]; if the call `creates` a file, a slash after the last name is
    /// `EISDIR`, whatever stands there, as on Linux.
    pub(super) fn resolve_last<'a>(
        &mut self,
        base: Base,
        path: &'a str,
        follow: Follow,
        creates: bool,
    ) -> Result<Resolved<'a>, Errno> {
        self.walk(base, path, follow, creates, false)
    }

    /// The directory at `path`, looked up from the directory `dir`, or from the root if the path is
    /// absolute. Above the root is the root.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, and as [`Base`].
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

    /// As [`Overlay::resolve_last`]; `from_top` whether the top is found above the top, as on Linux,
    /// and not `EPERM`.
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
        // Set while an absolute link is walked from the top and has not come to `base.root` yet.
        let mut outside = false;
        // A directory of the root that was entered through the worktree, which then lies above it.
        let mut entered: Option<NodeId> = None;
        loop {
            let (name, is_last, wants_dir) = next_component(&mut rest);
            let finish = |dir, name, node| match node {
                _ if !outside => Ok(Resolved { dir, name, node, wants_dir }),
                // Its name lies outside: from inside it is `.`.
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
            check_name(&name)?;
            if creates && wants_dir {
                return Err(seen(Errno::Isdir));
            }
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
                        // Whoever came from the top finds the top above it.
                        from_top = true;
                        dir = self.root();
                        outside = dir != base.root;
                    }
                    rest = Rest { text: Cow::Owned(text), at: 0 };
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

    fn check_path(&self, path: &str) -> Result<(), Errno> {
        if path.is_empty() {
            return Err(Errno::Noent);
        }
        if path.len() > self.limits.path_bytes_max {
            return Err(Errno::Nametoolong);
        }
        if path.starts_with('/') { Err(Errno::Perm) } else { Ok(()) }
    }

    /// The directory above `dir`: the worktree, if it was `entered` through that.
    fn above(&self, dir: NodeId, entered: Option<NodeId>) -> Result<NodeId, Errno> {
        match self.dir_with_root().filter(|_| entered == Some(dir)) {
            Some(worktree) => Ok(worktree),
            None => self.dir(dir).parent.ok_or(Errno::Noent),
        }
    }

    /// The path that a link's `target` stands for where `remaining` comes after its name.
    fn spliced(&self, target: &str, remaining: &str, wants_dir: bool) -> Result<String, Errno> {
        if target.is_empty() {
            return Err(Errno::Noent);
        }
        let mut text = target.to_owned();
        if !remaining.is_empty() || wants_dir {
            text.push('/');
            text.push_str(remaining);
        }
        if text.len() > self.limits.path_bytes_max { Err(Errno::Nametoolong) } else { Ok(text) }
    }

    /// A directory that was moved out of `base.root` while it was open confines lookups to itself.
    fn confine(&self, base: Base) -> Base {
        let is_inside = base.dir == base.root
            || base.root == self.root()
            || self.is_beneath(base.dir, base.root);
        if is_inside { base } else { Base { root: base.dir, ..base } }
    }

    /// Whether `path` names something from `base`, or, with `makes`, something that could be made.
    pub fn reaches(&mut self, base: Base, path: &str, makes: bool) -> bool {
        self.resolve(base, path, Follow::No).is_ok_and(|found| makes || found.node.is_some())
    }

    /// Resolves `path` to a node that exists.
    pub(in crate::kernel::vfs) fn lookup(
        &mut self,
        base: Base,
        path: &str,
        follow: Follow,
    ) -> Result<NodeId, Errno> {
        self.resolve(base, path, follow)?.existing(self)
    }
}

/// `path` without the slashes at its end, for calls that do not follow a link before them. What is
/// nothing but slashes stays absolute.
pub(super) fn without_slashes(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => path,
        trimmed => trimmed,
    }
}

/// Takes the next component off `rest`: its name, whether it is the last one, and whether a slash
/// follows it as the last one.
fn next_component<'a>(rest: &mut Rest<'a>) -> (Cow<'a, str>, bool, bool) {
    let len = rest.text.len();
    let bytes = rest.text.as_bytes();
    let mut start = rest.at;
    while start < len && bytes[start] == b'/' {
        start += 1;
    }
    let end = bytes[start..].iter().position(|b| *b == b'/').map_or(len, |at| start + at);
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
    fn a_directory_that_was_moved_out_of_its_root_leads_no_further() {
        let mut overlay = Overlay::new(VfsLimits::default(), 1);
        let top = overlay.host_base();
        for dir in ["given", "given/inner", "other"] {
            overlay.create_dir(top, dir, 1).unwrap();
        }
        let root = overlay.open_dir("/given").unwrap();
        let base = Base { dir: overlay.open_dir("/given/inner").unwrap(), root };
        assert!(overlay.reaches(base, "../inner", false), "it is within its root");
        overlay.rename((top, "given/inner"), (top, "inner"), 2).unwrap();
        for out in ["..", "../other", "../given"] {
            assert!(!overlay.reaches(base, out, false), "{out}");
        }
    }
}
