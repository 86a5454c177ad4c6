//! Records calls of language models on a tape.

use serde_json::json;

use super::provider::{LlmError, LlmProvider, LlmRequest, LlmResponse, OnDelta};
use super::secrets;
use crate::tape::{Kind, Recorder, Redaction};

/// The record of a call: the request, and `{"response": …}` or `{"error": …}`.
fn llm_call(tape: &Recorder, request: &LlmRequest, answer: &Result<LlmResponse, LlmError>) -> Kind {
    // The tape's own rules see text only; rules for JSON must be applied before.
    let rules = Redaction::default();
    let mut asked = request.to_json();
    let mut answered = match answer {
        Ok(response) => {
            let mut response = response.clone();
            secrets::redact_response(&mut response, &rules);
            json!({ "response": response })
        }
        Err(error) => json!({ "error": error.failure() }),
    };
    secrets::redact(&mut asked, &rules);
    secrets::redact(&mut answered, &rules);
    Kind::LlmCall {
        model: request.model.clone(),
        request_hash: request.digest(),
        request: tape.payload(asked.to_string().as_bytes()),
        response: tape.payload(answered.to_string().as_bytes()),
    }
}

/// Passes calls on, and records each when it has ended, if there is a tape.
#[must_use]
pub struct Taped<P> {
    provider: P,
    tape: Option<Recorder>,
}

impl<P: LlmProvider> Taped<P> {
    /// Records calls of `provider` on `tape`.
    pub fn new(provider: P, tape: impl Into<Option<Recorder>>) -> Self {
        Self { provider, tape: tape.into() }
    }

    /// The inner provider.
    pub fn into_inner(self) -> P {
        self.provider
    }

    fn note(&self, request: &LlmRequest, answer: &Result<LlmResponse, LlmError>) {
        if let Some(tape) = &self.tape {
            tape.push(llm_call(tape, request, answer));
        }
    }
}

impl<P: LlmProvider> LlmProvider for Taped<P> {
    fn complete(&mut self, request: &LlmRequest) -> Result<LlmResponse, LlmError> {
        let answer = self.provider.complete(request);
        self.note(request, &answer);
        answer
    }

    fn stream(
        &mut self,
        request: &LlmRequest,
        on_delta: OnDelta<'_>,
    ) -> Result<LlmResponse, LlmError> {
        let answer = self.provider.stream(request, on_delta);
        self.note(request, &answer);
        answer
    }
}
