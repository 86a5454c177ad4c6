//! The place of a sandbox: free, in use, or closed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use belljar::sandbox::Sandbox;
use pyo3::prelude::*;

use crate::errors;
use crate::job::internal_error;
use crate::run_state::RunState;

/// Time between two looks for signals.
pub const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Holds a sandbox between calls. Calls wait for each other.
pub struct Slot {
    state: Mutex<State>,
    /// The run in progress.
    run: Mutex<Option<Arc<RunState>>>,
    changed: Condvar,
}

enum State {
    Free(Box<Sandbox>),
    /// In use by this thread.
    Used(ThreadId),
    Closed,
    /// A panic took it.
    Lost,
}

impl Slot {
    /// A slot with `sandbox`.
    pub fn new(sandbox: Sandbox) -> Self {
        Self {
            state: Mutex::new(State::Free(Box::new(sandbox))),
            run: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each access is a single step, so a panic leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the sandbox, to be used by the current thread; waits while another one uses it.
    ///
    /// # Errors
    /// `SandboxClosed`; `SandboxBusy` in a callback of its own program; exceptions of signals.
    pub fn take(&self, py: Python<'_>) -> PyResult<Box<Sandbox>> {
        loop {
            let me = thread::current().id();
            let mut state = self.lock();
            match std::mem::replace(&mut *state, State::Used(me)) {
                State::Free(sandbox) => return Ok(sandbox),
                other => *state = other,
            }
            match &*state {
                State::Used(thread) if *thread == me => {
                    let message = "a callback of a program used the sandbox that the program runs in: use a \
                                   fork made before, or another sandbox";
                    return Err(errors::raise(py, "SandboxBusy", (message,)));
                }
                State::Closed => {
                    return Err(errors::raise(py, "SandboxClosed", ("the sandbox is closed",)));
                }
                State::Lost => {
                    let message = "the sandbox was lost by an internal error";
                    return Err(errors::raise(py, "SandboxClosed", (message,)));
                }
                State::Free(_) | State::Used(_) => {}
            }
            drop(state);
            py.detach(|| {
                let state = self.lock();
                if matches!(*state, State::Used(_)) {
                    drop(self.changed.wait_timeout(state, LOOK_EVERY));
                }
            });
            py.check_signals()?;
        }
    }

    /// Puts the sandbox back; drops it if it was closed meanwhile.
    pub fn put(&self, sandbox: Box<Sandbox>) {
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let mut state = self.lock();
        if matches!(*state, State::Used(_)) {
            *state = State::Free(sandbox);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// The current thread uses the sandbox that another one took, for `run`.
    pub fn pass_on(&self, run: &Arc<RunState>) {
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = Some(run.clone());
        let mut state = self.lock();
        if matches!(*state, State::Used(_)) {
            *state = State::Used(thread::current().id());
        }
    }

    /// Says that the sandbox will not come back.
    pub fn lose(&self) {
        *self.lock() = State::Lost;
        self.changed.notify_all();
    }

    /// Closes it, and ends the run in progress, whose caller gets `SandboxClosed`.
    pub fn close(&self, py: Python<'_>) {
        let before = std::mem::replace(&mut *self.lock(), State::Closed);
        self.changed.notify_all();
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner).take();
        let closed = run.map(|run| {
            let message = "the sandbox was closed while the program ran";
            (run, errors::raise(py, "SandboxClosed", (message,)))
        });
        py.detach(|| {
            if let Some((run, error)) = closed {
                run.fail(error);
            }
            drop(before);
        });
    }

    /// Returns whether it is closed.
    pub fn is_closed(&self) -> bool {
        matches!(*self.lock(), State::Closed | State::Lost)
    }

    /// Calls `act` with the sandbox, detached from the interpreter.
    ///
    /// # Errors
    /// As [`Slot::take`].
    pub fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut Sandbox) -> T + Send,
    ) -> PyResult<T> {
        let mut sandbox = self.take(py)?;
        let done = py.detach(|| catch_unwind(AssertUnwindSafe(|| act(&mut sandbox))));
        match done {
            Ok(done) => {
                self.put(sandbox);
                Ok(done)
            }
            Err(panic) => {
                self.lose();
                Err(internal_error(panic.as_ref())(py))
            }
        }
    }
}
