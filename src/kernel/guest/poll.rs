//! `poll_oneoff`: waiting for time and for descriptors.

use smallvec::SmallVec;

use super::{Fault, Guest};
use crate::base::ambient;
use crate::base::errno::Errno;
use crate::kernel::clock::ClockId;
use crate::kernel::fd::Descriptor;
use crate::kernel::limits::Limit;

/// What to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subscription {
    /// Comes back with the event.
    pub userdata: u64,
    /// What it is.
    pub kind: SubscriptionKind,
}

/// What to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubscriptionKind {
    /// Until a clock shows a time.
    Clock {
        /// Which clock.
        id: ClockId,
        /// The time in nanoseconds; relative to now unless `absolute`.
        timeout: u64,
        /// Whether `timeout` is a time and no duration.
        absolute: bool,
    },
    /// Until a descriptor can be read.
    FdRead(u32),
    /// Until a descriptor can be written.
    FdWrite(u32),
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Of the subscription.
    pub userdata: u64,
    /// Why there is nothing to wait for, if so.
    pub error: Option<Errno>,
    /// What the subscription was for.
    pub kind: EventKind,
    /// Bytes that can be read at once.
    pub nbytes: u64,
    /// Whether there will be no more bytes.
    pub hangup: bool,
}

/// `eventtype` of preview1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum EventKind {
    /// A clock.
    Clock = 0,
    /// A descriptor to read.
    FdRead = 1,
    /// A descriptor to write.
    FdWrite = 2,
}

impl Guest {
    /// `poll_oneoff`: the events that have happened, at least one.
    ///
    /// Descriptors are ready at once. If there is one, or a time that has come, nothing waits;
    /// otherwise the clock moves to the earliest time, and the subscriptions for that time fire. On
    /// a virtual clock standard input is ready as soon as somebody asks, whenever its bytes come:
    /// what happens outside takes no time.
    ///
    /// # Errors
    /// `EINVAL` if there is no subscription. [`Fault::Stop`] when a timeout comes first.
    pub fn poll_oneoff(&mut self, subscriptions: &[Subscription]) -> Result<Vec<Event>, Fault> {
        if subscriptions.is_empty() {
            return Err(Errno::Inval.into());
        }
        let now = self.read_clock(ClockId::Monotonic);
        let mut ready = Vec::new();
        let mut clocks: SmallVec<[(u64, u64); 4]> = SmallVec::new();
        let mut waits_for_stdin = Vec::new();
        for subscription in subscriptions {
            match subscription.kind {
                SubscriptionKind::Clock { id, timeout, absolute } => {
                    let shown = if absolute { self.read_clock(id) } else { 0 };
                    let due = now.saturating_add(timeout.saturating_sub(shown));
                    clocks.push((due, subscription.userdata));
                }
                SubscriptionKind::FdRead(0) if self.stdin_may_block() => {
                    waits_for_stdin.push(*subscription);
                }
                SubscriptionKind::FdRead(fd) => {
                    ready.push(self.fd_event(*subscription, fd, EventKind::FdRead));
                }
                SubscriptionKind::FdWrite(fd) => {
                    ready.push(self.fd_event(*subscription, fd, EventKind::FdWrite));
                }
            }
        }
        let earliest = clocks.iter().map(|(due, _)| *due).min();
        if !waits_for_stdin.is_empty() {
            let wait =
                if ready.is_empty() { earliest.map(|t| t.saturating_sub(now)) } else { Some(0) };
            let is_ready = self.wait_for_stdin(wait)?;
            self.tape_stdin_poll(is_ready);
            if is_ready {
                for subscription in waits_for_stdin {
                    ready.push(self.fd_event(subscription, 0, EventKind::FdRead));
                }
            }
        }
        let mut until = now;
        if let Some(earliest) = earliest
            && ready.is_empty()
        {
            until = earliest.max(now);
            self.sleep_until(until)?;
        }
        for (due, userdata) in clocks {
            if due <= until {
                let kind = EventKind::Clock;
                ready.push(Event { userdata, error: None, kind, nbytes: 0, hangup: false });
            }
        }
        Ok(ready)
    }

    /// Waits until standard input can be read, for `timeout_ns` at most; answers
    /// whether it can.
    ///
    /// # Errors
    /// [`Fault::Stop`] when the run's timeout comes first.
    pub(super) fn wait_for_stdin(&mut self, timeout_ns: Option<u64>) -> Result<bool, Fault> {
        let Some(deadline) = self.machine.deadline else {
            return Ok(self.stdio.stdin.wait(timeout_ns));
        };
        let left = deadline.saturating_duration_since(ambient::instant_now());
        let left = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
        if timeout_ns.is_some_and(|timeout| timeout < left) {
            return Ok(self.stdio.stdin.wait(timeout_ns));
        }
        if self.stdio.stdin.wait(Some(left)) {
            return Ok(true);
        }
        Err(self.stop_at(Limit::Timeout))
    }

    fn stdin_may_block(&self) -> bool {
        !self.machine.clock.is_virtual()
            && self.stdio.stdin.may_block()
            && matches!(self.fds.get(0), Ok(Descriptor::Stdin))
    }

    fn fd_event(&mut self, subscription: Subscription, fd: u32, kind: EventKind) -> Event {
        let mut event =
            Event { userdata: subscription.userdata, error: None, kind, nbytes: 0, hangup: false };
        let reads = kind == EventKind::FdRead;
        match self.fds.get(fd) {
            Ok(Descriptor::Stdin) if reads => match self.stdio.stdin.available() {
                Some(nbytes) => {
                    event.nbytes = nbytes;
                    event.hangup = nbytes == 0;
                }
                None => event.nbytes = 1,
            },
            Ok(Descriptor::Stdout | Descriptor::Stderr) if !reads => {}
            Ok(Descriptor::File(file)) if reads => {
                let len = self.machine.vfs.len(file.node).unwrap_or(0);
                event.nbytes = len.saturating_sub(file.offset);
            }
            Ok(Descriptor::File(_)) => {}
            _ => event.error = Some(Errno::Badf),
        }
        event
    }
}
