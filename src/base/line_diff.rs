//! Which lines changed, in bounded time.
//!
//! The time to compare lines can grow with the square of their number, and a guest chooses the texts. So steps are
//! counted, which gives the same patch on every machine, and past the limit a file is shown as replaced whole.

use imara_diff::{Algorithm, Diff, Hunk, InternedInput, Token};

/// Steps for all files of a patch: a few seconds.
const STEPS_MAX: u64 = 1 << 30;

/// Steps for one file, so that one file leaves some to the others.
const FILE_STEPS_MAX: u64 = 1 << 26;

/// Steps left for the files of a patch.
pub struct Budget(u64);

impl Default for Budget {
    fn default() -> Self {
        Self(STEPS_MAX)
    }
}

impl Budget {
    fn take(&mut self, steps: u64) -> Option<()> {
        self.0 = self.0.checked_sub(steps)?;
        Some(())
    }
}

/// Returns the hunks that turn the lines of one text into those of the other.
pub fn hunks(input: &InternedInput<&str>, budget: &mut Budget) -> Vec<Hunk> {
    let mut own = Budget(budget.0.min(FILE_STEPS_MAX));
    let all = own.0;
    let algorithm = algorithm(input, &mut own);
    budget.0 -= all - own.0;
    let Some(algorithm) = algorithm else {
        let (before, after) = (input.before.len() as u32, input.after.len() as u32);
        return vec![Hunk { before: 0..before, after: 0..after }];
    };
    let mut diff = Diff::compute(algorithm, input);
    diff.postprocess_lines(input);
    diff.hunks().collect()
}

/// Selects the algorithm; `None` if comparing would take too many steps. Histogram gives the better patch, but
/// can take as many steps as there are lines for each change.
fn algorithm(input: &InternedInput<&str>, budget: &mut Budget) -> Option<Algorithm> {
    let lines = (input.before.len() + input.after.len()) as u64;
    budget.take(lines)?;
    let before = in_common(input, &input.before, &input.after);
    let after = in_common(input, &input.after, &input.before);
    let alone = lines - (before.len() + after.len()) as u64;
    let changes = distance(&before, &after, budget)? + alone;
    let by_histogram = budget.take(lines.saturating_mul(changes + 1));
    Some(if by_histogram.is_some() { Algorithm::Histogram } else { Algorithm::Myers })
}

/// The lines of `text` that `other` has too.
fn in_common(input: &InternedInput<&str>, text: &[Token], other: &[Token]) -> Vec<Token> {
    let mut is_there = vec![false; input.interner.num_tokens() as usize];
    for token in other {
        is_there[token.0 as usize] = true;
    }
    text.iter().copied().filter(|token| is_there[token.0 as usize]).collect()
}

/// The least number of lines to delete and insert that turn `a` into `b` (Myers, "An O(ND) Difference
/// Algorithm and Its Variations", 1986); `None` if finding it takes more steps than are left.
#[expect(
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "diagonals are signed, positions are not negative, counts fit in half a word"
)]
fn distance(a: &[Token], b: &[Token], budget: &mut Budget) -> Option<u64> {
    let changes_max = ((a.len() + b.len()) as u64).min(budget.0.saturating_mul(2).isqrt());
    let changes_max = isize::try_from(changes_max).ok()?;
    // How far into `a` each diagonal reaches, with diagonal 0 (as many deletions as insertions) in the middle.
    let mut reach = vec![0_isize; 2 * changes_max as usize + 3];
    let slot = |diagonal: isize| (diagonal + changes_max + 1) as usize;
    for changes in 0..=changes_max {
        budget.take(changes as u64 + 1)?;
        for diagonal in (-changes..=changes).step_by(2) {
            let (inserted, deleted) = (reach[slot(diagonal + 1)], reach[slot(diagonal - 1)] + 1);
            let is_insertion = diagonal == -changes || (diagonal != changes && deleted <= inserted);
            let mut x = if is_insertion { inserted } else { deleted };
            let start = x;
            let at = |x: isize| Some((a.get(x as usize)?, b.get((x - diagonal) as usize)?));
            while at(x).is_some_and(|(a, b)| a == b) {
                x += 1;
            }
            budget.take((x - start) as u64)?;
            if x >= a.len() as isize && x - diagonal >= b.len() as isize {
                return Some(changes as u64);
            }
            reach[slot(diagonal)] = x;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: impl Fn(u32) -> String) -> String {
        let lines: Vec<String> = (0..200_000).map(line).collect();
        lines.join("\n") + "\n"
    }

    fn distance_of(before: &str, after: &str) -> Option<u64> {
        let input = InternedInput::new(before, after);
        distance(&input.before, &input.after, &mut Budget::default())
    }

    #[test]
    fn distance_is_that_of_the_shortest_edit() {
        let cases = [
            ("", "", 0),
            ("", "a\nb\n", 2),
            ("a\nb\n", "", 2),
            ("a\nb\nc\n", "a\nb\nc\n", 0),
            ("a\nb\nc\na\nb\nb\na\n", "c\nb\na\nb\na\nc\n", 5),
            ("a\nb\n", "b\na\n", 2),
            ("x\na\nb\n", "a\nb\ny\n", 2),
        ];
        for (before, after, expected) in cases {
            assert_eq!(distance_of(before, after), Some(expected), "{before:?} {after:?}");
        }
    }

    /// Few distinct lines in another order: comparing 400,000 of them took four minutes.
    #[test]
    fn shuffled_text_is_replaced_whole() {
        let of_kinds = |kinds: u32| text(|n| (n.wrapping_mul(n) % 7 % kinds).to_string());
        let (before, after) = (of_kinds(2), of_kinds(3));
        let input = InternedInput::new(before.as_str(), after.as_str());
        let mut budget = Budget::default();
        assert_eq!(hunks(&input, &mut budget), [Hunk { before: 0..200_000, after: 0..200_000 }]);
        assert!(budget.0 > 0 && budget.0 < STEPS_MAX, "enough is left for others");
    }

    #[test]
    fn long_text_with_many_changes_is_compared_by_line() {
        let before = text(|n| n.to_string());
        let after = text(|n| if n.is_multiple_of(50) { format!("new {n}") } else { n.to_string() });
        let input = InternedInput::new(before.as_str(), after.as_str());
        assert_eq!(hunks(&input, &mut Budget::default()).len(), 4000);
    }

    #[test]
    fn files_of_a_patch_share_the_budget() {
        let input = InternedInput::new("a\nb\nc\n", "a\nx\nc\n");
        assert_eq!(hunks(&input, &mut Budget::default())[0].before, 1..2);
        assert_eq!(hunks(&input, &mut Budget(3))[0].before, 0..3);
    }
}
