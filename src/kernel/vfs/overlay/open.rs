//! Opening and closing: POSIX `openat`, `close`.

use super::Overlay;
use super::attr::Metadata;
use super::node::{Body, Entry, EntryKind, File, NodeId};
use super::resolve::{Base, Follow};
use crate::base::errno::Errno;
use crate::kernel::vfs::layer::FileType;

/// How to open, with the names of POSIX: `directory` is `O_DIRECTORY`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags of one system call")]
pub struct OpenFlags {
    /// Create the file if it does not exist.
    pub create: bool,
    /// With `create`: fail if anything is there, even a dangling symbolic link.
    pub exclusive: bool,
    /// Truncate an existing file to length 0.
    pub truncate: bool,
    /// Fail unless it is a directory.
    pub directory: bool,
    /// Follow a symbolic link in the last component.
    pub follow: bool,
    /// The content will be written.
    pub write: bool,
}

impl Overlay {
    /// Opens `path`. The node exists until [`Overlay::close`], even if its names are removed.
    ///
    /// # Errors
    /// - `ENOENT` if it does not exist and `create` is not set, or the directory was removed;
    /// - `EEXIST` if it exists and `create` and `exclusive` are set;
    /// - `ENOTDIR` if it is not a directory, and `directory` is set or the path ends in a slash;
    /// - `EISDIR` to write, truncate or create a directory;
    /// - `ELOOP` if it is a symbolic link and `follow` is not set;
    /// - `EINVAL` if `create` and `directory` are both set;
    /// - `EROFS` to change anything on a read-only mount;
    /// - `EACCES` if it is not a file, directory or symbolic link; `EFBIG` if it is a file of a layer longer
    ///   than 1 TiB;
    /// - `ENOSPC` at the limit; and those of [`Base`].
    pub fn open(
        &mut self,
        base: Base,
        path: &str,
        flags: OpenFlags,
        now: u64,
    ) -> Result<NodeId, Errno> {
        if flags.create && flags.directory {
            return Err(Errno::Inval);
        }
        let exclusive = flags.create && flags.exclusive;
        let follow = if flags.follow && !exclusive { Follow::Yes } else { Follow::No };
        let target = self.resolve_last(base, path, follow, flags.create)?;
        let is_made = target.node.is_none();
        let id = match target.node {
            Some(_) if exclusive => return Err(Errno::Exist),
            Some(id) => {
                self.check_open(id, flags, target.wants_dir)?;
                if flags.truncate && self.file(id)?.content.len() > 0 {
                    self.set_len(id, 0, now)?;
                } else if flags.truncate {
                    self.touch(id, now);
                }
                id
            }
            None if !flags.create => return Err(Errno::Noent),
            None => {
                self.expect_writable(target.dir)?;
                self.expect_linked(target.dir)?;
                self.expect_path(target.dir, &target.name)?;
                let body = Body::File(File::default());
                self.create(target.dir, body, &target.name, now)?
            }
        };
        let node = self.node_mut(id);
        node.opens += 1;
        node.is_being_written |= is_made || flags.truncate;
        Ok(id)
    }

    fn check_open(&self, id: NodeId, flags: OpenFlags, wants_dir: bool) -> Result<(), Errno> {
        match self.node(id).body {
            Body::Symlink(_) if flags.directory => Err(Errno::Notdir),
            Body::Symlink(_) => Err(Errno::Loop),
            Body::Dir(_) if flags.write || flags.truncate || flags.create => Err(Errno::Isdir),
            Body::Dir(_) => Ok(()),
            _ if flags.directory || wants_dir => Err(Errno::Notdir),
            Body::Special(FileType::RegularFile) => Err(Errno::Fbig),
            Body::Special(_) => Err(Errno::Acces),
            Body::File(_) if flags.write || flags.truncate => self.expect_writable(id),
            Body::File(_) => Ok(()),
        }
    }

    /// Adds an open description of `id`.
    pub fn reopen(&mut self, id: NodeId) {
        self.node_mut(id).opens += 1;
    }

    /// Closes an open description of `id`; `writes` if it was open for writing. Frees the node if it has neither
    /// name nor description left.
    pub fn end_description(&mut self, id: NodeId, writes: bool) {
        let ends_writing = writes && !self.readers_write();
        self.end(id, ends_writing);
    }

    /// As [`Overlay::end_description`], for a description that was not open for writing.
    pub fn close(&mut self, id: NodeId) {
        self.end(id, false);
    }

    fn end(&mut self, id: NodeId, ends_writing: bool) {
        let node = self.node_mut(id);
        node.opens -= 1;
        node.is_being_written &= !ends_writing;
        if node.opens == 0 {
            node.is_being_written = false;
            self.below_files.close(id);
            self.release(id);
        }
    }

    /// # Errors
    /// `ENOENT` if the directory `id` was removed.
    pub(super) fn expect_linked(&self, id: NodeId) -> Result<(), Errno> {
        self.dir(id).parent.map(|_| ()).ok_or(Errno::Noent)
    }

    /// # Errors
    /// `EISDIR` for a directory, `EINVAL` for anything else that is not a file.
    pub(super) fn file(&self, id: NodeId) -> Result<&File, Errno> {
        match &self.node(id).body {
            Body::File(file) => Ok(file),
            Body::Dir(_) => Err(Errno::Isdir),
            _ => Err(Errno::Inval),
        }
    }

    pub(super) fn file_mut(&mut self, id: NodeId) -> Result<&mut File, Errno> {
        match &mut self.node_mut(id).body {
            Body::File(file) => Ok(file),
            Body::Dir(_) => Err(Errno::Isdir),
            _ => Err(Errno::Inval),
        }
    }

    /// Returns the content of the file at the absolute path `path`; for the host.
    ///
    /// # Errors
    /// Those of [`Overlay::open`]; `EFBIG` if it exceeds the address range; `ENOMEM`.
    pub fn read(&mut self, path: &str) -> Result<Vec<u8>, Errno> {
        let id = self.lookup(self.host_base(), host_path(path)?, Follow::Yes)?;
        self.read_node(id)
    }

    pub(in crate::kernel::vfs) fn read_node(&mut self, id: NodeId) -> Result<Vec<u8>, Errno> {
        let len = usize::try_from(self.file(id)?.content.len()).map_err(|_| Errno::Fbig)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| Errno::Nomem)?;
        bytes.resize(len, 0);
        self.reopen(id);
        let read = self.read_at(id, 0, &mut bytes);
        self.close(id);
        bytes.truncate(read?);
        Ok(bytes)
    }

    /// Makes `bytes` the content of the file at the absolute path `path`; for the host. Creates the file if
    /// needed; its directory must exist.
    ///
    /// # Errors
    /// Those of [`Overlay::open`] and [`Overlay::write_at`].
    pub fn write(&mut self, path: &str, bytes: &[u8], now: u64) -> Result<(), Errno> {
        let flags = OpenFlags {
            create: true,
            truncate: true,
            write: true,
            follow: true,
            ..OpenFlags::default()
        };
        let id = self.open(self.host_base(), host_path(path)?, flags, now)?;
        let written = self.write_at(id, 0, bytes, now);
        self.close(id);
        written
    }

    /// Returns the attributes of the absolute path `path`, symbolic links followed; for the host.
    ///
    /// # Errors
    /// Those of [`Overlay::stat`].
    pub fn metadata(&mut self, path: &str) -> Result<Metadata, Errno> {
        if path.trim_matches('/').is_empty() {
            return Ok(self.metadata_of(self.root()));
        }
        self.stat(self.host_base(), host_path(path)?, Follow::Yes)
    }

    /// Opens the directory at the absolute path `path`, symbolic links followed; for the host.
    ///
    /// # Errors
    /// Those of [`Overlay::open`].
    pub fn open_dir(&mut self, path: &str) -> Result<NodeId, Errno> {
        let relative = host_path(path)?;
        let relative = if relative.is_empty() { "." } else { relative };
        let flags = OpenFlags { directory: true, follow: true, ..OpenFlags::default() };
        self.open(self.host_base(), relative, flags, 0)
    }

    /// Opens the directory at `path`, symbolic links followed: from the directory `from`, or from the root if
    /// the path is absolute. `..` in the root is the root.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, and those of [`Base`].
    pub fn open_dir_from(&mut self, from: NodeId, path: &str) -> Result<NodeId, Errno> {
        let id = self.lookup_dir(from, path)?;
        self.reopen(id);
        Ok(id)
    }

    /// The parent of the directory `id`; `id` itself for the root and for a removed directory.
    pub fn parent(&self, id: NodeId) -> NodeId {
        self.dir(id).parent.unwrap_or(id)
    }

    /// The absolute path of the directory `id`, without symbolic links; `None` if it was removed.
    pub fn dir_path(&self, id: NodeId) -> Option<String> {
        let (mut at, mut names) = (id, Vec::new());
        while at != self.root() {
            let parent = self.dir(at).parent?;
            let is_it = |entry: &Entry| matches!(entry.kind, EntryKind::Node(node) if node == at);
            let (name, _) = self.dir(parent).entries.iter().find(|(_, entry)| is_it(entry))?;
            names.push(name.clone());
            at = parent;
        }
        names.reverse();
        Some(format!("/{}", names.join("/")))
    }

    /// Whether the layer beneath has the directory `id` at `path` in its mount: neither it nor a directory on the way was made
    /// or moved here. It is, if it is the mount itself.
    pub fn is_dir_of_layer(&self, id: NodeId, path: &str) -> bool {
        let origin = self.node(id).origin.as_ref();
        path.is_empty() || origin.is_some_and(|origin| origin.path.as_str() == path)
    }

    /// `path` without `..`: each leads to the parent of the directory before it, also through a symbolic link, and from the
    /// root to the root. If there is one, the answer is absolute. A relative path begins in `from`.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR` for what is before a `..`, and as [`Base`].
    pub fn without_parents(&mut self, from: NodeId, path: &str) -> Result<String, Errno> {
        let names: Vec<&str> = path.split('/').collect();
        let Some(last) = names.iter().rposition(|name| *name == "..") else {
            return Ok(path.to_owned());
        };
        let dir = self.open_dir_from(from, &names[..=last].join("/"))?;
        let real = self.dir_path(dir);
        self.close(dir);
        let rest = names[last + 1..].join("/");
        Ok(format!("{}/{rest}", real.ok_or(Errno::Noent)?.trim_end_matches('/')))
    }

    /// The base of lookups from the root.
    pub fn host_base(&self) -> Base {
        Base { dir: self.root(), root: self.root() }
    }

    pub(super) fn empty_file(&mut self, id: NodeId) -> Result<(), Errno> {
        self.below_files.close(id);
        let file = self.file_mut(id)?;
        let old = std::mem::take(&mut file.content);
        file.content.set_len(0)?;
        self.upper_bytes = self.upper_bytes.saturating_sub(old.charged());
        self.forget_cached(&old);
        Ok(())
    }
}

/// `path`, which is absolute, relative to the root.
///
/// # Errors
/// `EINVAL` if it is relative.
fn host_path(path: &str) -> Result<&str, Errno> {
    path.strip_prefix('/').map(|path| path.trim_start_matches('/')).ok_or(Errno::Inval)
}
