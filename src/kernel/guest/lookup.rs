//! Where the lookup of a path starts.
//!
//! C libraries for WASI strip the leading slash of an absolute path and look it up from the descriptor of
//! the current directory, so that `/tmp/x` and `tmp/x` reach the kernel as the same call.
//! [`Reach::CurrentDir`] decides which of the two is meant.

use super::{AT_FDCWD, Guest};
use crate::base::errno::Errno;
use crate::kernel::io::fd::{OpenDir, Reach};
use crate::kernel::machine::{TOOLCHAINS_ROOT, WORKTREE_OF_VERSION_0};
use crate::kernel::vfs::{Base, Mount, NodeId, Overlay};

/// The name of [`TOOLCHAINS_ROOT`].
const RESERVED: &str = TOOLCHAINS_ROOT.split_at(1).1;

impl Guest {
    /// # Errors
    /// `ENOENT` for an empty path, whatever the descriptor is, as on Linux.
    pub(super) fn expect_some(&self, path: &str) -> Result<(), Errno> {
        if path.is_empty() && self.knows_version_10() { Err(Errno::Noent) } else { Ok(()) }
    }

    /// Whether calls have the answers of version 10 of the kernel.
    pub(super) fn knows_version_10(&self) -> bool {
        self.machine.kernel_version() > 9
    }

    /// Whether calls have the answers of version 11 of the kernel.
    pub(super) fn knows_version_11(&self) -> bool {
        self.machine.kernel_version() > 10
    }

    /// Makes `call` from the directory `fd`, or from the root for an absolute path and [`AT_FDCWD`].
    pub(super) fn in_dir<T>(
        &mut self,
        fd: u32,
        path: &str,
        mut call: impl FnMut(&mut Overlay, Base, &str) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.expect_some(path)?;
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

    /// Returns where the lookup of `path` from `fd` starts: at that directory, or at the root. With
    /// `makes`, the last name need not exist.
    pub(super) fn base(&mut self, fd: u32, path: &str, makes: bool) -> Result<Base, Errno> {
        self.expect_some(path)?;
        let &OpenDir { base, reach, .. } = self.open_dir(fd)?;
        Ok(match reach {
            Reach::Confined | Reach::Namespace => base,
            Reach::CurrentDir => self.start_of(base, path),
            Reach::NamespaceOrRoot => self.base_or_root(base, path, makes),
        })
    }

    /// Returns whether `path` from `fd` starts at the root of the namespace.
    pub(super) fn starts_at_root(&mut self, fd: u32, path: &str) -> bool {
        let Ok(&OpenDir { base, reach, .. }) = self.open_dir(fd) else { return false };
        let root = self.machine.vfs.root();
        match reach {
            Reach::CurrentDir => self.start_of(base, path).dir == root,
            Reach::Confined | Reach::Namespace | Reach::NamespaceOrRoot => base.dir == root,
        }
    }

    /// Returns whether `path` from `fd` may name a special file in the folder `folder` of the root.
    pub(super) fn may_be_special(&mut self, fd: u32, path: &str, folder: &str) -> bool {
        let Ok(&OpenDir { base, reach, .. }) = self.open_dir(fd) else { return false };
        if fd == AT_FDCWD {
            return path.starts_with('/');
        }
        match reach {
            Reach::Confined => false,
            Reach::Namespace => base.dir == self.machine.vfs.root(),
            Reach::CurrentDir => has_no(&mut self.machine.vfs, base.dir, folder),
            Reach::NamespaceOrRoot => true,
        }
    }

    /// Returns where a path from the current directory `current` starts: at the root if it has several
    /// names, leads into a mount or through a name of a tree mounted at the root, and `current` has no
    /// entry of the first name; or if it begins with [`RESERVED`] and toolchains have files there. Any other
    /// single name is always the current directory's: it may be created.
    #[inline]
    fn start_of(&mut self, current: Base, path: &str) -> Base {
        if memchr::memchr(b'/', path.as_bytes()).is_none() && path != RESERVED {
            return current;
        }
        self.start_of_names(current, path)
    }

    fn start_of_names(&mut self, current: Base, path: &str) -> Base {
        let vfs = &mut self.machine.vfs;
        let root = vfs.host_base();
        let first = from_first_name(path).split('/').next();
        if first == Some(RESERVED) && matches!(vfs.has_entry(root.dir, RESERVED), Ok(true)) {
            return root;
        }
        let is_roots = current != root
            && first_name_on_the_way(path).is_some_and(|name| {
                let leads_there = vfs.leads_into_mount(path)
                    || vfs.has_tree_at_root() && !has_no(vfs, root.dir, name);
                leads_there && has_no(vfs, current.dir, name)
            });
        if is_roots { root } else { current }
    }
}

/// Returns whether `dir` lacks an entry `name`; false if that cannot be read: the call will say why.
fn has_no(vfs: &mut Overlay, dir: NodeId, name: &str) -> bool {
    matches!(vfs.has_entry(dir, name), Ok(false))
}

/// `path` without leading slashes and `.` components.
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

/// The first name of `path`, if another follows. Trailing slashes do not count.
fn first_name_on_the_way(path: &str) -> Option<&str> {
    let (name, rest) = from_first_name(path).split_once('/')?;
    let leads_on = name != ".." && rest.bytes().any(|byte| byte != b'/');
    leads_on.then_some(name)
}

/// Lookup of version 0 of the kernel, for replays: names of mounts come first; what is not found from the
/// current directory is looked up, and created, from the root.
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

    /// Returns whether `path` leads into a mount other than those that every machine had.
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
    fn first_name_counts_only_if_another_follows() {
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
