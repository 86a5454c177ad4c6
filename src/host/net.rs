//! `net.http`, `net.read` and `net.close`: HTTP requests that the host makes for guests.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::error::HostError;
use super::json;
use crate::base::json_body;
use crate::kernel::process::Pid;
use crate::net::{
    EgressPolicy, HttpBody, HttpClient, HttpError, HttpFailure, HttpLimits, HttpRequest,
    REDIRECTS_MAX,
};
use crate::tape::Recorder;

/// Limit of open streamed responses.
const OPEN_MAX: usize = 16;

/// Default and maximum of bytes that one `net.read` returns.
const READ_BYTES: usize = 64 << 10;
const READ_BYTES_MAX: usize = 1 << 20;

/// The HTTP client, and the open streamed responses.
#[derive(Default)]
pub(super) struct Net {
    pub client: HttpClient,
    open: BTreeMap<u64, Open>,
    /// Number of streamed responses so far.
    opened: u64,
}

/// A streamed response that has not ended.
struct Open {
    owner: Pid,
    body: HttpBody,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestParams {
    url: String,
    method: Option<String>,
    #[serde(default)]
    headers: Headers,
    body: Option<String>,
    body_base64: Option<String>,
    timeout_ms: Option<u64>,
    connect_timeout_ms: Option<u64>,
    first_byte_timeout_ms: Option<u64>,
    redirects_max: Option<u32>,
    #[serde(default)]
    stream: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Headers {
    Pairs(Vec<(String, String)>),
    Object(BTreeMap<String, String>),
}

impl Default for Headers {
    fn default() -> Self {
        Self::Pairs(Vec::new())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadParams {
    handle: u64,
    max_bytes: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CloseParams {
    handle: u64,
}

/// A request, and how its response is returned.
pub(super) struct Asked {
    request: HttpRequest,
    timeout: Option<Duration>,
    connect_timeout: Option<Duration>,
    first_byte_timeout: Option<Duration>,
    redirects_max: Option<u32>,
    stream: bool,
}

impl Asked {
    /// Parses the parameters of operation `name`.
    ///
    /// # Errors
    /// [`HostError::Params`].
    pub fn parse(name: &str, params: &Value) -> Result<Self, HostError> {
        let params: RequestParams = json::take(name, params)?;
        let body = match (params.body, params.body_base64) {
            (Some(_), Some(_)) => {
                return Err(HostError::params(name, "give `body` or `body_base64`, not both"));
            }
            (Some(text), None) => text.into_bytes(),
            (None, Some(text)) => json_body::decode(&text).map_err(|error| {
                HostError::params(name, format!("invalid base64 in `body_base64`: {error}"))
            })?,
            (None, None) => Vec::new(),
        };
        let headers = match params.headers {
            Headers::Pairs(pairs) => pairs,
            Headers::Object(object) => object.into_iter().collect(),
        };
        let method = params.method.unwrap_or_else(|| "GET".to_owned());
        let request = HttpRequest { method, url: params.url, headers, body };
        if params.redirects_max.is_some_and(|count| count > REDIRECTS_MAX) {
            let problem = format!("`redirects_max` is at most {REDIRECTS_MAX}");
            return Err(HostError::params(name, problem));
        }
        let duration = |ms: Option<u64>| ms.map(Duration::from_millis);
        Ok(Self {
            request,
            timeout: duration(params.timeout_ms),
            connect_timeout: duration(params.connect_timeout_ms),
            first_byte_timeout: duration(params.first_byte_timeout_ms),
            redirects_max: params.redirects_max,
            stream: params.stream,
        })
    }

    /// `limits`, lowered as it is asked, so that the answer comes within `time_left`.
    fn lower(&self, limits: HttpLimits, time_left: Option<Duration>) -> HttpLimits {
        let timeouts = [self.timeout, time_left].into_iter().flatten();
        // A program cannot raise what the host allows.
        let lower = |asked: Option<Duration>, allowed| asked.into_iter().chain(allowed).min();
        HttpLimits {
            timeout: timeouts.fold(limits.timeout, Duration::min),
            connect_timeout: lower(self.connect_timeout, limits.connect_timeout),
            first_byte_timeout: lower(self.first_byte_timeout, limits.first_byte_timeout),
            redirects_max: limits.redirects_max.min(self.redirects_max.unwrap_or(REDIRECTS_MAX)),
            ..limits
        }
    }
}

impl Net {
    /// Sets the egress policy of later requests.
    pub fn set_policy(&mut self, policy: EgressPolicy) {
        self.client = std::mem::take(&mut self.client).policy(policy);
    }

    /// Makes a request for the process `owner`. The response has at most `bytes_max` bytes and comes within `time_left`.
    ///
    /// # Errors
    /// [`HostError`]: `Params`, `EgressBlocked`, `Failed`, `Http`, `TooLong`.
    pub fn http(
        &mut self,
        name: &str,
        owner: Pid,
        asked: &Asked,
        tape: Option<Recorder>,
        time_left: Option<Duration>,
        bytes_max: u64,
    ) -> Result<Value, HostError> {
        let fail = |error| failed(name, error);
        let limits = asked.lower(self.client.bounds(), time_left);
        let client = self.client.clone().limits(limits).tape(tape);
        if asked.stream && self.open.len() == OPEN_MAX {
            let message =
                format!("{OPEN_MAX} streamed responses are open; close one with net.close");
            let (name, failure) = (name.to_owned(), HttpFailure::TooManyOpen);
            return Err(HostError::Http { name, message, failure });
        }
        let mut response = client.send(&asked.request).map_err(fail)?;
        let mut answer = json!({
            "url": response.url, "status": response.status, "headers": response.headers,
        });
        if asked.stream {
            self.opened += 1;
            self.open.insert(self.opened, Open { owner, body: response.body });
            answer["handle"] = self.opened.into();
            return Ok(answer);
        }
        let (mut whole, mut piece) = (Vec::new(), vec![0; READ_BYTES]);
        loop {
            let count = response.body.read(&mut piece).map_err(fail)?;
            if count == 0 {
                break;
            }
            whole.extend_from_slice(&piece[..count]);
            if whole.len() as u64 > bytes_max {
                let what = "the response (stream it with \"stream\": true)";
                let (name, what) = (name.to_owned(), what.to_owned());
                return Err(HostError::TooLong { name, what, limit_bytes: bytes_max });
            }
        }
        json_body::put(&mut answer, whole);
        Ok(answer)
    }

    /// Reads the next bytes of a streamed response of `owner`, and closes it at its end.
    ///
    /// # Errors
    /// [`HostError`]: `Params`, `Failed`.
    pub fn read(&mut self, name: &str, owner: Pid, params: &Value) -> Result<Value, HostError> {
        let ReadParams { handle, max_bytes } = json::take(name, params)?;
        let open = self.open.get_mut(&handle).filter(|open| open.owner == owner);
        let open = open.ok_or_else(|| not_open(name, handle))?;
        let mut bytes = vec![0; max_bytes.unwrap_or(READ_BYTES).clamp(1, READ_BYTES_MAX)];
        let read = open.body.read(&mut bytes);
        if !matches!(read, Ok(1..)) {
            self.open.remove(&handle);
        }
        bytes.truncate(read.map_err(|error| failed(name, error))?);
        let mut answer = json!({ "end": bytes.is_empty() });
        json_body::put(&mut answer, bytes);
        Ok(answer)
    }

    /// Closes a streamed response of `owner` before its end.
    ///
    /// # Errors
    /// [`HostError`]: `Params`, `Failed`.
    pub fn close(&mut self, name: &str, owner: Pid, params: &Value) -> Result<Value, HostError> {
        let CloseParams { handle } = json::take(name, params)?;
        if self.open.get(&handle).is_none_or(|open| open.owner != owner) {
            return Err(not_open(name, handle));
        }
        self.open.remove(&handle);
        Ok(Value::Null)
    }

    /// Closes the streamed responses of `owner`.
    pub fn close_all_of(&mut self, owner: Pid) {
        self.open.retain(|_, open| open.owner != owner);
    }
}

fn not_open(name: &str, handle: u64) -> HostError {
    HostError::failed(name, format!("no open response {handle}: it has ended or was closed"))
}

fn failed(name: &str, error: HttpError) -> HostError {
    match error {
        HttpError::Blocked(blocked) => HostError::EgressBlocked { message: blocked.to_string() },
        HttpError::Request(problem) => HostError::params(name, problem),
        error => match error.failure() {
            Some(failure) => {
                HostError::Http { name: name.to_owned(), message: error.to_string(), failure }
            }
            None => HostError::failed(name, error.to_string()),
        },
    }
}
