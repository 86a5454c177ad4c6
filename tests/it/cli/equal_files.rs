//! A file replaced by one with equal content and another time: the time is a change.

use std::collections::BTreeMap;
use std::path::Path;

use crate::cli::living::Bench;
use crate::cli::tape::succeed;
use crate::support::{bash, belljar, stderr};

/// Three equal files and two equal links from different years, and two directories of such files.
fn sown(folder: &Path) {
    let script = "mkdir d e; for f in a b c d/a e/a; do echo same > $f; done; ln -s x l; ln -s x m; \
                  touch -d 2001-01-01T00:00:00Z a; touch -d 2010-01-01T00:00:00Z b; \
                  touch -d 2015-01-01T00:00:00Z c; touch -d 2003-01-01T00:00:00Z d/a; \
                  touch -d 2004-01-01T00:00:00Z e/a; \
                  touch -h -d 2005-01-01T00:00:00Z l; touch -h -d 2006-01-01T00:00:00Z m; \
                  chmod 600 a; chmod 640 c e/a; echo same > g; chmod 600 g; touch -r a g";
    assert!(bash(folder, script).status.success());
}

/// A session over the files of [`sown`].
fn session() -> Bench {
    let bench = Bench::new(&[]);
    sown(&bench.tree());
    bench.done(&["refresh", "box"]);
    bench
}

/// Time in seconds, mode, and names of each file and link, by path.
fn attributes(folder: &Path) -> BTreeMap<String, (i64, u32, Vec<String>)> {
    use std::os::unix::fs::MetadataExt;
    let mut found = BTreeMap::new();
    for path in crate::support::tree(folder).keys().filter(|path| !path.ends_with('/')) {
        found.insert(path.clone(), folder.join(path).symlink_metadata().unwrap());
    }
    for link in ["l", "m", "k"] {
        found.extend(folder.join(link).symlink_metadata().map(|found| (link.to_owned(), found)));
    }
    let names = |inode: u64| {
        found.iter().filter(|(_, it)| it.ino() == inode).map(|(path, _)| path.clone()).collect()
    };
    let of = |it: &std::fs::Metadata| (it.mtime(), it.mode(), names(it.ino()));
    found.iter().map(|(path, it)| (path.clone(), of(it))).collect()
}

const SCRIPTS: [&str; 16] = [
    "mv c b",
    "ln -f c b",
    "mv a t; mv b a; mv t b",
    "mv a b; mv c a",
    "mv l m",
    "mv l k",
    "ln l k",
    "ln -f l m",
    "ln l k; rm l",
    "mv a g; mv b a",
    "mv b g",
    "ln -f a g",
    "ln -f a b; ln -f c g; mv g d/a",
    "rm -r d; mv e d",
    "mv d t; mv e d; mv t e",
    "mv a t; mv t a; mkdir f; mv b f; mv f/b b; rmdir f",
];

/// Regression: the content was unchanged, so the file on the disk kept its time, and the session had another.
#[test]
fn moved_file_with_equal_content_brings_its_attributes() {
    for script in SCRIPTS {
        let native = tempfile::tempdir().unwrap();
        sown(native.path());
        assert!(bash(native.path(), script).status.success());
        let wanted = attributes(native.path());

        let folder = tempfile::tempdir().unwrap();
        sown(folder.path());
        succeed(folder.path(), &["sh", "--apply", "-c", script]);
        assert_eq!(attributes(folder.path()), wanted, "sh --apply: {script}");

        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        sown(&tree);
        for mtimes in ["host", "content", "fixed"] {
            let of_tape = ["record", "--tape", "t", "--worktree", "tree", "--mtimes", mtimes];
            succeed(folder.path(), &[&of_tape[..], &["--", "sh", "-c", script]].concat());
            let copy = folder.path().join(mtimes);
            assert!(bash(folder.path(), &format!("cp -a tree {mtimes}")).status.success());
            // Files that only changed places look as before; a second apply exchanges them again.
            let is_exchange = ["mv t b", "mv t e"].iter().any(|last| script.ends_with(last));
            for _ in 0..if is_exchange { 1 } else { 2 } {
                succeed(folder.path(), &["apply", "t", "--worktree", mtimes]);
                assert_eq!(attributes(&copy), wanted, "apply TAPE, {mtimes}: {script}");
            }
        }

        let bench = session();
        assert!(bench.sh(script).status.success());
        // A refresh that takes in an unrelated file keeps the change.
        assert!(bash(&bench.tree(), "echo z > z").status.success());
        bench.done(&["refresh", "box"]);
        bench.done(&["apply", "box"]);
        std::fs::remove_file(bench.tree().join("z")).unwrap();
        assert_eq!(attributes(&bench.tree()), wanted, "sandbox apply: {script}");
        let again = stderr(&bench.call(&["apply", "box"]));
        assert!(again.contains("changed nothing"), "{script}: {again}");
    }
}

/// Regression: with two mounts, only the first of two files of the same name was kept for later diffs.
#[test]
fn files_of_equal_names_in_two_mounts_can_both_be_compared_after_an_edit() {
    let folder = tempfile::tempdir().unwrap();
    let bench =
        Bench::with(&[("b", "old\n")], &["--dir", &format!("{}::/u", folder.path().display())]);
    std::fs::write(folder.path().join("b"), "other\n").unwrap();
    bench.done(&["refresh", "box"]);
    assert!(bench.sh("echo 2 > b; echo 1 > /u/b").status.success());
    for tree in [folder.path(), &bench.tree()] {
        assert!(bash(tree, "echo user >> b").status.success());
    }
    let diff = bench.done(&["diff", "box"]);
    assert!(diff.contains("-old\n") && diff.contains("-other\n"), "{diff}");
    // Messages say which of the two they mean.
    let refused = stderr(&bench.call(&["apply", "box"]));
    assert!(
        refused.contains("because b changed") && refused.contains("; /u/b changed"),
        "{refused}"
    );
    let told = stderr(&bench.call(&["refresh", "box"]));
    assert!(
        told.contains("conflict: b changed") && told.contains("conflict: /u/b changed"),
        "{told}"
    );
}

#[test]
fn edit_of_a_file_that_the_session_replaced_by_an_equal_one_is_a_conflict() {
    let bench = session();
    assert!(bench.sh("mv c b").status.success());
    assert!(bash(&bench.tree(), "echo edit >> b").status.success());
    let refused = stderr(&bench.call(&["apply", "box"]));
    assert!(refused.contains("b changed"), "{refused}");
    assert_eq!(std::fs::read_to_string(bench.tree().join("b")).unwrap(), "same\nedit\n");
}

/// Regression: the diff was computed within the recorded `--max-upper`, which a moved file exceeded.
#[test]
fn diff_of_a_tape_does_not_depend_on_the_room_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    sown(folder.path());
    let script = "mv a t";
    let record =
        ["record", "--tape", "t.tape", "--worktree", ".", "--max-upper", "20B", "--", "sh", "-c"];
    succeed(folder.path(), &[&record[..], &[script]].concat());
    let output = belljar(folder.path()).args(["diff", "t.tape"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("+++ b/t"), "{output:?}");
}

/// Regression: the copy was as new as the apply, and so newer than files that are newer than its original.
#[test]
fn preserved_time_of_an_original_that_changed_since_is_kept() {
    let older = "test copy -ot out && ! test copy -nt out";
    for change in [
        "cp -p c copy; echo y > c",
        "cp -p c copy; rm c",
        "cp -p c copy; touch c",
        "touch copy; touch -r c copy; echo y > c",
        "mv c e; cp -p e copy; rm e",
    ] {
        for is_of_user in [false, true] {
            let bench = Bench::new(&[("c", "1\n")]);
            if is_of_user {
                bench.write("c", "of the user\n");
                bench.done(&["refresh", "box"]);
            } else {
                assert!(bench.sh("echo 2 > c").status.success());
                bench.done(&["apply", "box"]);
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(bench.sh("echo built > out").status.success());
            bench.done(&["apply", "box"]);
            let what = format!("{change}, {is_of_user}");
            assert!(bench.sh(&format!("{change}; {older}")).status.success(), "{what}");
            std::thread::sleep(std::time::Duration::from_millis(20));
            bench.done(&["apply", "box"]);
            let output =
                bash(&bench.tree(), &format!("{older} || {{ ls -l --full-time; exit 1; }}"));
            assert!(output.status.success(), "{what}: {output:?}");
        }
    }
}

/// Up to version 6 of the kernel, a file that replaced an equal one was no change.
#[test]
fn tape_of_an_older_kernel_has_no_change_for_an_equal_file() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    sown(&tree);
    let record = ["record", "-q", "--tape", "t", "--worktree", "tree", "--", "sh", "-c", "mv a b"];
    succeed(folder.path(), &record);
    succeed(folder.path(), &["replay", "t"]);
    let text = std::fs::read_to_string(folder.path().join("t")).unwrap();
    let old = text.replace("\"kernel_version\":11", "\"kernel_version\":6");
    let lines = old.split_inclusive('\n');
    let old: String = lines.filter(|line| !line.contains("\"change\":\"modified\"")).collect();
    assert_eq!(text.lines().count(), old.lines().count() + 1, "{text}");
    std::fs::write(folder.path().join("t"), old).unwrap();
    succeed(folder.path(), &["replay", "t"]);
    succeed(folder.path(), &["apply", "t", "--worktree", "tree"]);
    assert!(!tree.join("a").exists());
}

/// Up to version 9 of the kernel, no name of a new file was a change if all had equal files.
#[test]
fn tape_of_an_older_kernel_has_no_change_for_a_new_file_under_equal_names() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    sown(&tree);
    let script = "rm b; echo same > b; ln -f b d/a";
    let record = ["record", "-q", "--tape", "t", "--worktree", "tree", "--", "sh", "-c", script];
    succeed(folder.path(), &record);
    let text = std::fs::read_to_string(folder.path().join("t")).unwrap();
    let text = text.replace("\"kernel_version\":11", "\"kernel_version\":9");
    let (rest, times) = text.trim_end().rsplit_once('\n').unwrap();
    let (rest, change) = rest.rsplit_once('\n').unwrap();
    assert!(change.contains("\"modified\"") && times.contains("\"/worktree/b\""), "{text}");
    // Of both names, the time is a change.
    let seq = |line: &str| line.split_once(',').unwrap().0.to_owned();
    let of_b = times.replacen(&seq(times), &seq(change), 1);
    let of_other = times.replacen("/worktree/b", "/worktree/d/a", 1);
    let old = format!("{rest}\n{of_b}\n{of_other}\n");
    std::fs::write(folder.path().join("t"), old).unwrap();
    succeed(folder.path(), &["replay", "t"]);
    succeed(folder.path(), &["apply", "t", "--worktree", "tree"]);
    assert_eq!(attributes(&tree)["b"].2, ["b"]);
}

/// Regression: `apply` took the user's edit for the file that the session had made, gave it a time, and the next `apply`
/// overwrote it.
#[test]
fn edit_of_a_file_that_the_session_made_again_with_equal_content_is_a_conflict() {
    let again = [
        "rm g; echo one > g",
        "echo one > n; mv n g",
        "echo one > n; rm g; ln n g; rm n",
        "cat g > n; mv n g",
        "sed -i s/zzz/yyy/ g",
        "echo one > g",
        "rm l; ln -s g l",
        "ln -s g n; mv n l",
        "rm z; : > z",
        "rm -r d; mkdir d; echo two > d/f",
    ];
    for (script, is_refreshed) in again.iter().flat_map(|it| [(*it, false), (*it, true)]) {
        let bench = Bench::new(&[("g", "one\n"), ("z", ""), ("d/f", "two\n")]);
        std::os::unix::fs::symlink("g", bench.at("l")).unwrap();
        bench.done(&["refresh", "box"]);
        let output = bench.sh(script);
        assert!(output.status.success(), "{script}: {}", stderr(&output));
        if is_refreshed {
            bench.done(&["refresh", "box"]);
        }
        let edit = "for f in g z d/f; do echo user > $f; done; ln -sfn z l";
        assert!(bash(&bench.tree(), edit).status.success());
        let refused = bench.call(&["apply", "box"]);
        let what = format!("{script}, {is_refreshed}: {}", stderr(&refused));
        assert_eq!(refused.status.code(), Some(125), "{what}");
        assert!(stderr(&refused).contains("changed on the disk"), "{what}");
        bench.call(&["refresh", "box"]);
        let shown = bench.sh("cat g z d/f; readlink l; echo more >> d/f");
        assert_eq!(crate::support::stdout(&shown), "user\nuser\nuser\nz\n", "{what}");
        bench.done(&["apply", "box"]);
        let files = ["g", "z", "d/f"].map(|name| bench.read(name));
        assert_eq!(files, ["user\n", "user\n", "user\nmore\n"], "{what}");
    }
}

/// Regression: the name with an equal file on the disk was no change, so the other names became files of their own.
#[test]
fn further_name_of_a_file_that_was_made_again_with_equal_content_is_one_of_it() {
    for script in [
        "sed -i s/same/same/ b; ln b k",
        "rm b; echo same > b; ln b k",
        "cp b k; mv k b; ln b k; ln b n",
        "rm b; echo same > b; ln b d/n; mv d/n k",
    ] {
        let native = tempfile::tempdir().unwrap();
        sown(native.path());
        assert!(bash(native.path(), script).status.success());
        let wanted = modes_and_names(native.path());
        let folder = tempfile::tempdir().unwrap();
        sown(folder.path());
        succeed(folder.path(), &["sh", "--apply", "-c", script]);
        assert_eq!(modes_and_names(folder.path()), wanted, "sh --apply: {script}");
        let bench = session();
        assert!(bench.sh(script).status.success());
        bench.done(&["apply", "box"]);
        assert_eq!(modes_and_names(&bench.tree()), wanted, "sandbox apply: {script}");
    }
}

/// Names of each file and link, with its mode.
fn modes_and_names(folder: &Path) -> Vec<(String, (u32, Vec<String>))> {
    let attributes = attributes(folder).into_iter();
    attributes.map(|(path, (_, mode, names))| (path, (mode, names))).collect()
}

/// Regression: no name was a change, so they stayed different files.
#[test]
fn new_file_under_several_names_with_equal_files_is_one_file() {
    for script in [
        "rm b; echo same > b; ln -f b d/a",
        "echo same > n; ln -f n b; ln -f n d/a; rm n",
        "rm b; echo same > b; ln -f b d/a; ln -f b k",
        "rm d/a; echo same > d/a; ln -f d/a b; mv b t; mv t b",
        "rm -r d; mkdir d; rm b; echo same > b; ln b d/a; ln b d/k",
        "rm l; ln -s x l; rm m; ln l m",
        "ln -s x n; rm l m; ln n l; mv n m",
    ] {
        // Nothing changes, or the two are one file already.
        for before in ["true", "ln -f b d/a; ln -f l m", "ln b ../b; ln d/a ../d; ln l ../l"] {
            let prepared = |folder: &Path| {
                let tree = folder.join("tree");
                std::fs::create_dir(&tree).unwrap();
                sown(&tree);
                assert!(bash(&tree, before).status.success());
                tree
            };
            let native = tempfile::tempdir().unwrap();
            let tree = prepared(native.path());
            assert!(bash(&tree, script).status.success());
            let wanted = modes_and_names(&tree);
            let what = format!("{before}: {script}");

            let folder = tempfile::tempdir().unwrap();
            let tree = prepared(folder.path());
            let copied = bash(folder.path(), "mkdir c; cp -a tree c");
            assert!(copied.status.success());
            succeed(&tree, &["record", "--tape=../t", "sh", "-c", script]);
            succeed(folder.path(), &["replay", "t"]);
            succeed(&tree, &["sh", "--apply", "-c", script]);
            assert_eq!(modes_and_names(&tree), wanted, "sh --apply: {what}");
            for _ in 0..2 {
                succeed(folder.path(), &["apply", "t", "--worktree", "c/tree"]);
                let found = modes_and_names(&folder.path().join("c/tree"));
                assert_eq!(found, wanted, "apply TAPE: {what}");
            }

            for is_refreshed in [false, true] {
                let bench = session();
                assert!(bash(&bench.tree(), before).status.success());
                bench.done(&["refresh", "box"]);
                assert!(bench.sh(script).status.success());
                if is_refreshed {
                    assert!(bash(&bench.tree(), "echo z > z").status.success());
                    bench.done(&["refresh", "box"]);
                }
                bench.done(&["apply", "box"]);
                let _ = std::fs::remove_file(bench.tree().join("z"));
                let found = modes_and_names(&bench.tree());
                assert_eq!(found, wanted, "sandbox apply, {is_refreshed}: {what}");
                let again = stderr(&bench.call(&["apply", "box"]));
                assert!(again.contains("changed nothing"), "{what}: {again}");
            }
        }
    }
}

/// Regression: the new file became a further name of the old one, and of its names outside of the directory.
#[test]
fn new_file_is_not_joined_with_an_equal_file_that_has_other_names() {
    for script in [
        "printf same > n; ln -f n a",
        "printf same > n; ln n y; mv n a",
        "rm a; printf same > a; ln a n",
        "printf same > n; ln -f n a; ln -f n b",
    ] {
        for is_of_tape in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let tree = folder.path().join("tree");
            std::fs::create_dir(&tree).unwrap();
            let prepare = "for f in a b; do printf same > $f; touch -d 2001-01-01 $f; ln $f ../outside_$f; done";
            assert!(bash(&tree, prepare).status.success());
            // Regression: the number of names was part of what a replay compares, and is not on the tape.
            succeed(&tree, &["record", "--tape=../t", "sh", "-c", script]);
            succeed(folder.path(), &["replay", "t"]);
            // Regression: the tape's new file was joined with the old one.
            let apply: &[&str] =
                if is_of_tape { &["apply", "../t"] } else { &["sh", "--apply", "-c", script] };
            succeed(&tree, apply);
            let what = format!("{script}, {is_of_tape}");
            let edited = bash(
                &tree,
                "for f in n y; do [ ! -e $f ] || { [ $f -ef a ] && echo edit >> $f; } || exit 1; done",
            );
            assert!(edited.status.success(), "{what}");
            for name in ["outside_a", "outside_b"] {
                let outside = std::fs::read_to_string(folder.path().join(name)).unwrap();
                assert_eq!(outside, "same", "{what}");
            }
        }
    }
}

/// A kill after the commit leaves the disk with the changes, and a session that does not know it. Regression: an equal
/// file in the place of the one that was replaced was taken for that one, so the files were a conflict, or exchanged again.
#[test]
fn equal_file_that_a_killed_apply_had_put_in_place_is_no_conflict() {
    for script in ["mv a b", "cat a b; mv a b", "ln -f a b", "mv a t; mv b a; mv t b", "mv l m"] {
        let bench = session();
        assert!(bench.sh(script).status.success());
        let keep = "cp -a ../home ../kept";
        let put_back = "rm -r ../home && mv ../kept ../home";
        assert!(bash(&bench.tree(), keep).status.success());
        bench.done(&["apply", "box"]);
        let wanted = attributes(&bench.tree());
        assert!(bash(&bench.tree(), put_back).status.success());
        bench.done(&["apply", "box"]);
        assert_eq!(attributes(&bench.tree()), wanted, "{script}");
        let again = stderr(&bench.call(&["apply", "box"]));
        assert!(again.contains("changed nothing"), "{script}: {again}");
    }
}

/// A file that was moved, and then written with the content that it has.
#[test]
fn moved_file_that_was_written_with_equal_content_is_new_and_keeps_its_mode() {
    use std::os::unix::fs::MetadataExt;
    for script in ["mv a k; cp b k", "mv a c; cat b > c", "mv a k; touch k"] {
        let to = &script[5..6];
        let is_right = |tree: &Path, how: &str| {
            let found = tree.join(to).symlink_metadata().unwrap();
            let other = tree.join("b").symlink_metadata().unwrap();
            assert_eq!(found.mode() & 0o777, 0o600, "{how}: {script}");
            assert!(found.mtime() > 1_600_000_000, "{how}: {script}: {}", found.mtime());
            assert_eq!(other.mtime(), 1_262_304_000, "{how}: {script}");
            assert!(!tree.join("a").exists(), "{how}: {script}");
        };
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        sown(&tree);
        let record = ["record", "--tape", "t", "--worktree", "tree", "--", "sh", "-c", script];
        succeed(folder.path(), &record);
        for _ in 0..2 {
            succeed(folder.path(), &["apply", "t", "--worktree", "tree"]);
            is_right(&tree, "apply TAPE");
        }
        let bench = session();
        assert!(bench.sh(script).status.success());
        bench.done(&["apply", "box"]);
        is_right(&bench.tree(), "sandbox apply");
    }
}
