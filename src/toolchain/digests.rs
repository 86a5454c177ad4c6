//! Digests of files of a toolchain.

use std::hash::Hasher;
use std::io::{self, Read};

use sha2::{Digest as _, Sha256};

use crate::base::digest::{Digest, DigestHasher, hex};

/// Bytes read at a time.
const PIECE_BYTES: usize = 256 << 10;

/// The SHA-256 of what `reader` returns, in hex, its BLAKE3 digest and its length.
///
/// # Errors
/// Those of `reader`.
pub fn of_reader(reader: &mut dyn Read) -> io::Result<(String, Digest, u64)> {
    let (mut sha256, mut blake3) = (Sha256::new(), DigestHasher::default());
    let mut piece = vec![0; PIECE_BYTES];
    let mut len_bytes = 0;
    loop {
        let count = reader.read(&mut piece)?;
        if count == 0 {
            break;
        }
        sha256.update(&piece[..count]);
        blake3.write(&piece[..count]);
        len_bytes += count as u64;
    }
    Ok((hex(&sha256.finalize()), blake3.digest(), len_bytes))
}
