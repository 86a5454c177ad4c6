//! BLAKE3 digests, which name contents.

use std::fmt::{self, Write};
use std::hash::Hasher;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};

/// A 32-byte BLAKE3 digest, written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// Bytes read at a time: the widest step of BLAKE3. Larger pieces would touch more pages for small files.
const PIECE_BYTES: usize = 16 << 10;

impl Digest {
    /// Length in bytes.
    pub const BYTES: usize = 32;

    /// The digest with these bytes.
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The digest of `bytes`, of which all processors compute a part: for megabytes.
    pub fn of_large(bytes: &[u8]) -> Self {
        Self(*blake3::Hasher::new().update_rayon(bytes).finalize().as_bytes())
    }

    /// The digest of `bytes` that only those can compute who have `key`: a message authentication code.
    pub fn keyed(key: &[u8; Self::BYTES], bytes: &[u8]) -> Self {
        Self(*blake3::keyed_hash(key, bytes).as_bytes())
    }

    /// Returns the digest of the rest of `reader`, and the number of bytes.
    ///
    /// # Errors
    /// Errors of `reader`.
    pub fn of_reader(mut reader: impl Read) -> io::Result<(Self, u64)> {
        let mut hasher = blake3::Hasher::new();
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match reader.read(&mut piece) {
                Ok(0) => return Ok((Self(*hasher.finalize().as_bytes()), hasher.count())),
                Ok(count) => {
                    hasher.update(&piece[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Parses exactly 64 lower-case hex digits; `None` otherwise, so that a digest has one spelling.
    pub fn from_hex(text: &str) -> Option<Self> {
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        blake3::Hash::from_hex(text).ok().map(|hash| Self(*hash.as_bytes()))
    }

    /// What follows the digest that `bytes` begin with; `None` if it has another one.
    pub fn checked(bytes: &[u8]) -> Option<&[u8]> {
        let (digest, body) = bytes.split_at_checked(Self::BYTES)?;
        (Self::of(body).as_bytes() == digest).then_some(body)
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

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_hex(&text)
            .ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not 64 hex digits")))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Turns a [`std::hash::Hash`] implementation into a [`Digest`].
#[derive(Default)]
pub struct DigestHasher(blake3::Hasher);

impl DigestHasher {
    /// The digest of the bytes written so far.
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

/// `bytes` in lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("writing to a String succeeds");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trips_and_rejects_other_texts() {
        let digest = Digest::of(b"belljar");
        assert_eq!(Digest::from_hex(&digest.to_string()), Some(digest));
        assert_eq!(Digest::from_hex("00"), None);
        assert_eq!(Digest::from_hex(&"g".repeat(64)), None);
    }

    #[test]
    fn bytes_reader_and_hasher_give_the_same_digest() {
        let bytes = vec![7u8; PIECE_BYTES * 2 + 1];
        let mut hasher = DigestHasher::default();
        hasher.write(&bytes);
        assert_eq!(hasher.digest(), Digest::of(&bytes));
        let (digest, count) = Digest::of_reader(bytes.as_slice()).unwrap();
        assert_eq!((digest, count), (Digest::of(&bytes), bytes.len() as u64));
        let large = vec![7u8; 3 << 20];
        assert_eq!(Digest::of_large(&large), Digest::of(&large));
    }
}
