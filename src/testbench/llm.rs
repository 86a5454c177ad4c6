//! The language models of a session.

use std::path::PathBuf;

use super::config::LlmConfig;
use crate::llm::{
    FixtureError, LlmError, LlmProvider, LlmRequest, LlmResponse, OnDelta, Record, Replay, llm_call,
};
use crate::tape::{Recorder, Redaction};

/// What answers for them.
pub(super) enum LlmAxis {
    /// Nobody yet; whoever is named will be asked, and recorded if there is a fixture to write.
    Unasked { fixture: Option<PathBuf> },
    /// The provider that was named.
    Real(Box<dyn LlmProvider>),
    /// The provider that was named, recorded.
    Recorded(Box<Record<Box<dyn LlmProvider>>>),
    /// A fixture.
    Replayed(Box<Replay>),
}

impl LlmAxis {
    /// # Errors
    /// [`FixtureError`]: the fixture that is to be replayed cannot be read.
    pub fn open(config: &LlmConfig) -> Result<Self, FixtureError> {
        Ok(match config {
            LlmConfig::Real => Self::Unasked { fixture: None },
            LlmConfig::Record { fixture } => Self::Unasked { fixture: Some(fixture.clone()) },
            LlmConfig::Replay { fixture } => Self::Replayed(Box::new(Replay::open(fixture)?)),
        })
    }

    /// What is to be asked: `real`, unless one was named before or answers are replayed.
    ///
    /// # Errors
    /// [`FixtureError`]: the fixture cannot be recorded where it is to stand.
    pub fn provider(
        &mut self,
        real: impl FnOnce() -> Box<dyn LlmProvider>,
    ) -> Result<&mut dyn LlmProvider, FixtureError> {
        if let Self::Unasked { fixture } = self {
            *self = match fixture {
                None => Self::Real(real()),
                Some(path) => {
                    let record = Record::new(real(), path, Redaction::default())?;
                    Self::Recorded(Box::new(record))
                }
            };
        }
        Ok(match self {
            Self::Real(provider) => provider,
            Self::Recorded(record) => &mut **record,
            Self::Replayed(replay) => &mut **replay,
            Self::Unasked { .. } => unreachable!("somebody is asked since just above"),
        })
    }

    /// Writes what was recorded.
    ///
    /// # Errors
    /// [`FixtureError`].
    pub fn finish(self) -> Result<(), FixtureError> {
        match self {
            Self::Recorded(record) => record.finish().map(|_| ()),
            Self::Unasked { .. } | Self::Real(_) | Self::Replayed(_) => Ok(()),
        }
    }
}

/// Asks the session's language model; every call goes on the session's tape.
pub struct SessionLlm<'a> {
    pub(super) provider: &'a mut dyn LlmProvider,
    pub(super) tape: Option<&'a Recorder>,
}

impl SessionLlm<'_> {
    fn note(&self, request: &LlmRequest, answer: &Result<LlmResponse, LlmError>) {
        if let Some(tape) = self.tape {
            tape.push(llm_call(tape, request, answer));
        }
    }
}

impl LlmProvider for SessionLlm<'_> {
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
