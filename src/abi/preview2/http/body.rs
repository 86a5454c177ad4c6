//! Bodies.

use serde_json::json;
use wasmtime::component::Resource;

use super::Ended;
use super::exchange::{Body, Shared, ask, body_of, close, perform};
use super::fields::{Fields, grow};
use super::response::FutureTrailers;
use super::types::ErrorCode;
use crate::abi::preview2::call::{Halt, interface};
use crate::abi::preview2::errors::{Failure, IoError, Origin};
use crate::abi::preview2::input::InputStream;
use crate::abi::preview2::output::OutputStream;
use crate::abi::{Process, trace};
use crate::base::errno::Errno;

/// Most bytes of one `net.read`.
const READ_BYTES_MAX: u64 = 1 << 20;

interface! {
    /// `incoming-body`
    incoming_body:
    "[method]incoming-body.stream" => is(stream),
    "[static]incoming-body.finish" => waits_after((release, finish_incoming)),
}

interface! {
    /// `outgoing-body`
    outgoing_body:
    "[method]outgoing-body.write" => is(write_stream),
    "[static]outgoing-body.finish" => waits_after((complete, finish_outgoing)),
}

/// Where the bytes of an answer are.
pub enum Source {
    /// The host has them: a handle of `net.read`.
    Handle(u64),
    /// These are left.
    Bytes(Vec<u8>),
}

impl Source {
    /// What is to be closed if it is not read to its end.
    pub fn handle(&self) -> Option<u64> {
        match self {
            Self::Handle(handle) => Some(*handle),
            Self::Bytes(_) => None,
        }
    }
}

/// `wasi:http/types.incoming-body`
pub struct IncomingBody {
    pub source: Source,
    is_streamed: bool,
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
    exchange: Shared,
    is_written: bool,
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

fn stream(
    process: &mut Process,
    (body,): (Resource<IncomingBody>,),
) -> Result<Result<Resource<InputStream>, ()>, Halt> {
    trace!(process.guest, "{}", body.rep());
    let it = process.resource(&body)?;
    if std::mem::replace(&mut it.is_streamed, true) {
        return Ok(Err(()));
    }
    process.add_child(InputStream::of_body(body.rep()), &body).map(Ok)
}

/// At most `len` of the next bytes of `body`, none at its end. It may wait, and is then called again.
///
/// # Errors
/// An error of the connection, with its code.
pub fn read(process: &mut Process, body: u32, len: u64) -> Result<Vec<u8>, Failure> {
    let body = Resource::<IncomingBody>::new_borrow(body);
    let handle = match &mut process.resource(&body)?.source {
        Source::Handle(handle) => *handle,
        Source::Bytes(bytes) => {
            let rest = bytes.split_off(bytes.len().min(usize::try_from(len).unwrap_or(usize::MAX)));
            return Ok(std::mem::replace(bytes, rest));
        }
    };
    let params = json!({ "handle": handle, "max_bytes": len.min(READ_BYTES_MAX) });
    let answer = ask(process, "net.read", &params.to_string())?;
    let read = answer.and_then(|answer| body_of(&answer));
    if !read.as_ref().is_ok_and(|bytes| !bytes.is_empty()) {
        // It is closed at its end, and by an error.
        process.resource(&body)?.source = Source::Bytes(Vec::new());
    }
    read.map_err(|code| {
        let origin = Origin::Http(Box::new(code));
        Failure::Error(IoError { errno: Errno::Io, origin })
    })
}

/// Takes the body away; what is left of it is to be closed.
fn release(process: &mut Process, (body,): (Resource<IncomingBody>,)) -> Result<Option<u64>, Halt> {
    trace!(process.guest, "{}", body.rep());
    Ok(process.take(&body)?.source.handle())
}

fn finish_incoming(
    process: &mut Process,
    handle: &Option<u64>,
) -> Result<Resource<FutureTrailers>, Halt> {
    close(process, *handle)?;
    process.add(FutureTrailers::default())
}

fn write_stream(
    process: &mut Process,
    (body,): (Resource<OutgoingBody>,),
) -> Result<Result<Resource<OutputStream>, ()>, Halt> {
    trace!(process.guest, "{}", body.rep());
    let it = process.resource(&body)?;
    if std::mem::replace(&mut it.is_written, true) {
        return Ok(Err(()));
    }
    process.add_child(OutputStream::of_body(body.rep()), &body).map(Ok)
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

/// The request that a finished body completes, or why that cannot be sent.
struct Completed(Result<Shared, ErrorCode>);

fn complete(
    process: &mut Process,
    (body, trailers): (Resource<OutgoingBody>, Option<Resource<Fields>>),
) -> Result<Completed, Halt> {
    trace!(process.guest, "{}, trailers={}", body.rep(), trailers.is_some());
    let trailers = trailers.map(|trailers| process.take(&trailers)).transpose()?;
    let body = process.take(&body)?;
    let mut exchange = body.exchange.lock();
    exchange.body = Body::Finished;
    let has_trailers = trailers.is_some_and(|trailers| !trailers.entries.is_empty());
    let checked = if has_trailers {
        Err(ErrorCode::internal("belljar sends no trailers of requests"))
    } else {
        exchange.check_length()
    };
    if let Err(code) = &checked {
        exchange.answer = Some(Err(code.clone()));
    }
    drop(exchange);
    Ok(Completed(checked.map(|()| body.exchange.clone())))
}

fn finish_outgoing(
    process: &mut Process,
    Completed(completed): &Completed,
) -> Result<Result<(), ErrorCode>, Halt> {
    let exchange = match completed {
        Ok(exchange) => exchange,
        Err(code) => return Ok(Err(code.clone())),
    };
    let is_due = exchange.lock().is_due();
    if is_due {
        perform(process, exchange)?;
    }
    Ok(Ok(()))
}
