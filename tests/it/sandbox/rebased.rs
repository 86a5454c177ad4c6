//! A refresh merges random changes of a session with random edits of the same files on the disk, path by path, and
//! names each path that it cannot merge.

use std::collections::BTreeSet;

use belljar::kernel::vfs::{ApplyError, ConflictKind, Refreshed};
use belljar::sandbox::SnapshotStore;

use super::PROGRAMS;
use super::living_model::{edit, over, plant};
use super::refreshed::{View, change, diff, on_disk, path, view};
use crate::support::clone_tree;
use crate::support::plans::Chance;

/// Cases, unless `BELLJAR_TEST_LIVING_CASES` says otherwise.
const CASES: usize = 60;

const ROUNDS: usize = 3;

/// Random changes without hard links, which another test covers.
fn plan(chance: &mut Chance) -> Vec<(usize, String, String)> {
    let steps = 1 + chance.below(8);
    let step = |chance: &mut Chance| {
        let kind = [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11][chance.below(11)];
        (kind, path(chance), path(chance))
    };
    (0..steps).map(|_| step(chance)).collect()
}

/// The content of a path, without the first name of the same file.
fn text<'v>(view: &'v View, path: &str) -> Option<&'v str> {
    view.get(path).map(|text| text.split(" = ").next().unwrap_or_default())
}

/// What a session shows at a path without a conflict. Of a file of which it set only the execute permission, the content
/// is the disk's.
fn merged([before, mine, now]: [Option<&str>; 3]) -> Option<String> {
    const EXECUTABLE: &str = " (executable)";
    let content = |text: &str| text.strip_suffix(EXECUTABLE).unwrap_or(text).to_owned();
    match mine {
        mine if mine == before => now.map(str::to_owned),
        Some(mine) if Some(content(mine)) == before.map(content) => {
            let permission = if mine.ends_with(EXECUTABLE) { EXECUTABLE } else { "" };
            now.map(|now| content(now) + permission)
        }
        mine => mine.map(str::to_owned),
    }
}

fn texts(view: &View) -> Vec<(&String, Option<&str>)> {
    view.keys().map(|path| (path, text(view, path))).collect()
}

fn is_at_or_beneath(path: &str, dir: &str) -> bool {
    belljar::kernel::vfs::beneath(dir, path).is_some()
}

/// Paths of conflicts that stay until they are resolved.
fn open_conflicts(refreshed: &Refreshed) -> Vec<String> {
    let open = refreshed.conflicts.iter();
    let open = open.filter(|it| !matches!(it.what, ConflictKind::OriginGone(..)));
    open.map(|conflict| format!("/{}", conflict.path.as_str())).collect()
}

/// Regression: swapped and replaced directories, directories replaced by links, and files put back after a move were
/// lost, came back, or could never be applied.
#[test]
fn refresh_merges_changes_of_both_sides_or_names_the_conflict() {
    let cases = std::env::var("BELLJAR_TEST_LIVING_CASES").map_or(CASES, |n| n.parse().unwrap());
    let first = std::env::var("BELLJAR_TEST_SEED").map_or(0, |n| n.parse().unwrap());
    let (mut compared, mut conflicts, mut applied) = (0, 0, 0);
    for seed in first..first + cases as u64 {
        let mut chance = Chance::new(seed);
        let scratch = tempfile::tempdir().unwrap();
        let [folder, frozen] = ["folder", "frozen"].map(|name| scratch.path().join(name));
        std::fs::create_dir(&folder).unwrap();
        plant(&folder, &mut chance);
        clone_tree(&folder, &frozen);
        let before = on_disk(&frozen);
        let (mut session, mut model) = (over(&folder), over(&frozen));
        let store = SnapshotStore::new(scratch.path().join("store"));
        for round in 0..ROUNDS {
            let what = format!("seed {seed}, round {round}");
            let is_alike = chance.below(4) == 0;
            let steps = plan(&mut chance);
            for (step, (kind, at, to)) in steps.iter().enumerate() {
                let answer = change(&mut session, *kind, at, to, step);
                if round == 0 {
                    assert_eq!(answer, change(&mut model, *kind, at, to, step), "{what}");
                }
            }
            let was_seen = round == 0 && chance.below(2) > 0;
            if was_seen {
                view(&mut session);
            }
            // Saving keeps the content of entries that were moved, replaced or removed unread.
            let id = store.save(&mut session).unwrap();
            session = store.resume(id, PROGRAMS.clone()).unwrap();
            if is_alike {
                // The same changes are made on the disk.
                let mut user = over(&folder);
                for (step, (kind, at, to)) in steps.iter().enumerate() {
                    let _ = change(&mut user, *kind, at, to, step);
                }
                user.apply().unwrap();
            }
            for number in 0..chance.below(6) {
                edit(&folder, &mut chance, number);
            }
            let refreshed = session.refresh().unwrap_or_else(|error| panic!("{what}: {error}"));
            conflicts += refreshed.conflicts.len();
            let (now, shown) = (on_disk(&folder), view(&mut session));
            if was_seen {
                let told: Vec<String> = refreshed
                    .conflicts
                    .iter()
                    .map(|conflict| format!("/{}", conflict.path.as_str()))
                    .collect();
                let mine = view(&mut model);
                let paths: BTreeSet<&String> =
                    [&before, &mine, &now, &shown].into_iter().flat_map(View::keys).collect();
                for path in paths {
                    let is_near =
                        |it: &String| is_at_or_beneath(path, it) || is_at_or_beneath(it, path);
                    if told.iter().any(is_near) {
                        continue;
                    }
                    let expected = merged([&before, &mine, &now].map(|view| text(view, path)));
                    let shown = text(&shown, path).map(str::to_owned);
                    assert_eq!(shown, expected, "{what}: {path}: {refreshed:?}");
                    compared += 1;
                }
            }
            // A second refresh finds nothing new.
            let changes = diff(&mut session);
            let again = session.refresh().unwrap();
            assert_eq!(open_conflicts(&again), open_conflicts(&refreshed), "{what}");
            assert_eq!(again.taken, [], "{what}");
            assert_eq!(
                (view(&mut session), diff(&mut session)),
                (shown.clone(), changes),
                "{what}"
            );
            match session.apply() {
                Ok(_) => {
                    // A session does not see which names on the disk are one file.
                    assert_eq!(texts(&on_disk(&folder)), texts(&shown), "{what}");
                    assert_eq!(diff(&mut session), "", "{what}");
                    applied += 1;
                }
                Err(ApplyError::Conflicts(found)) => {
                    assert_ne!(open_conflicts(&refreshed), [""; 0], "{what}: {found:?}");
                    assert_eq!(on_disk(&folder), now, "{what}");
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
    eprintln!(
        "{cases} folders: {compared} paths compared, {conflicts} conflicts, {applied} applied"
    );
    assert!(compared > cases && conflicts > cases / 6 && applied > cases, "too little happens");
}
