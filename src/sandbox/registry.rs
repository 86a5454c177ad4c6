//! The sessions of a backend, by their ids.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

use super::backend::{SandboxError, check_session_id};

/// Sessions, of which each is used by one caller at a time.
pub(super) struct Registry<S>(Mutex<State<S>>);

/// A session. The lock is fair: whoever asks first has it first. `None` once it is terminated.
type Slot<S> = Arc<tokio::sync::Mutex<Option<S>>>;

/// Locked for no longer than a lookup takes.
struct State<S> {
    /// Sessions by their ids; `None` for those that were terminated and whose id was chosen. Ids
    /// that were made are known to have been by their number.
    sessions: HashMap<String, Option<Slot<S>>>,
    made: u64,
}

impl<S> Default for Registry<S> {
    fn default() -> Self {
        Self(Mutex::new(State { sessions: HashMap::new(), made: 0 }))
    }
}

impl<S> State<S> {
    /// The name that the `number`th session gets if nobody chose one.
    fn made_id(number: u64) -> String {
        format!("session-{number}")
    }

    fn was_made(&self, id: &str) -> bool {
        let number = id.strip_prefix("session-").and_then(|number| number.parse::<u64>().ok());
        number
            .is_some_and(|number| (1..=self.made).contains(&number) && Self::made_id(number) == id)
    }

    fn fresh_id(&mut self) -> String {
        loop {
            self.made += 1;
            let id = Self::made_id(self.made);
            // Somebody may have chosen it.
            if !self.sessions.contains_key(&id) {
                return id;
            }
        }
    }
}

impl<S> Registry<S> {
    fn state(&self) -> MutexGuard<'_, State<S>> {
        // It is whole between two statements, whatever panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ids of all sessions that are there, sorted.
    pub(super) fn ids(&self) -> Vec<String> {
        let state = self.state();
        let live = state.sessions.iter().filter(|(_, slot)| slot.is_some());
        let mut ids: Vec<String> = live.map(|(id, _)| id.clone()).collect();
        ids.sort_unstable();
        ids
    }

    /// Takes a session in that `make` makes of its id: the one that was chosen, or, if that is
    /// empty, a new one.
    ///
    /// # Errors
    /// [`SandboxError`]: `InvalidRequest` for an id that is none; `Lifecycle` if it was given before.
    pub(super) fn admit(
        &self,
        chosen: &str,
        make: impl FnOnce(&str) -> S,
    ) -> Result<String, SandboxError> {
        let mut state = self.state();
        let id = if chosen.is_empty() {
            state.fresh_id()
        } else {
            check_session_id(chosen)?;
            let message = match state.sessions.get(chosen) {
                Some(Some(_)) => Some("there is a session of this id; choose another one"),
                None if !state.was_made(chosen) => None,
                _ => Some("there was a session of this id, and ids are given once; choose another"),
            };
            if let Some(message) = message {
                return Err(SandboxError::lifecycle(chosen, message));
            }
            chosen.to_owned()
        };
        let slot = Arc::new(tokio::sync::Mutex::new(Some(make(&id))));
        state.sessions.insert(id.clone(), Some(slot));
        Ok(id)
    }

    /// The session `id`, once nobody who asked before has it. It may have been terminated meanwhile.
    ///
    /// # Errors
    /// [`SandboxError`]: `SessionNotFound`; `Lifecycle` if it was terminated.
    pub(super) async fn lock(&self, id: &str) -> Result<OwnedMutexGuard<Option<S>>, SandboxError> {
        Ok(self.slot(id)?.lock_owned().await)
    }

    fn slot(&self, id: &str) -> Result<Slot<S>, SandboxError> {
        let state = self.state();
        match state.sessions.get(id) {
            Some(Some(slot)) => Ok(slot.clone()),
            None if !state.was_made(id) => Err(SandboxError::not_found(id)),
            _ => Err(terminated(id)),
        }
    }

    /// Lets `act` use the session `id`.
    ///
    /// # Errors
    /// As [`Registry::lock`].
    pub(super) async fn with<T>(
        &self,
        id: &str,
        act: impl FnOnce(&mut S) -> T,
    ) -> Result<T, SandboxError> {
        self.lock(id).await?.as_mut().map(act).ok_or_else(|| terminated(id))
    }

    /// As [`Registry::with`], for what takes time: on one of tokio's threads for that.
    ///
    /// # Errors
    /// As [`Registry::lock`], and as `act` answers; `Io` if it panics.
    pub(super) async fn with_blocking<T: Send + 'static>(
        &self,
        id: &str,
        act: impl FnOnce(&mut S) -> Result<T, SandboxError> + Send + 'static,
    ) -> Result<T, SandboxError>
    where
        S: Send + 'static,
    {
        let mut guard = self.lock(id).await?;
        let own_id = id.to_owned();
        let work = move || guard.as_mut().map_or_else(|| Err(terminated(&own_id)), act);
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
            let what = format!("the run in session {id} did not end");
            Err(SandboxError::Io { what, source: error.into() })
        })
    }

    /// Takes the session `id` out, once nobody who asked before has it.
    ///
    /// # Errors
    /// As [`Registry::lock`].
    pub(super) async fn terminate(&self, id: &str) -> Result<S, SandboxError> {
        let mut guard = self.lock(id).await?;
        let ended = guard.take().ok_or_else(|| terminated(id))?;
        let mut state = self.state();
        if state.was_made(id) {
            state.sessions.remove(id);
        } else {
            state.sessions.insert(id.to_owned(), None);
        }
        Ok(ended)
    }
}

fn terminated(id: &str) -> SandboxError {
    SandboxError::lifecycle(id, "it was terminated; make another one")
}
