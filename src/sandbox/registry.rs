//! The sessions of a backend by id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

use super::backend::{SandboxError, check_session_id};

/// Sessions by id, each used by one caller at a time.
pub(super) struct Registry<S>(Mutex<State<S>>);

/// A session under a fair lock; `None` once terminated.
type Slot<S> = Arc<tokio::sync::Mutex<Option<S>>>;

/// Locked during lookups only.
struct State<S> {
    /// Sessions by id; `None` for terminated ones with a chosen id. Generated ids are recognized by
    /// number.
    sessions: HashMap<String, Option<Slot<S>>>,
    made: u64,
}

impl<S> Default for Registry<S> {
    fn default() -> Self {
        Self(Mutex::new(State { sessions: HashMap::new(), made: 0 }))
    }
}

impl<S> State<S> {
    /// The generated id of session `number`.
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
            // The id may have been chosen already.
            if !self.sessions.contains_key(&id) {
                return id;
            }
        }
    }
}

impl<S> Registry<S> {
    fn state(&self) -> MutexGuard<'_, State<S>> {
        // State is consistent between statements, also after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ids of all live sessions, sorted.
    pub(super) fn ids(&self) -> Vec<String> {
        let state = self.state();
        let live = state.sessions.iter().filter(|(_, slot)| slot.is_some());
        let mut ids: Vec<String> = live.map(|(id, _)| id.clone()).collect();
        ids.sort_unstable();
        ids
    }

    /// Adds the session that `make` returns for its id: `chosen`, or a generated one if that is
    /// empty.
    ///
    /// # Errors
    /// [`SandboxError`]: `InvalidRequest` for an invalid id; `Lifecycle` if it was used before.
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
                Some(Some(_)) => Some("the id is in use; choose another one"),
                None if !state.was_made(chosen) => None,
                _ => Some("the id was used before, and ids are used once; choose another one"),
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

    /// Locks the session `id`, in the order of calls. It may have been terminated meanwhile.
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

    /// Calls `act` with the session `id`.
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

    /// Like [`Registry::with`], on a blocking thread of tokio.
    ///
    /// # Errors
    /// As [`Registry::lock`], and those of `act`; `Io` if it panics.
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
            let what = format!("the exec in session {id} did not complete");
            Err(SandboxError::Io { what, source: error.into() })
        })
    }

    /// Removes and returns the session `id`, after earlier callers.
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
    SandboxError::lifecycle(id, "it was terminated; create another one")
}
