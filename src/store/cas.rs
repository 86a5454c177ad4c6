//! A folder of files named by their content.

use std::collections::HashSet;
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::base::atomic_file::TEMPORARY_PREFIX;
use crate::base::digest::{Digest, DigestHasher};
use crate::base::disk::{self, DiskError};

/// Content could not be stored or fetched.
#[derive(thiserror::Error)]
pub enum StoreError {
    /// There is no content of this digest.
    #[error("{} is missing: it must have the content of that digest; bring the whole folder", path.display())]
    Missing {
        /// What was asked for.
        digest: Digest,
        /// Where it should stand.
        path: PathBuf,
    },
    /// The whole folder is not there.
    #[error(
        "the folder {} is missing, and all contents with it: bring it back; where a tape is copied or \
         renamed, its folder must be copied or renamed with it",
        path.display()
    )]
    FolderMissing {
        /// The folder.
        path: PathBuf,
    },
    /// What stands under the digest's name is something else.
    #[error("{} is damaged: its content does not have the digest that it is named by", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// It was never stored.
    #[error(
        "the content with the digest {digest} is nowhere: it holds what the rule {rule} takes for a secret"
    )]
    Withheld {
        /// What was asked for.
        digest: Digest,
        /// The rule.
        rule: String,
    },
    /// It is longer than whoever asks can take.
    #[error("{} has {len_bytes} bytes, more than the {len_bytes_max} that are expected", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// How long it is.
        len_bytes: u64,
        /// How long it may be.
        len_bytes_max: u64,
    },
    /// What stands where the store should is no folder of its own.
    #[error("{} is no folder, and nothing is read from it or written there; remove it", path.display())]
    NoFolder {
        /// The path.
        path: PathBuf,
    },
    /// The disk refuses.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

crate::base::readable::readable!(StoreError);

/// What [`Cas::retain`] removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Removed {
    /// How many contents.
    pub contents: usize,
    /// Their bytes, and those of what was never whole.
    pub bytes: u64,
}

/// Bytes of a content that are in memory at a time.
const PIECE_BYTES: usize = 256 << 10;

/// A content-addressed store: a folder with one file for each content, named by the 64 hex digits
/// of its BLAKE3 [`Digest`].
///
/// Files appear whole or not at all. They are not synced: a crash of the system can damage one,
/// which [`Cas::get`] then notices.
#[derive(Clone, Debug)]
pub struct Cas {
    dir: PathBuf,
}

impl Cas {
    /// The store in the folder `dir`, which is created with the first content.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// # Errors
    /// [`StoreError::NoFolder`] if its folder is a link, or a file: whoever made that could be
    /// somebody whose contents these are not.
    pub fn expect_folder(&self) -> Result<(), StoreError> {
        match disk::symlink_metadata(&self.dir) {
            Ok(metadata) if !metadata.is_dir() => {
                Err(StoreError::NoFolder { path: self.dir.clone() })
            }
            _ => Ok(()),
        }
    }

    /// # Errors
    /// [`StoreError::FolderMissing`] if there is no folder.
    pub fn expect_there(&self) -> Result<(), StoreError> {
        if disk::symlink_metadata(&self.dir).is_ok() {
            return Ok(());
        }
        Err(StoreError::FolderMissing { path: self.dir.clone() })
    }

    /// Where the content with `digest` stands, if it is there.
    pub fn path_of(&self, digest: Digest) -> PathBuf {
        self.dir.join(digest.to_string())
    }

    /// Whether there is a content with `digest`. It may be damaged.
    pub fn contains(&self, digest: Digest) -> bool {
        disk::symlink_metadata(&self.path_of(digest)).is_ok_and(|metadata| metadata.is_file())
    }

    /// The digests of all contents, sorted.
    ///
    /// # Errors
    /// [`StoreError::Disk`] if the folder cannot be read. A folder that is not there is empty.
    pub fn digests(&self) -> Result<Vec<Digest>, StoreError> {
        self.expect_folder()?;
        let digest = |path: &PathBuf| Digest::from_hex(path.file_name()?.to_str()?);
        Ok(self.files()?.iter().filter_map(digest).collect())
    }

    /// Keeps the content with `digest`, which `read` brings: at an offset, piece by piece, until it
    /// answers 0.
    ///
    /// # Errors
    /// [`StoreError::Disk`]; `Damaged` if what comes has another digest. Nothing is stored then.
    pub fn put(
        &self,
        digest: Digest,
        read: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<usize>,
    ) -> Result<(), StoreError> {
        self.expect_folder()?;
        let path = self.path_of(digest);
        disk::create_private_dir_all(&self.dir)?;
        let file = tempfile::Builder::new().prefix(TEMPORARY_PREFIX).tempfile_in(&self.dir);
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
        file.persist(&path).map_err(|error| DiskError::new("create", &path)(error.error))?;
        Ok(())
    }

    /// The content with `digest`, which is at most `len_bytes_max` long.
    ///
    /// # Errors
    /// [`StoreError`]: `Missing`, `FolderMissing`, `TooLong`, `Damaged`, `Disk`.
    pub fn get(&self, digest: Digest, len_bytes_max: u64) -> Result<Vec<u8>, StoreError> {
        let path = self.find(digest, len_bytes_max)?;
        let bytes = disk::read(&path)?;
        if Digest::of(&bytes) != digest {
            return Err(StoreError::Damaged { path });
        }
        Ok(bytes)
    }

    /// The file that holds the content with `digest`, which is at most `len_bytes_max` long. It is
    /// read once to see that it is not damaged, a piece at a time.
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
        file.rewind().map_err(DiskError::new("read", &path))?;
        Ok(file)
    }

    /// Removes all contents but those in `keep`, and what was left by processes that were killed
    /// while they wrote. Nobody may write meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Disk`]; what was removed before is gone.
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

    /// What is in the folder, which may not be there.
    fn files(&self) -> Result<Vec<PathBuf>, StoreError> {
        match disk::list(&self.dir) {
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            files => Ok(files?),
        }
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

/// Reads `bytes` at an offset, as [`Cas::put`] wants to.
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
    fn content_comes_back_whole_or_is_called_missing_or_damaged() {
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
        assert!(matches!(cas.get(digest, 6), Err(StoreError::TooLong { len_bytes: 7, .. })));
        let other = Digest::of(b"other");
        assert!(matches!(cas.get(other, 99), Err(StoreError::Missing { .. })));
        let nowhere = Cas::new(folder.path().join("renamed.cas"));
        assert!(matches!(nowhere.get(other, 99), Err(StoreError::FolderMissing { .. })));
        #[allow(clippy::disallowed_methods, reason = "damages what belljar wrote")]
        std::fs::write(cas.path_of(digest), b"CONTENT").unwrap();
        assert!(matches!(cas.get(digest, 7), Err(StoreError::Damaged { .. })));
        assert!(matches!(cas.open(digest, 7), Err(StoreError::Damaged { .. })));
    }

    #[test]
    fn what_nobody_wants_goes_and_what_is_not_the_stores_stays() {
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
