//! The calls of a server on a tape.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::call::{Call, Notes};
use super::error::ToolError;
use super::policy::{Policy, PolicyTexts};
use super::secrets::Secrets;
use crate::tape::{FileTape, Header, Kind, Payload, Phase, Recorder, Redaction, TapeError};

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
pub(super) const DROPPED: Value = Value::Null;

/// The parameters of a call.
#[derive(Serialize, Deserialize, Default)]
pub(super) struct Params {
    pub client: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consent: Option<String>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub arguments: Value,
    #[serde(flatten)]
    pub notes: Notes,
    /// What a program requested, if it is no call of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
}

/// The path on a tape below which directories of the sandbox `id` of the client `client` are mounted: another one for each
/// sandbox that has the id.
pub(super) fn root_on_tape(client: u64, id: &str, dropped_before: u64) -> String {
    match dropped_before {
        0 => format!("/mcp/{client}/{id}"),
        // No id has a `~`.
        dropped => format!("/mcp/{client}/{id}~{dropped}"),
    }
}

/// The path that [`root_on_tape`] returned for the sandbox in whose directories `path` is.
pub(super) fn root_of_path(path: &str) -> Option<&str> {
    let below = path.strip_prefix("/mcp/")?;
    let (client, rest) = below.split_once('/')?;
    let (name, _) = rest.split_once('/')?;
    path.get(.."/mcp/".len() + client.len() + 1 + name.len())
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
        self.push(START, json!(start), self.0.json_payload(Value::Null));
    }

    pub(super) fn record_drop(&self, client: u64, sandbox: &str) {
        let arguments = json!({ "sandbox": sandbox });
        let params = Params { client, arguments, ..Params::default() };
        self.push(DROP, json!(params), self.0.json_payload(DROPPED));
    }

    /// Records a request of a program of the client for the network, of the operation `name`, and its `answer` in JSON.
    pub(super) fn record_request(
        &self,
        client: u64,
        secrets: &Secrets,
        name: &str,
        mut request: Request,
        answer: &str,
    ) {
        secrets.remove(&mut request.params);
        let params = Params { client, request: Some(request), ..Params::default() };
        let mut clean = serde_json::from_str(answer).unwrap_or_else(|_| Value::from(answer));
        // A replay answers with these bytes.
        let result = if secrets.remove(&mut clean) {
            self.0.json_payload(clean)
        } else {
            self.0.payload(answer.as_bytes())
        };
        self.push(name, json!(params), result);
    }

    /// Records the call of the tool `name` by a client with these `secrets`, and what came of it.
    pub(super) fn record(
        &self,
        client: u64,
        secrets: &Secrets,
        name: &str,
        call: &Call,
        mut arguments: Value,
        done: &Result<Value, ToolError>,
    ) {
        let consent = call.consent().map(str::to_owned);
        let mut result = match done {
            Ok(answer) => answer.clone(),
            Err(error) => error.to_json(),
        };
        secrets.remove(&mut arguments);
        secrets.remove(&mut result);
        let notes = *call.notes();
        let params = Params { client, consent, arguments, notes, request: None };
        self.push(name, json!(params), self.0.json_payload(result));
    }

    fn push(&self, operation: &str, params: Value, result: Payload) {
        let kind = Kind::HostCall {
            pid: None,
            capability: CAPABILITY.to_owned(),
            operation: operation.to_owned(),
            params: self.0.json_payload(params),
            done_as: None,
            result,
            answered_by: None,
            amended: false,
        };
        self.0.push(kind);
    }

    pub(super) fn finish(&self) -> Result<u64, TapeError> {
        self.0.finish()
    }
}
