//! Times of files: what those below show, and what those of the disk get when changes are applied.
//!
//! A paused clock and the disk's do not show the same time. Files of the disk show their own times, which
//! are before the clock's start; what programs write is after it, in the order in which they wrote. When
//! changes are applied that order is kept, and ends where the disk's clock stands.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::Overlay;
use super::node::{Body, MountId, Node, NodeId, TimesOf};
use crate::base::ambient;
use crate::kernel::vfs::layer::Stat;
use crate::kernel::vfs::layer::Times;
use crate::kernel::vfs::path::VPath;

/// 2037-01-01T00:00:00Z, which is later than the files of any disk, nanoseconds since the Unix epoch. A
/// clock that starts earlier shows files earlier by as much.
pub const FILES_END_NS: u64 = 2_114_380_800_000_000_000;

/// 1990-01-01T00:00:00Z: the first of the times that are derived from contents.
const CONTENT_TIMES_BEGIN_S: u64 = 631_152_000;

/// How many seconds such times may be apart: eight and a half years. Two contents have the same one by a
/// chance of one in that many.
const CONTENT_TIMES_SPAN_S: u64 = 1 << 28;

/// Between two times that are given to files of the disk in the order in which programs wrote them.
const APPLIED_STEP_NS: u64 = 1_000;

/// Times that files of a layer show until they are changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mtimes {
    /// All the same, nanoseconds since the Unix epoch. Whoever compares times takes a file that was
    /// changed below for the file that it was.
    Fixed(u64),
    /// Those of the layer. They are an input, as contents are.
    #[default]
    Host,
    /// For each file one that depends on nothing but its content, between 1990 and 1998: whoever compares
    /// times for equality sees what changed, and which file is newer means nothing. Links and directories
    /// have the first of these times.
    Content,
}

/// How times of files below and those of a machine's clock belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeScale {
    /// Nothing is known of the clock: what programs write has the disk's times on the disk.
    Unknown,
    /// The machine's clock is that of the disk.
    Same,
    /// The clock was paused at this time, nanoseconds since the Unix epoch.
    Paused(u64),
}

/// Clocks that start earlier leave no room for files to be shown earlier by as much as they do: 2000-01-01.
const SHIFTED_NS: u64 = 946_684_800_000_000_000;

impl TimeScale {
    /// What a file shows that the disk changed last at `ns`: never a time that the clock has yet to
    /// reach.
    fn shown(self, ns: u64) -> u64 {
        match self {
            Self::Unknown | Self::Same => ns,
            Self::Paused(start) if start < SHIFTED_NS => scaled(ns, start, FILES_END_NS).min(start),
            Self::Paused(start) => ns.saturating_sub(FILES_END_NS.saturating_sub(start)).min(start),
        }
    }

    /// The time of the disk that is shown as `ns`.
    fn hidden(self, ns: u64) -> u64 {
        match self {
            Self::Unknown | Self::Same | Self::Paused(0) => ns,
            Self::Paused(start) if start < SHIFTED_NS => scaled(ns, FILES_END_NS, start),
            Self::Paused(start) => ns.saturating_add(FILES_END_NS.saturating_sub(start)),
        }
    }
}

/// `ns` times `by`, divided by `of`.
fn scaled(ns: u64, by: u64, of: u64) -> u64 {
    u64::try_from(u128::from(ns) * u128::from(by) / u128::from(of)).unwrap_or(u64::MAX)
}

impl Mtimes {
    /// What an entry with the attributes `stat` shows, and whether that is all that there is to it.
    pub(in crate::kernel::vfs) fn of(self, stat: &Stat, scale: TimeScale) -> (Times, TimesOf) {
        match self {
            Self::Fixed(time) => (Times::all(time), TimesOf::Layer),
            Self::Host => (Times::all(scale.shown(stat.mtime_ns)), TimesOf::Layer),
            Self::Content => (Times::all(content_time_ns(0, scale)), TimesOf::Content),
        }
    }
}

const NS_PER_S: u64 = 1_000_000_000;

/// Whether a clock that began at `start` and showed `now` has shown `ns`, give or take a second.
fn is_of_clock(ns: u64, start: u64, now: u64) -> bool {
    (start..=now.saturating_add(NS_PER_S)).contains(&ns)
}

/// The number `number` of the times that stand for contents: whole seconds, as some compare no more. All
/// are before the clock's start.
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

/// Times of a file that [`Overlay::apply`] gives to the disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangedTimes {
    /// The mount.
    pub mount: MountId,
    /// The path in it.
    pub path: VPath,
    /// What programs see.
    pub times: Times,
    /// Whether a program set them to definite values. Otherwise one wrote to the file, and they are the
    /// clock's.
    pub was_set: bool,
}

/// Which times files get on the disk. A program sees what was written when by the machine's clock, and
/// the disk has another one: what was written in one order has its times in that order, up to now.
pub(in crate::kernel::vfs) struct DiskTimes {
    scale: TimeScale,
    /// The times at which something was written, each once, from the first on.
    written: Vec<u64>,
    /// What the disk has for times that files of it show and that programs gave to others.
    copied: HashMap<u64, u64>,
    newest_ns: u64,
}

impl DiskTimes {
    /// The times that `node` is to have; `None` if it keeps those of the disk.
    pub fn of(&self, node: &Node) -> Option<Times> {
        let Times { atim, mtim, ctim } = node.times;
        if !node.carries_times() {
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

    /// The disk's time for `ns`: of what a file of the disk may show, that file's; of another date
    /// this one; and of what has yet to come there, as long ago as it is on the machine's clock.
    fn on_disk(&self, ns: u64) -> u64 {
        if let Some(copied) = self.copied.get(&ns) {
            return *copied;
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
                    // No file of the disk shows that: it is a date.
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
    /// Which times changed files get on the disk if they are written there now.
    pub(in crate::kernel::vfs) fn disk_times(&self) -> DiskTimes {
        let mut written = Vec::new();
        let copied = self.copied_times();
        if let TimeScale::Paused(start) = self.time_scale {
            for (_, node) in self.nodes.iter().filter(|(_, node)| node.carries_times()) {
                // Programs set times to those of other files, to what the clock shows, and to others.
                let is_past =
                    |ns: &u64| is_of_clock(*ns, start, node.times.ctim) && !copied.contains_key(ns);
                written.extend([node.times.mtim, node.times.atim].into_iter().filter(is_past));
            }
        }
        written.sort_unstable();
        written.dedup();
        DiskTimes { scale: self.time_scale, written, copied, newest_ns: ambient::wall_now_ns() }
    }

    /// What the disk has for the times that programs have set, as far as files of the disk show them.
    fn copied_times(&self) -> HashMap<u64, u64> {
        let of_guest = self.nodes.iter().filter(|(_, node)| node.times_of == TimesOf::Guest);
        let set: HashSet<u64> =
            of_guest.flat_map(|(_, node)| [node.times.mtim, node.times.atim]).collect();
        let shows_one = |node: &&Node| {
            node.times_of == TimesOf::Layer
                && matches!(node.body, Body::File(_))
                && self.mounts[node.mount.index()].mtimes == Mtimes::Host
                && set.contains(&node.times.mtim)
        };
        let mut copied = HashMap::new();
        if set.is_empty() || !matches!(self.time_scale, TimeScale::Paused(_)) {
            return copied;
        }
        for node in self.nodes.iter().map(|(_, node)| node).filter(shows_one) {
            let Some(origin) = &node.origin else { continue };
            if let Ok(stat) = self.layers[usize::from(origin.layer)].stat(&origin.path) {
                let on_disk: &mut u64 = copied.entry(node.times.mtim).or_default();
                *on_disk = stat.mtime_ns.max(*on_disk);
            }
        }
        copied
    }

    /// Whether `ns`, set at `set_ns`, is a time that the clock has shown, which the disk has another one for.
    pub(crate) fn is_clock_time(&self, ns: u64, set_ns: u64) -> bool {
        matches!(self.time_scale, TimeScale::Paused(start) if is_of_clock(ns, start, set_ns))
    }

    /// Says how the times of files below belong to those of the clock: for what is mounted after this.
    pub fn set_time_scale(&mut self, scale: TimeScale) {
        self.time_scale = scale;
    }

    /// Makes sure that the times of `node` are what its content says, where that is where they are from.
    pub(super) fn settle_times(&mut self, id: NodeId) {
        let node = self.node(id);
        if node.times_of != TimesOf::Content {
            return;
        }
        let mut times = node.times;
        if let (Body::File(_), Some(origin)) = (&node.body, &node.origin)
            // Where it cannot be read, reading it will tell.
            && let Ok(digest) = self.layers[usize::from(origin.layer)].digest(&origin.path)
        {
            let [a, b, c, d, ..] = *digest.as_bytes();
            let number = u32::from_le_bytes([a, b, c, d]);
            times = Times::all(content_time_ns(number, self.time_scale));
        }
        let node = self.node_mut(id);
        (node.times, node.times_of) = (times, TimesOf::Layer);
    }
}
