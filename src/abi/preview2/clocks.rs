//! `wasi:clocks`.

use wasmtime::component::{ComponentType, Lower, Resource};

use super::call::{Halt, interface};
use super::poll::{Condition, Pollable};
use super::types::Datetime;
use crate::abi::{Process, trace};
use crate::kernel::machine::clock::ClockId;

interface! {
    /// `wasi:clocks/monotonic-clock`
    monotonic_clock:
    "now" => reads_clock(monotonic_now),
    "resolution" => answers(monotonic_resolution),
    "subscribe-duration" => is(subscribe_duration),
    "subscribe-instant" => is(subscribe_instant),
}

interface! {
    /// `wasi:clocks/wall-clock`
    wall_clock:
    "now" => reads_clock(wall_now),
    "resolution" => answers(wall_resolution),
}

interface! {
    /// `wasi:clocks/timezone`: always UTC.
    timezone:
    "display" => answers(display),
    "utc-offset" => answers(utc_offset),
}

pub(in crate::abi) fn monotonic_now(process: &mut Process, (): ()) -> Result<u64, Halt> {
    trace!(process.guest, "monotonic");
    let id = ClockId::Monotonic;
    Ok(process.guest.clock_time_get(id)?.saturating_add(process.guest.uptime_ns(id)))
}

pub(in crate::abi) fn monotonic_resolution(process: &mut Process, (): ()) -> u64 {
    trace!(process.guest, "monotonic");
    process.guest.clock_res_get(ClockId::Monotonic)
}

fn subscribe_instant(process: &mut Process, (when,): (u64,)) -> Result<Resource<Pollable>, Halt> {
    trace!(process.guest, "when={when}");
    let condition = Condition::at(process, when);
    process.add(Pollable(condition))
}

fn subscribe_duration(process: &mut Process, (ns,): (u64,)) -> Result<Resource<Pollable>, Halt> {
    trace!(process.guest, "ns={ns}");
    let time = process.guest.monotonic_time_in(ns);
    process.add(Pollable(Condition::Time(time)))
}

fn wall_now(process: &mut Process, (): ()) -> Result<Datetime, Halt> {
    trace!(process.guest, "wall");
    Ok(Datetime::of_ns(process.guest.clock_time_get(ClockId::Realtime)?))
}

fn wall_resolution(process: &mut Process, (): ()) -> Datetime {
    trace!(process.guest, "wall");
    Datetime::of_ns(process.guest.clock_res_get(ClockId::Realtime))
}

/// `wasi:clocks/timezone.timezone-display`
#[derive(ComponentType, Lower)]
#[component(record)]
struct TimezoneDisplay {
    #[component(name = "utc-offset")]
    utc_offset: i32,
    #[component(name = "name")]
    name: String,
    #[component(name = "in-daylight-saving-time")]
    in_daylight_saving_time: bool,
}

fn display(process: &mut Process, (_,): (Datetime,)) -> TimezoneDisplay {
    trace!(process.guest, "");
    TimezoneDisplay { utc_offset: 0, name: "UTC".to_owned(), in_daylight_saving_time: false }
}

fn utc_offset(process: &mut Process, (_,): (Datetime,)) -> i32 {
    trace!(process.guest, "");
    0
}
