//! The standard streams of this process on Windows, where each program that it starts gets all handles that may be inherited.
#![allow(unsafe_code, reason = "the system has no safe call for it")]

use std::io;
use std::os::windows::io::AsRawHandle;

use windows_sys::Win32::Foundation::{HANDLE_FLAG_INHERIT, SetHandleInformation};

/// Keeps the standard streams from programs that are started with others: one that goes on after this process would keep
/// them open, and who reads them would wait for it. Those that are to have them get copies.
pub fn keep_from_children() {
    let handles =
        [io::stdin().as_raw_handle(), io::stdout().as_raw_handle(), io::stderr().as_raw_handle()];
    for handle in handles.into_iter().filter(|handle| !handle.is_null()) {
        // SAFETY: the call changes a flag; a handle that is not open is an error, which changes nothing.
        unsafe { SetHandleInformation(handle, HANDLE_FLAG_INHERIT, 0) };
    }
}
