//! `wasi:io/poll`.

use wasmtime::component::Resource;

use super::call::{Halt, interface};
use super::child::Child;
use super::exchange::FutureResponse;
use crate::abi::{Process, trace};
use crate::kernel::guest::{EventKind, Subscription, SubscriptionKind};
use crate::kernel::machine::clock::ClockId;

/// Most pollables of one call: see `poll_oneoff`.
const POLLABLES_MAX: usize = 1 << 16;

interface! {
    /// `wasi:io/poll`
    poll:
    "[method]pollable.block" => does_waiting(block),
    "[method]pollable.ready" => waits_reading_clock(ready),
    "poll" => waits(poll_list),
}

/// `pollable`
#[derive(Clone, Copy)]
pub(in crate::abi) struct Pollable(pub Condition);

/// What a pollable waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::abi) enum Condition {
    /// Nothing.
    Met,
    /// The answer of the request that the resource with this index stands for.
    Answered(u32),
    /// Bytes or the end of a descriptor.
    Readable(u32),
    /// Room in a descriptor.
    Writable(u32),
    /// The end of the child that the resource with this index stands for.
    Ended(u32),
    /// The kernel's monotonic clock shows this time, in nanoseconds; the largest one never comes.
    Time(u64),
}

/// Nothing is waited for: what has happened by now is asked.
const NOW: SubscriptionKind =
    SubscriptionKind::Clock { id: ClockId::Monotonic, timeout: 0, absolute: false };

impl Condition {
    /// The clock of components shows `when`; the largest time never comes.
    pub fn at(process: &Process, when: u64) -> Self {
        let uptime = process.guest.uptime_ns(ClockId::Monotonic);
        Self::Time(if when == u64::MAX { when } else { when.saturating_sub(uptime) })
    }

    /// The subscription `index` of a poll by `process`.
    ///
    /// # Errors
    /// A trap if its resource is gone, which its place as a child rules out.
    pub fn subscription(self, process: &mut Process, index: usize) -> Result<Subscription, Halt> {
        let kind = match self {
            Self::Met => NOW,
            Self::Answered(future) if is_answered(process, future)? => NOW,
            // The process itself has to finish the request; the largest time never comes.
            Self::Answered(_) | Self::Time(u64::MAX) => SubscriptionKind::Never,
            Self::Ended(child) => match child_of(process, child)?.awaited() {
                None => NOW,
                Some(pid) => SubscriptionKind::Child(pid),
            },
            Self::Readable(fd) => SubscriptionKind::FdRead(fd),
            Self::Writable(fd) => SubscriptionKind::FdWrite(fd),
            Self::Time(time) => {
                SubscriptionKind::Clock { id: ClockId::Monotonic, timeout: time, absolute: true }
            }
        };
        Ok(Subscription { userdata: index as u64, kind })
    }

    /// Whether it is met now.
    ///
    /// # Errors
    /// As [`Condition::subscription`].
    pub fn is_met(self, process: &mut Process) -> Result<bool, Halt> {
        Ok(match self {
            Self::Met => true,
            Self::Answered(future) => is_answered(process, future)?,
            Self::Ended(child) => {
                let awaited = child_of(process, child)?.awaited();
                let has_ended = awaited.is_none_or(|pid| process.guest.has_ended(pid));
                if !has_ended {
                    process.let_time_go_on()?;
                }
                has_ended
            }
            Self::Readable(fd) => process.guest.fd_is_ready(fd, EventKind::FdRead)?,
            Self::Writable(fd) => process.guest.fd_is_ready(fd, EventKind::FdWrite)?,
            // A loop that asks again and again lets time go on.
            Self::Time(time) => process.guest.clock_time_get(ClockId::Monotonic)? >= time,
        })
    }
}

impl Process {
    /// Whoever asks for an event again and again lets time go on, as a loop that reads the clock does.
    pub(in crate::abi) fn let_time_go_on(&mut self) -> Result<(), Halt> {
        self.guest.clock_time_get(ClockId::Monotonic)?;
        Ok(())
    }

    /// As [`Process::let_time_go_on`], and other processes get a turn.
    pub(super) fn let_others_go_on(&mut self) -> Result<(), Halt> {
        self.let_time_go_on()?;
        self.guest.yield_to_due()?;
        Ok(())
    }
}

fn child_of(process: &mut Process, child: u32) -> Result<&mut Child, Halt> {
    process.resource(&Resource::<Child>::new_borrow(child))
}

fn is_answered(process: &mut Process, future: u32) -> Result<bool, Halt> {
    Ok(process.resource(&Resource::<FutureResponse>::new_borrow(future))?.is_ready())
}

/// Returns whether it has happened. If not, other processes get a turn first.
fn ready(process: &mut Process, (pollable,): &(Resource<Pollable>,)) -> Result<bool, Halt> {
    let Pollable(condition) = *process.resource(pollable)?;
    trace!(process.guest, "{}", pollable.rep());
    let is_met = condition.is_met(process)?;
    if !is_met {
        process.guest.yield_to_due()?;
    }
    Ok(is_met)
}

fn block(process: &mut Process, (pollable,): &(Resource<Pollable>,)) -> Result<(), Halt> {
    let Pollable(condition) = *process.resource(pollable)?;
    trace!(process.guest, "{}", pollable.rep());
    let subscription = condition.subscription(process, 0)?;
    process.guest.poll_oneoff(&[subscription])?;
    Ok(())
}

fn poll_list(
    process: &mut Process,
    (pollables,): &(Vec<Resource<Pollable>>,),
) -> Result<Vec<u32>, Halt> {
    trace!(process.guest, "npollables={}", pollables.len());
    if pollables.is_empty() {
        return Err(Halt::Trap("poll has no pollables"));
    }
    if pollables.len() > POLLABLES_MAX {
        return Err(Halt::Trap("poll has too many pollables"));
    }
    let mut subscriptions = Vec::with_capacity(pollables.len());
    for (index, pollable) in pollables.iter().enumerate() {
        let Pollable(condition) = *process.resource(pollable)?;
        subscriptions.push(condition.subscription(process, index)?);
    }
    let happened = process.guest.poll_oneoff(&subscriptions)?;
    // Each is the index of a pollable.
    let mut ready: Vec<u32> = happened.iter().map(|event| event.userdata as u32).collect();
    ready.sort_unstable();
    Ok(ready)
}
