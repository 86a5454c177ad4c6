//! Asks an OpenAI-compatible chat endpoint.
//!
//! Every call is checked by the egress policy: its URL, then the addresses that the host resolves to,
//! and connections go to these and no other, without a proxy. A redirect is refused, because what is
//! sent, a conversation and a key, was meant for the endpoint that was named.

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
use crate::net::{self, Allowed, EgressBlocked, EgressPolicy};
use crate::tape::Recorder;

/// Longest answer that is read, in bytes, unless told otherwise.
pub const RESPONSE_BYTES_MAX: u64 = 16 << 20;

/// How long a call may take from its start to the end of its answer, unless told otherwise.
pub const TIMEOUT: Duration = Duration::from_mins(5);

/// Longest answer to a call that failed of which something is shown, in bytes.
const ERROR_BYTES_MAX: u64 = 64 << 10;

/// Characters that are shown of it.
const ERROR_CHARS: usize = 500;

/// Keys shorter than that are not looked for in what the endpoint says: they could be any word.
const KEY_BYTES_MIN: usize = 8;

/// A model behind `<base>/chat/completions`.
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
    /// A model at `base_url`, such as `https://api.example.com/v1`, as far as `policy` lets it.
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

    /// Sends `key` as a bearer token. Where the endpoint repeats it, it is taken out.
    #[must_use]
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(key.into());
        self
    }

    /// How long a call may take, from its start to the end of its answer. Default: [`TIMEOUT`].
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Longest answer that is read, in bytes. Default: [`RESPONSE_BYTES_MAX`].
    #[must_use]
    pub fn response_bytes_max(mut self, bytes: u64) -> Self {
        self.response_bytes_max = bytes;
        self
    }

    /// Records what the policy decides on `tape`.
    #[must_use]
    pub fn tape(mut self, tape: Recorder) -> Self {
        self.tape = Some(tape);
        self
    }

    fn check(&self) -> Result<Allowed, EgressBlocked> {
        let url = format!("{}/chat/completions", self.base_url.trim_end_matches('/'));
        self.policy.check_on_tape("llm", &url, self.tape.as_ref())
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

    /// What the endpoint says in `body` about an error, without the key, cut to what can be read.
    fn shown(&self, body: &[u8]) -> String {
        self.without_key(&message_in(body)).chars().take(ERROR_CHARS).collect()
    }

    /// Sends the request; answers the body of the answer, which ends at the limit with an error.
    fn send(&self, request: &LlmRequest, streams: bool) -> Result<impl Read + use<>, LlmError> {
        let allowed = self.check()?;
        let mut body = request.to_json();
        body["stream"] = streams.into();
        let agent = net::agent(&self.policy, &allowed, self.timeout);
        let mut call = agent
            .post(allowed.url())
            .header("content-type", "application/json")
            .header("accept", if streams { "text/event-stream" } else { "application/json" });
        if let Some(key) = &self.api_key {
            call = call.header("authorization", format!("Bearer {key}"));
        }
        let response =
            call.send(body.to_string()).map_err(|error| self.call_failed(&allowed, error))?;
        let status = response.status().as_u16();
        if (200..300).contains(&status) {
            let reader = response.into_body().into_with_config().limit(u64::MAX).reader();
            return Ok(Bounded { reader, left: self.response_bytes_max });
        }
        let location = response.headers().get("location").and_then(|to| to.to_str().ok());
        let message = if let Some(to) = location.filter(|_| (300..400).contains(&status)) {
            let to = to.split('?').next().unwrap_or_default();
            format!("redirects to {to:?}: redirects are refused; name the endpoint that it means")
        } else {
            let mut body = Vec::new();
            // What cannot be read of a message for people is left out.
            let _ = response.into_body().into_reader().take(ERROR_BYTES_MAX).read_to_end(&mut body);
            format!("answers {status}: {}", self.shown(&body))
        };
        let message = format!("{} {message}", allowed.place());
        let failure = self.failure(FailureKind::Status, message);
        Err(LlmFailure { status: Some(status), ..failure }.into())
    }

    fn call_failed(&self, allowed: &Allowed, error: ureq::Error) -> LlmError {
        let kind = match error {
            ureq::Error::Other(other) => match other.downcast::<EgressBlocked>() {
                Ok(blocked) => {
                    if let Some(tape) = &self.tape {
                        tape.push(blocked.record(tape));
                    }
                    return (*blocked).into();
                }
                Err(other) => {
                    return self.failure(FailureKind::Connection, other.to_string()).into();
                }
            },
            ureq::Error::Timeout(_) => FailureKind::Timeout,
            ureq::Error::Protocol(_) | ureq::Error::Http(_) => FailureKind::BadAnswer,
            _ => FailureKind::Connection,
        };
        self.failure(kind, format!("{}: {error}", allowed.place())).into()
    }

    fn read_failed(&self, error: &io::Error) -> LlmError {
        let inner = error.get_ref();
        if inner.and_then(|inner| inner.downcast_ref::<TooLong>()).is_some() {
            let max = self.response_bytes_max;
            let message = format!("the answer is longer than {max} bytes, which is the limit");
            return self.failure(FailureKind::TooLong, message).into();
        }
        let kind = match inner.and_then(|inner| inner.downcast_ref()) {
            Some(ureq::Error::Timeout(_)) => FailureKind::Timeout,
            _ => FailureKind::Connection,
        };
        self.failure(kind, format!("the answer broke off: {error}")).into()
    }

    fn bad_answer(&self, problem: &str) -> LlmError {
        let message = format!("the answer is none of a chat endpoint: {problem}");
        self.failure(FailureKind::BadAnswer, message).into()
    }

    /// The JSON in `bytes`, without the key, unless it is an error.
    fn parse(&self, bytes: &[u8]) -> Result<Value, LlmError> {
        let mut value: Value =
            serde_json::from_slice(bytes).map_err(|error| self.bad_answer(&error.to_string()))?;
        secrets::for_each_text(&mut value, &mut |_, text| *text = self.without_key(text));
        if value.get("error").is_some_and(|error| !error.is_null()) {
            let message = format!("the endpoint answers: {}", self.shown(bytes));
            return Err(self.failure(FailureKind::Status, message).into());
        }
        Ok(value)
    }

    /// The first choice of an answer, or of a piece of one, whose message is called `message`.
    fn choice(&self, mut value: Value, message: &str) -> Result<LlmResponse, LlmError> {
        let usage = value.get_mut("usage").map(Value::take).filter(|usage| !usage.is_null());
        let Some(Value::Array(choices)) = value.get_mut("choices") else {
            return Err(self.bad_answer("there is no list of `choices`"));
        };
        let Some(choice) = choices.first_mut() else {
            return Ok(LlmResponse { usage, ..LlmResponse::default() });
        };
        let finish_reason = choice.get("finish_reason").and_then(Value::as_str).map(str::to_owned);
        let mut extra = match choice.get_mut(message).map(Value::take) {
            Some(Value::Object(fields)) => fields,
            Some(Value::Null) | None => Map::new(),
            Some(_) => return Err(self.bad_answer(&format!("`{message}` is no object"))),
        };
        let content = match extra.remove("content") {
            Some(Value::String(content)) => content,
            Some(Value::Null) | None => String::new(),
            Some(_) => return Err(self.bad_answer("`content` is no text")),
        };
        extra.retain(|name, value| name != "role" && !value.is_null());
        // Names that an answer has of its own.
        extra.remove("finish_reason");
        extra.remove("usage");
        Ok(LlmResponse { content, finish_reason, usage, extra })
    }
}

impl LlmProvider for HttpProvider {
    fn complete(&mut self, request: &LlmRequest) -> Result<LlmResponse, LlmError> {
        let mut bytes = Vec::new();
        let read = self.send(request, false)?.read_to_end(&mut bytes);
        read.map_err(|error| self.read_failed(&error))?;
        let value = self.parse(&bytes)?;
        if value.pointer("/choices/0").is_none() {
            return Err(self.bad_answer("there is nothing in `choices`"));
        }
        self.choice(value, "message")
    }

    /// As [`LlmProvider::stream`]. A stream that ends without `[DONE]` is whole if a reason for its
    /// end came.
    fn stream(
        &mut self,
        request: &LlmRequest,
        on_delta: OnDelta<'_>,
    ) -> Result<LlmResponse, LlmError> {
        let body = self.send(request, true)?;
        let mut whole = LlmResponse::default();
        for data in Events::new(BufReader::new(body)) {
            let data = data.map_err(|error| self.read_failed(&error))?;
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
            let message = "the stream ends before its answer does";
            return Err(self.failure(FailureKind::Connection, message).into());
        }
        Ok(whole)
    }
}

/// What an endpoint says about an error: its message, or whatever it sends.
fn message_in(body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let told = value.pointer("/error/message").or(value.get("error")).or(value.get("message"));
    match told {
        Some(Value::String(text)) => text.clone(),
        _ => String::from_utf8_lossy(body).into_owned(),
    }
}

/// More was sent than may be.
#[derive(thiserror::Error)]
#[error("more than may be")]
struct TooLong;

crate::base::readable::readable!(TooLong);

/// A reader that fails where more comes than may.
struct Bounded<R> {
    reader: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buf)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| io::Error::other(TooLong))?;
        Ok(count)
    }
}
