//! `proc_*`.

use wasmtime::{Caller, Result};

use crate::abi::{Process, call, trace};
use crate::base::errno::Errno;

/// `proc_exit(rval)`: does not return.
pub fn proc_exit(caller: Caller<'_, Process>, code: u32) -> Result<()> {
    call(caller, "proc_exit", |_, guest| {
        trace!(guest, "code={code}");
        Err(guest.proc_exit(code))
    })
    .map(|_| ())
}

/// `proc_raise(sig)`: not supported, `ENOTSUP`.
pub fn proc_raise(caller: Caller<'_, Process>, signal: u32) -> Result<i32> {
    call(caller, "proc_raise", |_, guest| {
        trace!(guest, "signal={signal}");
        Err(Errno::Notsup.into())
    })
}
