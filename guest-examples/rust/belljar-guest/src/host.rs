//! Calls of the host by name: `docs/host.md` of belljar lists the operations.

use std::fmt;

use serde_json::Value;

/// Why a call has no result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallError {
    /// The kind, such as `unsupported`, `params`, `failed`; `no-host` if there is no host to call, `limit` at a limit of
    /// processes or memory.
    pub kind: String,
    /// For people.
    pub message: String,
    /// Why a request over HTTP failed, such as `timeout`.
    pub code: Option<String>,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CallError {}

impl CallError {
    pub(crate) fn new(kind: &str, message: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), message: message.into(), code: None }
    }
}

/// Whether the host has the capability (`process`) or the operation (`process.exec`). False without a host.
pub fn has(name: &str) -> bool {
    #[cfg(target_os = "wasi")]
    return crate::sys::host_has(name);
    #[cfg(not(target_os = "wasi"))]
    return {
        let _ = name;
        false
    };
}

/// Calls `operation` with `parameters`, an object, and waits for the result.
///
/// # Errors
/// [`CallError`].
pub fn call(operation: &str, parameters: &Value) -> Result<Value, CallError> {
    #[cfg(target_os = "wasi")]
    return crate::sys::host_call(operation, &parameters.to_string());
    #[cfg(not(target_os = "wasi"))]
    return {
        let _ = parameters;
        Err(CallError::new("no-host", format!("{operation}: there is no host to call")))
    };
}
