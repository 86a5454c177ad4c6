//! Times of files: those that files below show, and those that an apply sets on the disk.
//!
//! A paused clock differs from the disk's. Files of the disk show times before the start of the clock, writes of
//! programs times after it, in the order of the writes. An apply keeps that order and ends it at the present
//! time of the disk.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::Overlay;
use super::known_times::{APPLIED_STEP_NS, KnownTimes};
use super::node::{Body, MountId, Node, NodeId, TimesOf};
use crate::base::ambient;
use crate::kernel::vfs::layer::Stat;
use crate::kernel::vfs::layer::Times;
use crate::kernel::vfs::path::VPath;

/// 2037-01-01T00:00:00Z, later than files of any disk, in nanoseconds since the Unix epoch. A clock that starts
/// earlier shifts the times of files by the difference.
pub const FILES_END_NS: u64 = 2_114_380_800_000_000_000;

/// 1990-01-01T00:00:00Z: the first of the times derived from contents.
const CONTENT_TIMES_BEGIN_S: u64 = 631_152_000;

/// Range of these times in seconds, eight and a half years. Two contents have equal times with a probability of
/// one in that many.
const CONTENT_TIMES_SPAN_S: u64 = 1 << 28;

/// The modification times that files of a layer show until they are changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mtimes {
    /// The same for all files, nanoseconds since the Unix epoch. Tools that compare times do not see that a
    /// file below was changed.
    Fixed(u64),
    /// Those of the layer: an input, as contents are.
    #[default]
    Host,
    /// A time derived from the content, between 1990 and 1998. Tools that compare times for equality see
    /// changes; which file is newer means nothing. Links and directories have the first of these times.
    Content,
}

/// How times of files below relate to a machine's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeScale {
    /// Unknown clock: an apply leaves the disk to set the times of written files.
    Unknown,
    /// The machine's clock is the disk's.
    Same,
    /// The clock is paused and started at this time, nanoseconds since the Unix epoch.
    Paused(u64),
}

/// 2000-01-01T00:00:00Z, in nanoseconds since the Unix epoch. For a clock that starts earlier, times of files are scaled, as
/// there is no room to shift them.
pub const SHIFTED_NS: u64 = 946_684_800_000_000_000;

impl TimeScale {
    /// The time that a file last changed at `ns` on the disk shows; never after the start of the clock.
    fn shown(self, ns: u64) -> u64 {
        match self {
            Self::Unknown | Self::Same => ns,
            Self::Paused(start) if start < SHIFTED_NS => scaled(ns, start, FILES_END_NS).min(start),
            Self::Paused(start) => ns.saturating_sub(FILES_END_NS.saturating_sub(start)).min(start),
        }
    }

    /// Whether this is a paused clock that started at `ns` or before.
    pub(super) fn has_begun(self, ns: u64) -> bool {
        matches!(self, Self::Paused(start) if start <= ns)
    }

    /// The time on the disk that is shown as `ns`.
    fn hidden(self, ns: u64) -> u64 {
        match self {
            Self::Unknown | Self::Same | Self::Paused(0) => ns,
            Self::Paused(start) if start < SHIFTED_NS => scaled(ns, FILES_END_NS, start),
            Self::Paused(start) => ns.saturating_add(FILES_END_NS.saturating_sub(start)),
        }
    }
}

/// `ns * by / of`.
fn scaled(ns: u64, by: u64, of: u64) -> u64 {
    u64::try_from(u128::from(ns) * u128::from(by) / u128::from(of)).unwrap_or(u64::MAX)
}

impl Mtimes {
    /// The times of an entry with the attributes `stat`, and their source.
    pub(in crate::kernel::vfs) fn of(self, stat: &Stat, scale: TimeScale) -> (Times, TimesOf) {
        match self {
            Self::Fixed(time) => (Times::all(time), TimesOf::Layer),
            Self::Host => (Times::all(scale.shown(stat.mtime_ns)), TimesOf::Layer),
            Self::Content => (Times::all(content_time_ns(0, scale)), TimesOf::Content),
        }
    }
}

const NS_PER_S: u64 = 1_000_000_000;

/// Whether a clock that started at `start` and shows `now` has shown `ns`, within a second.
fn is_of_clock(ns: u64, start: u64, now: u64) -> bool {
    (start..=now.saturating_add(NS_PER_S)).contains(&ns)
}

/// The time for contents numbered `number`: whole seconds, which is all that some tools compare, before the start
/// of the clock.
fn content_time_ns(number: u32, scale: TimeScale) -> u64 {
    let number = u64::from(number);
    let seconds = match scale {
        TimeScale::Paused(start) if start < SHIFTED_NS => {
            let half = start / NS_PER_S / 2;
            half + number.checked_rem(half).unwrap_or(0)
        }
        _ => CONTENT_TIMES_BEGIN_S + number % CONTENT_TIMES_SPAN_S,
    };
    seconds * NS_PER_S
}

/// Times that [`Overlay::apply`] sets on a file of the disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangedTimes {
    /// The mount.
    pub mount: MountId,
    /// The path in it.
    pub path: VPath,
    /// The times that programs see.
    pub times: Times,
    /// A program set them explicitly; otherwise they are the clock's at a write.
    pub was_set: bool,
}

/// Converts times that programs see to times of the disk. Writes keep their order; the last one gets the present
/// time.
pub(in crate::kernel::vfs) struct DiskTimes {
    scale: TimeScale,
    /// Distinct times of writes, sorted.
    written: Vec<u64>,
    /// Times that programs copied from files of the disk, and the disk's times of these files.
    copied: HashMap<u64, u64>,
    known: KnownTimes,
    newest_ns: u64,
}

impl DiskTimes {
    /// The times that `node` gets on the disk; `None` if it keeps those it has there.
    pub fn of(&self, node: &Node) -> Option<Times> {
        let Times { atim, mtim, ctim } = node.times;
        if !node.has_own_times() {
            return None;
        }
        match (node.times_of, self.scale) {
            (TimesOf::Guest, _) => {
                Some(Times { atim: self.on_disk(atim), mtim: self.on_disk(mtim), ctim })
            }
            (_, TimeScale::Unknown) => None,
            _ => Some(Times { atim: self.on_disk(mtim), mtim: self.on_disk(mtim), ctim }),
        }
    }

    /// A time on the disk that is later than all writes.
    pub fn after_all_ns(&self) -> u64 {
        self.newest_ns.saturating_add(APPLIED_STEP_NS)
    }

    /// Converts `ns`: a time copied from a file of the disk becomes that file's, another date stays, and a date
    /// that is in the disk's future becomes as old as it is on the machine's clock.
    fn on_disk(&self, ns: u64) -> u64 {
        if let Some(copied) = self.copied.get(&ns) {
            return *copied;
        }
        if let Some(known) = self.known.on_disk(ns).filter(|_| self.scale.has_begun(ns)) {
            return known.min(self.newest_ns);
        }
        match (self.scale, self.written.binary_search(&ns)) {
            (TimeScale::Paused(_), Ok(rank)) => {
                let later = (self.written.len() - 1 - rank) as u64;
                self.newest_ns.saturating_sub(later.saturating_mul(APPLIED_STEP_NS))
            }
            (TimeScale::Paused(start), Err(_)) if ns < start => {
                let hidden = self.scale.hidden(ns);
                if hidden <= self.newest_ns {
                    hidden
                } else if ns <= self.newest_ns {
                    // No file of the disk shows it: a date.
                    ns
                } else {
                    self.newest_ns.saturating_sub(start - ns)
                }
            }
            _ => ns,
        }
    }
}

impl Overlay {
    /// The conversion for an apply at the present time.
    pub(in crate::kernel::vfs) fn disk_times(&self) -> DiskTimes {
        let mut copied = self.copied_times();
        copied.extend(self.times_before_refreshes(&copied));
        let mut written = Vec::new();
        let known = self.writes.known.clone();
        let is_known = |ns: &u64| {
            copied.contains_key(ns)
                || self.time_scale.has_begun(*ns) && known.on_disk(*ns).is_some()
        };
        if let TimeScale::Paused(start) = self.time_scale {
            for (_, node) in self.nodes.iter().filter(|(_, node)| node.has_own_times()) {
                // Only times that the clock has shown, not dates or copies of other files' times.
                let is_past = |ns: &u64| is_of_clock(*ns, start, node.times.ctim) && !is_known(ns);
                written.extend([node.times.mtim, node.times.atim].into_iter().filter(is_past));
            }
        }
        written.sort_unstable();
        written.dedup();
        let newest_ns = ambient::wall_now_ns();
        DiskTimes { scale: self.time_scale, written, copied, known, newest_ns }
    }

    /// Times of the clock that programs set and no file has, of before a refresh from the disk, with the times on the
    /// disk that keep their order with what was taken in. Files written before a refresh are not among them: an apply
    /// changes them on the disk now, so they get the present time, and so do times that were set to theirs or later ones.
    fn times_before_refreshes(&self, copied: &HashMap<u64, u64>) -> HashMap<u64, u64> {
        let TimeScale::Paused(start) = self.time_scale else { return HashMap::new() };
        let known = &self.writes.known;
        if known.refreshes.is_empty() {
            return HashMap::new();
        }
        let carried = || self.nodes.iter().map(|(_, node)| node).filter(|it| it.carries_times());
        let is_set = |node: &&Node| node.times_of == TimesOf::Guest;
        let first_written =
            carried().filter(|node| !is_set(node)).map(|node| node.times.mtim).min();
        let set = carried().filter(is_set).flat_map(|node| {
            let is_past = move |ns: &u64| is_of_clock(*ns, start, node.times.ctim);
            [node.times.mtim, node.times.atim].into_iter().filter(is_past)
        });
        let is_open = |ns: &u64| {
            !copied.contains_key(ns)
                && first_written.is_none_or(|first| *ns < first)
                && known.on_disk(*ns).is_none()
        };
        known.before_refreshes(&set.filter(is_open).collect())
    }

    /// Times that programs set and files of the disk show, or showed until a program changed them, with the disk's times
    /// of these files.
    fn copied_times(&self) -> HashMap<u64, u64> {
        let of_guest = self.nodes.iter().filter(|(_, node)| node.times_of == TimesOf::Guest);
        let set: HashSet<u64> =
            of_guest.flat_map(|(_, node)| [node.times.mtim, node.times.atim]).collect();
        let mut copied = self.writes.known.recorded.clone();
        if set.is_empty() || !matches!(self.time_scale, TimeScale::Paused(_)) {
            return copied;
        }
        let of_nodes = self.nodes.iter().filter_map(|(_, node)| {
            let origin = node.origin.as_deref().filter(|_| matches!(node.body, Body::File(_)))?;
            let is_shown = node.times_of == TimesOf::Layer;
            Some((if is_shown { node.times.mtim } else { origin.shown_ns }, origin))
        });
        let of_freed = self.seen.iter().map(|origin| (origin.shown_ns, origin));
        for (shown_ns, origin) in of_nodes.chain(of_freed).filter(|(ns, _)| set.contains(ns)) {
            let mount = self.mount_of(origin.layer);
            if self.mounts[mount.index()].mtimes != Mtimes::Host {
                continue;
            }
            if let Ok(stat) = self.layers[usize::from(origin.layer)].stat(&origin.path) {
                let on_disk: &mut u64 = copied.entry(shown_ns).or_default();
                *on_disk = stat.mtime_ns.max(*on_disk);
            }
        }
        copied
    }

    /// Records that the run whose changes are made here saw a file with the time `disk_ns` on the disk.
    pub(crate) fn note_recorded_time(&mut self, disk_ns: u64) {
        let shown_ns = self.time_scale.shown(disk_ns);
        if self.time_scale.hidden(shown_ns) != disk_ns {
            let on_disk = self.writes.known.recorded.entry(shown_ns).or_default();
            *on_disk = disk_ns.max(*on_disk);
        }
    }

    /// The time that a file with the time `disk_ns` on the disk shows.
    pub(crate) fn shown_time(&self, disk_ns: u64) -> u64 {
        self.time_scale.shown(disk_ns)
    }

    /// Whether `ns`, set at `set_ns`, is a time that a paused clock has shown.
    pub(crate) fn is_clock_time(&self, ns: u64, set_ns: u64) -> bool {
        matches!(self.time_scale, TimeScale::Paused(start) if is_of_clock(ns, start, set_ns))
    }

    /// Sets how times of files below relate to the clock, for later mounts.
    pub fn set_time_scale(&mut self, scale: TimeScale) {
        self.time_scale = scale;
    }

    /// Computes the times of `node` from its content, if that is their source.
    #[inline]
    pub(super) fn settle_times(&mut self, id: NodeId) {
        if self.node(id).times_of == TimesOf::Content {
            self.settle_times_of_content(id);
        }
    }

    #[cold]
    fn settle_times_of_content(&mut self, id: NodeId) {
        // An unreadable file keeps its time; reading it will fail.
        let times = self.content_times(id).unwrap_or(self.node(id).times);
        let node = self.node_mut(id);
        (node.times, node.times_of) = (times, TimesOf::Layer);
    }

    /// The times derived from the content below of the file `id`; `None` if it cannot be read.
    pub(in crate::kernel::vfs) fn content_times(&self, id: NodeId) -> Option<Times> {
        let node = self.node(id);
        let (Body::File(_), Some(origin)) = (&node.body, &node.origin) else { return None };
        let digest = self.layers[usize::from(origin.layer)].digest(&origin.path).ok()?;
        let [a, b, c, d, ..] = *digest.as_bytes();
        let number = u32::from_le_bytes([a, b, c, d]);
        Some(Times::all(content_time_ns(number, self.time_scale)))
    }
}
