//! `environ_*`.

use wasmtime::{Caller, Result};

use super::args::{put_sizes, put_strings};
use crate::abi::{Process, call, trace};

/// `environ_get(environ, environ_buf)`
pub fn environ_get(caller: Caller<'_, Process>, environ: u32, environ_buf: u32) -> Result<i32> {
    call(caller, "environ_get", |memory, guest| {
        trace!(guest, "");
        put_strings(memory, guest.environ(), environ, environ_buf)
    })
}

/// `environ_sizes_get() -> (count, environ_buf_size)`
pub fn environ_sizes_get(caller: Caller<'_, Process>, count: u32, size: u32) -> Result<i32> {
    call(caller, "environ_sizes_get", |memory, guest| {
        trace!(guest, "");
        put_sizes(memory, guest.environ(), count, size)
    })
}
