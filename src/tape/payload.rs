//! Bytes on a tape: short text stands in the record itself, the rest in the store beside the tape.

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::store::{Cas, StoreError};

/// Longest text that stands in a record, in bytes of UTF-8.
pub const INLINE_BYTES_MAX: usize = 4 << 10;

/// Bytes that a record carries or names.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Payload {
    /// The text itself, at most [`INLINE_BYTES_MAX`] long.
    Inline {
        /// The text.
        text: String,
    },
    /// In the store, or, if a rule withheld them, nowhere.
    Stored {
        /// The digest of the bytes.
        content_hash: Digest,
        /// How many there are.
        len_bytes: u64,
        /// The rule that kept them off the tape.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        withheld_by: Option<String>,
    },
}

impl Payload {
    /// How many bytes there are.
    pub fn len_bytes(&self) -> u64 {
        match self {
            Self::Inline { text } => text.len() as u64,
            Self::Stored { len_bytes, .. } => *len_bytes,
        }
    }

    /// The bytes, which are in `cas` unless they are inline.
    ///
    /// # Errors
    /// [`StoreError`] if the store does not have them, was not given them, or has something else.
    pub fn bytes(&self, cas: &Cas) -> Result<Vec<u8>, StoreError> {
        match self {
            Self::Inline { text } => Ok(text.clone().into_bytes()),
            Self::Stored { content_hash, withheld_by: Some(rule), .. } => {
                Err(StoreError::Withheld { digest: *content_hash, rule: rule.clone() })
            }
            Self::Stored { content_hash, len_bytes, .. } => cas.get(*content_hash, *len_bytes),
        }
    }

    /// The digest of the bytes.
    pub fn content_hash(&self) -> Digest {
        match self {
            Self::Inline { text } => Digest::of(text.as_bytes()),
            Self::Stored { content_hash, .. } => *content_hash,
        }
    }
}
