//! Real time since a start, as a number: guests with the real clock read it in loops.
#![cfg_attr(
    target_os = "linux",
    allow(
        unsafe_code,
        reason = "a difference of `Instant`s takes three times as many instructions"
    )
)]

/// Real time since it was started.
#[derive(Clone, Copy, Debug)]
#[cfg(target_os = "linux")]
pub struct Stopwatch(u64);

#[cfg(target_os = "linux")]
impl Stopwatch {
    /// One that starts now.
    pub fn start() -> Self {
        Self(now_ns())
    }

    /// Nanoseconds since it was started.
    #[inline]
    pub fn elapsed_ns(self) -> u64 {
        now_ns().saturating_sub(self.0)
    }
}

#[cfg(target_os = "linux")]
#[inline]
fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `time`. It cannot fail, as every Linux has this clock.
    unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time);
    }
    // Neither is negative, and the seconds since the start of a machine fit.
    time.tv_sec
        .cast_unsigned()
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec.cast_unsigned())
}

/// Real time since it was started.
#[derive(Clone, Copy, Debug)]
#[cfg(not(target_os = "linux"))]
pub struct Stopwatch(std::time::Instant);

#[cfg(not(target_os = "linux"))]
impl Stopwatch {
    /// One that starts now.
    pub fn start() -> Self {
        Self(super::ambient::instant_now())
    }

    /// Nanoseconds since it was started.
    pub fn elapsed_ns(self) -> u64 {
        u64::try_from(super::ambient::elapsed_since(self.0).as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_as_on_the_clock_of_the_library() {
        let (watch, begun) = (Stopwatch::start(), super::super::ambient::instant_now());
        super::super::ambient::sleep(std::time::Duration::from_millis(2));
        let before = super::super::ambient::elapsed_since(begun).as_nanos();
        let elapsed_ns = watch.elapsed_ns();
        assert!(u128::from(elapsed_ns) >= before, "{elapsed_ns} {before}");
        assert!(watch.elapsed_ns() >= elapsed_ns);
    }
}
