//! The bell: wakes processes that wait for the host.
//!
//! A ring is for one process, and stays until that process waits for the host and no other can run. So
//! host events arrive between turns, and only their order enters a run; a replay with the same order
//! takes the same turns.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::base::ambient;
use crate::kernel::io::pipe::End;
use crate::kernel::pid::Pid;

/// The bell of a machine. Clones are the same bell, and any thread may ring it.
#[derive(Clone, Debug, Default)]
pub struct HostBell(Arc<Shared>);

#[derive(Default)]
struct Shared {
    rings: Mutex<VecDeque<Pid>>,
    rung: Condvar,
    probes: Mutex<BTreeMap<Pid, Probe>>,
    /// Whether its rings come from a tape, so that no more will come.
    is_taped: bool,
    /// Whether the run on that tape timed out after the last ring.
    times_out: bool,
}

/// Returns whether the native program of a process is idle while that waits at this end of a pipe: until it gets input, or
/// until its output is read.
pub type Probe = Box<dyn Fn(End) -> bool + Send + Sync>;

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostBell").field("is_taped", &self.is_taped).finish_non_exhaustive()
    }
}

impl HostBell {
    /// Creates a bell with the `rings` of a tape; no more will come. A ring for [`Pid::MACHINE`] lets the
    /// clock move. If the run `times_out`, a wait after the last ring is where it did.
    pub fn taped(rings: impl IntoIterator<Item = Pid>, times_out: bool) -> Self {
        let rings = Mutex::new(rings.into_iter().collect());
        Self(Arc::new(Shared { rings, is_taped: true, times_out, ..Shared::default() }))
    }

    fn rings(&self) -> MutexGuard<'_, VecDeque<Pid>> {
        // Each access is a single step, so a panic leaves it whole.
        self.0.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rings for `pid`.
    pub fn ring(&self, pid: Pid) {
        self.rings().push_back(pid);
        self.0.rung.notify_all();
    }

    /// Returns whether the rings come from a tape.
    pub(super) fn is_taped(&self) -> bool {
        self.0.is_taped
    }

    /// Returns whether the run on that tape timed out after the last ring.
    pub(super) fn times_out(&self) -> bool {
        self.0.times_out
    }

    fn probes(&self) -> MutexGuard<'_, BTreeMap<Pid, Probe>> {
        self.0.probes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses `probe` for the native program of `pid`, until [`HostBell::forget`].
    pub fn attend(&self, pid: Pid, probe: Probe) {
        self.probes().insert(pid, probe);
    }

    /// Undoes [`HostBell::attend`].
    pub fn forget(&self, pid: Pid) {
        self.probes().remove(&pid);
    }

    /// Returns whether the native program of `pid`, whose process waits at `end` of a pipe, is idle meanwhile; false if
    /// unknown.
    pub(super) fn is_idle(&self, pid: Pid, end: End) -> bool {
        self.probes().get(&pid).is_some_and(|is_idle| is_idle(end))
    }

    /// The bell for the next run, without the rings that are left, unless they are a tape's.
    pub(in crate::kernel) fn for_next_run(&self) -> Self {
        if self.0.is_taped { self.clone() } else { Self::default() }
    }

    /// Takes the first ring for a process that `waits`. Blocks the calling thread until there is one, or until
    /// `until`, and then returns `None`; so does a taped bell, at once.
    pub(super) fn listen(
        &self,
        waits: impl Fn(Pid) -> bool,
        until: Option<Instant>,
    ) -> Option<Pid> {
        let mut rings = self.rings();
        loop {
            if let Some(first) = rings.iter().position(|pid| waits(*pid)) {
                return rings.remove(first);
            }
            let left = until.map(|until| until.saturating_duration_since(ambient::instant_now()));
            if self.0.is_taped || left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            rings = match left {
                Some(left) => {
                    let waited = self.0.rung.wait_timeout(rings, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.0.rung.wait(rings).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_stays_until_its_process_waits() {
        let bell = HostBell::default();
        bell.ring(Pid(2));
        bell.ring(Pid(3));
        bell.ring(Pid(3));
        let now = Some(ambient::instant_now());
        assert_eq!(bell.listen(|pid| pid == Pid(3), now), Some(Pid(3)));
        assert_eq!(bell.listen(|_| true, now), Some(Pid(2)));
        assert_eq!(bell.listen(|pid| pid == Pid(2), now), None);
        assert_eq!(bell.for_next_run().listen(|_| true, now), None);
    }

    #[test]
    fn ring_from_another_thread_is_heard() {
        let bell = HostBell::default();
        let ringer = bell.clone();
        let ring = std::thread::spawn(move || ringer.ring(Pid(7)));
        assert_eq!(bell.listen(|_| true, None), Some(Pid(7)));
        ring.join().unwrap();
    }

    #[test]
    fn listen_does_not_wait_for_a_taped_bell() {
        let bell = HostBell::taped([Pid(2)], false).for_next_run();
        assert_eq!(bell.listen(|_| true, None), Some(Pid(2)));
        assert_eq!(bell.listen(|_| true, None), None);
    }
}
