//! The HTTP client.

use std::fmt;
use std::io::{self, Read};
use std::time::{Duration, Instant};

use ureq::Body;
use ureq::http::{self, HeaderName, HeaderValue, Method};

use super::credentials::Credentials;
use super::resolver::agent;
use super::scrub::{Scrubbed, without_secrets};
use crate::base::ambient;
use crate::net::limits::HttpLimits;
use crate::net::{Allowed, EgressBlocked, EgressPolicy, HttpFailure};
use crate::tape::{Kind, Recorder};

/// Headers of the transport, which callers may not set.
const OF_TRANSPORT: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-connection",
];

/// Headers that are not sent to another origin after a redirect.
const OF_ORIGIN: [&str; 4] = ["authorization", "cookie", "origin", "proxy-authorization"];

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpRequest {
    /// The method, such as `GET`.
    pub method: String,
    /// An absolute `http` or `https` URL.
    pub url: String,
    /// The headers, in order.
    pub headers: Vec<(String, String)>,
    /// The body; may be empty.
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// Creates a `GET` of `url`.
    pub fn get(url: impl Into<String>) -> Self {
        Self { method: "GET".into(), url: url.into(), headers: Vec::new(), body: Vec::new() }
    }
}

/// The head of an answer, and its body to be read.
pub struct HttpResponse {
    /// The URL that answered, after redirects.
    pub url: String,
    /// The status, from 100 to 999.
    pub status: u16,
    /// The headers, in order, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: HttpBody,
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("HttpResponse");
        shown.field("url", &self.url).field("status", &self.status).finish_non_exhaustive()
    }
}

/// A request failed.
#[derive(thiserror::Error)]
pub enum HttpError {
    /// The policy blocks it, or a redirect.
    #[error(transparent)]
    Blocked(#[from] EgressBlocked),
    /// It is not valid.
    #[error("{0}")]
    Request(String),
    /// It timed out.
    #[error("{place} did not answer within {timeout_ms} ms")]
    Timeout {
        /// The server.
        place: String,
        /// The limit.
        timeout_ms: u128,
    },
    /// The connection failed.
    #[error("{place}: {message}")]
    Connection {
        /// The server.
        place: String,
        /// The error.
        message: String,
        /// The kind of error.
        failure: HttpFailure,
    },
    /// The answer is not HTTP.
    #[error("{place} does not speak HTTP: {message}")]
    BadAnswer {
        /// The server.
        place: String,
        /// The problem.
        message: String,
    },
    /// The request or the answer is too long.
    #[error("the {what} is longer than the limit of {bytes_max} bytes")]
    TooLong {
        /// What is too long.
        what: &'static str,
        /// The limit.
        bytes_max: u64,
    },
    /// Too many redirects.
    #[error("more than {redirects_max} redirects; the last one leads to {url}")]
    Redirects {
        /// The limit.
        redirects_max: u32,
        /// The target of the last one.
        url: String,
    },
}

crate::base::readable::readable!(HttpError);

impl HttpError {
    /// Why the exchange failed, unless it was not begun.
    pub fn failure(&self) -> Option<HttpFailure> {
        match self {
            Self::Blocked(_) | Self::Request(_) => None,
            Self::Timeout { .. } => Some(HttpFailure::Timeout),
            Self::Connection { failure, .. } => Some(*failure),
            Self::BadAnswer { .. } => Some(HttpFailure::Protocol),
            Self::TooLong { .. } => Some(HttpFailure::TooLong),
            Self::Redirects { .. } => Some(HttpFailure::Redirects),
        }
    }
}

/// Sends requests that a policy allows.
#[derive(Clone, Default)]
pub struct HttpClient {
    policy: EgressPolicy,
    credentials: Credentials,
    limits: HttpLimits,
    tape: Option<Recorder>,
    surface: Option<&'static str>,
}

impl HttpClient {
    /// Creates a client under `policy`.
    pub fn new(policy: EgressPolicy) -> Self {
        Self { policy, ..Self::default() }
    }

    /// Replaces the policy.
    #[must_use]
    pub fn policy(mut self, policy: EgressPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the credentials that it adds to requests.
    #[must_use]
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: HttpLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The limits.
    pub fn bounds(&self) -> HttpLimits {
        self.limits
    }

    /// What sends the requests, as errors and tapes name it. Default: `http`.
    #[must_use]
    pub fn surface(mut self, surface: &'static str) -> Self {
        self.surface = Some(surface);
        self
    }

    /// Records the decisions of the policy on `tape`.
    #[must_use]
    pub fn tape(mut self, tape: Option<Recorder>) -> Self {
        self.tape = tape;
        self
    }

    /// Sends `request` and follows redirects. Returns when the head of the last answer has arrived, whatever
    /// its status.
    ///
    /// # Errors
    /// [`HttpError`].
    pub fn send(&self, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
        let mut call = Call::new(request, self.limits)?;
        let mut allowed =
            self.decided(self.policy.check(self.surface.unwrap_or("http"), &request.url))?;
        for _ in 0..=self.limits.redirects_max {
            let response = self.send_once(&call, &allowed)?;
            let location = response.headers().get("location").map(HeaderValue::as_bytes);
            let location = location.and_then(|to| std::str::from_utf8(to).ok());
            let follows = self.limits.redirects_max > 0 && is_redirect(response.status().as_u16());
            let Some(to) = location.filter(|_| follows) else {
                return Ok(self.answer(&allowed, response));
            };
            let next = self.decided(self.policy.check_redirect(&allowed, to))?;
            call.follow(response.status().as_u16(), &allowed, &next);
            allowed = next;
        }
        let redirects_max = self.limits.redirects_max;
        Err(HttpError::Redirects { redirects_max, url: self.clean(allowed.url()) })
    }

    fn decided(&self, checked: Result<Allowed, EgressBlocked>) -> Result<Allowed, HttpError> {
        let allowed = checked.map_err(|blocked| self.blocked(blocked))?;
        if let Some(tape) = &self.tape {
            let mut decision = allowed.record(tape);
            if let Kind::Egress { url, host, reason, .. } = &mut decision {
                for text in [url, host, reason] {
                    *text = self.clean(text);
                }
            }
            tape.push(decision);
        }
        Ok(allowed)
    }

    /// Removes secrets from a refusal: the target of a redirect comes from a server, which may put one there.
    fn blocked(&self, blocked: EgressBlocked) -> HttpError {
        let blocked = EgressBlocked {
            url: self.clean(&blocked.url),
            host: self.clean(&blocked.host),
            reason: self.clean(&blocked.reason),
            ..blocked
        };
        if let Some(tape) = &self.tape {
            tape.push(blocked.record(tape));
        }
        blocked.into()
    }

    fn send_once(&self, call: &Call, allowed: &Allowed) -> Result<http::Response<Body>, HttpError> {
        let left = call.end.saturating_duration_since(ambient::instant_now());
        if left.is_zero() {
            return Err(self.timed_out(allowed, None));
        }
        let mut request = http::Request::builder().method(call.method.clone()).uri(allowed.url());
        for (name, value) in &call.headers {
            request = request.header(name, value);
        }
        let mut added = Vec::new();
        for credential in self.credentials.of(allowed) {
            if added.contains(&credential.header()) {
                continue;
            }
            added.push(credential.header());
            if call.headers.iter().any(|(name, _)| name == credential.header()) {
                return Err(HttpError::Request(format!(
                    "header {} is added by the host (credential {}): leave it out",
                    credential.header(),
                    credential.name()
                )));
            }
            request = request.header(credential.header(), credential.value());
        }
        let agent = agent(&self.policy, allowed, left, &self.limits);
        let bad = |error: http::Error| HttpError::Request(error.to_string());
        // Servers want to know how long the body of these is, also if there is none.
        let has_body = [Method::POST, Method::PUT, Method::PATCH].contains(&call.method);
        let sent = if call.body.is_empty() && !has_body {
            agent.run(request.body(()).map_err(bad)?)
        } else {
            agent.run(request.body(call.body.as_slice()).map_err(bad)?)
        };
        sent.map_err(|error| self.failed(allowed, error))
    }

    fn answer(&self, allowed: &Allowed, response: http::Response<Body>) -> HttpResponse {
        let secrets = self.credentials.secrets();
        let header = |(name, value): (&HeaderName, &HeaderValue)| {
            let value = String::from_utf8_lossy(value.as_bytes());
            (without_secrets(name.as_str(), &secrets), without_secrets(&value, &secrets))
        };
        let headers = response.headers().iter().map(header).collect();
        let status = response.status().as_u16();
        let reader = response.into_body().into_with_config().limit(u64::MAX).reader();
        let body = HttpBody {
            reader: Scrubbed::new(Box::new(reader), secrets),
            left: self.limits.response_bytes_max,
            bytes_max: self.limits.response_bytes_max,
            place: self.place(allowed),
            timeout_ms: self.limits.timeout.as_millis(),
        };
        HttpResponse { url: self.clean(allowed.url()), status, headers, body }
    }

    fn clean(&self, text: &str) -> String {
        without_secrets(text, &self.credentials.secrets())
    }

    fn place(&self, allowed: &Allowed) -> String {
        self.clean(&allowed.place())
    }

    /// The error of a request that met `timeout`, or that of all of it.
    fn timed_out(&self, allowed: &Allowed, timeout: Option<Duration>) -> HttpError {
        let timeout_ms = timeout.unwrap_or(self.limits.timeout).as_millis();
        HttpError::Timeout { place: self.place(allowed), timeout_ms }
    }

    fn failed(&self, allowed: &Allowed, error: ureq::Error) -> HttpError {
        let error = match error {
            ureq::Error::Other(other) => match other.downcast::<EgressBlocked>() {
                Ok(blocked) => return self.blocked(*blocked),
                Err(other) => ureq::Error::Other(other),
            },
            error => error,
        };
        match error {
            ureq::Error::Timeout(ureq::Timeout::Connect)
                if self.limits.connect_timeout.is_some() =>
            {
                self.timed_out(allowed, self.limits.connect_timeout)
            }
            ureq::Error::Timeout(ureq::Timeout::RecvResponse)
                if self.limits.first_byte_timeout.is_some() =>
            {
                self.timed_out(allowed, self.limits.first_byte_timeout)
            }
            ureq::Error::Timeout(_) => self.timed_out(allowed, None),
            error @ (ureq::Error::Protocol(_) | ureq::Error::Http(_)) => {
                let message = self.clean(&error.to_string());
                HttpError::BadAnswer { place: self.place(allowed), message }
            }
            error => {
                let (message, failure) = (self.clean(&error.to_string()), failure(&error));
                HttpError::Connection { place: self.place(allowed), message, failure }
            }
        }
    }
}

/// What kind of failure `error` of a connection is.
fn failure(error: &ureq::Error) -> HttpFailure {
    match error {
        ureq::Error::HostNotFound => HttpFailure::Resolve,
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::Pem(_) => HttpFailure::Tls,
        ureq::Error::ConnectionFailed => HttpFailure::Refused,
        ureq::Error::Io(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => HttpFailure::Refused,
            io::ErrorKind::UnexpectedEof => HttpFailure::Incomplete,
            // rustls hands its errors through as those of reading and writing.
            io::ErrorKind::InvalidData => HttpFailure::Tls,
            _ => HttpFailure::Connection,
        },
        _ => HttpFailure::Connection,
    }
}

fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// A request as it is sent; redirects change it.
struct Call {
    method: Method,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Vec<u8>,
    end: Instant,
}

impl Call {
    fn new(request: &HttpRequest, limits: HttpLimits) -> Result<Self, HttpError> {
        if request.body.len() as u64 > limits.request_bytes_max {
            let bytes_max = limits.request_bytes_max;
            return Err(HttpError::TooLong { what: "body of the request", bytes_max });
        }
        let method = Method::from_bytes(request.method.as_bytes())
            .ok()
            .filter(|method| *method != Method::CONNECT)
            .ok_or_else(|| HttpError::Request(format!("{:?} is not a method", request.method)))?;
        let mut headers = Vec::with_capacity(request.headers.len());
        for (name, value) in &request.headers {
            let bad = || HttpError::Request(format!("header {name:?} cannot be sent"));
            let name = HeaderName::try_from(name).map_err(|_| bad())?;
            if OF_TRANSPORT.contains(&name.as_str()) {
                return Err(HttpError::Request(format!("header {name} is reserved: leave it out")));
            }
            headers.push((name, HeaderValue::try_from(value).map_err(|_| bad())?));
        }
        let now = ambient::instant_now();
        // A deadline that the clock cannot represent never comes.
        let end = now.checked_add(limits.timeout).unwrap_or(now + Duration::from_hours(24));
        Ok(Self { method, headers, body: request.body.clone(), end })
    }

    /// Changes it for a redirect with `status` from `from` to `to`.
    fn follow(&mut self, status: u16, from: &Allowed, to: &Allowed) {
        let becomes_get = match status {
            303 => self.method != Method::HEAD,
            301 | 302 => self.method == Method::POST,
            _ => false,
        };
        if becomes_get {
            self.method = Method::GET;
            self.body.clear();
            self.headers.retain(|(name, _)| !name.as_str().starts_with("content-"));
        }
        let origin = |allowed: &Allowed| {
            let scheme = allowed.url().split(':').next().unwrap_or_default().to_owned();
            (scheme, allowed.host().to_owned(), allowed.port())
        };
        if origin(from) != origin(to) {
            self.headers.retain(|(name, _)| !OF_ORIGIN.contains(&name.as_str()));
        }
    }
}

/// The body of an answer, read as it arrives.
pub struct HttpBody {
    reader: Scrubbed<Box<dyn Read + Send + Sync>>,
    left: u64,
    bytes_max: u64,
    place: String,
    timeout_ms: u128,
}

impl HttpBody {
    /// The host and port that it comes from, for messages.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Reads some bytes; 0 at the end.
    ///
    /// # Errors
    /// [`HttpError`]: `Timeout`; `Connection` if it ends early; `TooLong`.
    pub fn read(&mut self, buf: &mut [u8]) -> Result<usize, HttpError> {
        let count = self.reader.read(buf).map_err(|error| self.failed(&error))?;
        let left = self.left.checked_sub(count as u64);
        let too_long = HttpError::TooLong { what: "body of the answer", bytes_max: self.bytes_max };
        self.left = left.ok_or(too_long)?;
        Ok(count)
    }

    /// Reads the rest.
    ///
    /// # Errors
    /// As [`HttpBody::read`].
    pub fn read_to_end(&mut self) -> Result<Vec<u8>, HttpError> {
        let (mut whole, mut piece) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            match self.read(&mut piece)? {
                0 => return Ok(whole),
                count => whole.extend_from_slice(&piece[..count]),
            }
        }
    }

    fn failed(&self, error: &io::Error) -> HttpError {
        let place = self.place.clone();
        let cause = error.get_ref().and_then(|inner| inner.downcast_ref());
        if let Some(ureq::Error::Timeout(_)) = cause {
            return HttpError::Timeout { place, timeout_ms: self.timeout_ms };
        }
        let message = format!("the answer ended early: {error}");
        HttpError::Connection { place, message, failure: HttpFailure::Incomplete }
    }
}
