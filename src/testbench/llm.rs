//! Language models of a session.

use super::config::LlmConfig;
use crate::llm::{
    FailureKind, FixtureError, LlmError, LlmFailure, LlmProvider, LlmRequest, LlmResponse, OnDelta,
    Record, Replay, Taped,
};
use crate::tape::Redaction;

/// The session's language model; calls are recorded on the session's tape.
pub type SessionLlm<'a> = Taped<&'a mut dyn LlmProvider>;

/// The provider of host code, made at the first call.
#[derive(Default)]
pub(super) struct Named(Option<Box<dyn LlmProvider>>);

impl Named {
    fn or_name(&mut self, real: impl FnOnce() -> Box<dyn LlmProvider>) {
        self.0.get_or_insert_with(real);
    }

    fn get(&mut self) -> Result<&mut dyn LlmProvider, LlmError> {
        let nobody = || LlmFailure::new(FailureKind::NoAnswer, "no provider is set");
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

/// The provider of a session.
pub(super) enum LlmAxis {
    /// That of host code.
    Real(Named),
    /// That of host code, recorded.
    Recorded(Box<Record<Named>>),
    /// A fixture.
    Replayed(Box<Replay>),
}

impl LlmAxis {
    /// # Errors
    /// [`FixtureError`] if the fixture cannot be read, or its directory does not exist.
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

    /// The provider to call: `real` is made unless there is one, or answers are replayed.
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

    /// Writes the fixture of a recording.
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
