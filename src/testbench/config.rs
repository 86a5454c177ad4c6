//! What each axis of a testbench is.

use std::path::PathBuf;

pub use crate::native::SubprocessConfig;
use crate::net::EgressRule;

/// Wall and monotonic time of the host's code and of every guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClockConfig {
    /// The host's.
    #[default]
    Real,
    /// It stands still until somebody sleeps.
    Paused {
        /// Where, in milliseconds since the Unix epoch.
        starting_at_ms: i64,
    },
}

/// What programs that are modules work on. Programs of the host work on the disk.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum FilesystemConfig {
    /// The current folder. What a command changes is written to the disk when it has ended.
    #[default]
    Real,
    /// A copy-on-write view of a folder, which stays as it is.
    Overlay {
        /// The folder.
        worktree: PathBuf,
    },
}

/// Language models.
#[cfg(feature = "llm")]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum LlmConfig {
    /// Whoever the host's code asks.
    #[default]
    Real,
    /// What a fixture holds.
    Replay {
        /// The fixture.
        fixture: PathBuf,
    },
    /// Whoever the host's code asks, and the answers are kept.
    Record {
        /// The fixture to write.
        fixture: PathBuf,
    },
}

/// What the host's code may reach; guests have no sockets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum NetworkConfig {
    /// What the variables `BELLJAR_EGRESS_*` allow; if none of them is set, the public internet.
    #[default]
    Real,
    /// Nobody but these.
    DenyByDefault {
        /// Who may be reached.
        allow: Vec<EgressRule>,
    },
}

/// Where what crosses the boundary of the session is recorded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum TapeConfig {
    /// Nowhere.
    #[default]
    Off,
    /// On a tape.
    Emit {
        /// The tape.
        path: PathBuf,
        /// The command line, for its header.
        argv: Vec<String>,
        /// The script, for its header.
        script_path: Option<String>,
    },
}
