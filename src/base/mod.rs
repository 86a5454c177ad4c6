//! Rank 0: used by everything else. Knows nothing of WebAssembly, guests or their files.
//!
//! `disk`, `ambient` and `stopwatch` are the only files of the crate that touch the host's files, clock and
//! environment by path or by global; `clippy.toml` bans those calls elsewhere.

#[cfg(windows)]
pub mod acl;
pub mod ambient;
pub mod atomic_file;
#[cfg(windows)]
pub mod change_time;
pub mod digest;
pub mod disk;
pub mod errno;
pub mod exhausted;
#[cfg(windows)]
pub mod job;
pub mod json_body;
pub mod json_texts;
pub mod last_use;
pub mod line_diff;
pub mod own;
pub mod patience;
#[cfg(feature = "cli")]
pub mod printable;
pub mod priority;
pub mod readable;
#[cfg(any(feature = "import", feature = "remote"))]
pub mod signature;
#[cfg(windows)]
pub mod std_handles;
pub mod stopwatch;
pub mod unified_diff;

/// Longest text of a signature, in bytes: comments of minisign have at most 8 KiB.
pub const SIGNATURE_BYTES_MAX: u64 = 16 << 10;
