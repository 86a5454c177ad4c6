//! Contents of files as data.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};

use super::RestoreError;
use crate::base::digest::Digest;
use crate::kernel::vfs::overlay::content::{CHUNK_BYTES, Content, Piece};
use crate::store::{Cas, StoreError, read_slice};

/// Longest piece that is stored inline, as a file of its own would cost more.
const INLINE_BYTES_MAX: usize = 1 << 10;

/// A written content. Long pieces are in a store.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedContent {
    len: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    below_len: Option<u64>,
    chunks: Vec<SavedChunk>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedChunk {
    Hole,
    Below,
    /// In the store.
    Stored(Digest),
    /// Base64.
    Inline(String),
}

impl SavedContent {
    /// The digests of the pieces in the store.
    pub fn stored(&self) -> impl Iterator<Item = Digest> {
        self.chunks.iter().filter_map(|chunk| match chunk {
            SavedChunk::Stored(digest) => Some(*digest),
            SavedChunk::Hole | SavedChunk::Below | SavedChunk::Inline(_) => None,
        })
    }
}

impl Content {
    /// Returns the content as data. Writes long pieces to `cas` that are not there.
    ///
    /// # Errors
    /// Those of [`Cas::put`].
    pub(super) fn save(&self, cas: &Cas) -> Result<SavedContent, StoreError> {
        let chunk = |piece: Piece<&[u8]>| {
            Ok(match piece {
                Piece::Hole => SavedChunk::Hole,
                Piece::Below => SavedChunk::Below,
                Piece::Bytes(bytes) if bytes.len() <= INLINE_BYTES_MAX => {
                    SavedChunk::Inline(BASE64.encode(bytes))
                }
                Piece::Bytes(bytes) => {
                    let digest = Digest::of(bytes);
                    if !cas.has(digest, bytes.len() as u64) {
                        cas.put(digest, &mut read_slice(bytes))?;
                    }
                    SavedChunk::Stored(digest)
                }
            })
        };
        let chunks = self.pieces().map(chunk).collect::<Result<_, StoreError>>()?;
        let below_len = Some(self.below_len()).filter(|len| *len > 0);
        Ok(SavedContent { len: self.len(), below_len, chunks })
    }

    /// Restores `saved`, which may be at most `len_max` bytes long.
    ///
    /// # Errors
    /// [`RestoreError`]: `Store`, `Damaged`.
    pub(super) fn restore(
        saved: &SavedContent,
        cas: &Cas,
        len_max: u64,
    ) -> Result<Self, RestoreError> {
        let below_len = saved.below_len.unwrap_or(0);
        let chunks_max = saved.len.div_ceil(CHUNK_BYTES as u64);
        if saved.len > len_max || below_len > saved.len || saved.chunks.len() as u64 > chunks_max {
            return Err(RestoreError::Damaged("the length of a file is out of range"));
        }
        let piece = |(index, chunk): (usize, &SavedChunk)| {
            let bytes = match chunk {
                SavedChunk::Hole => return Ok(Piece::Hole),
                SavedChunk::Below => return Ok(Piece::Below),
                SavedChunk::Stored(digest) => cas.get(*digest, CHUNK_BYTES as u64)?,
                SavedChunk::Inline(text) => BASE64
                    .decode(text)
                    .map_err(|_| RestoreError::Damaged("a content is not base64"))?,
            };
            let left = saved.len - index as u64 * CHUNK_BYTES as u64;
            if bytes.len() as u64 > left.min(CHUNK_BYTES as u64) {
                return Err(RestoreError::Damaged("a file has more bytes than its length"));
            }
            Ok(Piece::Bytes(bytes))
        };
        let pieces = saved.chunks.iter().enumerate().map(piece).collect::<Result<_, _>>()?;
        Self::from_pieces(saved.len, below_len, pieces)
            .map_err(|_| RestoreError::Damaged("a content does not fit in memory"))
    }
}
