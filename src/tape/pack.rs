//! Packs: files in the store of a tape that hold its short contents, one after another. A recording of
//! 30,000 files would otherwise create 30,000 files.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};
use crate::store::StoreError;

/// Longest content of a pack, in bytes. Longer ones are files of their own.
pub const PACKED_BYTES_MAX: usize = 64 << 10;

/// The start of a pack.
const MAGIC: &[u8] = b"belljar pack 1\n";

/// Extension of a pack. Its name is a number.
const EXTENSION: &str = "pack";

/// Bytes of an entry before its content: the digest, and the length as a little-endian `u32`.
const HEADER_BYTES: usize = Digest::BYTES + 4;

/// A pack that one recorder writes. Each entry is written at once: what a killed recorder leaves has at most
/// one incomplete entry, at its end.
pub(super) struct PackWriter {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
}

impl PackWriter {
    /// Creates a pack in `dir`, which is created if it does not exist. Its number is greater than those of
    /// the others.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(dir: &Path) -> Result<Self, DiskError> {
        disk::create_private_dir_all(dir)?;
        let mut number = numbered(dir)?.last().map_or(0, |(number, _)| number.saturating_add(1));
        let (path, mut file) = loop {
            let path = dir.join(format!("{number}.{EXTENSION}"));
            match disk::create_new_private(&path) {
                Err(error)
                    if error.source.kind() == io::ErrorKind::AlreadyExists && number < u32::MAX =>
                {
                    number += 1;
                }
                file => break (path, file?),
            }
        };
        file.write_all(MAGIC).map_err(DiskError::new("write", &path))?;
        Ok(Self { path, file, buffer: Vec::new() })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends `bytes`, at most [`PACKED_BYTES_MAX`], which have `digest`.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn push(&mut self, digest: Digest, bytes: &[u8]) -> Result<(), DiskError> {
        let len_bytes = u32::try_from(bytes.len()).expect("at most 64 KiB");
        self.buffer.clear();
        self.buffer.extend(digest.as_bytes());
        self.buffer.extend(len_bytes.to_le_bytes());
        self.buffer.extend(bytes);
        self.file.write_all(&self.buffer).map_err(DiskError::new("write", &self.path))
    }
}

/// Where a content is in a pack.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    len_bytes: u32,
}

/// The packs of a store, for reading. They are read as far as they are written: what is added later is found
/// by [`Packs::read_further`].
#[derive(Debug, Default)]
pub(super) struct Packs {
    packs: Vec<Pack>,
    /// The pack, by index, and the place in it.
    places: HashMap<Digest, (usize, Place)>,
}

#[derive(Debug)]
struct Pack {
    path: PathBuf,
    file: File,
    /// The end of the last complete entry that was read.
    end: u64,
}

impl Packs {
    /// The digests of all contents found so far.
    pub fn digests(&self) -> impl Iterator<Item = Digest> {
        self.places.keys().copied()
    }

    /// Whether a content with `digest` was found so far.
    pub fn contains(&self, digest: Digest) -> bool {
        self.places.contains_key(&digest)
    }

    /// Finds what was added to the packs in `dir` since the last time. An incomplete or invalid entry hides
    /// what follows in its pack.
    ///
    /// # Errors
    /// `dir` or a pack in it cannot be read. A missing `dir` is empty.
    pub fn read_further(&mut self, dir: &Path) -> Result<(), DiskError> {
        for (_, path) in numbered(dir)? {
            let known = self.packs.iter().position(|pack| pack.path == path);
            let index = match known {
                Some(index) => index,
                // A link may lead anywhere.
                None if !disk::symlink_metadata(&path)?.is_file() => continue,
                None => {
                    let file = disk::open(&path)?;
                    self.packs.push(Pack { path, file, end: 0 });
                    self.packs.len() - 1
                }
            };
            let pack = &mut self.packs[index];
            let places = &mut self.places;
            let add = |digest, place| {
                places.insert(digest, (index, place));
            };
            pack.read_further(add).map_err(DiskError::new("read", &pack.path))?;
        }
        Ok(())
    }

    /// Reads the content with `digest`, if it is there and has at most `len_bytes_max` bytes.
    ///
    /// # Errors
    /// [`StoreError`]: `TooLong`, `Damaged`, `Disk`.
    pub fn get(
        &mut self,
        digest: Digest,
        len_bytes_max: u64,
    ) -> Option<Result<Vec<u8>, StoreError>> {
        let (index, place) = *self.places.get(&digest)?;
        let pack = &mut self.packs[index];
        let path = pack.path.clone();
        let len_bytes = u64::from(place.len_bytes);
        if len_bytes > len_bytes_max {
            return Some(Err(StoreError::TooLong { path, len_bytes, len_bytes_max }));
        }
        let mut bytes = vec![0; place.len_bytes as usize];
        let read = pack.file.seek(SeekFrom::Start(place.offset));
        Some(match read.and_then(|_| pack.file.read_exact(&mut bytes)) {
            Err(error) => Err(DiskError::new("read", &path)(error).into()),
            Ok(()) if Digest::of(&bytes) != digest => Err(StoreError::Damaged { path }),
            Ok(()) => Ok(bytes),
        })
    }
}

impl Pack {
    fn read_further(&mut self, mut add: impl FnMut(Digest, Place)) -> io::Result<()> {
        let len_bytes = self.file.metadata()?.len();
        if self.end == len_bytes {
            return Ok(());
        }
        self.file.seek(SeekFrom::Start(self.end))?;
        let mut reader = BufReader::with_capacity(PACKED_BYTES_MAX, &self.file);
        if self.end == 0 {
            let mut magic = [0; MAGIC.len()];
            if !read_whole(&mut reader, &mut magic)? || magic != MAGIC {
                return Ok(());
            }
            self.end = MAGIC.len() as u64;
        }
        let mut header = [0; HEADER_BYTES];
        while read_whole(&mut reader, &mut header)? {
            let (digest, length) = header.split_at(Digest::BYTES);
            let digest = Digest::from_bytes(digest.try_into().expect("a digest's length"));
            let length = u32::from_le_bytes(length.try_into().expect("four bytes"));
            let offset = self.end + HEADER_BYTES as u64;
            let end = offset + u64::from(length);
            if length as usize > PACKED_BYTES_MAX || end > len_bytes {
                break;
            }
            add(digest, Place { offset, len_bytes: length });
            self.end = end;
            reader.seek_relative(i64::from(length))?;
        }
        Ok(())
    }
}

/// Fills `buf`, or returns false at the end of the file.
fn read_whole(reader: &mut impl Read, buf: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(buf) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

/// The packs in `dir` with their numbers, in ascending order.
///
/// # Errors
/// `dir` cannot be read. A missing one is empty.
pub(super) fn numbered(dir: &Path) -> Result<Vec<(u32, PathBuf)>, DiskError> {
    let files = disk::list_if_there(dir)?;
    let mut packs: Vec<_> =
        files.into_iter().filter_map(|path| Some((number(&path)?, path))).collect();
    packs.sort();
    Ok(packs)
}

fn number(path: &Path) -> Option<u32> {
    let digits = path.file_stem()?.to_str()?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && path.extension()? == EXTENSION).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [&[u8]; 4] = [b"one", b"", b"three", b"the last"];

    fn write(dir: &Path) -> PathBuf {
        let mut pack = PackWriter::create(dir).unwrap();
        for text in TEXTS {
            pack.push(Digest::of(text), text).unwrap();
        }
        pack.path().to_owned()
    }

    fn read(dir: &Path) -> Packs {
        let mut packs = Packs::default();
        packs.read_further(dir).unwrap();
        packs
    }

    fn found(packs: &mut Packs) -> Vec<&'static [u8]> {
        let is_there = |text: &&[u8]| match packs.get(Digest::of(text), 8) {
            Some(bytes) => bytes.unwrap() == *text,
            None => false,
        };
        TEXTS.into_iter().filter(is_there).collect()
    }

    #[test]
    fn pack_reads_as_it_was_written_and_while_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("store");
        assert_eq!(found(&mut read(&dir)).len(), 0);
        let mut pack = PackWriter::create(&dir).unwrap();
        let mut packs = read(&dir);
        for (index, text) in TEXTS.into_iter().enumerate() {
            pack.push(Digest::of(text), text).unwrap();
            packs.read_further(&dir).unwrap();
            let (_, place) = packs.places[&Digest::of(text)];
            assert_eq!(place.len_bytes as usize, text.len());
            assert_eq!(found(&mut packs), TEXTS[..=index]);
        }
        let too_long = packs.get(Digest::of(b"three"), 4).unwrap();
        assert!(matches!(too_long, Err(StoreError::TooLong { len_bytes: 5, .. })));
        assert_eq!(write(&dir), dir.join("1.pack"));
        assert_eq!(found(&mut read(&dir)), TEXTS);
    }

    #[test]
    fn cut_pack_has_its_complete_entries() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path());
        let whole = disk::read(&path).unwrap();
        let mut ends: Vec<usize> = vec![MAGIC.len()];
        for text in TEXTS {
            ends.push(ends.last().unwrap() + HEADER_BYTES + text.len());
        }
        for len in 0..=whole.len() {
            std::io::Write::write_all(&mut disk::create(&path).unwrap(), &whole[..len]).unwrap();
            let complete = ends[1..].iter().filter(|end| **end <= len).count();
            assert_eq!(found(&mut read(folder.path())), TEXTS[..complete], "{len} bytes");
        }
    }

    #[test]
    fn damaged_pack_gives_no_wrong_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path());
        let whole = disk::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x41;
            std::io::Write::write_all(&mut disk::create(&path).unwrap(), &damaged).unwrap();
            let mut packs = read(folder.path());
            let right = TEXTS.into_iter().filter(|text| {
                let bytes = packs.get(Digest::of(text), 8);
                assert!(!matches!(&bytes, Some(Ok(bytes)) if bytes != text), "byte {at}");
                matches!(bytes, Some(Ok(_)))
            });
            assert!(right.count() < TEXTS.len(), "byte {at}");
        }
    }
}
