//! `sock_*`: no descriptor is a socket.

use wasmtime::{Caller, Result};

use crate::abi::{Process, call, trace};

/// `sock_accept(fd, flags) -> fd`
pub fn sock_accept(caller: Caller<'_, Process>, fd: u32, _flags: u32, _out: u32) -> Result<i32> {
    sock(caller, "sock_accept", fd)
}

/// `sock_recv(fd, ri_data, ri_flags) -> (size, roflags)`
pub fn sock_recv(
    caller: Caller<'_, Process>,
    fd: u32,
    _data: u32,
    _data_len: u32,
    _flags: u32,
    _size: u32,
    _out_flags: u32,
) -> Result<i32> {
    sock(caller, "sock_recv", fd)
}

/// `sock_send(fd, si_data, si_flags) -> size`
pub fn sock_send(
    caller: Caller<'_, Process>,
    fd: u32,
    _data: u32,
    _data_len: u32,
    _flags: u32,
    _size: u32,
) -> Result<i32> {
    sock(caller, "sock_send", fd)
}

/// `sock_shutdown(fd, how)`
pub fn sock_shutdown(caller: Caller<'_, Process>, fd: u32, _how: u32) -> Result<i32> {
    sock(caller, "sock_shutdown", fd)
}

fn sock(caller: Caller<'_, Process>, name: &'static str, fd: u32) -> Result<i32> {
    call(caller, name, |_, guest| {
        trace!(guest, "fd={fd}");
        guest.sock(fd)?;
        Ok(None)
    })
}
