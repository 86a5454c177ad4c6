//! Ends programs at the deadline of their run.
#![allow(unsafe_code, reason = "the stop page is closed while its memory exists")]

use std::io;
use std::sync::Arc;
use std::time::Instant;

use wasmtime::{Instance, Store};

use super::Engine;
use super::stop_page::StopPage;
use super::watchdog::{Target, Watch};
use crate::abi::{Interruption, Process};
use crate::kernel::machine::OnUse;

/// Closes the stop page of a program at the deadline of its run, until it is dropped.
pub(super) struct StopAtDeadline {
    engine: Engine,
    page: Arc<StopPage>,
    watch: Option<(Instant, Watch)>,
    /// Closes it also when the machine is interrupted.
    interruption: Option<OnUse>,
}

impl StopAtDeadline {
    /// Interrupts the process of `store`, whose code is that of `instance`, at the deadline of its machine, or when that
    /// is interrupted: until then it is the interruption of the process, and must be removed from there before the
    /// store gives up the process.
    ///
    /// # Errors
    /// The host cannot start a thread.
    pub(super) fn begin(
        engine: &Engine,
        store: &mut Store<Process>,
        instance: Instance,
    ) -> io::Result<()> {
        let machine = store.data().guest.machine();
        let (deadline, interrupter) = (machine.deadline(), machine.interrupter().cloned());
        if deadline.is_none() && interrupter.is_none() {
            return Ok(());
        }
        // SAFETY: a store drops its data, and this in it, before its memories.
        let Some(page) = (unsafe { StopPage::of(instance, &mut *store) }) else { return Ok(()) };
        let page = Arc::new(page);
        let closed = page.clone();
        let interruption = interrupter.map(|it| it.on_use(move || closed.close()));
        let mut this = Self { engine: engine.clone(), page, watch: None, interruption };
        if let Some(deadline) = deadline {
            this.set(deadline)?;
        }
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
        if self.interruption.as_ref().is_some_and(OnUse::is_used) {
            self.page.close();
        }
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
        self.interruption = None;
        self.page.open();
    }
}
