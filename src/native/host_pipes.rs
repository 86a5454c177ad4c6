//! What is in the pipes between this process and a program of the host, one implementation a system.

use std::io::Read;
#[cfg(unix)]
use std::os::fd::{AsFd, OwnedFd};

/// The end of a pipe that this process reads.
#[cfg(unix)]
pub(super) trait ReadEnd: Read + Send + AsFd {}
#[cfg(unix)]
impl<T: Read + Send + AsFd> ReadEnd for T {}

/// The end of a pipe that this process reads.
#[cfg(not(unix))]
pub(super) trait ReadEnd: Read + Send {}
#[cfg(not(unix))]
impl<T: Read + Send> ReadEnd for T {}

/// Looks at a pipe that another thread reads. It keeps the pipe from being broken.
pub(super) struct Gauge {
    #[cfg(unix)]
    pipe: OwnedFd,
}

#[cfg(unix)]
impl Gauge {
    /// One of `pipe`, if the system has a descriptor left.
    pub(super) fn of(pipe: &(impl AsFd + ?Sized)) -> Option<Self> {
        Some(Self { pipe: pipe.as_fd().try_clone_to_owned().ok()? })
    }

    /// Bytes in the pipe; `None` if nobody can tell.
    pub(super) fn bytes(&self) -> Option<u64> {
        rustix::io::ioctl_fionread(&self.pipe).ok()
    }

    /// Whether nobody is left who can write.
    pub(super) fn is_hung_up(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.pipe, PollFlags::IN)];
        poll(&mut fds, Some(&at_once)).is_ok() && fds[0].revents().contains(PollFlags::HUP)
    }

    /// The number that the system knows the pipe by.
    pub(super) fn inode(&self) -> Option<u64> {
        Some(rustix::fs::fstat(&self.pipe).ok()?.st_ino)
    }
}

/// Waits until `pipe` can be read: a read does not wait then, if nobody else reads it.
#[cfg(unix)]
pub(super) fn wait_readable(pipe: &dyn ReadEnd) {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::Errno;

    let pipe = pipe.as_fd();
    // Of another error the read tells.
    while poll(&mut [PollFd::new(&pipe, PollFlags::IN)], None) == Err(Errno::INTR) {}
}

/// Waits until `pipe` can be read, where the system can tell; a read waits otherwise.
#[cfg(not(unix))]
pub(super) fn wait_readable(_: &dyn ReadEnd) {}

#[cfg(not(unix))]
impl Gauge {
    /// None: nobody can tell here.
    pub(super) fn of<T: ?Sized>(_: &T) -> Option<Self> {
        None
    }

    /// Bytes in the pipe; `None`, as nobody can tell.
    pub(super) fn bytes(&self) -> Option<u64> {
        None
    }

    /// Whether nobody is left who can write.
    pub(super) fn is_hung_up(&self) -> bool {
        true
    }

    /// The number that the system knows the pipe by.
    pub(super) fn inode(&self) -> Option<u64> {
        None
    }
}
