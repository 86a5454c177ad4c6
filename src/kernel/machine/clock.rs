//! The clocks of a machine.

use std::time::Duration;

use crate::base::ambient;
use crate::base::stopwatch::Stopwatch;
use crate::kernel::vfs::FILES_END_NS;

/// The start of virtual time by default, 2037-01-01T00:00:00Z, in nanoseconds since the Unix epoch. Later
/// than files on any disk, as programs complain of files from the future, and within 31 bits of seconds.
pub const DEFAULT_START_NS: u64 = FILES_END_NS;

/// The monotonic time that modules see when a machine starts: a day, as on a host that has been up for so long.
/// Go's runtime takes 0 for a broken clock, and some programs subtract from it.
pub const UPTIME_NS: u64 = 86_400_000_000_000;

/// Consecutive reads of a virtual clock, with no other call between them, that see the same time. Each further
/// one moves it by [`SPIN_TICK_NS`], so that a loop until a time ends, and ends the same way in each run.
pub const SPIN_FREE_READS: u64 = 64;

/// Step of the clock for each read of a guest that spins.
pub const SPIN_TICK_NS: u64 = 100_000;

/// Reads of a virtual clock by one process, without a wait between them. Each further one moves it by [`READ_NS`], so
/// that a loop that also makes other calls ends, too.
pub const FREE_READS: u64 = 1000;

/// What a read costs beyond [`FREE_READS`].
pub const READ_NS: u64 = 10_000;

/// What processes do, all together, without a moment at which all of them wait: each read or write of a pipe, a device or
/// a standard stream counts 1, each KiB in it too, and each start of a process [`BUSY_START`]. Then the next one lets others
/// act, and takes [`BUSY_NS`] if one waits for a time, so that its time comes.
pub const BUSY_MAX: u32 = 10_000;

/// What the start of a process counts.
pub const BUSY_START: u32 = BUSY_MAX / 10;

/// What [`BUSY_MAX`] takes.
pub const BUSY_NS: u64 = 10_000_000;

/// Processes that read a virtual clock while it stands still. The first read of each further one moves it by
/// [`SPIN_START_NS`], so that a loop that asks programs for the time ends.
pub const SPIN_FREE_STARTS: u32 = 64;

/// About what starting a program takes.
pub const SPIN_START_NS: u64 = 1_000_000;

/// The clocks of preview1, by their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ClockId {
    /// Time since the Unix epoch.
    Realtime = 0,
    /// Time since the machine started; modules see [`UPTIME_NS`] more.
    Monotonic = 1,
    /// Time since the machine started: computing takes no time.
    ProcessCputime = 2,
    /// As [`ClockId::ProcessCputime`].
    ThreadCputime = 3,
}

impl ClockId {
    /// The clock with the number `id` of preview1.
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
    /// The time of the clock `id`.
    fn now(&mut self, id: ClockId) -> u64;

    /// The time of the clock `id` for a guest. It differs from [`Clock::now`] only in a replay.
    fn read(&mut self, id: ClockId) -> u64 {
        self.now(id)
    }

    /// The smallest step of the clock `id`.
    fn resolution(&self, id: ClockId) -> u64;

    /// Moves or waits until the monotonic clock shows at least `t`.
    fn sleep_until(&mut self, t: u64);

    /// Returns whether time passes only by [`Clock::sleep_until`] and [`Clock::set_forward`].
    fn is_virtual(&self) -> bool;

    /// Sets the realtime clock forward to `realtime_ns`, unless it is past that; no time passes. No effect
    /// on a clock that is not virtual.
    fn set_forward(&mut self, realtime_ns: u64) {
        let _ = realtime_ns;
    }

    /// Returns a clock that shows the same time and then runs independently; `None` if this one is shared
    /// or replayed.
    fn fork(&self) -> Option<Box<dyn Clock>> {
        None
    }
}

/// A clock that replays the recorded readings of the host's clock.
#[derive(Clone, Debug)]
pub struct TapedClock {
    realtime_ns: u64,
    monotonic_ns: u64,
    readings: std::vec::IntoIter<u64>,
}

impl TapedClock {
    /// Creates a clock at `start_ns`, nanoseconds since the Unix epoch, and `start_monotonic_ns`, with the
    /// readings `readings_ns`.
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

/// A clock that moves only when it is slept on.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    start_ns: u64,
    elapsed_ns: u64,
}

impl VirtualClock {
    /// Creates a clock paused at `start_ns`, nanoseconds since the Unix epoch.
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

/// The host's clock. Runs with it differ.
#[derive(Clone, Debug)]
pub struct HostClock {
    started: Stopwatch,
}

impl HostClock {
    /// Creates a clock whose monotonic time starts now.
    pub fn start() -> Self {
        Self { started: Stopwatch::start() }
    }
}

impl Clock for HostClock {
    fn now(&mut self, id: ClockId) -> u64 {
        match id {
            ClockId::Realtime => ambient::wall_now_ns(),
            _ => self.started.elapsed_ns(),
        }
    }

    fn resolution(&self, _id: ClockId) -> u64 {
        1
    }

    fn sleep_until(&mut self, t: u64) {
        let left = t.saturating_sub(self.started.elapsed_ns());
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
    fn virtual_clock_moves_only_by_sleeping_and_never_back() {
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
    fn set_forward_does_not_move_monotonic_time() {
        let mut clock = VirtualClock::starting_at(1000);
        clock.sleep_until(5);
        clock.set_forward(2000);
        clock.set_forward(1500);
        assert_eq!((clock.now(ClockId::Realtime), clock.now(ClockId::Monotonic)), (2000, 5));
        clock.sleep_until(7);
        assert_eq!(clock.now(ClockId::Realtime), 2002);
    }
}
