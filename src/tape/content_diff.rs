//! What differs between two contents of a tape's store, as text.

use serde::{Deserialize, Serialize};

use crate::base::line_diff::Budget;
use crate::base::unified_diff::render_hunks;

/// Bytes of a longer content: it is not compared line by line.
const TEXT_BYTES_MAX: usize = 8 << 20;

/// Bytes shown around the first difference of two contents that are not text.
const SHOWN_BYTES: usize = 16;

/// The difference of two contents.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ContentDiff {
    /// Whether both are text: UTF-8 without NUL, and not too long.
    pub is_text: bool,
    /// Of texts, hunks as `diff -u` shows them; of others, a line that names the lengths and the first difference.
    pub text: String,
}

/// Compares contents: each one with what is left of the steps that all may take.
#[derive(Default)]
pub struct ContentDiffs(Budget);

impl ContentDiffs {
    /// The difference between `before` and `after`. A content that does not exist is empty.
    pub fn between(&mut self, before: &[u8], after: &[u8]) -> ContentDiff {
        if let (Some(before), Some(after)) = (as_text(before), as_text(after)) {
            let mut text = String::new();
            render_hunks(&mut text, before, after, &mut self.0);
            return ContentDiff { is_text: true, text };
        }
        let same = before.iter().zip(after).take_while(|(before, after)| before == after).count();
        let shown = |bytes: &[u8]| -> String {
            let rest = bytes[same..].iter().take(SHOWN_BYTES);
            let hex: Vec<String> = rest.map(|byte| format!("{byte:02x}")).collect();
            if hex.is_empty() { "the end".to_owned() } else { hex.join(" ") }
        };
        let text = format!(
            "not text: {} bytes before, {} bytes after; the first difference is at byte {same}: {} before, {} after",
            before.len(),
            after.len(),
            shown(before),
            shown(after),
        );
        ContentDiff { is_text: false, text }
    }
}

fn as_text(bytes: &[u8]) -> Option<&str> {
    if bytes.len() > TEXT_BYTES_MAX || bytes.contains(&0) {
        return None;
    }
    std::str::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(before: &[u8], after: &[u8]) -> ContentDiff {
        ContentDiffs::default().between(before, after)
    }

    #[test]
    fn texts_are_compared_by_line_and_others_by_byte() {
        let found = diff(b"a\nb\n", b"a\nc\n");
        assert_eq!(found.text, "@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
        let found = diff(b"\x7fELF\0\x01\x02", b"\x7fELF\0\x01\x03\x04");
        assert!(!found.is_text);
        assert_eq!(
            found.text,
            "not text: 7 bytes before, 8 bytes after; the first difference is at byte 6: 02 before, 03 04 after"
        );
        assert!(diff(b"\0", b"\0\0").text.ends_with("at byte 1: the end before, 00 after"));
        assert_eq!(diff(b"", b"").text, "");
    }

    /// Comparing such lines as they come takes hours.
    #[test]
    fn hostile_texts_are_compared_in_bounded_time() {
        let lines = |seed: u64| -> String {
            let next = |n: &u64| Some(n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            let numbers = std::iter::successors(Some(seed), next).take(300_000);
            numbers.flat_map(|n| [(n >> 54).to_string(), "\n".to_owned()]).collect()
        };
        let mut diffs = ContentDiffs::default();
        let (before, after) = (lines(1), lines(2));
        for _ in 0..3 {
            assert!(diffs.between(before.as_bytes(), after.as_bytes()).text.len() > before.len());
        }
    }
}
