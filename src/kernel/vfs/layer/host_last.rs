//! The directory of the host that was opened last.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cap_std::fs::Dir;

use crate::kernel::vfs::path::VPath;

/// The directory that was opened last: most questions are of files in the same directory as the file before.
#[derive(Default)]
pub(super) struct LastHeld(Mutex<Option<(VPath, Arc<Dir>)>>);

impl LastHeld {
    /// Notes that `dir` was opened at `path`.
    pub fn set(&self, path: &VPath, dir: &Arc<Dir>) {
        *self.locked() = Some((path.clone(), dir.clone()));
    }

    /// The directory that was opened last, if that was at `path`.
    pub fn get(&self, path: &VPath) -> Option<Arc<Dir>> {
        let last = self.locked();
        last.as_ref().filter(|(last, _)| last == path).map(|(_, dir)| dir.clone())
    }

    fn locked(&self) -> MutexGuard<'_, Option<(VPath, Arc<Dir>)>> {
        // It is replaced as a whole, so a panic leaves no partial one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
