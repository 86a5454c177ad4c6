//! Requests.

use wasmtime::component::Resource;

use super::fields::{Fields, is_token};
use crate::abi::preview2::call::{Halt, interface};
use crate::abi::preview2::exchange::{
    Body, ErrorCode, FutureResponse, Head, Method, OutgoingBody, Scheme, Shared, charged, perform,
};
use crate::abi::{Process, trace};
use crate::net::URL_BYTES_MAX;

/// Nanoseconds of a millisecond.
const MILLISECOND_NS: u64 = 1_000_000;

interface! {
    /// `outgoing-request`
    outgoing_request:
    "[constructor]outgoing-request" => is(new_request),
    "[method]outgoing-request.body" => is(body),
    "[method]outgoing-request.method" => is(method),
    "[method]outgoing-request.set-method" => is(set_method),
    "[method]outgoing-request.path-with-query" => is(path),
    "[method]outgoing-request.set-path-with-query" => is(set_path),
    "[method]outgoing-request.scheme" => is(scheme),
    "[method]outgoing-request.set-scheme" => is(set_scheme),
    "[method]outgoing-request.authority" => is(authority),
    "[method]outgoing-request.set-authority" => is(set_authority),
    "[method]outgoing-request.headers" => is(headers),
}

interface! {
    /// `request-options`
    request_options:
    "[constructor]request-options" => is(new_options),
    "[method]request-options.connect-timeout" => is(connect_timeout),
    "[method]request-options.set-connect-timeout" => is(set_connect_timeout),
    "[method]request-options.first-byte-timeout" => is(first_byte_timeout),
    "[method]request-options.set-first-byte-timeout" => is(set_first_byte_timeout),
    "[method]request-options.between-bytes-timeout" => is(between_bytes_timeout),
    "[method]request-options.set-between-bytes-timeout" => is(set_between_bytes_timeout),
}

/// `wasi:http/types.outgoing-request`
pub struct OutgoingRequest {
    target: Box<Target>,
    headers: Fields,
    exchange: Shared,
}

/// What a request is for.
#[derive(Default)]
struct Target {
    method: Method,
    path: Option<String>,
    scheme: Option<Scheme>,
    authority: Option<String>,
}

/// `wasi:http/types.request-options`: times in nanoseconds.
#[derive(Default)]
pub struct RequestOptions {
    connect_timeout: Option<u64>,
    first_byte_timeout: Option<u64>,
}

type Request = Resource<OutgoingRequest>;
type Options = Resource<RequestOptions>;

fn new_request(process: &mut Process, (headers,): (Resource<Fields>,)) -> Result<Request, Halt> {
    trace!(process.guest, "");
    let headers = process.take(&headers)?;
    let exchange = Shared::new(process.guest.machine().run.memory.charge());
    process.add(OutgoingRequest { target: Box::default(), headers, exchange })
}

fn body(
    process: &mut Process,
    (request,): (Request,),
) -> Result<Result<Resource<OutgoingBody>, ()>, Halt> {
    trace!(process.guest, "{}", request.rep());
    let shared = process.resource(&request)?.exchange.clone();
    let mut exchange = shared.lock();
    if exchange.body != Body::None {
        return Ok(Err(()));
    }
    exchange.body = Body::Open;
    drop(exchange);
    process.add(OutgoingBody::new(shared)).map(Ok)
}

fn method(process: &mut Process, (request,): (Request,)) -> Result<Method, Halt> {
    trace!(process.guest, "{}", request.rep());
    Ok(process.resource(&request)?.target.method.clone())
}

fn set_method(
    process: &mut Process,
    (request, method): (Request, Method),
) -> Result<Result<(), ()>, Halt> {
    trace!(process.guest, "{}, method={:?}", request.rep(), method.as_str());
    let (is_valid, len) = (is_token(method.as_str()), method.as_str().len());
    set(process, &request, is_valid, len, |target| target.method = method)
}

fn path(process: &mut Process, (request,): (Request,)) -> Result<Option<String>, Halt> {
    trace!(process.guest, "{}", request.rep());
    Ok(process.resource(&request)?.target.path.clone())
}

fn set_path(
    process: &mut Process,
    (request, path): (Request, Option<String>),
) -> Result<Result<(), ()>, Halt> {
    trace!(process.guest, "{}, path={path:?}", request.rep());
    let is_of_path = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    let is_valid = path.as_ref().is_none_or(|path| path.bytes().all(is_of_path));
    let len = path.as_ref().map_or(0, String::len);
    set(process, &request, is_valid, len, |target| target.path = path)
}

fn scheme(process: &mut Process, (request,): (Request,)) -> Result<Option<Scheme>, Halt> {
    trace!(process.guest, "{}", request.rep());
    Ok(process.resource(&request)?.target.scheme.clone())
}

fn set_scheme(
    process: &mut Process,
    (request, scheme): (Request, Option<Scheme>),
) -> Result<Result<(), ()>, Halt> {
    trace!(process.guest, "{}", request.rep());
    // RFC 3986, 3.1
    let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let is_valid = match &scheme {
        Some(Scheme::Other(name)) => {
            name.starts_with(|first: char| first.is_ascii_alphabetic())
                && name.bytes().all(is_of_scheme)
        }
        _ => true,
    };
    let len = if let Some(Scheme::Other(name)) = &scheme { name.len() } else { 0 };
    set(process, &request, is_valid, len, |target| target.scheme = scheme)
}

fn authority(process: &mut Process, (request,): (Request,)) -> Result<Option<String>, Halt> {
    trace!(process.guest, "{}", request.rep());
    Ok(process.resource(&request)?.target.authority.clone())
}

fn set_authority(
    process: &mut Process,
    (request, authority): (Request, Option<String>),
) -> Result<Result<(), ()>, Halt> {
    trace!(process.guest, "{}, authority={authority:?}", request.rep());
    let is_valid = authority.as_deref().is_none_or(is_authority);
    let len = authority.as_ref().map_or(0, String::len);
    set(process, &request, is_valid, len, |target| target.authority = authority)
}

/// Whether `text` is a host, and a port if it has one (RFC 3986, 3.2), without a user's name.
fn is_authority(text: &str) -> bool {
    let end = if text.starts_with('[') { text.find(']').map(|at| at + 1) } else { text.find(':') };
    let (host, port) = text.split_at(end.unwrap_or(text.len()));
    let is_of_host = |byte: u8| byte.is_ascii_graphic() && !b"/?#\\@%".contains(&byte);
    let is_port = |port: &str| {
        port.strip_prefix(':').is_some_and(|port| port.is_empty() || port.parse::<u16>().is_ok())
    };
    !host.is_empty() && host.bytes().all(is_of_host) && (port.is_empty() || is_port(port))
}

/// Changes `request` if the new value, of `len` bytes, `is_valid`.
fn set(
    process: &mut Process,
    request: &Request,
    is_valid: bool,
    len: usize,
    change: impl FnOnce(&mut Target),
) -> Result<Result<(), ()>, Halt> {
    if !is_valid || len > URL_BYTES_MAX {
        return Ok(Err(()));
    }
    // What was there before stays charged.
    let grown = process.resource(request)?.headers.charge.grow(len as u64);
    charged(process, grown)?;
    change(&mut process.resource(request)?.target);
    Ok(Ok(()))
}

fn headers(process: &mut Process, (request,): (Request,)) -> Result<Resource<Fields>, Halt> {
    trace!(process.guest, "{}", request.rep());
    let entries = process.resource(&request)?.headers.entries.clone();
    let fields = Fields::of_message(process, entries)?;
    process.add_child(fields, &request)
}

fn new_options(process: &mut Process, (): ()) -> Result<Options, Halt> {
    trace!(process.guest, "");
    process.add(RequestOptions::default())
}

fn connect_timeout(process: &mut Process, (options,): (Options,)) -> Result<Option<u64>, Halt> {
    trace!(process.guest, "{}", options.rep());
    Ok(process.resource(&options)?.connect_timeout)
}

fn set_connect_timeout(
    process: &mut Process,
    (options, ns): (Options, Option<u64>),
) -> Result<Result<(), ()>, Halt> {
    trace!(process.guest, "{}, ns={ns:?}", options.rep());
    process.resource(&options)?.connect_timeout = ns;
    Ok(Ok(()))
}

fn first_byte_timeout(process: &mut Process, (options,): (Options,)) -> Result<Option<u64>, Halt> {
    trace!(process.guest, "{}", options.rep());
    Ok(process.resource(&options)?.first_byte_timeout)
}

fn set_first_byte_timeout(
    process: &mut Process,
    (options, ns): (Options, Option<u64>),
) -> Result<Result<(), ()>, Halt> {
    trace!(process.guest, "{}, ns={ns:?}", options.rep());
    process.resource(&options)?.first_byte_timeout = ns;
    Ok(Ok(()))
}

fn between_bytes_timeout(
    process: &mut Process,
    (options,): (Options,),
) -> Result<Option<u64>, Halt> {
    trace!(process.guest, "{}", options.rep());
    process.resource(&options)?;
    Ok(None)
}

/// There is no such timeout, which the interface allows to answer.
fn set_between_bytes_timeout(
    process: &mut Process,
    (options, ns): (Options, Option<u64>),
) -> Result<Result<(), ()>, Halt> {
    trace!(process.guest, "{}, ns={ns:?}", options.rep());
    process.resource(&options)?;
    Ok(ns.map_or(Ok(()), |_| Err(())))
}

impl OutgoingRequest {
    /// What is asked.
    ///
    /// # Errors
    /// The code for what cannot be asked.
    fn head(self, options: &RequestOptions) -> Result<(Head, Shared), ErrorCode> {
        let scheme = match &self.target.scheme {
            Some(Scheme::Http) => "http",
            None | Some(Scheme::Https) => "https",
            Some(Scheme::Other(_)) => return Err(ErrorCode::HttpProtocolError),
        };
        let Some(authority) = &self.target.authority else {
            return Err(ErrorCode::HttpRequestUriInvalid);
        };
        if self.target.method == Method::Connect {
            return Err(ErrorCode::HttpRequestMethodInvalid);
        }
        let path = self.target.path.as_deref().unwrap_or("/");
        let slash = if path.starts_with('/') { "" } else { "/" };
        // A timeout of less than a millisecond is one.
        let ms = |ns: u64| ns.div_ceil(MILLISECOND_NS);
        let url = format!("{scheme}://{authority}{slash}{path}");
        if url.len() > URL_BYTES_MAX {
            return Err(ErrorCode::HttpRequestUriTooLong);
        }
        let Fields { entries: headers, charge, .. } = self.headers;
        let head = Head {
            method: self.target.method.as_str().to_owned(),
            url,
            headers,
            connect_timeout_ms: options.connect_timeout.map(ms),
            first_byte_timeout_ms: options.first_byte_timeout.map(ms),
            _charge: charge,
        };
        Ok((head, self.exchange))
    }
}

/// A request that was handed over, or why it cannot be sent.
pub struct Handed(Result<Shared, ErrorCode>);

/// Takes the request away.
pub fn hand_over(
    process: &mut Process,
    (request, options): (Request, Option<Options>),
) -> Result<Handed, Halt> {
    let options = options.map(|options| process.take(&options)).transpose()?.unwrap_or_default();
    let request = process.take(&request)?;
    let taken = request.head(&options);
    let url = taken.as_ref().map_or("", |(head, _)| head.url.as_str());
    trace!(process.guest, "url={url:?}");
    Ok(Handed(taken.map(|(head, exchange)| {
        exchange.lock().head = Some(head);
        exchange
    })))
}

/// Makes the request, unless its body is to come.
pub fn handle(
    process: &mut Process,
    Handed(handed): &Handed,
) -> Result<Result<Resource<FutureResponse>, ErrorCode>, Halt> {
    let exchange = match handed {
        Ok(exchange) => exchange,
        Err(code) => return Ok(Err(code.clone())),
    };
    perform(process, exchange)?;
    process.add(FutureResponse::new(exchange.clone())).map(Ok)
}
