//! Rank 8: operations that programs can ask their host for by name.
#![doc = include_str!("../../docs/host.md")]

mod answers;
mod bridge;
mod call;
mod caller;
mod calls;
mod capability;
mod error;
mod exec;
mod exec_result;
mod io;
mod json;
mod mock;
#[cfg(feature = "http")]
mod net;
mod net_calls;
mod pattern;
mod policy;
mod policy_file;
mod reply;
mod session;
mod shells;
mod taped;
#[cfg(feature = "templates")]
mod template;
#[cfg(feature = "templates")]
mod template_tags;
#[cfg(feature = "templates")]
mod template_values;

pub use answers::{Answers, AnswersError, Question, ScriptedAnswers};
pub use bridge::{BridgeAnswer, HostBridge, HostTool};
pub use capability::{Capability, Manifest, Operation};
pub use error::HostError;
pub use json::parse as parse_json;
pub use mock::{HostMock, MockCall, NoMockScope};
pub use net_calls::{NetCall, NetCalls};
pub use pattern::{CommandPattern, Match, PatternError};
pub use policy::{Blocked, CommandPolicy, PreHook};
pub use policy_file::PolicyError;
pub use session::{HostHandle, SessionHost, SessionHostBuilder};
pub use taped::{TapedCall, TapedCalls};
