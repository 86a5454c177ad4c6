//! The bytes of one file: chunks that are shared until they are written.
//!
//! A chunk is a hole, a piece of the file below that nobody has read yet, or memory. Cloning a
//! content clones references. Sparse files cost what is written to them, and a large file grows
//! without copying what it holds already.

use std::ops::Range;
use std::sync::Arc;

use memmap2::MmapMut;

use crate::base::errno::Errno;
use crate::kernel::vfs::layer::Blob;

/// Bytes in a chunk, the last one aside. The size of a huge page on x86-64 and arm64.
pub const CHUNK_BYTES: usize = 2 << 20;

/// Up to this size a chunk lives on the heap and doubles as it grows; past it, it is one mapping.
const HEAP_MAX: usize = 1 << 20;

/// Bytes that the list of chunks takes for each.
pub const SLOT_BYTES: u64 = size_of::<Chunk>() as u64;

/// The content of a regular file.
#[derive(Clone, Default)]
pub struct Content {
    len: u64,
    /// Bytes of the file below that are still part of this one: chunks that are still there end
    /// with them, whatever `len` says.
    below_len: u64,
    /// Chunks past the end of this vector are below as far as `below_len` reaches, then holes: a
    /// file that nobody reads takes no memory, however long it is.
    chunks: Vec<Chunk>,
    /// Whether anything was written since the content came from the layer below.
    dirty: bool,
}

#[derive(Clone)]
enum Chunk {
    Hole,
    Below,
    Memory(Arc<Buffer>),
}

/// What a content holds in one chunk, for whoever keeps it.
pub enum Piece<B> {
    /// Zeros.
    Hole,
    /// What the file below has there.
    Below,
    /// These bytes, then zeros.
    Bytes(B),
}

/// The memory of one chunk. Bytes past its length are zeros of the file.
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

    /// Memory that it takes. What a vector has to spare has not been touched, and is not counted.
    fn memory_bytes(&self) -> usize {
        match self {
            Self::Heap(bytes) => bytes.len(),
            Self::Mapped { .. } => CHUNK_BYTES,
        }
    }

    /// Writes `bytes` at `at`, which together stay within a chunk.
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

    /// Forgets the bytes from `at` on.
    fn truncate(&mut self, at: usize) {
        match self {
            // Memory that nothing counts any more must not be held either.
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

    /// A copy to write to, when this one is shared. It takes as much memory as this one.
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

/// A chunk's worth of zeroed memory, in a huge page where the system has them.
fn map_chunk() -> Result<MmapMut, Errno> {
    let pages = MmapMut::map_anon(CHUNK_BYTES).map_err(|_| Errno::Nomem)?;
    // Advice: a system that cannot follow it serves small pages.
    #[cfg(target_os = "linux")]
    let _ = pages.advise(memmap2::Advice::HugePage);
    Ok(pages)
}

/// Memory of a buffer that was made for `len` bytes; see [`Buffer::memory_bytes`].
fn buffer_bytes(len: usize) -> usize {
    if len <= HEAP_MAX { len } else { CHUNK_BYTES }
}

/// The index of the chunk that holds `offset`, and the offset in it.
fn locate(offset: u64) -> (usize, usize) {
    let chunk = usize::try_from(offset / CHUNK_BYTES as u64).unwrap_or(usize::MAX);
    (chunk, (offset % CHUNK_BYTES as u64) as usize)
}

/// The chunks that `offset..offset + len` touches.
fn touched(offset: u64, len: u64) -> Range<usize> {
    let end = offset.saturating_add(len).div_ceil(CHUNK_BYTES as u64);
    locate(offset).0..usize::try_from(end).unwrap_or(usize::MAX)
}

impl Content {
    /// The content of a file of a layer, none of it read yet.
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

    /// Chunks that the file below reaches into.
    fn below_chunks(&self) -> usize {
        usize::try_from(self.below_len.div_ceil(CHUNK_BYTES as u64)).unwrap_or(usize::MAX)
    }

    /// The bytes of the file below that lie in chunk `index`, as a count.
    fn below_bytes(&self, index: usize) -> usize {
        let start = index as u64 * CHUNK_BYTES as u64;
        self.below_len.saturating_sub(start).min(CHUNK_BYTES as u64) as usize
    }

    /// Gives chunk `index` a place in the vector.
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

    /// The chunks, as far as they are listed.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<&[u8]>> {
        self.chunks.iter().map(|chunk| match chunk {
            Chunk::Hole => Piece::Hole,
            Chunk::Below => Piece::Below,
            Chunk::Memory(buffer) => Piece::Bytes(buffer.bytes()),
        })
    }

    /// A content that was written to, of `pieces` no longer than a chunk.
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

    /// Whether it was written since it came from the layer below.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Whether some of the bytes in `offset..offset + len` are still only in the layer below.
    pub fn needs_below(&self, offset: u64, len: u64) -> bool {
        let Range { start, end } = touched(offset, len);
        let is_below = |chunk: &Chunk| matches!(chunk, Chunk::Below);
        let listed = self.chunks.get(start..end.min(self.chunks.len()));
        listed.is_some_and(|chunks| chunks.iter().any(is_below))
            || start.max(self.chunks.len()) < end.min(self.below_chunks())
    }

    /// Reads chunks that are still below into memory: those that `offset..offset + len` touches.
    ///
    /// # Errors
    /// As [`Blob::read_at`]; `EIO` if the file below is shorter than it was; `ENOMEM`.
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

    /// Gives back what was read of the file below, but for the chunks that `offset..offset + len`
    /// touches. Nothing has been written yet.
    pub fn forget_read(&mut self, offset: u64, len: u64) {
        let Range { start, end } = touched(offset, len);
        self.chunks.truncate(end);
        for chunk in self.chunks.iter_mut().take(start) {
            *chunk = Chunk::Below;
        }
    }

    /// How many bytes of the chunk that holds `offset` are those of the file below, if none of it has
    /// been read or written.
    pub fn below_bytes_at(&self, offset: u64) -> Option<usize> {
        let index = locate(offset).0;
        matches!(self.chunk(index), Chunk::Below).then(|| self.below_bytes(index))
    }

    /// Whether the chunk that holds `offset` is a hole.
    pub fn is_hole(&self, offset: u64) -> bool {
        matches!(self.chunk(locate(offset).0), Chunk::Hole)
    }

    /// Copies from `offset` on into `buf` until it is full or the content ends; answers the count.
    /// The bytes have been loaded ([`Content::load`]) or come from `below`.
    ///
    /// # Errors
    /// If some of the bytes are still below: as [`Blob::read_at`]; `EIO` if the file there is
    /// shorter than it was.
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

    /// Writes `bytes` at `offset`, extending the content as needed, with zeros in any gap. What
    /// the write touches has been loaded.
    ///
    /// # Errors
    /// `ENOMEM` if the host has no memory left; nothing past the first failing chunk is written.
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

    /// Sets the length: cuts the end off, or adds zeros that take no memory.
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

    /// The bytes that a write of `len` at `offset` adds to [`Content::charged`], with what must be
    /// loaded for it. What was read before the first write, and is not touched by it, is given back
    /// ([`Content::forget_read`]) and does not count.
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

    /// Memory that counts against the limit of the upper layer: nothing until the first write.
    pub fn charged(&self) -> u64 {
        if self.dirty { self.held_bytes() } else { 0 }
    }

    /// Bytes of memory that it takes, shared chunks in full. A hole takes its place in the list of
    /// chunks: a byte far out is not for nothing.
    pub fn held_bytes(&self) -> u64 {
        let bytes = |chunk: &Chunk| match chunk {
            Chunk::Memory(buffer) => buffer.memory_bytes(),
            Chunk::Hole | Chunk::Below => 0,
        };
        let memory: usize = self.chunks.iter().map(bytes).sum();
        memory as u64 + self.chunks.len() as u64 * SLOT_BYTES
    }

    /// Whether chunk `index` comes after a full one.
    fn follows_full(&self, index: usize) -> bool {
        let before = index.checked_sub(1).and_then(|before| self.chunks.get(before));
        matches!(before, Some(Chunk::Memory(b)) if b.bytes().len() == CHUNK_BYTES)
    }

    fn buffer_mut(&mut self, index: usize) -> Result<&mut Buffer, Errno> {
        // After a full chunk this one will most likely fill up too: it starts as one mapping.
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
        Ok(Arc::get_mut(buffer).expect("nobody else holds a buffer made or checked just above"))
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

    /// The copy of a mapping that held little was once a vector, which nobody took off the account.
    #[test]
    fn a_shared_chunk_that_is_written_takes_what_it_took() {
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
    fn gaps_read_as_zeros_also_across_chunks() {
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
    fn bytes_cut_off_do_not_come_back() {
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
    fn what_a_file_grew_by_without_a_write_reads_as_zeros() {
        let mut content = Content::default();
        content.write(0, b"abc").unwrap();
        content.set_len(100).unwrap();
        let mut out = [7; 10];
        assert_eq!(content.read(None, 50, &mut out).unwrap(), 10);
        assert_eq!(out, [0; 10]);

        // Of a file below, the chunk that grew is still there: it ends where it ended.
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
    fn growth_foretells_the_charge() {
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
    fn what_is_below_is_read_piece_by_piece() {
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
