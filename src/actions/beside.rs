//! What a tree of digests does not tell of changes: what was moved, further names, and the times of files.

use serde::{Deserialize, Serialize};

use crate::kernel::vfs::{ChangedTimes, DiffEntry, MountId, Overlay, Times, VPath};

/// Most files and directories that are named. Of a run with more, nothing is told beside the tree.
const NAMED_MAX: usize = 200_000;

/// A path in a mount, which is named by its number among those of the run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct At(pub usize, pub String);

/// Something that was moved.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    /// Where it was before the run.
    pub from: At,
    /// Where it is after it.
    pub to: At,
}

/// A further name of a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Linked {
    /// The first one.
    pub first: At,
    /// The further one.
    pub name: At,
}

/// The times of a file that a run wrote, or whose times it set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimesOf {
    /// Where it is.
    pub at: At,
    /// When it was last read, as programs see it, in nanoseconds since the Unix epoch.
    pub accessed_ns: u64,
    /// When it was last written.
    pub modified_ns: u64,
    /// When something of it last changed: a time after it is a date that a program chose.
    pub changed_ns: u64,
    /// A program set them; otherwise they are those of a write.
    pub was_set: bool,
}

/// What was moved, further names, and times.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// What was moved: what is above comes before what is below.
    pub moved: Vec<Moved>,
    /// Further names.
    pub linked: Vec<Linked>,
    /// Times.
    pub times: Vec<TimesOf>,
}

impl Beside {
    /// What `vfs` has of the mounts with these `paths`, whose changes are `entries`.
    pub fn of(vfs: &Overlay, entries: &[DiffEntry], paths: &[&str]) -> Self {
        let number = |id: MountId| {
            let path = vfs.mounts().get(id.index())?.path();
            paths.iter().position(|it| *it == path)
        };
        let at = |id: MountId, path: &VPath| Some(At(number(id)?, path.as_str().to_owned()));
        let moved = |entry: &DiffEntry| {
            // Of a file with several names, one is still where it was.
            let (mount, from) = entry.origin.as_ref().filter(|_| entry.link_of.is_none())?;
            Some(Moved { from: at(*mount, from)?, to: at(entry.mount, &entry.path)? })
        };
        let mut moved: Vec<_> = entries.iter().filter_map(moved).collect();
        moved.sort_by_cached_key(|it| (it.from.0, depth(&it.from.1), it.from.1.clone()));
        let linked = |entry: &DiffEntry| {
            let first = at(entry.mount, entry.link_of.as_ref()?)?;
            Some(Linked { first, name: at(entry.mount, &entry.path)? })
        };
        let linked = entries.iter().filter_map(linked).collect();
        let times = |ChangedTimes { mount, path, times, was_set }: ChangedTimes| {
            let (at, Times { atim, mtim, ctim }) = (at(mount, &path)?, times);
            Some(TimesOf { at, accessed_ns: atim, modified_ns: mtim, changed_ns: ctim, was_set })
        };
        let changed = vfs.changed_times().into_iter().chain(vfs.changed_dirs());
        let times = changed.filter_map(times).collect();
        let beside = Self { moved, linked, times };
        if beside.is_bounded() { beside } else { Self::default() }
    }

    /// Whether there are no more than one of a run has.
    pub fn is_bounded(&self) -> bool {
        self.moved.len() + self.linked.len() + self.times.len() <= NAMED_MAX
    }
}

fn depth(path: &str) -> usize {
    path.matches('/').count()
}
