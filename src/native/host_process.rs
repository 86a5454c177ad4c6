//! A process of the host, and the group that it leads.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::Mutex;

use super::SubprocessStatus;
use super::streams::lock;

/// A process that was started as the leader of its group. Threads share it: one may end it while
/// another waits for it.
pub(super) struct HostProcess {
    leader: Mutex<Leader>,
    id: u32,
}

/// Until it is reaped, its number and its group's are its own.
struct Leader {
    child: Child,
    is_reaped: bool,
}

impl HostProcess {
    pub(super) fn new(child: Child) -> Self {
        Self { id: child.id(), leader: Mutex::new(Leader { child, is_reaped: false }) }
    }

    /// The number that the host knows it by.
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Ends it and its group, if it has not ended.
    ///
    /// # Errors
    /// As the host answers.
    pub(super) fn kill(&self) -> io::Result<()> {
        lock(&self.leader).kill(self.id)
    }

    /// As [`HostProcess::kill`], after `first`. If it was reaped already, nothing happens; answers
    /// whether it was not.
    ///
    /// # Errors
    /// As the host answers.
    pub(super) fn kill_after(&self, first: impl FnOnce()) -> io::Result<bool> {
        let mut leader = lock(&self.leader);
        if leader.is_reaped {
            return Ok(false);
        }
        first();
        leader.kill(self.id).map(|()| true)
    }

    /// Ends it, and waits until it has ended.
    pub(super) fn end(&self) {
        // One that has ended is left alone; one that cannot be ended is nobody's to wait for.
        if self.kill().is_ok() {
            let _ = self.reap();
        }
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// As the host answers.
    pub(super) fn has_ended(&self) -> io::Result<bool> {
        let mut leader = lock(&self.leader);
        leader.is_reaped |= leader.child.try_wait()?.is_some();
        Ok(leader.is_reaped)
    }

    /// Waits for the process without the lock, so that it can be ended meanwhile.
    ///
    /// # Errors
    /// As the host answers.
    pub(super) fn reap(&self) -> io::Result<SubprocessStatus> {
        self.wait_for_end()?;
        let mut leader = lock(&self.leader);
        let status = leader.child.wait()?;
        leader.is_reaped = true;
        Ok(status_of(status))
    }

    /// Waits until the process has ended, and leaves it to be reaped: so long, its group can be ended.
    ///
    /// # Errors
    /// As the host answers.
    #[cfg(unix)]
    pub(super) fn wait_for_end(&self) -> io::Result<Option<SubprocessStatus>> {
        use rustix::process::{WaitId, WaitIdOptions, waitid};

        // Once reaped, its number may be that of another process.
        let is_reaped = lock(&self.leader).is_reaped;
        let Some(id) = pid(self.id).filter(|_| !is_reaped) else { return Ok(None) };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        loop {
            match waitid(WaitId::Pid(id), options) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return Ok(None),
                Ok(Some(status)) => {
                    let exited = status.exit_status().map(SubprocessStatus::Exited);
                    let signal = || status.terminating_signal().map(SubprocessStatus::Signalled);
                    return Ok(exited.or_else(signal));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until the process has ended.
    ///
    /// # Errors
    /// As the host answers.
    #[cfg(not(unix))]
    pub(super) fn wait_for_end(&self) -> io::Result<Option<SubprocessStatus>> {
        const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(5);
        while lock(&self.leader).child.try_wait()?.is_none() {
            crate::base::ambient::sleep(LOOK_EVERY);
        }
        Ok(None)
    }
}

impl Leader {
    #[cfg(unix)]
    fn kill(&mut self, id: u32) -> io::Result<()> {
        use rustix::io::Errno;
        use rustix::process::{Signal, kill_process_group};

        let Some(group) = pid(id).filter(|_| !self.is_reaped) else { return Ok(()) };
        let of_group = kill_process_group(group, Signal::KILL);
        // It may have gone over to another group.
        self.child.kill()?;
        match of_group {
            Err(Errno::SRCH) => Ok(()),
            of_group => Ok(of_group?),
        }
    }

    #[cfg(not(unix))]
    fn kill(&mut self, _: u32) -> io::Result<()> {
        self.child.kill()
    }
}

#[cfg(unix)]
fn pid(id: u32) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(id.cast_signed())
}

#[cfg(unix)]
pub(super) fn status_of(status: ExitStatus) -> SubprocessStatus {
    use std::os::unix::process::ExitStatusExt;
    match status.code() {
        Some(code) => SubprocessStatus::Exited(code),
        None => SubprocessStatus::Signalled(status.signal().unwrap_or(0)),
    }
}

#[cfg(not(unix))]
pub(super) fn status_of(status: ExitStatus) -> SubprocessStatus {
    SubprocessStatus::Exited(status.code().unwrap_or(1))
}
