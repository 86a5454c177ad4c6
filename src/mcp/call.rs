//! One call of a tool.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::Interrupter;

/// What a replay has to know of a call besides its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Notes {
    /// Of a new sandbox: how many the client had dropped before, and so may have had with the same id. See
    /// [`super::tape::root_on_tape`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped_before: u64,
    /// A program reached the limit of the files of its sandbox.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_full: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// One call of a tool: what ends it early, how far it is, and what the user agreed to. Clones are the same call.
#[derive(Clone, Debug, Default)]
pub struct Call {
    interrupter: Interrupter,
    output_bytes: Arc<AtomicU64>,
    consent: Option<String>,
    notes: Arc<Mutex<Notes>>,
}

/// What the user has to agree to before a tool goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Consent {
    /// What happens if the user agrees. Names in it that programs chose are escaped.
    pub question: String,
    /// What the user agrees to, exactly: for [`Call::consented`].
    pub state: String,
}

impl Call {
    /// A call for which the user has agreed to nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A call for which the user has agreed to what has this [`Consent::state`]. If that has changed meanwhile, the user is
    /// asked again.
    #[must_use]
    pub fn consented(state: impl Into<String>) -> Self {
        Self { consent: Some(state.into()), ..Self::default() }
    }

    /// Ends the call: a program that it runs is ended, and its sandbox is as it was before.
    pub fn cancel(&self) {
        self.interrupter.interrupt();
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.interrupter.is_used()
    }

    /// Bytes that the program has written to standard output and standard error so far.
    pub fn output_bytes(&self) -> u64 {
        self.output_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn add_output(&self, bytes: usize) {
        self.output_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn interrupter(&self) -> &Interrupter {
        &self.interrupter
    }

    /// What a tape has of it besides the answer.
    pub(super) fn notes(&self) -> MutexGuard<'_, Notes> {
        // They are whole between statements.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn consent(&self) -> Option<&str> {
        self.consent.as_deref()
    }
}

/// Cancels a call if its future is dropped before it ended.
pub(super) struct CancelOnDrop(Option<Call>);

impl CancelOnDrop {
    pub(super) fn new(call: &Call) -> Self {
        Self(Some(call.clone()))
    }

    /// The call has ended.
    pub(super) fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(call) = &self.0 {
            call.cancel();
        }
    }
}
