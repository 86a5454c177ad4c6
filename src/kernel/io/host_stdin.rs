//! The standard input of the host process: reads and waits, one implementation per system.

use std::io;

/// Reads some bytes; 0 at the end. Nothing is read ahead, so that [`wait`] is right.
#[cfg(unix)]
pub fn read(buf: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(io::stdin(), buf)?)
}

/// Moves the offset of standard input, if it is a file, back over the last `count` bytes, so that
/// programs that read it next find them.
#[cfg(unix)]
pub fn give_back(count: u64) {
    let back = i64::try_from(count).map(i64::wrapping_neg);
    // A pipe or a terminal has no offset: bytes read ahead are lost.
    let _ = back.map(|back| rustix::fs::seek(io::stdin(), rustix::fs::SeekFrom::Current(back)));
}

/// No effect: programs that read it next have handles of their own.
#[cfg(not(unix))]
pub fn give_back(_count: u64) {}

/// Waits until standard input is readable, for `timeout_ns` at most; returns whether it is.
#[cfg(unix)]
pub fn wait(timeout_ns: Option<u64>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let timeout = timeout_ns.map(|ns| Timespec {
        tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (ns % 1_000_000_000).try_into().unwrap_or(0),
    });
    // If waiting is not possible, a read will tell.
    poll(&mut fds, timeout.as_ref()).map_or(true, |ready| ready > 0)
}

/// Reads some bytes; 0 at the end.
#[cfg(not(unix))]
pub fn read(buf: &mut [u8]) -> io::Result<usize> {
    io::Read::read(&mut io::stdin(), buf)
}

/// Returns true: the system cannot wait for standard input, so a read waits instead.
#[cfg(not(unix))]
pub fn wait(_timeout_ns: Option<u64>) -> bool {
    true
}

/// Watches standard input on a thread of its own, until dropped.
#[derive(Debug)]
pub struct Watch {
    #[cfg(unix)]
    _until_closed: Option<io::PipeWriter>,
}

impl Watch {
    /// Calls `then` once standard input is readable; at once if that cannot be watched, as a read waits.
    #[cfg(unix)]
    pub(in crate::kernel) fn begin(then: impl Fn() + Clone + Send + 'static) -> Self {
        use rustix::event::{PollFd, PollFlags, poll};

        let Ok((closed, until_closed)) = io::pipe() else {
            then();
            return Self { _until_closed: None };
        };
        let later = then.clone();
        let watch = move || {
            let stdin = io::stdin();
            let mut fds = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&closed, PollFlags::IN)];
            // If waiting is not possible, a read will tell.
            let _ = poll(&mut fds, None);
            if fds[1].revents().is_empty() {
                later();
            }
        };
        if std::thread::Builder::new().spawn(watch).is_err() {
            then();
            return Self { _until_closed: None };
        }
        Self { _until_closed: Some(until_closed) }
    }

    /// Calls `then` at once: standard input cannot be watched here, and a read waits.
    #[cfg(not(unix))]
    pub(in crate::kernel) fn begin(then: impl Fn() + Clone + Send + 'static) -> Self {
        then();
        Self {}
    }
}
