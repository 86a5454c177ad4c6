//! Which folder a journal is about, and what is no journal.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "the tests look at the disk")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::format::{self as format, Content};
use super::tests::{Scene, half_written, recover};
use crate::kernel::vfs::test_trees::on_disk;
use crate::kernel::vfs::*;

/// The journal of a scene that was killed.
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

/// The system numbers devices anew when it is started: after a power cut a journal was about no folder.
#[test]
fn a_folder_on_a_device_of_another_number_is_recovered() {
    let scene = half_written();
    rewrite(&scene, |content| content.roots[0].id.0 ^= 1);
    assert_eq!(scene.recover().unwrap().len(), 1);
    assert!(!scene.is_new("taken back"));
    assert_eq!(scene.recover().unwrap(), []);
}

/// Another disk may be mounted where the journal's was, and the topmost directories of two disks can have
/// one inode number.
#[test]
fn a_folder_on_another_device_that_shows_nothing_of_a_journal_is_another() {
    let scene = half_written();
    rewrite(&scene, |content| {
        content.roots[0].id.0 ^= 1;
        content.plans = Some(vec![crate::kernel::vfs::journal::plan::Plan::default()]);
        content.staged = Some(vec![Vec::new()]);
    });
    let before = on_disk(&scene.disk);
    assert_eq!(scene.recover().unwrap(), []);
    assert_eq!(on_disk(&scene.disk), before);
    assert!(journal(&scene).exists(), "it stays for the disk that it is about");
}

/// Whoever is killed while the journal is written anew leaves the one that was there.
#[test]
fn a_folder_that_is_gone_is_all_that_is_left_in_its_journal() {
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

/// Belljar waited for ever for somebody who writes into the pipe.
#[test]
fn what_is_no_file_is_no_journal() {
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
        assert_eq!(recovered, Ok(count), "it waits for somebody who writes");
    }
    assert!(pipe.exists());
}

/// It says which files of which folder somebody changes.
#[test]
fn a_journal_is_read_by_its_user_alone() {
    let scene = half_written();
    let files = fs::read_dir(&scene.journals).unwrap().map(|entry| entry.unwrap().path());
    for path in files.chain([scene.journals.clone()]) {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} {mode:o}", path.display());
    }
}
