//! The language models of a session.

use super::config::LlmConfig;
use crate::llm::{
    FailureKind, FixtureError, LlmError, LlmFailure, LlmProvider, LlmRequest, LlmResponse, OnDelta,
    Record, Replay, Taped,
};
use crate::tape::Redaction;

/// Asks the session's language model; every call goes on the session's tape.
pub type SessionLlm<'a> = Taped<&'a mut dyn LlmProvider>;

/// Whoever the host's code names when it first asks.
#[derive(Default)]
pub(super) struct Named(Option<Box<dyn LlmProvider>>);

impl Named {
    fn or_name(&mut self, real: impl FnOnce() -> Box<dyn LlmProvider>) {
        self.0.get_or_insert_with(real);
    }

    fn get(&mut self) -> Result<&mut dyn LlmProvider, LlmError> {
        let nobody = || LlmFailure::new(FailureKind::NoAnswer, "no provider was named");
        Ok(self.0.as_mut().ok_or_else(nobody)?)
    }
}

impl LlmProvider for Named {
    fn complete(&mut self, request: &LlmRequest) -> Result<LlmResponse, LlmError> {
        self.get()?.complete(request)
    }

    fn stream(
        &mut self,
        request: &LlmRequest,
        on_delta: OnDelta<'_>,
    ) -> Result<LlmResponse, LlmError> {
        self.get()?.stream(request, on_delta)
    }
}

/// What answers for them.
pub(super) enum LlmAxis {
    /// The provider that is named.
    Real(Named),
    /// The provider that is named, recorded.
    Recorded(Box<Record<Named>>),
    /// A fixture.
    Replayed(Box<Replay>),
}

impl LlmAxis {
    /// # Errors
    /// [`FixtureError`]: the fixture cannot be read, or there is no folder in which it could be
    /// written.
    pub fn open(config: &LlmConfig) -> Result<Self, FixtureError> {
        Ok(match config {
            LlmConfig::Real => Self::Real(Named::default()),
            LlmConfig::Record { fixture } => {
                let record = Record::new(Named::default(), fixture, Redaction::default())?;
                Self::Recorded(Box::new(record))
            }
            LlmConfig::Replay { fixture } => Self::Replayed(Box::new(Replay::open(fixture)?)),
        })
    }

    /// What is to be asked: `real`, unless one was named before or answers are replayed.
    pub fn provider(
        &mut self,
        real: impl FnOnce() -> Box<dyn LlmProvider>,
    ) -> &mut dyn LlmProvider {
        match self {
            Self::Real(named) => {
                named.or_name(real);
                named
            }
            Self::Recorded(record) => {
                record.provider_mut().or_name(real);
                &mut **record
            }
            Self::Replayed(replay) => &mut **replay,
        }
    }

    /// Writes what was recorded.
    ///
    /// # Errors
    /// [`FixtureError`].
    pub fn finish(self) -> Result<(), FixtureError> {
        match self {
            Self::Recorded(record) => record.finish().map(|_| ()),
            Self::Real(_) | Self::Replayed(_) => Ok(()),
        }
    }
}
