//! Timers on a session's clock, for code that runs on tokio.
//!
//! A paused clock moves when every ready task has had a turn, to the earliest time that a timer
//! waits for. Timers of one time wake in the order in which they were made. A task that waits for
//! something else, such as a socket or a thread, delays the clock by one turn at most.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use super::clock::{ClockHandle, SessionInstant, nanos};

/// Polls before a sleeper moves the clock: other tasks may be about to sleep for less.
const YIELDS: u8 = 2;

impl ClockHandle {
    /// Sleeps for `duration`, like [`tokio::time::sleep`].
    pub fn sleep_async(&self, duration: Duration) -> Sleep {
        self.sleep_until_async(self.instant() + duration)
    }

    /// Sleeps until `deadline`, like [`tokio::time::sleep_until`].
    pub fn sleep_until_async(&self, deadline: SessionInstant) -> Sleep {
        let mut state = self.lock();
        let due = nanos(deadline.0);
        let left = Duration::from_nanos(due.saturating_sub(state.monotonic_ns()));
        let real = (!state.clock.is_virtual()).then(|| Box::pin(tokio::time::sleep(left)));
        let id = state.next_sleeper;
        state.next_sleeper += 1;
        drop(state);
        Sleep { clock: self.clone(), key: (due, id), yields: 0, real }
    }

    /// Ticks now, and then every `period` (at least 1 ns). Missed ticks follow at once.
    pub fn interval(&self, period: Duration) -> Interval {
        let period = period.max(Duration::from_nanos(1));
        Interval { clock: self.clone(), period, next: self.instant() }
    }

    /// Returns the output of `future`, unless `duration` passes first. If both happen at once, the
    /// output wins.
    ///
    /// # Errors
    /// [`Elapsed`]; then the future is dropped.
    pub async fn timeout<F: Future>(
        &self,
        duration: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        let (mut future, mut sleep) = (pin!(future), pin!(self.sleep_async(duration)));
        std::future::poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            sleep.as_mut().poll(context).map(|()| Err(Elapsed { duration }))
        })
        .await
    }
}

/// A timeout on the session's clock passed.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("timed out after {duration:?} of the session's clock; raise it, or find what sleeps")]
pub struct Elapsed {
    /// The timeout.
    pub duration: Duration,
}

crate::base::readable::readable!(Elapsed);

/// An interval on a session's clock: see [`ClockHandle::interval`].
pub struct Interval {
    clock: ClockHandle,
    period: Duration,
    next: SessionInstant,
}

impl Interval {
    /// Waits for the next tick; returns its due time. Cancellation loses no tick.
    pub async fn tick(&mut self) -> SessionInstant {
        let due = self.next;
        self.clock.sleep_until_async(due).await;
        self.next = due + self.period;
        due
    }

    /// The time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }
}

/// The future of [`ClockHandle::sleep_async`] and [`ClockHandle::sleep_until_async`].
#[must_use = "futures do nothing unless awaited"]
pub struct Sleep {
    clock: ClockHandle,
    key: (u64, u64),
    yields: u8,
    real: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(real) = &mut self.real {
            return real.as_mut().poll(context);
        }
        let (key, yields) = (self.key, self.yields);
        let mut state = self.clock.lock();
        if state.monotonic_ns() >= key.0 {
            state.sleepers.remove(&key);
            return Poll::Ready(());
        }
        state.sleepers.insert(key, context.waker().clone());
        if yields == YIELDS {
            if state.sleepers.first_key_value().is_some_and(|(first, _)| *first == key) {
                state.sleepers.remove(&key);
                state.move_to(key.0);
                // It may be the earliest now.
                if let Some((_, next)) = state.sleepers.first_key_value() {
                    next.wake_by_ref();
                }
                return Poll::Ready(());
            }
            return Poll::Pending;
        }
        drop(state);
        self.yields += 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let mut state = self.clock.lock();
        state.sleepers.remove(&self.key);
        // The next sleeper may be the earliest now.
        if let Some((_, next)) = state.sleepers.first_key_value() {
            next.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[tokio::test]
    async fn sleepers_wake_in_order_of_time() {
        let clock = ClockHandle::paused_at_ms(0);
        let (say, said) = mpsc::channel();
        let sleeper = |ms: u64| {
            let (clock, say) = (clock.clone(), say.clone());
            tokio::spawn(async move {
                clock.sleep_async(Duration::from_millis(ms)).await;
                say.send((ms, clock.monotonic_ms())).unwrap();
                clock.sleep_async(Duration::from_millis(10)).await;
                say.send((ms, clock.monotonic_ms())).unwrap();
            })
        };
        for task in [sleeper(30), sleeper(5), sleeper(12)] {
            task.await.unwrap();
        }
        drop(say);
        let order: Vec<_> = said.iter().collect();
        assert_eq!(order, [(5, 5), (12, 12), (5, 15), (12, 22), (30, 30), (30, 40)]);
    }

    #[tokio::test]
    async fn cancelled_sleeper_does_not_block_others() {
        let clock = ClockHandle::paused_at_ms(0);
        let early = clock.sleep_async(Duration::from_millis(1));
        let late = clock.clone();
        let task = tokio::spawn(async move { late.sleep_async(Duration::from_millis(9)).await });
        tokio::select! {
            biased;
            () = async { tokio::task::yield_now().await } => {}
            () = early => {}
        }
        task.await.unwrap();
        assert_eq!(clock.monotonic_ms(), 9);
    }

    #[tokio::test]
    async fn sleepers_of_one_time_wake_in_start_order() {
        let clock = ClockHandle::paused_at_ms(0);
        let (say, said) = mpsc::channel();
        let deadline = clock.instant() + ms(7);
        let tasks: Vec<_> = (0..20)
            .map(|number| {
                let (sleep, say) = (clock.sleep_until_async(deadline), say.clone());
                tokio::spawn(async move {
                    sleep.await;
                    say.send(number).unwrap();
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        drop(say);
        assert_eq!(said.iter().collect::<Vec<i32>>(), (0..20).collect::<Vec<_>>());
        assert_eq!(clock.monotonic_ms(), 7);
        clock.sleep_until_async(deadline).await;
        assert_eq!(clock.monotonic_ms(), 7, "what is past is not waited for");
    }

    #[tokio::test]
    async fn interval_ticks_at_once_and_loses_no_tick() {
        let clock = ClockHandle::paused_at_ms(0);
        let start = clock.instant();
        let mut interval = clock.interval(ms(10));
        for at in [0, 10, 20] {
            assert_eq!(interval.tick().await - start, ms(at));
            assert_eq!(clock.monotonic_ms(), at);
        }
        clock.advance(ms(25)).unwrap();
        for (due, now) in [(30, 45), (40, 45), (50, 50)] {
            assert_eq!(interval.tick().await - start, ms(due));
            assert_eq!(clock.monotonic_ms(), now);
        }
        assert!(clock.timeout(ms(3), interval.tick()).await.is_err());
        assert_eq!(interval.tick().await - start, ms(60));
        assert_eq!(clock.interval(Duration::ZERO).period(), Duration::from_nanos(1));
    }

    #[tokio::test]
    async fn timeout_uses_the_session_clock() {
        let clock = ClockHandle::paused_at_ms(0);
        let slept = |time| async move {
            time.await;
            "slept"
        };
        let hour = Duration::from_hours(1);
        assert_eq!(clock.timeout(hour, slept(clock.sleep_async(ms(5)))).await, Ok("slept"));
        assert_eq!(clock.monotonic_ms(), 5);
        let late = clock.timeout(ms(5), slept(clock.sleep_async(hour))).await;
        assert_eq!(late, Err(Elapsed { duration: ms(5) }));
        assert_eq!(clock.monotonic_ms(), 10);
        assert_eq!(clock.timeout(ms(5), slept(clock.sleep_async(ms(5)))).await, Ok("slept"));
        assert!(clock.timeout(ms(1), std::future::pending::<()>()).await.is_err());
        assert_eq!(clock.monotonic_ms(), 16);
    }

    #[tokio::test]
    async fn timers_wait_on_the_host_clock() {
        let clock = ClockHandle::real();
        let start = clock.instant();
        clock.sleep_until_async(start + ms(2)).await;
        let mut interval = clock.interval(ms(1));
        interval.tick().await;
        interval.tick().await;
        assert!(clock.timeout(ms(1), std::future::pending::<()>()).await.is_err());
        assert!(clock.instant() - start >= ms(4));
    }
}
