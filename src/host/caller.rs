//! The process that makes a call.

use serde_json::Value;

use super::session::HostHandle;
use crate::kernel::guest::Guest;

/// A call in progress: the host and the process.
pub(super) struct Caller {
    pub host: HostHandle,
    pub guest: Guest,
    /// Number of calls around it.
    pub depth: u32,
    /// Set when an operation has begun that may end before it answers.
    pub(super) begun: Option<Begun>,
}

/// The operation that a call has begun.
#[derive(Clone)]
pub(super) struct Begun {
    pub by: String,
    pub done_as: Option<Value>,
}
