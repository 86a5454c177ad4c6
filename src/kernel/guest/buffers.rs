//! Buffers of one scatter/gather call, within guest memory.

use smallvec::SmallVec;

/// A byte range within guest memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// Offset of its first byte.
    pub start: usize,
    /// Its length in bytes.
    pub len: usize,
}

/// Ranges in the order in which a call fills or writes them. They may overlap.
pub type Ranges = SmallVec<[Range; 8]>;

/// The buffers of one call: ranges of guest memory.
pub struct Buffers<'m> {
    memory: &'m mut [u8],
    ranges: Ranges,
}

impl<'m> Buffers<'m> {
    /// Creates buffers over `ranges`, which must lie within `memory`.
    pub fn new(memory: &'m mut [u8], ranges: Ranges) -> Self {
        debug_assert!(ranges.iter().all(|r| r.start + r.len <= memory.len()));
        Self { memory, ranges }
    }

    /// The total length in bytes.
    pub fn total(&self) -> u64 {
        self.ranges.iter().map(|range| range.len as u64).sum()
    }

    /// The number of buffers.
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// Buffer `index`.
    pub fn get(&self, index: usize) -> &[u8] {
        let Range { start, len } = self.ranges[index];
        &self.memory[start..start + len]
    }

    /// Buffer `index`, mutable.
    pub fn get_mut(&mut self, index: usize) -> &mut [u8] {
        let Range { start, len } = self.ranges[index];
        &mut self.memory[start..start + len]
    }
}
