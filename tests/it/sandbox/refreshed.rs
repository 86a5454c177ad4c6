//! Random changes of a session that is refreshed, applied, saved and resumed in between. It must show the state of an
//! undisturbed session with the same changes, and the edits on the disk.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use belljar::Errno;
use belljar::kernel::vfs::{FileType, Follow, Taken, TakenKind, VPath, render_unified_diff};
use belljar::sandbox::{Sandbox, SnapshotStore};

use super::PROGRAMS;
use super::living_model::{over, plant};
use crate::support::plans::Chance;
use crate::support::{clone_tree, file_number, is_executable};

/// Cases, unless `BELLJAR_TEST_LIVING_CASES` says otherwise.
const CASES: usize = 60;

const STEPS: usize = 30;

/// Names that sessions change, and one that is edited on the disk.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const EDITED: &str = "x";

pub(super) fn path(chance: &mut Chance) -> String {
    let names: Vec<&str> = (0..=chance.below(3)).map(|_| NAMES[chance.below(4)]).collect();
    names.join("/")
}

/// A change by a program; `path` and `other` are relative to the folder.
pub(super) fn change(
    sandbox: &mut Sandbox,
    kind: usize,
    path: &str,
    other: &str,
    step: usize,
) -> Result<(), Errno> {
    let vfs = sandbox.files();
    let base = vfs.host_base();
    let [at, to] = [path, other].map(|path| format!("work/{path}"));
    let text = format!("session {step}\n");
    match kind {
        0 => {
            let is_new = vfs.stat(base, &at, Follow::Yes).is_err();
            vfs.write(&format!("/{at}"), text.as_bytes(), 7)?;
            // Otherwise it would take the permission of a file that it replaces, which the disk may have by now.
            if is_new { vfs.set_executable_at(base, &at, Follow::Yes, false, 7) } else { Ok(()) }
        }
        1 => {
            let mut all = vfs.read(&format!("/{at}"))?;
            all.extend(text.into_bytes());
            vfs.write(&format!("/{at}"), &all, 7)
        }
        2 => vfs.unlink(base, &at, 7),
        3 => vfs.remove_dir(base, &at, 7),
        4 => vfs.create_dir(base, &at, 7).map(drop),
        // Two names of one symbolic link become two links when a session reads them from the disk again.
        5 if vfs.stat(base, &at, Follow::No)?.file_type == FileType::SymbolicLink => Ok(()),
        5 => vfs.link((base, &at), Follow::No, (base, &to), 7),
        6 => vfs.symlink("a", base, &at, 7),
        7 => remove_all(sandbox, &at),
        // Removes and recreates a directory, as builds do.
        8 => {
            remove_all(sandbox, &at)?;
            sandbox.files().create_dir(base, &at, 7)?;
            let file = format!("{at}/{}", NAMES[step % 4]);
            sandbox.files().write(&format!("/{file}"), text.as_bytes(), 7)?;
            sandbox.files().set_executable_at(base, &file, Follow::No, step.is_multiple_of(3), 7)
        }
        10 => vfs.set_executable_at(base, &at, Follow::No, !step.is_multiple_of(3), 7),
        // Swaps two entries.
        9 => {
            vfs.rename((base, &at), (base, "work/.aside"), 7)?;
            let vfs = sandbox.files();
            let swapped = vfs.rename((base, &to), (base, &at), 7);
            // The swap fails if `to` is inside `at`; `at` then returns to its place.
            let back = if swapped.is_ok() { &to } else { &at };
            vfs.rename((base, "work/.aside"), (base, back), 7).and(swapped)
        }
        _ => vfs.rename((base, &at), (base, &to), 7),
    }
}

fn remove_all(sandbox: &mut Sandbox, at: &str) -> Result<(), Errno> {
    let vfs = sandbox.files();
    let base = vfs.host_base();
    if vfs.stat(base, at, Follow::No)?.file_type != FileType::Directory {
        return vfs.unlink(base, at, 7);
    }
    for name in names(sandbox, &format!("/{at}")) {
        remove_all(sandbox, &format!("{at}/{name}"))?;
    }
    sandbox.files().remove_dir(base, at, 7)
}

fn names(sandbox: &mut Sandbox, dir: &str) -> Vec<String> {
    let vfs = sandbox.files();
    let id = vfs.open_dir(dir).unwrap();
    let listing = vfs.list(id).unwrap_or_else(|error| panic!("{dir}: {error}: {:?}", vfs.drifts()));
    vfs.close(id);
    let mut names: Vec<_> = listing.iter().map(|entry| entry.name.to_string()).collect();
    names.sort();
    names
}

/// The entry at each path: its type, its content, and the first name of the same file.
pub(super) type View = BTreeMap<String, String>;

pub(super) fn view(sandbox: &mut Sandbox) -> View {
    view_of(sandbox, |_| true)
}

fn view_of(sandbox: &mut Sandbox, is_looked_at: impl Fn(&str) -> bool) -> View {
    let (mut view, mut firsts) = (View::new(), BTreeMap::new());
    let mut dirs = vec![String::new()];
    while let Some(dir) = dirs.pop() {
        for name in names(sandbox, &format!("/work{dir}")) {
            let path = format!("{dir}/{name}");
            if !is_looked_at(&path) {
                continue;
            }
            let at = format!("work{path}");
            let vfs = sandbox.files();
            let base = vfs.host_base();
            let found = vfs.stat(base, &at, Follow::No).unwrap();
            let text = match found.file_type {
                FileType::Directory => {
                    dirs.push(path.clone());
                    "/".to_owned()
                }
                FileType::SymbolicLink => format!("-> {}", vfs.read_link(base, &at).unwrap()),
                _ => {
                    firsts.entry(found.ino).or_insert_with(Vec::new).push(path.clone());
                    let text = String::from_utf8(vfs.read(&format!("/{at}")).unwrap()).unwrap();
                    with_mode(text, vfs.is_executable_at(base, &at, Follow::No).unwrap())
                }
            };
            view.insert(path, text);
        }
    }
    with_names(view, firsts)
}

/// As [`view`], on the disk.
pub(super) fn on_disk(folder: &Path) -> View {
    let (mut view, mut firsts) = (View::new(), BTreeMap::new());
    let mut dirs = vec![String::new()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(folder.join(dir.trim_start_matches('/'))).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{dir}/{}", entry.file_name().to_str().unwrap());
            let metadata = entry.metadata().unwrap();
            let text = if metadata.is_dir() {
                dirs.push(path.clone());
                "/".to_owned()
            } else if metadata.is_symlink() {
                format!("-> {}", std::fs::read_link(entry.path()).unwrap().display())
            } else {
                firsts
                    .entry(file_number(&entry.path()))
                    .or_insert_with(Vec::new)
                    .push(path.clone());
                let text = std::fs::read_to_string(entry.path()).unwrap();
                with_mode(text, is_executable(&metadata))
            };
            view.insert(path, text);
        }
    }
    with_names(view, firsts)
}

fn with_mode(text: String, executable: bool) -> String {
    if executable { text + " (executable)" } else { text }
}

fn with_names(mut view: View, firsts: BTreeMap<u64, Vec<String>>) -> View {
    for mut names in firsts.into_values() {
        names.sort();
        for name in &names[1..] {
            let _ = write!(view.get_mut(name).unwrap(), " = {}", names[0]);
        }
    }
    view
}

pub(super) fn diff(sandbox: &mut Sandbox) -> String {
    render_unified_diff(&sandbox.diff().unwrap(), &VPath::root()).unwrap()
}

/// An edit on the disk of paths that no session changes.
fn edit(folder: &Path, chance: &mut Chance, step: usize) {
    let name = format!("{EDITED}/{}", path(chance));
    let kind = chance.below(4);
    let at = folder.join(&name);
    match kind {
        0 => drop(std::fs::remove_dir_all(&at).or_else(|_| std::fs::remove_file(&at))),
        1 => drop(std::fs::create_dir_all(&at)),
        _ => {
            let _ = at.parent().map(std::fs::create_dir_all);
            let _ = std::fs::write(&at, format!("user {step}\n"));
        }
    }
}

fn is_edited(path: &str) -> bool {
    path.strip_prefix('/').is_some_and(|path| path.split('/').next() == Some(EDITED))
}

/// Regression: files that were removed from recreated directories came back with a refresh.
#[test]
fn refresh_changes_only_edited_files() {
    let cases = std::env::var("BELLJAR_TEST_LIVING_CASES").map_or(CASES, |n| n.parse().unwrap());
    let first = std::env::var("BELLJAR_TEST_SEED").map_or(0, |n| n.parse().unwrap());
    let mut done = 0;
    for seed in first..first + cases as u64 {
        let mut chance = Chance::new(seed);
        let scratch = tempfile::tempdir().unwrap();
        let [folder, frozen] = ["folder", "frozen"].map(|name| scratch.path().join(name));
        std::fs::create_dir(&folder).unwrap();
        plant(&folder, &mut chance);
        std::fs::create_dir(folder.join(EDITED)).unwrap();
        clone_tree(&folder, &frozen);
        let mut session = over(&folder);
        let mut model = over(&frozen);
        let store = SnapshotStore::new(scratch.path().join("store"));
        // A path edited on the disk is an error until a refresh takes the edit in.
        let mut is_edited_now = false;
        for step in 0..STEPS {
            let what = format!("seed {seed}, step {step}");
            match chance.below(16) {
                0 => {
                    let before = (!is_edited_now).then(|| (view(&mut session), diff(&mut session)));
                    let refreshed = session.refresh().unwrap();
                    assert_eq!(refreshed.conflicts, [], "{what}");
                    if let Some(before) = before {
                        assert_eq!((view(&mut session), diff(&mut session)), before, "{what}");
                        // Removing one name of a file counts as a change of the file on the disk.
                        let is_told = |it: &&Taken| {
                            it.kind != TakenKind::Changed
                                && !is_edited(&format!("/{}", it.path.as_str()))
                        };
                        assert_eq!(refreshed.taken.iter().find(is_told), None, "{what}");
                    }
                    is_edited_now = false;
                }
                1 if !is_edited_now => {
                    // Reads every file: an unread file counts as changed on the disk once one of its names is removed.
                    view(&mut session);
                    session.apply().unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert_eq!(on_disk(&folder), view(&mut session), "{what}");
                    assert_eq!(diff(&mut session), "", "{what}");
                }
                2 => {
                    let id = store.save(&mut session).unwrap();
                    session = store.resume(id, PROGRAMS.clone()).unwrap();
                }
                3 => {
                    edit(&folder, &mut chance, step);
                    is_edited_now = true;
                }
                _ => {
                    let (kind, at, to) = (chance.below(13), path(&mut chance), path(&mut chance));
                    let answer = change(&mut session, kind, &at, &to, step);
                    assert_eq!(
                        answer,
                        change(&mut model, kind, &at, &to, step),
                        "{what}: {kind} {at} {to}"
                    );
                    done += usize::from(answer.is_ok());
                }
            }
        }
        session.refresh().unwrap();
        let mut expected = view_of(&mut model, |path| !is_edited(path));
        expected.extend(on_disk(&folder).into_iter().filter(|(path, _)| is_edited(path)));
        assert_eq!(view(&mut session), expected, "seed {seed}");
        session.apply().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(on_disk(&folder), expected, "seed {seed}");
        assert_eq!(diff(&mut session), "", "seed {seed}");
    }
    assert!(done > cases * 3, "{done} changes");
}
