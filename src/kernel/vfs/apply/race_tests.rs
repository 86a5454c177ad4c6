//! Changes by other programs during an apply, and names outside the mounted directory.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "the tests use the disk")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::transaction::{Touched, Transaction};
use crate::base::errno::Errno;
use crate::kernel::vfs::journal::plan::{Plan, Step};
use crate::kernel::vfs::journal::tests::{Asking, Operation, Scene};
use crate::kernel::vfs::layer::temporary::temporary_name;
use crate::kernel::vfs::test_trees::{check_counts, on_disk};
use crate::kernel::vfs::*;

fn host(disk: &Path) -> Source {
    Source::Host(Arc::new(HostDir::open(disk).unwrap()))
}

fn mounted(mounts: &[(&str, &Path)]) -> Overlay {
    let mut overlay = Overlay::new(VfsLimits::default(), 1);
    for (at, disk) in mounts {
        overlay.mount(at, host(disk), false, Mtimes::Fixed(1), 1).unwrap();
    }
    overlay
}

/// A layer with the file `f`, whose content is `bytes`. Opening it runs a change of the disk.
pub(super) struct Meddler(pub Box<dyn Fn() + Send + Sync>);

impl Meddler {
    pub fn mounted(does: impl Fn() + Send + Sync + 'static) -> Source {
        Source::Layers(vec![Arc::new(Self(Box::new(does)))])
    }
}

impl Layer for Meddler {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        let file_type = if path.is_root() { FileType::Directory } else { FileType::RegularFile };
        Ok(Stat {
            file_type,
            size: 5,
            mtime_ns: 0,
            executable: false,
            stamp: 0,
            inode: 0,
            nlink: 1,
        })
    }

    fn list(&self, _: &VPath) -> Result<Vec<DirEntry>, Errno> {
        Ok(vec![DirEntry { name: "f".into(), file_type: FileType::RegularFile }])
    }

    fn read_link(&self, _: &VPath) -> Result<Box<[u8]>, Errno> {
        Err(Errno::Inval)
    }

    fn open(&self, _: &VPath) -> Result<Blob, Errno> {
        (self.0)();
        Ok(Blob::Bytes(Arc::from(*b"bytes")))
    }
}

/// The check right before replacing compared only length and time.
#[test]
fn edit_of_equal_length_and_time_before_rename_is_a_conflict() {
    let folder = tempfile::tempdir().unwrap();
    let victim = folder.path().join("a");
    fs::write(&victim, "older").unwrap();
    let mut overlay = mounted(&[("/w", folder.path())]);
    let theirs = victim.clone();
    let edit = move || {
        let time = fs::metadata(&theirs).unwrap().modified().unwrap();
        fs::write(&theirs, "their").unwrap();
        fs::File::options().write(true).open(&theirs).unwrap().set_modified(time).unwrap();
    };
    overlay.mount("/m", Meddler::mounted(edit), false, Mtimes::Fixed(1), 1).unwrap();
    overlay.write("/w/a", b"mine!", 2).unwrap();
    let base = overlay.host_base();
    overlay.rename((base, "m/f"), (base, "w/f"), 2).unwrap();
    match overlay.apply() {
        Err(ApplyError::Conflicts(conflicts)) => {
            assert_eq!((conflicts.len(), conflicts[0].path.as_str()), (1, "a"));
            assert_eq!(conflicts[0].what, ConflictKind::Changed);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fs::read(&victim).unwrap(), b"their");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary is left");
}

/// Regression: what another program put at a free name between the check and the rename was replaced, which a later
/// rollback did not bring back.
#[test]
fn what_appears_right_before_a_rename_stays() {
    for (place, is_dir) in [("new", false), ("made", true)] {
        let mut scene = Scene::new(0);
        let disk = scene.disk.clone();
        let through = Asking::through(move |_, operation| match operation {
            Operation::Rename(_, to) if to.as_str() == place => {
                let theirs = disk.join(place);
                if is_dir { fs::create_dir(theirs) } else { fs::write(theirs, "theirs") }
            }
            _ => Ok(()),
        });
        match scene.apply(&through) {
            Err(ApplyError::Conflicts(conflicts)) => {
                assert_eq!((conflicts.len(), conflicts[0].path.as_str()), (1, place));
                assert_eq!(conflicts[0].what, ConflictKind::Appeared);
            }
            other => panic!("{place}: {other:?}"),
        }
        let mut now = on_disk(&scene.disk);
        let theirs = scene.disk.join(place);
        if is_dir {
            assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
        } else {
            assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
        }
        now.remove(place);
        let mut before = scene.before.clone();
        before.remove(place);
        assert_eq!(now, before);
    }
}

/// Another program removes temporaries, so a later step fails. A missing temporary was reported as something that
/// could not be put back.
#[test]
fn failed_step_is_rolled_back() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path();
    for name in ["a", "gone", "moved", "z"] {
        fs::write(disk.join(name), "old").unwrap();
    }
    fs::create_dir_all(disk.join("d/e")).unwrap();
    fs::write(disk.join("d/e/f"), "old").unwrap();
    let before = on_disk(disk);
    let mut overlay = Overlay::new(VfsLimits::default(), 1);
    overlay.mount("/w", host(disk), false, Mtimes::Fixed(1), 1).unwrap();
    let there = disk.to_owned();
    let clear = move || {
        for entry in fs::read_dir(&there).unwrap() {
            let path = entry.unwrap().path();
            let holds_new = fs::read(&path).is_ok_and(|bytes| bytes == b"of y");
            if holds_new {
                fs::remove_file(path).unwrap();
            }
        }
    };
    overlay.mount("/m", Meddler::mounted(clear), false, Mtimes::Fixed(1), 1).unwrap();
    let base = overlay.host_base();
    overlay.write("/w/a", b"new", 2).unwrap();
    overlay.write("/w/y", b"of y", 2).unwrap();
    overlay.unlink(base, "w/gone", 2).unwrap();
    overlay.rename((base, "w/moved"), (base, "w/b"), 2).unwrap();
    overlay.rename((base, "w/d"), (base, "w/c"), 2).unwrap();
    overlay.rename((base, "m/f"), (base, "w/z"), 2).unwrap();
    match overlay.apply() {
        Err(ApplyError::Host { operation: "write", path, .. }) => assert_eq!(path.as_str(), "y"),
        other => panic!("{other:?}"),
    }
    assert_eq!(on_disk(disk), before);
    // Nothing interferes now, and y is no longer new.
    overlay.write("/w/y", b"again", 2).unwrap();
    overlay.apply().unwrap();
    assert_eq!(fs::read(disk.join("c/e/f")).unwrap(), b"old");
    assert_eq!(fs::read(disk.join("z")).unwrap(), b"bytes");
}

/// Regression: directories that the program had moved or removed had the time of the attempt.
#[test]
fn directories_have_their_former_times_whichever_operation_fails() {
    let mut refused = 0;
    for number in 0.. {
        let mut scene = Scene::new(0);
        let before = dir_times(&scene.disk);
        std::thread::sleep(std::time::Duration::from_millis(10));
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let through = Asking::through(move |_, _| {
            let is_it = counted.fetch_add(1, Ordering::Relaxed) == number;
            if is_it { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        });
        if scene.apply(&through).is_err() {
            refused += 1;
            assert_eq!(dir_times(&scene.disk), before, "operation {number}");
        }
        if count.load(Ordering::Relaxed) <= number {
            break;
        }
    }
    assert!(refused > 40, "{refused}");
}

fn dir_times(disk: &Path) -> Vec<(&'static str, std::time::SystemTime)> {
    let dirs = [".", "d", "d/sub", "emptied", "becomes a file", "left alone"];
    dirs.map(|dir| (dir, fs::metadata(disk.join(dir)).unwrap().modified().unwrap())).to_vec()
}

/// Another type is at the path now: nothing is written through it.
#[test]
fn changed_type_on_the_way_is_a_conflict() {
    use ConflictKind::{Appeared, Changed, NotADirectory, Vanished};
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("target");
    fs::write(&target, "outside").unwrap();
    let conflicts = |does: &dyn Fn(&Path)| {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path();
        fs::create_dir(disk.join("d")).unwrap();
        fs::write(disk.join("d/f"), "old").unwrap();
        let mut overlay = mounted(&[("/w", disk)]);
        overlay.write("/w/d/f", b"mine", 2).unwrap();
        overlay.write("/w/d/new", b"mine", 2).unwrap();
        does(disk);
        let before = on_disk(disk);
        let Err(ApplyError::Conflicts(conflicts)) = overlay.apply() else { panic!() };
        assert_eq!(on_disk(disk), before);
        assert_eq!(on_disk(outside.path()).len(), 1);
        assert_eq!(fs::read(&target).unwrap(), b"outside");
        let what = |conflict: Conflict| (conflict.path.as_str().to_owned(), conflict.what);
        conflicts.into_iter().map(what).collect::<Vec<_>>()
    };
    let expected = |list: &[(&str, ConflictKind)]| -> Vec<_> {
        list.iter().map(|(path, what)| ((*path).to_owned(), what.clone())).collect()
    };
    let replace_file = |disk: &Path, by: &dyn Fn(&Path)| {
        fs::remove_file(disk.join("d/f")).unwrap();
        by(&disk.join("d/f"));
    };
    let replace_dir = |disk: &Path, by: &dyn Fn(&Path)| {
        fs::rename(disk.join("d"), disk.join("was")).unwrap();
        by(&disk.join("d"));
    };
    let link = |path: &Path| symlink(&target, path).unwrap();
    let dir = |path: &Path| fs::create_dir(path).unwrap();
    let file = |path: &Path| fs::write(path, "theirs").unwrap();
    let nothing = |_: &Path| {};

    let changed = expected(&[("d/f", Changed)]);
    assert_eq!(conflicts(&|disk| replace_file(disk, &link)), changed);
    assert_eq!(conflicts(&|disk| replace_file(disk, &dir)), changed);
    let appeared = expected(&[("d/new", Appeared)]);
    assert_eq!(conflicts(&|disk| link(&disk.join("d/new"))), appeared);
    assert_eq!(conflicts(&|disk| dir(&disk.join("d/new"))), appeared);
    let no_directory = expected(&[("d", NotADirectory), ("d/f", Vanished)]);
    assert_eq!(conflicts(&|disk| replace_dir(disk, &file)), no_directory);
    let vanished = expected(&[("d", Vanished), ("d/f", Vanished)]);
    assert_eq!(conflicts(&|disk| replace_dir(disk, &nothing)), vanished);
}

/// Writing adds and removes names, which changes the stamps of the files.
#[test]
fn changes_of_stamps_by_apply_are_no_conflict() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path();
    fs::write(disk.join("a"), "one file").unwrap();
    for name in ["b", "c", "d"] {
        fs::hard_link(disk.join("a"), disk.join(name)).unwrap();
    }
    fs::write(disk.join("moved"), "moved").unwrap();
    let mut overlay = mounted(&[("/w", disk)]);
    let base = overlay.host_base();
    overlay.write("/w/a", b"new", 2).unwrap();
    overlay.unlink(base, "w/b", 2).unwrap();
    overlay.write("/w/c", b"newer", 2).unwrap();
    overlay.rename((base, "w/moved"), (base, "w/a-moved"), 2).unwrap();
    overlay.rename((base, "w/d"), (base, "w/moved"), 2).unwrap();
    let applied = overlay.apply().unwrap();
    assert_eq!((applied.written, applied.removed), (4, 2));
    let read = |name: &str| fs::read_to_string(disk.join(name)).unwrap();
    let contents = ["a", "a-moved", "c", "moved"].map(read);
    assert_eq!(contents, ["new", "moved", "newer", "one file"]);
    assert_eq!(fs::read_dir(disk).unwrap().count(), 4);
}

/// The moved file was written as a further name of the equal new one.
#[test]
fn equal_file_in_place_of_a_moved_one_is_not_linked() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("a"), "text").unwrap();
    fs::set_permissions(path("a"), fs::Permissions::from_mode(0o750)).unwrap();
    let mut overlay = mounted(&[("/w", folder.path())]);
    let base = overlay.host_base();
    overlay.rename((base, "w/a"), (base, "w/b"), 2).unwrap();
    overlay.write("/w/a", b"text", 2).unwrap();
    overlay.link((base, "w/b"), Follow::No, (base, "w/c"), 2).unwrap();
    assert_eq!(overlay.apply().unwrap().written, 2);
    let stat = |name: &str| fs::metadata(path(name)).unwrap();
    assert_eq!((stat("a").nlink(), stat("b").nlink()), (1, 2));
    assert_eq!(stat("b").ino(), stat("c").ino());
    for name in ["a", "b"] {
        assert_eq!(fs::read(path(name)).unwrap(), b"text");
        assert_eq!(stat(name).mode() & 0o777, 0o750, "{name}");
    }
    assert_eq!(overlay.apply().unwrap(), Applied::default());
}

/// A file written with the same bytes is not a change; its further name was written as a separate file.
#[test]
fn link_to_a_rewritten_equal_file_is_a_hard_link() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "text").unwrap();
    let mut overlay = mounted(&[("/w", folder.path())]);
    let base = overlay.host_base();
    overlay.link((base, "w/a"), Follow::No, (base, "w/b"), 2).unwrap();
    overlay.write("/w/a", b"text", 2).unwrap();
    assert_eq!(overlay.apply().unwrap().written, 1);
    let inode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().ino();
    assert_eq!(inode("a"), inode("b"));
    assert_eq!(overlay.apply().unwrap(), Applied::default());
}

/// Setting the times of a file also set those of its other name outside the mount.
#[test]
fn times_of_a_name_outside_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (inside, outside) = (folder.path().join("inside"), folder.path().join("outside"));
    fs::create_dir(&inside).unwrap();
    fs::write(&outside, "shared").unwrap();
    fs::hard_link(&outside, inside.join("file")).unwrap();
    fs::write(inside.join("alone"), "alone").unwrap();
    let before = fs::metadata(&outside).unwrap();
    let alone = fs::metadata(inside.join("alone")).unwrap();
    let mut overlay = mounted(&[("/w", &inside)]);
    let base = overlay.host_base();
    let time = SetTime::At(5_000_000_000);
    for name in ["w/file", "w/alone"] {
        overlay.set_times_at(base, name, Follow::No, time, time, 2).unwrap();
    }
    assert_eq!(overlay.apply().unwrap().written, 1);
    let after = fs::metadata(&outside).unwrap();
    assert_eq!((after.mtime(), after.mtime_nsec()), (before.mtime(), before.mtime_nsec()));
    let file = fs::metadata(inside.join("file")).unwrap();
    assert_eq!((file.mtime(), file.nlink()), (5, 1));
    assert_eq!(fs::read(inside.join("file")).unwrap(), b"shared");
    let timed = fs::metadata(inside.join("alone")).unwrap();
    assert_eq!((timed.mtime(), timed.ino()), (5, alone.ino()), "no need for a copy");
    assert_eq!(overlay.apply().unwrap(), Applied::default());
    check_counts(&overlay);
}

#[test]
fn overlapping_mounts_cannot_write_the_same_path() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("file"), "old").unwrap();
    let before = on_disk(folder.path());
    let mut overlay = mounted(&[("/outer", folder.path()), ("/in", &inner)]);
    overlay.write("/outer/inner/file", b"by one", 2).unwrap();
    overlay.write("/in/file", b"by the other", 2).unwrap();
    let error = overlay.apply().unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("the mounts /in and /outer both changed "), "{message}");
    assert!(message.contains("inner/file"), "{message}");
    assert_eq!(on_disk(folder.path()), before);

    let mut overlay = mounted(&[("/outer", folder.path()), ("/in", &inner)]);
    overlay.write("/outer/file", b"by one", 2).unwrap();
    overlay.write("/in/file", b"by the other", 2).unwrap();
    assert_eq!(overlay.apply().unwrap().written, 2, "two places");
}

#[test]
fn host_error_appears_once_in_the_message() {
    let error = ApplyError::Host {
        operation: "remove",
        mount: MountId(0),
        path: VPath::parse("full").unwrap(),
        error: std::io::ErrorKind::DirectoryNotEmpty.into(),
    };
    assert_eq!(error.to_string(), "cannot remove full: directory not empty; nothing was written");
    assert!(std::error::Error::source(&error).is_none());
}

/// After a kill each file has its old or its new content, and there are temporaries.
#[test]
fn kill_leaves_no_partial_file() {
    let names = ["a", "b", "c"];
    let mut overlay = mounted(&[]);
    overlay.write("/new", b"bytes", 2).unwrap();
    let id = overlay.lookup(overlay.host_base(), "new", Follow::No).unwrap();
    let version = overlay.file_version(id, None).unwrap();
    let path = |name: &str| VPath::parse(name).unwrap();
    for steps in 0..=2 * names.len() {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            fs::write(folder.path().join(name), "old").unwrap();
        }
        let host = Arc::new(HostDir::open(folder.path()).unwrap());
        let step = |name: &str| {
            let temporary = || VPath::root().join(&temporary_name());
            Step::Place { path: path(name), temporary: temporary(), backup: Some(temporary()) }
        };
        let plan =
            Plan { steps: names.iter().map(|name| step(name)).collect(), attributes: vec![] };
        let before = names.map(|name| Layer::stat(&*host, &path(name)).unwrap());
        let mut touched = Touched::default();
        let mut transaction = Transaction::new(host, plan, false, &());
        for (index, before) in before.iter().enumerate().take(steps) {
            transaction.stage_file(index, &version, None, None).unwrap();
            assert!(transaction.keep(index, Some(before), &mut touched).is_ok());
        }
        for (index, before) in before.iter().enumerate().take(steps.saturating_sub(names.len())) {
            assert!(transaction.place(index, Some(before), &mut touched).is_ok());
        }
        // Neither finished nor rolled back.
        std::mem::forget(transaction);
        for (index, name) in names.iter().enumerate() {
            let expected = if index + names.len() < steps { "bytes" } else { "old" };
            let content = fs::read_to_string(folder.path().join(name)).unwrap();
            assert_eq!(content, expected, "{name} after {steps} steps");
        }
    }
}
