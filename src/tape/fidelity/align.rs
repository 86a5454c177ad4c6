//! Pairs the records of two tapes.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use imara_diff::{Algorithm, Diff, NoSliderHeuristic, Token};

/// The record has no partner.
const NONE: u32 = u32::MAX;

/// Records compared at a time: the cost of a diff can be quadratic, and tapes may be crafted.
const WINDOW: usize = 4096;

/// The timestamps of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    pub virtual_time_ms: i64,
    pub monotonic_ms: u64,
}

impl Times {
    /// The time from `other` to `self`, to be compared only.
    fn shift(self, other: Self) -> (i64, u64) {
        (
            self.virtual_time_ms.wrapping_sub(other.virtual_time_ms),
            self.monotonic_ms.wrapping_sub(other.monotonic_ms),
        )
    }
}

/// What alignment needs to know of a tape.
#[derive(Default)]
pub(super) struct Tokens {
    /// What happened, one number per distinct record.
    pub keys: Vec<Token>,
    /// The kinds.
    pub kinds: Vec<Token>,
    /// Empty if times are not compared.
    pub times: Vec<Times>,
}

/// The pairs of records of two tapes. Pairs do not cross.
pub(super) struct Alignment {
    /// For each record of the first tape its index on the second, or [`NONE`].
    forth: Vec<u32>,
    /// The same for the second tape.
    back: Vec<u32>,
}

impl Alignment {
    /// Pairs equal records, then records of one kind between them.
    pub fn new(a: &Tokens, b: &Tokens) -> Self {
        let (forth, back) = (vec![NONE; a.keys.len()], vec![NONE; b.keys.len()]);
        let mut this = Self { forth, back };
        this.align(&a.keys, &b.keys, 0..a.keys.len(), 0..b.keys.len());
        if !a.times.is_empty() && !b.times.is_empty() {
            slide(&mut this.forth, &mut this.back, a, &b.times);
            slide(&mut this.back, &mut this.forth, b, &a.times);
        }
        for (in_a, in_b) in this.gaps(0..a.keys.len(), 0..b.keys.len()) {
            this.align(&a.kinds, &b.kinds, in_a, in_b);
        }
        this
    }

    /// Whether record `at` of the first tape has no partner.
    pub fn is_missing(&self, at: usize) -> bool {
        self.forth.get(at) == Some(&NONE)
    }

    /// Whether record `at` of the second tape has no partner.
    pub fn is_extra(&self, at: usize) -> bool {
        self.back.get(at) == Some(&NONE)
    }

    fn pair(&mut self, in_a: usize, in_b: usize) {
        self.forth[in_a] = in_b as u32;
        self.back[in_b] = in_a as u32;
    }

    /// The ranges without partners on both tapes.
    fn gaps(&self, in_a: Range<usize>, in_b: Range<usize>) -> Vec<(Range<usize>, Range<usize>)> {
        let mut gaps = Vec::new();
        let (mut a, mut b) = (in_a.start, in_b.start);
        while a < in_a.end && b < in_b.end {
            let start = (a, b);
            while a < in_a.end && self.forth[a] == NONE {
                a += 1;
            }
            while b < in_b.end && self.back[b] == NONE {
                b += 1;
            }
            if start.0 < a && start.1 < b {
                gaps.push((start.0..a, start.1..b));
            }
            (a, b) = (a + 1, b + 1);
        }
        gaps
    }

    /// Pairs equal tokens in the ranges, which have no partners yet.
    fn align(&mut self, a: &[Token], b: &[Token], in_a: Range<usize>, in_b: Range<usize>) {
        let (in_a, in_b) = self.pair_ends(a, b, in_a, in_b);
        for (in_a, in_b) in anchors(a, b, &in_a, &in_b) {
            self.pair(in_a, in_b);
        }
        for (in_a, in_b) in self.gaps(in_a, in_b) {
            self.align_by_windows(a, b, in_a, in_b);
        }
    }

    /// Pairs equal tokens at both ends; returns the remaining ranges.
    fn pair_ends(
        &mut self,
        a: &[Token],
        b: &[Token],
        mut in_a: Range<usize>,
        mut in_b: Range<usize>,
    ) -> (Range<usize>, Range<usize>) {
        while !in_a.is_empty() && !in_b.is_empty() && a[in_a.start] == b[in_b.start] {
            self.pair(in_a.start, in_b.start);
            (in_a.start, in_b.start) = (in_a.start + 1, in_b.start + 1);
        }
        while !in_a.is_empty() && !in_b.is_empty() && a[in_a.end - 1] == b[in_b.end - 1] {
            (in_a.end, in_b.end) = (in_a.end - 1, in_b.end - 1);
            self.pair(in_a.end, in_b.end);
        }
        (in_a, in_b)
    }

    /// Compares a window of both ranges, keeps the certain pairs, and continues after them.
    fn align_by_windows(
        &mut self,
        a: &[Token],
        b: &[Token],
        in_a: Range<usize>,
        in_b: Range<usize>,
    ) {
        let (mut in_a, mut in_b) = self.pair_ends(a, b, in_a, in_b);
        let mut window = WINDOW;
        while !in_a.is_empty() && !in_b.is_empty() {
            let end_a = in_a.end.min(in_a.start + window);
            let end_b = in_b.end.min(in_b.start + window);
            let (pairs, is_whole) = common(&a[in_a.start..end_a], &b[in_b.start..end_b]);
            for (x, y) in &pairs {
                self.pair(in_a.start + x, in_b.start + y);
            }
            if is_whole && (end_a, end_b) == (in_a.end, in_b.end) {
                return;
            }
            // Later records may have their partners beyond the window.
            match pairs.last() {
                Some((x, y)) => {
                    (in_a.start, in_b.start) = (in_a.start + x + 1, in_b.start + y + 1);
                    window = WINDOW;
                }
                None => window *= 2,
            }
            (in_a, in_b) = self.pair_ends(a, b, in_a, in_b);
        }
    }
}

/// Pairs of tokens that occur once in each range, without crossings.
fn anchors(
    a: &[Token],
    b: &[Token],
    in_a: &Range<usize>,
    in_b: &Range<usize>,
) -> Vec<(usize, usize)> {
    if in_a.is_empty() || in_b.is_empty() {
        return Vec::new();
    }
    let mut once_in_b = HashMap::new();
    for at in in_b.clone() {
        once_in_b.entry(b[at].0).and_modify(|place| *place = None).or_insert(Some(at));
    }
    let mut once_in_a = HashMap::new();
    for at in in_a.clone() {
        once_in_a.entry(a[at].0).and_modify(|once| *once = false).or_insert(true);
    }
    let places = in_a.clone().filter(|at| once_in_a[&a[*at].0]);
    longest_rise(places.filter_map(|at| Some((at, (*once_in_b.get(&a[at].0)?)?))))
}

/// The longest subsequence with rising second numbers.
fn longest_rise(pairs: impl Iterator<Item = (usize, usize)>) -> Vec<(usize, usize)> {
    let pairs: Vec<_> = pairs.collect();
    // For each length, the pair that ends a rise of that length with the smallest number.
    let mut ends: Vec<usize> = Vec::new();
    let mut previous = vec![None; pairs.len()];
    for (index, (_, second)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < *second);
        previous[index] = length.checked_sub(1).map(|shorter| ends[shorter]);
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut rise: Vec<_> = std::iter::successors(ends.last().copied(), |at| previous[*at])
        .map(|at| pairs[at])
        .collect();
    rise.reverse();
    rise
}

/// The indices of equal tokens, and whether everything was compared. If there is a common token,
/// there is at least one pair.
fn common(a: &[Token], b: &[Token]) -> (Vec<(usize, usize)>, bool) {
    let shared = |tokens: &[Token], other: &[Token]| -> Vec<(usize, Token)> {
        let other: HashSet<u32> = other.iter().map(|token| token.0).collect();
        let tokens = tokens.iter().copied().enumerate();
        tokens.filter(|(_, token)| other.contains(&token.0)).collect()
    };
    let (mut a, mut b) = (shared(a, b), shared(b, a));
    let is_whole = a.len() <= WINDOW && b.len() <= WINDOW;
    let first = a
        .first()
        .and_then(|(x, token)| b.iter().find(|(_, other)| other == token).map(|(y, _)| (*x, *y)));
    a.truncate(WINDOW);
    b.truncate(WINDOW);
    let tokens = |places: &[(usize, Token)]| places.iter().map(|(_, t)| *t).collect::<Vec<_>>();
    let (before, after) = (tokens(&a), tokens(&b));
    let mut diff = Diff::default();
    // Another algorithm needs the number of tokens.
    diff.compute_with(Algorithm::Myers, &before, &after, 0);
    diff.postprocess_with(&before, &after, NoSliderHeuristic);
    let kept_a = (0..a.len()).filter(|at| !diff.is_removed(*at as u32)).map(|at| a[at].0);
    let kept_b = (0..b.len()).filter(|at| !diff.is_added(*at as u32)).map(|at| b[at].0);
    let mut pairs: Vec<_> = kept_a.zip(kept_b).collect();
    if pairs.is_empty() {
        // The common tokens may all be beyond the limit.
        pairs.extend(first);
    }
    (pairs, is_whole)
}

/// Moves gaps within runs of equal records to where the fewest time shifts change: only times tell
/// which of several equal records is missing. `forth` leads from `long` to the other tape, which
/// has the times `others`.
fn slide(forth: &mut [u32], back: &mut [u32], long: &Tokens, others: &[Times]) {
    let (keys, times) = (&long.keys, &long.times);
    let mut end = 0;
    while let Some(skipped) = forth[end..].iter().position(|partner| *partner == NONE) {
        let start = end + skipped;
        let len = forth[start..].iter().take_while(|partner| **partner == NONE).count();
        end = start + len;
        let partner = match start.checked_sub(1).map(|before| forth[before]) {
            None => 0,
            Some(NONE) => continue,
            Some(before) => before as usize + 1,
        };
        if forth.get(end).map_or(back.len(), |next| *next as usize) != partner {
            // The other tape has unpaired records here, too.
            continue;
        }
        let is_pair = |at: usize, partner: usize| forth[at] as usize == partner;
        // Beyond the start of the other tape there are no pairs.
        let up = (1..=start.min(partner))
            .take_while(|n| keys[start - n] == keys[end - n] && is_pair(start - n, partner - n))
            .count();
        let down = (0..keys.len() - end)
            .take_while(|n| keys[start + n] == keys[end + n] && is_pair(end + n, partner + n))
            .count();
        let (top, first, count) = (start - up, partner - up, up + down);

        // The first `split` of the movable pairs are before the gap, the others after it.
        let shift = |at: usize, partner: usize| Some(times[at].shift(others[partner]));
        let head = |split: usize| match (top + split).checked_sub(1) {
            None => Some((0, 0)),
            Some(at) if split > 0 => shift(at, first + split - 1),
            Some(at) if forth[at] == NONE => None,
            Some(at) => shift(at, forth[at] as usize),
        };
        let tail = |split: usize| match forth.get(top + split + len) {
            Some(_) if split < count => shift(top + split + len, first + split),
            None | Some(&NONE) => None,
            Some(behind) => shift(top + split + len, *behind as usize),
        };
        let changes =
            |a: Option<_>, b: Option<_>| usize::from(a.is_some() && b.is_some() && a != b);
        let mut before = 0;
        let mut behind: usize = (0..count).map(|n| changes(tail(n), tail(n + 1))).sum();
        let mut best = (usize::MAX, 0);
        for split in 0..=count {
            best = best.min((before + changes(head(split), tail(split)) + behind, split));
            if split < count {
                before += changes(head(split), head(split + 1));
                behind -= changes(tail(split), tail(split + 1));
            }
        }
        let (_, split) = best;
        for n in 0..count {
            let at = if n < split { top + n } else { top + n + len };
            (forth[at], back[first + n]) = ((first + n) as u32, at as u32);
        }
        end = top + split + len;
        forth[top + split..end].fill(NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(keys: &[u32]) -> Tokens {
        let keys: Vec<Token> = keys.iter().copied().map(Token).collect();
        Tokens { kinds: keys.clone(), keys, times: Vec::new() }
    }

    fn timed(records: &[(u32, u64)]) -> Tokens {
        let keys: Vec<u32> = records.iter().map(|(key, _)| *key).collect();
        let times = |time: u64| Times { virtual_time_ms: 0, monotonic_ms: time };
        Tokens { times: records.iter().map(|(_, time)| times(*time)).collect(), ..tokens(&keys) }
    }

    fn unpaired(a: &Tokens, b: &Tokens) -> (Vec<usize>, Vec<usize>) {
        let found = Alignment::new(a, b);
        for (at, partner) in found.forth.iter().enumerate().filter(|(_, p)| **p != NONE) {
            assert_eq!(found.back[*partner as usize] as usize, at);
        }
        let pairs: Vec<u32> = found.forth.iter().copied().filter(|p| *p != NONE).collect();
        assert!(pairs.is_sorted_by(|x, y| x < y), "pairs cross");
        let missing = (0..a.keys.len()).filter(|at| found.is_missing(*at)).collect();
        (missing, (0..b.keys.len()).filter(|at| found.is_extra(*at)).collect())
    }

    #[test]
    fn equal_records_are_paired() {
        let none = Vec::new;
        assert_eq!(unpaired(&tokens(&[]), &tokens(&[])), (none(), none()));
        assert_eq!(unpaired(&tokens(&[1, 2, 3]), &tokens(&[1, 2, 3])), (none(), none()));
        assert_eq!(unpaired(&tokens(&[1, 2, 3]), &tokens(&[1, 9, 2, 3])), (none(), vec![1]));
        assert_eq!(unpaired(&tokens(&[1, 2, 3]), &tokens(&[])), (vec![0, 1, 2], none()));
        assert_eq!(unpaired(&tokens(&[1, 1, 2, 1, 2]), &tokens(&[1, 2, 1, 2])).0.len(), 1);
    }

    #[test]
    fn different_records_are_paired_by_kind() {
        let kinds =
            |kinds: &[u32], keys: &[u32]| Tokens { kinds: tokens(kinds).keys, ..tokens(keys) };
        let a = kinds(&[0, 1, 2, 1, 0], &[10, 11, 12, 13, 10]);
        let b = kinds(&[0, 1, 1, 0], &[10, 21, 23, 10]);
        assert_eq!(unpaired(&a, &b), (vec![2], vec![]));
    }

    #[test]
    fn times_tell_which_of_equal_records_is_missing() {
        let all: Vec<(u32, u64)> = (0..9).map(|n| (7, n * n)).collect();
        for gone in 0..9 {
            let mut some = all.clone();
            some.remove(gone);
            assert_eq!(unpaired(&timed(&all), &timed(&some)), (vec![gone], vec![]));
            assert_eq!(unpaired(&timed(&some), &timed(&all)), (vec![], vec![gone]));
        }
    }

    /// An insertion longer than a window, of records that the other tape has, too.
    #[test]
    fn long_insertion_is_one_gap() {
        let a: Vec<u32> = (0..20_000).map(|n| if n % 2 == 0 { n } else { 1 }).collect();
        let mut b = a.clone();
        b.splice(10_000..10_000, std::iter::repeat_n(1, 3 * WINDOW));
        assert_eq!(unpaired(&tokens(&a), &tokens(&b)).1.len(), 3 * WINDOW);
    }

    /// Common records that are further apart than a window.
    #[test]
    fn distant_common_records_are_paired() {
        let keys = |many: u32, one: u32| {
            let mut keys = vec![many; 3 * WINDOW];
            keys.push(one);
            tokens(&keys)
        };
        let (missing, extra) = unpaired(&keys(1, 2), &keys(2, 1));
        assert_eq!((missing.len(), extra.len()), (3 * WINDOW, 3 * WINDOW));
    }

    /// Few distinct records in another order: comparing a million at once takes minutes.
    #[test]
    fn reordered_tapes_are_compared_in_windows() {
        let keys = |seed: u32| -> Vec<u32> {
            let next =
                |state: &u32| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
            std::iter::successors(Some(seed), next).map(|n| (n >> 20) % 3).take(60_000).collect()
        };
        let (missing, extra) = unpaired(&tokens(&keys(1)), &tokens(&keys(2)));
        assert_eq!(missing.len(), extra.len());
        assert!(missing.len() < 30_000, "{}", missing.len());
    }
}
