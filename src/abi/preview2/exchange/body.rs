//! The bodies of an exchange.

use serde_json::json;
use wasmtime::component::Resource;

use super::request::{Body, Shared, Source, ask, body_of, grow};
use super::types::ErrorCode;
use crate::abi::Process;
use crate::abi::preview2::call::Halt;

/// Most bytes of one `net.read`.
const READ_BYTES_MAX: u64 = 1 << 20;

/// A resource behind which the host may have an open answer.
pub trait Ended {
    /// The handle of the answer that is to be closed.
    fn open(self) -> Option<u64>;
}

/// `wasi:http/types.future-incoming-response`
pub struct FutureResponse {
    pub exchange: Shared,
    /// Whether `get` gave the answer away.
    pub is_taken: bool,
}

impl FutureResponse {
    pub fn new(exchange: Shared) -> Self {
        Self { exchange, is_taken: false }
    }

    /// Whether `get` answers something.
    pub fn is_ready(&self) -> bool {
        self.is_taken || self.exchange.lock().answer.is_some()
    }
}

impl Ended for FutureResponse {
    fn open(self) -> Option<u64> {
        self.exchange.lock().answer.as_ref()?.as_ref().ok()?.body.handle()
    }
}

/// `wasi:http/types.incoming-body`
pub struct IncomingBody {
    pub source: Source,
    /// Whether its stream was asked for.
    pub is_streamed: bool,
}

impl IncomingBody {
    pub fn new(source: Source) -> Self {
        Self { source, is_streamed: false }
    }
}

impl Ended for IncomingBody {
    fn open(self) -> Option<u64> {
        self.source.handle()
    }
}

/// `wasi:http/types.outgoing-body`
pub struct OutgoingBody {
    pub exchange: Shared,
    /// Whether its stream was asked for.
    pub is_written: bool,
}

impl OutgoingBody {
    pub fn new(exchange: Shared) -> Self {
        Self { exchange, is_written: false }
    }
}

impl Drop for OutgoingBody {
    fn drop(&mut self) {
        let mut exchange = self.exchange.lock();
        if exchange.body != Body::Open {
            return;
        }
        exchange.body = Body::Abandoned;
        if exchange.is_due() {
            let message = "the body of the request was dropped before it was finished";
            exchange.answer = Some(Err(ErrorCode::internal(message)));
        }
    }
}

/// At most `len` of the next bytes of `body`, none at its end. It may wait, and is then called again.
///
/// # Errors
/// [`Halt`]: `Wait`, `Stop`. An error of the connection is returned.
pub fn read(
    process: &mut Process,
    body: u32,
    len: u64,
) -> Result<Result<Vec<u8>, ErrorCode>, Halt> {
    let body = Resource::<IncomingBody>::new_borrow(body);
    let handle = match &mut process.resource(&body)?.source {
        Source::Handle(handle) => *handle,
        Source::Bytes(bytes) => {
            let rest = bytes.split_off(bytes.len().min(usize::try_from(len).unwrap_or(usize::MAX)));
            return Ok(Ok(std::mem::replace(bytes, rest)));
        }
    };
    let params = json!({ "handle": handle, "max_bytes": len.min(READ_BYTES_MAX) });
    let answer = ask(process, "net.read", &params.to_string())?;
    let read = answer.and_then(|answer| body_of(&answer));
    if !read.as_ref().is_ok_and(|bytes| !bytes.is_empty()) {
        // It is closed at its end, and by an error.
        process.resource(&body)?.source = Source::Bytes(Vec::new());
    }
    Ok(read)
}

/// Adds `bytes` to `body`.
///
/// # Errors
/// The limit of memory.
pub fn write(process: &mut Process, body: u32, bytes: &[u8]) -> Result<(), Halt> {
    let body = Resource::<OutgoingBody>::new_borrow(body);
    let exchange = process.resource(&body)?.exchange.clone();
    let mut exchange = exchange.lock();
    grow(process, &mut exchange.charge, bytes.len() as u64)?;
    exchange.bytes.extend_from_slice(bytes);
    Ok(())
}
