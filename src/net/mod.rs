//! Rank 3: the egress policy, and the HTTP client that the host's side uses for guests and for language models.
//!
//! Guests have no sockets. The [`EgressPolicy`] checks the URL of each request, the addresses of its host
//! and its redirects; connections go only to these addresses, without a proxy. Credentials are added to
//! requests and removed from answers, so callers never see them.

mod address;
#[cfg(feature = "http")]
mod client;
#[cfg(feature = "http")]
mod credentials;
mod failure;
#[cfg(feature = "http")]
mod limits;
mod policy;
#[cfg(feature = "http")]
mod resolver;
mod rule;
#[cfg(feature = "http")]
mod scrub;

#[cfg(feature = "http")]
pub use self::client::{HttpBody, HttpClient, HttpError, HttpRequest, HttpResponse};
#[cfg(feature = "http")]
pub use self::credentials::{Credential, CredentialError, Credentials};
pub use self::failure::HttpFailure;
#[cfg(feature = "http")]
pub use self::limits::{HttpLimits, REDIRECTS_MAX};
pub use self::policy::{Allowed, EgressBlocked, EgressPolicy, URL_BYTES_MAX};
pub use self::rule::{EgressRule, EgressRuleError};
