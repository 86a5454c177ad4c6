//! The bytes of one file, in chunks that are shared until written.
//!
//! A chunk is a hole, an unread piece of the file below, or memory. Cloning a content clones references, sparse
//! files cost what is written to them, and a growing file is not copied.

use std::ops::Range;
use std::sync::Arc;

use memmap2::MmapMut;

use crate::base::errno::Errno;
use crate::kernel::vfs::layer::Blob;

/// Length of every chunk but the last: a huge page on x86-64 and arm64.
pub const CHUNK_BYTES: usize = 2 << 20;

/// Up to this length a chunk is on the heap and doubles as it grows; a longer one is a mapping.
const HEAP_MAX: usize = 1 << 20;

/// Bytes per chunk in the list of chunks.
pub const SLOT_BYTES: u64 = size_of::<Chunk>() as u64;

/// The content of a regular file.
#[derive(Clone, Default)]
pub struct Content {
    len: u64,
    /// Length of the part of the file below that is still part of this one. `Below` chunks end there, whatever
    /// `len` is.
    below_len: u64,
    /// Chunks past its end are `Below` up to `below_len`, then holes: an unread file takes no memory, however
    /// long it is.
    chunks: Vec<Chunk>,
    /// Something was written since the content came from the layer below.
    dirty: bool,
}

#[derive(Clone)]
enum Chunk {
    Hole,
    Below,
    Memory(Arc<Buffer>),
}

/// One chunk of a content, to be saved.
pub enum Piece<B> {
    /// Zeros.
    Hole,
    /// The bytes of the file below at the same place.
    Below,
    /// These bytes, then zeros.
    Bytes(B),
}

/// The memory of one chunk. Bytes past its length read as zeros.
enum Buffer {
    Heap(Vec<u8>),
    Mapped { pages: MmapMut, len: usize },
}

impl Buffer {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped { pages, len } => &pages[..*len],
        }
    }

    /// Bytes of memory it takes. The spare capacity of a vector is untouched memory and does not count.
    fn memory_bytes(&self) -> usize {
        match self {
            Self::Heap(bytes) => bytes.len(),
            Self::Mapped { .. } => CHUNK_BYTES,
        }
    }

    /// Writes `bytes` at `at`; both lie within the chunk.
    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), Errno> {
        let end = at + bytes.len();
        if let Self::Heap(heap) = self {
            if end <= HEAP_MAX {
                if at == heap.len() {
                    heap.try_reserve(bytes.len()).map_err(|_| Errno::Nomem)?;
                    heap.extend_from_slice(bytes);
                } else {
                    if end > heap.len() {
                        heap.try_reserve(end - heap.len()).map_err(|_| Errno::Nomem)?;
                        heap.resize(end, 0);
                    }
                    heap[at..end].copy_from_slice(bytes);
                }
                return Ok(());
            }
            let mut pages = map_chunk()?;
            pages[..heap.len()].copy_from_slice(heap);
            *self = Self::Mapped { pages, len: heap.len() };
        }
        if let Self::Mapped { pages, len } = self {
            pages[at..end].copy_from_slice(bytes);
            *len = end.max(*len);
        }
        Ok(())
    }

    /// Drops the bytes from `at` on.
    fn truncate(&mut self, at: usize) {
        match self {
            // Freed: uncharged memory must not stay allocated.
            Self::Heap(heap) => {
                heap.truncate(at);
                heap.shrink_to(at);
            }
            Self::Mapped { pages, len } if at < *len => {
                if at <= HEAP_MAX {
                    *self = Self::Heap(pages[..at].to_vec());
                } else {
                    pages[at..*len].fill(0);
                    *len = at;
                }
            }
            Self::Mapped { .. } => {}
        }
    }

    /// Copies a shared buffer for writing. The copy takes as much memory as this one.
    fn duplicate(&self) -> Result<Self, Errno> {
        match self {
            Self::Heap(_) => {
                let mut copy = Self::Heap(Vec::new());
                copy.write(0, self.bytes())?;
                Ok(copy)
            }
            Self::Mapped { len, .. } => {
                let mut pages = map_chunk()?;
                pages[..*len].copy_from_slice(self.bytes());
                Ok(Self::Mapped { pages, len: *len })
            }
        }
    }
}

/// Maps zeroed memory for one chunk, a huge page where the system has them.
fn map_chunk() -> Result<MmapMut, Errno> {
    let pages = MmapMut::map_anon(CHUNK_BYTES).map_err(|_| Errno::Nomem)?;
    // Only advice: a system without huge pages uses small ones.
    #[cfg(target_os = "linux")]
    let _ = pages.advise(memmap2::Advice::HugePage);
    Ok(pages)
}

/// [`Buffer::memory_bytes`] of a new buffer with `len` bytes.
fn buffer_bytes(len: usize) -> usize {
    if len <= HEAP_MAX { len } else { CHUNK_BYTES }
}

/// The index of the chunk that holds `offset`, and the offset in it.
fn locate(offset: u64) -> (usize, usize) {
    let chunk = usize::try_from(offset / CHUNK_BYTES as u64).unwrap_or(usize::MAX);
    (chunk, (offset % CHUNK_BYTES as u64) as usize)
}

/// The chunks that `offset..offset + len` overlaps.
fn touched(offset: u64, len: u64) -> Range<usize> {
    let end = offset.saturating_add(len).div_ceil(CHUNK_BYTES as u64);
    locate(offset).0..usize::try_from(end).unwrap_or(usize::MAX)
}

impl Content {
    /// The content of a file of a layer, unread.
    pub fn below(len: u64) -> Self {
        Self { len, below_len: len, chunks: Vec::new(), dirty: false }
    }

    fn chunk(&self, index: usize) -> &Chunk {
        match self.chunks.get(index) {
            Some(chunk) => chunk,
            None if index < self.below_chunks() => &Chunk::Below,
            None => &Chunk::Hole,
        }
    }

    /// Number of chunks that begin within the file below.
    fn below_chunks(&self) -> usize {
        usize::try_from(self.below_len.div_ceil(CHUNK_BYTES as u64)).unwrap_or(usize::MAX)
    }

    /// Bytes of the file below in chunk `index`.
    fn below_bytes(&self, index: usize) -> usize {
        let start = index as u64 * CHUNK_BYTES as u64;
        self.below_len.saturating_sub(start).min(CHUNK_BYTES as u64) as usize
    }

    /// The entry of chunk `index` in the list, which is extended if needed.
    fn slot(&mut self, index: usize) -> Result<&mut Chunk, Errno> {
        if index >= self.chunks.len() {
            let more = index + 1 - self.chunks.len();
            self.chunks.try_reserve(more).map_err(|_| Errno::Nomem)?;
            let below = self.below_chunks().clamp(self.chunks.len(), index + 1);
            self.chunks.resize(below, Chunk::Below);
            self.chunks.resize(index + 1, Chunk::Hole);
        }
        Ok(&mut self.chunks[index])
    }

    /// Bytes of the file below that are still part of this one.
    pub fn below_len(&self) -> u64 {
        self.below_len
    }

    /// The listed chunks.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<&[u8]>> {
        self.chunks.iter().map(|chunk| match chunk {
            Chunk::Hole => Piece::Hole,
            Chunk::Below => Piece::Below,
            Chunk::Memory(buffer) => Piece::Bytes(buffer.bytes()),
        })
    }

    /// A dirty content made of `pieces`, none of them longer than a chunk.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn from_pieces(
        len: u64,
        below_len: u64,
        pieces: Vec<Piece<Vec<u8>>>,
    ) -> Result<Self, Errno> {
        let mut chunks = Vec::with_capacity(pieces.len());
        for piece in pieces {
            chunks.push(match piece {
                Piece::Hole => Chunk::Hole,
                Piece::Below => Chunk::Below,
                Piece::Bytes(bytes) if bytes.len() <= HEAP_MAX => {
                    Chunk::Memory(Arc::new(Buffer::Heap(bytes)))
                }
                Piece::Bytes(bytes) => {
                    let mut pages = map_chunk()?;
                    pages[..bytes.len()].copy_from_slice(&bytes);
                    Chunk::Memory(Arc::new(Buffer::Mapped { pages, len: bytes.len() }))
                }
            });
        }
        Ok(Self { len, below_len, chunks, dirty: true })
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it was written to since it came from the layer below.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Whether some of the bytes in `offset..offset + len` have not been read from the layer below.
    pub fn needs_below(&self, offset: u64, len: u64) -> bool {
        let Range { start, end } = touched(offset, len);
        let is_below = |chunk: &Chunk| matches!(chunk, Chunk::Below);
        let listed = self.chunks.get(start..end.min(self.chunks.len()));
        listed.is_some_and(|chunks| chunks.iter().any(is_below))
            || start.max(self.chunks.len()) < end.min(self.below_chunks())
    }

    /// Reads the chunks that `offset..offset + len` overlaps into memory, as far as they are below.
    ///
    /// # Errors
    /// Those of [`Blob::read_at`]; `EIO` if the file below became shorter; `ENOMEM`.
    pub fn load(&mut self, below: &Blob, offset: u64, len: u64) -> Result<(), Errno> {
        let Range { start, end } = touched(offset, len);
        for index in start..end.min(self.below_chunks()) {
            if !matches!(self.chunk(index), Chunk::Below) {
                continue;
            }
            let at = index as u64 * CHUNK_BYTES as u64;
            let wanted = self.below_bytes(index);
            let buffer = if wanted <= HEAP_MAX {
                let mut bytes = vec![0; wanted];
                if below.read_at(&mut bytes, at)? != wanted {
                    return Err(Errno::Io);
                }
                Buffer::Heap(bytes)
            } else {
                let mut pages = map_chunk()?;
                if below.read_at(&mut pages[..wanted], at)? != wanted {
                    return Err(Errno::Io);
                }
                Buffer::Mapped { pages, len: wanted }
            };
            *self.slot(index)? = Chunk::Memory(Arc::new(buffer));
        }
        Ok(())
    }

    /// Frees what was read of the file below, except the chunks that `offset..offset + len` overlaps. The content
    /// must not be dirty.
    pub fn forget_read(&mut self, offset: u64, len: u64) {
        let Range { start, end } = touched(offset, len);
        self.chunks.truncate(end);
        for chunk in self.chunks.iter_mut().take(start) {
            *chunk = Chunk::Below;
        }
    }

    /// Bytes of the file below in the chunk that holds `offset`, if that chunk was neither read nor written.
    pub fn below_bytes_at(&self, offset: u64) -> Option<usize> {
        let index = locate(offset).0;
        matches!(self.chunk(index), Chunk::Below).then(|| self.below_bytes(index))
    }

    /// Whether the chunk that holds `offset` is a hole.
    pub fn is_hole(&self, offset: u64) -> bool {
        matches!(self.chunk(locate(offset).0), Chunk::Hole)
    }

    /// Copies from `offset` on into `buf` until it is full or the content ends; returns the count. Bytes that
    /// [`Content::load`] has not loaded come from `below`.
    ///
    /// # Errors
    /// Those of [`Blob::read_at`]; `EIO` if the file below became shorter, or is needed and `None`.
    pub fn read(&self, below: Option<&Blob>, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        let count = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = count.min(buf.len());
        let mut done = 0;
        while done < count {
            let (index, at) = locate(offset + done as u64);
            let piece = (count - done).min(CHUNK_BYTES - at);
            let out = &mut buf[done..done + piece];
            match (self.chunk(index), below) {
                (Chunk::Memory(buffer), _) => {
                    let bytes = buffer.bytes();
                    let bytes = &bytes[at.min(bytes.len())..];
                    let have = bytes.len().min(piece);
                    out[..have].copy_from_slice(&bytes[..have]);
                    out[have..].fill(0);
                }
                (Chunk::Below, Some(below)) => {
                    let at = offset + done as u64;
                    let wanted = self.below_len.saturating_sub(at).min(piece as u64) as usize;
                    let have = below.read_at(&mut out[..wanted], at)?;
                    if have < wanted {
                        return Err(Errno::Io);
                    }
                    out[wanted..].fill(0);
                }
                (Chunk::Below, None) => return Err(Errno::Io),
                (Chunk::Hole, _) => out.fill(0),
            }
            done += piece;
        }
        Ok(count)
    }

    /// Writes `bytes` at `offset` and extends the content with zeros if needed. The range must be loaded.
    ///
    /// # Errors
    /// `ENOMEM`; the chunks before the failing one have been written.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.dirty = true;
        let mut done = 0;
        while done < bytes.len() {
            let (index, at) = locate(offset + done as u64);
            let piece = (bytes.len() - done).min(CHUNK_BYTES - at);
            self.buffer_mut(index)?.write(at, &bytes[done..done + piece])?;
            done += piece;
            self.len = self.len.max(offset + done as u64);
        }
        Ok(())
    }

    /// Sets the length: cuts the end off, or extends it with a hole.
    ///
    /// # Errors
    /// `ENOMEM` if a shared chunk cannot be copied.
    pub fn set_len(&mut self, len: u64) -> Result<(), Errno> {
        if len < self.len {
            let (index, at) = locate(len);
            self.chunks.truncate(index + usize::from(at > 0));
            self.chunks.shrink_to(self.chunks.len());
            self.below_len = self.below_len.min(len);
            if at > 0 && matches!(self.chunks.get(index), Some(Chunk::Memory(_))) {
                self.buffer_mut(index)?.truncate(at);
            }
        }
        self.len = len;
        self.dirty = true;
        Ok(())
    }

    /// Bytes that a write of `len` at `offset` will add to [`Content::charged`], including what must be loaded for
    /// it. What was read before the first write and is not overlapped by it is freed ([`Content::forget_read`])
    /// and does not count.
    pub fn growth(&self, offset: u64, len: usize) -> u64 {
        if len == 0 {
            return 0;
        }
        let slots = if self.dirty { self.chunks.len() } else { 0 };
        let chunks = touched(offset, len as u64).end;
        let mut growth = chunks.saturating_sub(slots) as u64 * SLOT_BYTES;
        let mut follows_full = self.dirty && self.follows_full(locate(offset).0);
        let mut done = 0;
        while done < len {
            let (index, at) = locate(offset + done as u64);
            let piece = (len - done).min(CHUNK_BYTES - at);
            let end = at + piece;
            let (held, made) = match self.chunk(index) {
                Chunk::Memory(buffer) => (buffer.memory_bytes(), buffer.memory_bytes()),
                Chunk::Below => (0, buffer_bytes(self.below_bytes(index))),
                Chunk::Hole if follows_full => (0, CHUNK_BYTES),
                Chunk::Hole => (0, 0),
            };
            let held = if self.dirty { held } else { 0 };
            growth += (made.max(buffer_bytes(end)) - held) as u64;
            follows_full = end == CHUNK_BYTES;
            done += piece;
        }
        growth
    }

    /// Bytes that count against the limit of the upper layer: none before the first write.
    pub fn charged(&self) -> u64 {
        if self.dirty { self.held_bytes() } else { 0 }
    }

    /// Bytes of memory it takes, shared chunks in full. A hole takes its place in the list of chunks, so a byte
    /// written far out costs something.
    pub fn held_bytes(&self) -> u64 {
        let bytes = |chunk: &Chunk| match chunk {
            Chunk::Memory(buffer) => buffer.memory_bytes(),
            Chunk::Hole | Chunk::Below => 0,
        };
        let memory: usize = self.chunks.iter().map(bytes).sum();
        memory as u64 + self.chunks.len() as u64 * SLOT_BYTES
    }

    /// Whether chunk `index` follows a full one.
    fn follows_full(&self, index: usize) -> bool {
        let before = index.checked_sub(1).and_then(|before| self.chunks.get(before));
        matches!(before, Some(Chunk::Memory(b)) if b.bytes().len() == CHUNK_BYTES)
    }

    fn buffer_mut(&mut self, index: usize) -> Result<&mut Buffer, Errno> {
        // Sequential writes will fill this chunk too: start with a mapping.
        let follows_full = self.follows_full(index);
        let chunk = self.slot(index)?;
        match chunk {
            Chunk::Hole if follows_full => {
                let pages = map_chunk()?;
                *chunk = Chunk::Memory(Arc::new(Buffer::Mapped { pages, len: 0 }));
            }
            Chunk::Hole => *chunk = Chunk::Memory(Arc::new(Buffer::Heap(Vec::new()))),
            Chunk::Memory(buffer) => {
                if Arc::get_mut(buffer).is_none() {
                    *buffer = Arc::new(buffer.duplicate()?);
                }
            }
            Chunk::Below => return Err(Errno::Io),
        }
        let Chunk::Memory(buffer) = chunk else { unreachable!("set just above") };
        Ok(Arc::get_mut(buffer).expect("the buffer was made or found unshared just above"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(content: &Content) -> Vec<u8> {
        let mut bytes = vec![0xaa; usize::try_from(content.len()).unwrap()];
        assert_eq!(content.read(None, 0, &mut bytes).unwrap(), bytes.len());
        bytes
    }

    /// The copy of a short mapping was a vector, and the difference stayed charged.
    #[test]
    fn copy_of_shared_chunk_is_charged_the_same() {
        let mut content = Content::default();
        content.write(0, &vec![1; CHUNK_BYTES]).unwrap();
        content.write(CHUNK_BYTES as u64, b"little").unwrap();
        let charged = content.charged();
        let fork = content.clone();
        assert_eq!(content.growth(CHUNK_BYTES as u64, 1), 0);
        content.write(CHUNK_BYTES as u64, b"L").unwrap();
        assert_eq!(content.charged(), charged);
        assert_eq!(all(&fork)[CHUNK_BYTES], b'l');
    }

    #[test]
    fn gaps_across_chunks_read_as_zeros() {
        let mut content = Content::default();
        let far = CHUNK_BYTES as u64 * 2 + 5;
        content.write(far, b"end").unwrap();
        content.write(1, b"start").unwrap();
        let mut expected = vec![0; usize::try_from(far).unwrap() + 3];
        expected[1..6].copy_from_slice(b"start");
        expected[usize::try_from(far).unwrap()..].copy_from_slice(b"end");
        assert!(all(&content) == expected);
        assert!(content.held_bytes() < 100, "holes take no memory");
    }

    #[test]
    fn truncated_bytes_do_not_reappear() {
        for size in [100, HEAP_MAX + 100, CHUNK_BYTES + 100] {
            let mut content = Content::default();
            content.write(0, &vec![7; size]).unwrap();
            content.set_len(50).unwrap();
            content.set_len(size as u64).unwrap();
            let bytes = all(&content);
            assert!(bytes[..50].iter().all(|b| *b == 7) && bytes[50..].iter().all(|b| *b == 0));
        }
    }

    #[test]
    fn extension_by_set_len_reads_as_zeros() {
        let mut content = Content::default();
        content.write(0, b"abc").unwrap();
        content.set_len(100).unwrap();
        let mut out = [7; 10];
        assert_eq!(content.read(None, 50, &mut out).unwrap(), 10);
        assert_eq!(out, [0; 10]);

        // The last chunk of a file below ends where that file ends.
        let below = Blob::Bytes(Arc::from(*b"abc"));
        let mut content = Content::below(3);
        content.set_len(100).unwrap();
        let mut out = [7; 10];
        assert_eq!(content.read(Some(&below), 1, &mut out).unwrap(), 10);
        assert_eq!(out, [b'b', b'c', 0, 0, 0, 0, 0, 0, 0, 0]);
        content.load(&below, 0, 100).unwrap();
        assert_eq!(all(&content)[..4], [b'a', b'b', b'c', 0]);
    }

    #[test]
    fn clones_share_until_written() {
        let mut content = Content::default();
        content.write(0, &vec![1; CHUNK_BYTES * 2]).unwrap();
        let fork = content.clone();
        content.write(CHUNK_BYTES as u64, b"x").unwrap();
        assert_eq!(all(&fork)[CHUNK_BYTES], 1);
        assert_eq!(all(&content)[CHUNK_BYTES], b'x');
    }

    #[test]
    fn growth_predicts_the_charge() {
        let len = CHUNK_BYTES as u64 * 3 - 5;
        let below = Blob::Bytes(vec![7; len as usize].into());
        let steps = [
            (0u64, 10usize),
            (5, 10),
            (3 << 20, 100),
            (1 << 20, 2 << 20),
            (0, 5),
            (1, HEAP_MAX),
            (CHUNK_BYTES as u64 * 6 - 3, 6),
        ];
        for mut content in [Content::default(), Content::below(len)] {
            content.load(&below, 0, len).unwrap();
            for (offset, len) in steps {
                let expected = content.charged() + content.growth(offset, len);
                if !content.is_dirty() {
                    content.forget_read(offset, len as u64);
                }
                content.load(&below, offset, len as u64).unwrap();
                content.write(offset, &vec![1; len]).unwrap();
                assert_eq!(content.charged(), expected, "write of {len} at {offset}");
            }
        }
    }

    #[test]
    fn chunks_below_are_read_one_by_one() {
        let bytes: Vec<u8> = (0..CHUNK_BYTES * 3).map(|i| (i % 251) as u8).collect();
        let below = Blob::Bytes(bytes.clone().into());
        let mut content = Content::below(bytes.len() as u64);
        let mut out = vec![0; 100];
        let at = CHUNK_BYTES as u64 - 50;
        assert_eq!(content.read(Some(&below), at, &mut out).unwrap(), 100);
        assert_eq!(out, bytes[CHUNK_BYTES - 50..CHUNK_BYTES + 50]);
        assert_eq!(content.held_bytes(), 0);
        content.load(&below, CHUNK_BYTES as u64, 1).unwrap();
        content.write(CHUNK_BYTES as u64, b"!").unwrap();
        assert!(content.needs_below(0, 1) && !content.needs_below(CHUNK_BYTES as u64, 1));
        content.load(&below, 0, u64::MAX).unwrap();
        let mut expected = bytes;
        expected[CHUNK_BYTES] = b'!';
        assert!(all(&content) == expected);
    }
}
