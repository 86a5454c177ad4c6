//! Host calls.

use wasmtime::{Caller, Result};

use crate::abi::{Answering, Process, call, call_waiting, trace};

/// Longest name of an operation, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// `host_has(name) -> has`
pub(super) fn host_has(
    caller: Caller<'_, Process>,
    name: u32,
    name_len: u32,
    out: u32,
) -> Result<i32> {
    call(caller, "host_has", |memory, guest| {
        let name = memory.path(name, name_len, NAME_BYTES_MAX)?;
        trace!(guest, "name={name:?}");
        let out = memory.place_u32(out)?;
        let has = guest.host_has(name)?;
        memory.put_u32(out, has.into());
        Ok(Some(("has", has.into())))
    })
}

/// `host_call(name, params, buf) -> size`: as much of the answer as fits, and its whole length.
pub(super) fn host_call(
    caller: Caller<'_, Process>,
    (name, name_len, params, params_len, buf, buf_len, out): (u32, u32, u32, u32, u32, u32, u32),
) -> Answering<'_> {
    Box::new(call_waiting(caller, "host_call", move |memory, guest| {
        let name = memory.path(name, name_len, NAME_BYTES_MAX)?;
        trace!(guest, "name={name:?}, params_len={params_len}, buf_len={buf_len}");
        let params = memory.bytes(params, params_len)?;
        let (buf, out) = (memory.place(buf, buf_len.into(), 1)?, memory.place_u32(out)?);
        let size = guest.host_call(name, params)?;
        let reply = guest.host_reply();
        memory.put(buf, 0, &reply[..reply.len().min(buf_len as usize)]);
        // The limit on answers is far below a u32.
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        memory.put_u32(out, size);
        Ok(Some(("size", size.into())))
    }))
}

/// `host_reply(offset, buf) -> size`: the last answer, from `offset` on.
pub(super) fn host_reply(
    caller: Caller<'_, Process>,
    offset: u32,
    buf: u32,
    buf_len: u32,
    out: u32,
) -> Result<i32> {
    call(caller, "host_reply", |memory, guest| {
        trace!(guest, "offset={offset}, buf_len={buf_len}");
        let (buf, out) = (memory.place(buf, buf_len.into(), 1)?, memory.place_u32(out)?);
        let rest = guest.host_reply().get(offset as usize..).unwrap_or_default();
        let size = rest.len().min(buf_len as usize);
        memory.put(buf, 0, &rest[..size]);
        memory.put_u32(out, size as u32);
        Ok(Some(("size", size as u64)))
    })
}
