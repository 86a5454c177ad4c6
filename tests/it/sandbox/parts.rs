//! Parts of a saved session: it reads and writes those that it looks at, and behaves as if it had them all.

use std::collections::BTreeSet;
use std::path::Path;

use belljar::kernel::vfs::{VPath, render_unified_diff};
use belljar::sandbox::{Sandbox, SnapshotStore};

use super::living_model::{over, plant};
use super::{PROGRAMS, sh};
use crate::support::plans::Chance;
use crate::support::{clone_tree, tree};

/// Directories and files in each of the large folders here.
const DIRS: usize = 60;
const FILES: usize = 50;

fn plant_many(folder: &Path) {
    for dir in 0..DIRS {
        let dir = folder.join(format!("dir{dir}/inner"));
        std::fs::create_dir_all(&dir).unwrap();
        for file in 0..FILES {
            let text = format!("{file} in {}\n", dir.display());
            std::fs::write(dir.join(format!("file{file}")), text).unwrap();
        }
    }
}

fn parts(folder: &Path) -> BTreeSet<String> {
    let names = std::fs::read_dir(folder).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn diff(sandbox: &mut Sandbox) -> Result<String, String> {
    let entries = sandbox.diff().map_err(|error| error.to_string())?;
    told(render_unified_diff(&entries, &VPath::root()))
}

/// A session that has looked at 3,000 files costs what it looks at, and not that again.
#[test]
fn session_reads_and_writes_what_it_looks_at() {
    let (folder, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    plant_many(folder.path());
    let store = SnapshotStore::new(kept.path());
    let mut session = over(folder.path());
    sh(&mut session, "cd /work; grep -r nothing . ; ls -lR . > /tmp/all");
    let id = store.save(&mut session).unwrap();
    let before = parts(kept.path());
    let longest =
        before.iter().map(|part| std::fs::metadata(kept.path().join(part)).unwrap().len());
    assert!(longest.max() < Some(150_000), "{:?} bytes", before.len());
    let len_bytes = |id| std::fs::metadata(store.cas().path_of(id)).unwrap().len();
    assert!(len_bytes(id) < 40_000, "{} bytes", len_bytes(id));

    // What belongs to other files is not needed, and so not read.
    let hidden = tempfile::tempdir().unwrap();
    let mut session = store.resume(id, PROGRAMS.clone()).unwrap();
    let text = sh(&mut session, "cat /work/dir7/inner/file8; echo new > /work/dir9/inner/file9");
    assert!(text.starts_with("8 in "), "{text}");
    let next = store.save(&mut session).unwrap();
    let after = parts(kept.path());
    let written: Vec<&String> = after.difference(&before).collect();
    // The session itself, the new content, the directories that changed.
    assert!(written.len() <= 4, "{written:?}");
    for part in &after {
        let path = kept.path().join(part);
        let is_of_another_directory = std::fs::read_to_string(&path).is_ok_and(|text| {
            let is_part = text.starts_with("{\"dir\":") || text.starts_with("[{\"there\":");
            is_part && !text.contains("dir7") && !text.contains("dir9")
        });
        if is_of_another_directory {
            std::fs::rename(&path, hidden.path().join(part)).unwrap();
        }
    }
    let number = parts(hidden.path()).len();
    assert!(number > DIRS, "{number} of {} parts are hidden", after.len());
    let mut session = store.resume(next, PROGRAMS.clone()).unwrap();
    let text = sh(&mut session, "cat /work/dir7/inner/file8 /work/dir9/inner/file9");
    assert!(text.ends_with("\nnew\n"), "{text}");
    let text = diff(&mut session).unwrap();
    assert!(text.contains("+new") && text.contains("-9 in "), "{text}");

    // Where they are needed, they are missed: nothing else is shown in their place, and nothing is written.
    let refused = session.apply().unwrap_err().to_string();
    assert!(refused.contains("cannot read the state of the session: "), "{refused}");
    assert!(refused.contains(" is missing"), "{refused}");
    let failed = session.exec(&belljar::sandbox::ExecRequest::shell("cat /work/dir3/inner/file1"));
    let failed = failed.unwrap();
    assert!(String::from_utf8_lossy(&failed.stderr).contains("I/O error"), "{failed:?}");
    for part in parts(hidden.path()) {
        std::fs::rename(hidden.path().join(&part), kept.path().join(&part)).unwrap();
    }
    assert_eq!(sh(&mut session, "cat /work/dir3/inner/file1").split(' ').next(), Some("1"));
    session.apply().unwrap();
    assert_eq!(std::fs::read(folder.path().join("dir9/inner/file9")).unwrap(), b"new\n");
    assert_eq!(diff(&mut session).unwrap(), "");
}

/// A session goes on from another store, without the one that it was resumed from.
#[test]
fn parts_that_were_not_looked_at_are_copied_to_another_store() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    plant_many(folder.path());
    let mut session = over(folder.path());
    let all = sh(&mut session, "cd /work; find . | sort; cat */*/*; ls -iR .");
    let id = SnapshotStore::new(first.path()).save(&mut session).unwrap();
    let mut resumed = SnapshotStore::new(first.path()).resume(id, PROGRAMS.clone()).unwrap();
    sh(&mut resumed, "cat /work/dir1/inner/file1");
    let store = SnapshotStore::new(second.path());
    let id = store.save(&mut resumed).unwrap();
    drop(first);
    std::fs::remove_dir_all(folder.path().join("dir2")).unwrap();
    let mut session = store.resume(id, PROGRAMS.clone()).unwrap();
    assert_eq!(sh(&mut session, "cd /work; find . | sort; cat */*/*; ls -iR ."), all);
    let listed: BTreeSet<String> =
        store.parts_of(id).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(listed, parts(second.path()), "what a store holds is what a session consists of");
}

/// A crash of the system can cut off what was written last. Other sessions over the same directory consist of the same
/// parts: they make them again.
#[test]
fn damaged_parts_are_replaced_by_sessions_that_look_at_the_same() {
    let (folder, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    plant_many(folder.path());
    let store = SnapshotStore::new(kept.path());
    let look = "cd /work; cat */*/*; ls -lR . > /tmp/all; sha256sum /tmp/all";
    let mut session = over(folder.path());
    let all = sh(&mut session, look);
    let first = store.save(&mut session).unwrap();
    for part in parts(kept.path()) {
        let file = std::fs::File::options().write(true).open(kept.path().join(part)).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    }
    assert!(store.resume(first, PROGRAMS.clone()).is_err());
    let mut session = over(folder.path());
    assert_eq!(sh(&mut session, look), all);
    let second = store.save(&mut session).unwrap();
    for dir in parts(folder.path()) {
        std::fs::remove_dir_all(folder.path().join(dir)).unwrap();
    }
    let mut session = store.resume(second, PROGRAMS.clone()).unwrap();
    assert_eq!(sh(&mut session, look), all);
    assert_eq!(diff(&mut session).unwrap(), "");
}

/// One step of a session; what it prints is compared.
fn step(chance: &mut Chance, number: usize) -> String {
    let path = |chance: &mut Chance| {
        let names = ["a", "b", "c", "d"];
        let depth = 1 + chance.below(3);
        (0..depth).map(|_| names[chance.below(names.len())]).collect::<Vec<_>>().join("/")
    };
    let (at, other) = (path(chance), path(chance));
    match chance.below(14) {
        0 => format!("cat {at}"),
        1 => format!("ls -li {at}"),
        2 => "find . -type f | sort".to_owned(),
        3 => format!("ls -liR {at}; grep -r line {at} | sort | head -n 5"),
        4 => format!("echo {number} >> {at}"),
        5 => format!("mkdir -p {at}; echo {number} > {at}/new"),
        6 => format!("mv {at} {other}"),
        7 => format!("rm -rf {at}"),
        8 => format!("chmod +x {at}; ls -l {at}"),
        9 => format!("touch -d @1000000000 {at}; date -r {at}"),
        10 => format!("ln {at} {other}; ls -li {at} {other}"),
        11 => format!("cp -r {at} {other}; rmdir {at}"),
        12 => format!("test -e {at}/none; test -d {at} && ls {at}"),
        _ => format!("cd {at} && ls -la .. && cat * | head -n 3"),
    }
}

/// Two sessions over equal folders take the same steps, and are saved in between; one goes on from what was saved. Both
/// print the same, tell the same changes, and write the same to their folders.
#[test]
fn sessions_that_are_saved_between_their_steps_do_the_same() {
    let cases = std::env::var("BELLJAR_TEST_PARTS_CASES").map_or(30, |n| n.parse().unwrap());
    let (mut folded, mut applied) = (0, 0);
    for seed in 0..cases {
        let scratch = tempfile::tempdir().unwrap();
        let folders = ["kept", "saved"].map(|name| scratch.path().join(name));
        std::fs::create_dir(&folders[0]).unwrap();
        plant(&folders[0], &mut Chance::new(seed));
        clone_tree(&folders[0], &folders[1]);
        let [mut kept, mut saved] = [&folders[0], &folders[1]].map(|folder| over(folder));
        let store = SnapshotStore::new(scratch.path().join("store"));
        let unused = SnapshotStore::new(scratch.path().join("unused"));
        let mut chance = Chance::new(seed);
        for number in 0..25 {
            let script = format!("cd /work; {{ {}; }} 2>&1; true", step(&mut chance, number));
            let what = format!("seed {seed}, step {number}: {script}");
            assert_eq!(sh(&mut kept, &script), sh(&mut saved, &script), "{what}");
            if chance.below(3) > 0 {
                // Saving keeps what was replaced.
                unused.save(&mut kept).unwrap();
                let id = store.save(&mut saved).unwrap();
                let text = store.cas().get(id, 1 << 30).unwrap();
                folded += usize::from(String::from_utf8_lossy(&text).contains("\"folded\""));
                saved = store.resume(id, PROGRAMS.clone()).unwrap();
            }
            match chance.below(12) {
                0 => assert_eq!(diff(&mut kept), diff(&mut saved), "{what}"),
                1 => {
                    let [kept, saved] = [&mut kept, &mut saved].map(|it| it.apply().map(drop));
                    assert_eq!(told(kept), told(saved), "{what}");
                    assert_eq!(tree(&folders[0]), tree(&folders[1]), "{what}");
                    applied += 1;
                }
                2 => {
                    for folder in &folders {
                        // The user edits both folders alike.
                        let _ = std::fs::write(folder.join("b"), format!("user {number}\n"));
                        let _ = std::fs::create_dir(folder.join("d"));
                        let _ = std::fs::write(folder.join("d/c"), format!("user {number}\n"));
                    }
                    let [kept, saved] = [&mut kept, &mut saved].map(|it| {
                        let taken = it.refresh();
                        taken.map(|it| format!("{:?} {:?}", it.taken, it.conflicts))
                    });
                    assert_eq!(told(kept), told(saved), "{what}");
                }
                _ => {}
            }
        }
        assert_eq!(diff(&mut kept), diff(&mut saved), "seed {seed}");
    }
    assert!(folded > cases as usize && applied > cases as usize / 2, "{folded}, {applied}");
}

fn told<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}
