//! Answers of the host.

use serde_json::Value;

use crate::kernel::guest::Guest;

/// The answer of the last host call.
///
/// # Errors
/// The error of the operation: an object with a `kind`, a `message` and, for a request over HTTP, a `code`.
pub(super) fn host_answer(guest: &Guest) -> Result<Value, Value> {
    let mut answer: Value = serde_json::from_slice(guest.host_reply()).unwrap_or_default();
    match answer.get_mut("ok") {
        Some(value) => Ok(value.take()),
        None => Err(answer.get_mut("error").map(Value::take).unwrap_or_default()),
    }
}
