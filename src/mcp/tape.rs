//! The calls of a server on a tape, and their replay.

use std::path::Path;

use serde_json::{Value, json};

use super::call::Call;
use super::error::ToolError;
use super::policy::Policy;
use crate::tape::{FileTape, Header, Kind, Phase, Recorder, Redaction, TapeError};

/// The capability of the records of a server.
const CAPABILITY: &str = "mcp";

/// The operation of the first record: what clients get.
const START: &str = "serve";

/// Records the calls of a server: each is a `host_call` of the capability `mcp`.
#[derive(Clone)]
pub struct CallTape(Recorder);

impl CallTape {
    /// Begins a tape at `path`, of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// [`TapeError`].
    pub fn create(path: &Path, bytes_max: u64) -> Result<Self, TapeError> {
        let mut header = Header::new(0);
        header.argv = vec!["belljar".to_owned(), "mcp".to_owned()];
        let recorder =
            Recorder::new(FileTape::create(path, &header, bytes_max)?, Redaction::default());
        recorder.set_phase(Phase::Run);
        Ok(Self(recorder))
    }

    pub(super) fn record_start(&self, policy: &Policy) {
        self.push(START, &json!({ "policy": policy.text }), &Value::Null);
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
        let params = json!({ "client": client, "consent": call.consent(), "arguments": arguments });
        let result = match done {
            Ok(answer) => answer.clone(),
            Err(error) => error.to_json(),
        };
        self.push(name, &params, &result);
    }

    fn push(&self, operation: &str, params: &Value, result: &Value) {
        let payload = |value: &Value| self.0.payload(value.to_string().as_bytes());
        let kind = Kind::HostCall {
            pid: None,
            capability: CAPABILITY.to_owned(),
            operation: operation.to_owned(),
            params: payload(params),
            done_as: None,
            result: payload(result),
            answered_by: None,
            amended: false,
        };
        self.0.push(kind);
    }

    pub(super) fn finish(&self) -> Result<u64, TapeError> {
        self.0.finish()
    }
}
