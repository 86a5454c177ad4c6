//! `belljar:host/calls`.

use serde_json::Value;

use super::types::CallError;
use crate::abi::preview2::call::{Halt, interface};
use crate::abi::{Process, trace};
use crate::base::errno::Errno;
use crate::kernel::guest::Fault;

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
    match process.guest.host_call(name, params.as_bytes()) {
        Ok(_) => Ok(result(process.guest.host_reply())),
        Err(Fault::Errno(errno)) => {
            process.resources.failed = Some(errno);
            Ok(Err(CallError::of(errno)))
        }
        Err(fault) => Err(fault.into()),
    }
}

/// What `reply`, the host's answer, says.
fn result(reply: &[u8]) -> Result<String, CallError> {
    let mut answer: Value = serde_json::from_slice(reply).unwrap_or_default();
    if let Some(value) = answer.get_mut("ok") {
        return Ok(value.take().to_string());
    }
    let text = |name: &str| answer["error"][name].as_str().map(str::to_owned);
    let (kind, message) = (text("kind"), text("message"));
    let kind = kind.unwrap_or_else(|| "failed".to_owned());
    Err(CallError { kind, message: message.unwrap_or_default(), code: text("code") })
}

impl CallError {
    fn new(kind: &str, message: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), message: message.into(), code: None }
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
