//! A scripted model for tests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::provider::{
    FailureKind, LlmDelta, LlmError, LlmFailure, LlmProvider, LlmRequest, LlmResponse, OnDelta,
};
use crate::kernel::machine::clock::{Clock, ClockId};

/// A step of a script.
#[derive(Clone, PartialEq, Debug)]
pub enum FakeStep {
    /// A text piece of the answer.
    Token(String),
    /// A piece of the answer with other fields.
    Delta(LlmDelta),
    /// Time passes on the clock.
    Delay(Duration),
    /// The call fails.
    Fail(LlmFailure),
}

/// A model that answers each call with its next script. Delays pass on its clock, which may be
/// virtual.
pub struct FakeLlmProvider {
    clock: Arc<Mutex<dyn Clock>>,
    scripts: VecDeque<Vec<FakeStep>>,
    requests: Vec<LlmRequest>,
}

impl FakeLlmProvider {
    /// A model without scripts.
    pub fn new(clock: Arc<Mutex<dyn Clock>>) -> Self {
        Self { clock, scripts: VecDeque::new(), requests: Vec::new() }
    }

    /// Adds the script of the next call that has none.
    #[must_use]
    pub fn script(mut self, steps: impl IntoIterator<Item = FakeStep>) -> Self {
        self.scripts.push_back(steps.into_iter().collect());
        self
    }

    /// The requests so far, in order.
    pub fn requests(&self) -> &[LlmRequest] {
        &self.requests
    }

    fn sleep(&self, duration: Duration) {
        // A clock is consistent between calls, also after a panic.
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let t = clock.now(ClockId::Monotonic).saturating_add(duration_ns);
        clock.sleep_until(t);
    }
}

impl LlmProvider for FakeLlmProvider {
    fn stream(
        &mut self,
        request: &LlmRequest,
        on_delta: OnDelta<'_>,
    ) -> Result<LlmResponse, LlmError> {
        self.requests.push(request.clone());
        let calls = self.requests.len();
        let steps = self.scripts.pop_front().ok_or_else(|| {
            let message = format!("the fake model has no script for call {calls}; add one");
            LlmFailure::new(FailureKind::NoAnswer, message)
        })?;
        let mut whole = LlmResponse::default();
        for step in steps {
            let delta = match step {
                FakeStep::Token(text) => LlmDelta::text(text),
                FakeStep::Delta(delta) => delta,
                FakeStep::Delay(duration) => {
                    self.sleep(duration);
                    continue;
                }
                FakeStep::Fail(failure) => return Err(failure.into()),
            };
            whole.append(&delta);
            if on_delta(&delta).is_break() {
                break;
            }
        }
        Ok(whole)
    }
}
