//! Times of a paused clock of which the disk's are known: a program that copies one, as `cp -p` does, means the disk's,
//! also when no file shows it any more.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

/// Distance of times that an apply sets on files written one after the other.
pub(super) const APPLIED_STEP_NS: u64 = 1_000;

/// Pairs of [`AppliedTimes`] that are remembered.
const APPLIED_PAIRS_MAX: usize = 1 << 16;

/// Times of writes, and the times that applies gave these files on the disk. A program that copies such a time later
/// means that file's time, also when nothing shows it any more.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(from = "BTreeMap<u64, u64>", into = "BTreeMap<u64, u64>")]
pub(in crate::kernel::vfs) struct AppliedTimes {
    on_disk: BTreeMap<u64, u64>,
    /// The other way round.
    shown: HashMap<u64, u64>,
}

impl From<BTreeMap<u64, u64>> for AppliedTimes {
    fn from(on_disk: BTreeMap<u64, u64>) -> Self {
        let shown = on_disk.iter().map(|(shown, on_disk)| (*on_disk, *shown)).collect();
        Self { on_disk, shown }
    }
}

impl From<AppliedTimes> for BTreeMap<u64, u64> {
    fn from(times: AppliedTimes) -> Self {
        times.on_disk
    }
}

impl AppliedTimes {
    /// Records that a file written at `shown_ns` on the machine's clock has `disk_ns` on the disk.
    pub fn note(&mut self, shown_ns: u64, disk_ns: u64) {
        let on_disk = self.on_disk.entry(shown_ns).or_default();
        *on_disk = disk_ns.max(*on_disk);
        self.shown.insert(*on_disk, shown_ns);
        if self.on_disk.len() > APPLIED_PAIRS_MAX
            && let Some((_, disk_ns)) = self.on_disk.pop_first()
        {
            self.shown.remove(&disk_ns);
        }
    }

    /// The time on the machine's clock of a file that was written by an apply and has `disk_ns` on the disk: also if it was
    /// moved there, or copied with its time.
    pub fn shown(&self, disk_ns: u64) -> Option<u64> {
        self.shown.get(&disk_ns).copied()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.on_disk.is_empty()
    }

    /// The time on the disk for `ns`, later than those of earlier writes and before those of later ones; `None` after
    /// the last one that was applied. Tools such as tar copy whole seconds.
    fn on_disk(&self, ns: u64) -> Option<u64> {
        let (last, _) = self.on_disk.last_key_value()?;
        let (first, first_on_disk) = self.on_disk.first_key_value()?;
        if ns > *last {
            return None;
        }
        Some(match self.on_disk.range(..=ns).next_back() {
            Some((shown, on_disk)) => on_disk.saturating_add((ns - shown).min(APPLIED_STEP_NS - 1)),
            None => first_on_disk.saturating_sub(first - ns),
        })
    }
}

/// Shows changes made on the disk between the start of a session, or a refresh, and the next refresh: later than
/// the session's writes before that, in the order in which they were made.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(in crate::kernel::vfs) struct Refresh {
    pub mount: u16,
    /// On the disk's clock.
    pub since_ns: u64,
    pub until_ns: u64,
    /// The time shown for a change at `since_ns`.
    pub shown_ns: u64,
    /// How much later a change at `until_ns` is shown; 0 in snapshots before version 1.3.
    #[serde(default)]
    pub span_ns: u64,
}

impl Refresh {
    /// The time shown for a change at `ns` on the disk's clock, if it is in the range.
    pub fn shown(&self, ns: u64) -> Option<u64> {
        // What has the time of the start was there when it was looked at first.
        let at = ns.checked_sub(self.since_ns).filter(|at| *at > 0 && ns <= self.until_ns)?;
        let whole = self.until_ns.saturating_sub(self.since_ns).max(1);
        let later = u128::from(at) * u128::from(self.span_ns) / u128::from(whole);
        Some(self.shown_ns.saturating_add(u64::try_from(later).unwrap_or(self.span_ns)))
    }

    /// The time on the disk's clock of a change that is shown at `ns`, if it is in the range.
    fn hidden(&self, ns: u64) -> Option<u64> {
        let later = ns.checked_sub(self.shown_ns).filter(|it| *it > 0 && *it <= self.span_ns)?;
        let whole = self.until_ns.saturating_sub(self.since_ns);
        let at = u128::from(later) * u128::from(whole) / u128::from(self.span_ns);
        Some(self.since_ns.saturating_add(u64::try_from(at).unwrap_or(whole)))
    }
}

/// All times of a namespace of which those on the disk are known.
#[derive(Clone, Default)]
pub(in crate::kernel::vfs) struct KnownTimes {
    /// Refreshes from the disk.
    pub refreshes: Vec<Refresh>,
    /// What applies made of the times of writes.
    pub applied: AppliedTimes,
    /// Times that files of the disk showed to a recorded run, with those that they had on the disk, where the scale
    /// alone does not lead back to these.
    pub recorded: HashMap<u64, u64>,
}

impl KnownTimes {
    /// The time on the disk for `ns`, a time since the start of the clock: if a refresh showed it, or if it is not after
    /// the last write that was applied.
    pub(super) fn on_disk(&self, ns: u64) -> Option<u64> {
        let of_refresh = self.refreshes.iter().find_map(|refresh| refresh.hidden(ns));
        of_refresh.or_else(|| self.applied.on_disk(ns))
    }

    /// The times on the disk for `shown`, which the clock showed before the last refresh: before what that refresh took
    /// in, after what was known earlier, in their order. Times after the last refresh are left out.
    pub(super) fn before_refreshes(&self, shown: &BTreeSet<u64>) -> HashMap<u64, u64> {
        // By the limits on the disk, which are those of all times between two known ones.
        let mut between: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
        for ns in shown {
            let later = self.refreshes.iter().filter(|refresh| refresh.shown_ns >= *ns);
            let Some(next) = later.min_by_key(|refresh| refresh.shown_ns) else { continue };
            let ended = self.refreshes.iter().filter_map(|refresh| {
                let end_ns = refresh.shown_ns.saturating_add(refresh.span_ns);
                (end_ns <= *ns).then_some((end_ns, refresh.until_ns))
            });
            let applied = self.applied.on_disk.range(..=ns).next_back();
            let before = ended.chain(applied.map(|(shown, disk)| (*shown, *disk))).max();
            let after_ns = before.map_or(0, |(_, disk_ns)| disk_ns);
            between.entry((after_ns, next.since_ns)).or_default().push(*ns);
        }
        let mut on_disk = HashMap::new();
        for ((after_ns, until_ns), times) in between {
            for (rank, ns) in (0..).zip(&times) {
                let later = times.len() as u64 - 1 - rank;
                let last = until_ns.saturating_sub(later.saturating_mul(APPLIED_STEP_NS));
                on_disk.insert(*ns, last.max(after_ns.saturating_add(rank + 1)));
            }
        }
        on_disk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_before_a_refresh_is_before_what_it_took_in_and_after_what_was_applied() {
        let refresh = |since_ns, shown_ns| Refresh {
            mount: 0,
            since_ns,
            until_ns: since_ns + 10_000,
            shown_ns,
            span_ns: 100,
        };
        let mut known =
            KnownTimes { refreshes: vec![refresh(50_000, 9_000)], ..KnownTimes::default() };
        let on_disk = |known: &KnownTimes, shown: &[u64]| {
            let found = known.before_refreshes(&shown.iter().copied().collect());
            shown.iter().map(|ns| found.get(ns).copied()).collect::<Vec<_>>()
        };
        assert_eq!(
            on_disk(&known, &[10, 8_999, 9_000, 9_001]),
            [Some(48_000), Some(49_000), Some(50_000), None]
        );
        known.applied.note(8_000, 49_500);
        assert_eq!(
            on_disk(&known, &[8_001, 8_500, 9_000]),
            [Some(49_501), Some(49_502), Some(50_000)]
        );
        known.refreshes.push(refresh(90_000, 10_100));
        assert_eq!(on_disk(&known, &[9_100, 10_100]), [Some(89_000), Some(90_000)]);
    }
}
