//! `random_get`.

use wasmtime::{Caller, Result};

use crate::abi::{Process, call, trace};

/// `random_get(buf, buf_len)`
pub fn random_get(caller: Caller<'_, Process>, buf: u32, buf_len: u32) -> Result<i32> {
    call(caller, "random_get", |memory, guest| {
        trace!(guest, "len={buf_len}");
        let buf = memory.range(buf, buf_len.into())?;
        memory.fill(buf, |bytes| guest.random_get(bytes).map(|()| (bytes.len(), None)))
    })
}
