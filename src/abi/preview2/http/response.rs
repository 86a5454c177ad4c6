//! Answers.

use wasmtime::component::Resource;

use super::fields::Fields;
use crate::abi::preview2::call::{Halt, interface};
use crate::abi::preview2::exchange::{
    Answer, Ended, ErrorCode, Field, FutureResponse, IncomingBody, Source,
};
use crate::abi::preview2::poll::{Condition, Pollable};
use crate::abi::{Process, trace};
use crate::kernel::machine::memory::Charge;

interface! {
    /// `future-incoming-response`
    future_incoming_response:
    "[method]future-incoming-response.subscribe" => is(subscribe),
    "[method]future-incoming-response.get" => waits(get),
}

interface! {
    /// `incoming-response`
    incoming_response:
    "[method]incoming-response.status" => is(status),
    "[method]incoming-response.headers" => is(headers),
    "[method]incoming-response.consume" => is(consume),
}

interface! {
    /// `future-trailers`
    future_trailers:
    "[method]future-trailers.subscribe" => is(subscribe_trailers),
    "[method]future-trailers.get" => is(get_trailers),
}

/// `wasi:http/types.incoming-response`
pub struct IncomingResponse {
    status: u16,
    headers: Vec<Field>,
    /// Of the headers.
    _charge: Charge,
    /// Until it is consumed.
    body: Option<Source>,
}

impl Ended for IncomingResponse {
    fn open(self) -> Option<u64> {
        self.body?.handle()
    }
}

/// `wasi:http/types.future-trailers`: there are none.
#[derive(Default)]
pub struct FutureTrailers {
    is_taken: bool,
}

/// What `get` of a future answers: nothing yet, what it has, or that it was taken.
type Got<T> = Option<Result<Result<T, ErrorCode>, ()>>;

fn subscribe(
    process: &mut Process,
    (future,): (Resource<FutureResponse>,),
) -> Result<Resource<Pollable>, Halt> {
    trace!(process.guest, "{}", future.rep());
    process.add_child(Pollable(Condition::Answered(future.rep())), &future)
}

fn get(
    process: &mut Process,
    (future,): &(Resource<FutureResponse>,),
) -> Result<Got<Resource<IncomingResponse>>, Halt> {
    trace!(process.guest, "{}", future.rep());
    let it = process.resource(future)?;
    if it.is_taken {
        return Ok(Some(Err(())));
    }
    let answer = it.exchange.lock().answer.take();
    it.is_taken = answer.is_some();
    Ok(match answer {
        None => {
            // The component asks before it has finished the request. Others get a turn.
            process.guest.sched_yield()?;
            None
        }
        Some(Err(code)) => Some(Ok(Err(code))),
        Some(Ok(answer)) => {
            let Answer { status, headers, body, charge } = answer;
            let response = IncomingResponse { status, headers, _charge: charge, body: Some(body) };
            Some(Ok(Ok(process.add(response)?)))
        }
    })
}

fn status(process: &mut Process, (response,): (Resource<IncomingResponse>,)) -> Result<u16, Halt> {
    trace!(process.guest, "{}", response.rep());
    Ok(process.resource(&response)?.status)
}

fn headers(
    process: &mut Process,
    (response,): (Resource<IncomingResponse>,),
) -> Result<Resource<Fields>, Halt> {
    trace!(process.guest, "{}", response.rep());
    let entries = process.resource(&response)?.headers.clone();
    let fields = Fields::of_message(process, entries)?;
    process.add_child(fields, &response)
}

fn consume(
    process: &mut Process,
    (response,): (Resource<IncomingResponse>,),
) -> Result<Result<Resource<IncomingBody>, ()>, Halt> {
    trace!(process.guest, "{}", response.rep());
    match process.resource(&response)?.body.take() {
        Some(body) => process.add(IncomingBody::new(body)).map(Ok),
        None => Ok(Err(())),
    }
}

fn subscribe_trailers(
    process: &mut Process,
    (future,): (Resource<FutureTrailers>,),
) -> Result<Resource<Pollable>, Halt> {
    trace!(process.guest, "{}", future.rep());
    process.add_child(Pollable(Condition::Met), &future)
}

/// Trailers of answers are not kept.
fn get_trailers(
    process: &mut Process,
    (future,): (Resource<FutureTrailers>,),
) -> Result<Got<Option<Resource<Fields>>>, Halt> {
    trace!(process.guest, "{}", future.rep());
    let is_taken = std::mem::replace(&mut process.resource(&future)?.is_taken, true);
    Ok(Some(if is_taken { Err(()) } else { Ok(Ok(None)) }))
}
