//! Memory that the processes of a machine take, counted together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What the processes of a machine have taken, and may take. Clones count together.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Counter>);

#[derive(Debug)]
struct Counter {
    max_bytes: u64,
    // A machine is on one thread at a time; it is the processes' being handed from thread to thread
    // that asks for atomics.
    taken_bytes: AtomicU64,
    has_refused: AtomicBool,
}

/// There is no more memory.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("out of memory: all processes together may have {max_bytes} bytes")]
pub struct OutOfMemory {
    /// What there is.
    pub max_bytes: u64,
}

crate::base::readable::readable!(OutOfMemory);

impl Memory {
    /// `max_bytes`, of which nothing is taken.
    pub fn new(max_bytes: u64) -> Self {
        Self(Arc::new(Counter {
            max_bytes,
            taken_bytes: AtomicU64::new(0),
            has_refused: AtomicBool::new(false),
        }))
    }

    /// Nothing yet, to be grown.
    pub fn charge(&self) -> Charge {
        Charge { memory: self.clone(), bytes: 0 }
    }

    /// Whether anybody has asked for more than there was.
    pub fn has_refused(&self) -> bool {
        self.0.has_refused.load(Ordering::Relaxed)
    }
}

/// Bytes that are taken until this is dropped.
#[derive(Debug)]
pub struct Charge {
    memory: Memory,
    bytes: u64,
}

impl Charge {
    /// Takes `bytes` more.
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing more is taken then.
    pub fn grow(&mut self, bytes: u64) -> Result<(), OutOfMemory> {
        let Counter { max_bytes, taken_bytes, has_refused } = &*self.memory.0;
        let total = taken_bytes.load(Ordering::Relaxed).saturating_add(bytes);
        if total > *max_bytes {
            has_refused.store(true, Ordering::Relaxed);
            return Err(OutOfMemory { max_bytes: *max_bytes });
        }
        taken_bytes.store(total, Ordering::Relaxed);
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.0.taken_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_can_be_taken_again() {
        let memory = Memory::new(10);
        let mut first = memory.charge();
        assert_eq!(first.grow(7), Ok(()));
        let mut second = memory.clone().charge();
        assert!(!memory.has_refused());
        assert_eq!(second.grow(4), Err(OutOfMemory { max_bytes: 10 }));
        assert_eq!(second.grow(u64::MAX), Err(OutOfMemory { max_bytes: 10 }));
        assert_eq!(second.grow(3), Ok(()));
        drop(first);
        assert_eq!(second.grow(7), Ok(()));
        assert!(memory.has_refused());
    }
}
