//! The trait of language models, requests and answers.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::miss::Miss;
use crate::base::digest::Digest;
use crate::net::EgressBlocked;

/// A message of a conversation.
#[derive(Clone, PartialEq, Debug)]
pub struct Message {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// Text, or a list of parts as the endpoint takes them.
    pub content: Value,
    /// Other fields of the endpoint: `tool_calls`, `tool_call_id`, `name`. The fields above take
    /// precedence.
    pub extra: Map<String, Value>,
}

impl Message {
    /// A message of a role and content only.
    pub fn new(role: impl Into<String>, content: impl Into<Value>) -> Self {
        Self { role: role.into(), content: content.into(), extra: Map::new() }
    }

    fn to_json(&self) -> Value {
        let mut fields = self.extra.clone();
        fields.insert("role".to_owned(), self.role.as_str().into());
        fields.insert("content".to_owned(), self.content.clone());
        Value::Object(fields)
    }
}

/// A request to a language model.
#[derive(Clone, PartialEq, Debug)]
pub struct LlmRequest {
    /// The model's name.
    pub model: String,
    /// The conversation.
    pub messages: Vec<Message>,
    /// Randomness of the answer, typically 0 to 2.
    pub temperature: Option<f64>,
    /// Maximum number of tokens of the answer.
    pub max_tokens: Option<u64>,
    /// Other fields of the endpoint: `tools`, `response_format`. The fields above take precedence.
    pub extra: Map<String, Value>,
}

impl LlmRequest {
    /// A request of a model and messages only.
    pub fn new(model: impl Into<String>, messages: Vec<Message>) -> Self {
        let model = model.into();
        Self { model, messages, temperature: None, max_tokens: None, extra: Map::new() }
    }

    /// The request as JSON with sorted keys.
    pub fn to_json(&self) -> Value {
        let mut fields = self.extra.clone();
        fields.insert("model".to_owned(), self.model.as_str().into());
        fields.insert("messages".to_owned(), self.messages.iter().map(Message::to_json).collect());
        if let Some(temperature) = self.temperature {
            fields.insert("temperature".to_owned(), temperature.into());
        }
        if let Some(max_tokens) = self.max_tokens {
            fields.insert("max_tokens".to_owned(), max_tokens.into());
        }
        let mut value = Value::Object(fields);
        value.sort_all_objects();
        value
    }

    /// Identifies the request: the digest of its JSON with sorted keys and without white space.
    pub fn digest(&self) -> Digest {
        Digest::of(self.to_json().to_string().as_bytes())
    }
}

/// An answer of a model.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LlmResponse {
    /// The text.
    #[serde(default)]
    pub content: String,
    /// Why the answer ended: `stop`, `length`, `tool_calls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// Token counts, as the endpoint reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
    /// Other fields of the message: `tool_calls`.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A piece of an answer. It has the same fields.
pub type LlmDelta = LlmResponse;

impl LlmResponse {
    /// An answer of text only.
    pub fn text(content: impl Into<String>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }

    /// Appends the next piece: strings and lists are concatenated (`tool_calls` thus remain the
    /// pieces that came); other values are replaced.
    pub fn append(&mut self, delta: &LlmDelta) {
        self.content.push_str(&delta.content);
        if delta.finish_reason.is_some() {
            self.finish_reason.clone_from(&delta.finish_reason);
        }
        if delta.usage.is_some() {
            self.usage.clone_from(&delta.usage);
        }
        for (name, value) in &delta.extra {
            match (self.extra.get_mut(name), value) {
                (Some(Value::String(own)), Value::String(more)) => own.push_str(more),
                (Some(Value::Array(own)), Value::Array(more)) => own.extend_from_slice(more),
                _ => {
                    self.extra.insert(name.clone(), value.clone());
                }
            }
        }
    }
}

/// Why a model did not answer, or not to the end. Can be recorded and replayed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct LlmFailure {
    /// The kind of failure, to decide on a retry.
    pub kind: FailureKind,
    /// The HTTP status, if that is the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The message.
    pub message: String,
}

crate::base::readable::readable!(LlmFailure);

impl LlmFailure {
    /// A failure without a status.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, status: None, message: message.into() }
    }
}

/// The kind of a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The endpoint answered with an error.
    Status,
    /// No complete answer in time.
    Timeout,
    /// No connection, or it broke.
    Connection,
    /// The answer does not follow the protocol.
    BadAnswer,
    /// The answer exceeds the size limit.
    TooLong,
    /// The egress policy blocked the call.
    Blocked,
    /// A script or a fixture has no answer left.
    NoAnswer,
}

/// A call to a language model failed.
#[derive(thiserror::Error)]
pub enum LlmError {
    /// The model did not answer.
    #[error(transparent)]
    Failed(#[from] LlmFailure),
    /// The egress policy blocked the call.
    #[error(transparent)]
    Blocked(#[from] EgressBlocked),
    /// The fixture has no answer left.
    #[error(transparent)]
    Miss(#[from] Box<Miss>),
}

crate::base::readable::readable!(LlmError);

impl LlmError {
    /// The failure to record.
    pub fn failure(&self) -> LlmFailure {
        let kind = match self {
            Self::Failed(failure) => return failure.clone(),
            Self::Blocked(_) => FailureKind::Blocked,
            Self::Miss(_) => FailureKind::NoAnswer,
        };
        LlmFailure::new(kind, self.to_string())
    }
}

/// Called with each piece of an answer; returns whether to go on.
pub type OnDelta<'a> = &'a mut dyn FnMut(&LlmDelta) -> ControlFlow<()>;

/// A language model.
///
/// Calls block; a virtual clock stands still meanwhile. Providers are `Send`, so that asynchronous
/// code can make a call on a blocking thread and send the pieces through a channel; if the receiver
/// is gone, the closure ends the call.
pub trait LlmProvider: Send {
    /// Returns the whole answer. The default implementation combines the pieces of `stream`.
    ///
    /// # Errors
    /// [`LlmError`].
    fn complete(&mut self, request: &LlmRequest) -> Result<LlmResponse, LlmError> {
        self.stream(request, &mut |_| ControlFlow::Continue(()))
    }

    /// Passes each piece of the answer to `on_delta`, and returns all of them combined. If
    /// `on_delta` breaks, the answer is what came until then.
    ///
    /// # Errors
    /// [`LlmError`], possibly after some pieces.
    fn stream(
        &mut self,
        request: &LlmRequest,
        on_delta: OnDelta<'_>,
    ) -> Result<LlmResponse, LlmError>;
}

impl<P: LlmProvider + ?Sized> LlmProvider for &mut P {
    fn complete(&mut self, request: &LlmRequest) -> Result<LlmResponse, LlmError> {
        (**self).complete(request)
    }

    fn stream(
        &mut self,
        request: &LlmRequest,
        on_delta: OnDelta<'_>,
    ) -> Result<LlmResponse, LlmError> {
        (**self).stream(request, on_delta)
    }
}

impl<P: LlmProvider + ?Sized> LlmProvider for Box<P> {
    fn complete(&mut self, request: &LlmRequest) -> Result<LlmResponse, LlmError> {
        (**self).complete(request)
    }

    fn stream(
        &mut self,
        request: &LlmRequest,
        on_delta: OnDelta<'_>,
    ) -> Result<LlmResponse, LlmError> {
        (**self).stream(request, on_delta)
    }
}
