//! What others do to the disk while a patch is being written, and names that lie outside of it.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "the tests look at the disk")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use super::transaction::{Touched, Transaction};
use crate::base::errno::Errno;
use crate::kernel::vfs::journal::plan::{Plan, Step};
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

/// Holds the file `f`, whose content is `bytes`. Whoever opens it finds that somebody did this to
/// the disk meanwhile.
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

/// What was checked was once compared by length and time alone before it was replaced.
#[test]
fn an_edit_between_check_and_rename_is_a_conflict_whatever_its_length_and_time() {
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
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
}

/// Somebody clears up the temporaries: a step fails when others have been made. A temporary that was
/// gone was once said to be something that could not be put back.
#[test]
fn a_step_that_fails_in_the_middle_leaves_everything_as_it_was() {
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
    // Now nobody interferes: y is not among what is new any more.
    overlay.write("/w/y", b"again", 2).unwrap();
    overlay.apply().unwrap();
    assert_eq!(fs::read(disk.join("c/e/f")).unwrap(), b"old");
    assert_eq!(fs::read(disk.join("z")).unwrap(), b"bytes");
}

/// What stands there now is of another type than what was seen: nothing is written through it.
#[test]
fn another_type_in_the_way_is_a_conflict() {
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

/// Writing gives and takes names, and so changes the stamps of the files that it is about.
#[test]
fn writing_itself_is_no_conflict() {
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

/// A file that was moved away from an equal one was once written as a further name of that.
#[test]
fn an_equal_file_in_the_place_of_one_that_moved_stays_a_file_of_its_own() {
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

/// A further name of a file that was written anew as it was, and so is no change, was once written
/// as a file of its own.
#[test]
fn a_name_of_a_file_that_was_written_as_it_was_is_a_name_of_it() {
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

/// Setting the times of a file once set those of its other name, outside of what was mounted.
#[test]
fn times_of_a_name_outside_stay() {
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
fn mounts_that_overlap_do_not_write_to_one_place() {
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
fn an_error_of_the_host_is_said_once() {
    let error = ApplyError::Host {
        operation: "remove",
        mount: MountId(0),
        path: VPath::parse("full").unwrap(),
        error: std::io::ErrorKind::DirectoryNotEmpty.into(),
    };
    assert_eq!(error.to_string(), "cannot remove full: directory not empty; nothing was written");
    assert!(std::error::Error::source(&error).is_none());
}

/// Belljar is killed: the disk has files in their old version or the new one, and temporaries.
#[test]
fn a_crash_leaves_no_half_of_a_file() {
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
