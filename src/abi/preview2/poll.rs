//! `wasi:io/poll`.

use wasmtime::component::Resource;

use super::call::{Halt, interface};
use crate::abi::{Process, trace};
use crate::kernel::guest::{EventKind, Fault, Guest, Subscription, SubscriptionKind};
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
pub(super) struct Pollable(pub Condition);

/// What a pollable waits for.
#[derive(Clone, Copy)]
pub(super) enum Condition {
    /// Nothing.
    Met,
    /// Bytes or the end of a descriptor.
    Readable(u32),
    /// Room in a descriptor.
    Writable(u32),
    /// The kernel's monotonic clock shows this time, in nanoseconds; the largest one never comes.
    Time(u64),
}

/// Nothing is waited for: what has happened by now is asked.
const NOW: SubscriptionKind =
    SubscriptionKind::Clock { id: ClockId::Monotonic, timeout: 0, absolute: false };

impl Condition {
    pub fn subscription(self, index: usize) -> Subscription {
        let kind = match self {
            Self::Met => NOW,
            Self::Readable(fd) => SubscriptionKind::FdRead(fd),
            Self::Writable(fd) => SubscriptionKind::FdWrite(fd),
            Self::Time(time) => {
                SubscriptionKind::Clock { id: ClockId::Monotonic, timeout: time, absolute: true }
            }
        };
        Subscription { userdata: index as u64, kind }
    }

    fn is_met(self, guest: &mut Guest) -> Result<bool, Fault> {
        match self {
            Self::Met => Ok(true),
            Self::Readable(fd) => guest.fd_is_ready(fd, EventKind::FdRead),
            Self::Writable(fd) => guest.fd_is_ready(fd, EventKind::FdWrite),
            // A loop that asks again and again lets time go on.
            Self::Time(time) => Ok(guest.clock_time_get(ClockId::Monotonic)? >= time),
        }
    }
}

/// Returns whether it has happened. If not, other processes get a turn first.
fn ready(process: &mut Process, (pollable,): &(Resource<Pollable>,)) -> Result<bool, Halt> {
    let Pollable(condition) = *process.resource(pollable)?;
    trace!(process.guest, "{}", pollable.rep());
    let is_met = condition.is_met(&mut process.guest)?;
    if !is_met {
        process.guest.sched_yield()?;
    }
    Ok(is_met)
}

fn block(process: &mut Process, (pollable,): &(Resource<Pollable>,)) -> Result<(), Halt> {
    let Pollable(condition) = *process.resource(pollable)?;
    trace!(process.guest, "{}", pollable.rep());
    process.guest.poll_oneoff(&[condition.subscription(0)])?;
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
        subscriptions.push(process.resource(pollable)?.0.subscription(index));
    }
    let happened = process.guest.poll_oneoff(&subscriptions)?;
    // Each is the index of a pollable.
    let mut ready: Vec<u32> = happened.iter().map(|event| event.userdata as u32).collect();
    ready.sort_unstable();
    Ok(ready)
}
