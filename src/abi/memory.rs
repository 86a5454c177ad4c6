//! Checked access to guest memory.

use std::cell::RefCell;

use super::calls::Touched;
use crate::base::errno::Errno;
use crate::kernel::guest::{Buffers, Fault, Range, Ranges};

/// Most buffers of one call (POSIX `IOV_MAX`).
const IOV_MAX: u32 = 1024;

/// The memory of a guest. Pointers, lengths and alignments are untrusted.
pub(super) struct GuestMemory<'m> {
    bytes: &'m mut [u8],
    /// What the call reads and writes, if that is taken down.
    touched: Option<&'m RefCell<Touched>>,
}

#[expect(
    clippy::inline_always,
    reason = "a call shows the length of what it moves: see `note_read`"
)]
impl<'m> GuestMemory<'m> {
    pub fn new(bytes: &'m mut [u8], touched: Option<&'m RefCell<Touched>>) -> Self {
        Self { bytes, touched }
    }

    /// Notes that the call reads `range`.
    #[inline(always)]
    fn note_read(&self, range: Range) {
        if let Some(touched) = self.touched {
            note_read(touched, self.bytes, range);
        }
    }

    /// Notes that the call writes to `range`.
    #[inline(always)]
    fn note_written(&self, range: Range) {
        if let Some(touched) = self.touched {
            note_written(touched, range);
        }
    }

    /// The range of `len` bytes at `ptr`.
    ///
    /// # Errors
    /// `EFAULT` if it is not within the memory.
    pub fn range(&self, ptr: u32, len: u64) -> Result<Range, Errno> {
        let start = ptr as usize;
        let len = usize::try_from(len).map_err(|_| Errno::Fault)?;
        let end = start.checked_add(len).ok_or(Errno::Fault)?;
        if end > self.bytes.len() {
            return Err(Errno::Fault);
        }
        Ok(Range { start, len })
    }

    /// The place of a result of `len` bytes, aligned to `align`.
    ///
    /// # Errors
    /// `EINVAL` if `ptr` is not aligned; `EFAULT` if it is not within the memory.
    pub fn place(&self, ptr: u32, len: u64, align: u32) -> Result<Place, Errno> {
        if !ptr.is_multiple_of(align) {
            return Err(Errno::Inval);
        }
        self.range(ptr, len).map(Place)
    }

    pub fn place_u32(&self, ptr: u32) -> Result<Place, Errno> {
        self.place(ptr, 4, 4)
    }

    pub fn place_u64(&self, ptr: u32) -> Result<Place, Errno> {
        self.place(ptr, 8, 8)
    }

    /// # Errors
    /// `ENAMETOOLONG` if it is longer than `max`; `EFAULT`; `EILSEQ` if it is not UTF-8.
    pub fn path(&self, ptr: u32, len: u32, max: usize) -> Result<&str, Errno> {
        let range = self.range(ptr, len.into())?;
        if range.len > max {
            return Err(Errno::Nametoolong);
        }
        self.note_read(range);
        std::str::from_utf8(&self.bytes[range.start..range.start + range.len])
            .map_err(|_| Errno::Ilseq)
    }

    /// The `len` bytes at `ptr`.
    ///
    /// # Errors
    /// `EFAULT`.
    pub fn bytes(&self, ptr: u32, len: u32) -> Result<&[u8], Errno> {
        let range = self.range(ptr, len.into())?;
        self.note_read(range);
        Ok(&self.bytes[range.start..range.start + range.len])
    }

    /// The `count` buffers of a list of pointers and lengths at `ptr`.
    ///
    /// # Errors
    /// `EINVAL` if the list is not aligned or longer than [`IOV_MAX`], or the buffers have more bytes
    /// than a `size` can count; `EFAULT` if it, or a buffer, is not within the memory.
    pub fn buffers(&self, ptr: u32, count: u32) -> Result<Ranges, Errno> {
        if count > IOV_MAX {
            return Err(Errno::Inval);
        }
        let list = self.place(ptr, u64::from(count) * 8, 4)?;
        let mut total = 0_u32;
        let mut ranges = Ranges::with_capacity(count as usize);
        for i in 0..count as usize {
            let ptr = self.u32_at(list, i * 8);
            let len = self.u32_at(list, i * 8 + 4);
            ranges.push(self.range(ptr, len.into())?);
            total = total.checked_add(len).ok_or(Errno::Inval)?;
        }
        Ok(ranges)
    }

    pub fn u16_at(&self, place: Place, offset: usize) -> u16 {
        u16::from_le_bytes(self.array_at(place, offset))
    }

    pub fn u32_at(&self, place: Place, offset: usize) -> u32 {
        u32::from_le_bytes(self.array_at(place, offset))
    }

    pub fn u64_at(&self, place: Place, offset: usize) -> u64 {
        u64::from_le_bytes(self.array_at(place, offset))
    }

    pub fn u8_at(&self, place: Place, offset: usize) -> u8 {
        self.array_at::<1>(place, offset)[0]
    }

    #[inline(always)]
    fn array_at<const N: usize>(&self, place: Place, offset: usize) -> [u8; N] {
        debug_assert!(offset + N <= place.0.len);
        let at = place.0.start + offset;
        self.note_read(Range { start: at, len: N });
        std::array::from_fn(|i| self.bytes[at + i])
    }

    /// Writes `value` at `offset` in `place`, which must have room for it.
    #[inline(always)]
    pub fn put(&mut self, place: Place, offset: usize, value: &[u8]) {
        debug_assert!(offset + value.len() <= place.0.len);
        let at = place.0.start + offset;
        self.bytes[at..at + value.len()].copy_from_slice(value);
        self.note_written(Range { start: at, len: value.len() });
    }

    pub fn put_u32(&mut self, place: Place, value: u32) {
        self.put(place, 0, &value.to_le_bytes());
    }

    pub fn put_u64(&mut self, place: Place, value: u64) {
        self.put(place, 0, &value.to_le_bytes());
    }

    /// Lets `fill` write to `range`, from its start on; it returns how many bytes it wrote, and a value.
    ///
    /// # Errors
    /// Those of `fill`, which has then written nothing that a program could use.
    pub fn fill<T, E>(
        &mut self,
        range: Range,
        fill: impl FnOnce(&mut [u8]) -> Result<(usize, T), E>,
    ) -> Result<T, E> {
        let (count, value) = fill(&mut self.bytes[range.start..range.start + range.len])?;
        self.note_written(Range { len: count, ..range });
        Ok(value)
    }

    /// Lets `op` move bytes between a descriptor and the buffers `ranges`; it returns how many bytes it moved.
    ///
    /// # Errors
    /// Those of `op`.
    #[inline]
    pub fn transfer(
        &mut self,
        ranges: Ranges,
        direction: Direction,
        op: impl FnOnce(&mut Buffers<'_>) -> Result<u64, Fault>,
    ) -> Result<u64, Fault> {
        if self.touched.is_some() {
            let mut op = Some(op);
            return self.transfer_noted(ranges, direction, &mut |buffers| {
                op.take().expect("a transfer is made once")(buffers)
            });
        }
        op(&mut Buffers::new(self.bytes, ranges))
    }

    /// As [`GuestMemory::transfer`], and notes what the call touches.
    #[cold]
    fn transfer_noted(
        &mut self,
        ranges: Ranges,
        direction: Direction,
        op: &mut dyn FnMut(&mut Buffers<'_>) -> Result<u64, Fault>,
    ) -> Result<u64, Fault> {
        let Some(touched) = self.touched else {
            return op(&mut Buffers::new(self.bytes, ranges));
        };
        if direction == Direction::FromGuest {
            ranges.iter().for_each(|range| touched.borrow_mut().read(self.bytes, *range));
        }
        let filled = ranges.clone();
        let moved = op(&mut Buffers::new(self.bytes, ranges));
        if direction == Direction::ToGuest {
            match moved {
                Ok(mut left) => {
                    for Range { start, len } in filled {
                        let len = usize::try_from(left).unwrap_or(usize::MAX).min(len);
                        touched.borrow_mut().wrote(Range { start, len });
                        left -= len as u64;
                    }
                }
                Err(Fault::Errno(Errno::Io)) => touched.borrow_mut().is_torn = true,
                Err(_) => {}
            }
        }
        moved
    }
}

// Functions of their own, so that what calls them stays short enough to become part of each call: a number is then one
// instruction, not a copy of an unknown length.

#[cold]
fn note_read(touched: &RefCell<Touched>, memory: &[u8], range: Range) {
    touched.borrow_mut().read(memory, range);
}

#[cold]
fn note_written(touched: &RefCell<Touched>, range: Range) {
    touched.borrow_mut().wrote(range);
}

/// The direction in which a call moves bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// From a descriptor to the memory.
    ToGuest,
    /// From the memory to a descriptor.
    FromGuest,
}

/// A checked place for a result in guest memory.
#[derive(Clone, Copy)]
pub(super) struct Place(Range);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_end_within_memory() {
        let mut bytes = [0; 16];
        let memory = GuestMemory::new(&mut bytes, None);
        assert!(memory.range(16, 0).is_ok());
        assert_eq!(memory.range(16, 1).err(), Some(Errno::Fault));
        assert_eq!(memory.range(u32::MAX, u64::from(u32::MAX)).err(), Some(Errno::Fault));
        assert_eq!(memory.range(0, u64::MAX).err(), Some(Errno::Fault));
        assert_eq!(memory.place(2, 4, 4).err(), Some(Errno::Inval));
    }

    #[test]
    fn buffers_checks_each_entry_of_the_list() {
        let mut bytes = [0; 32];
        bytes[4] = 8;
        bytes[8] = 30;
        bytes[12] = 3;
        let memory = GuestMemory::new(&mut bytes, None);
        assert_eq!(memory.buffers(0, 1).unwrap().as_slice(), [Range { start: 0, len: 8 }]);
        assert_eq!(memory.buffers(0, 2).err(), Some(Errno::Fault));
        assert_eq!(memory.buffers(0, IOV_MAX + 1).err(), Some(Errno::Inval));
    }
}
