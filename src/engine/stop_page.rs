//! The stop page of a running program: closing it ends the program at its next loop or call.
#![allow(unsafe_code, reason = "pages of a guest's memory are protected")]

use std::sync::atomic::{AtomicBool, Ordering};

use wasmtime::{AsContextMut, Instance};

use super::prepare::STOP_PAGE;

/// The stop page of a program, which [`super::prepare`] added to its module.
#[derive(Debug)]
pub(super) struct StopPage {
    address: usize,
    len: usize,
    is_closed: AtomicBool,
}

impl StopPage {
    /// The stop page of `instance`; `None` if its code has no loops and no calls.
    ///
    /// # Safety
    /// It is opened, or was never closed, when the memory of `instance` is freed, and is not closed after that.
    pub(super) unsafe fn of(instance: Instance, mut store: impl AsContextMut) -> Option<Self> {
        let memory = instance.get_memory(&mut store, STOP_PAGE)?;
        let (address, len) =
            (memory.data_ptr(store.as_context()).addr(), memory.data_size(store.as_context()));
        Some(Self { address, len, is_closed: AtomicBool::new(false) })
    }

    /// Makes the program trap at its next loop or call. Returns whether the system allows it.
    pub(super) fn close(&self) -> bool {
        self.is_closed.store(true, Ordering::Release);
        self.protect(true)
    }

    /// Lets the program run on.
    pub(super) fn open(&self) {
        if self.is_closed() {
            let opened = self.protect(false);
            assert!(
                opened,
                "the page was closed whole, so that opening it needs no further mapping"
            );
            self.is_closed.store(false, Ordering::Release);
        }
    }

    /// Whether the program traps.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    #[cfg(unix)]
    fn protect(&self, closed: bool) -> bool {
        use rustix::mm::{MprotectFlags, mprotect};

        let flags = if closed {
            MprotectFlags::empty()
        } else {
            MprotectFlags::READ | MprotectFlags::WRITE
        };
        // SAFETY: these are whole pages of the memory of an instance that exists (see `of`), which nothing but its
        // code loads from.
        unsafe { mprotect(self.address as *mut std::ffi::c_void, self.len, flags) }.is_ok()
    }

    #[cfg(windows)]
    fn protect(&self, closed: bool) -> bool {
        use windows_sys::Win32::System::Memory::{PAGE_NOACCESS, PAGE_READWRITE, VirtualProtect};

        let (flags, mut before) = (if closed { PAGE_NOACCESS } else { PAGE_READWRITE }, 0);
        // SAFETY: as above.
        let protected = unsafe {
            VirtualProtect(
                self.address as *const std::ffi::c_void,
                self.len,
                flags,
                &raw mut before,
            )
        };
        protected != 0
    }
}
