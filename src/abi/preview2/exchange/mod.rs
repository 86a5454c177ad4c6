//! Exchanges over HTTP: what the resources of `wasi:http` and the streams of their bodies have together.

mod body;
mod request;
mod types;

pub use body::{Ended, IncomingBody, OutgoingBody, grow, read, write};
pub use request::{Body, Field, Head, Shared, Source, close, perform};
pub use types::{ErrorCode, HeaderError, Method, Scheme};
