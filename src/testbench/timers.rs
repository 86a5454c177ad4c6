//! Timers on a session's clock, for code that runs on tokio.
//!
//! A paused clock moves once every task that was ready has had a turn, to the earliest time that
//! anybody waits for. Who waits for the same time is woken in the order in which the timers were
//! made. What is waited for elsewhere, a socket or a thread, holds the clock up no longer than a
//! turn.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use super::clock::{ClockHandle, SessionInstant, nanos};

/// Polls that a sleeper lets others have before the clock moves for it: they may be about to sleep
/// for less.
const YIELDS: u8 = 2;

impl ClockHandle {
    /// Lets `duration` pass, as [`tokio::time::sleep`] does on the host's clock.
    pub fn sleep_async(&self, duration: Duration) -> Sleep {
        self.sleep_until_async(self.instant() + duration)
    }

    /// Lets time pass until `deadline`, as [`tokio::time::sleep_until`] does on the host's clock.
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

    /// Ticks now, and then every `period`, which is taken for a nanosecond if it is nothing. Ticks
    /// that nobody waited for come one after the other.
    pub fn interval(&self, period: Duration) -> Interval {
        let period = period.max(Duration::from_nanos(1));
        Interval { clock: self.clone(), period, next: self.instant() }
    }

    /// What `future` answers, unless `duration` passes before. If both happen at once, it is what
    /// it answers.
    ///
    /// # Errors
    /// [`Elapsed`]. The future is dropped then.
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

/// Time ran out, on the session's clock.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no answer within {duration:?} of the session's clock: allow more, or see who sleeps")]
pub struct Elapsed {
    /// How much there was.
    pub duration: Duration,
}

crate::base::readable::readable!(Elapsed);

/// Ticks on a session's clock: see [`ClockHandle::interval`].
pub struct Interval {
    clock: ClockHandle,
    period: Duration,
    next: SessionInstant,
}

impl Interval {
    /// Waits for the next tick; answers when it was due. A call that is given up loses none.
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
                // The next in line may be the earliest now.
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
        // Whoever waited behind this one may be the earliest now.
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
    async fn sleepers_wake_in_the_order_of_their_times() {
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
    async fn a_sleeper_that_gives_up_holds_nobody_up() {
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
    async fn sleepers_until_one_time_wake_in_the_order_in_which_they_began() {
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
    async fn an_interval_ticks_at_once_and_every_period_and_loses_no_tick() {
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
    async fn a_timeout_is_of_the_sessions_clock() {
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
    async fn on_the_hosts_clock_timers_wait() {
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
