//! `poll_oneoff`: waits for times and descriptors.

use smallvec::SmallVec;

use super::{Fault, Guest};
use crate::base::errno::Errno;
use crate::kernel::io::fd::{Description, OpenPipe};
use crate::kernel::io::pipe::{End, PipeId};
use crate::kernel::machine::clock::ClockId;
use crate::kernel::machine::limits::Limit;
use crate::kernel::pid::Pid;
use crate::kernel::process::Wait;

/// An event to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subscription {
    /// Copied to the event.
    pub userdata: u64,
    /// The condition.
    pub kind: SubscriptionKind,
}

/// The condition of a [`Subscription`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubscriptionKind {
    /// A clock shows a time.
    Clock {
        /// Which clock.
        id: ClockId,
        /// The time in nanoseconds; relative to now unless `absolute`.
        timeout: u64,
        /// Whether `timeout` is a time, not a duration.
        absolute: bool,
    },
    /// A descriptor is readable.
    FdRead(u32),
    /// A descriptor is writable.
    FdWrite(u32),
    /// This child has ended.
    Child(Pid),
    /// Nothing: it has no event.
    Never,
}

/// An event that happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// From the subscription.
    pub userdata: u64,
    /// Why the descriptor cannot be polled, if so.
    pub error: Option<Errno>,
    /// The kind of the subscription.
    pub kind: EventKind,
    /// Bytes that can be read or written at once.
    pub nbytes: u64,
    /// Whether the other end is closed.
    pub hangup: bool,
}

impl Event {
    /// An event without bytes.
    fn of(userdata: u64, kind: EventKind) -> Self {
        Self { userdata, error: None, kind, nbytes: 0, hangup: false }
    }
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
    /// A child. Preview1 has no such events.
    Child = 3,
}

/// Due times of clocks, each with its userdata.
type DueTimes = SmallVec<[(u64, u64); 4]>;

/// A poll under way. Times are those of the monotonic clock.
pub(super) struct Polling {
    clocks: DueTimes,
    begun: u64,
    /// The earliest due time.
    until: Option<u64>,
    /// Whether that was given as a time, which stays the same in the next poll.
    is_instant: bool,
}

/// Why a descriptor is not ready.
enum NotReady {
    Stdin,
    Pipe(PipeId, End),
}

impl Guest {
    /// `poll_oneoff`: returns the events that have happened, at least one.
    ///
    /// Files, directories and outputs are always ready, pipes if they have bytes or room. If nothing is ready and no
    /// time has come, the process waits for the first of them. With a virtual clock, standard input is
    /// always ready, as what happens outside takes no time.
    ///
    /// # Errors
    /// `EINVAL` if there is no subscription. [`Fault::Stop`] if a timeout comes first; [`Fault::Wait`].
    pub fn poll_oneoff(&mut self, subscriptions: &[Subscription]) -> Result<Vec<Event>, Fault> {
        if subscriptions.is_empty() {
            return Err(Errno::Inval.into());
        }
        // Made again after a wait: relative times count from the first try.
        let waited = self.progress.as_mut().and_then(|progress| progress.poll.take());
        // A replayed clock may not show the time that was waited for.
        let timed_out = waited.is_some() && self.machine.run.processes.timed_out(self.pid);
        let has_waited = waited.is_some();
        let polling = waited.unwrap_or_else(|| self.poll_clocks(subscriptions));
        let Polling { clocks, begun, until, is_instant } = polling;
        let mut now = if timed_out { until.map_or(begun, |until| until.max(begun)) } else { begun };
        let mut ready = Vec::new();
        let mut waits_for_stdin = Vec::new();
        let (mut pipes, mut children) = (Vec::new(), Vec::new());
        for subscription in subscriptions {
            let (fd, kind) = match subscription.kind {
                SubscriptionKind::Clock { .. } | SubscriptionKind::Never => continue,
                SubscriptionKind::Child(child) if self.has_ended(child) => {
                    ready.push(Event::of(subscription.userdata, EventKind::Child));
                    continue;
                }
                SubscriptionKind::Child(child) => {
                    children.push(child);
                    continue;
                }
                SubscriptionKind::FdRead(fd) => (fd, EventKind::FdRead),
                SubscriptionKind::FdWrite(fd) => (fd, EventKind::FdWrite),
            };
            match self.unready(fd, kind) {
                None => ready.push(self.fd_event(*subscription, fd, kind)),
                Some(NotReady::Stdin) => waits_for_stdin.push((*subscription, fd)),
                Some(NotReady::Pipe(pipe, end)) => pipes.push((pipe, end)),
            }
        }
        if !waits_for_stdin.is_empty() {
            let others = !pipes.is_empty()
                || !children.is_empty()
                || self.machine.run.processes.others_are_ready();
            let wait = match until {
                _ if !ready.is_empty() || others => Some(0),
                Some(until) => Some(until.saturating_sub(now)),
                None => None,
            };
            let is_ready = self.wait_for_stdin(wait)?;
            self.tape_stdin_poll(is_ready);
            if is_ready {
                for (subscription, fd) in waits_for_stdin {
                    ready.push(self.fd_event(subscription, fd, EventKind::FdRead));
                }
            } else if others && ready.is_empty() {
                let polling = Some(Polling { clocks, begun, until, is_instant });
                self.progress.get_or_insert_default().poll = polling;
                return Err(self.wait(Wait::Turn, None));
            } else if let Some(until) = until.filter(|_| ready.is_empty()) {
                // Standard input was waited for until then.
                self.pass_time(until)?;
                now = until.max(now);
            }
        }
        if ready.is_empty() && until.is_none_or(|until| until > now) {
            let polling = Polling { clocks, begun, until, is_instant };
            return Err(self.wait_for_any(polling, pipes, children));
        }
        if ready.is_empty() && !has_waited {
            self.ask_in_vain()?;
        }
        for (due, userdata) in clocks {
            if due <= now {
                ready.push(Event::of(userdata, EventKind::Clock));
            }
        }
        Ok(ready)
    }

    /// Has the process wait for one of `pipes` or `children`, or for the earliest time.
    fn wait_for_any(
        &mut self,
        polling: Polling,
        pipes: Vec<(PipeId, End)>,
        children: Vec<Pid>,
    ) -> Fault {
        let Polling { until, is_instant, .. } = polling;
        let is_time = pipes.is_empty() && children.is_empty() && until.is_some();
        let wait = if is_time { Wait::Time } else { Wait::Poll(pipes, children) };
        if let (Wait::Time, Some(until)) = (&wait, until) {
            self.tape_sleep(until);
        }
        self.progress.get_or_insert_default().poll = Some(polling);
        let fault = self.wait(wait, until);
        if is_instant {
            self.machine.run.processes.goes_on_waiting(self.pid, until);
        }
        fault
    }

    /// Returns whether `fd` is ready to be read or written, without waiting.
    ///
    /// # Errors
    /// [`Fault::Stop`] if the run's timeout has passed.
    pub fn fd_is_ready(&mut self, fd: u32, kind: EventKind) -> Result<bool, Fault> {
        match self.unready(fd, kind) {
            None => Ok(true),
            Some(NotReady::Pipe(..)) => Ok(false),
            Some(NotReady::Stdin) => {
                let is_ready = self.wait_for_stdin(Some(0))?;
                self.tape_stdin_poll(is_ready);
                Ok(is_ready)
            }
        }
    }

    /// Returns the bytes that a write to `fd` can take without waiting; `None` if it never waits. A write to a pipe
    /// without readers does not wait.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    pub fn fd_room(&self, fd: u32) -> Result<Option<u64>, Errno> {
        Ok(match self.description(fd)? {
            Description::PipeWriter(OpenPipe { pipe, .. }) => {
                match self.machine.run.pipes.writable(*pipe) {
                    (_, true) => None,
                    (room, false) => Some(room),
                }
            }
            _ => None,
        })
    }

    /// Returns the time of the monotonic clock in `duration_ns` nanoseconds.
    pub fn monotonic_time_in(&mut self, duration_ns: u64) -> u64 {
        self.read_clock(ClockId::Monotonic).saturating_add(duration_ns)
    }

    /// Computes when the clocks of `subscriptions` are due.
    fn poll_clocks(&mut self, subscriptions: &[Subscription]) -> Polling {
        let begun = self.read_clock(ClockId::Monotonic);
        let mut clocks = DueTimes::new();
        let mut first = None;
        for subscription in subscriptions {
            if let SubscriptionKind::Clock { id, timeout, absolute } = subscription.kind {
                let shown = if absolute { self.read_clock(id) } else { 0 };
                let due = begun.saturating_add(timeout.saturating_sub(shown));
                clocks.push((due, subscription.userdata));
                first = first.into_iter().chain([(due, absolute)]).min();
            }
        }
        let (until, is_instant) = first.unzip();
        Polling { clocks, begun, until, is_instant: is_instant.unwrap_or(false) }
    }

    /// Returns why `fd` is not ready; `None` if it is.
    fn unready(&self, fd: u32, kind: EventKind) -> Option<NotReady> {
        let pipes = &self.machine.run.pipes;
        match (self.description(fd), kind) {
            (Ok(Description::Stdin), EventKind::FdRead)
                if self.machine.run.stdin_given_back.is_empty()
                    && !self.machine.clock.is_virtual()
                    && self.machine.run.stdio.stdin.may_block() =>
            {
                Some(NotReady::Stdin)
            }
            (Ok(Description::PipeReader(OpenPipe { pipe, .. })), EventKind::FdRead)
                if pipes.readable(*pipe) == (0, false) =>
            {
                Some(NotReady::Pipe(*pipe, End::Reader))
            }
            (Ok(Description::PipeWriter(OpenPipe { pipe, .. })), EventKind::FdWrite)
                if pipes.writable(*pipe) == (0, false) =>
            {
                Some(NotReady::Pipe(*pipe, End::Writer))
            }
            _ => None,
        }
    }

    /// Waits for standard input, for `timeout_ns` at most; returns whether it is readable.
    ///
    /// # Errors
    /// [`Fault::Stop`] if the run's timeout comes first.
    pub(super) fn wait_for_stdin(&mut self, timeout_ns: Option<u64>) -> Result<bool, Fault> {
        if self.machine.is_at_taped_timeout() {
            return Err(self.stop_at(Limit::Timeout));
        }
        let left_ns = self.machine.time_left_ns();
        let stdin = &mut self.machine.run.stdio.stdin;
        match left_ns.filter(|left| timeout_ns.is_none_or(|timeout| timeout >= *left)) {
            None => Ok(stdin.wait(timeout_ns)),
            Some(left) if stdin.wait(Some(left)) => Ok(true),
            Some(_) => Err(self.stop_at(Limit::Timeout)),
        }
    }

    fn fd_event(&mut self, subscription: Subscription, fd: u32, kind: EventKind) -> Event {
        let mut event = Event::of(subscription.userdata, kind);
        let reads = kind == EventKind::FdRead;
        match self.description(fd) {
            Ok(Description::PipeReader(OpenPipe { pipe, .. })) if reads => {
                (event.nbytes, event.hangup) = self.machine.run.pipes.readable(*pipe);
            }
            Ok(Description::PipeWriter(OpenPipe { pipe, .. })) if !reads => {
                (event.nbytes, event.hangup) = self.machine.run.pipes.writable(*pipe);
            }
            Ok(Description::Stdin) if reads => match self.machine.run.stdio.stdin.available() {
                Some(nbytes) => {
                    event.nbytes = nbytes;
                    event.hangup = nbytes == 0;
                }
                None => event.nbytes = 1,
            },
            Ok(Description::Stdout | Description::Stderr) if !reads => {}
            Ok(Description::File(file)) if reads => {
                let len = self.machine.vfs.len(file.node).unwrap_or(0);
                event.nbytes = len.saturating_sub(file.offset);
            }
            Ok(Description::File(_) | Description::Device(_)) => {}
            Ok(Description::Dir(_)) if self.knows_version_10() => {}
            _ => event.error = Some(Errno::Badf),
        }
        event
    }
}
