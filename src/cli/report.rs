//! What a run says of itself, for people and for machines.

use std::time::Duration;

use belljar::{Limit, Outcome};
use serde::Serialize;

/// The report of `--json`. Fields are added, never renamed.
#[derive(Serialize, Debug)]
pub struct Report<'c> {
    /// `exited`, `trapped`, `timed_out`, `limit` or `not_started`.
    pub status: &'static str,
    /// The exit code of `belljar` itself.
    pub exit_code: u8,
    /// The guest's own exit code.
    pub guest_exit_code: Option<u32>,
    /// What went wrong, if anything did.
    pub error: Option<String>,
    /// The functions that were active at a trap.
    pub backtrace: Vec<String>,
    /// The limits that the guest ran into, whether they ended it or not.
    pub limits_hit: Vec<&'static str>,
    /// The program.
    pub program: String,
    /// Functions that it imports and nobody defines.
    pub unknown_imports: Vec<String>,
    /// Whether its compiled code came from the cache.
    pub cache_hit: bool,
    /// The virtual time that passed.
    pub virtual_time_ms: u64,
    /// Fuel that it used, where that is counted.
    pub fuel_used: Option<u64>,
    /// Bytes that it changed or created.
    pub upper_bytes: u64,
    /// The files that it changed.
    pub changes: &'c [Change],
    /// Whether the changes were written to the disk.
    pub applied: bool,
    /// How long things took, in real time.
    pub timings: Timings,
}

/// One changed file.
#[derive(Serialize, Debug)]
pub struct Change {
    /// Where it is mounted.
    pub mount: String,
    /// Its path below that.
    pub path: String,
    /// `added`, `modified`, `deleted`, or these after `directory_`, `symlink_` or `special_`.
    pub kind: &'static str,
    /// The path that it had before, if it was moved.
    pub renamed_from: Option<String>,
}

/// Real time in milliseconds.
#[derive(Serialize, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "the names of the report carry their unit")]
pub struct Timings {
    /// Reading the module and loading or compiling its code.
    pub load_ms: f64,
    /// Running the guest.
    pub run_ms: f64,
    /// Finding out what changed, and writing it.
    pub changes_ms: f64,
}

/// A duration in milliseconds.
pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// The word for how a guest ended.
pub fn status_of(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Exited(_) => "exited",
        Outcome::Trapped(_) => "trapped",
        Outcome::Limit(Limit::Timeout | Limit::VirtualTimeout | Limit::Fuel) => "timed_out",
        Outcome::Limit(_) => "limit",
    }
}

/// The option that raises a limit.
pub fn option_of(limit: Limit) -> &'static str {
    match limit {
        Limit::Memory => "--max-memory",
        Limit::Fuel => "--fuel",
        Limit::Timeout => "--timeout",
        Limit::VirtualTimeout => "--virtual-timeout",
        Limit::OpenFiles => "--max-files",
        Limit::Output => "--max-output",
        Limit::Upper => "--max-upper",
        _ => "the library's limits",
    }
}

/// `text` with control characters escaped: a guest that names files must not write on the terminal.
pub fn printable(text: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    text.chars().map(escape).collect()
}
