//! A process of Windows with all that it starts, as a job object: there are no process groups.
#![allow(unsafe_code, reason = "the system has no safe call for it")]

use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::process::Child;

use windows_sys::Win32::System::JobObjects as jobs;

/// A process and its descendants, except what it started before it was put here.
pub struct Job(OwnedHandle);

impl Job {
    /// Puts `child`, just started, into a job of its own.
    ///
    /// # Errors
    /// The system's error.
    pub fn of(child: &Child) -> io::Result<Self> {
        // SAFETY: both pointers may be null, for default security and no name.
        let handle = unsafe { jobs::CreateJobObjectW(std::ptr::null(), std::ptr::null()) };
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle is valid, and nobody else closes it.
        let job = unsafe { OwnedHandle::from_raw_handle(handle) };
        // SAFETY: both handles are valid during the call.
        let assigned =
            unsafe { jobs::AssignProcessToJobObject(job.as_raw_handle(), child.as_raw_handle()) };
        if assigned == 0 { Err(io::Error::last_os_error()) } else { Ok(Self(job)) }
    }

    /// Ends all its processes.
    ///
    /// # Errors
    /// The system's error.
    pub fn terminate(&self) -> io::Result<()> {
        // SAFETY: the handle is valid during the call.
        let done = unsafe { jobs::TerminateJobObject(self.0.as_raw_handle(), 1) };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
