//! Contents in the format of Zstandard, as servers keep and transfer them.

use std::io::Read;

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// Shorter contents are not made smaller.
const WORTH_BYTES: usize = 256;

/// `bytes` as one frame.
pub fn compressed(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// `bytes` as one frame, if that is smaller.
pub(super) fn compressed_if_smaller(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() < WORTH_BYTES {
        return None;
    }
    Some(compressed(bytes)).filter(|frame| frame.len() < bytes.len())
}

/// The bytes of the frames `bytes`; `None` if these are damaged, or have more than `bytes_max`.
pub fn decompressed(bytes: &[u8], bytes_max: u64) -> Option<Vec<u8>> {
    let (mut rest, mut all) = (bytes, Vec::new());
    // A server may send several frames, as a compressor makes that gets its input bit by bit.
    while !rest.is_empty() {
        let frame = StreamingDecoder::new(&mut rest).ok()?;
        let left = bytes_max - all.len() as u64;
        // One byte more tells that there are too many.
        frame.take(left + 1).read_to_end(&mut all).ok()?;
        if all.len() as u64 > bytes_max {
            return None;
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_compressed_is_had_again() {
        for bytes in [Vec::new(), b"a".to_vec(), b"text ".repeat(100_000), (0..=255).collect()] {
            let frame = compressed(&bytes);
            assert_eq!(decompressed(&frame, bytes.len() as u64).as_ref(), Some(&bytes));
            let twice = [frame.clone(), frame].concat();
            assert_eq!(decompressed(&twice, 1 << 20), Some(bytes.repeat(2)));
        }
        assert_eq!(compressed_if_smaller(b"short"), None);
        assert!(compressed_if_smaller(&[7; 1000]).is_some_and(|frame| frame.len() < 100));
    }

    #[test]
    fn frame_with_more_bytes_than_expected_is_not_taken() {
        let bomb = compressed(&vec![0; 64 << 20]);
        assert!(bomb.len() < 100_000);
        assert_eq!(decompressed(&bomb, 1 << 20), None);
        assert_eq!(decompressed(&bomb, (64 << 20) - 1), None);
    }

    #[test]
    fn damaged_frames_are_none() {
        let frame = compressed(&b"some text that is long enough ".repeat(100));
        for len in 0..frame.len() {
            if len > 0 {
                assert_eq!(decompressed(&frame[..len], 1 << 20), None, "{len} bytes");
            }
            let mut damaged = frame.clone();
            damaged[len] ^= 0x55;
            // Whatever it is then, it is bounded.
            let _ = decompressed(&damaged, 1 << 20);
        }
    }
}
