//! What all clients of a server use together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::bounds::Bounds;
use super::error::ToolError;

/// Counts sandboxes and bytes. What is taken is given back when it is dropped.
pub(super) struct Budget {
    bounds: Bounds,
    used: Mutex<Used>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Used {
    pub sandboxes: u32,
    pub bytes: u64,
}

/// The place of one sandbox.
pub(super) struct Place(Arc<Budget>);

/// Bytes that are taken.
pub(super) struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    pub(super) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { bounds, used: Mutex::default() })
    }

    fn used_mut(&self) -> MutexGuard<'_, Used> {
        // Counts are whole between statements.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn used(&self) -> Used {
        *self.used_mut()
    }

    /// Takes the place of a sandbox.
    ///
    /// # Errors
    /// There is none left.
    pub(super) fn place(self: &Arc<Self>) -> Result<Place, ToolError> {
        let mut used = self.used_mut();
        if used.sandboxes >= self.bounds.sandboxes_max {
            return Err(ToolError::limit(format!(
                "{} sandboxes exist, which is the limit of this server: drop one with sandbox_drop, or wait until unused ones \
                 are dropped",
                used.sandboxes
            )));
        }
        used.sandboxes += 1;
        Ok(Place(self.clone()))
    }

    /// Takes `bytes`.
    ///
    /// # Errors
    /// So many are not left.
    pub(super) fn charge(self: &Arc<Self>, bytes: u64) -> Result<Charge, ToolError> {
        let mut charge = Charge { budget: self.clone(), bytes: 0 };
        charge.set(bytes)?;
        Ok(charge)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.used_mut().sandboxes -= 1;
    }
}

impl Charge {
    /// Takes `bytes` in place of those before.
    ///
    /// # Errors
    /// So many are not left; those before stay.
    pub(super) fn set(&mut self, bytes: u64) -> Result<(), ToolError> {
        let mut used = self.budget.used_mut();
        let others = used.bytes - self.bytes;
        let left = self.budget.bounds.total_bytes_max.saturating_sub(others);
        if bytes > self.bytes && bytes > left {
            return Err(ToolError::limit(format!(
                "{bytes} bytes are needed, and {left} of the {} bytes for all sandboxes are left: wait until other programs \
                 have ended, or drop sandboxes with sandbox_drop",
                self.budget.bounds.total_bytes_max
            )));
        }
        used.bytes = others + bytes;
        self.bytes = bytes;
        Ok(())
    }

    /// Takes `bytes` in place of those before, which were at least as many or are in memory anyway.
    pub(super) fn settle(&mut self, bytes: u64) {
        let mut used = self.budget.used_mut();
        used.bytes = used.bytes - self.bytes + bytes;
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used_mut().bytes -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_bounded_and_given_back() {
        let bounds = Bounds { sandboxes_max: 2, total_bytes_max: 100, ..Bounds::default() };
        let budget = Budget::new(bounds);
        let places = [budget.place().unwrap(), budget.place().unwrap()];
        assert!(budget.place().is_err());
        let mut one = budget.charge(60).unwrap();
        assert!(budget.charge(41).is_err());
        let other = budget.charge(40).unwrap();
        assert!(one.set(61).is_err());
        one.set(50).unwrap();
        one.set(60).unwrap();
        one.settle(70);
        // What is too much already may become less, step by step.
        one.set(65).unwrap();
        assert_eq!(budget.used(), Used { sandboxes: 2, bytes: 105 });
        drop((places, one, other));
        assert_eq!(budget.used(), Used::default());
    }
}
