//! Rank 3: what may leave through the network, and requests over HTTP that the host's side makes for
//! guests and for language models.
//!
//! Guests have no sockets. Every request is checked by the [`EgressPolicy`]: its URL, the addresses
//! that the host resolves to, and where it is redirected to. Connections go to these addresses and no
//! other, without a proxy. Credentials are added on the way out and taken out on the way back: who
//! asks never sees them.

mod address;
#[cfg(feature = "http")]
mod client;
#[cfg(feature = "http")]
mod credentials;
mod policy;
#[cfg(feature = "http")]
mod resolver;
mod rule;
#[cfg(feature = "http")]
mod scrub;

#[cfg(feature = "http")]
pub use self::client::{
    HttpBody, HttpClient, HttpError, HttpLimits, HttpRequest, HttpResponse, REDIRECTS_MAX,
};
#[cfg(feature = "http")]
pub use self::credentials::{Credential, CredentialError, Credentials};
pub use self::policy::{Allowed, EgressBlocked, EgressPolicy, URL_BYTES_MAX};
pub use self::rule::{EgressRule, EgressRuleError};
