//! The calls of a server on a tape.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::call::Call;
use super::error::ToolError;
use super::policy::{Policy, PolicyTexts};
use crate::tape::{FileTape, Header, Kind, Phase, Recorder, Redaction, TapeError};

/// The capability of the records of a server.
pub(super) const CAPABILITY: &str = "mcp";

/// The operation of the first record: what clients get.
pub(super) const START: &str = "serve";

/// The operation of a sandbox that is dropped without a call: nobody used it, or its client left.
pub(super) const DROP: &str = "drop";

/// Records the calls of a server: each is a `host_call` of the capability `mcp`, and comes after what its sandboxes saw of
/// directories of the host.
#[derive(Clone)]
pub struct CallTape(Recorder);

/// The parameters of [`START`].
#[derive(Serialize, Deserialize)]
pub(super) struct Start {
    #[serde(flatten)]
    pub texts: PolicyTexts,
    /// Whether names in directories are found only in their stored spelling.
    pub exact_names: bool,
}

/// The result of [`DROP`]: a client can call a tool of that name, which does not exist, with another one.
pub(super) const DROPPED: &str = "null";

/// The parameters of a call.
#[derive(Serialize, Deserialize, Default)]
pub(super) struct Params {
    pub client: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consent: Option<String>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub arguments: Value,
    /// What a program requested, if it is no call of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
}

/// A request on the tape. The call of the sandbox that it belongs to comes after it.
#[derive(Serialize, Deserialize)]
pub(super) struct Request {
    /// The sandbox whose program made it.
    pub sandbox: String,
    /// The process.
    pub pid: u32,
    /// The parameters.
    pub params: Value,
}

impl CallTape {
    /// Begins a tape at `path`, of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// [`TapeError`].
    pub fn create(path: &Path, bytes_max: u64) -> Result<Self, TapeError> {
        let mut header = Header::new(0);
        header.argv = vec!["belljar".to_owned(), "mcp".to_owned()];
        let file = FileTape::create(path, &header, bytes_max)?;
        let recorder = Recorder::new(file, Redaction::default());
        recorder.set_phase(Phase::Run);
        Ok(Self(recorder))
    }

    pub(super) fn recorder(&self) -> Recorder {
        self.0.clone()
    }

    pub(super) fn record_start(&self, policy: &Policy, exact_names: bool) {
        let start = Start { texts: policy.texts.clone(), exact_names };
        self.push(START, &json!(start), "null");
    }

    pub(super) fn record_drop(&self, client: u64, sandbox: &str) {
        let arguments = json!({ "sandbox": sandbox });
        self.push(DROP, &json!(Params { client, arguments, ..Params::default() }), DROPPED);
    }

    /// Records a request of a program of the client for the network, of the operation `name`, and its `answer` in JSON.
    pub(super) fn record_request(&self, client: u64, name: &str, request: Request, answer: &str) {
        let params = Params { client, request: Some(request), ..Params::default() };
        self.push(name, &json!(params), answer);
    }

    /// Records the call of the tool `name` by a client, and what came of it.
    pub(super) fn record(
        &self,
        client: u64,
        name: &str,
        call: &Call,
        arguments: Value,
        done: &Result<Value, ToolError>,
    ) {
        let consent = call.consent().map(str::to_owned);
        let result = match done {
            Ok(answer) => answer.clone(),
            Err(error) => error.to_json(),
        };
        let params = Params { client, consent, arguments, request: None };
        self.push(name, &json!(params), &result.to_string());
    }

    fn push(&self, operation: &str, params: &Value, result: &str) {
        let kind = Kind::HostCall {
            pid: None,
            capability: CAPABILITY.to_owned(),
            operation: operation.to_owned(),
            params: self.0.payload(params.to_string().as_bytes()),
            done_as: None,
            result: self.0.payload(result.as_bytes()),
            answered_by: None,
            amended: false,
        };
        self.0.push(kind);
    }

    pub(super) fn finish(&self) -> Result<u64, TapeError> {
        self.0.finish()
    }
}
