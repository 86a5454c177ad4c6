//! What a read-only tree below an overlay must offer.

pub(super) mod contents;
pub(super) mod host_dir;
mod host_path;
pub(super) mod host_permissions;
pub(super) mod host_walk;
mod owner;
pub(super) mod recording;
pub(super) mod taped;
pub(super) mod temporary;
#[cfg(unix)]
pub(super) mod way;

#[cfg(all(test, unix))]
mod host_tests;

use std::hash::Hasher;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::host_dir::HostFile;
use super::path::VPath;
use crate::base::digest::{Digest, DigestHasher};
use crate::base::errno::Errno;

/// Bytes of a content that are hashed at a time.
const PIECE_BYTES: usize = 64 << 10;

/// A read-only tree: a host directory, a bundle, a tape.
///
/// Names compare bytewise (see [`Layer::names_are_exact`]). No operation follows a symbolic link, in any component: the overlay
/// resolves links itself and asks with paths that hold none. A layer is asked for the same thing
/// once: the overlay keeps the answers and assumes that the tree holds still while it is in use.
pub trait Layer: Send + Sync {
    /// What stands at `path`.
    ///
    /// # Errors
    /// `ENOENT` if nothing does; `EACCES`, `EIO` as the storage answers.
    fn stat(&self, path: &VPath) -> Result<Stat, Errno>;

    /// The entries of the directory `path`, without `.` and `..`, sorted bytewise by name. Names
    /// that are not UTF-8, which no guest could spell, are left out.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`; `EACCES`, `EIO` as the storage answers.
    fn list(&self, path: &VPath) -> Result<Vec<DirEntry>, Errno>;

    /// The text of the symbolic link `path`.
    ///
    /// # Errors
    /// `EINVAL` if `path` is no symbolic link; `ENOENT`, `EACCES`, `EIO`.
    fn read_link(&self, path: &VPath) -> Result<Box<[u8]>, Errno>;

    /// The content of the regular file `path`.
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`, `EACCES`, `EIO`; `EMFILE` when the host has no descriptor left.
    fn open(&self, path: &VPath) -> Result<Blob, Errno>;

    /// What stands at `path` now, whatever was answered before: to tell whether what is about to be
    /// written to is as it was.
    ///
    /// # Errors
    /// As [`Layer::stat`].
    fn stat_now(&self, path: &VPath) -> Result<Stat, Errno> {
        self.stat(path)
    }

    /// The digest of the content of the regular file `path`.
    ///
    /// # Errors
    /// As [`Layer::open`].
    fn digest(&self, path: &VPath) -> Result<Digest, Errno> {
        self.open(path)?.digest()
    }

    /// Whether [`Layer::stat`] finds a name only under its stored spelling. Where it does not (a
    /// host that folds case), the overlay looks names up in listings instead.
    fn names_are_exact(&self) -> bool {
        true
    }
}

/// The type of a directory entry, numbered as preview1's `filetype`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum FileType {
    /// Of a type that has no other name here.
    Unknown = 0,
    /// A block device.
    BlockDevice = 1,
    /// A character device, such as a terminal.
    CharacterDevice = 2,
    /// A directory.
    Directory = 3,
    /// A regular file.
    RegularFile = 4,
    /// A datagram socket.
    SocketDgram = 5,
    /// A stream socket.
    SocketStream = 6,
    /// A symbolic link.
    SymbolicLink = 7,
}

/// What a layer knows of one entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    /// The entry's type.
    pub file_type: FileType,
    /// Length in bytes of a regular file; 0 for others.
    pub size: u64,
    /// Last modification, nanoseconds since the Unix epoch.
    pub mtime_ns: u64,
    /// Whether its owner may execute it.
    pub executable: bool,
    /// Changes when the entry does, as far as the storage can tell (on a host: length,
    /// modification time, change time, inode). Compared, never interpreted.
    pub stamp: u64,
    /// What tells it from all others in the storage, under whatever name (on a host: its inode
    /// number); 0 where nothing does.
    pub inode: u64,
    /// Names that a file has in the storage, as far as that is known; 1 otherwise.
    pub nlink: u64,
}

/// One entry of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// Its name.
    pub name: Box<str>,
    /// Its type.
    pub file_type: FileType,
}

/// The content of a file of a layer.
pub enum Blob {
    /// In memory.
    Bytes(Arc<[u8]>),
    /// In a file of the host, read as needed.
    Host(HostFile),
    /// In a part of a file of the host, read as needed.
    Part {
        /// The file.
        file: Arc<HostFile>,
        /// Where the part begins.
        offset: u64,
        /// How many bytes it has.
        len: u64,
    },
}

impl Blob {
    /// What the file was when it was opened, if it may change while it is read: see [`Stat::stamp`].
    pub fn stamp(&self) -> Option<u64> {
        match self {
            Self::Host(file) => file.stamp(),
            Self::Bytes(_) | Self::Part { .. } => None,
        }
    }

    /// The digest of the content.
    ///
    /// # Errors
    /// As [`Blob::read_at`].
    pub fn digest(&self) -> Result<Digest, Errno> {
        let mut hasher = DigestHasher::default();
        let mut piece = vec![0; PIECE_BYTES];
        let mut offset = 0;
        loop {
            let count = self.read_at(&mut piece, offset)?;
            if count == 0 {
                return Ok(hasher.digest());
            }
            hasher.write(&piece[..count]);
            offset += count as u64;
        }
    }

    /// Reads at `offset` until `buf` is full or the content ends; answers the count.
    ///
    /// # Errors
    /// `EIO` and others as the storage answers.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        match self {
            Self::Host(file) => file.read_at(buf, offset),
            Self::Part { file, offset: start, len } => {
                let count = len.saturating_sub(offset).min(buf.len() as u64) as usize;
                file.read_at(&mut buf[..count], start.saturating_add(offset))
            }
            Self::Bytes(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let count = buf.len().min(bytes.len() - start);
                buf[..count].copy_from_slice(&bytes[start..start + count]);
                Ok(count)
            }
        }
    }
}

/// Nanoseconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// Last access, as set: reading does not change it.
    pub atim: u64,
    /// Last modification of the content.
    pub mtim: u64,
    /// Last change of anything.
    pub ctim: u64,
}

impl Times {
    /// All three the same.
    pub fn all(now: u64) -> Self {
        Self { atim: now, mtim: now, ctim: now }
    }
}
