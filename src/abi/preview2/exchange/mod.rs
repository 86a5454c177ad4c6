//! Exchanges over HTTP: what the resources of `wasi:http` and the streams of their bodies have together.

mod body;
mod request;
mod types;

pub use body::{Ended, FutureResponse, IncomingBody, OutgoingBody, read, write};
pub use request::{Answer, Body, Field, Head, Shared, Source, charged, close, grow, perform};
pub use types::{ErrorCode, HeaderError, Method, Scheme};
