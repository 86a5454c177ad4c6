//! Chance, from a seed.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The random bytes of a machine: the `ChaCha20` key stream whose key is the seed (little-endian,
/// in the first 8 of 32 bytes, the others 0) and whose nonce is 0.
///
/// Not for secrets: whoever knows the seed knows them all.
#[derive(Clone)]
pub struct Random {
    stream: ChaCha20Rng,
    /// The last bytes taken off the stream, which comes in words; those from `used` on are left.
    block: [u8; 64],
    used: usize,
}

impl Random {
    /// The stream of `seed`.
    pub fn seeded(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self { stream: ChaCha20Rng::from_seed(key), block: [0; 64], used: 64 }
    }

    /// Fills `buf` with the next bytes of the stream.
    pub fn fill(&mut self, buf: &mut [u8]) {
        for byte in buf {
            if self.used == self.block.len() {
                self.stream.fill_bytes(&mut self.block);
                self.used = 0;
            }
            *byte = self.block[self.used];
            self.used += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stream is a format: recorded runs depend on it. Source of the first bytes for key 0:
    /// RFC 8439, appendix A.1, test vector 1.
    #[test]
    fn seed_zero_is_the_chacha20_key_stream_of_the_zero_key() {
        let mut bytes = [0; 8];
        Random::seeded(0).fill(&mut bytes);
        assert_eq!(bytes, [0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90]);
    }

    #[test]
    fn different_seeds_differ() {
        let (mut a, mut b) = ([0; 32], [0; 32]);
        Random::seeded(1).fill(&mut a);
        Random::seeded(2).fill(&mut b);
        assert_ne!(a, b);
    }
}
