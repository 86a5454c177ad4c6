//! Rank 0: what everything else stands on. Knows nothing of wasm, guests or files of guests.
//!
//! `disk` and `ambient` are the only files of the crate that touch the host's files, clock and
//! environment by path or by global; `clippy.toml` bans those calls elsewhere.

pub mod ambient;
pub mod atomic_file;
pub mod digest;
pub mod disk;
pub mod errno;
pub mod exhausted;
pub mod own;
pub mod readable;
