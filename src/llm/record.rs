//! Records calls of another provider in a fixture.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::fixture::{self, Entry, FIXTURE_BYTES_MAX, FixtureError};
use super::provider::{LlmDelta, LlmError, LlmProvider, LlmRequest, LlmResponse, OnDelta};
use super::secrets;
use crate::base::{atomic_file, disk};
use crate::tape::Redaction;
use crate::tape::lines::line_of;

/// Passes calls on, and keeps each with its answer, without secrets.
///
/// Only [`Record::finish`] writes the fixture; dropping it writes nothing.
#[must_use]
pub struct Record<P> {
    provider: P,
    path: PathBuf,
    redaction: Redaction,
    lines: Vec<u8>,
    calls: u64,
}

impl<P: LlmProvider> Record<P> {
    /// Records calls of `provider` in the fixture `path`, which is replaced.
    ///
    /// # Errors
    /// [`FixtureError::Disk`] if its directory does not exist.
    pub fn new(provider: P, path: &Path, redaction: Redaction) -> Result<Self, FixtureError> {
        // Checked before any call, as calls may take hours.
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            disk::list(folder)?;
        }
        let lines = fixture::header_line();
        Ok(Self { provider, path: path.to_owned(), redaction, lines, calls: 0 })
    }

    /// The inner provider.
    pub fn provider_mut(&mut self) -> &mut P {
        &mut self.provider
    }

    /// Writes the fixture, all or nothing; returns its number of calls.
    ///
    /// # Errors
    /// [`FixtureError::TooLong`], [`FixtureError::Disk`].
    pub fn finish(self) -> Result<u64, FixtureError> {
        if self.lines.len() as u64 > FIXTURE_BYTES_MAX {
            return Err(FixtureError::TooLong { path: self.path });
        }
        atomic_file::write(&self.path, &[&self.lines])?;
        Ok(self.calls)
    }

    fn keep(
        &mut self,
        request: &LlmRequest,
        deltas: Option<Vec<LlmDelta>>,
        answer: &Result<LlmResponse, LlmError>,
    ) {
        self.calls += 1;
        // `finish` returns the error; until then memory must be bounded.
        if self.lines.len() as u64 > FIXTURE_BYTES_MAX {
            return;
        }
        let mut deltas = deltas;
        if let Some(deltas) = &mut deltas {
            secrets::redact_deltas(deltas, &self.redaction);
        }
        let response = if deltas.is_some() { None } else { answer.as_ref().ok().cloned() };
        let error = answer.as_ref().err().map(LlmError::failure);
        let request_hash = Some(request.digest());
        let entry = Entry { request_hash, request: request.to_json(), deltas, response, error };
        let mut value = serde_json::to_value(entry).expect("keys are strings");
        secrets::redact(&mut value, &self.redaction);
        self.lines.extend(line_of(&value));
    }
}

impl<P: LlmProvider> LlmProvider for Record<P> {
    fn complete(&mut self, request: &LlmRequest) -> Result<LlmResponse, LlmError> {
        let answer = self.provider.complete(request);
        self.keep(request, None, &answer);
        answer
    }

    fn stream(
        &mut self,
        request: &LlmRequest,
        on_delta: OnDelta<'_>,
    ) -> Result<LlmResponse, LlmError> {
        let mut deltas = Vec::new();
        let answer = self.provider.stream(request, &mut |delta| -> ControlFlow<()> {
            deltas.push(delta.clone());
            on_delta(delta)
        });
        self.keep(request, Some(deltas), &answer);
        answer
    }
}
