//! A process of the host and the process group that it leads, or its job on Windows.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::Mutex;

use super::SubprocessStatus;
use super::live;
use super::streams::lock;
#[cfg(windows)]
use crate::base::job::Job;

/// A process started as leader of its own group. Threads share it: one may kill it while another
/// waits.
pub(super) struct OsProcess {
    leader: Mutex<Leader>,
    id: u32,
}

/// Until it is reaped, its process ID and group ID cannot be reused.
struct Leader {
    child: Child,
    is_reaped: bool,
    /// With its descendants; `None` if the system has no job for it.
    #[cfg(windows)]
    job: Option<Job>,
}

impl OsProcess {
    /// The process that [`live::spawn`] has started.
    pub(super) fn new(child: Child) -> Self {
        let leader = Leader {
            #[cfg(windows)]
            job: Job::of(&child).ok(),
            is_reaped: false,
            child,
        };
        Self { id: leader.child.id(), leader: Mutex::new(leader) }
    }

    /// The process ID.
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Kills it and its group, if it has not been reaped.
    ///
    /// # Errors
    /// The host's error.
    pub(super) fn kill(&self) -> io::Result<()> {
        lock(&self.leader).kill(self.id)
    }

    /// Like [`OsProcess::kill`], after calling `first`. Returns `false`, and does neither, if it
    /// was reaped.
    ///
    /// # Errors
    /// The host's error.
    pub(super) fn kill_after(&self, first: impl FnOnce()) -> io::Result<bool> {
        let mut leader = lock(&self.leader);
        if leader.is_reaped {
            return Ok(false);
        }
        first();
        leader.kill(self.id).map(|()| true)
    }

    /// Asks it and its group to end with the signal `number`, if it has not been reaped. Only on Unix.
    pub(super) fn ask_to_end(&self, number: u8) {
        #[cfg(unix)]
        if let (Some(group), Some(signal), false) = (
            live::pid(self.id),
            rustix::process::Signal::from_named_raw(number.into()),
            lock(&self.leader).is_reaped,
        ) {
            // It may have ended.
            let _ = rustix::process::kill_process_group(group, signal);
        }
        #[cfg(not(unix))]
        let _ = number;
    }

    /// Kills and reaps it.
    pub(super) fn end(&self) {
        // It has ended, or cannot be killed: then it is not waited for.
        if self.kill().is_ok() {
            let _ = self.reap();
        }
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// The host's error.
    pub(super) fn has_ended(&self) -> io::Result<bool> {
        let mut leader = lock(&self.leader);
        let mut live = live::list();
        leader.is_reaped |= leader.child.try_wait()?.is_some();
        if leader.is_reaped {
            live.remove(&self.id);
        }
        Ok(leader.is_reaped)
    }

    /// Waits for the process without holding the lock, so that it can be killed meanwhile.
    ///
    /// # Errors
    /// The host's error.
    pub(super) fn reap(&self) -> io::Result<SubprocessStatus> {
        self.wait_for_end()?;
        let mut leader = lock(&self.leader);
        let mut live = live::list();
        let status = leader.child.wait()?;
        leader.is_reaped = true;
        live.remove(&self.id);
        Ok(status_of(status))
    }

    /// Waits until the process has ended, without reaping it: its group can still be killed.
    ///
    /// # Errors
    /// The host's error.
    #[cfg(unix)]
    pub(super) fn wait_for_end(&self) -> io::Result<Option<SubprocessStatus>> {
        use rustix::process::{WaitId, WaitIdOptions, waitid};

        // Once reaped, its ID may be that of another process.
        let is_reaped = lock(&self.leader).is_reaped;
        let Some(id) = live::pid(self.id).filter(|_| !is_reaped) else { return Ok(None) };
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
    /// The host's error.
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

        let Some(group) = live::pid(id).filter(|_| !self.is_reaped) else { return Ok(()) };
        let of_group = kill_process_group(group, Signal::KILL);
        // It may have changed its group.
        self.child.kill()?;
        match of_group {
            Err(Errno::SRCH) => Ok(()),
            of_group => Ok(of_group?),
        }
    }

    #[cfg(windows)]
    fn kill(&mut self, _: u32) -> io::Result<()> {
        match &self.job {
            Some(job) => job.terminate(),
            None => self.child.kill(),
        }
    }

    #[cfg(not(any(unix, windows)))]
    fn kill(&mut self, _: u32) -> io::Result<()> {
        self.child.kill()
    }
}

impl Drop for OsProcess {
    fn drop(&mut self) {
        // One that could not be reaped. The ID of a reaped one may be that of another program by now.
        if !lock(&self.leader).is_reaped {
            live::list().remove(&self.id);
        }
    }
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
