//! `poll_oneoff`.

use wasmtime::Caller;

use super::Snapshot;
use crate::abi::memory::{GuestMemory, Place};
use crate::abi::{Answering, Process, call_waiting, known_bits, trace};
use crate::base::errno::Errno;
use crate::kernel::guest::{Event, EventKind, Guest, Subscription, SubscriptionKind};
use crate::kernel::machine::clock::ClockId;

/// Most subscriptions of one call: more than a process can have descriptors. A guest must not choose how
/// much the host allocates.
const SUBSCRIPTIONS_MAX: u32 = 1 << 16;

/// Size of an `event` in bytes.
const EVENT_BYTES: usize = 32;

/// `poll_oneoff(in, out, nsubscriptions) -> size`
pub(super) fn poll_oneoff<const UNSTABLE: bool>(
    caller: Caller<'_, Process>,
    (subscriptions, events, count, out): (u32, u32, u32, u32),
) -> Answering<'_> {
    let snapshot = Snapshot::of(UNSTABLE);
    Box::new(call_waiting(caller, "poll_oneoff", move |memory, guest| {
        trace!(guest, "nsubscriptions={count}");
        if count > SUBSCRIPTIONS_MAX {
            return Err(Errno::Inval.into());
        }
        let size = if snapshot == Snapshot::Preview1 { 48 } else { 56 };
        let list = memory.place(subscriptions, u64::from(count) * size, 8)?;
        let events = memory.place(events, u64::from(count) * EVENT_BYTES as u64, 8)?;
        let out = memory.place_u32(out)?;
        let subscriptions = (0..count as usize)
            .map(|index| subscription(memory, guest, snapshot, list, index * size as usize))
            .collect::<Result<Vec<_>, _>>()?;
        let happened = guest.poll_oneoff(&subscriptions)?;
        for (index, event) in happened.iter().enumerate() {
            memory.put(events, index * EVENT_BYTES, &encode(event));
        }
        memory.put_u32(out, u32::try_from(happened.len()).map_err(|_| Errno::Overflow)?);
        Ok(Some(("nevents", happened.len() as u64)))
    }))
}

fn subscription(
    memory: &GuestMemory<'_>,
    guest: &Guest,
    snapshot: Snapshot,
    list: Place,
    at: usize,
) -> Result<Subscription, Errno> {
    let userdata = memory.u64_at(list, at);
    let kind = match memory.u8_at(list, at + 8) {
        0 => {
            // In the predecessor, an identifier precedes the clock.
            let clock = at + if snapshot == Snapshot::Preview1 { 16 } else { 24 };
            let id = ClockId::from_raw(memory.u32_at(list, clock)).ok_or(Errno::Inval)?;
            let flags = known_bits(memory.u16_at(list, clock + 24).into(), 1)?;
            let timeout = memory.u64_at(list, clock + 8);
            let absolute = flags == 1;
            // The largest time never comes.
            let timeout = match timeout {
                u64::MAX => u64::MAX,
                shown if absolute => shown.saturating_sub(guest.uptime_ns(id)),
                timeout => timeout,
            };
            SubscriptionKind::Clock { id, timeout, absolute }
        }
        1 => SubscriptionKind::FdRead(memory.u32_at(list, at + 16)),
        2 => SubscriptionKind::FdWrite(memory.u32_at(list, at + 16)),
        _ => return Err(Errno::Inval),
    };
    Ok(Subscription { userdata, kind })
}

fn encode(event: &Event) -> [u8; EVENT_BYTES] {
    let mut bytes = [0; EVENT_BYTES];
    bytes[0..8].copy_from_slice(&event.userdata.to_le_bytes());
    bytes[8..10].copy_from_slice(&event.error.map_or(0, Errno::code).to_le_bytes());
    bytes[10] = event.kind as u8;
    if event.kind != EventKind::Clock {
        bytes[16..24].copy_from_slice(&event.nbytes.to_le_bytes());
        bytes[24..26].copy_from_slice(&u16::from(event.hangup).to_le_bytes());
    }
    bytes
}
