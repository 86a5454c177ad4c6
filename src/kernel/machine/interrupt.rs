//! Ends the run of a machine from another thread.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Ends the runs of the machines that it was given to, as their timeout would. Clones are the same one.
///
/// Compiling a program and a call of the host that is under way, such as a request over HTTP, are completed first.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<Shared>);

#[derive(Default)]
struct Shared {
    is_set: AtomicBool,
    targets: Mutex<Targets>,
}

/// What is running, by number.
#[derive(Default)]
struct Targets {
    next: u64,
    running: BTreeMap<u64, Box<dyn Fn() + Send>>,
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt").field("is_set", &self.is_set()).finish_non_exhaustive()
    }
}

impl Interrupt {
    /// Ends what runs now, and at its start what runs later. Any thread may call it, and more than once.
    pub fn set(&self) {
        // First: a program that begins after the loop below finds it set.
        self.0.is_set.store(true, Ordering::Release);
        for end in self.targets().running.values() {
            end();
        }
    }

    /// Whether it was set.
    pub fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Acquire)
    }

    /// Calls `end` when this is set, or at once if it is, until the returned value is dropped: after that `end` neither
    /// runs nor begins.
    pub(crate) fn attend(&self, end: impl Fn() + Send + 'static) -> Attended {
        let mut targets = self.targets();
        if self.is_set() {
            end();
        }
        let number = targets.next;
        targets.next += 1;
        targets.running.insert(number, Box::new(end));
        drop(targets);
        Attended { interrupt: self.clone(), number }
    }

    fn targets(&self) -> MutexGuard<'_, Targets> {
        // A map is whole between statements.
        self.0.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A program that an [`Interrupt`] ends.
pub(crate) struct Attended {
    interrupt: Interrupt,
    number: u64,
}

impl Drop for Attended {
    fn drop(&mut self) {
        self.interrupt.targets().running.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn targets_are_ended_while_they_run_only() {
        let ended = Arc::new(AtomicU32::new(0));
        let count = || {
            let ended = ended.clone();
            move || _ = ended.fetch_add(1, Ordering::Relaxed)
        };
        let interrupt = Interrupt::default();
        drop(interrupt.attend(count()));
        let running = interrupt.attend(count());
        interrupt.clone().set();
        assert!(interrupt.is_set());
        assert_eq!(ended.load(Ordering::Relaxed), 1);
        drop(running);
        let late = interrupt.attend(count());
        assert_eq!(ended.load(Ordering::Relaxed), 2);
        drop(late);
        interrupt.set();
        assert_eq!(ended.load(Ordering::Relaxed), 2);
    }
}
