//! BLAKE3 digests: the names of everything that is stored by content.

use std::fmt;
use std::hash::Hasher;

/// A 32-byte BLAKE3 digest. Shown, and parsed, as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// From this size on, hashing in parallel is worth waking other threads.
const PARALLEL_FROM: usize = 1 << 20;

impl Digest {
    /// The digest of `bytes`. Large inputs are hashed on several threads.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        if bytes.len() >= PARALLEL_FROM {
            hasher.update_rayon(bytes);
        } else {
            hasher.update(bytes);
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// The digest whose hex form is `text`; `None` unless it is exactly 64 hex digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hash| Self(*hash.as_bytes()))
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Collects what implements [`std::hash::Hash`] into a [`Digest`] instead of 64 bits.
#[derive(Default)]
pub struct DigestHasher(blake3::Hasher);

impl DigestHasher {
    /// The digest of everything written so far.
    pub fn digest(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

impl Hasher for DigestHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest = self.0.finalize();
        u64::from_le_bytes(std::array::from_fn(|i| digest.as_bytes()[i]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trips_and_rejects_what_is_not_a_digest() {
        let digest = Digest::of(b"belljar");
        assert_eq!(Digest::from_hex(&digest.to_string()), Some(digest));
        assert_eq!(Digest::from_hex("00"), None);
        assert_eq!(Digest::from_hex(&"g".repeat(64)), None);
    }

    #[test]
    fn parallel_and_serial_hashing_agree() {
        let bytes = vec![7u8; PARALLEL_FROM + 1];
        let mut hasher = DigestHasher::default();
        hasher.write(&bytes);
        assert_eq!(hasher.digest(), Digest::of(&bytes));
    }
}
