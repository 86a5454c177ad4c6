//! Rank 6: language models, real and played.
//!
//! A program asks an [`LlmProvider`]. `HttpProvider` asks an endpoint over the egress policy,
//! [`FakeLlmProvider`] says what a test wrote, [`Replay`] says what a fixture holds; [`Record`]
//! writes the fixture, and [`Taped`] the machine's tape, of what another provider says. The format
//! and the rules are described in `docs/llm.md`.

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
