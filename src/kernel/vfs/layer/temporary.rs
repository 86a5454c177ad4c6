//! Names of what is on the disk while changes are written there.

use std::hash::{BuildHasher, Hasher, RandomState};

/// How the names of temporaries begin and end. Between them stand 16 hexadecimal digits.
const TEMPORARY: (&str, &str) = (".belljar-", ".tmp");

/// A new name for something temporary.
pub(in crate::kernel::vfs) fn temporary_name() -> String {
    let random = RandomState::new().build_hasher().finish();
    format!("{}{random:016x}{}", TEMPORARY.0, TEMPORARY.1)
}

/// Whether `name` is one that [`temporary_name`] may have answered. Nothing follows from that: a
/// guest can call a file so.
pub(in crate::kernel::vfs) fn may_be_temporary(name: &str) -> bool {
    let random = name.strip_prefix(TEMPORARY.0).and_then(|rest| rest.strip_suffix(TEMPORARY.1));
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    random.is_some_and(|random| random.len() == 16 && random.bytes().all(is_digit))
}
