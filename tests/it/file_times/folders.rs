//! Folders: which of them, and of the files in them, a script changed, and in which order, is the same as natively, after
//! an apply and in the session that made it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{Place, at};
use crate::support::{stderr, user_script};

/// Commands of one script each. In the tree are `src` with `a` and `b`, `out` with the same names, and `out/deep/c`.
const SCRIPTS: &[&[&str]] = &[
    // Regression: the folder that was made anew with the names that it had kept its old time, so that a rule that compares
    // it with its sources built for ever.
    &["rm -rf out", "cp -r src out"],
    &["rm out/a", "cp src/a out/a"],
    &["cp src/a out/t", "mv out/t out/a"],
    &["rm -r out/deep", "mkdir out/deep", "cp src/a out/deep/c"],
    // Regression: a folder of which a program only wrote to files looked new.
    &["echo more >> out/a"],
    &["echo new > out/deep/c", "echo new > top"],
    &["cat src/a > out/b", "echo > src/new"],
    // Regression: the order was that of the apply.
    &["echo > src/new", "echo > out/new"],
    &["echo > out/new", "echo > src/new"],
    &["echo > out/deep/new", "rm src/a", "echo > out/new"],
    &["mkdir -p out/x/y", "echo > src/new", "echo > out/x/y/z"],
    &["mkdir made", "touch out", "echo > made/file", "touch src"],
    &["rm out/a", "touch src", "rm out/b"],
    // Regression: a folder that was moved was new.
    &["mv out gone"],
    &["mv out/deep src/deep", "echo more >> src/deep/c"],
    &["mv src gone", "echo > gone/new"],
    &["mv out old", "mv src out", "mv old src"],
    &["cp -a out copy", "echo > out/new"],
    &["ln out/a out/deep/a", "echo more >> out/a"],
    &["ln -s a out/l", "echo > src/new", "rm out/l"],
    // Regression: a folder in which names only came and went kept its time.
    &["touch out/deep/t; rm out/deep/t", "echo > src/new"],
    &["mv out/a q", "mv q out/a"],
    &["mv out f", "mv f out"],
    &["mkdir src/k; rmdir src/k", "ln out/a out/y; rm out/y"],
];

fn make(tree: &Path) {
    for dir in ["src", "out/deep", "marks"] {
        std::fs::create_dir_all(tree.join(dir)).unwrap();
    }
    for (seconds, file) in (0..).zip(["src/a", "src/b", "out/a", "out/b", "out/deep/c"]) {
        std::fs::write(tree.join(file), file).unwrap();
        set_time(&tree.join(file), seconds);
    }
    for (seconds, dir) in (10..).zip(["src", "out/deep", "out", "marks", ""]) {
        set_time(&tree.join(dir), seconds);
    }
}

fn set_time(path: &Path, seconds: u64) {
    std::fs::File::open(path).unwrap().set_modified(at(seconds)).unwrap();
}

/// `commands`, with a mark before the first one and after each, at other times.
fn script(commands: &[&str]) -> String {
    let step = |(number, command): (usize, &&str)| {
        format!("; sleep 0.02; {command}; sleep 0.02; echo > marks/{number}")
    };
    let steps: String = (1..).zip(commands).map(step).collect();
    format!("echo > marks/0{steps}")
}

/// By path, how many marks are older.
fn phases(tree: &Path) -> BTreeMap<String, usize> {
    let modified = |path: &Path| std::fs::symlink_metadata(path).unwrap().modified().unwrap();
    let marks = std::fs::read_dir(tree.join("marks")).unwrap();
    let marks: Vec<_> = marks.map(|entry| modified(&entry.unwrap().path())).collect();
    let mut phases = BTreeMap::new();
    let mut dirs = vec![(String::from("."), tree.to_owned())];
    while let Some((name, path)) = dirs.pop() {
        let time = modified(&path);
        phases.insert(name.clone(), marks.iter().filter(|mark| **mark < time).count());
        if !path.is_symlink() && path.is_dir() {
            for entry in std::fs::read_dir(&path).unwrap() {
                let entry = entry.unwrap();
                dirs.push((format!("{name}/{}", entry.file_name().display()), entry.path()));
            }
        }
    }
    phases.retain(|name, _| !name.starts_with("./marks"));
    phases
}

/// Prints the same in a guest.
const PHASES: &str = "for p in . * */* */*/* */*/*/*; do \
    case $p in marks*) continue;; .) n=.;; *) n=./$p;; esac; [ -e $p ] && [ ! -L $p ] || continue; \
    c=0; for m in marks/*; do [ $p -nt $m ] && c=$((c+1)); done; echo $n $c; done";

fn natively(commands: &[&str]) -> BTreeMap<String, usize> {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path());
    edit_natively(folder.path(), &script(commands));
    phases(folder.path())
}

fn edit_natively(folder: &Path, script: &str) {
    let output = user_script(folder, &format!("set -e; {script}"));
    assert!(output.status.success(), "{script}: {}", stderr(&output));
}

fn expect_shown(printed: &str, native: &BTreeMap<String, usize>, what: &str) {
    let shown: BTreeMap<String, usize> = printed
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, count)| (name.to_owned(), count.parse().unwrap()))
        .collect();
    let mut native = native.clone();
    native.retain(|name, _| shown.contains_key(name) || !name.ends_with("/l"));
    assert_eq!(shown, native, "{what}");
}

#[test]
fn scripts_change_the_folders_that_they_change_natively_in_the_same_order() {
    for commands in SCRIPTS {
        let what = commands.join("; ");
        let native = natively(commands);
        let place = Place::new();
        make(&place.tree());
        place.applied(&script(commands));
        assert_eq!(phases(&place.tree()), native, "{what}");
        let place = Place::new();
        make(&place.tree());
        let session = place.session();
        session.exec(&script(commands));
        expect_shown(&session.exec(PHASES), &native, &format!("{what}: before the apply"));
        session.apply();
        assert_eq!(phases(&place.tree()), native, "{what}: in a session");
        expect_shown(&session.exec(PHASES), &native, &format!("{what}: after the apply"));
        session.refresh();
        expect_shown(&session.exec(PHASES), &native, &format!("{what}: after the refresh"));
    }
}

/// A session that applies and takes in the disk's state after each command.
#[test]
fn folders_keep_their_order_over_applies_and_refreshes() {
    for commands in SCRIPTS {
        let native = natively(commands);
        let place = Place::new();
        make(&place.tree());
        let session = place.session();
        session.exec("echo > marks/0");
        for (number, command) in (1..).zip(*commands) {
            session.exec(command);
            session.apply();
            session.exec(&format!("sleep 0.02; echo > marks/{number}"));
            session.apply();
            session.refresh();
        }
        let what = commands.join("; ");
        expect_shown(&session.exec(PHASES), &native, &what);
        assert_eq!(phases(&place.tree()), native, "{what}");
    }
}

/// Regression: the mounted folder kept its old time in a session, and got back the one of an earlier apply on the disk; and
/// the time of another folder, in which both had changed names, hid what the user had added.
#[test]
fn names_that_the_user_changes_make_a_folder_new() {
    let edits: [(&str, &str); 4] = [
        (".", "touch new"),
        ("src", "touch src/new"),
        (".", "mv out o"),
        ("out/deep", "rm out/deep/c"),
    ];
    for (dir, edit) in edits {
        for case in 0..8 {
            let [changes, applies, refreshes] = [1, 2, 4].map(|bit| case & bit > 0);
            let what = format!("{dir}, {edit}: {changes} {applies} {refreshes}");
            let place = Place::new();
            make(&place.tree());
            let session = place.session();
            if changes {
                session.exec(&format!("echo > {dir}/first"));
            }
            session.exec(&format!("ls {dir} > marks/i; [ marks/i -nt {dir} ]"));
            if applies {
                session.apply();
            }
            edit_natively(&place.tree(), &format!("sleep 0.02; {edit}"));
            if refreshes {
                session.refresh();
                assert_eq!(
                    session.exec(&format!("[ {dir} -nt marks/i ] && echo new")),
                    "new\n",
                    "{what}"
                );
            }
            session.exec("echo more >> src/a");
            session.apply();
            // What is applied later than the user's edit is newer.
            if applies || changes && !refreshes {
                assert!(place.modified(dir) > place.modified("marks/i"), "{what}");
            }
        }
    }
}

/// Regression: files that a session had applied, and that the user moved or copied with their times, were newer than what
/// it had written after them.
#[test]
fn applied_files_that_the_user_moves_keep_their_order() {
    let place = Place::new();
    make(&place.tree());
    let session = place.session();
    session.exec("mkdir made; echo > made/out; sleep 5; echo > late");
    session.apply();
    edit_natively(&place.tree(), "mv made moved; cp -p late copy");
    session.refresh();
    session.exec("[ late -nt moved/out ] && [ ! copy -nt late ] && [ ! late -nt copy ]");
    session.exec("echo > later");
    session.apply();
    session.exec("[ later -nt copy ] && [ late -nt moved/out ]");
}

/// Regression: after a directory or an empty file had been made, names that went did not make their folder newer; and a file
/// that was moved over another one was newer than the folder that it had left.
#[test]
fn names_that_go_make_a_folder_newer_than_what_is_in_it() {
    let makers =
        [": > out/k", "cp /dev/null out/k", "mkdir out/k", "install -d out/k", "ln -s a out/k"];
    let goers = ["rm out/a", "mv out/a top", "mv out/a out/z", "rm -r out/deep", "ln out/a out/z"];
    for maker in makers {
        for goer in goers {
            let place = Place::new();
            make(&place.tree());
            place.applied(&format!("{maker}; seq 9 | sort > /dev/null; {goer}"));
            let of_made = std::fs::symlink_metadata(place.tree().join("out/k")).unwrap();
            assert!(place.modified("out") > of_made.modified().unwrap(), "{maker}; {goer}");
        }
    }
    let place = Place::new();
    make(&place.tree());
    place.applied("echo 1 > src/a; cat src/a > out/t; mv out/t src/a; find src -newer out > found");
    assert!(place.modified("out") >= place.modified("src/a"));
    assert_eq!(place.modified("out"), place.modified("src"));
    assert_eq!(std::fs::read_to_string(place.tree().join("found")).unwrap(), "");
}

/// Regression: `make` took what it had made before a file was removed for new.
#[test]
fn make_sees_that_a_name_is_gone() {
    let place = Place::new();
    let tree = place.tree();
    std::fs::create_dir(tree.join("pkg")).unwrap();
    for name in ["m1", "m2"] {
        std::fs::write(tree.join("pkg").join(name), name).unwrap();
    }
    std::fs::write(tree.join("Makefile"), "pkg/.stamp: pkg\n\tls pkg > list\n\t: > pkg/.stamp\n")
        .unwrap();
    place.applied("minimake; rm pkg/m1; minimake");
    assert_eq!(std::fs::read_to_string(tree.join("list")).unwrap(), "m2\n");
}

/// Regression: the time was that of the attempt.
#[test]
fn folders_keep_their_times_if_the_changes_are_not_written() {
    let place = Place::new();
    make(&place.tree());
    let before = times(&place.tree());
    let script = "echo > out/new; echo more > src/a; head -c 100000 /dev/zero > out/deep/c";
    let mut command = Command::new("bash");
    let limited = "ulimit -f 64; exec \"$0\" sh -q --apply -c \"$1\"";
    command.args(["-c", limited, env!("CARGO_BIN_EXE_belljar"), script]);
    command.current_dir(place.tree()).env("BELLJAR_HOME", place.folder.path().join("home"));
    let output = command.output().unwrap();
    assert!(stderr(&output).contains("nothing was written"), "{output:?}");
    assert_eq!(times(&place.tree()), before);
}

fn times(tree: &Path) -> Vec<std::time::SystemTime> {
    let dirs = [".", "src", "out", "out/deep", "marks"];
    dirs.map(|dir| std::fs::metadata(tree.join(dir)).unwrap().modified().unwrap()).to_vec()
}

/// Regression: it kept its time, so that a rule whose target is the folder was carried out each time.
#[test]
fn folder_in_which_names_only_came_and_went_is_new() {
    let script = "echo > out/lock; rm out/lock";
    let place = Place::new();
    make(&place.tree());
    place.applied(script);
    assert!(place.modified("out") > at(1_000_000));
    assert_eq!(place.modified("src"), at(10));
    let place = Place::new();
    make(&place.tree());
    let session = place.session();
    session.exec(script);
    session.apply();
    session.refresh();
    session.exec("[ out -nt out/a ]");
    assert!(place.modified("out") > at(1_000_000));
}

/// The names that another program adds while changes are written are newer than the folder was.
#[test]
fn folder_to_which_the_user_adds_a_file_afterwards_is_new() {
    let place = Place::new();
    make(&place.tree());
    let session = place.session();
    session.exec("echo more >> out/a");
    session.apply();
    std::thread::sleep(Duration::from_millis(20));
    std::fs::write(place.tree().join("out/theirs"), "").unwrap();
    session.refresh();
    session.exec("[ out -nt src ] && [ out -nt out/a ] && [ ! src -nt out/a ]");
}
