//! Rank 8: the axes of a run, composed; runs that are recorded, repeated and compared.
#![doc = include_str!("../../docs/testbench.md")]

mod builder;
mod changes;
mod clock;
mod command;
mod config;
mod host;
mod llm;
mod replay;
mod script;
mod session;
mod taped_changes;
mod taped_programs;
mod timers;

pub use builder::{Testbench, TestbenchBuilder};
pub use changes::record_changes;
pub use clock::{ClockHandle, NotPaused, SessionInstant};
pub use command::{SessionChild, SessionCommand};
pub use config::{
    ClockConfig, FilesystemConfig, LlmConfig, NetworkConfig, SubprocessConfig, TapeConfig,
};
pub use llm::SessionLlm;
pub use replay::{ReplayError, Replayed, replay};
pub use session::{EmittedTape, TestbenchError, TestbenchFinalize, TestbenchSession};
pub use taped_changes::{
    TapedChangesError, TapedConflict, changed_machine, make_taped_changes, taped_changes_are_made,
    taped_worktree,
};
pub use timers::{Elapsed, Interval, Sleep};
