//! Bodies.

use wasmtime::component::Resource;

use super::fields::Fields;
use super::response::FutureTrailers;
use crate::abi::preview2::call::{Halt, interface};
use crate::abi::preview2::exchange::{
    Body, ErrorCode, IncomingBody, OutgoingBody, Shared, close, perform,
};
use crate::abi::preview2::input::InputStream;
use crate::abi::preview2::output::OutputStream;
use crate::abi::{Process, trace};

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

/// What is left of an answer, to be closed.
struct Rest(Option<u64>);

/// Takes the body away.
fn release(process: &mut Process, (body,): (Resource<IncomingBody>,)) -> Result<Rest, Halt> {
    trace!(process.guest, "{}", body.rep());
    Ok(Rest(process.take(&body)?.source.handle()))
}

fn finish_incoming(
    process: &mut Process,
    Rest(handle): &Rest,
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
    perform(process, exchange)?;
    Ok(Ok(()))
}
