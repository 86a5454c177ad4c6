//! A part of a saved namespace in the store: JSON, named by its digest.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::base::digest::Digest;
use crate::store::{Cas, StoreError, read_slice};

/// Size limit of a part: that of a snapshot.
pub(super) const PART_BYTES_MAX: u64 = 1 << 30;

/// Stores `part`, unless it `is_there`, undamaged; returns its digest. One that is damaged is replaced: others may refer
/// to it.
///
/// # Errors
/// Those of [`Cas::put`].
pub(super) fn put(
    part: &impl Serialize,
    is_there: impl FnOnce(Digest) -> bool,
    cas: &Cas,
) -> Result<Digest, StoreError> {
    let text = serde_json::to_vec(part).expect("all keys are strings");
    let digest = Digest::of(&text);
    if !is_there(digest) && cas.get(digest, PART_BYTES_MAX).is_err() {
        cas.put(digest, &mut read_slice(&text))?;
    }
    Ok(digest)
}

/// Reads a part.
///
/// # Errors
/// Those of [`Cas::get`]; `Damaged` if it is something else.
pub(super) fn get<T: DeserializeOwned>(cas: &Cas, digest: Digest) -> Result<T, StoreError> {
    let text = cas.get(digest, PART_BYTES_MAX)?;
    serde_json::from_slice(&text).map_err(|_| StoreError::Damaged { path: cas.path_of(digest) })
}
