//! The clock of a session: the same for the host's code and for every guest.

use std::collections::BTreeMap;
use std::ops::{Add, Sub};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::base::ambient;
use crate::kernel::machine::clock::{Clock, ClockId, HostClock, VirtualClock};
use crate::tape::{ClockLeak, ClockLeakKind, ClockLeaks, Kind, Recorder};

/// The clock is the host's, which nobody moves.
#[derive(thiserror::Error)]
#[error("only a paused clock can be moved: build the testbench with paused_clock_at_ms")]
pub struct NotPaused;

crate::base::readable::readable!(NotPaused);

/// What a session's clock shows, and a way to let its time pass. Clones are the same clock.
///
/// Under a paused clock nothing waits: whoever sleeps moves it.
#[derive(Clone)]
pub struct ClockHandle(Arc<Mutex<State>>);

/// A point on a session's monotonic clock, for what [`Instant`] is for on the host's. Points of two
/// sessions have nothing to do with each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionInstant(pub(super) Duration);

impl SessionInstant {
    /// How long after `earlier` it is; nothing if it is not.
    pub fn duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for SessionInstant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl Sub for SessionInstant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

pub(super) struct State {
    pub(super) clock: Box<dyn Clock>,
    /// Who sleeps until when, on the monotonic clock; of those until one time, the first that began
    /// comes first.
    pub(super) sleepers: BTreeMap<(u64, u64), Waker>,
    pub(super) next_sleeper: u64,
    leaks: ClockLeaks,
    tape: Option<Recorder>,
}

impl State {
    pub(super) fn monotonic_ns(&mut self) -> u64 {
        self.clock.now(ClockId::Monotonic)
    }

    /// Lets time pass until `t`, and wakes whoever slept until then.
    pub(super) fn move_to(&mut self, t: u64) {
        let passed = t.saturating_sub(self.monotonic_ns());
        self.clock.sleep_until(t);
        if let Some(tape) = &self.tape {
            tape.push(Kind::ClockSleep { duration_ns: passed });
        }
        self.stamp();
        self.wake_until(t);
    }

    /// Tells the tape what time it is.
    fn stamp(&mut self) {
        if let Some(tape) = &self.tape {
            tape.set_time(self.clock.now(ClockId::Realtime), self.clock.now(ClockId::Monotonic));
        }
    }

    fn wake_until(&self, t: u64) {
        for (_, waker) in self.sleepers.range(..=(t, u64::MAX)) {
            waker.wake_by_ref();
        }
    }
}

impl ClockHandle {
    /// A clock that stands at `at_ms`, milliseconds since the Unix epoch, until somebody sleeps.
    /// Times before 1970 are taken for 1970, the earliest that a guest can be shown.
    pub fn paused_at_ms(at_ms: i64) -> Self {
        let start_ns = u64::try_from(at_ms).unwrap_or(0).saturating_mul(1_000_000);
        Self::new(Box::new(VirtualClock::starting_at(start_ns)))
    }

    /// The host's clock.
    pub fn real() -> Self {
        Self::new(Box::new(HostClock::start()))
    }

    fn new(clock: Box<dyn Clock>) -> Self {
        let sleepers = BTreeMap::new();
        let leaks = ClockLeaks::default();
        Self(Arc::new(Mutex::new(State { clock, sleepers, next_sleeper: 0, leaks, tape: None })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole between statements, whoever panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records on `tape` what the host's code does with the clock.
    pub fn set_tape(&self, tape: Recorder) {
        let mut state = self.lock();
        state.tape = Some(tape);
        state.stamp();
    }

    /// Tells the tape what time it is, before the host's code records something there.
    pub(super) fn stamp(&self) {
        self.lock().stamp();
    }

    /// The wall clock: milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        let mut state = self.lock();
        // Fewer than 2^63: there are a million nanoseconds in each.
        (state.clock.now(ClockId::Realtime) / 1_000_000).cast_signed()
    }

    /// Milliseconds since the session began.
    pub fn monotonic_ms(&self) -> u64 {
        self.lock().monotonic_ns() / 1_000_000
    }

    /// The point at which the monotonic clock stands. It is the session's, and no leak.
    pub fn instant(&self) -> SessionInstant {
        SessionInstant(Duration::from_nanos(self.lock().monotonic_ns()))
    }

    /// Whether it stands still until somebody sleeps.
    pub fn is_paused(&self) -> bool {
        self.lock().clock.is_virtual()
    }

    /// Lets `duration` pass. A paused clock is moved, and nobody waits.
    pub fn sleep(&self, duration: Duration) {
        if !self.is_paused() {
            // Not while others want to know the time.
            return ambient::sleep(duration);
        }
        let mut state = self.lock();
        let t = state.monotonic_ns().saturating_add(nanos(duration));
        state.move_to(t);
    }

    /// Moves a paused clock.
    ///
    /// # Errors
    /// [`NotPaused`] if it is the host's.
    pub fn advance(&self, duration: Duration) -> Result<(), NotPaused> {
        let mut state = self.lock();
        if !state.clock.is_virtual() {
            return Err(NotPaused);
        }
        let t = state.monotonic_ns().saturating_add(nanos(duration));
        state.move_to(t);
        Ok(())
    }

    /// The host's wall clock, in nanoseconds since the Unix epoch, for the capability
    /// `capability_id`. Under a paused clock that is a leak, and is counted.
    pub fn wall_now(&self, capability_id: &str) -> u64 {
        self.note_leak(capability_id, ClockLeakKind::Wall);
        ambient::wall_now_ns()
    }

    /// The host's monotonic clock, for the capability `capability_id`. Under a paused clock that is
    /// a leak, and is counted.
    pub fn instant_now(&self, capability_id: &str) -> Instant {
        self.note_leak(capability_id, ClockLeakKind::Instant);
        ambient::instant_now()
    }

    fn note_leak(&self, capability_id: &str, kind: ClockLeakKind) {
        let mut state = self.lock();
        if !state.clock.is_virtual() {
            return;
        }
        state.leaks.note(capability_id, kind);
        if let Some(tape) = &state.tape {
            let (capability_id, leak) = (capability_id.to_owned(), kind.name().to_owned());
            tape.push(Kind::ClockLeak { capability_id, leak });
        }
    }

    /// The leaks so far, sorted.
    pub fn leaks(&self) -> Vec<ClockLeak> {
        self.lock().leaks.list()
    }
}

/// What guests of the session see.
impl Clock for ClockHandle {
    fn now(&mut self, id: ClockId) -> u64 {
        self.lock().clock.now(id)
    }

    fn resolution(&self, id: ClockId) -> u64 {
        self.lock().clock.resolution(id)
    }

    fn sleep_until(&mut self, t: u64) {
        let mut state = self.lock();
        if state.clock.is_virtual() {
            state.clock.sleep_until(t);
            state.stamp();
            return state.wake_until(t);
        }
        let left = t.saturating_sub(state.monotonic_ns());
        drop(state);
        ambient::sleep(Duration::from_nanos(left));
    }

    fn is_virtual(&self) -> bool {
        self.is_paused()
    }

    fn set_forward(&mut self, realtime_ns: u64) {
        let mut state = self.lock();
        state.clock.set_forward(realtime_ns);
        state.stamp();
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_clock_moves_when_somebody_sleeps() {
        let clock = ClockHandle::paused_at_ms(1000);
        clock.sleep(Duration::from_hours(1));
        clock.advance(Duration::from_millis(5)).unwrap();
        assert_eq!((clock.now_ms(), clock.monotonic_ms()), (3_601_005, 3_600_005));
        assert!(ClockHandle::real().advance(Duration::ZERO).is_err());
    }

    #[test]
    fn a_point_in_time_is_of_the_session() {
        let clock = ClockHandle::paused_at_ms(1000);
        let start = clock.instant();
        clock.sleep(Duration::from_secs(3));
        assert_eq!(clock.instant() - start, Duration::from_secs(3));
        assert_eq!(start.duration_since(clock.instant()), Duration::ZERO);
        assert_eq!(start + Duration::from_secs(3), clock.instant());
        assert_eq!(clock.leaks(), []);
    }

    #[test]
    fn leaks_are_counted_under_a_paused_clock_only() {
        let clock = ClockHandle::paused_at_ms(0);
        clock.wall_now("b");
        clock.instant_now("a");
        clock.instant_now("a");
        let leaks = clock.leaks();
        let (a, b) = (&leaks[0], &leaks[1]);
        assert_eq!((a.capability_id.as_str(), a.kind, a.count), ("a", ClockLeakKind::Instant, 2));
        assert_eq!((b.capability_id.as_str(), b.kind, b.count), ("b", ClockLeakKind::Wall, 1));
        let real = ClockHandle::real();
        real.wall_now("a");
        assert_eq!(real.leaks(), []);
    }
}
