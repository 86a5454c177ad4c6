//! Rank 5: requests over HTTP, made by the host's side for guests and for models.
//!
//! Every request is checked by the egress policy: its URL, the addresses that the host resolves to,
//! and where it is redirected to. Connections go to these addresses and no other, without a proxy.
//! [`Credentials`] are added on the way out and taken out on the way back: who asks never sees them.

mod client;
mod credentials;
mod resolver;
mod scrub;

pub use client::{
    HttpBody, HttpClient, HttpError, HttpLimits, HttpRequest, HttpResponse, REDIRECTS_MAX,
};
pub use credentials::{Credential, CredentialError, Credentials};
pub(crate) use resolver::agent;
