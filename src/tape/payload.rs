//! Bytes on a tape: short text in the record, anything else in the store next to the tape.

use serde::{Deserialize, Serialize};

use super::store::TapeStore;
use crate::base::digest::Digest;
use crate::store::StoreError;

/// Maximum length of inline text, in bytes.
pub const INLINE_BYTES_MAX: usize = 4 << 10;

/// Bytes of a record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Payload {
    /// Text of at most [`INLINE_BYTES_MAX`] bytes.
    Inline {
        /// The text.
        text: String,
    },
    /// In the store; or nowhere, if a rule withheld them.
    Stored {
        /// The digest of the bytes.
        content_hash: Digest,
        /// The length.
        len_bytes: u64,
        /// The rule that withheld them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        withheld_by: Option<String>,
    },
}

impl Payload {
    /// The length.
    pub fn len_bytes(&self) -> u64 {
        match self {
            Self::Inline { text } => text.len() as u64,
            Self::Stored { len_bytes, .. } => *len_bytes,
        }
    }

    /// The bytes, inline or from `store`.
    ///
    /// # Errors
    /// [`StoreError`] if the store does not have them, they were withheld, or are damaged.
    pub fn bytes(&self, store: &TapeStore) -> Result<Vec<u8>, StoreError> {
        match self {
            Self::Inline { text } => Ok(text.clone().into_bytes()),
            Self::Stored { content_hash, withheld_by: Some(rule), .. } => {
                Err(StoreError::Withheld { digest: *content_hash, rule: rule.clone() })
            }
            Self::Stored { content_hash, len_bytes, .. } => store.get(*content_hash, *len_bytes),
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
