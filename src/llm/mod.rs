//! Rank 6: language models, real, scripted and replayed.
//!
//! A program calls an [`LlmProvider`]: `HttpProvider` calls an endpoint, [`FakeLlmProvider`]
//! follows a test's script, and [`Replay`] answers from a fixture. [`Record`] writes the fixture,
//! and [`Taped`] the machine's tape, of another provider. `docs/llm.md` has the format.

mod fake;
mod fixture;
#[cfg(feature = "http")]
mod http;
mod miss;
mod provider;
mod record;
mod replay;
mod secrets;
#[cfg(feature = "http")]
mod sse;
mod taped;

pub use fake::{FakeLlmProvider, FakeStep};
pub use fixture::{FIXTURE_BYTES_MAX, FixtureError};
#[cfg(feature = "http")]
pub use http::{HttpProvider, RESPONSE_BYTES_MAX, TIMEOUT};
pub use miss::{Difference, Miss, Nearest};
pub use provider::{
    FailureKind, LlmDelta, LlmError, LlmFailure, LlmProvider, LlmRequest, LlmResponse, Message,
    OnDelta,
};
pub use record::Record;
pub use replay::{Replay, Unused};
pub use taped::Taped;
