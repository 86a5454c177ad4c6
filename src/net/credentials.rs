//! Secrets that are sent to certain hosts, and that callers never see.

use std::fmt;

use crate::net::{Allowed, EgressRule};

/// Shorter secrets are refused: they would match words of answers.
const SECRET_BYTES_MIN: usize = 8;

/// Longest secret, in bytes: the search for it holds back as much of an answer.
const SECRET_BYTES_MAX: usize = 8 << 10;

/// A header that is added to requests to certain hosts.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    name: String,
    host: EgressRule,
    header: String,
    value: String,
    /// Removed from answers: at least the secret in the value.
    secrets: Vec<String>,
}

/// A credential is not valid.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("credential {name}: {problem}")]
pub struct CredentialError {
    /// Its name.
    pub name: String,
    /// The problem, without the secret.
    pub problem: String,
}

crate::base::readable::readable!(CredentialError);

impl fmt::Debug for Credential {
    /// Without its secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Credential");
        shown.field("name", &self.name).field("host", &self.host).field("header", &self.header);
        shown.finish_non_exhaustive()
    }
}

impl Credential {
    /// Creates the header `header: value` for the hosts of `host`. The secret is the value, or its part after
    /// the first space, as in `Bearer SECRET`. `name` is for messages.
    ///
    /// # Errors
    /// [`CredentialError`] if the header is not valid, or the secret too short or too long.
    pub fn new(
        name: impl Into<String>,
        host: EgressRule,
        header: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<Self, CredentialError> {
        let (name, header, value) = (name.into(), header.into(), value.into());
        let secret = value.split_once(' ').map_or(value.as_str(), |(_, secret)| secret).to_owned();
        let is_short = secret.len() < SECRET_BYTES_MIN;
        let (lowercase, secrets) = (header.to_ascii_lowercase(), vec![secret]);
        let credential = Self { name, host, header: lowercase, value, secrets };
        let problem = if ureq::http::HeaderName::try_from(&credential.header).is_err() {
            Some(format!("{header:?} is not a header name"))
        } else if ureq::http::HeaderValue::try_from(&credential.value).is_err() {
            Some("the value is not valid in a header".to_owned())
        } else if is_short {
            Some(format!("the secret has fewer than {SECRET_BYTES_MIN} bytes"))
        } else if credential.value.len() > SECRET_BYTES_MAX {
            Some(format!("the value has more than {SECRET_BYTES_MAX} bytes"))
        } else {
            None
        };
        match problem {
            Some(problem) => Err(CredentialError { name: credential.name, problem }),
            None => Ok(credential),
        }
    }

    /// Also removes `secret` from answers: a part of the value, which a server may return alone.
    ///
    /// # Errors
    /// [`CredentialError`] if it is too short or too long.
    pub fn hiding(mut self, secret: impl Into<String>) -> Result<Self, CredentialError> {
        let secret = secret.into();
        if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&secret.len()) {
            let bytes = format!("{SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}");
            let problem = format!("a secret has {} bytes instead of {bytes}", secret.len());
            return Err(CredentialError { name: self.name, problem });
        }
        self.secrets.push(secret);
        Ok(self)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of the header, in lower case.
    pub fn header(&self) -> &str {
        &self.header
    }

    pub(super) fn value(&self) -> &str {
        &self.value
    }
}

/// The credentials of a session. Of several for one header and host, the first is used.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Credentials(Vec<Credential>);

impl Credentials {
    /// Adds one.
    pub fn push(&mut self, credential: Credential) {
        self.0.push(credential);
    }

    /// Returns those for an allowed request that is encrypted or stays on this machine.
    pub(super) fn of<'a>(&'a self, allowed: &'a Allowed) -> impl Iterator<Item = &'a Credential> {
        let host = allowed.host();
        let stays_here =
            host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        let is_safe = stays_here || allowed.url().starts_with("https:");
        let is_for =
            move |credential: &&Credential| is_safe && credential.host.is_for(host, allowed.port());
        self.0.iter().filter(is_for)
    }

    /// Returns all secrets, also in lower case, as names of headers and hosts are shown so. Longest first, as
    /// one may contain another.
    pub(crate) fn secrets(&self) -> Vec<Vec<u8>> {
        let mut secrets: Vec<Vec<u8>> = self
            .0
            .iter()
            .flat_map(|credential| &credential.secrets)
            .flat_map(|secret| [secret.clone(), secret.to_ascii_lowercase()])
            .map(String::into_bytes)
            .collect();
        secrets.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
        secrets.dedup();
        secrets
    }
}
