//! A content-addressed store.

use std::collections::HashSet;
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::atomic_file::{self, TEMPORARY_PREFIX};
use crate::base::digest::{Digest, DigestHasher};
use crate::base::disk::{self, DiskError};

/// A content could not be stored or read.
#[derive(thiserror::Error)]
pub enum StoreError {
    /// There is no content with this digest.
    #[error("{} is missing: copy the whole directory of contents", path.display())]
    Missing {
        /// The digest.
        digest: Digest,
        /// Where the content would be.
        path: PathBuf,
    },
    /// The directory of the store does not exist.
    #[error(
        "directory {} is missing, with all contents: restore it; a tape must be copied or renamed together \
         with its directory",
        path.display()
    )]
    FolderMissing {
        /// The directory.
        path: PathBuf,
    },
    /// The content does not have its digest.
    #[error("{} is damaged: its content does not have the digest in its name", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// It was withheld from the store as a secret.
    #[error("content {digest} was never stored: it holds a secret according to rule {rule}")]
    Withheld {
        /// The digest.
        digest: Digest,
        /// The rule.
        rule: String,
    },
    /// It is longer than the caller allows.
    #[error("{} has {len_bytes} bytes, more than the {len_bytes_max} expected", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length.
        len_bytes: u64,
        /// The length allowed.
        len_bytes_max: u64,
    },
    /// The path of the store is not a directory, or is a link.
    #[error("{} is not a directory, so it is not used; remove it", path.display())]
    NoFolder {
        /// The path.
        path: PathBuf,
    },
    /// A file operation failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

crate::base::readable::readable!(StoreError);

/// The result of [`Cas::retain`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Removed {
    /// Number of contents removed.
    pub contents: usize,
    /// Their bytes, and those of temporary files.
    pub bytes: u64,
}

/// Most bytes of a content in memory at a time.
const PIECE_BYTES: usize = 256 << 10;

/// A content-addressed store: a directory with a file for each content, named by the 64 hex digits of its
/// BLAKE3 [`Digest`]. Files appear whole or not at all. They are not synced: a crash of the system can
/// damage one, which [`Cas::get`] detects.
#[derive(Clone, Debug)]
pub struct Cas {
    dir: PathBuf,
    /// Contents that this process has written or read.
    sound: Arc<Mutex<HashSet<Digest>>>,
}

impl Cas {
    /// Creates a store in the directory `dir`, which is created with the first content.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), sound: Arc::default() }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Checks that the directory, if it exists, is not a link or a file, which another user may have made.
    ///
    /// # Errors
    /// [`StoreError::NoFolder`].
    pub fn expect_folder(&self) -> Result<(), StoreError> {
        match disk::symlink_metadata(&self.dir) {
            Ok(metadata) if !metadata.is_dir() => {
                Err(StoreError::NoFolder { path: self.dir.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Checks that the directory exists.
    ///
    /// # Errors
    /// [`StoreError::FolderMissing`].
    pub fn expect_there(&self) -> Result<(), StoreError> {
        if disk::symlink_metadata(&self.dir).is_ok() {
            return Ok(());
        }
        Err(StoreError::FolderMissing { path: self.dir.clone() })
    }

    /// The path of the content with `digest`, whether or not it exists.
    pub fn path_of(&self, digest: Digest) -> PathBuf {
        self.dir.join(digest.to_string())
    }

    /// Returns whether there is a content with `digest`. It may be damaged.
    pub fn contains(&self, digest: Digest) -> bool {
        disk::symlink_metadata(&self.path_of(digest)).is_ok_and(|metadata| metadata.is_file())
    }

    /// Returns whether the content with `digest`, of `len_bytes`, is there, undamaged. Reads it, unless this process has written
    /// or read it before.
    pub fn has(&self, digest: Digest, len_bytes: u64) -> bool {
        let found = disk::symlink_metadata(&self.path_of(digest));
        found.is_ok_and(|found| found.is_file() && found.len() == len_bytes)
            && (self.sound().contains(&digest) || self.open(digest, len_bytes).is_ok())
    }

    fn sound(&self) -> MutexGuard<'_, HashSet<Digest>> {
        // Each insertion is complete, so a panic leaves no part of one.
        self.sound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The digests of all contents, sorted.
    ///
    /// # Errors
    /// [`StoreError::Disk`] if the directory cannot be read. A missing one is empty.
    pub fn digests(&self) -> Result<Vec<Digest>, StoreError> {
        self.expect_folder()?;
        let digest = |path: &PathBuf| Digest::from_hex(path.file_name()?.to_str()?);
        Ok(self.files()?.iter().filter_map(digest).collect())
    }

    /// Stores the content with `digest`. `read` reads it from an offset, and returns 0 at its end.
    ///
    /// # Errors
    /// [`StoreError::Disk`]; `Damaged` if the content has another digest. Nothing is then stored.
    pub fn put(
        &self,
        digest: Digest,
        read: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<usize>,
    ) -> Result<(), StoreError> {
        self.expect_folder()?;
        let path = self.path_of(digest);
        let mut builder = tempfile::Builder::new();
        let create = builder.prefix(TEMPORARY_PREFIX);
        let file = match create.tempfile_in(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                disk::create_private_dir_all(&self.dir)?;
                create.tempfile_in(&self.dir)
            }
            file => file,
        };
        let mut file = file.map_err(DiskError::new("create a temporary file for", &path))?;
        let mut hasher = DigestHasher::default();
        let mut piece = vec![0; PIECE_BYTES];
        let mut len_bytes = 0;
        loop {
            let count = read(len_bytes, &mut piece).map_err(DiskError::new("fill", &path))?;
            if count == 0 {
                break;
            }
            len_bytes += count as u64;
            hasher.write(&piece[..count]);
            file.write_all(&piece[..count]).map_err(DiskError::new("write", &path))?;
        }
        if hasher.digest() != digest {
            return Err(StoreError::Damaged { path });
        }
        atomic_file::rename(file, &path).map_err(DiskError::new("create", &path))?;
        self.sound().insert(digest);
        Ok(())
    }

    /// Returns the content with `digest`, of at most `len_bytes_max` bytes.
    ///
    /// # Errors
    /// [`StoreError`]: `Missing`, `FolderMissing`, `TooLong`, `Damaged`, `Disk`.
    pub fn get(&self, digest: Digest, len_bytes_max: u64) -> Result<Vec<u8>, StoreError> {
        let path = self.find(digest, len_bytes_max)?;
        let bytes = disk::read(&path)?;
        if Digest::of(&bytes) != digest {
            return Err(StoreError::Damaged { path });
        }
        self.sound().insert(digest);
        Ok(bytes)
    }

    /// Opens the content with `digest`, of at most `len_bytes_max` bytes, after reading it once, piece by
    /// piece, to check it.
    ///
    /// # Errors
    /// As [`Cas::get`].
    pub fn open(&self, digest: Digest, len_bytes_max: u64) -> Result<File, StoreError> {
        let path = self.find(digest, len_bytes_max)?;
        let mut file = disk::open(&path)?;
        let (found, _) = Digest::of_reader(&file).map_err(DiskError::new("read", &path))?;
        if found != digest {
            return Err(StoreError::Damaged { path });
        }
        self.sound().insert(digest);
        file.rewind().map_err(DiskError::new("read", &path))?;
        Ok(file)
    }

    /// Removes all contents except those in `keep`, and temporary files of killed processes. Nothing may be
    /// written meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Disk`]; some contents may have been removed.
    pub fn retain(&self, keep: &HashSet<Digest>) -> Result<Removed, StoreError> {
        let mut removed = Removed::default();
        self.expect_folder()?;
        for path in self.files()? {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let digest = Digest::from_hex(name);
            let is_garbage = match digest {
                Some(digest) => !keep.contains(&digest),
                None => name.starts_with(TEMPORARY_PREFIX),
            };
            if is_garbage {
                removed.bytes += disk::symlink_metadata(&path)?.len();
                removed.contents += usize::from(digest.is_some());
                disk::remove_file(&path)?;
            }
        }
        Ok(removed)
    }

    /// The files of the directory, which may not exist.
    fn files(&self) -> Result<Vec<PathBuf>, StoreError> {
        Ok(disk::list_if_there(&self.dir)?)
    }

    fn find(&self, digest: Digest, len_bytes_max: u64) -> Result<PathBuf, StoreError> {
        let path = self.path_of(digest);
        self.expect_folder()?;
        if !self.contains(digest) {
            self.expect_there()?;
            return Err(StoreError::Missing { digest, path });
        }
        let len_bytes = disk::metadata(&path)?.len();
        if len_bytes > len_bytes_max {
            return Err(StoreError::TooLong { path, len_bytes, len_bytes_max });
        }
        Ok(path)
    }
}

/// Returns a reader of `bytes` for [`Cas::put`].
pub fn read_slice(bytes: &[u8]) -> impl FnMut(u64, &mut [u8]) -> io::Result<usize> {
    move |offset, buf| {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        (&bytes[start..]).read(buf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn get_returns_whole_content_or_missing_or_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let cas = Cas::new(folder.path().join("tape.cas"));
        let digest = Digest::of(b"content");
        for _ in 0..2 {
            cas.put(digest, &mut read_slice(b"content")).unwrap();
        }
        let other = cas.put(digest, &mut read_slice(b"another"));
        assert!(matches!(other, Err(StoreError::Damaged { .. })));
        assert_eq!(cas.get(digest, 7).unwrap(), b"content");
        assert_eq!(io::read_to_string(cas.open(digest, 7).unwrap()).unwrap(), "content");
        assert!(cas.has(digest, 7) && !cas.has(digest, 6));
        assert!(matches!(cas.get(digest, 6), Err(StoreError::TooLong { len_bytes: 7, .. })));
        let other = Digest::of(b"other");
        assert!(matches!(cas.get(other, 99), Err(StoreError::Missing { .. })));
        let nowhere = Cas::new(folder.path().join("renamed.cas"));
        assert!(matches!(nowhere.get(other, 99), Err(StoreError::FolderMissing { .. })));
        #[allow(clippy::disallowed_methods, reason = "damages what belljar wrote")]
        std::fs::write(cas.path_of(digest), b"CONTENT").unwrap();
        assert!(matches!(cas.get(digest, 7), Err(StoreError::Damaged { .. })));
        assert!(matches!(cas.open(digest, 7), Err(StoreError::Damaged { .. })));
        let later = Cas::new(cas.dir());
        assert!(!later.has(digest, 7), "its bytes are others");
        later.put(digest, &mut read_slice(b"content")).unwrap();
        assert!(later.has(digest, 7));
    }

    #[test]
    fn retain_removes_unlisted_contents_and_keeps_foreign_files() {
        let folder = tempfile::tempdir().unwrap();
        let cas = Cas::new(folder.path().join("contents"));
        assert_eq!(cas.retain(&HashSet::new()).unwrap(), Removed::default());
        for bytes in [&b"kept"[..], b"garbage"] {
            cas.put(Digest::of(bytes), &mut read_slice(bytes)).unwrap();
        }
        let other = |name: &str| drop(disk::create(&cas.dir().join(name)).unwrap());
        other(".belljar-Xf3");
        other("note.txt");
        let removed = cas.retain(&HashSet::from([Digest::of(b"kept")])).unwrap();
        assert_eq!(removed, Removed { contents: 1, bytes: 7 });
        assert_eq!(cas.digests().unwrap(), [Digest::of(b"kept")]);
        assert_eq!(disk::list(cas.dir()).unwrap().len(), 2);
    }
}
