//! What programs of sandboxes request from the network: kept on the tape of a server, and answered from it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::secrets::Secrets;
use super::tape::{CallTape, Request};
use crate::host::{NetCall, NetCalls};
use crate::tape::REDACTED;

/// Records what programs of one sandbox request.
pub(super) struct Recorded {
    pub tape: CallTape,
    pub client: u64,
    pub secrets: Arc<Secrets>,
    pub sandbox: String,
}

impl NetCalls for Recorded {
    fn answer(&self, _: NetCall<'_>) -> Option<Result<String, String>> {
        None
    }

    fn keep(&self, call: NetCall<'_>, answer: &str) {
        let NetCall { pid, name, params } = call;
        let request = Request { sandbox: self.sandbox.clone(), pid, params: params.clone() };
        self.tape.record_request(self.client, &self.secrets, name, request, answer);
    }
}

/// A request on a tape that is replayed.
pub(super) struct TapedRequest {
    /// The operation.
    pub name: String,
    pub pid: u32,
    pub params: Value,
    /// The answer, in JSON.
    pub answer: String,
}

impl TapedRequest {
    /// Whether the tape has only a part of it, as it has a secret.
    pub fn is_withheld(&self) -> bool {
        self.answer.contains(REDACTED) || self.params.to_string().contains(REDACTED)
    }
}

/// The requests of the call that is replayed, in order. Replayed calls are made one after another.
#[derive(Clone, Default)]
pub(super) struct TapedRequests(Arc<Mutex<VecDeque<TapedRequest>>>);

impl TapedRequests {
    /// Begins a call, whose programs made `requests`.
    pub fn begin(&self, requests: Vec<TapedRequest>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = requests.into();
    }
}

impl NetCalls for TapedRequests {
    fn answer(&self, call: NetCall<'_>) -> Option<Result<String, String>> {
        let mut requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_next = |request: &TapedRequest| {
            (request.pid, &*request.name, &request.params) == (call.pid, call.name, call.params)
        };
        let next = requests.pop_front_if(|request| is_next(request));
        let none = || "the tape has no answer to this request, and a replay makes none".to_owned();
        Some(next.map(|request| request.answer).ok_or_else(none))
    }

    fn keep(&self, _: NetCall<'_>, _: &str) {}
}

/// The requests on a tape that belong to calls which come later on it: by client and sandbox.
pub(super) type Waiting = HashMap<(u64, String), Vec<TapedRequest>>;
