//! Contents of files of the layers, kept to be read again.

use std::collections::HashMap;
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::Blob;
use super::host_dir::HostFile;
use crate::base::digest::{Digest, DigestHasher};
use crate::base::disk;
use crate::base::errno::Errno;
use crate::store::{Cas, StoreError};

/// Longest content that is kept in memory.
const SMALL_BYTES_MAX: u64 = 256 << 10;

/// Bytes of contents kept in memory, in total. Further ones go to an unnamed file.
const MEMORY_BYTES_MAX: u64 = 32 << 20;

/// Bytes copied at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Reads at an offset until the buffer is full or the content ends; returns the count.
type Read<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> Result<usize, Errno>;

/// Contents by digest: those of a store, and those kept since then, in memory and in an unnamed file that
/// disappears with the process.
#[derive(Default)]
pub struct Contents {
    /// Contents kept earlier. Only [`Contents::store`] writes to a store.
    cas: Option<Cas>,
    kept: Mutex<Kept>,
    /// Why one could not be read first.
    damage: OnceLock<String>,
}

#[derive(Default)]
struct Kept {
    memory: HashMap<Digest, Arc<[u8]>>,
    memory_bytes: u64,
    spool: Option<Arc<HostFile>>,
    /// The same file, for writing.
    spool_end: Option<File>,
    spool_bytes: u64,
    /// Offsets in the spool.
    spooled: HashMap<Digest, u64>,
    /// Those that are damaged in the store, and their lengths.
    repaired: Vec<(Digest, u64)>,
}

impl Contents {
    /// Reads from `cas` and from what is kept later.
    pub fn of_store(cas: Cas) -> Self {
        Self { cas: Some(cas), ..Self::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // An entry is inserted only once its content is complete, so a panic leaves no partial one.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the first `len_bytes` of `blob`.
    ///
    /// # Errors
    /// Those of [`Blob::read_at`]; `EIO` if it is shorter, or the host cannot store it.
    pub(in crate::kernel::vfs) fn keep(
        &self,
        blob: &Blob,
        len_bytes: u64,
    ) -> Result<Digest, Errno> {
        self.keep_read(&mut |offset, buf| blob.read_at(buf, offset), len_bytes)
    }

    /// Keeps `len_bytes` obtained with `read`.
    ///
    /// # Errors
    /// Those of `read`; `EIO` if there is less; those of the host that cannot store it.
    pub(in crate::kernel::vfs) fn keep_read(
        &self,
        read: Read<'_>,
        len_bytes: u64,
    ) -> Result<Digest, Errno> {
        let mut kept = self.kept();
        if len_bytes <= SMALL_BYTES_MAX && kept.memory_bytes + len_bytes <= MEMORY_BYTES_MAX {
            let mut bytes = vec![0; len_bytes as usize];
            if read(0, &mut bytes)? < bytes.len() {
                return Err(Errno::Io);
            }
            let digest = Digest::of(&bytes);
            if kept.memory.insert(digest, bytes.into()).is_none() {
                kept.memory_bytes += len_bytes;
            }
            return Ok(digest);
        }
        let offset = kept.spool_bytes;
        let dir = self.cas.as_ref().map(Cas::dir);
        let digest = kept.append(dir, read, len_bytes)?;
        if kept.spooled.contains_key(&digest) {
            return Ok(digest);
        }
        kept.spooled.insert(digest, offset);
        kept.spool_bytes += len_bytes;
        Ok(digest)
    }

    /// Opens the content with `digest`, which has `len_bytes`.
    ///
    /// # Errors
    /// `EIO` if it is missing or damaged.
    pub(in crate::kernel::vfs) fn open(
        &self,
        digest: Digest,
        len_bytes: u64,
    ) -> Result<Blob, Errno> {
        self.open_or(digest, len_bytes, || Err(Errno::Io))
    }

    /// As [`Contents::open`]; if it is missing or damaged, takes it from `origin`, where it still is what it was.
    ///
    /// # Errors
    /// `EIO` if it is missing or damaged, and another one in `origin`.
    pub(in crate::kernel::vfs) fn open_or(
        &self,
        digest: Digest,
        len_bytes: u64,
        origin: impl FnOnce() -> Result<Blob, Errno>,
    ) -> Result<Blob, Errno> {
        let why = match self.find(digest, len_bytes) {
            Ok(blob) => return Ok(blob),
            Err(why) => why,
        };
        if origin().and_then(|blob| self.keep(&blob, len_bytes)) == Ok(digest) {
            self.kept().repaired.push((digest, len_bytes));
            return self.find(digest, len_bytes).map_err(|_| Errno::Io);
        }
        // A program only learns that it cannot read something.
        let _ = self.damage.set(why.to_string());
        Err(Errno::Io)
    }

    /// Why a content could not be read, if one could not.
    pub(in crate::kernel::vfs) fn damage(&self) -> Option<&str> {
        self.damage.get().map(String::as_str)
    }

    fn find(&self, digest: Digest, len_bytes: u64) -> Result<Blob, StoreError> {
        let mut kept = self.kept();
        if let Some(bytes) = kept.memory.get(&digest) {
            return Ok(Blob::Bytes(bytes.clone()));
        }
        if let (Some(offset), Some(file)) = (kept.spooled.get(&digest), &kept.spool) {
            return Ok(Blob::Part { file: file.clone(), offset: *offset, len: len_bytes });
        }
        let Some(cas) = &self.cas else {
            return Err(StoreError::Missing { digest, path: PathBuf::new() });
        };
        if len_bytes <= SMALL_BYTES_MAX && kept.memory_bytes + len_bytes <= MEMORY_BYTES_MAX {
            let bytes: Arc<[u8]> = cas.get(digest, len_bytes)?.into();
            kept.memory_bytes += bytes.len() as u64;
            kept.memory.insert(digest, bytes.clone());
            return Ok(Blob::Bytes(bytes));
        }
        let file = cas.open(digest, len_bytes)?;
        Ok(Blob::Host(file.into()))
    }

    /// Writes the content with `digest` to `cas`, unless it is there. What was kept earlier in the same store is not looked
    /// for there: a session that has read 30,000 files would ask the disk as often.
    ///
    /// # Errors
    /// Those of [`Cas::put`].
    pub(in crate::kernel::vfs) fn store(
        &self,
        digest: Digest,
        len_bytes: u64,
        cas: &Cas,
    ) -> Result<(), StoreError> {
        let is_of_store = self.cas.as_ref().is_some_and(|store| store.dir() == cas.dir());
        if is_of_store && !self.kept().has(digest) || cas.has(digest, len_bytes) {
            return Ok(());
        }
        let blob = self.open(digest, len_bytes);
        let mut read = |offset: u64, buf: &mut [u8]| match &blob {
            Ok(blob) => blob.read_at(buf, offset).map_err(io::Error::other),
            Err(errno) => Err(io::Error::other(*errno)),
        };
        cas.put(digest, &mut read)
    }

    /// Writes the contents to `cas` that [`Contents::open_or`] found damaged there.
    ///
    /// # Errors
    /// Those of [`Cas::put`].
    pub(in crate::kernel::vfs) fn store_repaired(&self, cas: &Cas) -> Result<(), StoreError> {
        let repaired = std::mem::take(&mut self.kept().repaired);
        repaired.iter().try_for_each(|(digest, len_bytes)| self.store(*digest, *len_bytes, cas))
    }
}

impl Kept {
    /// Whether the content with `digest` was kept or read by this process.
    fn has(&self, digest: Digest) -> bool {
        self.memory.contains_key(&digest) || self.spooled.contains_key(&digest)
    }

    /// Appends `len_bytes` obtained with `read` to the spool, which is created in `dir`, or in the system's
    /// directory for temporary files.
    fn append(
        &mut self,
        dir: Option<&std::path::Path>,
        read: Read<'_>,
        len_bytes: u64,
    ) -> Result<Digest, Errno> {
        if self.spool.is_none() {
            let file = match dir {
                Some(dir) => disk::create_private_dir_all(dir)
                    .map_err(|error| error.source)
                    .and_then(|()| tempfile::tempfile_in(dir)),
                None => tempfile::tempfile(),
            };
            let file = file.map_err(|error| Errno::from_io(&error))?;
            let to_read = file.try_clone().map_err(|error| Errno::from_io(&error))?;
            (self.spool, self.spool_end) = (Some(Arc::new(to_read.into())), Some(file));
        }
        let file = self.spool_end.as_mut().ok_or(Errno::Io)?;
        let written = file.seek(SeekFrom::Start(self.spool_bytes));
        written.map_err(|error| Errno::from_io(&error))?;
        let mut hasher = DigestHasher::default();
        let mut piece = vec![0; len_bytes.min(PIECE_BYTES as u64) as usize];
        let mut offset = 0;
        while offset < len_bytes {
            let count = (len_bytes - offset).min(piece.len() as u64) as usize;
            if read(offset, &mut piece[..count])? < count {
                return Err(Errno::Io);
            }
            hasher.write(&piece[..count]);
            file.write_all(&piece[..count]).map_err(|error| Errno::from_io(&error))?;
            offset += count as u64;
        }
        Ok(hasher.digest())
    }
}
