//! Identification of directories, and files that are not journals.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "the tests use the disk")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::format::{self as format, Content};
use super::recovery::ChangedKind;
use super::tests::{
    Asking, Operation, Scene, Through, dying, dying_where, half_written, recover, written_up_to,
};
use crate::kernel::vfs::test_trees::on_disk;
use crate::kernel::vfs::*;

/// The journal of a killed scene.
fn journal(scene: &Scene) -> PathBuf {
    let mut paths = fs::read_dir(&scene.journals).unwrap().map(|entry| entry.unwrap().path());
    paths.find(|path| path.extension().is_some_and(|it| it == "prepared")).unwrap()
}

fn rewrite(scene: &Scene, change: impl FnOnce(&mut Content)) {
    let path = journal(scene);
    let mut content = format::parse(&fs::read(&path).unwrap()).unwrap();
    change(&mut content);
    let parts = [
        format::beginning(&content.roots),
        format::plans_part(&content.plans.unwrap()),
        format::staged_part(&content.staged.unwrap()),
    ];
    fs::write(path, parts.concat()).unwrap();
}

/// Devices are numbered anew at a restart: after a power cut a journal matched no directory.
#[test]
fn directory_on_renumbered_device_is_recovered() {
    let scene = half_written();
    rewrite(&scene, |content| content.roots[0].id.0 ^= 1);
    assert_eq!(scene.recover().unwrap().len(), 1);
    assert!(!scene.is_new("taken back"));
    assert_eq!(scene.recover().unwrap(), []);
}

/// The directory was moved, and a directory in it, or the one that holds it now, was opened: what was half written was used.
#[test]
fn directory_that_was_moved_is_recovered_from_within_and_from_around_it() {
    for is_within in [true, false] {
        let mut scene = half_written();
        let around = tempfile::tempdir().unwrap();
        let moved = around.path().join("another name");
        fs::rename(&scene.disk, &moved).unwrap();
        scene.disk.clone_from(&moved);
        let mut entries = fs::read_dir(&moved).unwrap().map(|entry| entry.unwrap().path());
        let within = entries.find(|path| path.is_dir()).unwrap();
        let opened = if is_within { within } else { around.path().to_owned() };
        let recovered = recover(&opened, &scene.journals, OnChanged::Refuse).unwrap();
        assert_eq!(recovered.len(), 1, "{}", opened.display());
        assert!(!scene.is_new("taken back"));
    }
}

/// Another disk may be mounted in the same place, and root directories of two disks can have the same inode
/// number.
#[test]
fn unrelated_directory_with_same_path_and_inode_is_left_alone() {
    let scene = half_written();
    rewrite(&scene, |content| {
        content.roots[0].id.0 ^= 1;
        content.plans = Some(vec![crate::kernel::vfs::journal::plan::Plan::default()]);
        content.staged = Some(vec![Vec::new()]);
    });
    let before = on_disk(&scene.disk);
    assert_eq!(scene.recover().unwrap(), []);
    assert_eq!(on_disk(&scene.disk), before);
    assert!(journal(&scene).exists(), "it stays for its own disk");
}

/// A kill while the journal is rewritten leaves the old one.
#[test]
fn journal_keeps_only_missing_directories() {
    let scene = half_written();
    let gone = tempfile::tempdir().unwrap();
    let id = HostDir::open(gone.path()).unwrap().id().unwrap();
    let path = gone.path().join("gone");
    rewrite(&scene, |content| {
        content.roots.push(format::Root { id: (id.0, !id.1), path });
        let (plans, staged) = (content.plans.as_mut().unwrap(), content.staged.as_mut().unwrap());
        plans.push(plans[0].clone());
        staged.push(staged[0].clone());
    });
    assert_eq!(scene.recover().unwrap().len(), 1);
    let content = format::parse(&fs::read(journal(&scene)).unwrap()).unwrap();
    assert_eq!((content.roots.len(), content.roots[0].id.1), (1, !id.1));
    assert!(content.plans.is_some() && content.staged.is_some());
    fs::write(scene.disk.join("new"), "made since").unwrap();
    assert_eq!(scene.recover().unwrap(), []);
}

/// Opening the pipe waited for a writer.
#[test]
fn non_file_in_place_of_journal_is_not_opened() {
    let scene = half_written();
    let pipe = scene.journals.join("0123456789abcdef.prepared");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let other = tempfile::tempdir().unwrap();
    let folders = [other.path().to_owned(), scene.disk.clone()];
    let (journals, (told, done)) = (scene.journals.clone(), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        for folder in folders {
            let recovered = recover(&folder, &journals, OnChanged::Refuse);
            told.send(recovered.unwrap().len()).unwrap();
        }
    });
    for count in [0, 1] {
        let recovered = done.recv_timeout(std::time::Duration::from_mins(1));
        assert_eq!(recovered, Ok(count), "it waits for a writer");
    }
    assert!(pipe.exists());
}

/// A journal tells which files change.
#[test]
fn journals_are_private_to_their_user() {
    let scene = half_written();
    let files = fs::read_dir(&scene.journals).unwrap().map(|entry| entry.unwrap().path());
    for path in files.chain([scene.journals.clone()]) {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} {mode:o}", path.display());
    }
}

/// Regression: `doctor` called a home unhealthy while another belljar was writing.
#[test]
fn a_live_writer_is_not_interrupted_and_a_killed_one_is() {
    let mut scene = Scene::new(0);
    let journals = Journals::open(&scene.journals).unwrap();
    let through = Asking::through(move |_, operation| {
        if matches!(operation, Operation::HardLink(..)) {
            assert_eq!(journals.folders().unwrap().len(), 1);
            assert!(journals.interrupted().unwrap().is_empty());
        }
        Ok(())
    });
    scene.apply(&through).unwrap();
    let scene = half_written();
    let journals = Journals::open(&scene.journals).unwrap();
    assert_eq!(journals.interrupted().unwrap(), [scene.disk.canonicalize().unwrap()]);
}

/// Numbers of directories are used again: a directory that had been removed was made in an unrelated one.
#[test]
fn unrelated_directory_with_same_number_is_left_alone() {
    let scene = half_written();
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("thesis"), "text").unwrap();
    let id = HostDir::open(other.path()).unwrap().id().unwrap();
    rewrite(&scene, |content| content.roots[0].id = id);
    let before = on_disk(other.path());
    assert_eq!(recover(other.path(), &scene.journals, OnChanged::Refuse).unwrap(), []);
    assert_eq!(on_disk(other.path()), before);
    assert!(journal(&scene).exists(), "it stays for its own directory");
}

/// Removes all temporaries, as `git clean` does; returns the contents of old files that are left.
fn cleaned(disk: &std::path::Path) -> BTreeSet<String> {
    let mut left = BTreeSet::new();
    for entry in fs::read_dir(disk).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let is_temporary = entry.file_name().to_string_lossy().starts_with(".belljar-");
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => left.extend(cleaned(&path)),
            _ if is_temporary => fs::remove_file(&path).unwrap(),
            _ => left.extend(fs::read_to_string(&path)),
        }
    }
    left.retain(|text| text.starts_with("old "));
    left
}

/// Renames of temporaries that a [`Scene`] needs, but for the last.
const PLACED: usize = 16;

/// After a kill, the user removed the temporaries, and with them the backup of a moved file. The recovery then removed its
/// new name, which was all that was left.
#[test]
fn moved_file_whose_backup_was_removed_is_not_lost() {
    let mut lost = 0;
    for most in 0..PLACED {
        for on_changed in [OnChanged::Refuse, OnChanged::Skip] {
            let scene = written_up_to(most);
            let before = cleaned(&scene.disk);
            let recovered = recover(&scene.disk, &scene.journals, on_changed);
            if let Err(JournalError::Changed { changed, .. }) = &recovered {
                lost += usize::from(changed.iter().any(|it| it.what == ChangedKind::Lost));
            }
            let after = cleaned(&scene.disk);
            assert!(after.is_superset(&before), "{most}: {before:?} {after:?} {recovered:?}");
        }
    }
    assert!(lost > 3, "{lost}");
}

/// The journal was dropped with the last thing that told of temporaries that could not be removed.
#[test]
fn temporaries_left_after_the_commit_are_removed_by_the_next_recovery() {
    let mut scene = Scene::new(0);
    let through = Asking::through(|_, operation| match operation {
        Operation::RemoveFile(path) if path.as_str().contains(".belljar-") => {
            Err(std::io::Error::other("not now"))
        }
        _ => Ok(()),
    });
    let applied = scene.apply(&through).unwrap();
    assert!(!applied.leftovers.is_empty());
    assert_eq!(scene.recover().unwrap().len(), 1);
    assert!(scene.is_new("finished"));
    assert_eq!(scene.recover().unwrap(), []);
}

/// A new directory at the same path got what the journal of the old one would take back.
#[test]
fn directory_that_was_made_anew_is_left_alone() {
    let scene = half_written();
    fs::remove_dir_all(&scene.disk).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::create_dir(&scene.disk).unwrap();
    fs::write(scene.disk.join("a"), "mine").unwrap();
    let id = HostDir::open(&scene.disk).unwrap().id().unwrap();
    if HostDir::open(&scene.disk).unwrap().created().is_none() {
        return;
    }
    let written = fs::metadata(journal(&scene)).unwrap().modified().unwrap();
    rewrite(&scene, |content| content.roots[0].id = id);
    fs::File::options().write(true).open(journal(&scene)).unwrap().set_modified(written).unwrap();
    let before = on_disk(&scene.disk);
    assert_eq!(scene.recover().unwrap(), []);
    assert_eq!(on_disk(&scene.disk), before);
}

/// The files of `disk` and what is in them.
fn contents(disk: &std::path::Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(disk).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            all.extend(contents(&entry.path()));
        } else {
            all.push(fs::read_to_string(entry.path()).unwrap());
        }
    }
    all
}

/// An overlay over `disk`, at `/w`.
fn over(disk: &std::path::Path) -> Overlay {
    let mut overlay = Overlay::new(VfsLimits::default(), 1);
    let host = Source::Host(std::sync::Arc::new(HostDir::open(disk).unwrap()));
    overlay.mount("/w", host, false, Mtimes::Fixed(1), 1).unwrap();
    overlay
}

/// Applies `overlay`, with its journal in `journals`; it may be killed.
fn apply_through(overlay: &mut Overlay, journals: &std::path::Path, through: &Through) {
    let opened = Journals::open(journals).unwrap().decorated(through.clone());
    let _ = overlay.apply_through(Some(&opened), &(), &|host| through(host));
}

/// The user removed the directory that a moved file came from, or the temporaries of that directory alone.
#[test]
fn moved_file_is_kept_whatever_else_was_removed() {
    let mut kept = 0;
    for number in 0..40 {
        for (on_changed, removes_dir) in [
            (OnChanged::Refuse, false),
            (OnChanged::Skip, false),
            (OnChanged::Refuse, true),
            (OnChanged::Skip, true),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let (disk, journals) = (folder.path().join("disk"), folder.path().join("journals"));
            for name in ["g", "d"] {
                fs::create_dir_all(disk.join(name)).unwrap();
            }
            fs::write(disk.join("g/f"), "precious").unwrap();
            fs::write(disk.join("d/o"), "other").unwrap();
            let mut overlay = over(&disk);
            let base = overlay.host_base();
            overlay.rename((base, "w/g/f"), (base, "w/d/m"), 2).unwrap();
            overlay.write("/w/d/o", b"new", 2).unwrap();
            apply_through(&mut overlay, &journals, &dying(number).0);
            if disk.join("g/f").exists() {
                // Whoever removes it removes the file itself.
                continue;
            }
            if removes_dir {
                fs::remove_dir_all(disk.join("g")).unwrap();
            } else {
                cleaned(&disk.join("g"));
            }
            let has = |all: Vec<String>| all.iter().any(|text| text == "precious");
            let had = has(contents(&disk));
            let recovered = recover(&disk, &journals, on_changed);
            assert!(!had || has(contents(&disk)), "{number} {removes_dir}: {recovered:?}");
            kept += usize::from(had);
        }
    }
    assert!(kept > 40, "{kept}");
}

/// The user replaced a file whose turn had not come. The recovery removed its backup, and with it all that was left of a
/// content that the user had seen under another name.
#[test]
fn content_whose_old_name_the_user_replaced_is_not_lost() {
    let (mut seen, mut refused) = (0, 0);
    for number in 0..40 {
        for on_changed in [OnChanged::Refuse, OnChanged::Skip] {
            let folder = tempfile::tempdir().unwrap();
            let (disk, journals) = (folder.path().join("disk"), folder.path().join("journals"));
            fs::create_dir(&disk).unwrap();
            fs::write(disk.join("a"), "first").unwrap();
            fs::write(disk.join("b"), "second").unwrap();
            let mut overlay = over(&disk);
            let base = overlay.host_base();
            for (from, to) in [("w/a", "w/t"), ("w/b", "w/a"), ("w/t", "w/b")] {
                overlay.rename((base, from), (base, to), 2).unwrap();
            }
            apply_through(&mut overlay, &journals, &dying(number).0);
            let shown = fs::read_to_string(disk.join("a")).unwrap();
            fs::write(disk.join("mine"), "mine").unwrap();
            fs::rename(disk.join("mine"), disk.join("b")).unwrap();
            let recovered = recover(&disk, &journals, on_changed);
            let left = contents(&disk);
            for text in [&*shown, "mine"] {
                assert!(left.iter().any(|it| it == text), "{number}: {text} {recovered:?}");
            }
            seen += usize::from(shown == "second");
            refused += usize::from(matches!(recovered, Err(JournalError::Changed { .. })));
        }
    }
    assert!(seen > 10 && refused > 3, "{seen} {refused}");
}

/// Overlay file systems do not rename directories of a lower layer. A directory that a file replaces was then removed
/// without a backup, and its recovery was refused although nothing had changed since.
#[test]
fn removed_directory_that_a_file_replaces_is_recovered_where_directories_cannot_be_renamed() {
    let mut taken_back = 0;
    for number in 0..40 {
        let folder = tempfile::tempdir().unwrap();
        let (disk, journals) = (folder.path().join("disk"), folder.path().join("journals"));
        fs::create_dir_all(disk.join("d/inner")).unwrap();
        fs::write(disk.join("d/f"), "old").unwrap();
        let before = on_disk(&disk);
        let mut overlay = over(&disk);
        let base = overlay.host_base();
        overlay.unlink(base, "w/d/f", 2).unwrap();
        overlay.remove_dir(base, "w/d/inner", 2).unwrap();
        overlay.remove_dir(base, "w/d", 2).unwrap();
        overlay.write("/w/d", b"new", 2).unwrap();
        let is_of_lower = |operation: &Operation| matches!(operation, Operation::Rename(from, _) if matches!(from.as_str(), "d" | "d/inner"));
        apply_through(&mut overlay, &journals, &dying_where(number, is_of_lower).0);
        let recovered = recover(&disk, &journals, OnChanged::Refuse).unwrap();
        let is_new = fs::read_to_string(disk.join("d")).is_ok_and(|text| text == "new");
        assert!(is_new || on_disk(&disk) == before, "{number}: {recovered:?}");
        taken_back += usize::from(!is_new && !recovered.is_empty());
    }
    assert!(taken_back > 5, "{taken_back}");
}
