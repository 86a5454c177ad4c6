//! The current directory (POSIX `chdir`, `getcwd`). It is held as a directory, not as a path: it follows
//! renames, and has no path once it is removed.

use std::borrow::Cow;

use super::path::absolute;
use super::{FIRST_PREOPEN, Guest, Preopen, Reach};
use crate::base::errno::Errno;
use crate::kernel::io::fd::{Description, FdFlags, OpenDir};
use crate::kernel::vfs::{Base, NodeId};

/// An opened directory and its path.
type Opened = Result<(NodeId, String), Errno>;

impl Preopen {
    /// Returns whether this is the current directory, which the process can change.
    pub(super) fn is_current_dir(&self) -> bool {
        self.name == "." && self.reach != Reach::Confined
    }
}

impl Guest {
    /// Returns the absolute path of the current directory, without symbolic links (POSIX `getcwd`).
    ///
    /// # Errors
    /// `ENOENT` if it was removed.
    pub fn current_dir(&self) -> Result<Cow<'_, str>, Errno> {
        match self.current_node() {
            Some(node) if self.follows_dirs() => {
                self.machine.vfs.dir_path(node).map(Cow::Owned).ok_or(Errno::Noent)
            }
            _ => Ok(Cow::Borrowed(self.current_path())),
        }
    }

    /// Returns whether the disk has the current directory, which is at `path` in its mount: it was neither made nor moved by
    /// the run.
    pub fn is_current_dir_of_disk(&self, path: &str) -> bool {
        self.current_node().is_none_or(|node| self.machine.vfs.is_dir_of_layer(node, path))
    }

    /// Returns the directory that [`Guest::proc_chdir`] replaces, if the process has one.
    fn current_node(&self) -> Option<NodeId> {
        let is_it =
            |dir: &&OpenDir| dir.preopen.as_deref() == Some(".") && dir.reach != Reach::Confined;
        Some(self.current_dir.as_ref().filter(is_it)?.base.dir)
    }

    /// The path by which the current directory was opened.
    fn current_path(&self) -> &str {
        let current = self.preopens.iter().rev().find(|preopen| preopen.name == ".");
        current.map_or("/", |preopen| &preopen.path)
    }

    /// Returns whether the current directory is held as a node. Up to version 2 of the kernel it was a path.
    fn follows_dirs(&self) -> bool {
        self.machine.kernel_version() > 2
    }

    /// Makes `path` absolute, from the current directory. Symbolic links are not followed.
    pub(super) fn absolute(&self, path: &str) -> String {
        if path.starts_with('/') {
            return absolute("/", path);
        }
        absolute(&self.current_dir().unwrap_or(Cow::Borrowed(self.current_path())), path)
    }

    /// Makes the path of a file absolute, without `..`. Up to version 10 of the kernel `..` took the name before it away, also
    /// that of a symbolic link.
    ///
    /// # Errors
    /// Those of [`Overlay::without_parents`](crate::kernel::vfs::Overlay::without_parents).
    pub(super) fn absolute_file(&mut self, path: &str) -> Result<String, Errno> {
        if !self.knows_version_11() || !path.split('/').any(|name| name == "..") {
            return Ok(self.absolute(path));
        }
        let from = self.current_node().unwrap_or(self.machine.vfs.root());
        Ok(absolute("/", &self.machine.vfs.without_parents(from, path)?))
    }

    /// Opens the directory at `path` by the rules of the kernel version; returns its path, too.
    fn open_from_current(&mut self, path: &str) -> Opened {
        if self.follows_dirs() {
            return self.open_through_links(path);
        }
        let path = self.absolute(path);
        Ok((self.machine.vfs.open_dir(&path)?, path))
    }

    fn open_through_links(&mut self, path: &str) -> Opened {
        let from = self.current_node().unwrap_or(self.machine.vfs.root());
        let vfs = &mut self.machine.vfs;
        let node = vfs.open_dir_from(from, path)?;
        let path = vfs.dir_path(node);
        Ok((node, path.unwrap_or_else(|| self.current_path().to_owned())))
    }

    /// Returns the absolute path of the directory `path` with symbolic links followed, or `path` made
    /// absolute if it is not a directory.
    pub fn real_dir(&mut self, path: &str) -> String {
        let Ok((node, found)) = self.open_from_current(path) else { return self.absolute(path) };
        let real = self.machine.vfs.dir_path(node);
        self.machine.vfs.close(node);
        real.unwrap_or(found)
    }

    /// Makes the directory at `path` the current directory (POSIX `chdir`), where lookups from the
    /// directory called `.` and new children start. The parent of the root is the root.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, and as [`Base`]; `ENOTSUP` if no directory is called `.`, or it is confined.
    pub fn proc_chdir(&mut self, path: &str) -> Result<(), Errno> {
        self.change_dir(path, Self::open_from_current)
    }

    /// As [`Guest::proc_chdir`], but `..` after a symbolic link leads to the parent of the link's target
    /// in every version of the kernel (`cd -P`).
    ///
    /// # Errors
    /// As [`Guest::proc_chdir`].
    pub fn proc_chdir_physical(&mut self, path: &str) -> Result<(), Errno> {
        self.change_dir(path, Self::open_through_links)
    }

    fn change_dir(&mut self, path: &str, open: fn(&mut Self, &str) -> Opened) -> Result<(), Errno> {
        let index = self.preopens.iter().rposition(Preopen::is_current_dir);
        let index = index.ok_or(Errno::Notsup)?;
        let (node, path) = open(self, path)?;
        let preopen = Preopen { path, ..self.preopens[index].clone() };
        let dir = self.preopened(&preopen, node);
        self.preopens[index] = preopen;
        let fd = FIRST_PREOPEN + index as u32;
        if self.is_module
            && let Ok(Description::Dir(shown)) = self.description_mut(fd)
            && shown.preopen.as_deref() == Some(".")
        {
            let dir = OpenDir { reach: shown.reach, ..dir.clone() };
            let before = std::mem::replace(shown, dir);
            self.machine.vfs.reopen(node);
            self.machine.vfs.close(before.base.dir);
        }
        self.set_current_dir(dir);
        Ok(())
    }

    /// Sets whether paths from the directory called `.` are looked up only there. For modules that look
    /// up absolute paths from the root themselves, so that `tmp/x` never means `/tmp/x`.
    ///
    /// # Errors
    /// `ENOTSUP` if no directory is called `.`, or it is confined or closed.
    pub fn set_paths_exact(&mut self, is_exact: bool) -> Result<(), Errno> {
        let index = self.preopens.iter().rposition(Preopen::is_current_dir);
        let index = index.ok_or(Errno::Notsup)?;
        let reach = if is_exact { Reach::Namespace } else { self.preopens[index].reach };
        match self.description_mut(FIRST_PREOPEN + index as u32) {
            Ok(Description::Dir(dir)) if dir.preopen.as_deref() == Some(".") => {
                dir.reach = reach;
                Ok(())
            }
            _ => Err(Errno::Notsup),
        }
    }

    /// Returns the preopens of a child with the current directory `path` (default: the parent's), and
    /// that directory, opened.
    ///
    /// # Errors
    /// As [`Guest::proc_chdir`], if `path` is given.
    pub(super) fn preopens_of_child(
        &mut self,
        path: Option<&str>,
    ) -> Result<(Vec<Preopen>, Option<NodeId>), Errno> {
        let mut preopens = self.preopens.clone();
        let current = preopens.iter_mut().rfind(|preopen| preopen.is_current_dir());
        let (node, found) = if let Some(path) = path {
            let (node, path) = self.open_from_current(path)?;
            (node, Some(path))
        } else {
            let own = self.current_node().filter(|_| self.follows_dirs());
            let Some(node) = own else { return Ok((preopens, None)) };
            self.machine.vfs.reopen(node);
            (node, self.machine.tape.as_ref().and_then(|_| self.machine.vfs.dir_path(node)))
        };
        let Some(current) = current else {
            self.machine.vfs.close(node);
            return Err(Errno::Notsup);
        };
        if let Some(path) = found {
            current.path = path;
        }
        Ok((preopens, Some(node)))
    }

    /// Makes `dir`, which is open, the current directory.
    pub(super) fn set_current_dir(&mut self, dir: OpenDir) {
        if let Some(before) = self.current_dir.replace(dir) {
            self.machine.vfs.close(before.base.dir);
        }
    }

    /// Describes the open directory `node` with the name and reach of `preopen`.
    pub(super) fn preopened(&self, preopen: &Preopen, node: NodeId) -> OpenDir {
        let top = self.machine.vfs.root();
        let root = if preopen.reach == Reach::Confined { node } else { top };
        OpenDir {
            base: Base { dir: node, root },
            reach: preopen.reach,
            preopen: Some(preopen.name.as_str().into()),
            taped_path: self.machine.tape.is_some().then(|| preopen.path.as_str().into()),
            flags: FdFlags::default(),
            listing: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Startup;
    use super::super::tests::Nothing;
    use super::*;
    use crate::kernel::machine::Machine;

    /// A process in the root, which holds `a/b` and the link `l` to it.
    fn guest(kernel_version: u32) -> Guest {
        let mut machine = Machine::builder().build().unwrap();
        machine.kernel_version = kernel_version;
        let top = machine.vfs.host_base();
        machine.vfs.create_dir(top, "a", 1).unwrap();
        machine.vfs.create_dir(top, "a/b", 1).unwrap();
        machine.vfs.symlink("a/b", top, "l", 1).unwrap();
        machine.start_run();
        let preopen =
            |name: &str, reach| Preopen { path: "/".to_owned(), name: name.to_owned(), reach };
        let preopens = vec![preopen("/", Reach::Namespace), preopen(".", Reach::CurrentDir)];
        let startup = Startup { preopens, ..Startup::default() };
        let Ok(guest) = Guest::first(machine, startup, &Nothing) else { panic!("it starts") };
        guest
    }

    fn path_after(guest: &mut Guest, dirs: &[&str]) -> String {
        for dir in dirs {
            guest.proc_chdir(dir).unwrap();
        }
        guest.current_dir().unwrap().into_owned()
    }

    #[test]
    fn chdir_follows_a_link_before_it_goes_up() {
        assert_eq!(path_after(&mut guest(3), &["l", ".."]), "/a");
        assert_eq!(path_after(&mut guest(3), &["l/../../.."]), "/");
        // Tapes of these versions depend on this answer.
        assert_eq!(path_after(&mut guest(2), &["l", ".."]), "/");
        assert_eq!(path_after(&mut guest(2), &["l"]), "/l");
    }

    #[test]
    fn getcwd_follows_renames_and_fails_after_removal() {
        for (version, renamed, removed) in
            [(3, Ok("/c"), Err(Errno::Noent)), (2, Ok("/a/b"), Ok("/a/b"))]
        {
            let mut guest = guest(version);
            assert_eq!(path_after(&mut guest, &["/a/b"]), "/a/b");
            let top = guest.machine.vfs.host_base();
            guest.machine.vfs.rename((top, "a/b"), (top, "c"), 2).unwrap();
            assert_eq!(guest.current_dir().as_deref(), renamed.as_ref().copied());
            guest.machine.vfs.remove_dir(top, "c", 3).unwrap();
            assert_eq!(guest.current_dir().as_deref(), removed.as_ref().copied());
        }
    }

    #[test]
    fn exact_paths_do_not_lead_to_the_root() {
        let mut guest = guest(3);
        let top = guest.machine.vfs.host_base();
        guest.machine.vfs.create_dir(top, "a/tmp", 1).unwrap();
        guest.proc_chdir("a").unwrap();
        let is_exact =
            |guest: &Guest| guest.open_dir(FIRST_PREOPEN + 1).unwrap().reach == Reach::Namespace;
        assert!(!is_exact(&guest));
        guest.set_paths_exact(true).unwrap();
        guest.proc_chdir("tmp").unwrap();
        assert!(is_exact(&guest), "also after chdir");
        guest.set_paths_exact(false).unwrap();
        assert!(!is_exact(&guest));
        guest.fd_close(FIRST_PREOPEN + 1).unwrap();
        assert_eq!(guest.set_paths_exact(true), Err(Errno::Notsup));
        assert_eq!(path_after(&mut guest, &[".."]), "/a", "it is where it is without a descriptor");
    }
}
