//! Runs that another thread ends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::Machine;
use crate::base::ambient;
use crate::kernel::pid::Pid;

/// Time until what could not be stopped is tried again.
const AGAIN: Duration = Duration::from_millis(10);

/// Ends runs of a machine from another thread, as their timeout would: the outcome is
/// [`crate::Limit::Timeout`], and a tape can be replayed. Clones are the same interrupter.
///
/// It works once: a run that begins later, in a machine that still has it, ends at once.
///
/// ```
/// use belljar::{Command, Interrupter, Limit, Machine, Outcome};
///
/// let mut machine = Machine::builder().build()?;
/// let interrupter = Interrupter::default();
/// machine.set_interrupter(Some(interrupter.clone()));
/// let ender = std::thread::spawn(move || interrupter.interrupt());
/// let output = Command::shell("while :; do :; done").output(&mut machine)?;
/// assert_eq!(*output.status.outcome(), Outcome::Limit(Limit::Timeout));
/// # ender.join().unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A read of the host's own standard input, and a call of host code such as a bridge, end first.
#[derive(Clone, Default)]
pub struct Interrupter(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// When it was used. Set before anything is stopped.
    at: OnceLock<Instant>,
    running: Mutex<Running>,
    used: Condvar,
}

#[derive(Default)]
struct Running {
    next_id: u64,
    stops: BTreeMap<u64, Stop>,
}

/// Stops something that runs. Returns whether it could.
type Stop = Box<dyn Fn() -> bool + Send>;

impl fmt::Debug for Interrupter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupter").field("at", &self.at()).finish_non_exhaustive()
    }
}

impl Interrupter {
    fn running(&self) -> MutexGuard<'_, Running> {
        // Each access is a single step, so a panic leaves it whole.
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the run that is in progress, and those that begin later. Does not wait for its end.
    pub fn interrupt(&self) {
        let _ = self.0.at.set(ambient::instant_now());
        loop {
            let running = self.running();
            // All of them: no short circuit.
            let left = running.stops.values().filter(|stop| !stop()).count();
            self.0.used.notify_all();
            drop(running);
            if left == 0 {
                return;
            }
            ambient::sleep(AGAIN);
        }
    }

    /// When it was used.
    pub(super) fn at(&self) -> Option<Instant> {
        self.0.at.get().copied()
    }

    /// Returns whether it was used.
    pub fn is_used(&self) -> bool {
        self.at().is_some()
    }

    /// Calls `stop` when it is used, at once if it was, unless the returned guard is dropped before.
    pub(crate) fn on_use(&self, stop: impl Fn() -> bool + Send + 'static) -> OnUse {
        let mut running = self.running();
        let id = running.next_id;
        running.next_id += 1;
        if self.is_used() {
            stop();
        }
        running.stops.insert(id, Box::new(stop));
        OnUse { interrupter: self.clone(), id }
    }

    /// Waits for `duration` of real time; returns whether it was used before or meanwhile.
    pub(crate) fn wait(&self, duration: Duration) -> bool {
        let running = self.running();
        let waited = self.0.used.wait_timeout_while(running, duration, |_| self.at().is_none());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        self.is_used()
    }
}

/// Something that an [`Interrupter`] stops. Once this is dropped, it does not.
pub(crate) struct OnUse {
    interrupter: Interrupter,
    id: u64,
}

impl OnUse {
    /// Returns whether it was used.
    pub(crate) fn is_used(&self) -> bool {
        self.interrupter.is_used()
    }
}

impl Drop for OnUse {
    fn drop(&mut self) {
        self.interrupter.running().stops.remove(&self.id);
    }
}

impl Machine {
    /// Sets what ends its runs from another thread. A fork has none.
    pub fn set_interrupter(&mut self, interrupter: Option<Interrupter>) {
        self.interrupter = interrupter;
    }

    /// What ends its runs from another thread.
    pub(crate) fn interrupter(&self) -> Option<&Interrupter> {
        self.interrupter.as_ref()
    }

    /// Returns whether its runs are ended.
    pub(in crate::kernel) fn is_interrupted(&self) -> bool {
        self.interrupter.as_ref().is_some_and(Interrupter::is_used)
    }

    /// Wakes a run that waits for native programs when it is interrupted.
    pub(super) fn listen_to_interrupter(&mut self) {
        self.run.interruption = self.interrupter.as_ref().map(|interrupter| {
            let bell = self.run.bell.clone();
            interrupter.on_use(move || {
                bell.ring(Pid::MACHINE);
                true
            })
        });
    }
}
