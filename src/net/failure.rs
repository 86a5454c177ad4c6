//! Why requests fail.

/// Why a request over HTTP failed, for programs: a message is for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HttpFailure {
    /// The name of the server has no address.
    Resolve,
    /// Nothing listens there.
    Refused,
    /// The server cannot be trusted, or does not speak TLS.
    Tls,
    /// The server did not answer in time.
    Timeout,
    /// The connection failed otherwise.
    Connection,
    /// The answer ended early.
    Incomplete,
    /// The answer is not HTTP.
    Protocol,
    /// The request or the answer is too long.
    TooLong,
    /// There were too many redirects.
    Redirects,
    /// Too many answers are open.
    TooManyOpen,
}

impl HttpFailure {
    const ALL: [Self; 10] = [
        Self::Resolve,
        Self::Refused,
        Self::Tls,
        Self::Timeout,
        Self::Connection,
        Self::Incomplete,
        Self::Protocol,
        Self::TooLong,
        Self::Redirects,
        Self::TooManyOpen,
    ];

    /// Its name in answers and on tapes, such as `timeout`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Refused => "refused",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::Incomplete => "incomplete",
            Self::Protocol => "protocol",
            Self::TooLong => "too_long",
            Self::Redirects => "redirects",
            Self::TooManyOpen => "too_many_open",
        }
    }

    /// The failure with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|failure| failure.as_str() == name)
    }
}
