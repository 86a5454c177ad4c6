//! The content of a file on one side of a change, shared with the overlay or read from the layer.

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use crate::base::digest::{Digest, DigestHasher};
use crate::base::errno::Errno;
use crate::kernel::vfs::layer::{Blob, Layer, Stat};
use crate::kernel::vfs::overlay::content::{CHUNK_BYTES, Content};
use crate::kernel::vfs::path::VPath;

/// Bytes compared or copied at a time.
const PIECE_BYTES: usize = 256 << 10;

/// A file on one side of a change. It keeps its state when the overlay changes later; what was not read is read
/// from the layer.
#[derive(Clone)]
pub struct FileVersion {
    /// Its owner may execute it.
    pub executable: bool,
    content: Content,
    below: Option<(Arc<dyn Layer>, VPath)>,
}

impl FileVersion {
    /// `below` is the file of a layer that has the bytes not in `content`.
    pub(super) fn new(
        executable: bool,
        content: Content,
        below: Option<(Arc<dyn Layer>, VPath)>,
    ) -> Self {
        Self { executable, content, below }
    }

    /// The file `path` of `layer`.
    pub(in crate::kernel::vfs) fn of_layer(
        layer: Arc<dyn Layer>,
        path: &VPath,
        stat: &Stat,
    ) -> Self {
        Self::new(stat.executable, Content::below(stat.size), Some((layer, path.clone())))
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.content.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes.
    ///
    /// # Errors
    /// `ENOMEM`; those of the layer; `EIO` if the file there became shorter.
    pub fn read(&self) -> Result<Vec<u8>, Errno> {
        let len = usize::try_from(self.len()).map_err(|_| Errno::Nomem)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| Errno::Nomem)?;
        bytes.resize(len, 0);
        self.read_at(self.open()?.as_ref(), 0, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns a function that reads at an offset and returns the count, 0 at the end.
    ///
    /// # Errors
    /// Those of opening the file in the layer; later those of [`FileVersion::read`].
    pub fn reader(&self) -> Result<impl FnMut(u64, &mut [u8]) -> Result<usize, Errno> + '_, Errno> {
        let below = self.open()?;
        Ok(move |offset: u64, buf: &mut [u8]| {
            let count = self.len().saturating_sub(offset).min(buf.len() as u64) as usize;
            self.read_at(below.as_ref(), offset, &mut buf[..count])?;
            Ok(count)
        })
    }

    /// Returns the digest of the bytes, and their number.
    ///
    /// # Errors
    /// Those of [`FileVersion::read`].
    pub fn digest(&self) -> Result<(Digest, u64), Errno> {
        let mut read = self.reader()?;
        let mut hasher = DigestHasher::default();
        let mut piece = vec![0; self.piece_bytes()];
        let mut offset = 0;
        loop {
            let count = read(offset, &mut piece)?;
            if count == 0 {
                return Ok((hasher.digest(), offset));
            }
            hasher.write(&piece[..count]);
            offset += count as u64;
        }
    }

    /// Passes the bytes to `sink` in order, in pieces with their offsets, without holes.
    pub(in crate::kernel::vfs) fn read_pieces<E: From<Errno>>(
        &self,
        mut sink: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let below = self.open()?;
        let mut buffer = vec![0; self.piece_bytes()];
        let mut offset = 0;
        while offset < self.len() {
            if self.content.is_hole(offset) {
                offset = chunk_end(offset);
                continue;
            }
            let count = (self.len() - offset).min(buffer.len() as u64) as usize;
            self.read_at(below.as_ref(), offset, &mut buffer[..count])?;
            sink(offset, &buffer[..count])?;
            offset += count as u64;
        }
        Ok(())
    }

    fn piece_bytes(&self) -> usize {
        self.len().min(PIECE_BYTES as u64) as usize
    }

    /// Opens the file of the layer, if some of the bytes are only there.
    fn open(&self) -> Result<Option<Blob>, Errno> {
        match &self.below {
            Some((layer, path)) if self.content.needs_below(0, u64::MAX) => {
                layer.open(path).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn read_at(&self, below: Option<&Blob>, offset: u64, buf: &mut [u8]) -> Result<(), Errno> {
        let count = self.content.read(below, offset, buf)?;
        if count < buf.len() { Err(Errno::Io) } else { Ok(()) }
    }

    /// Whether both have the same bytes.
    pub(in crate::kernel::vfs) fn has_same_bytes(&self, other: &Self) -> Result<bool, Errno> {
        if self.len() != other.len() {
            return Ok(false);
        }
        let same_file = match (&self.below, &other.below) {
            (Some((a, a_path)), Some((b, b_path))) => Arc::ptr_eq(a, b) && a_path == b_path,
            _ => false,
        };
        let (self_below, other_below) = (self.open()?, other.open()?);
        let (mut ours, mut theirs) = (vec![0; self.piece_bytes()], vec![0; self.piece_bytes()]);
        let mut offset = 0;
        while offset < self.len() {
            // Lengths below are compared, because a part that was cut off and extended again reads as zeros.
            let below = |side: &Self| side.content.below_bytes_at(offset);
            let is_untouched = same_file && below(self).is_some() && below(self) == below(other);
            let holes = self.content.is_hole(offset) && other.content.is_hole(offset);
            if holes || is_untouched {
                offset = chunk_end(offset);
                continue;
            }
            let count = (self.len() - offset).min(ours.len() as u64) as usize;
            self.read_at(self_below.as_ref(), offset, &mut ours[..count])?;
            other.read_at(other_below.as_ref(), offset, &mut theirs[..count])?;
            if ours[..count] != theirs[..count] {
                return Ok(false);
            }
            offset += count as u64;
        }
        Ok(true)
    }
}

impl fmt::Debug for FileVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { executable, .. } = self;
        write!(f, "FileVersion {{ len: {}, executable: {executable} }}", self.len())
    }
}

/// The start of the chunk after that of `offset`.
fn chunk_end(offset: u64) -> u64 {
    (offset / CHUNK_BYTES as u64 + 1) * CHUNK_BYTES as u64
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the test uses the disk")]
mod tests {
    use super::*;
    use crate::kernel::vfs::HostDir;

    /// Such a change was not reported, and not applied.
    #[test]
    fn unread_file_truncated_and_extended_is_modified() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "abcdef").unwrap();
        let layer: Arc<dyn Layer> = Arc::new(HostDir::open(folder.path()).unwrap());
        let path = VPath::parse("a").unwrap();
        let before = FileVersion::of_layer(layer.clone(), &path, &layer.stat(&path).unwrap());
        let mut content = Content::below(6);
        for len in [2, 6] {
            content.set_len(len).unwrap();
        }
        let after = FileVersion::new(false, content, Some((layer, path)));
        assert_eq!(after.read().unwrap(), b"ab\0\0\0\0");
        assert!(!after.has_same_bytes(&before).unwrap());
        assert!(before.has_same_bytes(&before).unwrap());
    }
}
