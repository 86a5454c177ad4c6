//! Configurations of the axes of a testbench.

use std::path::PathBuf;

pub use crate::native::SubprocessConfig;
use crate::net::EgressRule;

/// Wall and monotonic time of host code and guests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClockConfig {
    /// The host's clock.
    #[default]
    Real,
    /// A clock that moves only when a process or host code sleeps.
    Paused {
        /// Its start, in milliseconds since the Unix epoch.
        starting_at_ms: i64,
    },
}

/// The files of modules. Native programs work on the disk.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum FilesystemConfig {
    /// The current directory. Changes of a command are applied to the disk when it has ended.
    #[default]
    Real,
    /// A copy-on-write view of a directory, which stays unchanged.
    Overlay {
        /// The directory.
        worktree: PathBuf,
    },
}

/// Answers of language models.
#[cfg(feature = "llm")]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum LlmConfig {
    /// The provider of host code.
    #[default]
    Real,
    /// Answers of a fixture.
    Replay {
        /// The fixture.
        fixture: PathBuf,
    },
    /// The provider of host code, recorded.
    Record {
        /// The fixture to write.
        fixture: PathBuf,
    },
}

/// Network access of host code; guests have no sockets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum NetworkConfig {
    /// As the variables `BELLJAR_EGRESS_*` say; if none is set, the public internet.
    #[default]
    Real,
    /// Only as these rules allow.
    DenyByDefault {
        /// The rules.
        allow: Vec<EgressRule>,
    },
}

/// Where the session is recorded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum TapeConfig {
    /// Nowhere.
    #[default]
    Off,
    /// On a tape.
    Emit {
        /// The tape.
        path: PathBuf,
        /// The command line, for the header.
        argv: Vec<String>,
        /// The script, for the header.
        script_path: Option<String>,
    },
}
