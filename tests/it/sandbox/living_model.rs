//! Random edits on the disk between random operations of a session: the session shows one state, or reports that it
//! cannot, and its diff does not revert edits on the disk.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use belljar::Errno;
use belljar::kernel::vfs::{Drift, DriftKind, VPath, render_unified_diff};
use belljar::sandbox::{
    FilesystemAccess, MountSource, Sandbox, SandboxMount, SandboxSpec, SnapshotStore,
};

use super::{PROGRAMS, sandbox};
use crate::support::plans::Chance;
use crate::support::{clone_tree, git_apply, has, symlink};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Cases, unless `BELLJAR_TEST_LIVING_CASES` says otherwise.
const CASES: usize = 40;

const STEPS: usize = 40;

pub(super) fn over(folder: &Path) -> Sandbox {
    let mounts = vec![SandboxMount {
        target: "/work".into(),
        source: MountSource::Host(folder.into()),
        access: FilesystemAccess::ReadWrite,
    }];
    sandbox(SandboxSpec { mounts, ..SandboxSpec::default() })
}

fn path(chance: &mut Chance) -> String {
    let depth = 1 + chance.below(3);
    let names: Vec<&str> = (0..depth).map(|_| NAMES[chance.below(NAMES.len())]).collect();
    names.join("/")
}

/// A tree of small files, a few folders deep; returns whether it has links.
pub(super) fn plant(folder: &Path, chance: &mut Chance) -> bool {
    let mut has_links = false;
    for number in 0..12 {
        let path = folder.join(path(chance));
        match chance.below(4) {
            0 => drop(std::fs::create_dir_all(path)),
            1 => {
                let has_folder = path.parent().is_some_and(Path::is_dir);
                let is_free = has_folder && path.symlink_metadata().is_err();
                has_links |= is_free && symlink("a", &path);
            }
            _ => {
                let _ = path.parent().map(std::fs::create_dir_all);
                let lines = (0..9).map(|line| format!("line {number} {line}\n"));
                let _ = std::fs::write(path, lines.collect::<Vec<_>>().concat());
            }
        }
    }
    has_links
}

/// An edit of the folder by the user. The written lines are marked, so that they can be found again.
pub(super) fn edit(folder: &Path, chance: &mut Chance, number: usize) {
    let (at, other) = (folder.join(path(chance)), folder.join(path(chance)));
    let mark = format!("user {number}\n");
    match chance.below(9) {
        0 => {
            let file = std::fs::OpenOptions::new().append(true).open(at);
            let _ = file.and_then(|mut file| file.write_all(mark.as_bytes()));
        }
        1 => {
            // Rewritten in place, and longer.
            if let Ok(text) = std::fs::read_to_string(&at) {
                let half = text.lines().take(4).map(|line| format!("{line}\n"));
                let rest = text.lines().skip(4).map(|line| format!("{line}\n"));
                let all: String = half.chain([mark]).chain(rest).collect();
                let _ = std::fs::write(at, all);
            }
        }
        2 => {
            let new = folder.join(".new");
            std::fs::write(&new, mark).unwrap();
            if std::fs::rename(&new, at).is_err() {
                std::fs::remove_file(new).unwrap();
            }
        }
        3 => drop(std::fs::remove_file(at)),
        4 => drop(std::fs::create_dir(at)),
        5 => drop(std::fs::remove_dir_all(at).and_then(|()| std::fs::write(other, mark))),
        6 => drop(std::fs::rename(at, other)),
        7 => {
            let file = std::fs::OpenOptions::new().append(true).open(at);
            let _ = file.and_then(|file| file.set_modified(std::time::SystemTime::now()));
        }
        _ => drop(std::fs::hard_link(at, other)),
    }
}

/// A description of the entry at a path; equal entries have equal descriptions.
fn shown(sandbox: &mut Sandbox, path: &str) -> Result<String, Errno> {
    let vfs = sandbox.files();
    let found = vfs.stat(vfs.host_base(), &path[1..], belljar::kernel::vfs::Follow::No)?;
    let rest = match found.file_type {
        belljar::kernel::vfs::FileType::RegularFile => {
            String::from_utf8(vfs.read(path)?).expect("all files are texts")
        }
        belljar::kernel::vfs::FileType::SymbolicLink => {
            vfs.read_link(vfs.host_base(), &path[1..])?.to_owned()
        }
        _ => String::new(),
    };
    Ok(format!("{:?} {} {rest}", found.file_type, found.size))
}

fn names(sandbox: &mut Sandbox, dir: &str) -> Result<BTreeSet<String>, Errno> {
    let vfs = sandbox.files();
    let id = vfs.open_dir(dir)?;
    let listing = vfs.list(id);
    vfs.close(id);
    Ok(listing?.iter().map(|entry| entry.name.to_string()).collect())
}

/// Makes a change; its result is compared.
fn change(
    sandbox: &mut Sandbox,
    kind: usize,
    path: &str,
    other: &str,
    number: usize,
) -> Result<(), Errno> {
    let vfs = sandbox.files();
    let (base, at, other) = (vfs.host_base(), &path[1..], &other[1..]);
    match kind {
        0 => vfs.write(path, format!("session {number}\n").as_bytes(), 7),
        1 => {
            let mut text = vfs.read(path)?;
            text.extend(format!("session {number}\n").into_bytes());
            vfs.write(path, &text, 7)
        }
        2 => vfs.unlink(base, at, 7),
        3 => vfs.create_dir(base, at, 7).map(drop),
        _ => vfs.rename((base, at), (base, other), 7),
    }
}

/// Paths that the session could not show, which are not compared further, nor is anything beneath them; and whether the
/// tree has links.
struct Tainted(BTreeSet<String>, bool);

impl Tainted {
    /// Adds the drifts met on the way to `at`; returns whether a directory was listed late. A drift's path is that on
    /// the disk, which can differ from `at` if the session has moved the entry.
    fn add(&mut self, sandbox: &mut Sandbox, at: &str) -> bool {
        let mut is_late = false;
        for drift in sandbox.files().take_drifts() {
            if drift.kind == DriftKind::ListedLate {
                is_late = true;
            } else {
                self.insert(&drift.path.absolute("/work"));
                self.insert(at);
            }
        }
        is_late
    }

    /// `path`, and every path to which links may lead from it: each link leads to the `a` beside it.
    fn places(&self, path: &str) -> Vec<String> {
        let mut paths = vec![String::new()];
        for name in path.split('/').skip(1) {
            let through = |at: &String| {
                let leads = self.1 && name != "work" && name != "a";
                let link = leads.then(|| format!("{at}/a"));
                [Some(format!("{at}/{name}")), link].into_iter().flatten()
            };
            paths = paths.iter().flat_map(through).collect();
        }
        paths
    }

    fn insert(&mut self, path: &str) {
        let places = self.places(path);
        self.0.extend(places);
    }

    fn touches(&self, path: &str) -> bool {
        let is_in = |a: &str, b: &str| a == b || a.starts_with(&format!("{b}/"));
        let touches = |path: &String| {
            self.0.iter().any(|tainted| is_in(path, tainted) || is_in(tainted, path))
        };
        self.places(path).iter().any(touches)
    }
}

/// Regressions: torn reads; a line that was added on the disk was deleted by `diff | git apply`; `ls` listed
/// names that `cat` did not find.
#[test]
fn a_session_shows_one_state_of_a_folder_that_is_edited() {
    let cases = std::env::var("BELLJAR_TEST_LIVING_CASES").map_or(CASES, |n| n.parse().unwrap());
    let (mut compared, mut refused, mut applied) = (0, 0, 0);
    for seed in 0..cases as u64 {
        let mut chance = Chance::new(seed);
        let scratch = tempfile::tempdir().unwrap();
        let (folder, frozen) = (scratch.path().join("folder"), scratch.path().join("frozen"));
        std::fs::create_dir(&folder).unwrap();
        let has_links = plant(&folder, &mut chance);
        clone_tree(&folder, &frozen);
        let mut session = over(&folder);
        let mut model = over(&frozen);
        let store = SnapshotStore::new(scratch.path().join("store"));
        let mut tainted = Tainted(BTreeSet::new(), has_links);
        for step in 0..STEPS {
            let (at, other) = (path(&mut chance), path(&mut chance));
            let (at, other) = (format!("/work/{at}"), format!("/work/{other}"));
            let what = format!("seed {seed}, step {step}, {at}");
            match chance.below(10) {
                0..=3 => edit(&folder, &mut chance, step),
                4 | 5 => {
                    let found = shown(&mut session, &at);
                    tainted.add(&mut session, &at);
                    if tainted.touches(&at) {
                        refused += 1;
                        continue;
                    }
                    compared += 1;
                    assert_eq!(found, shown(&mut model, &at), "{what}");
                }
                6 => {
                    let dir = at.rsplit_once('/').unwrap().0;
                    let found = names(&mut session, dir);
                    let is_late = tainted.add(&mut session, dir);
                    let expected = names(&mut model, dir);
                    let (Ok(found), Ok(expected)) = (&found, &expected) else {
                        let is_said = tainted.touches(dir);
                        assert!(found == expected || is_said, "{what}: {found:?} {expected:?}");
                        continue;
                    };
                    compared += 1;
                    for name in found.symmetric_difference(expected) {
                        let path = format!("{dir}/{name}");
                        if found.contains(name) {
                            // The name is listed, but the entry cannot be examined.
                            let was_tainted = tainted.touches(&path);
                            let looked_at = shown(&mut session, &path);
                            tainted.add(&mut session, &path);
                            // The session may have made the entry itself, at a path whose state was unknown.
                            let is_refused = looked_at == Err(Errno::Io);
                            assert!(was_tainted || is_refused, "{what}: {name}: {looked_at:?}");
                        } else {
                            let is_said = tainted.touches(&path) || is_late;
                            assert!(is_said, "{what}: {name} is missing in silence");
                            tainted.insert(&path);
                        }
                    }
                }
                7 | 8 => {
                    let kind = chance.below(5);
                    if tainted.touches(&at) || kind == 4 && tainted.touches(&other) {
                        continue;
                    }
                    let done = change(&mut session, kind, &at, &other, step);
                    if tainted.add(&mut session, &at) {
                        break;
                    }
                    if tainted.touches(&at) || kind == 4 && tainted.touches(&other) {
                        // A name is free if its entry no longer exists on the disk.
                        let is_free = |it: &Drift| it.kind == DriftKind::Missing;
                        let is_free = session.drifts().iter().any(is_free);
                        assert!(done.is_err() || is_free, "{what}: it is not known");
                        refused += 1;
                        continue;
                    }
                    compared += 1;
                    assert_eq!(done, change(&mut model, kind, &at, &other, step), "{what}");
                }
                _ => {
                    let id = store.save(&mut session).unwrap();
                    // To determine what was moved, saving lists directories that were not listed before. Names missing
                    // from a late listing are unknown, so this case ends.
                    if tainted.add(&mut session, "/work/.saved") {
                        break;
                    }
                    session = store.resume(id, PROGRAMS.clone()).unwrap();
                }
            }
        }
        applied += usize::from(merges(&mut session, &mut model, &folder, &tainted, seed));
    }
    let _ = std::io::stderr().write_all(
        format!("{cases} folders: {compared} answers compared, {refused} refused, {applied} diffs applied\n")
            .as_bytes(),
    );
    let are_enough = applied > cases / 8 || !cfg!(unix);
    assert!(compared > cases && are_enough, "{compared} compared, {applied} applied");
}

/// Compares the diffs, and applies one to the folder; returns whether it could be applied.
fn merges(
    session: &mut Sandbox,
    model: &mut Sandbox,
    folder: &Path,
    tainted: &Tainted,
    seed: u64,
) -> bool {
    let render = |sandbox: &mut Sandbox| {
        let entries = sandbox.diff().map_err(|error| error.to_string())?;
        render_unified_diff(&entries, &VPath::root()).map_err(|error| error.to_string())
    };
    let text = match render(session) {
        Ok(text) => text,
        Err(error) => {
            // A drift of a moved entry names its path on the disk, so the paths are not checked.
            let drifts = session.files().take_drifts();
            assert!(!drifts.is_empty(), "seed {seed}: {error}");
            return false;
        }
    };
    if tainted.0.is_empty() && session.drifts().is_empty() {
        assert_eq!(Ok(&text), render(model).as_ref(), "seed {seed}");
    }
    if !has("git", "a_session_shows_one_state_of_a_folder_that_is_edited") {
        return false;
    }
    let before = marks(folder);
    let is_applied = git_apply(folder, text.as_bytes()).status.success();
    let after = marks(folder);
    let lost: Vec<&String> = before.difference(&after).collect();
    assert!(lost.is_empty(), "seed {seed}: {lost:?} are lost by\n{text}");
    is_applied && !text.is_empty()
}

/// The lines written by the user, in all files.
fn marks(folder: &Path) -> BTreeSet<String> {
    let tree = crate::support::tree(folder);
    let texts = tree.values().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    lines.filter(|line| line.starts_with("user ")).collect()
}
