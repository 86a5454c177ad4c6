//! What a tree of digests does not tell of changes: what was moved, and the times of files.

use serde::{Deserialize, Serialize};

use crate::kernel::vfs::{ChangedTimes, DiffEntry, MountId, Overlay, Times};

/// Most files and directories that are named. Of a run with more, nothing is told beside the tree.
const NAMED_MAX: usize = 200_000;

/// Something that was moved within a mount.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    /// The number of the mount among those of the run.
    pub mount: usize,
    /// Its path in the mount before the run.
    pub from: String,
    /// Its path after it.
    pub to: String,
}

/// The times of a file that a run wrote, or whose times it set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimesOf {
    /// The number of the mount among those of the run.
    pub mount: usize,
    /// Its path in the mount.
    pub path: String,
    /// When it was last read, as programs see it, in nanoseconds since the Unix epoch.
    pub accessed_ns: u64,
    /// When it was last written.
    pub modified_ns: u64,
    /// When something of it last changed: a time after it is a date that a program chose.
    pub changed_ns: u64,
    /// A program set them; otherwise they are those of a write.
    pub was_set: bool,
}

/// What was moved, and times.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// What was moved: what is above comes before what is below.
    pub moved: Vec<Moved>,
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
        let moved = |entry: &DiffEntry| {
            let (mount, from) = entry.origin.as_ref()?;
            // Of a file with several names, one is still where it was.
            let is_moved = *mount == entry.mount && entry.link_of.is_none();
            let (from, to) = (from.as_str().to_owned(), entry.path.as_str().to_owned());
            Some(Moved { mount: number(*mount).filter(|_| is_moved)?, from, to })
        };
        let mut moved: Vec<_> = entries.iter().filter_map(moved).collect();
        moved.sort_by(|a, b| {
            (a.mount, depth(&a.from), &a.from).cmp(&(b.mount, depth(&b.from), &b.from))
        });
        let times = |ChangedTimes { mount, path, times, was_set }: ChangedTimes| {
            let Times { atim, mtim, ctim } = times;
            Some(TimesOf {
                mount: number(mount)?,
                path: path.as_str().to_owned(),
                accessed_ns: atim,
                modified_ns: mtim,
                changed_ns: ctim,
                was_set,
            })
        };
        let times: Vec<_> = vfs.changed_times().into_iter().filter_map(times).collect();
        if moved.len() + times.len() > NAMED_MAX { Self::default() } else { Self { moved, times } }
    }

    /// Whether there are no more than one of a run has.
    pub fn is_bounded(&self) -> bool {
        self.moved.len() + self.times.len() <= NAMED_MAX
    }
}

fn depth(path: &str) -> usize {
    path.matches('/').count()
}
