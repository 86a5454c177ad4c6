//! `wasi:clocks`.

use super::types::Instant;
use crate::abi::preview2::call::{Halt, interface};
use crate::abi::preview2::clocks::{monotonic_now, monotonic_resolution};
use crate::abi::preview2::poll::Condition;
use crate::abi::{Process, trace};
use crate::kernel::machine::clock::ClockId;

interface! {
    /// `wasi:clocks/monotonic-clock`
    monotonic_clock:
    "get-resolution" => answers(monotonic_resolution),
    "now" => reads_clock(monotonic_now),
    "wait-for" => waits_async(wait_for),
    "wait-until" => waits_async(wait_until),
}

interface! {
    /// `wasi:clocks/system-clock`
    system_clock:
    "get-resolution" => answers(system_resolution),
    "now" => reads_clock(system_now),
}

interface! {
    /// `wasi:clocks/timezone`: always UTC.
    timezone:
    "iana-id" => answers(iana_id),
    "to-debug-string" => answers(to_debug_string),
    "utc-offset" => answers(utc_offset),
}

#[expect(clippy::unnecessary_wraps, reason = "as `wait_until`, which reads the clock")]
fn wait_for(process: &mut Process, (ns,): (u64,)) -> Result<Condition, Halt> {
    trace!(process.guest, "ns={ns}");
    if ns == 0 {
        return Ok(Condition::Met);
    }
    Ok(Condition::Time(process.guest.monotonic_time_in(ns)))
}

/// A time that has come is not waited for: the call has its answer at once.
fn wait_until(process: &mut Process, (when,): (u64,)) -> Result<Condition, Halt> {
    trace!(process.guest, "when={when}");
    let condition = Condition::at(process, when);
    Ok(if condition.is_met(process)? { Condition::Met } else { condition })
}

fn system_now(process: &mut Process, (): ()) -> Result<Instant, Halt> {
    trace!(process.guest, "system");
    Ok(Instant::of_ns(process.guest.clock_time_get(ClockId::Realtime)?))
}

fn system_resolution(process: &mut Process, (): ()) -> u64 {
    trace!(process.guest, "system");
    process.guest.clock_res_get(ClockId::Realtime)
}

#[expect(clippy::unnecessary_wraps, reason = "the type of the interface")]
fn iana_id(process: &mut Process, (): ()) -> Option<String> {
    trace!(process.guest, "");
    Some("UTC".to_owned())
}

fn to_debug_string(process: &mut Process, (): ()) -> String {
    trace!(process.guest, "");
    "UTC".to_owned()
}

#[expect(clippy::unnecessary_wraps, reason = "the type of the interface")]
fn utc_offset(process: &mut Process, (_,): (Instant,)) -> Option<i64> {
    trace!(process.guest, "");
    Some(0)
}
