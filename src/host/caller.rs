//! The process that makes a call.

use serde_json::Value;

use super::session::HostHandle;
use crate::kernel::guest::Guest;

/// A call at work: the host, and its own process.
pub(super) struct Caller {
    pub host: HostHandle,
    pub guest: Guest,
    /// How many calls it is made within.
    pub depth: u32,
    /// What has begun that may be ended before there is an answer.
    pub(super) begun: Option<Begun>,
}

/// A call that somebody has begun to answer.
#[derive(Clone)]
pub(super) struct Begun {
    pub by: String,
    pub done_as: Option<Value>,
}
