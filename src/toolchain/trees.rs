//! Trees of toolchains as layers.

use std::sync::Arc;

use super::file_list::StoredFile;
use super::installed::StoredFiles;
use crate::base::errno::Errno;
use crate::kernel::vfs::{Blob, DirEntry, FileType, HostDir, Layer, Stat, VPath};

/// The time of all files of a toolchain: 2000-01-01, in nanoseconds since the Unix epoch. The times on the disk are
/// those of its installation.
const MTIME_NS: u64 = 946_684_800_000_000_000;

/// A tree of a toolchain in a folder.
pub(super) struct FolderTree(pub HostDir);

impl Layer for FolderTree {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        Ok(Stat { mtime_ns: MTIME_NS, ..self.0.stat(path)? })
    }

    fn list(&self, path: &VPath) -> Result<Vec<DirEntry>, Errno> {
        self.0.list(path)
    }

    fn read_link(&self, path: &VPath) -> Result<Box<[u8]>, Errno> {
        self.0.read_link(path)
    }

    fn open(&self, path: &VPath) -> Result<Blob, Errno> {
        self.0.open(path)
    }

    fn names_are_exact(&self) -> bool {
        self.0.names_are_exact()
    }
}

/// A tree of an installed toolchain.
pub(super) struct StoredTree {
    files: Arc<StoredFiles>,
    /// Its folder in the toolchain, with a slash at its end unless it is the toolchain's own.
    prefix: String,
}

enum Found<'a> {
    File(StoredFile<'a>),
    Dir,
}

impl StoredTree {
    pub fn new(files: Arc<StoredFiles>, folder: &str) -> Self {
        let prefix = if folder == "." { String::new() } else { format!("{folder}/") };
        Self { files, prefix }
    }

    /// The beginning of the paths of all files in the directory `path`.
    fn prefix_of(&self, path: &VPath) -> String {
        if path.is_root() {
            self.prefix.clone()
        } else {
            format!("{}{}/", self.prefix, path.as_str())
        }
    }

    fn find(&self, path: &VPath) -> Result<Found<'_>, Errno> {
        let files = self.files.list().map_err(|_| Errno::Io)?;
        if !path.is_root()
            && let Some(file) = files.get(&format!("{}{}", self.prefix, path.as_str()))
        {
            return Ok(Found::File(file));
        }
        let prefix = self.prefix_of(path);
        match files.at(files.first_from(&prefix)) {
            Some(first) if first.path.starts_with(&prefix) => Ok(Found::Dir),
            _ if path.is_root() => Ok(Found::Dir),
            _ => Err(Errno::Noent),
        }
    }
}

impl Layer for StoredTree {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        let (file_type, size, executable) = match self.find(path)? {
            Found::File(file) => (FileType::RegularFile, file.len_bytes, file.executable),
            Found::Dir => (FileType::Directory, 0, true),
        };
        Ok(Stat { file_type, size, mtime_ns: MTIME_NS, executable, stamp: 0, inode: 0, nlink: 1 })
    }

    fn list(&self, path: &VPath) -> Result<Vec<DirEntry>, Errno> {
        if let Found::File(_) = self.find(path)? {
            return Err(Errno::Notdir);
        }
        let files = self.files.list().map_err(|_| Errno::Io)?;
        let prefix = self.prefix_of(path);
        let mut entries = Vec::new();
        let mut index = files.first_from(&prefix);
        while let Some(rest) = files.at(index).and_then(|file| file.path.strip_prefix(&prefix)) {
            let (name, file_type) = match rest.split_once('/') {
                Some((name, _)) => (name, FileType::Directory),
                None => (rest, FileType::RegularFile),
            };
            entries.push(DirEntry { name: name.into(), file_type });
            index = match file_type {
                // What follows all paths that begin with `name/`.
                FileType::Directory => files.first_from(&format!("{prefix}{name}0")),
                _ => index + 1,
            };
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn read_link(&self, path: &VPath) -> Result<Box<[u8]>, Errno> {
        self.find(path)?;
        Err(Errno::Inval)
    }

    fn open(&self, path: &VPath) -> Result<Blob, Errno> {
        let Found::File(file) = self.find(path)? else { return Err(Errno::Isdir) };
        let content = self.files.cas().open(file.content, file.len_bytes).map_err(|_| Errno::Io)?;
        Ok(Blob::Host(content.into()))
    }
}
