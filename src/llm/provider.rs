//! What is asked of a language model, and who answers.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::miss::Miss;
use crate::base::digest::Digest;
use crate::net::EgressBlocked;

/// A part of a conversation.
#[derive(Clone, PartialEq, Debug)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool`.
    pub role: String,
    /// Text, or the parts that the endpoint takes instead.
    pub content: Value,
    /// What else the endpoint takes here: `tool_calls`, `tool_call_id`, `name`. The fields above win
    /// over those of the same name.
    pub extra: Map<String, Value>,
}

impl Message {
    /// A message with nothing but its role and content.
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
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// How much chance there is in the answer: mostly 0 to 2.
    pub temperature: Option<f64>,
    /// Most tokens that the answer may have.
    pub max_tokens: Option<u64>,
    /// What else the endpoint takes, as it takes it: `tools`, `response_format`. The fields above
    /// win over those of the same name.
    pub extra: Map<String, Value>,
}

impl LlmRequest {
    /// A request with nothing but a model and a conversation.
    pub fn new(model: impl Into<String>, messages: Vec<Message>) -> Self {
        let model = model.into();
        Self { model, messages, temperature: None, max_tokens: None, extra: Map::new() }
    }

    /// The request as JSON, the keys of all objects sorted.
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

    /// What a request is known by: the digest of its JSON, keys sorted, without white space.
    pub fn digest(&self) -> Digest {
        Digest::of(self.to_json().to_string().as_bytes())
    }
}

/// An answer.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LlmResponse {
    /// The text.
    #[serde(default)]
    pub content: String,
    /// Why it ends here: `stop`, `length`, `tool_calls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// What it took, as the endpoint counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
    /// What else the message has: `tool_calls`.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A piece of an answer. It has the shape of one, because all pieces together are one.
pub type LlmDelta = LlmResponse;

impl LlmResponse {
    /// An answer of text alone.
    pub fn text(content: impl Into<String>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }

    /// Adds the next piece: text goes to the end of text, lists to the end of lists (`tool_calls`
    /// therefore stay the pieces that they came in); anything else replaces what was there.
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

/// Why a model did not answer, or not to the end. It can be recorded and played back.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct LlmFailure {
    /// What kind of failure it was, for whoever decides to try again.
    pub kind: FailureKind,
    /// The status that the endpoint answered, if that is what failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What happened, in words.
    pub message: String,
}

crate::base::readable::readable!(LlmFailure);

impl LlmFailure {
    /// A failure without a status.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, status: None, message: message.into() }
    }
}

/// What kind of failure it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The endpoint answered that it will not.
    Status,
    /// No answer, or no end of it, in time.
    Timeout,
    /// No connection, or it broke.
    Connection,
    /// The answer is not what the protocol says.
    BadAnswer,
    /// The answer is longer than may be.
    TooLong,
    /// The egress policy said no.
    Blocked,
    /// A script or a fixture has no answer.
    NoAnswer,
}

/// A call to a language model failed.
#[derive(thiserror::Error)]
pub enum LlmError {
    /// The model did not answer.
    #[error(transparent)]
    Failed(#[from] LlmFailure),
    /// The egress policy said no.
    #[error(transparent)]
    Blocked(#[from] EgressBlocked),
    /// The fixture has no answer left.
    #[error(transparent)]
    Miss(#[from] Box<Miss>),
}

crate::base::readable::readable!(LlmError);

impl LlmError {
    /// The failure as it is recorded.
    pub fn failure(&self) -> LlmFailure {
        let kind = match self {
            Self::Failed(failure) => return failure.clone(),
            Self::Blocked(_) => FailureKind::Blocked,
            Self::Miss(_) => FailureKind::NoAnswer,
        };
        LlmFailure::new(kind, self.to_string())
    }
}

/// Takes the pieces of an answer as they come, and says whether to go on.
pub type OnDelta<'a> = &'a mut dyn FnMut(&LlmDelta) -> ControlFlow<()>;

/// Somebody who answers for a language model.
///
/// Calls block: a run makes one at a time, a virtual clock stands still meanwhile, and no executor
/// is forced on whoever embeds this. Providers are `Send`, so that asynchronous code can move a call
/// to a thread that may block and its pieces into a channel; a receiver that is gone breaks it off.
pub trait LlmProvider: Send {
    /// The whole answer: unless a provider has a shorter way to it, all pieces together.
    ///
    /// # Errors
    /// [`LlmError`].
    fn complete(&mut self, request: &LlmRequest) -> Result<LlmResponse, LlmError> {
        self.stream(request, &mut |_| ControlFlow::Continue(()))
    }

    /// The answer in pieces, each handed to `on_delta` as it comes, and at the end all of them
    /// together. If `on_delta` breaks off, the answer is what came until then.
    ///
    /// # Errors
    /// [`LlmError`], maybe after some pieces.
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
