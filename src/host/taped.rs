//! Recorded host calls, for replay.

use std::collections::{HashMap, VecDeque};

use super::error::HostError;
use crate::kernel::process::Pid;
use crate::tape::Kind;

/// A recorded call.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TapedCall {
    /// The operation: `CAPABILITY.OPERATION`.
    pub name: String,
    /// The parameters.
    pub params: Vec<u8>,
    /// The parameters after hooks, if hooks changed them.
    pub done_as: Option<Vec<u8>>,
    /// The answer.
    pub answer: String,
    /// Who answered.
    pub answered_by: String,
    /// Whether a hook changed the answer.
    pub amended: bool,
    /// Decisions of the egress policy during the call.
    pub egress: Vec<Kind>,
}

/// The recorded calls by process, in order.
#[derive(Clone, Default)]
pub struct TapedCalls(HashMap<u32, VecDeque<TapedCall>>);

/// The operation that stands for a blocked start on tapes.
const START: &str = "process.start";

impl TapedCalls {
    /// Adds the next call of the process `pid`.
    pub fn push(&mut self, pid: u32, call: TapedCall) {
        self.0.entry(pid).or_default().push_back(call);
    }

    /// The next call of `pid`, which must be `name`.
    pub(super) fn next(&mut self, pid: Pid, name: &str) -> Result<TapedCall, HostError> {
        let calls = self.0.entry(pid.0).or_default();
        match calls.front() {
            Some(call) if call.name == name => Ok(calls.pop_front().unwrap_or_default()),
            _ => Err(HostError::failed(name, "the tape has another call here")),
        }
    }

    /// Why start `number` of `pid` was blocked, if it was.
    pub(super) fn blocked_start(&mut self, pid: Pid, number: u32) -> Option<String> {
        let calls = self.0.get_mut(&pid.0)?;
        let call = calls.front().filter(|call| call.name == START)?;
        let params: serde_json::Value = serde_json::from_slice(&call.params).ok()?;
        if params["number"].as_u64() != Some(number.into()) {
            return None;
        }
        let answer: serde_json::Value = serde_json::from_str(&call.answer).ok()?;
        calls.pop_front();
        Some(answer["error"]["message"].as_str().unwrap_or_default().to_owned())
    }
}
