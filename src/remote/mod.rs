//! Rank 1: servers of the Remote Execution API, version 2: how they are reached, and the contents that they keep.

mod action_cache;
pub mod code;
mod compression;
mod connection;
mod contents;
mod error;
mod execution;

pub use self::compression::{compressed, decompressed};
pub use self::connection::{Connection, SHA256, ServerConfig, again};
pub use self::contents::{BESIDE_BYTES, Blob, CONTENT_BYTES_MAX, is_digest, len_of};
pub use self::error::RemoteError;
pub use self::execution::Stage;
