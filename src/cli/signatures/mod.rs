//! Signatures of toolchains: who signed one, and whether that is one of certain keys.

#[cfg(feature = "import")]
mod keys;
#[cfg(not(feature = "import"))]
mod no_keys;
#[cfg(feature = "import")]
pub mod secret;
#[cfg(feature = "import")]
pub mod trusted;

use anyhow::Result;
use serde_json::{Value, json};

#[cfg(feature = "import")]
pub use keys::Keys;
#[cfg(not(feature = "import"))]
pub use no_keys::Keys;

use crate::base::digest::Digest;
use crate::{InstalledToolchains, SignedManifest};

/// Who signed a toolchain, as far as certain keys tell.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(
    not(feature = "import"),
    allow(dead_code, reason = "who signed is known only if signatures can be verified")
)]
pub enum Signer {
    /// It is not signed.
    Nobody,
    /// One of the keys, with this ID: the signature was verified.
    Known(String),
    /// Another key, which says that this is its ID.
    Stranger(String),
}

impl Signer {
    /// It in a sentence such as "it is ...".
    pub fn described(&self) -> String {
        match self {
            Self::Nobody => "not signed".to_owned(),
            Self::Known(id) => format!("signed by key {id}"),
            Self::Stranger(id) => format!(
                "of unknown origin: its signature names key {id}, which is not trusted, and was not checked"
            ),
        }
    }

    /// It as JSON; the keys are those that the user trusts.
    pub fn json(&self) -> Value {
        match self {
            Self::Nobody => Value::Null,
            Self::Known(id) => json!({ "key": id, "trusted": true }),
            Self::Stranger(id) => json!({ "key": id, "trusted": false }),
        }
    }
}

/// What is to be said of a signature: who made it, or why it is wrong.
pub struct Verdict(Result<Signer, String>);

impl Verdict {
    /// Of `signature`, a signature of `text`, with the keys that the user trusts.
    pub fn of(keys: &Keys, text: &[u8], signature: Option<&str>) -> Self {
        Self(keys.signer(text, signature).map_err(|error| format!("{error:#}")))
    }

    /// Of the installed toolchain `name`; with a `digest`, of the version whose manifest has it.
    pub fn of_installed(
        keys: &Keys,
        store: &InstalledToolchains,
        name: &str,
        digest: Option<Digest>,
    ) -> Self {
        match store.signed_manifest(name, digest) {
            Ok(SignedManifest { text, signature }) => Self::of(keys, &text, signature.as_deref()),
            Err(error) => Self(Err(error.to_string())),
        }
    }

    /// Whether a signature is there, and wrong.
    pub fn is_wrong(&self) -> bool {
        self.0.is_err()
    }

    /// It in a sentence such as "it is ...". `None` if there is no signature.
    pub fn described(&self) -> Option<String> {
        match &self.0 {
            Ok(Signer::Nobody) => None,
            Ok(signer) => Some(signer.described()),
            Err(why) => Some(format!("wrongly signed: {why}")),
        }
    }

    /// It as JSON: null without a signature.
    pub fn json(&self) -> Value {
        match &self.0 {
            Ok(signer) => signer.json(),
            Err(why) => json!({ "wrong": why }),
        }
    }
}
