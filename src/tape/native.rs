//! Events between a native process and its program.

use serde::{Deserialize, Serialize};

use super::payload::Payload;
use crate::base::digest::Digest;

/// One event. Its name is the field `event`, with its other fields next to it.
///
/// Events of the host are in the order in which the machine processed them, so that a replay takes
/// the same turns.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum NativeEvent {
    /// The program could not be started.
    Failed {
        /// Why.
        message: String,
    },
    /// The host had no process, descriptor or memory left for it, or for a module; this ended the
    /// run.
    Lacking {
        /// The message.
        message: String,
    },
    /// It was given bytes to read; none mean the end of input.
    Input {
        /// The digest of the bytes.
        content_hash: Digest,
        /// The length.
        len_bytes: u64,
    },
    /// The bytes given last have been written to the program.
    Taken,
    /// The run's standard input, which it reads, became readable.
    Readable,
    /// The clock moved to the time that the process waits for, while native programs ran.
    ClockMoved,
    /// It wrote.
    Output {
        /// 1 or 2.
        fd: u32,
        /// The bytes.
        bytes: Payload,
    },
    /// It ended, and all its own output has been taken.
    Ended {
        /// The exit code, if it exited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<u32>,
        /// The signal that killed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<u32>,
        /// Real duration.
        duration_ns: u64,
        /// Whether the machine's clock moved by that duration.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        charged: bool,
        /// Number of bytes given to it that it did not read; they are given back.
        #[serde(default, skip_serializing_if = "is_zero")]
        unread_bytes: u64,
        /// Whether a process that it left behind holds an output open.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        left_open: bool,
    },
    /// All processes that it left behind have closed its outputs.
    Closed,
}

impl NativeEvent {
    /// Whether the host caused it, and rang the bell.
    pub fn is_of_host(&self) -> bool {
        !matches!(self, Self::Failed { .. } | Self::Lacking { .. } | Self::Input { .. })
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
