//! Files of JSON objects, one per line.

use std::io::{self, BufRead, Read};

use serde::Serialize;

use super::recorder::TapeError;

/// Maximum length of a line in bytes, without its newline.
pub(crate) const LINE_BYTES_MAX: usize = 16 << 20;

/// `value` as a line, with its newline.
pub(crate) fn line_of(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("keys are strings");
    line.push(b'\n');
    line
}

/// Expects `line`, with its end, to be short enough to be read.
pub(crate) fn expect_readable(line: &[u8]) -> Result<(), TapeError> {
    if line.len() > LINE_BYTES_MAX + 1 {
        return Err(TapeError::LongRecord { limit_bytes: LINE_BYTES_MAX });
    }
    Ok(())
}

/// Why there is no next line.
#[derive(Debug)]
pub(crate) enum LineError {
    /// The file cannot be read.
    Read(io::Error),
    /// The line is too long.
    Malformed(String),
}

/// Reads line by line, holding one line in memory.
pub(crate) struct Lines<R> {
    reader: R,
    /// The number of the last line, from 1.
    pub number: u64,
    /// Bytes read, including newlines.
    pub bytes: u64,
    /// Whether the last line ended with a newline.
    pub is_ended: bool,
}

impl<R: BufRead> Lines<R> {
    pub fn of(reader: R) -> Self {
        Self { reader, number: 0, bytes: 0, is_ended: true }
    }

    /// The next line, without its newline.
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, LineError> {
        let mut line = Vec::new();
        let mut piece = self.reader.by_ref().take(LINE_BYTES_MAX as u64 + 1);
        piece.read_until(b'\n', &mut line).map_err(LineError::Read)?;
        self.bytes += line.len() as u64;
        if line.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        self.is_ended = line.pop_if(|last| *last == b'\n').is_some();
        if line.len() > LINE_BYTES_MAX {
            let why = format!("the line exceeds {LINE_BYTES_MAX} bytes");
            return Err(LineError::Malformed(why));
        }
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_and_bounded() {
        let mut lines = Lines::of(&b"one\n\ntwo"[..]);
        assert_eq!(lines.next().unwrap().unwrap(), b"one");
        assert_eq!(lines.next().unwrap().unwrap(), b"");
        assert_eq!((lines.number, lines.is_ended), (2, true));
        assert_eq!(lines.next().unwrap().unwrap(), b"two");
        assert_eq!((lines.number, lines.bytes, lines.is_ended), (3, 8, false));
        assert!(lines.next().unwrap().is_none());
        let longest = vec![b'x'; LINE_BYTES_MAX];
        let mut lines = Lines::of(&longest[..]);
        assert_eq!(lines.next().unwrap().unwrap().len(), LINE_BYTES_MAX);
        let longer = [&longest[..], b"x\n"].concat();
        assert!(matches!(Lines::of(&longer[..]).next(), Err(LineError::Malformed(_))));
    }
}
