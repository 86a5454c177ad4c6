//! Removes secrets from answers.

use std::io::{self, Read};

/// Replaces a secret.
const REDACTED: &[u8] = b"[redacted]";

/// Bytes read at a time.
const CHUNK_BYTES: usize = 16 << 10;

/// A reader that removes secrets, also those that span reads.
pub struct Scrubbed<R> {
    reader: R,
    secrets: Vec<Vec<u8>>,
    /// Bytes whose end may be the beginning of a secret.
    held: Vec<u8>,
    /// Bytes to return, from `given` on.
    clean: Vec<u8>,
    given: usize,
    ended: bool,
}

impl<R: Read> Scrubbed<R> {
    /// Creates a reader without `secrets`, none of which may be empty.
    pub fn new(reader: R, secrets: Vec<Vec<u8>>) -> Self {
        Self { reader, secrets, held: Vec::new(), clean: Vec::new(), given: 0, ended: false }
    }

    fn refill(&mut self) -> io::Result<()> {
        let start = self.held.len();
        self.held.resize(start + CHUNK_BYTES, 0);
        let read = self.reader.read(&mut self.held[start..]);
        self.held.truncate(start + *read.as_ref().unwrap_or(&0));
        self.ended = read? == 0;
        self.clean.clear();
        self.given = 0;
        let longest = self.secrets.first().map_or(0, Vec::len);
        // A secret that begins here may continue in the next bytes.
        let end = if self.ended {
            self.held.len()
        } else {
            self.held.len().saturating_sub(longest.saturating_sub(1))
        };
        let mut at = 0;
        while at < end {
            if let Some(len) = secret_at(&self.secrets, &self.held[at..]) {
                self.clean.extend_from_slice(REDACTED);
                at += len;
            } else {
                self.clean.push(self.held[at]);
                at += 1;
            }
        }
        self.held.drain(..at);
        Ok(())
    }
}

/// Returns the length of the secret at the front of `bytes`.
fn secret_at(secrets: &[Vec<u8>], bytes: &[u8]) -> Option<usize> {
    secrets.iter().find(|secret| bytes.starts_with(secret)).map(Vec::len)
}

impl<R: Read> Read for Scrubbed<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.secrets.is_empty() {
            return self.reader.read(buf);
        }
        while self.given == self.clean.len() && !(self.ended && self.held.is_empty()) {
            self.refill()?;
        }
        let count = buf.len().min(self.clean.len() - self.given);
        buf[..count].copy_from_slice(&self.clean[self.given..][..count]);
        self.given += count;
        Ok(count)
    }
}

/// Removes `secrets` from `text`.
pub fn without_secrets(text: &str, secrets: &[Vec<u8>]) -> String {
    let mut clean = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if let Some(len) = secret_at(secrets, rest) {
            clean.extend_from_slice(REDACTED);
            rest = &rest[len..];
        } else {
            clean.push(*first);
            rest = after;
        }
    }
    // Whole characters were removed, so the rest is UTF-8.
    String::from_utf8_lossy(&clean).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns its bytes in pieces of these lengths.
    struct Pieces(Vec<u8>, Vec<usize>);

    impl Read for Pieces {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let len = self.1.pop().unwrap_or(1).clamp(1, buf.len()).min(self.0.len());
            buf[..len].copy_from_slice(&self.0[..len]);
            self.0.drain(..len);
            Ok(len)
        }
    }

    proptest! {
        #[test]
        fn secrets_are_removed_across_any_read_boundaries(
            text in "[abc]{0,40}(secret|sec|longsecret)?[abc]{0,9}(secret)?[abcret]{0,9}",
            pieces in proptest::collection::vec(1_usize..9, 0..30),
        ) {
            let secrets = vec![b"longsecret".to_vec(), b"secret".to_vec()];
            let expected = text.replace("longsecret", "[redacted]").replace("secret", "[redacted]");
            let mut scrubbed = Scrubbed::new(Pieces(text.clone().into_bytes(), pieces), secrets.clone());
            let mut clean = String::new();
            scrubbed.read_to_string(&mut clean).unwrap();
            prop_assert_eq!(&clean, &expected);
            prop_assert_eq!(without_secrets(&text, &secrets), expected);
        }
    }
}
