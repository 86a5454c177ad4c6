//! Where the path of a call is looked up from.
//!
//! C libraries for WASI strip the slash off an absolute path and look it up from the descriptor of
//! the current directory, so that `/tmp/x` and `tmp/x` reach the kernel as the same call.
//! [`Reach::CurrentDir`] says which of the two it takes such a path for.

use super::{AT_FDCWD, Guest};
use crate::base::errno::Errno;
use crate::kernel::io::fd::{OpenDir, Reach};
use crate::kernel::machine::WORKTREE_OF_VERSION_0;
use crate::kernel::vfs::{Base, Mount, NodeId, Overlay};

/// The directory whose names every process finds, if its current directory has none of that name,
/// though the namespace has no such directory.
const DEVICES: &str = "dev";

impl Guest {
    /// Does `call` from the directory `fd`, or from the root for an absolute path, which only
    /// [`AT_FDCWD`] takes.
    pub(super) fn in_dir<T>(
        &mut self,
        fd: u32,
        path: &str,
        mut call: impl FnMut(&mut Overlay, Base, &str) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let &OpenDir { base, reach, .. } = self.open_dir(fd)?;
        if fd == AT_FDCWD {
            let vfs = &mut self.machine.vfs;
            return match path.strip_prefix('/').map(|rest| rest.trim_start_matches('/')) {
                None => call(vfs, base, path),
                Some("") => call(vfs, vfs.host_base(), "."),
                Some(path) => call(vfs, vfs.host_base(), path),
            };
        }
        match reach {
            Reach::Confined | Reach::Namespace => call(&mut self.machine.vfs, base, path),
            Reach::CurrentDir => {
                let base = self.start_of(base, path);
                call(&mut self.machine.vfs, base, path)
            }
            Reach::NamespaceOrRoot => self.in_dir_or_root(base, path, call),
        }
    }

    /// Where to look `path` up from: the directory `fd`, or the root. With `makes`, for what could
    /// be made there.
    pub(super) fn base(&mut self, fd: u32, path: &str, makes: bool) -> Result<Base, Errno> {
        let &OpenDir { base, reach, .. } = self.open_dir(fd)?;
        Ok(match reach {
            Reach::Confined | Reach::Namespace => base,
            Reach::CurrentDir => self.start_of(base, path),
            Reach::NamespaceOrRoot => self.base_or_root(base, path, makes),
        })
    }

    /// Whether `path` from `fd` starts at the root of the namespace.
    pub(super) fn starts_at_root(&mut self, fd: u32, path: &str) -> bool {
        let Ok(&OpenDir { base, reach, .. }) = self.open_dir(fd) else { return false };
        let root = self.machine.vfs.root();
        match reach {
            Reach::CurrentDir => self.start_of(base, path).dir == root,
            Reach::Confined | Reach::Namespace | Reach::NamespaceOrRoot => base.dir == root,
        }
    }

    /// Whether `path` from `fd` may name what every process finds under `/dev`.
    pub(super) fn may_be_device(&mut self, fd: u32, path: &str) -> bool {
        let Ok(&OpenDir { base, reach, .. }) = self.open_dir(fd) else { return false };
        if fd == AT_FDCWD {
            return path.starts_with('/');
        }
        match reach {
            Reach::Confined => false,
            Reach::Namespace => base.dir == self.machine.vfs.root(),
            Reach::CurrentDir => has_no(&mut self.machine.vfs, base.dir, DEVICES),
            Reach::NamespaceOrRoot => true,
        }
    }

    /// Where a path from the current directory `current` starts: there, unless it leads into a mount,
    /// or through a name of a tree that is the root, and the current directory has no entry of the
    /// first name. A name by itself is the current directory's, so that what is made, removed or
    /// renamed is.
    fn start_of(&mut self, current: Base, path: &str) -> Base {
        let vfs = &mut self.machine.vfs;
        let root = vfs.host_base();
        let is_roots = current != root
            && first_name_on_the_way(path).is_some_and(|name| {
                let leads_there = vfs.leads_into_mount(path)
                    || vfs.has_tree_at_root() && !has_no(vfs, root.dir, name);
                leads_there && has_no(vfs, current.dir, name)
            });
        if is_roots { root } else { current }
    }
}

/// Whether `dir` has no entry `name`. One that cannot be looked at is there: the call will say why.
fn has_no(vfs: &mut Overlay, dir: NodeId, name: &str) -> bool {
    matches!(vfs.has_entry(dir, name), Ok(false))
}

/// `path` from its first name on: without slashes and `.` before it.
pub(super) fn from_first_name(path: &str) -> &str {
    let mut rest = path;
    loop {
        let bare = rest.trim_start_matches('/');
        rest = match bare.strip_prefix('.') {
            Some(after) if after.is_empty() || after.starts_with('/') => after,
            _ => return bare,
        };
    }
}

/// The first name of `path`, if something comes after it. Slashes at the end are nothing.
fn first_name_on_the_way(path: &str) -> Option<&str> {
    let (name, rest) = from_first_name(path).split_once('/')?;
    let leads_on = name != ".." && rest.bytes().any(|byte| byte != b'/');
    leads_on.then_some(name)
}

/// How version 0 of the kernel looked things up: what is not found from the current directory is looked
/// up, and made, from the root, and names of mounts come first. Replays of its tapes need it.
impl Guest {
    fn in_dir_or_root<T>(
        &mut self,
        base: Base,
        path: &str,
        mut call: impl FnMut(&mut Overlay, Base, &str) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let base = if self.names_mount(path) { self.machine.vfs.host_base() } else { base };
        let vfs = &mut self.machine.vfs;
        match call(vfs, base, path) {
            Err(missing @ (Errno::Noent | Errno::Notdir)) => {
                let root = vfs.host_base();
                call(vfs, root, path)
                    .map_err(|errno| if errno == Errno::Noent { missing } else { errno })
            }
            done => done,
        }
    }

    fn base_or_root(&mut self, base: Base, path: &str, makes: bool) -> Base {
        let mounted = self.names_mount(path);
        let vfs = &mut self.machine.vfs;
        let root = vfs.host_base();
        let reaches_root =
            mounted || !vfs.reaches(base, path, makes) && vfs.reaches(root, path, makes);
        if reaches_root { root } else { base }
    }

    /// Whether `path` leads into a mount that was asked for by name.
    fn names_mount(&self, path: &str) -> bool {
        let is_within = |rest: &str| rest.is_empty() || rest.starts_with('/');
        let usual = ["", "tmp", &WORKTREE_OF_VERSION_0[1..]];
        let points = self.machine.vfs.mounts().iter().map(Mount::path);
        points
            .filter(|at| !usual.contains(&&at[1..]))
            .any(|at| path.strip_prefix(&at[1..]).is_some_and(is_within))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_on_if_something_comes_after_it() {
        for (path, name) in [
            ("tmp/x", Some("tmp")),
            ("./tmp/x", Some("tmp")),
            (".//./tmp//x", Some("tmp")),
            ("tmp/.", Some("tmp")),
            ("tmp/..", Some("tmp")),
            ("tmp", None),
            ("tmp/", None),
            ("./tmp//", None),
            (".", None),
            ("..", None),
            ("../tmp/x", None),
            ("..tmp/x", Some("..tmp")),
            (".tmp/x", Some(".tmp")),
            ("", None),
            ("/", None),
        ] {
            assert_eq!(first_name_on_the_way(path), name, "{path}");
        }
    }
}
