//! `belljar:host/calls`.

use serde_json::Value;

use super::types::CallError;
use crate::abi::preview2::call::{Halt, interface};
use crate::abi::preview2::host_answer::host_answer;
use crate::abi::{Process, trace};
use crate::base::errno::Errno;

interface! {
    /// `belljar:host/calls`
    calls:
    "call" => waits(call),
    "has" => is(has),
}

/// Longest name of an operation, in bytes.
const NAME_BYTES_MAX: usize = 256;

fn has(process: &mut Process, (name,): (String,)) -> Result<bool, Halt> {
    trace!(process.guest, "name={name:?}");
    if name.len() > NAME_BYTES_MAX {
        return Ok(false);
    }
    match process.guest.host_has(&name) {
        Ok(has) => Ok(has),
        Err(Errno::Nosys) => Ok(false),
        Err(errno) => Err(Halt::Unsaid(errno)),
    }
}

fn call(
    process: &mut Process,
    (name, params): &(String, String),
) -> Result<Result<String, CallError>, Halt> {
    trace!(process.guest, "name={name:?}, params_len={}", params.len());
    if name.len() > NAME_BYTES_MAX {
        let message = format!("the name of the operation has more than {NAME_BYTES_MAX} bytes");
        return Ok(Err(CallError::new("unsupported", message)));
    }
    let called = process.guest.host_call(name, params.as_bytes());
    Ok(match process.answer(called)? {
        Ok(_) => match host_answer(&process.guest) {
            Ok(value) => Ok(value.to_string()),
            Err(error) => Err(CallError::said(&error)),
        },
        Err(errno) => Err(CallError::of(errno)),
    })
}

impl CallError {
    fn new(kind: &str, message: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), message: message.into(), code: None }
    }

    /// What `error` of the host says.
    fn said(error: &Value) -> Self {
        let text = |name: &str| error[name].as_str().map(str::to_owned);
        let kind = text("kind").unwrap_or_else(|| "failed".to_owned());
        Self { kind, message: text("message").unwrap_or_default(), code: text("code") }
    }

    /// The error of a call that the kernel refused with `errno`.
    fn of(errno: Errno) -> Self {
        match errno {
            Errno::Nosys => Self::new("no-host", "the machine has no host to call"),
            Errno::Toobig => Self::new("too_long", "the parameters exceed the limit"),
            Errno::Again => Self::new("limit", "the limit of processes is reached"),
            Errno::Nomem => Self::new("limit", "there is no memory for the answer"),
            errno => Self::new("failed", errno.to_string()),
        }
    }
}
