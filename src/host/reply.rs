//! Slots for the results of calls.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::error::HostError;

/// The slot for the result of a call by host code.
#[derive(Clone, Default)]
pub(super) struct CallReply(Arc<Mutex<Option<Result<Value, HostError>>>>);

impl CallReply {
    pub fn put(&self, result: Result<Value, HostError>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    }

    pub fn take(&self) -> Option<Result<Value, HostError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
