//! Time, as a machine sees it.

use std::time::{Duration, Instant};

use crate::base::ambient;
use crate::kernel::vfs::FILES_END_NS;

/// 2037-01-01T00:00:00Z, where virtual time starts unless told otherwise: nanoseconds since the
/// Unix epoch. It is later than the files on any disk, as programs take fright at files from the future,
/// and fits in 31 bits of seconds, as some keep no more.
pub const DEFAULT_START_NS: u64 = FILES_END_NS;

/// What the monotonic clock shows modules when a machine starts: a day, as on a host that has been up
/// for so long. Some programs take 0 for a clock that does not work, as Go's runtime does, and some
/// subtract from it.
pub const UPTIME_NS: u64 = 86_400_000_000_000;

/// Reads of a paused clock in a row, with no other call between them, that see it stand still. Each
/// further one moves it by [`SPIN_TICK_NS`], so that a guest which spins until time has passed
/// comes to its end, the same one every time.
pub const SPIN_FREE_READS: u32 = 64;

/// How far a read of the clock moves it once a guest spins.
pub const SPIN_TICK_NS: u64 = 100_000;

/// The clocks of preview1, by their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ClockId {
    /// Time since the Unix epoch.
    Realtime = 0,
    /// Time since the machine started; modules see [`UPTIME_NS`] more.
    Monotonic = 1,
    /// Time since the machine started: processes of a machine take turns, and compute in no time.
    ProcessCputime = 2,
    /// As [`ClockId::ProcessCputime`].
    ThreadCputime = 3,
}

impl ClockId {
    /// The clock with the number `id`.
    pub fn from_raw(id: u32) -> Option<Self> {
        Some(match id {
            0 => Self::Realtime,
            1 => Self::Monotonic,
            2 => Self::ProcessCputime,
            3 => Self::ThreadCputime,
            _ => return None,
        })
    }
}

/// The source of a machine's time. All times are nanoseconds.
pub trait Clock: Send {
    /// What the clock `id` shows.
    fn now(&mut self, id: ClockId) -> u64;

    /// What the clock `id` shows a guest. Another value than [`Clock::now`] only where readings are
    /// played back.
    fn read(&mut self, id: ClockId) -> u64 {
        self.now(id)
    }

    /// The smallest step that the clock `id` shows.
    fn resolution(&self, id: ClockId) -> u64;

    /// Lets time pass until the monotonic clock shows at least `t`.
    fn sleep_until(&mut self, t: u64);

    /// Whether time passes only by [`Clock::sleep_until`] and [`Clock::set_forward`].
    fn is_virtual(&self) -> bool;

    /// Sets the realtime clock forward to `realtime_ns`, unless it is past that, as an administrator would;
    /// no time passes. Does nothing to a clock that is not virtual.
    fn set_forward(&mut self, realtime_ns: u64) {
        let _ = realtime_ns;
    }

    /// A clock that shows what this one does, and goes on by itself; `None` if others use this one
    /// as well, or it plays readings back.
    fn fork(&self) -> Option<Box<dyn Clock>> {
        None
    }
}

/// A clock that plays back what the host's clock showed when a tape was recorded.
#[derive(Clone, Debug)]
pub struct TapedClock {
    realtime_ns: u64,
    monotonic_ns: u64,
    readings: std::vec::IntoIter<u64>,
}

impl TapedClock {
    /// A clock that stands at `start_ns`, nanoseconds since the Unix epoch, and `start_monotonic_ns`,
    /// and whose readings are `readings_ns`, one after the other.
    pub fn new(start_ns: u64, start_monotonic_ns: u64, readings_ns: Vec<u64>) -> Self {
        let readings = readings_ns.into_iter();
        Self { realtime_ns: start_ns, monotonic_ns: start_monotonic_ns, readings }
    }

    fn shown(&mut self, id: ClockId) -> &mut u64 {
        match id {
            ClockId::Realtime => &mut self.realtime_ns,
            _ => &mut self.monotonic_ns,
        }
    }
}

impl Clock for TapedClock {
    fn now(&mut self, id: ClockId) -> u64 {
        *self.shown(id)
    }

    fn read(&mut self, id: ClockId) -> u64 {
        if let Some(reading) = self.readings.next() {
            *self.shown(id) = reading;
        }
        *self.shown(id)
    }

    fn resolution(&self, _id: ClockId) -> u64 {
        1
    }

    fn sleep_until(&mut self, _t: u64) {}

    fn is_virtual(&self) -> bool {
        false
    }
}

/// A clock that stands still until somebody sleeps on it.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    start_ns: u64,
    elapsed_ns: u64,
}

impl VirtualClock {
    /// A clock paused at `start_ns`, nanoseconds since the Unix epoch.
    pub fn starting_at(start_ns: u64) -> Self {
        Self { start_ns, elapsed_ns: 0 }
    }
}

impl Clock for VirtualClock {
    fn now(&mut self, id: ClockId) -> u64 {
        match id {
            ClockId::Realtime => self.start_ns.saturating_add(self.elapsed_ns),
            _ => self.elapsed_ns,
        }
    }

    fn resolution(&self, _id: ClockId) -> u64 {
        1
    }

    fn sleep_until(&mut self, t: u64) {
        self.elapsed_ns = self.elapsed_ns.max(t);
    }

    fn is_virtual(&self) -> bool {
        true
    }

    fn set_forward(&mut self, realtime_ns: u64) {
        self.start_ns = self.start_ns.max(realtime_ns.saturating_sub(self.elapsed_ns));
    }

    fn fork(&self) -> Option<Box<dyn Clock>> {
        Some(Box::new(self.clone()))
    }
}

/// The host's clock. What a guest does with it cannot be repeated.
#[derive(Clone, Debug)]
pub struct HostClock {
    started: Instant,
}

impl HostClock {
    /// A clock whose monotonic time starts now.
    pub fn start() -> Self {
        Self { started: ambient::instant_now() }
    }

    fn elapsed_ns(&self) -> u64 {
        let elapsed = ambient::instant_now().duration_since(self.started);
        u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Clock for HostClock {
    fn now(&mut self, id: ClockId) -> u64 {
        match id {
            ClockId::Realtime => ambient::wall_now_ns(),
            _ => self.elapsed_ns(),
        }
    }

    fn resolution(&self, _id: ClockId) -> u64 {
        1
    }

    fn sleep_until(&mut self, t: u64) {
        let left = t.saturating_sub(self.elapsed_ns());
        if left > 0 {
            ambient::sleep(Duration::from_nanos(left));
        }
    }

    fn is_virtual(&self) -> bool {
        false
    }

    fn fork(&self) -> Option<Box<dyn Clock>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_moves_by_sleeping_alone_and_never_back() {
        let mut clock = VirtualClock::starting_at(DEFAULT_START_NS);
        assert_eq!(clock.now(ClockId::Realtime), DEFAULT_START_NS);
        clock.sleep_until(5);
        clock.sleep_until(3);
        assert_eq!(clock.now(ClockId::Monotonic), 5);
        assert_eq!(clock.now(ClockId::Realtime), DEFAULT_START_NS + 5);
        clock.sleep_until(u64::MAX);
        assert_eq!(clock.now(ClockId::Realtime), u64::MAX);
    }

    #[test]
    fn a_virtual_clock_is_set_forward_without_time_that_passes() {
        let mut clock = VirtualClock::starting_at(1000);
        clock.sleep_until(5);
        clock.set_forward(2000);
        clock.set_forward(1500);
        assert_eq!((clock.now(ClockId::Realtime), clock.now(ClockId::Monotonic)), (2000, 5));
        clock.sleep_until(7);
        assert_eq!(clock.now(ClockId::Realtime), 2002);
    }
}
