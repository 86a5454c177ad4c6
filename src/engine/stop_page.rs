//! The stop page of a running program: closing it ends the program at its next loop or call.
#![allow(unsafe_code, reason = "pages of a guest's memory are protected")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use wasmtime::{AsContextMut, Instance, Store};

use super::Engine;
use super::prepare::STOP_PAGE;
use super::watchdog::{Target, Watch};
use crate::abi::{Interruption, Process};

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
        let (address, len) = (memory.data_ptr(store.as_context()).addr(), memory.data_size(store.as_context()));
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
            assert!(opened, "the page was closed whole, so that opening it needs no further mapping");
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

        let flags =
            if closed { MprotectFlags::empty() } else { MprotectFlags::READ | MprotectFlags::WRITE };
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
            VirtualProtect(self.address as *const std::ffi::c_void, self.len, flags, &mut before)
        };
        protected != 0
    }
}

/// Closes the stop page of a program at the deadline of its run, until it is dropped.
pub(super) struct StopAtDeadline {
    engine: Engine,
    page: Arc<StopPage>,
    watch: Option<(Instant, Watch)>,
}

impl StopAtDeadline {
    /// Interrupts the process of `store`, whose code is that of `instance`, at `deadline`: until then it is the
    /// interruption of the process, and must be removed from there before the store gives up the process.
    ///
    /// # Errors
    /// The host cannot start a thread.
    pub(super) fn begin(
        engine: &Engine,
        store: &mut Store<Process>,
        instance: Instance,
        deadline: Instant,
    ) -> io::Result<()> {
        // SAFETY: a store drops its data, and this in it, before its memories.
        let Some(page) = (unsafe { StopPage::of(instance, &mut *store) }) else { return Ok(()) };
        let mut this = Self { engine: engine.clone(), page: Arc::new(page), watch: None };
        this.set(deadline)?;
        store.data_mut().interruption = Some(Box::new(this));
        Ok(())
    }

    fn set(&mut self, deadline: Instant) -> io::Result<()> {
        let watch = self.engine.0.watchdog.watch(Target::Program(self.page.clone()), deadline)?;
        self.watch = Some((deadline, watch));
        Ok(())
    }
}

impl Interruption for StopAtDeadline {
    fn follow(&mut self, deadline: Instant) {
        if self.watch.as_ref().is_some_and(|(watched, _)| *watched == deadline) {
            return;
        }
        self.watch = None;
        self.page.open();
        // The thread runs since the first watch.
        let _ = self.set(deadline);
    }

    fn is_interrupted(&self) -> bool {
        self.page.is_closed()
    }
}

impl Drop for StopAtDeadline {
    fn drop(&mut self) {
        // The page may be closed until then, and its memory is used again afterwards.
        self.watch = None;
        self.page.open();
    }
}
