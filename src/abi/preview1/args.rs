//! `args_*`, and the encoding of string lists, also for `environ_*`.

use wasmtime::{Caller, Result};

use crate::abi::memory::GuestMemory;
use crate::abi::{Answer, Process, call, trace};
use crate::base::errno::Errno;
use crate::kernel::guest::Fault;

/// `args_get(argv, argv_buf)`
pub fn args_get(caller: Caller<'_, Process>, argv: u32, argv_buf: u32) -> Result<i32> {
    call(caller, "args_get", |memory, guest| {
        trace!(guest, "");
        put_strings(memory, guest.args(), argv, argv_buf)
    })
}

/// `args_sizes_get() -> (argc, argv_buf_size)`
pub fn args_sizes_get(caller: Caller<'_, Process>, argc: u32, size: u32) -> Result<i32> {
    call(caller, "args_sizes_get", |memory, guest| {
        trace!(guest, "");
        put_sizes(memory, guest.args(), argc, size)
    })
}

/// Writes `strings` with closing NULs to `buf`, and pointers to them to `list`.
pub(super) fn put_strings(
    memory: &mut GuestMemory<'_>,
    strings: &[Vec<u8>],
    list: u32,
    buf: u32,
) -> Result<Answer, Fault> {
    let list = memory.place(list, strings.len() as u64 * 4, 4)?;
    let bytes = memory.place(buf, bytes_of(strings), 1)?;
    let mut at = 0;
    for (index, string) in strings.iter().enumerate() {
        let ptr = buf.wrapping_add(u32::try_from(at).map_err(|_| Errno::Overflow)?);
        memory.put(list, index * 4, &ptr.to_le_bytes());
        memory.put(bytes, at, string);
        memory.put(bytes, at + string.len(), &[0]);
        at += string.len() + 1;
    }
    Ok(None)
}

/// Writes the number of `strings` and the size of the buffer that [`put_strings`] needs.
pub(super) fn put_sizes(
    memory: &mut GuestMemory<'_>,
    strings: &[Vec<u8>],
    count: u32,
    size: u32,
) -> Result<Answer, Fault> {
    let (count, size) = (memory.place_u32(count)?, memory.place_u32(size)?);
    memory.put_u32(count, u32::try_from(strings.len()).map_err(|_| Errno::Overflow)?);
    memory.put_u32(size, u32::try_from(bytes_of(strings)).map_err(|_| Errno::Overflow)?);
    Ok(Some(("count", strings.len() as u64)))
}

fn bytes_of(strings: &[Vec<u8>]) -> u64 {
    strings.iter().map(|string| string.len() as u64 + 1).sum()
}
