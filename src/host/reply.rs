//! Where the result of a call is put.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::error::HostError;

/// Where the result of a call of the host's own code is put.
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
