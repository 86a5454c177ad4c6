//! The spelling of names on a disk that finds a file by several: Windows and macOS fold case, macOS also Unicode
//! normalisation. Programs see names bytewise on every system, so a name is found only as the disk lists it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::kernel::vfs::path::VPath;

/// Resolution of the times of file systems, such as FAT: a directory may change within it after it was listed, and show
/// the same time.
const RESOLUTION: Duration = Duration::from_secs(2);

/// Directories whose listings are remembered; then all are forgotten.
const LISTINGS_MAX: usize = 4096;

/// A disk on which names are looked up.
pub(super) trait Names {
    /// The change time of the directory `path` in nanoseconds since the Unix epoch.
    fn changed_ns(&self, path: &VPath) -> io::Result<u64>;

    /// The names in the directory `path`.
    fn names(&self, path: &VPath) -> io::Result<Vec<Box<str>>>;

    /// The present time of the host in nanoseconds since the Unix epoch.
    fn now_ns(&self) -> u64;
}

/// What a directory listed.
struct Listing {
    changed_ns: u64,
    /// The directory had not changed for as long as its time resolves when it was listed.
    is_settled: bool,
    names: HashSet<Box<str>>,
}

/// Remembers listings while their directories do not change.
#[derive(Default)]
pub(super) struct Spelling(Mutex<HashMap<VPath, Arc<Listing>>>);

impl Spelling {
    /// Whether every component of `path`, which the disk finds, has the spelling that the disk lists.
    pub fn is_exact(&self, disk: &impl Names, path: &VPath) -> io::Result<bool> {
        let mut at = path.clone();
        while let Some((parent, name)) = at.split_last() {
            if !self.listing(disk, &parent)?.names.contains(name) {
                return Ok(false);
            }
            at = parent;
        }
        Ok(true)
    }

    fn listing(&self, disk: &impl Names, dir: &VPath) -> io::Result<Arc<Listing>> {
        let changed_ns = disk.changed_ns(dir)?;
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(dir).cloned();
        if let Some(known) = known.filter(|it| it.is_settled && it.changed_ns == changed_ns) {
            return Ok(known);
        }
        let resolution = u64::try_from(RESOLUTION.as_nanos()).unwrap_or(u64::MAX);
        let is_settled = changed_ns.saturating_add(resolution) < disk.now_ns();
        let names = disk.names(dir)?.into_iter().collect();
        let listing = Arc::new(Listing { changed_ns, is_settled, names });
        let mut listings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if listings.len() >= LISTINGS_MAX {
            listings.clear();
        }
        listings.insert(dir.clone(), listing.clone());
        Ok(listing)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Directories by path, as a disk that folds them finds them: names, and time of the last change.
    struct Folding {
        dirs: RefCell<Vec<(&'static str, Vec<&'static str>, u64)>>,
        now_s: Cell<u64>,
        listed: Cell<usize>,
    }

    impl Folding {
        fn of<T>(&self, path: &VPath, what: impl Fn(&[&'static str], u64) -> T) -> io::Result<T> {
            let dirs = self.dirs.borrow();
            let found = dirs.iter().find(|dir| dir.0.eq_ignore_ascii_case(path.as_str()));
            let (_, names, changed_s) = found.ok_or(io::ErrorKind::NotFound)?;
            Ok(what(names, *changed_s))
        }

        fn set(&self, index: usize, names: &[&'static str]) {
            let dir = &mut self.dirs.borrow_mut()[index];
            (dir.1, dir.2) = (names.to_vec(), self.now_s.get());
        }
    }

    impl Names for Folding {
        fn changed_ns(&self, path: &VPath) -> io::Result<u64> {
            self.of(path, |_, changed_s| changed_s * SECOND_NS)
        }

        fn names(&self, path: &VPath) -> io::Result<Vec<Box<str>>> {
            self.listed.set(self.listed.get() + 1);
            self.of(path, |names, _| names.iter().map(|name| (*name).into()).collect())
        }

        fn now_ns(&self) -> u64 {
            self.now_s.get() * SECOND_NS
        }
    }

    /// With `Dir/File`, and a name in the decomposed form of Unicode, which HFS+ stores.
    fn disk() -> Folding {
        let dirs = vec![("", vec!["Dir", "e\u{301}"], 1), ("Dir", vec!["File"], 1)];
        Folding { dirs: RefCell::new(dirs), now_s: Cell::new(100), listed: Cell::new(0) }
    }

    fn is_exact(spelling: &Spelling, disk: &Folding, path: &str) -> bool {
        spelling.is_exact(disk, &VPath::parse(path).unwrap()).unwrap()
    }

    #[test]
    fn only_the_stored_spelling_of_each_component_is_exact() {
        let (disk, spelling) = (disk(), Spelling::default());
        for (path, is_it) in [
            ("", true),
            ("Dir", true),
            ("dir", false),
            ("Dir/File", true),
            ("Dir/file", false),
            ("dir/File", false),
            ("e\u{301}", true),
            ("\u{e9}", false),
        ] {
            assert_eq!(is_exact(&spelling, &disk, path), is_it, "{path}");
        }
        // `dir` by another name is a directory of its own to the cache.
        assert_eq!(disk.listed.get(), 3);
    }

    #[test]
    fn renamed_name_is_found_by_its_new_spelling_at_once() {
        let (disk, spelling) = (disk(), Spelling::default());
        assert!(is_exact(&spelling, &disk, "Dir/File"));
        for names in [["FILE"], ["file"], ["File"]] {
            // All in the same second, which is all that the time of this disk tells.
            disk.set(1, &names);
            for name in ["FILE", "file", "File"] {
                assert_eq!(is_exact(&spelling, &disk, &format!("Dir/{name}")), [name] == names);
            }
        }
    }

    #[test]
    fn unchanged_directory_is_listed_once() {
        let (disk, spelling) = (disk(), Spelling::default());
        for _ in 0..10 {
            assert!(is_exact(&spelling, &disk, "Dir/File"));
        }
        assert_eq!(disk.listed.get(), 2);
    }
}
