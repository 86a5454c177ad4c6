//! `wasi:http`: requests that the host makes for components.
//!
//! A request is a host call of `net.http`, whose body is read with `net.read`: the egress policy, credentials, mocks,
//! limits, the trace and the tape hold as for modules that call the host themselves. It is made once its body is
//! complete, and no time of the machine passes meanwhile.
//!
//! Source: the WIT document `wasi:http` 0.2.

mod body;
mod fields;
mod request;
mod response;

pub(super) use fields::Fields;
pub(super) use request::{OutgoingRequest, RequestOptions};
pub(super) use response::{FutureTrailers, IncomingResponse};

use wasmtime::component::Resource;

use super::call::{Functions, Halt, interface};
use super::errors::{IoError, Origin};
use super::exchange::ErrorCode;
use crate::abi::{Process, trace};

/// `incoming-request`: of servers.
pub(super) enum IncomingRequest {}

/// `outgoing-response`: of servers.
pub(super) enum OutgoingResponse {}

/// `response-outparam`: of servers.
pub(super) enum ResponseOutparam {}

interface! {
    /// `wasi:http/outgoing-handler`
    outgoing_handler:
    "handle" => waits_after((request::hand_over, request::handle)),
}

interface! {
    /// Of `wasi:http/types`, what no resource has.
    of_no_resource:
    "http-error-code" => is(http_error_code),
}

/// `wasi:http/types`
///
/// # Errors
/// The name is already defined.
pub(super) fn types(functions: &mut Functions<'_, '_>) -> wasmtime::Result<bool> {
    Ok(of_no_resource(functions)?
        || fields::fields(functions)?
        || request::outgoing_request(functions)?
        || request::request_options(functions)?
        || response::future_incoming_response(functions)?
        || response::incoming_response(functions)?
        || body::incoming_body(functions)?
        || body::outgoing_body(functions)?
        || response::future_trailers(functions)?
        || of_servers(functions)?)
}

/// Methods of resources that only servers have.
fn of_servers(functions: &mut Functions<'_, '_>) -> wasmtime::Result<bool> {
    let of =
        ["[method]incoming-request.", "[method]outgoing-response.", "[method]response-outparam."];
    let is_method = of.iter().any(|of| functions.name().starts_with(of));
    if is_method {
        functions.cannot_be_called("belljar runs no servers")?;
    }
    Ok(is_method)
}

fn http_error_code(
    process: &mut Process,
    (error,): (Resource<IoError>,),
) -> Result<Option<ErrorCode>, Halt> {
    trace!(process.guest, "");
    Ok(match &process.resource(&error)?.origin {
        Origin::Http(code) => Some((**code).clone()),
        Origin::File | Origin::Stream => None,
    })
}
