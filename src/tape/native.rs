//! What passes between a process of a machine and the program of the host that it stands for.

use serde::{Deserialize, Serialize};

use super::payload::Payload;
use crate::base::digest::Digest;

/// One thing that passed. Its name is the field `event`, and its fields stand beside it.
///
/// What the host did is in the order in which the machine learned of it: a replay needs nothing else
/// to take the same turns.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum NativeEvent {
    /// It could not be started.
    Failed {
        /// Why not.
        message: String,
    },
    /// The host had no process, descriptor or memory left for it, or for a module, which ended the run.
    Lacking {
        /// What was said.
        message: String,
    },
    /// It was given bytes to read; none: there are no more.
    Input {
        /// The digest of the bytes.
        content_hash: Digest,
        /// How many.
        len_bytes: u64,
    },
    /// The host has taken the bytes that were given last.
    Taken,
    /// The run's standard input, which it reads, has something.
    Readable,
    /// The clock moved to the time that the process waited for, while programs of the host ran.
    ClockMoved,
    /// It wrote.
    Output {
        /// 1 or 2.
        fd: u32,
        /// What.
        bytes: Payload,
    },
    /// It ended, and all that it wrote itself has come.
    Ended {
        /// Its exit code, if it exited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<u32>,
        /// The number of the signal that ended it, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<u32>,
        /// The real time that it took.
        duration_ns: u64,
        /// Whether the machine's clock shows that time to have passed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        charged: bool,
        /// The last bytes that it was given and has not read: somebody else may.
        #[serde(default, skip_serializing_if = "is_zero")]
        unread_bytes: u64,
        /// Whether somebody whom it has left behind can still write.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        left_open: bool,
    },
    /// Nobody can write any more whom it has left behind.
    Closed,
}

impl NativeEvent {
    /// Whether the host did it, and so rang for it.
    pub fn is_of_host(&self) -> bool {
        !matches!(self, Self::Failed { .. } | Self::Lacking { .. } | Self::Input { .. })
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
