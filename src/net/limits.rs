//! Limits of requests.

use std::time::Duration;

/// Redirects followed by default.
pub const REDIRECTS_MAX: u32 = 10;

/// Limits of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HttpLimits {
    /// Time from the start to the end of the answer's body, with redirects. Default: 60 s.
    pub timeout: Duration,
    /// Time in which the connection is made, each time. Default: none of its own.
    pub connect_timeout: Option<Duration>,
    /// Time from the sent request to the head of its answer, each time. Default: none of its own.
    pub first_byte_timeout: Option<Duration>,
    /// Longest body of a request, in bytes. Default: 16 MiB.
    pub request_bytes_max: u64,
    /// Longest body of an answer, in bytes. Default: 64 MiB.
    pub response_bytes_max: u64,
    /// Most redirects to follow; with 0 a redirect is the response. Default: [`REDIRECTS_MAX`].
    pub redirects_max: u32,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(1),
            connect_timeout: None,
            first_byte_timeout: None,
            request_bytes_max: 16 << 20,
            response_bytes_max: 64 << 20,
            redirects_max: REDIRECTS_MAX,
        }
    }
}
