//! The limits of a server.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Limits, VfsLimits};

/// Longest content of one call, in bytes: of a file that is written, of standard input, of a script.
pub(super) const CONTENT_BYTES_MAX: usize = 4 << 20;

/// Longest request of a client, in bytes: a content in Base64 or with escapes, and some more.
pub(super) const REQUEST_BYTES_MAX: usize = 16 << 20;

/// Longest path, id, variable name or other short text of a client, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 4096;

/// Arguments of a program, variables, and mounts of one call.
pub(super) const WORDS_MAX: usize = 4096;

/// Entries of a directory, changes and programs in one answer.
pub(super) const ENTRIES_MAX: usize = 1000;

/// Outputs of a sandbox that are kept to read on.
pub(super) const OUTPUTS_MAX: usize = 8;

/// The limits of a server, in the `limits` of a policy file. Those of a sandbox hold for each; the others for all clients
/// together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Bounds {
    /// Memory of the programs of one exec, in bytes.
    pub memory_bytes_max: u64,
    /// Bytes that the changed files of a sandbox may take.
    pub upper_bytes_max: u64,
    /// Bytes that one exec may write to standard output and standard error together.
    pub output_bytes_max: u64,
    /// Processes of one exec at once.
    pub processes_max: u32,
    /// Real time of one exec in milliseconds, which is also the default.
    pub timeout_ms_max: u64,
    /// Bytes of one stream, file or patch in one answer. The rest is read with an offset.
    pub answer_bytes_max: u64,
    /// Clients with a session at once.
    pub clients_max: u32,
    /// Sandboxes at once.
    pub sandboxes_max: u32,
    /// Programs that run at once. Further ones wait.
    pub running_max: u32,
    /// Calls of one client at once, those that wait included. Further ones are refused.
    pub calls_max: u32,
    /// Bytes of all sandboxes: what their files and kept outputs take, and, while a program runs, what it may take.
    pub total_bytes_max: u64,
    /// Time in milliseconds after which a sandbox that nobody uses is dropped.
    pub idle_ms_max: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            memory_bytes_max: 1 << 30,
            upper_bytes_max: 256 << 20,
            output_bytes_max: 4 << 20,
            processes_max: 100,
            timeout_ms_max: 60_000,
            answer_bytes_max: 64 << 10,
            clients_max: 16,
            sandboxes_max: 16,
            running_max: 2,
            calls_max: 32,
            total_bytes_max: 4 << 30,
            idle_ms_max: 1_800_000,
        }
    }
}

impl Bounds {
    /// The limits of a sandbox.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            memory_bytes_max: self.memory_bytes_max,
            timeout: Some(self.timeout(None)),
            output_bytes_max: self.output_bytes_max,
            processes_max: self.processes_max,
            vfs: VfsLimits { upper_bytes_max: self.upper_bytes_max, ..VfsLimits::default() },
            ..Limits::default()
        }
    }

    /// The real time of an exec that asked for `timeout_ms`.
    pub(super) fn timeout(&self, timeout_ms: Option<u64>) -> Duration {
        Duration::from_millis(timeout_ms.unwrap_or(u64::MAX).min(self.timeout_ms_max))
    }

    /// Bytes of an answer to a call that asked for `bytes`.
    pub(super) fn answer_bytes(&self, bytes: Option<u64>, default: u64) -> usize {
        let bytes = bytes.unwrap_or(default).min(self.answer_bytes_max);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// The time after which an unused sandbox is dropped.
    pub(super) fn idle(&self) -> Duration {
        Duration::from_millis(self.idle_ms_max)
    }

    /// The first limit that is 0, or too small to work with.
    pub(super) fn problem(&self) -> Option<String> {
        let least = [
            ("memory_bytes_max", self.memory_bytes_max, 1 << 20),
            ("upper_bytes_max", self.upper_bytes_max, 4096),
            ("output_bytes_max", self.output_bytes_max, 1),
            ("processes_max", self.processes_max.into(), 1),
            ("timeout_ms_max", self.timeout_ms_max, 1),
            ("answer_bytes_max", self.answer_bytes_max, 16),
            ("clients_max", self.clients_max.into(), 1),
            ("sandboxes_max", self.sandboxes_max.into(), 1),
            ("running_max", self.running_max.into(), 1),
            ("calls_max", self.calls_max.into(), 1),
            ("idle_ms_max", self.idle_ms_max, 1),
        ];
        let small = least.into_iter().find(|(_, value, least)| value < least);
        if let Some((name, value, least)) = small {
            return Some(format!("{name} is {value}, and the least is {least}"));
        }
        let one = self.memory_bytes_max.saturating_add(self.upper_bytes_max);
        (self.total_bytes_max < one).then(|| {
            format!(
                "total_bytes_max is {}, and memory_bytes_max and upper_bytes_max of one sandbox are {one} together",
                self.total_bytes_max
            )
        })
    }
}
