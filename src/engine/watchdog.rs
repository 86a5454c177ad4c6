//! Interrupts programs at their timeout.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::base::ambient;

/// One thread, started with the first timeout, that raises an engine's epoch at each deadline. Each
/// running program then checks whether the deadline was its own.
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
    deadlines: BTreeSet<(Instant, u64)>,
    engines: Vec<wasmtime::EngineWeak>,
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
            state = match state.deadlines.first() {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some((deadline, _)) if *deadline > now => {
                    let left = *deadline - now;
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    while state.deadlines.first().is_some_and(|(deadline, _)| *deadline <= now) {
                        state.deadlines.pop_first();
                    }
                    for engine in state.engines.iter().filter_map(wasmtime::EngineWeak::upgrade) {
                        engine.increment_epoch();
                    }
                    state
                }
            };
        }
    }
}

impl Watchdog {
    /// Interrupts programs on `engine` at `deadline`, unless the returned [`Watch`] is dropped before.
    ///
    /// # Errors
    /// The host cannot start a thread.
    pub(super) fn watch(&self, engine: &wasmtime::Engine, deadline: Instant) -> io::Result<Watch> {
        let mut state = self.0.lock();
        let known = |weak: &wasmtime::EngineWeak| {
            weak.upgrade().is_some_and(|known| wasmtime::Engine::same(&known, engine))
        };
        if !state.engines.iter().any(known) {
            state.engines.push(engine.weak());
        }
        if !state.running {
            let shared = self.0.clone();
            std::thread::Builder::new().spawn(move || shared.watch())?;
            state.running = true;
        }
        let entry = (deadline, state.next_id);
        state.next_id += 1;
        state.deadlines.insert(entry);
        self.0.changed.notify_one();
        Ok(Watch { shared: self.0.clone(), entry })
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
        self.shared.lock().deadlines.remove(&self.entry);
    }
}
