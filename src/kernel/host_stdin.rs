//! The host process's standard input: reading it, and waiting for it, one implementation a system.

use std::io;

/// Reads some bytes; 0 at the end. Nothing is read ahead, so that [`wait`] tells the truth.
#[cfg(unix)]
pub fn read(buf: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(io::stdin(), buf)?)
}

/// Waits until standard input can be read, or for `timeout_ns` (`None`: for as long as it takes).
/// Answers whether it can.
#[cfg(unix)]
pub fn wait(timeout_ns: Option<u64>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let timeout = timeout_ns.map(|ns| Timespec {
        tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (ns % 1_000_000_000).try_into().unwrap_or(0),
    });
    // Where waiting is not possible, reading finds out.
    poll(&mut fds, timeout.as_ref()).map_or(true, |ready| ready > 0)
}

/// Reads some bytes; 0 at the end.
#[cfg(not(unix))]
pub fn read(buf: &mut [u8]) -> io::Result<usize> {
    io::Read::read(&mut io::stdin(), buf)
}

/// Waits until standard input can be read. Where the system cannot tell, it always can: a read
/// waits instead.
#[cfg(not(unix))]
pub fn wait(_timeout_ns: Option<u64>) -> bool {
    true
}
