//! Changes between two texts, as `diff -u` shows them.

use std::fmt::{self, Write};
use std::ops::Range;

use imara_diff::{Hunk, InternedInput, Token};

use super::line_diff::{self, Budget};

/// Unchanged lines around a change.
const CONTEXT_LINES: u32 = 3;

/// Appends the changes that turn `before` into `after`, as `diff -u` shows them, to `out`. Texts that take too many steps to
/// compare are shown as replaced whole.
pub fn render_hunks(out: &mut String, before: &str, after: &str, budget: &mut Budget) {
    let input = InternedInput::new(before, after);
    let hunks = line_diff::hunks(&input, budget);
    let (before, after) = (&input.before, &input.after);
    let lines = |out: &mut String, sign, range: Range<u32>, of: &[Token]| {
        for token in &of[range.start as usize..range.end as usize] {
            render_line(out, sign, input.interner[*token]);
        }
    };
    // Changes whose context overlaps share a hunk.
    let meet = |a: &Hunk, b: &Hunk| b.before.start - a.before.end <= 2 * CONTEXT_LINES;
    for group in hunks.chunk_by(meet) {
        let (first, last) = (&group[0], &group[group.len() - 1]);
        let lead = CONTEXT_LINES.min(first.before.start);
        let trail = CONTEXT_LINES.min(before.len() as u32 - last.before.end);
        let old = first.before.start - lead..last.before.end + trail;
        let new = first.after.start - lead..last.after.end + trail;
        let (old_range, new_range) = (HunkRange(&old), HunkRange(&new));
        writeln!(out, "@@ -{old_range} +{new_range} @@").expect("writing to a String succeeds");
        let mut at = old.start;
        for hunk in group {
            lines(out, ' ', at..hunk.before.start, before);
            lines(out, '-', hunk.before.clone(), before);
            lines(out, '+', hunk.after.clone(), after);
            at = hunk.before.end;
        }
        lines(out, ' ', at..old.end, before);
    }
}

/// The first line, counted from 1, and the number of lines unless it is 1; with no lines, the line before.
struct HunkRange<'a>(&'a Range<u32>);

impl fmt::Display for HunkRange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = *self.0;
        match end - start {
            0 => write!(f, "{start},0"),
            1 => write!(f, "{}", start + 1),
            count => write!(f, "{},{count}", start + 1),
        }
    }
}

fn render_line(out: &mut String, sign: char, line: &str) {
    out.push(sign);
    out.push_str(line);
    if !line.ends_with('\n') {
        out.push_str("\n\\ No newline at end of file\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hunks(before: &str, after: &str) -> String {
        let mut out = String::new();
        render_hunks(&mut out, before, after, &mut Budget::default());
        out
    }

    #[test]
    fn changes_share_a_hunk_when_their_context_meets() {
        let text = |changed: &[usize]| -> String {
            let line = |n| if changed.contains(&n) { "new\n".into() } else { format!("{n}\n") };
            (0..30).map(line).collect()
        };
        let heads = |changed: &[usize]| -> Vec<String> {
            let out = hunks(&text(&[]), &text(changed));
            out.lines().filter(|line| line.starts_with("@@")).map(str::to_owned).collect()
        };
        assert_eq!(heads(&[10, 17]), ["@@ -8,14 +8,14 @@"], "six lines between them");
        assert_eq!(heads(&[10, 18]), ["@@ -8,7 +8,7 @@", "@@ -16,7 +16,7 @@"], "seven");
        assert_eq!(heads(&[0, 29]), ["@@ -1,4 +1,4 @@", "@@ -27,4 +27,4 @@"]);
    }

    #[test]
    fn hunk_ranges_of_zero_and_one_line() {
        assert_eq!(hunks("", "a\n"), "@@ -0,0 +1 @@\n+a\n");
        assert_eq!(hunks("a\nb\n", ""), "@@ -1,2 +0,0 @@\n-a\n-b\n");
        assert_eq!(hunks("a", "a\n"), "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
    }
}
