//! One request and its answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::types::{DnsErrorPayload, ErrorCode};
use crate::abi::Process;
use crate::abi::preview2::call::Halt;
use crate::abi::preview2::host_answer::host_answer;
use crate::base::errno::Errno;
use crate::base::json_body;
use crate::kernel::guest::Fault;
use crate::kernel::machine::limits::{Limit, Stop};
use crate::kernel::machine::memory::{Charge, OutOfMemory};

/// A field, its name as it is spelled.
pub type Field = (String, Vec<u8>);

/// An exchange: the request, its body and what comes back are resources of their own, and have it together.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Exchange>>);

pub struct Exchange {
    /// What is asked, once the request was handed over.
    pub head: Option<Head>,
    pub body: Body,
    pub bytes: Vec<u8>,
    /// Of `bytes`.
    pub charge: Charge,
    /// What is asked, from the first attempt on: the parameters of `net.http`, or why there are none.
    params: Option<Result<Arc<str>, ErrorCode>>,
    pub answer: Option<Result<Answer, ErrorCode>>,
}

/// How far the body of a request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// It was not asked for: it is empty.
    None,
    Open,
    Finished,
    /// It was dropped before it was finished.
    Abandoned,
}

/// A request without its body.
pub struct Head {
    pub method: String,
    pub url: String,
    pub headers: Vec<Field>,
    pub connect_timeout_ms: Option<u64>,
    pub first_byte_timeout_ms: Option<u64>,
    /// Of the rest.
    pub _charge: Charge,
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

/// What a server answered.
pub struct Answer {
    pub status: u16,
    pub headers: Vec<Field>,
    pub body: Source,
    /// Of the headers.
    pub charge: Charge,
}

impl Shared {
    pub fn new(charge: Charge) -> Self {
        let body = Body::None;
        let (bytes, params, answer) = (Vec::new(), None, None);
        let exchange = Exchange { head: None, body, bytes, charge, params, answer };
        Self(Arc::new(Mutex::new(exchange)))
    }

    pub fn lock(&self) -> MutexGuard<'_, Exchange> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exchange {
    /// Whether all that is asked is known, and was not asked.
    pub fn is_due(&self) -> bool {
        self.head.is_some() && self.answer.is_none() && self.body != Body::Open
    }

    /// Checks the length of the body.
    ///
    /// # Errors
    /// `HTTP-request-body-size` if it is not the one that the headers tell.
    pub fn check_length(&self) -> Result<(), ErrorCode> {
        let headers = self.head.iter().flat_map(|head| &head.headers);
        let mut told = headers.filter(|(name, _)| is_content_length(name));
        let length = self.bytes.len() as u64;
        let is_length = |value: &[u8]| {
            std::str::from_utf8(value).is_ok_and(|text| text.trim().parse() == Ok(length))
        };
        if told.all(|(_, value)| is_length(value)) {
            return Ok(());
        }
        Err(ErrorCode::HttpRequestBodySize(Some(length)))
    }

    /// The parameters of `net.http`: the same ones each time.
    ///
    /// # Errors
    /// What the request cannot be sent for.
    fn params(&mut self, bytes_max: u64) -> Result<Arc<str>, ErrorCode> {
        if let Some(params) = &self.params {
            return params.clone();
        }
        let params = self.take_params(bytes_max);
        self.params.insert(params).clone()
    }

    /// The parameters of `net.http`. They take the body away.
    ///
    /// # Errors
    /// What the request cannot be sent for.
    fn take_params(&mut self, bytes_max: u64) -> Result<Arc<str>, ErrorCode> {
        let head = self.head.as_ref().ok_or_else(|| ErrorCode::internal("there is no request"))?;
        if self.body == Body::Abandoned {
            return Err(ErrorCode::internal("the body of the request was not finished"));
        }
        self.check_length()?;
        // What is too long is refused before it is copied.
        if self.bytes.len() as u64 > bytes_max {
            return Err(ErrorCode::HttpRequestBodySize(Some(self.bytes.len() as u64)));
        }
        let mut headers = Vec::with_capacity(head.headers.len());
        for (name, value) in head.headers.iter().filter(|(name, _)| !is_content_length(name)) {
            let value = std::str::from_utf8(value)
                .map_err(|_| ErrorCode::internal(format!("the header {name} is not UTF-8")))?;
            headers.push((name, value));
        }
        let mut params = json!({
            "url": head.url, "method": head.method, "headers": headers, "stream": true,
            // Components follow redirects themselves.
            "redirects_max": 0,
        });
        let timeouts = [
            ("connect_timeout_ms", head.connect_timeout_ms),
            ("first_byte_timeout_ms", head.first_byte_timeout_ms),
        ];
        for (name, timeout_ms) in timeouts {
            if let Some(timeout_ms) = timeout_ms {
                params[name] = timeout_ms.into();
            }
        }
        if !self.bytes.is_empty() {
            json_body::put(&mut params, std::mem::take(&mut self.bytes));
        }
        Ok(params.to_string().into())
    }
}

fn is_content_length(name: &str) -> bool {
    name.eq_ignore_ascii_case("content-length")
}

/// Makes the request of `exchange` if that is due, and keeps the answer there. It may wait, and is then called again.
///
/// # Errors
/// [`Halt`]: `Wait`, `Stop`.
pub fn perform(process: &mut Process, exchange: &Shared) -> Result<(), Halt> {
    if !exchange.lock().is_due() {
        return Ok(());
    }
    let bytes_max = process.guest.machine().limits().host_call_bytes_max;
    let params = exchange.lock().params(bytes_max);
    let answer = match params {
        Ok(params) => match ask(process, "net.http", &params)? {
            Ok(answer) => {
                let mut charge = process.guest.machine().run.memory.charge();
                grow(process, &mut charge, process.guest.host_reply().len() as u64)?;
                Answer::of(&answer, charge)
            }
            Err(code) => Err(code),
        },
        Err(code) => Err(code),
    };
    let mut exchange = exchange.lock();
    (exchange.head, exchange.params) = (None, None);
    exchange.answer = Some(answer);
    Ok(())
}

/// Calls the operation `name` of the host. It may wait, and is then called again.
///
/// # Errors
/// [`Halt`]: `Wait`, `Stop`.
pub fn ask(
    process: &mut Process,
    name: &str,
    params: &str,
) -> Result<Result<Value, ErrorCode>, Halt> {
    match process.guest.host_call(name, params.as_bytes()) {
        Ok(_) => Ok(host_answer(&process.guest).map_err(|error| error_code(&error))),
        Err(Fault::Errno(errno)) => Ok(Err(refused(errno, params.len() as u64))),
        Err(fault) => Err(fault.into()),
    }
}

/// Ends the answer `handle` early, if there is one.
///
/// # Errors
/// [`Halt`]: `Wait`, `Stop`.
pub fn close(process: &mut Process, handle: Option<u64>) -> Result<(), Halt> {
    if let Some(handle) = handle {
        // It may have ended by itself.
        let _ = ask(process, "net.close", &json!({ "handle": handle }).to_string())?;
    }
    Ok(())
}

/// The code for a call of the host that the kernel refused.
fn refused(errno: Errno, bytes: u64) -> ErrorCode {
    match errno {
        Errno::Nosys => ErrorCode::HttpRequestDenied,
        Errno::Toobig => ErrorCode::HttpRequestBodySize(Some(bytes)),
        Errno::Again => ErrorCode::ConnectionLimitReached,
        errno => ErrorCode::internal(errno.to_string()),
    }
}

/// The code for `error` of the host.
fn error_code(error: &Value) -> ErrorCode {
    let message = error["message"].as_str().map(str::to_owned);
    match (error["kind"].as_str(), error["code"].as_str()) {
        (Some("egress_blocked" | "unsupported"), _) => ErrorCode::HttpRequestDenied,
        (_, Some("resolve")) => {
            ErrorCode::DnsError(DnsErrorPayload { rcode: message, info_code: None })
        }
        (_, Some("too_many_open")) => ErrorCode::ConnectionLimitReached,
        (_, Some("refused")) => ErrorCode::ConnectionRefused,
        (_, Some("connection")) => ErrorCode::ConnectionTerminated,
        (_, Some("incomplete")) => ErrorCode::HttpResponseIncomplete,
        (_, Some("protocol")) => ErrorCode::HttpProtocolError,
        (_, Some("timeout")) => ErrorCode::HttpResponseTimeout,
        (_, Some("tls")) => ErrorCode::TlsProtocolError,
        (Some("too_long"), _) | (_, Some("too_long")) => ErrorCode::HttpResponseBodySize(None),
        _ => ErrorCode::InternalError(message),
    }
}

impl Answer {
    /// What the host, or a mock or a bridge in its place, answered.
    ///
    /// # Errors
    /// `internal-error` for what is no answer of `net.http`.
    fn of(answer: &Value, charge: Charge) -> Result<Self, ErrorCode> {
        let no = || ErrorCode::internal("the host's answer is not one of net.http");
        let status = answer["status"].as_u64().and_then(|it| u16::try_from(it).ok());
        let field = |name: &str, value: &Value| {
            Some((name.to_owned(), value.as_str()?.as_bytes().to_vec()))
        };
        let headers: Option<Vec<Field>> = match &answer["headers"] {
            Value::Null => Some(Vec::new()),
            Value::Array(pairs) => {
                pairs.iter().map(|pair| field(pair[0].as_str()?, &pair[1])).collect()
            }
            Value::Object(object) => {
                object.iter().map(|(name, value)| field(name, value)).collect()
            }
            _ => None,
        };
        let body = match answer["handle"].as_u64() {
            Some(handle) => Source::Handle(handle),
            None => Source::Bytes(body_of(answer)?),
        };
        Ok(Self { status: status.ok_or_else(no)?, headers: headers.ok_or_else(no)?, body, charge })
    }
}

/// The bytes of an answer.
///
/// # Errors
/// `internal-error` for what is no base64.
pub fn body_of(answer: &Value) -> Result<Vec<u8>, ErrorCode> {
    json_body::get(answer).map_err(|_| ErrorCode::internal("the host's answer has invalid base64"))
}

/// Charges `bytes` more.
///
/// # Errors
/// The limit of memory.
pub fn grow(process: &mut Process, charge: &mut Charge, bytes: u64) -> Result<(), Halt> {
    charged(process, charge.grow(bytes))
}

/// What it means that memory has `grown`, or not.
///
/// # Errors
/// The limit of memory.
pub fn charged(process: &mut Process, grown: Result<(), OutOfMemory>) -> Result<(), Halt> {
    grown.map_err(|_| {
        process.guest.machine_mut().note_limit(Limit::Memory);
        Stop::Limit(Limit::Memory).into()
    })
}
