//! What rings when something has happened on the host that a process of a machine waits for.
//!
//! A ring is for one process and stays until that process waits for the host while nobody else can
//! run. So what the host does comes between turns, as time does: which ring came first is all that
//! a run has from it, and a replay, whose rings are known, takes the same turns.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::base::ambient;
use crate::kernel::pid::Pid;

/// The bell of a machine. Clones are the same one, and any thread may ring it.
#[derive(Clone, Debug, Default)]
pub struct HostBell(Arc<Shared>);

#[derive(Default)]
struct Shared {
    rings: Mutex<VecDeque<Pid>>,
    rung: Condvar,
    probes: Mutex<BTreeMap<Pid, Probe>>,
    /// Whether the rings are those of a tape, so that no more will come.
    is_taped: bool,
    /// Whether real time ended the run on that tape, with nothing more to come from the host.
    times_out: bool,
}

/// Looks at the host, and answers whether what a process stands for there does nothing before it is
/// given input.
pub type Probe = Box<dyn Fn() -> bool + Send + Sync>;

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostBell").field("is_taped", &self.is_taped).finish_non_exhaustive()
    }
}

impl HostBell {
    /// A bell that has been rung for each of `rings`, and will not be rung again. One for
    /// [`Pid::MACHINE`] lets the clock move. Who waits for it after the last has waited, where the run
    /// `times_out`, until real time ended that.
    pub fn taped(rings: impl IntoIterator<Item = Pid>, times_out: bool) -> Self {
        let rings = Mutex::new(rings.into_iter().collect());
        Self(Arc::new(Shared { rings, is_taped: true, times_out, ..Shared::default() }))
    }

    fn rings(&self) -> MutexGuard<'_, VecDeque<Pid>> {
        // Nothing is half done between two steps, whoever panicked.
        self.0.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rings for `pid`.
    pub fn ring(&self, pid: Pid) {
        self.rings().push_back(pid);
        self.0.rung.notify_all();
    }

    /// Whether the rings are those of a tape.
    pub(super) fn is_taped(&self) -> bool {
        self.0.is_taped
    }

    /// Whether real time ended the run on that tape.
    pub(super) fn times_out(&self) -> bool {
        self.0.times_out
    }

    fn probes(&self) -> MutexGuard<'_, BTreeMap<Pid, Probe>> {
        self.0.probes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `probe` look at what stands behind `pid`, until [`HostBell::forget`].
    pub fn attend(&self, pid: Pid, probe: Probe) {
        self.probes().insert(pid, probe);
    }

    /// Takes back [`HostBell::attend`].
    pub fn forget(&self, pid: Pid) {
        self.probes().remove(&pid);
    }

    /// Whether nothing happens on the host for `pid` before it is given input. No, if nobody can tell.
    pub(super) fn is_idle(&self, pid: Pid) -> bool {
        self.probes().get(&pid).is_some_and(|is_idle| is_idle())
    }

    /// The bell for the next run: what was left of this one rings for nobody.
    pub(in crate::kernel) fn for_next_run(&self) -> Self {
        if self.0.is_taped { self.clone() } else { Self::default() }
    }

    /// The first ring for one who `waits`, which is taken. Blocks the calling thread until there is
    /// one, up to `until`; `None` if none came.
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
    fn a_ring_stays_until_whom_it_is_for_waits() {
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
    fn a_ring_on_another_thread_is_heard() {
        let bell = HostBell::default();
        let ringer = bell.clone();
        let ring = std::thread::spawn(move || ringer.ring(Pid(7)));
        assert_eq!(bell.listen(|_| true, None), Some(Pid(7)));
        ring.join().unwrap();
    }

    #[test]
    fn a_taped_bell_is_not_waited_for() {
        let bell = HostBell::taped([Pid(2)], false).for_next_run();
        assert_eq!(bell.listen(|_| true, None), Some(Pid(2)));
        assert_eq!(bell.listen(|_| true, None), None);
    }
}
