//! The host process's standard input: reading it, and waiting for it, one implementation a system.

use std::io;

/// Reads some bytes; 0 at the end. Nothing is read ahead, so that [`wait`] tells the truth.
#[cfg(unix)]
pub fn read(buf: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(io::stdin(), buf)?)
}

/// Moves the offset of standard input back over the last `count` bytes that were read, if it is a
/// file, so that those who read it next find them.
#[cfg(unix)]
pub fn give_back(count: u64) {
    let back = i64::try_from(count).map(i64::wrapping_neg);
    // A pipe or a terminal has no offset: what was read ahead of it is gone.
    let _ = back.map(|back| rustix::fs::seek(io::stdin(), rustix::fs::SeekFrom::Current(back)));
}

/// Programs that read it next have handles of their own.
#[cfg(not(unix))]
pub fn give_back(_count: u64) {}

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

/// Looks out for standard input on a thread of its own. Dropped, it looks no more.
#[derive(Debug)]
pub struct Watch {
    #[cfg(unix)]
    _until_closed: Option<io::PipeWriter>,
}

impl Watch {
    /// Calls `then` once standard input can be read; at once, if nobody can look out for that, as a
    /// read waits, too.
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
            // Where waiting is not possible, reading finds out.
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

    /// Calls `then` at once: nobody can look out for standard input, and a read waits, too.
    #[cfg(not(unix))]
    pub(in crate::kernel) fn begin(then: impl Fn() + Clone + Send + 'static) -> Self {
        then();
        Self {}
    }
}
