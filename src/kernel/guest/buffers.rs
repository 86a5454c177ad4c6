//! Scattered buffers of a guest, checked before a call touches any.

use smallvec::SmallVec;

/// A piece of guest memory that lies within it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// Offset of its first byte.
    pub start: usize,
    /// Its length in bytes.
    pub len: usize,
}

/// Pieces of guest memory, in the order in which they are filled or written. They may overlap.
pub type Ranges = SmallVec<[Range; 8]>;

/// Guest memory, seen through a list of pieces of it.
pub struct Buffers<'m> {
    memory: &'m mut [u8],
    ranges: Ranges,
}

impl<'m> Buffers<'m> {
    /// `ranges` lie within `memory`.
    pub fn new(memory: &'m mut [u8], ranges: Ranges) -> Self {
        debug_assert!(ranges.iter().all(|r| r.start + r.len <= memory.len()));
        Self { memory, ranges }
    }

    /// The bytes of all pieces together.
    pub fn total(&self) -> u64 {
        self.ranges.iter().map(|range| range.len as u64).sum()
    }

    /// The number of pieces.
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// Piece `index`.
    pub fn get(&self, index: usize) -> &[u8] {
        let Range { start, len } = self.ranges[index];
        &self.memory[start..start + len]
    }

    /// Piece `index`, to fill.
    pub fn get_mut(&mut self, index: usize) -> &mut [u8] {
        let Range { start, len } = self.ranges[index];
        &mut self.memory[start..start + len]
    }
}
