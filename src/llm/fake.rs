//! A model that says what a test wrote.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::provider::{
    FailureKind, LlmDelta, LlmError, LlmFailure, LlmProvider, LlmRequest, LlmResponse, OnDelta,
};
use crate::kernel::machine::clock::{Clock, ClockId};

/// What a fake model does next.
#[derive(Clone, PartialEq, Debug)]
pub enum FakeStep {
    /// Says a piece of its answer.
    Token(String),
    /// Says a piece of its answer that is more than text.
    Delta(LlmDelta),
    /// Lets time pass on its clock.
    Delay(Duration),
    /// Fails, and says no more.
    Fail(LlmFailure),
}

/// A model that answers each call with the next of its scripts. Delays pass on its clock: on a
/// virtual one, nobody waits.
pub struct FakeLlmProvider {
    clock: Arc<Mutex<dyn Clock>>,
    scripts: VecDeque<Vec<FakeStep>>,
    requests: Vec<LlmRequest>,
}

impl FakeLlmProvider {
    /// A model with nothing to say.
    pub fn new(clock: Arc<Mutex<dyn Clock>>) -> Self {
        Self { clock, scripts: VecDeque::new(), requests: Vec::new() }
    }

    /// Adds what it does at the next call that has no script yet.
    #[must_use]
    pub fn script(mut self, steps: impl IntoIterator<Item = FakeStep>) -> Self {
        self.scripts.push_back(steps.into_iter().collect());
        self
    }

    /// What it was asked, in order.
    pub fn requests(&self) -> &[LlmRequest] {
        &self.requests
    }

    fn sleep(&self, duration: Duration) {
        // A clock is whole between calls, whoever panicked.
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
            let message = format!("the fake model has no script for call {calls}: add one");
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
