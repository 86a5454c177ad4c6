//! Times of a paused clock of which the disk's are known: a program that copies one, as `cp -p` does, means the disk's,
//! also when no file shows it any more.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Distance of times that an apply sets on files written one after the other.
pub(super) const APPLIED_STEP_NS: u64 = 1_000;

/// Pairs of [`AppliedTimes`] that are remembered.
const APPLIED_PAIRS_MAX: usize = 1 << 16;

/// Times of writes, and the times that applies gave these files on the disk. A program that copies such a time later
/// means that file's time, also when nothing shows it any more.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::kernel::vfs) struct AppliedTimes(BTreeMap<u64, u64>);

impl AppliedTimes {
    /// Records that a file written at `shown_ns` on the machine's clock has `disk_ns` on the disk.
    pub fn note(&mut self, shown_ns: u64, disk_ns: u64) {
        let on_disk = self.0.entry(shown_ns).or_default();
        *on_disk = disk_ns.max(*on_disk);
        if self.0.len() > APPLIED_PAIRS_MAX {
            self.0.pop_first();
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The time on the disk for `ns`, later than those of earlier writes and before those of later ones; `None` after
    /// the last one that was applied. Tools such as tar copy whole seconds.
    fn on_disk(&self, ns: u64) -> Option<u64> {
        let (last, _) = self.0.last_key_value()?;
        let (first, first_on_disk) = self.0.first_key_value()?;
        if ns > *last {
            return None;
        }
        Some(match self.0.range(..=ns).next_back() {
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
}

impl KnownTimes {
    /// The time on the disk for `ns`, a time since the start of the clock: if a refresh showed it, or if it is not after
    /// the last write that was applied.
    pub(super) fn on_disk(&self, ns: u64) -> Option<u64> {
        let of_refresh = self.refreshes.iter().find_map(|refresh| refresh.hidden(ns));
        of_refresh.or_else(|| self.applied.on_disk(ns))
    }
}
