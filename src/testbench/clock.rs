//! The clock of a session, shared by host code and guests.

use std::collections::BTreeMap;
use std::ops::{Add, Sub};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::base::ambient;
use crate::kernel::machine::clock::{Clock, ClockId, HostClock, VirtualClock};
use crate::tape::{ClockLeak, ClockLeakKind, ClockLeaks, Kind, Recorder};

/// The clock is the host's and cannot be moved.
#[derive(thiserror::Error)]
#[error("only a paused clock can be moved; build the testbench with paused_clock_at_ms")]
pub struct NotPaused;

crate::base::readable::readable!(NotPaused);

/// The clock of a session. Clones are the same clock.
///
/// A sleep on a paused clock moves it and takes no real time.
#[derive(Clone)]
pub struct ClockHandle(Arc<Mutex<State>>);

/// A time on a session's monotonic clock, like [`Instant`] on the host's. Times of different
/// sessions cannot be compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionInstant(pub(super) Duration);

impl SessionInstant {
    /// The duration since `earlier`; zero if `earlier` is later.
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
    /// Sleepers by the time on the monotonic clock; those of one time in the order in which they
    /// began.
    pub(super) sleepers: BTreeMap<(u64, u64), Waker>,
    pub(super) next_sleeper: u64,
    leaks: ClockLeaks,
    tape: Option<Recorder>,
}

impl State {
    pub(super) fn monotonic_ns(&mut self) -> u64 {
        self.clock.now(ClockId::Monotonic)
    }

    /// Lets time pass until `t`, and wakes the sleepers of these times.
    pub(super) fn move_to(&mut self, t: u64) {
        let passed = t.saturating_sub(self.monotonic_ns());
        self.clock.sleep_until(t);
        if let Some(tape) = &self.tape {
            tape.push(Kind::ClockSleep { duration_ns: passed });
        }
        self.stamp();
        self.wake_until(t);
    }

    /// Sets the time of the tape.
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
    /// A clock that stands at `at_ms`, in milliseconds since the Unix epoch, until it is moved by a
    /// sleep. Times before 1970 become 1970, the earliest time of WASI.
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
        // State is consistent between statements, also after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records uses of the clock by host code on `tape`.
    pub fn set_tape(&self, tape: Recorder) {
        let mut state = self.lock();
        state.tape = Some(tape);
        state.stamp();
    }

    /// Sets the time of the tape before a record of host code.
    pub(super) fn stamp(&self) {
        self.lock().stamp();
    }

    /// The wall clock in milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        let mut state = self.lock();
        // Less than 2^63: one in a million nanoseconds.
        (state.clock.now(ClockId::Realtime) / 1_000_000).cast_signed()
    }

    /// Milliseconds since the session began.
    pub fn monotonic_ms(&self) -> u64 {
        self.lock().monotonic_ns() / 1_000_000
    }

    /// The time on the monotonic clock. Reading it is not a leak.
    pub fn instant(&self) -> SessionInstant {
        SessionInstant(Duration::from_nanos(self.lock().monotonic_ns()))
    }

    /// Whether the clock is paused.
    pub fn is_paused(&self) -> bool {
        self.lock().clock.is_virtual()
    }

    /// Lets `duration` pass. A paused clock is moved at once.
    pub fn sleep(&self, duration: Duration) {
        if !self.is_paused() {
            // Without the lock, as others may read the clock.
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

    /// The host's wall clock in nanoseconds since the Unix epoch, read by the capability
    /// `capability_id`. Under a paused clock the read counts as a leak.
    pub fn wall_now(&self, capability_id: &str) -> u64 {
        self.note_leak(capability_id, ClockLeakKind::Wall);
        ambient::wall_now_ns()
    }

    /// The host's monotonic clock, read by the capability `capability_id`. Under a paused clock the
    /// read counts as a leak.
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

/// The clock as guests see it.
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
    fn sleep_moves_a_paused_clock() {
        let clock = ClockHandle::paused_at_ms(1000);
        clock.sleep(Duration::from_hours(1));
        clock.advance(Duration::from_millis(5)).unwrap();
        assert_eq!((clock.now_ms(), clock.monotonic_ms()), (3_601_005, 3_600_005));
        assert!(ClockHandle::real().advance(Duration::ZERO).is_err());
    }

    #[test]
    fn instants_are_of_the_session_clock() {
        let clock = ClockHandle::paused_at_ms(1000);
        let start = clock.instant();
        clock.sleep(Duration::from_secs(3));
        assert_eq!(clock.instant() - start, Duration::from_secs(3));
        assert_eq!(start.duration_since(clock.instant()), Duration::ZERO);
        assert_eq!(start + Duration::from_secs(3), clock.instant());
        assert_eq!(clock.leaks(), []);
    }

    #[test]
    fn leaks_count_under_a_paused_clock_only() {
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
