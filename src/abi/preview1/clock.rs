//! `clock_*`.

use wasmtime::{Caller, Result};

use crate::abi::{Process, call, trace};
use crate::base::errno::Errno;
use crate::kernel::machine::clock::ClockId;

/// `clock_res_get(id) -> timestamp`
pub fn clock_res_get(caller: Caller<'_, Process>, id: u32, out: u32) -> Result<i32> {
    call(caller, "clock_res_get", |memory, guest| {
        trace!(guest, "id={id}");
        let id = ClockId::from_raw(id).ok_or(Errno::Inval)?;
        let out = memory.place_u64(out)?;
        let resolution = guest.clock_res_get(id);
        memory.put_u64(out, resolution);
        Ok(Some(("resolution", resolution)))
    })
}

/// `clock_time_get(id, precision) -> timestamp`
pub fn clock_time_get(
    caller: Caller<'_, Process>,
    id: u32,
    _precision: u64,
    out: u32,
) -> Result<i32> {
    call(caller, "clock_time_get", |memory, guest| {
        trace!(guest, "id={id}");
        let id = ClockId::from_raw(id).ok_or(Errno::Inval)?;
        let out = memory.place_u64(out)?;
        let time = guest.clock_time_get(id)?.saturating_add(guest.uptime_ns(id));
        memory.put_u64(out, time);
        Ok(Some(("time", time)))
    })
}
