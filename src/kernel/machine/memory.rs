//! The memory counter of a machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Memory taken by all processes of a machine, and its limit. Clones share the counter.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Counter>);

#[derive(Debug)]
struct Counter {
    max_bytes: u64,
    // A machine is on one thread at a time, but moves between threads.
    taken_bytes: AtomicU64,
    has_refused: AtomicBool,
}

/// The memory limit is reached.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("out of memory: all processes together may have {max_bytes} bytes")]
pub struct OutOfMemory {
    /// The limit.
    pub max_bytes: u64,
}

crate::base::readable::readable!(OutOfMemory);

impl Memory {
    /// Creates a counter with the limit `max_bytes`.
    pub fn new(max_bytes: u64) -> Self {
        Self(Arc::new(Counter {
            max_bytes,
            taken_bytes: AtomicU64::new(0),
            has_refused: AtomicBool::new(false),
        }))
    }

    /// Creates a charge of 0 bytes.
    pub fn charge(&self) -> Charge {
        Charge { memory: self.clone(), bytes: 0 }
    }

    /// Returns whether a charge was refused.
    pub fn has_refused(&self) -> bool {
        self.0.has_refused.load(Ordering::Relaxed)
    }
}

/// Bytes taken until this is dropped.
#[derive(Debug)]
pub struct Charge {
    memory: Memory,
    bytes: u64,
}

impl Charge {
    /// Takes `bytes` more.
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing is taken then.
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
    fn dropped_charge_can_be_taken_again() {
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
