//! Power cuts while belljar writes to the disk.
//!
//! The operations of an apply are recorded and repeated up to some point on another directory with the same contents.
//! Any part of what was not synced by then may be missing: added and removed names, ends of files.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "the tests use the disk")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex};

use crate::kernel::vfs::journal::format::{self as format, Content, Root};
use crate::kernel::vfs::journal::plan::{Identity, Step};
use crate::kernel::vfs::journal::tests::{Asking, Operation, Scene, Through};
use crate::kernel::vfs::layer::host_dir::Access;
use crate::kernel::vfs::*;

/// An operation in the directory of journals or the directory that is written to, with the final content of a
/// file that it creates, and whether that can be executed.
#[derive(Clone, Debug)]
struct Done {
    in_journals: bool,
    operation: Operation,
    content: Vec<u8>,
    executable: bool,
}

/// Records all operations of an apply, and the journal at its fullest.
fn record(files: usize) -> (Vec<Done>, Content) {
    let mut scene = Scene::new(files);
    let done: Arc<Mutex<Vec<Done>>> = Arc::default();
    let journal: Arc<Mutex<Vec<u8>>> = Arc::default();
    let (log, kept, journals) = (done.clone(), journal.clone(), scene.journals.clone());
    let through: Through = Asking::through(move |host, operation| {
        let mut log = log.lock().unwrap();
        let in_journals = host.path() == fs::canonicalize(&journals).unwrap();
        // The file created last is complete now.
        if !in_journals
            && let Some(Done {
                in_journals: false,
                operation: Operation::CreateFile(path),
                content,
                executable,
            }) = log.last_mut()
        {
            let path = host.path().join(path.as_str());
            *executable = fs::metadata(&path).unwrap().mode() & 0o100 != 0;
            *content = fs::read(path).unwrap();
        }
        if in_journals && let Operation::Rename(from, _) = &operation {
            *kept.lock().unwrap() = fs::read(journals.join(from.as_str())).unwrap();
        }
        log.push(Done { in_journals, operation, content: Vec::new(), executable: false });
        Ok(())
    });
    scene.apply(&through).unwrap();
    assert!(scene.is_new("recorded"));
    let content = format::parse(&journal.lock().unwrap()).unwrap();
    assert!(content.staged.is_some());
    let done = done.lock().unwrap().clone();
    (done, content)
}

/// A small generator, so that a failure can be repeated from its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

fn parent(path: &VPath) -> VPath {
    path.split_last().map_or_else(VPath::root, |(parent, _)| parent)
}

/// The directories in which the operation changes names.
fn dirs(operation: &Operation) -> Vec<VPath> {
    match operation {
        Operation::CreateFile(path)
        | Operation::CreateDir(path)
        | Operation::HardLink(_, path)
        | Operation::Symlink(_, path)
        | Operation::RemoveFile(path)
        | Operation::RemoveDir(path) => vec![parent(path)],
        Operation::Rename(from, to) => vec![parent(from), parent(to)],
        _ => Vec::new(),
    }
}

/// Whether operations in `later` sync all of `dirs`.
fn survive(dirs: &[VPath], in_journals: bool, later: &[Done]) -> bool {
    dirs.iter().all(|dir| {
        // Follows renames.
        let mut dir = dir.clone();
        later.iter().filter(|done| done.in_journals == in_journals).any(|done| {
            match &done.operation {
                Operation::SyncDir(synced) => *synced == dir,
                Operation::SyncFileSystems => true,
                Operation::Rename(from, to) => {
                    let below = dir.as_str().strip_prefix(from.as_str());
                    let below = below.filter(|it| it.is_empty() || it.starts_with('/'));
                    if let Some(below) = below {
                        dir = VPath::parse(&format!("{to}{below}")).unwrap();
                    }
                    false
                }
                _ => false,
            }
        })
    })
}

/// Whether the journal was synced before.
fn is_later(before: &[Done]) -> bool {
    let is_sync = |done: &Done| matches!(done.operation, Operation::SyncFile(_));
    before.iter().any(|done| done.in_journals && is_sync(done))
}

/// A scene after `done`, of which `dice` decides what survived.
fn replay(files: usize, done: &[Done], recorded: &Content, dice: &mut Dice) -> Scene {
    let scene = Scene::new(files);
    fs::create_dir_all(&scene.journals).unwrap();
    let (disk, journals) =
        (HostDir::open(&scene.disk).unwrap(), HostDir::open(&scene.journals).unwrap());
    let roots = [Root { id: disk.id().unwrap(), path: disk.path().to_owned() }];
    let plans = recorded.plans.as_ref().unwrap();
    // All of it, none of it, or any part of what was not synced survives.
    let odds = [0, 2, 4][dice.below(3)];
    let mut journal = Vec::new();
    for (index, Done { in_journals, operation, content, executable }) in done.iter().enumerate() {
        let later = &done[index + 1..];
        let survives = survive(&dirs(operation), *in_journals, later);
        if !survives && dice.below(4) >= odds {
            continue;
        }
        let host = if *in_journals { &journals } else { &disk };
        let is_synced = |path: &VPath| {
            let syncs = |done: &Done| match &done.operation {
                Operation::SyncFile(synced) => synced == path,
                Operation::SyncFileSystems => !in_journals,
                _ => false,
            };
            later.iter().any(|done| done.in_journals == *in_journals && syncs(done))
        };
        match operation {
            Operation::CreateFile(path) if !in_journals => {
                let len =
                    if is_synced(path) { content.len() } else { dice.below(content.len() + 1) };
                let is_set = *executable && (is_synced(path) || dice.below(2) == 0);
                let access = if is_set { Access::SharedExecutable } else { Access::Shared };
                let made = host.create_file(path, access);
                made.unwrap().write_all(&content[..len]).unwrap();
            }
            Operation::CreateFile(path) => {
                journal = [format::beginning(&roots), format::plans_part(plans)].concat();
                let len =
                    if is_synced(path) { journal.len() } else { dice.below(journal.len() + 1) };
                let made = host.create_file(path, Access::Private);
                made.unwrap().write_all(&journal[..len]).unwrap();
                journal.truncate(len);
            }
            Operation::SyncFile(_) if *in_journals && is_later(&done[..index]) => {
                // The journal's third part was written just before, and names the files made here.
                let part = format::staged_part(&[staged(&disk, &plans[0].steps)]);
                append(&scene, &part);
            }
            Operation::CreateDir(path) => drop(host.create_dir(path, Access::Shared)),
            Operation::HardLink(from, to) => drop(host.hard_link(from, to)),
            Operation::Symlink(text, path) => drop(host.symlink(text, path)),
            Operation::Rename(from, to) => drop(host.rename(from, to)),
            Operation::RemoveFile(path) => drop(host.remove_file(path)),
            Operation::RemoveDir(path) => drop(host.remove_dir(path)),
            _ => {}
        }
    }
    // The third part was being written.
    let is_prepared = scene.journals.join(".").read_dir().unwrap().flatten().any(|entry| {
        entry.path().extension().is_some_and(|it| it == "prepared")
            && fs::metadata(entry.path()).unwrap().len() == journal.len() as u64
    });
    if is_prepared && dice.below(2) == 0 {
        let part = format::staged_part(&[staged(&disk, &plans[0].steps)]);
        append(&scene, &part[..dice.below(part.len())]);
    }
    scene
}

fn append(scene: &Scene, part: &[u8]) {
    for entry in fs::read_dir(&scene.journals).unwrap().flatten() {
        let mut file = fs::File::options().append(true).open(entry.path()).unwrap();
        file.write_all(part).unwrap();
    }
}

/// The identities that the journal has for staged files; for files that did not survive, any number.
fn staged(disk: &HostDir, steps: &[Step]) -> Vec<Option<Identity>> {
    let lost = Identity { file_type: FileType::RegularFile, inode: 1, size: 2, mtime_ns: 3 };
    let made = |step: &Step| match step {
        Step::Remove { .. } => None,
        Step::CreateDir { temporary, .. } | Step::Place { temporary, .. } => {
            Some(disk.stat(temporary).map_or(lost, |stat| Identity::of(&stat)))
        }
    };
    steps.iter().map(made).collect()
}

fn cut_everywhere(files: usize, step: usize, times: usize) -> (usize, usize) {
    let (done, content) = record(files);
    let (mut old, mut new) = (0, 0);
    for len in (0..=done.len()).step_by(step) {
        for number in 0..times {
            let mut dice = Dice((len * times + number) as u64);
            let when = format!("{files} files, cut at {len} of {}, number {number}", done.len());
            let scene = replay(files, &done[..len], &content, &mut dice);
            let folder = HostDir::open(&scene.disk).unwrap();
            // Not really synced: the power stays on.
            let journals = Journals::open(&scene.journals).unwrap();
            let journals = journals.decorated(Asking::through(|_, _| Ok(())));
            let recovered = journals.recover(&folder, OnChanged::Refuse, &());
            recovered.unwrap_or_else(|error| panic!("{when}: {error}"));
            let is_new = scene.is_new(&when);
            assert!(is_new || len < done.len(), "{when}: all was done");
            (old, new) = (old + usize::from(!is_new), new + usize::from(is_new));
        }
    }
    (old, new)
}

#[test]
fn power_cut_leaves_the_old_or_the_new_tree() {
    let (old, new) = cut_everywhere(0, 1, 12);
    assert!(old > 100 && new > 50, "{old} {new}");
}

/// Many files are synced by file system.
#[test]
fn power_cut_among_many_files_leaves_the_old_or_the_new_tree() {
    let (old, new) = cut_everywhere(70, 17, 3);
    assert!(old > 20 && new > 5, "{old} {new}");
}
