//! Random bytes from a seed.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Bytes of a block of the key stream, which consists of 4-byte words.
const BLOCK_BYTES: usize = 64;
const BLOCK_WORDS: u128 = 16;

/// The random bytes of a machine: the `ChaCha20` key stream with the seed as the key (little-endian,
/// in the first 8 of 32 bytes, the others 0) and nonce 0. Not for secrets: the seed reveals all bytes.
#[derive(Clone)]
pub struct Random {
    stream: ChaCha20Rng,
    seed: u64,
    /// Blocks taken from the stream.
    blocks: u64,
    /// The last block; bytes from `used` on are left.
    block: [u8; BLOCK_BYTES],
    used: usize,
}

impl Random {
    /// Starts the stream of `seed`.
    pub fn seeded(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let stream = ChaCha20Rng::from_seed(key);
        Self { stream, seed, blocks: 0, block: [0; BLOCK_BYTES], used: BLOCK_BYTES }
    }

    /// Continues the stream of `seed` after `position` bytes.
    pub fn at(seed: u64, position: u64) -> Self {
        let mut random = Self::seeded(seed);
        random.blocks = position / BLOCK_BYTES as u64;
        random.stream.set_word_pos(u128::from(random.blocks) * BLOCK_WORDS);
        let mut skipped = vec![0; (position % BLOCK_BYTES as u64) as usize];
        random.fill(&mut skipped);
        random
    }

    /// The seed of the stream.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Bytes taken so far.
    pub fn position(&self) -> u64 {
        self.blocks * BLOCK_BYTES as u64 - (self.block.len() - self.used) as u64
    }

    /// Fills `buf` with the next bytes of the stream.
    pub fn fill(&mut self, buf: &mut [u8]) {
        for byte in buf {
            if self.used == self.block.len() {
                self.stream.fill_bytes(&mut self.block);
                self.blocks += 1;
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

    /// The stream is a format: tapes depend on it. First bytes for key 0: RFC 8439, appendix A.1, test
    /// vector 1.
    #[test]
    fn seed_zero_is_the_chacha20_key_stream_of_the_zero_key() {
        let mut bytes = [0; 8];
        Random::seeded(0).fill(&mut bytes);
        assert_eq!(bytes, [0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90]);
    }

    #[test]
    fn stream_continues_at_any_position() {
        let mut whole = [0; 300];
        Random::seeded(7).fill(&mut whole);
        for position in [0, 1, 63, 64, 65, 128, 200] {
            let mut random = Random::at(7, position as u64);
            assert_eq!(random.position(), position as u64);
            let mut rest = vec![0; whole.len() - position];
            random.fill(&mut rest);
            assert_eq!(rest, whole[position..], "{position}");
            assert_eq!(random.position(), 300);
        }
    }

    #[test]
    fn different_seeds_give_different_bytes() {
        let (mut a, mut b) = ([0; 32], [0; 32]);
        Random::seeded(1).fill(&mut a);
        Random::seeded(2).fill(&mut b);
        assert_ne!(a, b);
    }
}
