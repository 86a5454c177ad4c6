//! Whose traces are taken from a server, and who signs those that are uploaded.

use std::sync::Arc;

use super::RemoteConfig;
use super::keys::Named;
use crate::base::signature::{PublicKey, SecretKey, Signature};

/// Keys that verify, and one that signs.
pub struct Trust {
    trusted: Vec<PublicKey>,
    signs_with: Option<Arc<SecretKey>>,
}

impl Trust {
    pub fn of(config: &RemoteConfig) -> Self {
        Self { trusted: config.trusted.clone(), signs_with: config.signs_with.clone() }
    }

    /// Whether one of the keys has signed `trace`, or none need have. This is known before a byte of it is fetched: what
    /// is signed is its digest, and it is checked that the bytes have that.
    pub fn accepts(&self, trace: &Named) -> bool {
        if self.trusted.is_empty() {
            return true;
        }
        let text = trace.signed_text();
        trace.signatures.iter().filter_map(|text| Signature::parse(text).ok()).any(|signature| {
            self.trusted.iter().any(|key| key.verify(text.as_bytes(), &signature).is_ok())
        })
    }

    /// A signature of `trace`.
    pub fn sign(&self, trace: &Named) -> Option<String> {
        let key = self.signs_with.as_ref()?;
        let signature = key.sign(trace.signed_text().as_bytes(), COMMENT);
        // Without one it is of use to those who take all traces.
        signature.ok().map(|signature| signature.text().to_owned())
    }
}

/// What a signature says of itself.
const COMMENT: &str = "a trace of belljar";
