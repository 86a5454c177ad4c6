//! Kills and refusals at every operation of an apply; damaged journals, and files named like temporaries.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "the tests use the disk")]

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::base::errno::Errno;
use crate::kernel::vfs::journal::tree::Tree;
use crate::kernel::vfs::layer::host_dir::Access;
use crate::kernel::vfs::layer::host_permissions::HostPermissions;
use crate::kernel::vfs::test_trees::{Tree as Shown, on_disk, shown};
use crate::kernel::vfs::*;

/// Wraps a directory of the host.
pub(in crate::kernel::vfs) type Through = Arc<dyn Fn(Arc<HostDir>) -> Arc<dyn Tree> + Send + Sync>;

/// An operation that changes a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::kernel::vfs) enum Operation {
    CreateFile(VPath),
    CreateDir(VPath),
    HardLink(VPath, VPath),
    Symlink(String, VPath),
    Rename(VPath, VPath),
    RemoveFile(VPath),
    RemoveDir(VPath),
    SetTimes(VPath),
    SetDirMode(VPath),
    SyncFile(VPath),
    SyncDir(VPath),
    SyncFileSystems,
}

/// Whether an operation in a directory is allowed.
type May = dyn Fn(&HostDir, Operation) -> io::Result<()> + Send + Sync;

/// Asks before each operation whether it is allowed.
pub(in crate::kernel::vfs) struct Asking {
    host: Arc<HostDir>,
    may: Arc<May>,
}

impl Asking {
    pub fn through(
        may: impl Fn(&HostDir, Operation) -> io::Result<()> + Send + Sync + 'static,
    ) -> Through {
        let may: Arc<May> = Arc::new(may);
        Arc::new(move |host| Arc::new(Self { host, may: may.clone() }))
    }

    fn ask(&self, operation: Operation) -> io::Result<()> {
        (self.may)(&self.host, operation)
    }
}

impl Tree for Asking {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        Layer::stat(&*self.host, path)
    }

    fn names(&self, path: &VPath) -> io::Result<Vec<OsString>> {
        self.host.names(path)
    }

    fn create_file(&self, path: &VPath, access: Access) -> io::Result<File> {
        self.ask(Operation::CreateFile(path.clone()))?;
        self.host.create_file(path, access)
    }

    fn create_dir(&self, path: &VPath, access: Access) -> io::Result<()> {
        self.ask(Operation::CreateDir(path.clone()))?;
        self.host.create_dir(path, access)
    }

    fn hard_link(&self, from: &VPath, to: &VPath) -> io::Result<()> {
        self.ask(Operation::HardLink(from.clone(), to.clone()))?;
        self.host.hard_link(from, to)
    }

    fn symlink(&self, target: &str, path: &VPath) -> io::Result<()> {
        self.ask(Operation::Symlink(target.to_owned(), path.clone()))?;
        self.host.symlink(target, path)
    }

    fn rename(&self, from: &VPath, to: &VPath) -> io::Result<()> {
        self.ask(Operation::Rename(from.clone(), to.clone()))?;
        self.host.rename(from, to)
    }

    fn rename_to_new(&self, from: &VPath, to: &VPath) -> io::Result<()> {
        self.ask(Operation::Rename(from.clone(), to.clone()))?;
        self.host.rename_to_new(from, to)
    }

    fn remove_file(&self, path: &VPath) -> io::Result<()> {
        self.ask(Operation::RemoveFile(path.clone()))?;
        self.host.remove_file(path)
    }

    fn remove_dir(&self, path: &VPath) -> io::Result<()> {
        self.ask(Operation::RemoveDir(path.clone()))?;
        self.host.remove_dir(path)
    }

    fn set_times(&self, path: &VPath, times: Times) -> io::Result<()> {
        self.ask(Operation::SetTimes(path.clone()))?;
        self.host.set_times(path, times)
    }

    fn set_dir_mode(&self, path: &VPath, mode: u32) -> io::Result<()> {
        self.ask(Operation::SetDirMode(path.clone()))?;
        self.host.set_dir_mode(path, mode)
    }

    fn give_dir(&self, path: &VPath, permissions: &HostPermissions) -> io::Result<()> {
        self.host.give_dir(path, permissions)
    }

    fn sync_file(&self, path: &VPath, _file: &File) -> io::Result<()> {
        self.ask(Operation::SyncFile(path.clone()))
    }

    fn sync_dir(&self, path: &VPath) -> io::Result<()> {
        self.ask(Operation::SyncDir(path.clone()))
    }

    fn sync_file_systems(&self, _dirs: &[VPath]) -> io::Result<bool> {
        self.ask(Operation::SyncFileSystems).map(|()| true)
    }
}

/// Allows operations up to this number and none after it, as if killed.
pub(super) fn dying(number: usize) -> (Through, Arc<AtomicUsize>) {
    dying_where(number, |_| false)
}

/// As [`dying`], where the file system refuses some operations.
pub(super) fn dying_where(
    number: usize,
    is_refused: impl Fn(&Operation) -> bool + Send + Sync + 'static,
) -> (Through, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let may = move |_: &HostDir, operation| match counted.fetch_add(1, Ordering::Relaxed) {
        _ if is_refused(&operation) => Err(io::ErrorKind::CrossesDevices.into()),
        before if before < number => Ok(()),
        _ => Err(io::Error::other("killed")),
    };
    (Asking::through(may), count)
}

/// A directory of the host, changes of all kinds to it, and a directory for journals.
pub(in crate::kernel::vfs) struct Scene {
    _folder: tempfile::TempDir,
    pub disk: PathBuf,
    pub journals: PathBuf,
    pub overlay: Overlay,
    pub before: Shown,
    pub after: Shown,
}

impl Scene {
    /// Creates the old tree.
    pub fn fill(disk: &Path, files: usize) {
        for name in ["d/sub", "emptied", "becomes a file", "left alone"] {
            fs::create_dir_all(disk.join(name)).unwrap();
        }
        for name in ["a", "b", "gone", "becomes a folder", "d/x", "d/sub/y", "becomes a file/z"] {
            fs::write(disk.join(name), format!("old {name}")).unwrap();
        }
        for name in ["timed", "tool"] {
            fs::write(disk.join(name), name).unwrap();
        }
        fs::write(disk.join("emptied/e"), "e").unwrap();
        symlink("a", disk.join("link")).unwrap();
        fs::hard_link(disk.join("b"), disk.join("b too")).unwrap();
        fs::set_permissions(disk.join("d/sub"), fs::Permissions::from_mode(0o750)).unwrap();
        for number in 0..files {
            fs::write(disk.join(format!("many{number}")), "old").unwrap();
        }
    }

    pub fn new(files: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (disk, journals) = (folder.path().join("disk"), folder.path().join("journals"));
        fs::create_dir(&disk).unwrap();
        Self::fill(&disk, files);
        let before = on_disk(&disk);
        let mut overlay = Overlay::new(VfsLimits::default(), 1);
        let host = Source::Host(Arc::new(HostDir::open(&disk).unwrap()));
        let mount = overlay.mount("/w", host, false, Mtimes::Fixed(1), 1).unwrap();
        let base = overlay.host_base();
        let write = |overlay: &mut Overlay, path: &str| {
            overlay.write(&format!("/w/{path}"), format!("new {path}").as_bytes(), 2).unwrap();
        };
        for path in ["a", "b", "d/x", "new"] {
            write(&mut overlay, path);
        }
        for path in ["gone", "link", "becomes a folder", "becomes a file/z", "emptied/e"] {
            overlay.unlink(base, &format!("w/{path}"), 2).unwrap();
        }
        for path in ["becomes a file", "emptied"] {
            overlay.remove_dir(base, &format!("w/{path}"), 2).unwrap();
        }
        overlay.symlink("b", base, "w/link", 2).unwrap();
        for path in ["becomes a folder", "made", "made/deep"] {
            overlay.create_dir(base, &format!("w/{path}"), 2).unwrap();
        }
        for path in ["becomes a folder/in", "becomes a file", "made/deep/f", "made/g"] {
            write(&mut overlay, path);
        }
        overlay.rename((base, "w/d"), (base, "w/moved"), 2).unwrap();
        overlay.link((base, "w/b too"), Follow::No, (base, "w/b three"), 2).unwrap();
        for path in ["w/tool", "w/b", "w/made/g"] {
            overlay.set_executable_at(base, path, Follow::No, true, 2).unwrap();
        }
        let time = SetTime::At(1_000_000_007);
        for path in ["w/timed", "w/made"] {
            overlay.set_times_at(base, path, Follow::No, time, time, 3).unwrap();
        }
        for number in 0..files {
            overlay.write(&format!("/w/many{number}"), b"new", 2).unwrap();
        }
        let after = shown(&overlay, mount, &before);
        assert_ne!(before, after);
        Self { _folder: folder, disk, journals, overlay, before, after }
    }

    pub fn apply(&mut self, through: &Through) -> Result<Applied, ApplyError> {
        let journals = Journals::open(&self.journals).unwrap().decorated(through.clone());
        self.overlay.apply_through(Some(&journals), &(), &|host| through(host))
    }

    pub fn recover(&self) -> Result<Vec<Recovered>, JournalError> {
        recover(&self.disk, &self.journals, OnChanged::Refuse)
    }

    /// Checks that the tree is entirely old or new; returns whether it is new.
    pub fn is_new(&self, when: &str) -> bool {
        let now = on_disk(&self.disk);
        assert!(now == self.before || now == self.after, "{when}: {:#?}", self.mixed(&now));
        let left: Vec<_> = fs::read_dir(&self.journals).unwrap().flatten().collect();
        assert!(left.len() <= 1, "{when}: {left:?}");
        now == self.after
    }

    fn mixed(&self, now: &Shown) -> Vec<String> {
        let state =
            |path: &String| match (now.get(path), self.before.get(path), self.after.get(path)) {
                (now, old, new) if now == old && now == new => "same",
                (now, old, _) if now == old => "old",
                (now, _, new) if now == new => "new",
                _ => "neither",
            };
        let paths: std::collections::BTreeSet<&String> =
            now.keys().chain(self.before.keys()).chain(self.after.keys()).collect();
        paths.into_iter().map(|path| format!("{path}: {}", state(path))).collect()
    }
}

pub(super) fn recover(
    disk: &Path,
    journals: &Path,
    on_changed: OnChanged,
) -> Result<Vec<Recovered>, JournalError> {
    let folder = HostDir::open(disk).unwrap();
    Journals::open(journals).unwrap().recover(&folder, on_changed, &())
}

/// A third of the files was new, the rest old, and temporaries were everywhere.
#[test]
fn kill_at_any_operation_leaves_the_old_or_the_new_tree() {
    let mut scene = Scene::new(0);
    let (through, count) = dying(usize::MAX);
    scene.apply(&through).unwrap();
    assert!(scene.is_new("not killed"));
    let operations = count.load(Ordering::Relaxed);
    assert!(operations > 60, "{operations}");
    let (mut taken_back, mut finished) = (0, 0);
    for number in 0..operations {
        let when = format!("killed at {number} of {operations}");
        let mut scene = Scene::new(0);
        // The last operations only clean up: their failure is ignored.
        let done = scene.apply(&dying(number).0).is_ok();
        let recovered = scene.recover().unwrap_or_else(|error| panic!("{when}: {error}"));
        let is_new = scene.is_new(&when);
        assert!(is_new || !done, "{when}");
        assert!(recovered.iter().all(|it| it.is_finished == is_new), "{when}: {recovered:?}");
        (taken_back, finished) =
            (taken_back + usize::from(!is_new), finished + usize::from(is_new));
        assert_eq!(scene.recover().unwrap(), [], "{when}: nothing is left to do");
    }
    assert!(taken_back > 40 && finished > 5, "{taken_back} {finished}");
}

#[test]
fn kill_during_recovery_can_be_recovered() {
    let (through, count) = dying(usize::MAX);
    Scene::new(0).apply(&through).unwrap();
    let operations = count.load(Ordering::Relaxed);
    for number in (0..operations).step_by(7) {
        for again in 0.. {
            let when = format!("killed at {number}, and at {again} of the recovery");
            let mut scene = Scene::new(0);
            let _ = scene.apply(&dying(number).0);
            let (through, count) = dying(again);
            let journals = Journals::open(&scene.journals).unwrap().decorated(through);
            let folder = HostDir::open(&scene.disk).unwrap();
            let _ = journals.recover(&folder, OnChanged::Refuse, &());
            scene.recover().unwrap_or_else(|error| panic!("{when}: {error}"));
            scene.is_new(&when);
            if count.load(Ordering::Relaxed) <= again {
                break;
            }
        }
    }
}

#[test]
fn refusal_at_any_operation_is_rolled_back() {
    let (through, count) = dying(usize::MAX);
    Scene::new(0).apply(&through).unwrap();
    let operations = count.load(Ordering::Relaxed);
    let mut refused = 0;
    for number in 0..operations {
        let when = format!("refused {number} of {operations}");
        let mut scene = Scene::new(0);
        let count = AtomicUsize::new(0);
        let through = Asking::through(move |_, _| {
            let is_it = count.fetch_add(1, Ordering::Relaxed) == number;
            if is_it { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        });
        match scene.apply(&through) {
            Err(ApplyError::Host { .. } | ApplyError::Journal(_)) => {
                refused += 1;
                assert!(!scene.is_new(&when), "{when}");
            }
            Err(error) => panic!("{when}: {error}"),
            Ok(applied) => {
                for path in &applied.leftovers {
                    fs::remove_file(scene.disk.join(path.as_str()))
                        .or_else(|_| fs::remove_dir(scene.disk.join(path.as_str())))
                        .unwrap();
                }
                scene.recover().unwrap();
                assert!(scene.is_new(&when), "{when}");
            }
        }
        assert_eq!(scene.recover().unwrap(), [], "{when}");
    }
    assert!(refused > 40, "{refused}");
}

/// What was done before an interruption stayed.
#[test]
fn interruption_at_any_operation_is_rolled_back_or_completes() {
    struct At(Arc<AtomicUsize>, usize);
    impl Witness for At {
        fn waiting(&self, _: &Path) {}
        fn recovered(&self, _: &Recovered) {}
        fn unreadable(&self, _: &JournalError) {}
        fn is_interrupted(&self) -> bool {
            self.0.load(Ordering::Relaxed) > self.1
        }
    }
    let (mut taken_back, mut through_it) = (0, 0);
    for number in 0..100 {
        let mut scene = Scene::new(0);
        let (through, count) = dying(usize::MAX);
        let journals = Journals::open(&scene.journals).unwrap().decorated(through.clone());
        let at = At(count, number);
        let applied = scene.overlay.apply_through(Some(&journals), &at, &|host| through(host));
        let when = format!("interrupted at {number}");
        match applied {
            Ok(_) => through_it += usize::from(scene.is_new(&when)),
            Err(ApplyError::Interrupted) => taken_back += usize::from(!scene.is_new(&when)),
            Err(error) => panic!("{when}: {error}"),
        }
    }
    assert_eq!(taken_back + through_it, 100);
    assert!(taken_back > 20 && through_it > 20, "{taken_back} {through_it}");
}

/// Killed when everything is staged and some of it in place.
pub(super) fn half_written() -> Scene {
    written_up_to(6)
}

/// Killed after this number of renames of temporaries.
pub(super) fn written_up_to(most: usize) -> Scene {
    let is_placing = |operation: &Operation| matches!(operation, Operation::Rename(from, _) if from.as_str().contains(".belljar-"));
    let mut scene = Scene::new(0);
    let placed = AtomicUsize::new(0);
    let through = Asking::through(move |_, operation| {
        let count = placed.fetch_add(usize::from(is_placing(&operation)), Ordering::Relaxed);
        if count > most { Err(io::Error::other("killed")) } else { Ok(()) }
    });
    assert!(scene.apply(&through).is_err());
    scene
}

/// Half of it was taken back, and the rest reported as refused by the system.
#[test]
fn file_created_at_an_unplaced_path_refuses_recovery() {
    let path = "becomes a file";
    let mut met = 0;
    for most in 0..8 {
        let scene = written_up_to(most);
        if fs::symlink_metadata(scene.disk.join(path)).is_ok() {
            continue;
        }
        met += 1;
        fs::write(scene.disk.join(path), "mine, since then").unwrap();
        let before = on_disk(&scene.disk);
        let error = scene.recover().unwrap_err();
        let JournalError::Changed { changed, .. } = &error else { panic!("{most}: {error}") };
        assert_eq!((changed.len(), changed[0].path.as_str()), (1, path), "{most}");
        assert_eq!(on_disk(&scene.disk), before, "{most}");
        fs::remove_file(scene.disk.join(path)).unwrap();
        scene.recover().unwrap();
        assert_eq!(on_disk(&scene.disk), scene.before, "{most}");
    }
    assert!(met > 0);
}

#[test]
fn file_changed_since_is_not_taken_back() {
    let scene = half_written();
    let now = on_disk(&scene.disk);
    let placed = ["a", "b", "becomes a file"]
        .into_iter()
        .find(|name| now.get(*name) == scene.after.get(*name))
        .unwrap();
    fs::write(scene.disk.join(placed), "mine, since then").unwrap();
    let before = on_disk(&scene.disk);
    let error = scene.recover().unwrap_err();
    let JournalError::Changed { changed, .. } = &error else { panic!("{error}") };
    assert_eq!((changed.len(), changed[0].path.as_str()), (1, placed));
    assert!(error.to_string().contains("belljar recover --skip-changed"), "{error}");
    assert_eq!(on_disk(&scene.disk), before, "nothing was taken back");
    // An apply there is refused too.
    let host = Source::Host(Arc::new(HostDir::open(&scene.disk).unwrap()));
    let mut overlay = Overlay::new(VfsLimits::default(), 1);
    overlay.mount("/w", host, false, Mtimes::Fixed(1), 1).unwrap();
    overlay.write("/w/other", b"x", 2).unwrap();
    let journals = Journals::open(&scene.journals).unwrap();
    assert!(matches!(overlay.apply_journaled(&journals, &()), Err(ApplyError::Journal(_))));
    let recovered = recover(&scene.disk, &scene.journals, OnChanged::Skip).unwrap();
    assert_eq!(recovered[0].left, [VPath::parse(placed).unwrap()]);
    assert_eq!(fs::read(scene.disk.join(placed)).unwrap(), b"mine, since then");
    let mut now = on_disk(&scene.disk);
    for kept in &recovered[0].kept {
        assert!(now.remove(kept.as_str()).is_some(), "{kept} is there");
    }
    now.insert(placed.to_owned(), scene.before[placed].clone());
    assert_eq!(now, scene.before);
    assert_eq!(scene.recover().unwrap(), []);
}

#[test]
fn planted_journal_and_temporary_are_ignored() {
    let scene = half_written();
    // The journal of this directory, where a guest can write.
    let journal = fs::read_dir(&scene.journals)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|it| it == "prepared"))
        .unwrap();
    let bytes = fs::read(&journal).unwrap();
    fs::remove_file(&journal).unwrap();
    fs::create_dir(scene.disk.join("journals")).unwrap();
    for name in ["0123456789abcdef.prepared", "journals/0123456789abcdef.committed", ".belljar"] {
        fs::write(scene.disk.join(name), &bytes).unwrap();
    }
    fs::write(scene.disk.join(".belljar-0123456789abcdef.tmp"), "a guest's").unwrap();
    let before = on_disk(&scene.disk);
    assert_eq!(scene.recover().unwrap(), []);
    assert_eq!(on_disk(&scene.disk), before);
    let host = HostDir::open(&scene.disk).unwrap();
    let journals = scene.journals.clone();
    host.hide_temporaries(Box::new(move || Journals::temporaries(&journals)));
    let listed = host.list(&VPath::root()).unwrap();
    assert!(listed.iter().any(|entry| &*entry.name == ".belljar-0123456789abcdef.tmp"));
}

/// A program saw, and could keep, what another belljar was writing.
#[test]
fn temporaries_of_a_live_journal_are_not_listed() {
    let scene = half_written();
    fs::write(scene.disk.join(".belljar-0123456789abcdef.tmp"), "a guest's").unwrap();
    let host = HostDir::open(&scene.disk).unwrap();
    let temporaries = |host: &HostDir| {
        let list = host.list(&VPath::root()).unwrap();
        list.iter().filter(|entry| entry.name.starts_with(".belljar-")).count()
    };
    assert!(temporaries(&host) > 3);
    let journals = scene.journals.clone();
    host.hide_temporaries(Box::new(move || Journals::temporaries(&journals)));
    assert_eq!(temporaries(&host), 1, "the guest's own");
}

#[test]
fn opening_a_child_or_parent_directory_recovers() {
    for below in [true, false] {
        let scene = half_written();
        let open = if below { scene.disk.join("left alone") } else { scene.disk.join("..") };
        assert_eq!(recover(&open, &scene.journals, OnChanged::Refuse).unwrap().len(), 1);
        assert!(!scene.is_new("taken back"));
    }
}

#[test]
fn recovery_leaves_other_directories_alone() {
    let scene = half_written();
    let before = on_disk(&scene.disk);
    let other = tempfile::tempdir().unwrap();
    assert_eq!(recover(other.path(), &scene.journals, OnChanged::Refuse).unwrap(), []);
    assert_eq!(on_disk(&scene.disk), before);
    // Another directory with the same path.
    fs::rename(&scene.disk, scene.disk.with_file_name("was")).unwrap();
    fs::create_dir(&scene.disk).unwrap();
    Scene::fill(&scene.disk, 0);
    let filled = on_disk(&scene.disk);
    assert_eq!(scene.recover().unwrap(), []);
    assert_eq!(on_disk(&scene.disk), filled);
    // It is found under its new path.
    let was = scene.disk.with_file_name("was");
    assert_eq!(recover(&was, &scene.journals, OnChanged::Refuse).unwrap().len(), 1);
    assert_eq!(on_disk(&was), scene.before);
}

#[test]
fn recovery_waits_for_live_writer() {
    struct Waits(AtomicUsize);
    impl Witness for Waits {
        fn waiting(&self, _: &Path) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn recovered(&self, _: &Recovered) {}
        fn unreadable(&self, _: &JournalError) {}
        fn is_interrupted(&self) -> bool {
            false
        }
    }
    let mut scene = Scene::new(0);
    let (disk, journals) = (scene.disk.clone(), scene.journals.clone());
    let waiting = Arc::new(Waits(AtomicUsize::new(0)));
    let (told, others) = (waiting.clone(), Arc::new(std::sync::Mutex::new(None)));
    let other = others.clone();
    let through = Asking::through(move |_, operation| {
        if matches!(operation, Operation::HardLink(..)) && other.lock().unwrap().is_none() {
            let (disk, journals, told) = (disk.clone(), journals.clone(), told.clone());
            let open = move || {
                let folder = HostDir::open(&disk).unwrap();
                let journals = Journals::open(&journals).unwrap();
                journals.recover(&folder, OnChanged::Refuse, &*told).unwrap()
            };
            *other.lock().unwrap() = Some(std::thread::spawn(open));
            let is_done =
                || other.lock().unwrap().as_ref().is_some_and(std::thread::JoinHandle::is_finished);
            while waiting.0.load(Ordering::Relaxed) == 0 {
                assert!(!is_done(), "it did not wait");
                std::thread::yield_now();
            }
        }
        Ok(())
    });
    scene.apply(&through).unwrap();
    let recovered = others.lock().unwrap().take().unwrap().join().unwrap();
    assert_eq!(recovered, [], "nothing was recovered while it was live");
    assert!(scene.is_new("written"));
}

#[test]
fn damaged_journal_is_reported_and_not_followed() {
    for (at, what) in [(200, "second part"), (usize::MAX, "after its end")] {
        let scene = half_written();
        let mut journals = fs::read_dir(&scene.journals).unwrap().map(|it| it.unwrap().path());
        let journal =
            journals.find(|it| it.extension().is_some_and(|it| it == "prepared")).unwrap();
        let mut bytes = fs::read(&journal).unwrap();
        match bytes.get_mut(at) {
            Some(byte) => *byte ^= 1,
            None => bytes.push(0),
        }
        fs::write(&journal, bytes).unwrap();
        let before = on_disk(&scene.disk);
        let error = scene.recover().unwrap_err().to_string();
        assert!(error.contains(what) && error.contains(&journal.display().to_string()), "{error}");
        assert!(error.contains("by hand"), "{error}");
        assert_eq!(on_disk(&scene.disk), before);
    }
}
