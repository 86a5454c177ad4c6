//! The run of the current thread, as callbacks of Python see it.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use belljar::Interrupter;
use pyo3::prelude::*;

thread_local! {
    static CURRENT: RefCell<Option<Arc<RunState>>> = const { RefCell::new(None) };
}

/// A run: what ends it, and the exception that did.
#[derive(Default)]
pub struct RunState {
    /// Ends it.
    pub interrupter: Interrupter,
    failure: Mutex<Option<PyErr>>,
}

impl RunState {
    /// Ends the run with an exception of a callback: the caller gets it. The first one counts.
    pub fn fail(&self, error: PyErr) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.interrupter.interrupt();
    }

    /// The exception that ended the run.
    pub fn take_failure(&self) -> Option<PyErr> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Makes this the run of the current thread while `act` runs.
    pub fn enter<T>(self: &Arc<Self>, act: impl FnOnce() -> T) -> T {
        CURRENT.set(Some(self.clone()));
        let done = act();
        CURRENT.set(None);
        done
    }
}

/// The run of the current thread.
pub fn current() -> Option<Arc<RunState>> {
    CURRENT.with_borrow(Clone::clone)
}
