//! The store of a tape, for reading.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::pack::Packs;
use crate::base::digest::Digest;
use crate::store::{Cas, StoreError};

/// Extension of an unfinished tape.
pub(super) const PARTIAL: &str = "partial";

/// The directory of the store of the tape `path`, finished or not.
pub fn cas_dir(path: &Path) -> PathBuf {
    let unfinished = path.extension().is_some_and(|extension| extension == PARTIAL);
    let mut name =
        if unfinished { path.with_extension("") } else { path.to_owned() }.into_os_string();
    name.push(".cas");
    name.into()
}

/// The store of a tape: the directory next to it with contents that are too long for a line. A content is a
/// file of its own, or a part of a pack, which holds short contents one after another.
///
/// The tape may still be written: what was added since is found. Clones share what they have read of the packs.
#[derive(Clone, Debug)]
pub struct TapeStore {
    cas: Cas,
    packs: Arc<Mutex<Packs>>,
}

/// A content of a [`TapeStore`], whose digest was checked.
#[derive(Debug)]
pub enum Content {
    /// A file of its own.
    File(File),
    /// Read from a pack.
    Bytes(Cursor<Vec<u8>>),
}

impl Read for Content {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buf),
            Self::Bytes(bytes) => bytes.read(buf),
        }
    }
}

impl TapeStore {
    /// The store of the tape `path`, finished or not. Nothing is read yet.
    pub fn of(path: &Path) -> Self {
        Self { cas: Cas::new(cas_dir(path)), packs: Arc::default() }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        self.cas.dir()
    }

    /// Checks that the directory exists.
    ///
    /// # Errors
    /// [`StoreError::FolderMissing`].
    pub fn expect_there(&self) -> Result<(), StoreError> {
        self.cas.expect_there()
    }

    fn packs(&self) -> MutexGuard<'_, Packs> {
        // A place is inserted once its entry was read, so a panic leaves no wrong one.
        self.packs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The digests of all contents, sorted.
    ///
    /// # Errors
    /// [`StoreError`]: `NoFolder`; `Disk` if the directory or a pack cannot be read. A missing directory is
    /// empty.
    pub fn digests(&self) -> Result<Vec<Digest>, StoreError> {
        let mut digests = self.cas.digests()?;
        let mut packs = self.packs();
        packs.read_further(self.dir())?;
        digests.extend(packs.digests());
        digests.sort();
        digests.dedup();
        Ok(digests)
    }

    /// The content of a pack.
    fn packed(&self, digest: Digest, len_bytes_max: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let mut packs = self.packs();
        if !packs.contains(digest) {
            if self.cas.contains(digest) {
                return Ok(None);
            }
            self.cas.expect_folder()?;
            packs.read_further(self.dir())?;
        }
        packs.get(digest, len_bytes_max).transpose()
    }

    /// Returns the content with `digest`, of at most `len_bytes_max` bytes.
    ///
    /// # Errors
    /// [`StoreError`]: `Missing`, `FolderMissing`, `NoFolder`, `TooLong`, `Damaged`, `Disk`.
    pub fn get(&self, digest: Digest, len_bytes_max: u64) -> Result<Vec<u8>, StoreError> {
        match self.packed(digest, len_bytes_max)? {
            Some(bytes) => Ok(bytes),
            None => self.cas.get(digest, len_bytes_max),
        }
    }

    /// Opens the content with `digest`, of at most `len_bytes_max` bytes, after reading it once, piece by piece,
    /// to check it.
    ///
    /// # Errors
    /// As [`TapeStore::get`].
    pub fn open(&self, digest: Digest, len_bytes_max: u64) -> Result<Content, StoreError> {
        match self.packed(digest, len_bytes_max)? {
            Some(bytes) => Ok(Content::Bytes(Cursor::new(bytes))),
            None => self.cas.open(digest, len_bytes_max).map(Content::File),
        }
    }
}
