//! Names of temporary files that are made while changes are written to the disk.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Prefix and suffix of temporary names, around 16 hexadecimal digits.
const TEMPORARY: (&str, &str) = (".belljar-", ".tmp");

/// Returns a new random name for a temporary.
pub(in crate::kernel::vfs) fn temporary_name() -> String {
    let random = RandomState::new().build_hasher().finish();
    format!("{}{random:016x}{}", TEMPORARY.0, TEMPORARY.1)
}

/// Whether `name` has the form of [`temporary_name`]. That proves nothing: a guest can use such names.
pub(in crate::kernel::vfs) fn may_be_temporary(name: &str) -> bool {
    let random = name.strip_prefix(TEMPORARY.0).and_then(|rest| rest.strip_suffix(TEMPORARY.1));
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    random.is_some_and(|random| random.len() == 16 && random.bytes().all(is_digit))
}
