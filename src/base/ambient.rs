//! The host's clock and environment: the one file that may read them.
#![allow(
    clippy::disallowed_methods,
    reason = "this file is the door to the host's clock and environment"
)]

use std::ffi::OsString;
use std::time::{Duration, Instant, SystemTime};

/// Nanoseconds since the Unix epoch on the host's clock; 0 before 1970.
pub fn wall_now_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.unwrap_or(Duration::ZERO).as_nanos()).unwrap_or(u64::MAX)
}

/// The time that passed since `time` on the host's clock; `None` if it is still to come.
pub fn time_since(time: SystemTime) -> Option<Duration> {
    SystemTime::now().duration_since(time).ok()
}

/// The host's monotonic clock, for deadlines and timings.
pub fn instant_now() -> Instant {
    Instant::now()
}

/// The real time since `start`.
pub fn elapsed_since(start: Instant) -> Duration {
    start.elapsed()
}

/// Blocks the calling thread for `duration` of real time.
pub fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

/// A variable of the host's environment, if set.
pub fn env_var(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// A variable of the host's environment, if set and not empty.
pub fn setting(name: &str) -> Option<OsString> {
    env_var(name).filter(|value| !value.is_empty())
}
