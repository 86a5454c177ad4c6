//! Read-only trees below an overlay.

pub(super) mod contents;
pub(super) mod empty;
pub(super) mod host_dir;
pub(super) mod host_examined;
pub(super) mod host_held;
#[cfg(unix)]
mod host_last;
mod host_names;
mod host_path;
pub(super) mod host_permissions;
mod host_rename;
pub(super) mod host_scan;
pub(super) mod host_syntax;
pub(super) mod host_walk;
mod owner;
pub(super) mod portable;
pub(super) mod recording;
mod spelling;
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
use crate::tape::Content;

/// Bytes hashed at a time.
const PIECE_BYTES: usize = 64 << 10;

/// A read-only tree: a directory of the host, a tape.
///
/// Names compare bytewise (see [`Layer::names_are_exact`]). No operation follows a symbolic link in any
/// component: the overlay resolves links and passes paths without any. The overlay asks for each thing once,
/// keeps the answer, and assumes that the tree does not change meanwhile.
pub trait Layer: Send + Sync {
    /// Returns what is at `path`.
    ///
    /// # Errors
    /// `ENOENT` if nothing is; `EACCES`, `EIO` as the storage fails.
    fn stat(&self, path: &VPath) -> Result<Stat, Errno>;

    /// Lists the directory `path`, without `.` and `..`, sorted bytewise by name. Names that are not UTF-8 are
    /// left out, as no guest could use them.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`; `EACCES`, `EIO` as the storage fails.
    fn list(&self, path: &VPath) -> Result<Vec<DirEntry>, Errno>;

    /// Returns the text of the symbolic link `path`.
    ///
    /// # Errors
    /// `EINVAL` if `path` is not a symbolic link; `ENOENT`, `EACCES`, `EIO`.
    fn read_link(&self, path: &VPath) -> Result<Box<[u8]>, Errno>;

    /// Opens the content of the regular file `path`.
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`, `EACCES`, `EIO`; `EMFILE` if the host has no descriptor left.
    fn open(&self, path: &VPath) -> Result<Blob, Errno>;

    /// Returns what is at `path` now, whatever earlier calls returned: detects changes before a write.
    ///
    /// # Errors
    /// Those of [`Layer::stat`].
    fn stat_now(&self, path: &VPath) -> Result<Stat, Errno> {
        self.stat(path)
    }

    /// Returns the digest of the content of the regular file `path`.
    ///
    /// # Errors
    /// Those of [`Layer::open`].
    fn digest(&self, path: &VPath) -> Result<Digest, Errno> {
        self.open(path)?.digest()
    }

    /// Returns whether [`Layer::stat`] finds a name only in its stored spelling. If not (a host that folds
    /// case), the overlay looks names up in listings.
    fn names_are_exact(&self) -> bool {
        true
    }
}

/// The type of a directory entry; the numbers are those of preview1's `filetype`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum FileType {
    /// Any other type.
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

/// The attributes of one entry of a layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    /// The entry's type.
    pub file_type: FileType,
    /// Length in bytes of a regular file; 0 for others.
    pub size: u64,
    /// Last modification, nanoseconds since the Unix epoch.
    pub mtime_ns: u64,
    /// Its owner may execute it.
    pub executable: bool,
    /// Changes when the entry does, as far as the storage can tell (on a host: type, length, modification
    /// time, change time, inode). Only compared.
    pub stamp: u64,
    /// Identifies the entry within the storage, whatever its name (on a host: inode number); 0 if unknown.
    pub inode: u64,
    /// Names that a file has in the storage; 1 if unknown.
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
        /// Its start in the file.
        offset: u64,
        /// Its length in bytes.
        len: u64,
    },
}

impl From<Content> for Blob {
    fn from(content: Content) -> Self {
        match content {
            Content::File(file) => Self::Host(file.into()),
            Content::Bytes(bytes) => Self::Bytes(bytes.into_inner().into()),
        }
    }
}

impl Blob {
    /// [`Stat::stamp`] when the file was opened, if it may change while it is read.
    pub fn stamp(&self) -> Option<u64> {
        match self {
            Self::Host(file) => file.stamp(),
            Self::Bytes(_) | Self::Part { .. } => None,
        }
    }

    /// Returns the digest of the content.
    ///
    /// # Errors
    /// Those of [`Blob::read_at`].
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

    /// Reads at `offset` until `buf` is full or the content ends; returns the count.
    ///
    /// # Errors
    /// `EIO` and others as the storage fails.
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
    /// Last access, as set; reading does not change it.
    pub atim: u64,
    /// Last modification of the content.
    pub mtim: u64,
    /// Last change of anything.
    pub ctim: u64,
}

impl Times {
    /// Three equal times.
    pub fn all(now: u64) -> Self {
        Self { atim: now, mtim: now, ctim: now }
    }
}
