//! The state of pipes between this process and a native program; one implementation per system.

use std::io::{PipeReader, Read};
#[cfg(unix)]
use std::os::fd::{AsFd, OwnedFd};

/// The reading end of a pipe.
#[cfg(unix)]
pub(super) trait ReadEnd: Read + Send + AsFd {}
#[cfg(unix)]
impl<T: Read + Send + AsFd> ReadEnd for T {}

/// The reading end of a pipe.
#[cfg(not(unix))]
pub(super) trait ReadEnd: Read + Send {}
#[cfg(not(unix))]
impl<T: Read + Send> ReadEnd for T {}

/// Examines a pipe that another thread reads. It is a copy of the reading end.
pub(super) struct Gauge {
    #[cfg(unix)]
    pipe: OwnedFd,
}

#[cfg(unix)]
impl Gauge {
    /// Copies `pipe`, if a descriptor is left.
    pub(super) fn of(pipe: &(impl AsFd + ?Sized)) -> Option<Self> {
        Some(Self { pipe: pipe.as_fd().try_clone_to_owned().ok()? })
    }

    /// Bytes in the pipe; `None` if unknown.
    pub(super) fn bytes(&self) -> Option<u64> {
        rustix::io::ioctl_fionread(&self.pipe).ok()
    }

    /// Whether no writer is left.
    pub(super) fn is_hung_up(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.pipe, PollFlags::IN)];
        poll(&mut fds, Some(&at_once)).is_ok() && fds[0].revents().contains(PollFlags::HUP)
    }

    /// The inode of the pipe.
    pub(super) fn inode(&self) -> Option<u64> {
        Some(rustix::fs::fstat(&self.pipe).ok()?.st_ino)
    }
}

/// Waits until `pipe` is readable, and a read does not block, if no other thread reads; or until `awaited` has no
/// writer.
#[cfg(unix)]
pub(super) fn wait_readable(pipe: &dyn ReadEnd, awaited: Option<&PipeReader>) {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::Errno;

    let fds = [Some(pipe.as_fd()), awaited.map(AsFd::as_fd)];
    let mut fds: Vec<PollFd<'_>> =
        fds.iter().flatten().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    // The read reports any other error.
    while poll(&mut fds, None) == Err(Errno::INTR) {}
}

/// Returns at once: the read blocks instead.
#[cfg(not(unix))]
pub(super) fn wait_readable(_: &dyn ReadEnd, _: Option<&PipeReader>) {}

#[cfg(not(unix))]
impl Gauge {
    pub(super) fn of<T: ?Sized>(_: &T) -> Option<Self> {
        None
    }

    pub(super) fn bytes(&self) -> Option<u64> {
        None
    }

    pub(super) fn is_hung_up(&self) -> bool {
        true
    }

    pub(super) fn inode(&self) -> Option<u64> {
        None
    }
}
