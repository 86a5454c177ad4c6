//! A client of OpenAI-compatible chat endpoints.
//!
//! A redirect is refused: the conversation and the key are meant for the named endpoint.

use std::fmt;
use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::{Map, Value};

use super::provider::{
    FailureKind, LlmDelta, LlmError, LlmFailure, LlmProvider, LlmRequest, LlmResponse, OnDelta,
};
use super::secrets;
use super::sse::Events;
use crate::net::{EgressPolicy, HttpBody, HttpClient, HttpError, HttpLimits, HttpRequest};
use crate::tape::Recorder;

/// Default size limit of an answer, in bytes.
pub const RESPONSE_BYTES_MAX: u64 = 16 << 20;

/// Default time limit of a call, to the end of its answer.
pub const TIMEOUT: Duration = Duration::from_mins(5);

/// Bytes read of an error response.
const ERROR_BYTES_MAX: u64 = 64 << 10;

/// Characters shown of it.
const ERROR_CHARS: usize = 500;

/// Shorter keys are not redacted from responses: they could be any word.
const KEY_BYTES_MIN: usize = 8;

/// A model at `<base>/chat/completions`.
pub struct HttpProvider {
    base_url: String,
    policy: EgressPolicy,
    api_key: Option<String>,
    timeout: Duration,
    response_bytes_max: u64,
    tape: Option<Recorder>,
}

impl fmt::Debug for HttpProvider {
    /// Without its key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpProvider").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl HttpProvider {
    /// A model at `base_url`, such as `https://api.example.com/v1`, which `policy` must allow.
    pub fn new(base_url: impl Into<String>, policy: EgressPolicy) -> Self {
        Self {
            base_url: base_url.into(),
            policy,
            api_key: None,
            timeout: TIMEOUT,
            response_bytes_max: RESPONSE_BYTES_MAX,
            tape: None,
        }
    }

    /// Sends `key` as a bearer token. Redacts it from responses.
    #[must_use]
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(key.into());
        self
    }

    /// Sets the time limit of a call, to the end of its answer. Default: [`TIMEOUT`].
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the size limit of an answer, in bytes. Default: [`RESPONSE_BYTES_MAX`].
    #[must_use]
    pub fn response_bytes_max(mut self, bytes: u64) -> Self {
        self.response_bytes_max = bytes;
        self
    }

    /// Records decisions of the policy on `tape`.
    #[must_use]
    pub fn tape(mut self, tape: Recorder) -> Self {
        self.tape = Some(tape);
        self
    }

    fn failure(&self, kind: FailureKind, message: impl Into<String>) -> LlmFailure {
        LlmFailure::new(kind, self.without_key(&message.into()))
    }

    fn without_key(&self, text: &str) -> String {
        match &self.api_key {
            Some(key) if key.len() >= KEY_BYTES_MIN => text.replace(key, "[redacted]"),
            _ => text.to_owned(),
        }
    }

    /// The error message in `body`, without the key, shortened.
    fn shown(&self, body: &[u8]) -> String {
        self.without_key(&message_in(body)).chars().take(ERROR_CHARS).collect()
    }

    /// Sends the request; returns the body of the response.
    fn send(&self, request: &LlmRequest, streams: bool) -> Result<Body, LlmError> {
        let mut body = request.to_json();
        body["stream"] = streams.into();
        let accept = if streams { "text/event-stream" } else { "application/json" };
        let mut headers =
            vec![header("content-type", "application/json"), header("accept", accept)];
        if let Some(key) = &self.api_key {
            headers.push(header("authorization", format!("Bearer {key}")));
        }
        let request = HttpRequest {
            method: "POST".to_owned(),
            url: format!("{}/chat/completions", self.base_url.trim_end_matches('/')),
            headers,
            body: body.to_string().into_bytes(),
        };
        let limits = HttpLimits {
            timeout: self.timeout,
            request_bytes_max: u64::MAX,
            response_bytes_max: self.response_bytes_max,
            redirects_max: 0,
            ..HttpLimits::default()
        };
        let client = HttpClient::new(self.policy.clone()).surface("llm").limits(limits);
        let response = client.tape(self.tape.clone()).send(&request);
        let response = response.map_err(|error| self.failed(error))?;
        let status = response.status;
        if (200..300).contains(&status) {
            return Ok(Body(response.body));
        }
        let place = response.body.place().to_owned();
        let location = response.headers.iter().find(|(name, _)| name == "location");
        let message = if let Some((_, to)) = location.filter(|_| (300..400).contains(&status)) {
            let to = to.split('?').next().unwrap_or_default();
            format!("redirects to {to:?}, which is refused; configure that endpoint instead")
        } else {
            let mut body = Vec::new();
            // The message shows what can be read.
            let _ = Body(response.body).take(ERROR_BYTES_MAX).read_to_end(&mut body);
            format!("answers {status}: {}", self.shown(&body))
        };
        let message = format!("{place} {message}");
        let failure = self.failure(FailureKind::Status, message);
        Err(LlmFailure { status: Some(status), ..failure }.into())
    }

    fn failed(&self, error: HttpError) -> LlmError {
        let kind = match error {
            HttpError::Blocked(blocked) => return blocked.into(),
            HttpError::Timeout { .. } => FailureKind::Timeout,
            HttpError::Connection { .. } => FailureKind::Connection,
            HttpError::TooLong { .. } => FailureKind::TooLong,
            HttpError::Request(_) | HttpError::BadAnswer { .. } | HttpError::Redirects { .. } => {
                FailureKind::BadAnswer
            }
        };
        self.failure(kind, error.to_string()).into()
    }

    fn read_failed(&self, error: io::Error) -> LlmError {
        match error.downcast() {
            Ok(error) => self.failed(error),
            Err(error) => self.failure(FailureKind::Connection, error.to_string()).into(),
        }
    }

    fn bad_answer(&self, problem: &str) -> LlmError {
        let message = format!("not a response of a chat endpoint: {problem}");
        self.failure(FailureKind::BadAnswer, message).into()
    }

    /// Parses JSON without the key. An `error` field is an error.
    fn parse(&self, bytes: &[u8]) -> Result<Value, LlmError> {
        let mut value: Value =
            serde_json::from_slice(bytes).map_err(|error| self.bad_answer(&error.to_string()))?;
        secrets::for_each_text(&mut value, &mut |_, text| *text = self.without_key(text));
        if value.get("error").is_some_and(|error| !error.is_null()) {
            let message = format!("the endpoint reports an error: {}", self.shown(bytes));
            return Err(self.failure(FailureKind::Status, message).into());
        }
        Ok(value)
    }

    /// The first choice of a response or piece; `message` is the field of its message.
    fn choice(&self, mut value: Value, message: &str) -> Result<LlmResponse, LlmError> {
        let usage = value.get_mut("usage").map(Value::take).filter(|usage| !usage.is_null());
        let Some(Value::Array(choices)) = value.get_mut("choices") else {
            return Err(self.bad_answer("missing list `choices`"));
        };
        let Some(choice) = choices.first_mut() else {
            return Ok(LlmResponse { usage, ..LlmResponse::default() });
        };
        let finish_reason = choice.get("finish_reason").and_then(Value::as_str).map(str::to_owned);
        let mut extra = match choice.get_mut(message).map(Value::take) {
            Some(Value::Object(fields)) => fields,
            Some(Value::Null) | None => Map::new(),
            Some(_) => return Err(self.bad_answer(&format!("`{message}` is not an object"))),
        };
        let content = match extra.remove("content") {
            Some(Value::String(content)) => content,
            Some(Value::Null) | None => String::new(),
            Some(_) => return Err(self.bad_answer("`content` is not a string")),
        };
        extra.retain(|name, value| name != "role" && !value.is_null());
        // Fields of `LlmResponse`.
        extra.remove("finish_reason");
        extra.remove("usage");
        Ok(LlmResponse { content, finish_reason, usage, extra })
    }
}

impl LlmProvider for HttpProvider {
    fn complete(&mut self, request: &LlmRequest) -> Result<LlmResponse, LlmError> {
        let mut bytes = Vec::new();
        let read = self.send(request, false)?.read_to_end(&mut bytes);
        read.map_err(|error| self.read_failed(error))?;
        let value = self.parse(&bytes)?;
        if value.pointer("/choices/0").is_none() {
            return Err(self.bad_answer("`choices` is empty"));
        }
        self.choice(value, "message")
    }

    /// As [`LlmProvider::stream`]. A stream without `[DONE]` is complete if it had a finish reason.
    fn stream(
        &mut self,
        request: &LlmRequest,
        on_delta: OnDelta<'_>,
    ) -> Result<LlmResponse, LlmError> {
        let body = self.send(request, true)?;
        let mut whole = LlmResponse::default();
        for data in Events::new(BufReader::new(body)) {
            let data = data.map_err(|error| self.read_failed(error))?;
            if data == b"[DONE]" {
                return Ok(whole);
            }
            let delta: LlmDelta = self.choice(self.parse(&data)?, "delta")?;
            whole.append(&delta);
            if on_delta(&delta) == ControlFlow::Break(()) {
                return Ok(whole);
            }
        }
        if whole.finish_reason.is_none() {
            let message = "the stream ended before the answer was complete";
            return Err(self.failure(FailureKind::Connection, message).into());
        }
        Ok(whole)
    }
}

/// The message of an error response, or the whole body.
fn message_in(body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let told = value.pointer("/error/message").or(value.get("error")).or(value.get("message"));
    match told {
        Some(Value::String(text)) => text.clone(),
        _ => String::from_utf8_lossy(body).into_owned(),
    }
}

fn header(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

/// The body of a response as a stream whose errors are [`HttpError`].
struct Body(HttpBody);

impl Read for Body {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf).map_err(io::Error::other)
    }
}
