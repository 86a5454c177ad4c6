//! Which files programs open beneath a directory: only Linux tells.

use std::collections::BTreeSet;

#[cfg(target_os = "linux")]
pub(super) use self::linux::Watch;
#[cfg(not(target_os = "linux"))]
pub(super) use self::other::Watch;
use crate::kernel::vfs::VPath;

/// The files that were opened since the last look.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux tells"))]
pub(super) enum Opened {
    /// These, or directories of theirs.
    Files(BTreeSet<VPath>),
    /// More than the system keeps.
    Unknown,
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::{BTreeSet, HashMap};
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::{Path, PathBuf};

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

    use super::Opened;
    use crate::kernel::vfs::{EntryState, FolderScan, VPath};

    /// Bytes of events that are read at a time.
    const EVENT_BYTES: usize = 16 << 10;

    /// Watches all directories beneath a root with inotify.
    pub(in crate::native) struct Watch {
        root: PathBuf,
        queue: OwnedFd,
        /// By number of the watch.
        dirs: HashMap<i32, VPath>,
        watched: BTreeSet<VPath>,
    }

    impl Watch {
        /// Watches nothing yet; `None` if the system has no queue left.
        pub fn new(root: &Path) -> Option<Self> {
            let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
            let (dirs, watched) = (HashMap::new(), BTreeSet::new());
            Some(Self { root: root.to_owned(), queue, dirs, watched })
        }

        /// Watches the directories of `scan`. Returns false if the system allows no more watches.
        pub fn follow(&mut self, scan: &FolderScan) -> bool {
            let is_dir = |state: &EntryState| matches!(state, EntryState::Dir);
            let below = scan.beneath(VPath::root()).filter(|(_, state)| is_dir(state));
            let all = std::iter::once(VPath::root()).chain(below.map(|(path, _)| path.clone()));
            for dir in all {
                if self.watched.contains(&dir) {
                    continue;
                }
                let flags = WatchFlags::OPEN | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW;
                match inotify::add_watch(&self.queue, self.root.join(dir.as_str()), flags) {
                    Ok(number) => {
                        self.dirs.insert(number, dir.clone());
                        self.watched.insert(dir);
                    }
                    // Removed since the scan.
                    Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {}
                    Err(_) => return false,
                }
            }
            true
        }

        /// The files that were opened since the last call.
        pub fn take(&mut self) -> Opened {
            let mut buffer = [MaybeUninit::uninit(); EVENT_BYTES];
            let mut events = inotify::Reader::new(&self.queue, &mut buffer);
            let (mut opened, mut is_known) = (BTreeSet::new(), true);
            while let Ok(event) = events.next() {
                let what = event.events();
                if what.contains(ReadFlags::QUEUE_OVERFLOW) {
                    is_known = false;
                } else if what.contains(ReadFlags::IGNORED) {
                    // The directory is gone; another one may get its path.
                    if let Some(dir) = self.dirs.remove(&event.wd()) {
                        self.watched.remove(&dir);
                    }
                } else if let (Some(dir), Some(name)) =
                    (self.dirs.get(&event.wd()), event.file_name())
                    && let Ok(name) = name.to_str()
                {
                    opened.insert(dir.join(name));
                }
            }
            if is_known { Opened::Files(opened) } else { Opened::Unknown }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::path::Path;

    use super::Opened;
    use crate::kernel::vfs::FolderScan;

    pub(in crate::native) enum Watch {}

    impl Watch {
        pub fn new(_: &Path) -> Option<Self> {
            None
        }

        pub fn follow(&mut self, _: &FolderScan) -> bool {
            match *self {}
        }

        pub fn take(&mut self) -> Opened {
            match *self {}
        }
    }
}
