//! Interrupts programs at their timeout.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::stop_page::StopPage;
use crate::base::ambient;

/// Time until a program that could not be interrupted is tried again.
const AGAIN: Duration = Duration::from_millis(10);

/// What is interrupted.
pub(super) enum Target {
    /// The program with this stop page.
    Program(Arc<StopPage>),
    /// All programs on an engine that counts fuel; each checks whether the deadline was its own.
    Engine(wasmtime::EngineWeak),
}

impl Target {
    /// Returns whether it is interrupted.
    fn interrupt(&self) -> bool {
        match self {
            Self::Program(page) => page.close(),
            Self::Engine(weak) => {
                if let Some(engine) = weak.upgrade() {
                    engine.increment_epoch();
                }
                true
            }
        }
    }
}

/// One thread, started with the first timeout, that interrupts programs at their deadlines.
#[derive(Default)]
pub(super) struct Watchdog(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    running: bool,
    closed: bool,
    next_id: u64,
    deadlines: BTreeMap<(Instant, u64), Target>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self) {
        let mut state = self.lock();
        while !state.closed {
            let now = ambient::instant_now();
            state = match state.deadlines.first_key_value() {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(((deadline, _), _)) if *deadline > now => {
                    let left = *deadline - now;
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    // Under the lock: a program whose watch was dropped is gone.
                    if let Some(((_, id), target)) = state.deadlines.pop_first()
                        && !target.interrupt()
                    {
                        state.deadlines.insert((now + AGAIN, id), target);
                    }
                    state
                }
            };
        }
    }
}

impl Watchdog {
    /// Interrupts `target` at `deadline`, unless the returned [`Watch`] is dropped before.
    ///
    /// # Errors
    /// The host cannot start a thread.
    pub(super) fn watch(&self, target: Target, deadline: Instant) -> io::Result<Watch> {
        let mut state = self.0.lock();
        if !state.running {
            let shared = self.0.clone();
            std::thread::Builder::new().spawn(move || shared.watch())?;
            state.running = true;
        }
        let id = state.next_id;
        state.next_id += 1;
        state.deadlines.insert((deadline, id), target);
        self.0.changed.notify_one();
        Ok(Watch { shared: self.0.clone(), entry: (deadline, id) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_one();
    }
}

/// A deadline under watch.
pub(super) struct Watch {
    shared: Arc<Shared>,
    entry: (Instant, u64),
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if state.deadlines.remove(&self.entry).is_none() {
            // It may be tried again at another time.
            let (_, id) = self.entry;
            state.deadlines.retain(|(_, other), _| *other != id);
        }
    }
}
