//! Rank 9: sessions for tests, with all axes of a run; replay of tapes.
#![doc = include_str!("../../docs/testbench.md")]

mod builder;
mod changes;
mod clock;
mod command;
mod config;
mod error;
mod host;
#[cfg(feature = "llm")]
mod llm;
mod replay;
mod replay_error;
mod script;
mod session;
mod taped_changes;
mod taped_made;
mod taped_programs;
mod timers;

pub use builder::{Testbench, TestbenchBuilder};
pub use changes::record_changes;
pub use clock::{ClockHandle, NotPaused, SessionInstant};
pub use command::{SessionChild, SessionCommand};
#[cfg(feature = "llm")]
pub use config::LlmConfig;
pub use config::{ClockConfig, FilesystemConfig, NetworkConfig, SubprocessConfig, TapeConfig};
pub use error::TestbenchError;
#[cfg(feature = "llm")]
pub use llm::SessionLlm;
pub use replay::{Replayed, replay};
pub use replay_error::ReplayError;
pub use session::{EmittedTape, TestbenchFinalize, TestbenchSession};
pub use taped_changes::{
    TapedChangesError, TapedConflict, changed_machine, make_taped_changes, taped_worktree,
};
pub use taped_made::taped_changes_are_made;
pub use timers::{Elapsed, Interval, Sleep};
