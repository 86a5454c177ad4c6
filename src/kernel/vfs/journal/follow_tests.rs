//! Identification of directories, and files that are not journals.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "the tests use the disk")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::format::{self as format, Content};
use super::tests::{Asking, Operation, Scene, half_written, recover};
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
