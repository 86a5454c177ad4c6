//! `GIT binary patch`: bytes that are not text, in a patch that is.
//!
//! Git's format: the new file, then the old one, each a zlib stream in lines of base 85. Each line starts with a
//! letter for its number of bytes.

use std::fmt::Write;

/// Fixed, so that equal bytes give equal patches.
const DEFLATE_LEVEL: u8 = 6;

/// Bytes in a full line.
const LINE_BYTES: usize = 52;

/// Git's digits; other encodings of base 85 differ.
const DIGITS: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// Appends the patch from `before` to `after`, which can be applied in both directions.
pub(super) fn render(out: &mut String, before: &[u8], after: &[u8]) {
    out.push_str("GIT binary patch\n");
    literal(out, after);
    literal(out, before);
}

fn literal(out: &mut String, bytes: &[u8]) {
    writeln!(out, "literal {}", bytes.len()).expect("writing to a String succeeds");
    let stream = miniz_oxide::deflate::compress_to_vec_zlib(bytes, DEFLATE_LEVEL);
    base85_lines(out, &stream);
    out.push('\n');
}

fn base85_lines(out: &mut String, stream: &[u8]) {
    out.reserve(stream.len() / 4 * 5 + stream.len() / LINE_BYTES * 2 + 16);
    for line in stream.chunks(LINE_BYTES) {
        let count = line.len() as u8;
        out.push(char::from(if count <= 26 { b'A' + count - 1 } else { b'a' + count - 27 }));
        for group in line.chunks(4) {
            let mut padded = [0; 4];
            padded[..group.len()].copy_from_slice(group);
            let mut value = u32::from_be_bytes(padded);
            let mut digits = [0; 5];
            for digit in digits.iter_mut().rev() {
                *digit = DIGITS[(value % 85) as usize];
                value /= 85;
            }
            out.extend(digits.map(char::from));
        }
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_content_is_encoded_as_by_git() {
        let mut out = String::new();
        base85_lines(&mut out, &[0x78, 1, 3, 0, 0, 0, 0, 1]);
        assert_eq!(out, "HcmV?d00001\n", "git's encoding of no bytes, compressed");
    }

    #[test]
    fn lines_hold_52_bytes() {
        let mut out = String::new();
        base85_lines(&mut out, &[0xff; 105]);
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.iter().map(|line| line.len()).collect::<Vec<_>>(), [66, 66, 6]);
        assert!(lines[0].starts_with('z') && lines[2].starts_with('A'), "{out}");
    }
}
