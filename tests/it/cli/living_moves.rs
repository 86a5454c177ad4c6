//! `belljar sandbox` over folders in which the user moves, removes and replaces the same entries as the session.

use serde_json::Value;

use super::living::Bench;
use crate::support::{has, has_links, stderr, stdout, symlink, tree, user_script};

impl Bench {
    fn changes(&self, script: &str) {
        let output = self.sh(script);
        assert!(output.status.success(), "{script}: {}", stderr(&output));
    }

    /// Runs `apply`, which must be refused; returns its message.
    fn refused(&self) -> String {
        let output = self.call(&["apply", "box"]);
        assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
        stderr(&output)
    }

    /// Runs `refresh`, which must find conflicts; returns its output.
    fn conflicts(&self) -> String {
        let output = self.call(&["refresh", "box"]);
        assert_eq!(output.status.code(), Some(1), "{}{}", stdout(&output), stderr(&output));
        stdout(&output)
    }
}

/// Regression: `apply` failed without naming a file, and `refresh` found nothing.
#[test]
fn file_moved_by_user_and_session_conflicts_until_a_refresh() {
    for moves in [true, false] {
        let bench = Bench::new(&[("f", "one\n"), ("k", "keep\n")]);
        bench.changes("mv f b; echo S >> k");
        if moves {
            std::fs::rename(bench.at("f"), bench.at("c")).unwrap();
        } else {
            std::fs::remove_file(bench.at("f")).unwrap();
        }
        let said = bench.refused();
        assert!(said.contains("f no longer exists on the disk"), "{said}");
        assert!(said.contains("`belljar sandbox refresh box`"), "{said}");
        assert_eq!(bench.read("k"), "keep\n");
        let output = bench.call(&["refresh", "box"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stdout(&output).contains("conflict f\n"), "{}", stdout(&output));
        let said = stderr(&output);
        assert!(
            said.contains("f, which was moved or linked to b, changed on the disk or is gone"),
            "{said}"
        );
        assert!(said.contains("`belljar sandbox apply box`"), "{said}");
        assert_eq!(bench.done(&["refresh", "box"]), "", "it is told once");
        bench.done(&["apply", "box"]);
        assert_eq!((bench.read("b").as_str(), bench.read("k").as_str()), ("one\n", "keep\nS\n"));
        assert!(!bench.at("f").exists());
        assert_eq!(bench.at("c").exists(), moves);
        assert_eq!(bench.done(&["diff", "box"]), "");
    }
}

#[test]
fn diff_after_both_moved_a_file_and_a_refresh_applies_with_git() {
    if !has("git", "diff_after_both_moved_a_file_and_a_refresh_applies_with_git") {
        return;
    }
    let bench = Bench::new(&[("f", "one\n")]);
    bench.changes("mv f b");
    std::fs::rename(bench.at("f"), bench.at("c")).unwrap();
    assert!(bench.conflicts().contains("conflict f\n"));
    assert!(bench.git_apply());
    assert_eq!((bench.read("b").as_str(), bench.read("c").as_str()), ("one\n", "one\n"));
}

/// Regression: `apply` would have replaced the user's version of the first name, or never written the second name.
#[test]
fn file_linked_by_the_session_and_changed_by_the_user_becomes_two_files() {
    for removes in [true, false] {
        let bench = Bench::new(&[("f", "one\n")]);
        bench.changes("ln f b");
        if removes {
            std::fs::remove_file(bench.at("f")).unwrap();
        } else {
            bench.write("f", "by the user\n");
        }
        assert!(bench.refused().contains("f "));
        assert!(bench.conflicts().contains("conflict f\n"));
        bench.done(&["apply", "box"]);
        assert_eq!(bench.read("b"), "one\n");
        assert_eq!(bench.at("f").exists(), !removes);
        if !removes {
            assert_eq!(bench.read("f"), "by the user\n");
        }
        assert_eq!(bench.done(&["diff", "box"]), "");
    }
}

#[test]
fn directory_moved_by_user_and_session_conflicts_until_a_refresh() {
    let bench = Bench::new(&[("a/f", "1\n"), ("a/e/x", "2\n")]);
    bench.changes("mv a d; echo S >> d/f");
    std::fs::rename(bench.at("a"), bench.at("c")).unwrap();
    assert!(bench.refused().contains("a no longer exists on the disk"));
    assert!(bench.conflicts().contains("conflict a\n"));
    bench.done(&["apply", "box"]);
    assert_eq!((bench.read("d/f").as_str(), bench.read("d/e/x").as_str()), ("1\nS\n", "2\n"));
    assert_eq!((bench.read("c/f").as_str(), bench.read("c/e/x").as_str()), ("1\n", "2\n"));
}

/// Regression: the session permanently showed a directory that it could not list, and `apply` failed without
/// naming a file.
#[test]
fn file_moved_out_of_a_directory_that_became_a_file_is_new() {
    let bench = Bench::new(&[("d/a/e", "1\n"), ("d/x", "2\n")]);
    bench.changes("mv d/a/e b");
    std::fs::remove_dir_all(bench.at("d")).unwrap();
    bench.write("d", "by the user\n");
    assert!(bench.refused().contains("d/a/e no longer exists on the disk"));
    assert!(bench.conflicts().contains("conflict d/a/e\n"));
    assert_eq!(stdout(&bench.sh("cat d b")), "by the user\n1\n");
    bench.done(&["apply", "box"]);
    assert_eq!((bench.read("d").as_str(), bench.read("b").as_str()), ("by the user\n", "1\n"));
}

/// Regression: the swap of equal entries changed nothing on the disk and was not recorded as applied, so a later edit
/// of one appeared in the other.
#[test]
fn equal_entries_that_were_swapped_take_later_edits_at_their_new_place() {
    let bench = Bench::new(&[("d/f", "1\n"), ("g/f", "1\n"), ("a", "2\n"), ("b", "2\n")]);
    bench.changes("mv d t; mv g d; mv t g; mv a t; mv b a; mv t b");
    bench.done(&["apply", "box"]);
    assert_eq!(bench.done(&["diff", "box"]), "");
    bench.write("d/new", "by the user\n");
    bench.write("a", "by the user\n");
    bench.done(&["refresh", "box"]);
    assert_eq!(stdout(&bench.sh("cat a b d/*; ls g")), "by the user\n2\n1\nby the user\nf\n");
    bench.changes("echo > unrelated");
    bench.done(&["apply", "box"]);
    assert_eq!(bench.read("d/new"), "by the user\n");
    assert!(!bench.at("g/new").exists());
}

/// Regression: `diff`, `apply` and `refresh` all failed.
#[test]
fn new_file_in_a_moved_directory_is_a_conflict_until_it_is_elsewhere() {
    let bench = Bench::new(&[("a/f", "1\n"), ("a/e/x", "2\n")]);
    bench.write("a/e/new", "by the user\n");
    bench.changes("mv a d");
    for command in ["diff", "apply"] {
        let output = bench.call(&[command, "box"]);
        assert_eq!(output.status.code(), Some(125));
        let said = stderr(&output);
        assert!(said.contains("a/e/new was created or changed on the disk"), "{said}");
        assert!(said.contains("`belljar sandbox refresh box`"), "{said}");
    }
    assert_eq!(bench.conflicts(), "conflict a/e\n");
    assert_eq!(stdout(&bench.sh("ls d d/e")), "d:\ne\nf\n\nd/e:\nx\n");
    assert!(!bench.done(&["diff", "box"]).contains("a/e/new"));
    // An entry created later is a conflict, too.
    bench.write("a/later", "by the user\n");
    let said = bench.refused();
    assert!(said.contains("cannot remove a: on the disk it also holds \"later\""), "{said}");
    let output = bench.call(&["refresh", "box"]);
    assert_eq!(stdout(&output), "conflict a\nconflict a/e\n");
    let said = stderr(&output);
    assert!(said.contains("holds \"new\", which the session does not have: move it"), "{said}");
    // The user moves the files to the path that the directory has in the session.
    std::fs::create_dir_all(bench.at("d/e")).unwrap();
    for name in ["e/new", "later"] {
        let (from, to) = (bench.at(&format!("a/{name}")), bench.at(&format!("d/{name}")));
        std::fs::rename(from, to).unwrap();
    }
    bench.done(&["refresh", "box"]);
    assert_eq!(stdout(&bench.sh("cat d/e/new d/e/x d/later")), "by the user\n2\nby the user\n");
    bench.done(&["apply", "box"]);
    for (name, text) in [("f", "1\n"), ("e/x", "2\n"), ("e/new", "by the user\n")] {
        assert_eq!(bench.read(&format!("d/{name}")), text);
    }
    assert!(!bench.at("a").exists());
    assert_eq!(bench.done(&["diff", "box"]), "");
}

#[test]
fn file_made_by_both_in_a_moved_directory_is_a_conflict() {
    let bench = Bench::new(&[("a/f", "1\n")]);
    bench.changes("mv a d; echo S > d/n");
    bench.write("a/n", "by the user\n");
    bench.refused();
    assert_eq!(bench.conflicts(), "conflict a\n");
    assert!(bench.refused().contains("cannot remove a: on the disk it also holds \"n\""));
    assert_eq!(bench.conflicts(), "conflict a\n");
    std::fs::rename(bench.at("a/n"), bench.at("kept")).unwrap();
    bench.done(&["apply", "box"]);
    assert_eq!((bench.read("d/n").as_str(), bench.read("kept").as_str()), ("S\n", "by the user\n"));
    assert!(!bench.at("a").exists());
}

/// Regression: `refresh` found nothing, and `apply` refused every time.
#[test]
fn new_file_in_a_removed_directory_is_a_conflict_and_stays() {
    let bench = Bench::new(&[("a/f", "1\n")]);
    bench.changes("rm -r a");
    bench.write("a/new", "by the user\n");
    let holds = "cannot remove a: on the disk it also holds \"new\"";
    assert!(bench.refused().contains(holds));
    assert_eq!(bench.conflicts(), "conflict a\n");
    assert!(bench.refused().contains(holds));
    assert_eq!(bench.read("a/new"), "by the user\n");
    std::fs::rename(bench.at("a/new"), bench.at("new")).unwrap();
    bench.done(&["apply", "box"]);
    assert!(!bench.at("a").exists());
    assert_eq!(bench.read("new"), "by the user\n");
}

/// Regression: the errors were EACCES and ELOOP, and named no file.
#[test]
fn directory_replaced_by_an_outward_or_looping_link_is_a_conflict() {
    if !has_links("directory_replaced_by_an_outward_or_looping_link_is_a_conflict") {
        return;
    }
    for target in ["/etc", "../out", "d", "nowhere"] {
        let bench = Bench::new(&[("d/f", "one\n"), ("d/g", "two\n"), ("d/a/e", "3\n")]);
        bench.changes("ls d; cat d/f; echo S >> d/g");
        std::fs::rename(bench.at("d"), bench.at("old")).unwrap();
        assert!(symlink(target, bench.at("d")));
        let output = bench.sh("cat d/a/e");
        let said = stderr(&output);
        assert!(said.contains("I/O error"), "{target}: {said}");
        assert!(said.contains("`belljar sandbox refresh box`"), "{target}: {said}");
        let said = bench.refused();
        assert!(said.contains("d is no longer a directory on the disk"), "{target}: {said}");
        assert!(bench.conflicts().contains("conflict d/g\n"), "{target}");
        assert_eq!(stdout(&bench.sh("cat d/g")), "two\nS\n");
        // The session moves its file to another path.
        bench.changes("mv d/g kept");
        assert!(bench.conflicts().contains("conflict d/g\n"), "{target}");
        bench.done(&["apply", "box"]);
        assert_eq!(bench.read("kept"), "two\nS\n", "{target}");
        assert_eq!(std::fs::read_link(bench.at("d")).unwrap().to_str(), Some(target));
        assert_eq!(bench.read("old/g"), "two\n");
    }
}

/// Regression: `apply` refused, and `refresh` found no conflict, because it followed the link.
#[test]
fn directory_replaced_by_a_link_to_its_new_name_is_a_conflict() {
    if !has_links("directory_replaced_by_a_link_to_its_new_name_is_a_conflict") {
        return;
    }
    let bench = Bench::new(&[("d/f", "one\n"), ("d/g", "two\n")]);
    bench.changes("echo S >> d/g");
    std::fs::rename(bench.at("d"), bench.at("old")).unwrap();
    assert!(symlink("old", bench.at("d")));
    assert!(bench.refused().contains("d is no longer a directory on the disk"));
    assert!(bench.conflicts().contains("conflict d/g\n"));
    std::fs::remove_file(bench.at("d")).unwrap();
    std::fs::rename(bench.at("old"), bench.at("d")).unwrap();
    bench.done(&["apply", "box"]);
    assert_eq!(bench.read("d/g"), "two\nS\n");
}

/// Regression: applied changes were taken for files unchanged in both sessions.
#[test]
fn two_sessions_are_compared_also_once_one_of_them_was_applied() {
    let bench = Bench::new(&[("f", "one\n"), ("k", "keep\n")]);
    bench.changes("cat f");
    bench.done(&["fork", "box", "--id", "other"]);
    bench.changes("echo S >> f");
    bench.done(&["apply", "box"]);
    let diff = bench.done(&["diff", "other", "box"]);
    assert!(diff.contains("\n one\n+S\n"), "{diff}");
    bench.done(&["exec", "other", "sh", "-c", "echo T >> f"]);
    let diff = bench.done(&["diff", "box", "other"]);
    assert!(diff.contains("\n one\n-S\n+T\n"), "{diff}");
    let report: Value =
        serde_json::from_str(&bench.done(&["diff", "box", "other", "--json"])).unwrap();
    assert_eq!(report["changes"].as_array().unwrap().len(), 1, "{report}");
}

#[test]
fn comparison_names_a_file_that_only_one_session_knows() {
    let bench = Bench::new(&[("f", "one\n")]);
    bench.done(&["fork", "box", "--id", "other"]);
    bench.changes("echo new > n");
    bench.done(&["apply", "box"]);
    for (ids, unknowing) in [(["box", "other"], "other"), (["other", "box"], "other")] {
        let output = bench.call(&["diff", ids[0], ids[1]]);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(125), ""));
        let said = stderr(&output);
        assert!(said.contains("cannot compare n"), "{said}");
        assert!(said.contains(&format!("`belljar sandbox refresh {unknowing}`")), "{said}");
    }
    bench.done(&["refresh", "other"]);
    assert_eq!(bench.done(&["diff", "box", "other"]), "");
}

#[test]
fn two_sessions_are_compared_also_once_one_of_them_was_refreshed() {
    let bench = Bench::new(&[("f", "one\n")]);
    bench.changes("cat f");
    bench.done(&["fork", "box", "--id", "other"]);
    bench.write("f", "one\nby the user\n");
    bench.done(&["refresh", "other"]);
    assert_eq!(bench.done(&["exec", "other", "cat", "f"]), "one\nby the user\n");
    let diff = bench.done(&["diff", "box", "other"]);
    assert!(diff.contains("\n one\n+by the user\n"), "{diff}");
}

/// Regression: the sessions were reported as equal, although one shows the file and the other does not.
#[test]
fn file_removed_in_one_session_and_refreshed_into_another_differs() {
    let bench = Bench::new(&[("f", "one\n")]);
    bench.done(&["fork", "box", "--id", "other"]);
    bench.changes("echo S > new; rm new");
    bench.write("new", "by the user\n");
    bench.done(&["refresh", "other"]);
    let diff = bench.done(&["diff", "box", "other"]);
    assert!(diff.contains("+++ b/new\n@@ -0,0 +1 @@\n+by the user\n"), "{diff}");
    let diff = bench.done(&["diff", "other", "box"]);
    assert!(diff.contains("+++ /dev/null\n@@ -1 +0,0 @@\n-by the user\n"), "{diff}");
}

/// Regression: removing the directory succeeded, and the directory was still there.
#[test]
fn a_folder_that_both_made_can_be_removed_and_moved_after_a_refresh() {
    for (script, left) in [
        ("rm -r d", &["f"][..]),
        ("mv d e", &["e/", "e/s", "e/u", "f"]),
        ("rm -r d; echo file > d", &["d", "f"]),
        ("rm -r d; mkdir d; echo > d/n", &["d/", "d/n", "f"]),
    ] {
        let bench = Bench::new(&[("f", "one\n")]);
        bench.changes("mkdir d; echo S > d/s");
        std::fs::create_dir(bench.at("d")).unwrap();
        std::fs::write(bench.at("d/u"), "user\n").unwrap();
        bench.done(&["refresh", "box"]);
        bench.changes(script);
        bench.done(&["apply", "box"]);
        let names: Vec<String> = tree(&bench.at(".")).into_keys().collect();
        assert_eq!(names, left, "{script}");
        assert_eq!(bench.done(&["diff", "box"]), "", "{script}");
    }
}

/// Regression: the refresh lost the old path of the directory, and `apply` took the entries there for a change by the
/// user.
#[test]
fn directory_moved_onto_one_of_the_user_is_applied_after_a_refresh() {
    let bench = Bench::new(&[("a/x", "1\n"), ("f", "one\n")]);
    bench.changes("mv a d");
    std::fs::create_dir(bench.at("d")).unwrap();
    bench.done(&["refresh", "box"]);
    bench.done(&["apply", "box"]);
    assert_eq!(bench.read("d/x"), "1\n");
    assert!(!bench.at("a").exists());
}

/// Regression: `refresh` found no conflict, and `apply` refused every time.
#[test]
fn moved_file_that_the_user_removed_conflicts_until_a_refresh() {
    let files = [("../more/m", "one\n"), ("../more/d/x", "2\n"), ("../more/k", "3\n"), ("own", "")];
    let bench = Bench::with(&files, &["--dir", "../more::/more"]);
    bench.changes("mv /more/m moved; mv /more/d d; mv own /more/taken; echo S >> d/x");
    std::fs::remove_file(bench.at("../more/m")).unwrap();
    std::fs::remove_dir_all(bench.at("../more/d")).unwrap();
    std::fs::remove_file(bench.at("own")).unwrap();
    let said = bench.refused();
    assert!(said.contains("m no longer exists on the disk"), "{said}");
    let output = bench.call(&["refresh", "box"]);
    assert_eq!(output.status.code(), Some(1));
    let told = stdout(&output);
    assert_eq!(told, "conflict own\nconflict /more/m\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("moved of another mount"), "{}", stderr(&output));
    assert_eq!(bench.done(&["refresh", "box"]), "", "it is told once");
    bench.done(&["apply", "box"]);
    assert_eq!((bench.read("moved").as_str(), bench.read("d/x").as_str()), ("one\n", "2\nS\n"));
    assert_eq!(
        (bench.read("../more/taken").as_str(), bench.read("../more/k").as_str()),
        ("", "3\n")
    );
    assert_eq!(bench.done(&["diff", "box"]), "");
}

/// Regression: entries removed from a recreated directory came back, in the session and after `apply`; a directory in
/// place of a file was a conflict.
#[test]
fn a_refresh_brings_nothing_back_that_the_session_removed() {
    let files = [
        ("build/old.o", "stale"),
        ("build/sub/q", "q"),
        ("a/c/f", "f"),
        ("a/x", "x"),
        ("b/x", "other x"),
        ("b/y", "y"),
        ("c/z", "z"),
        ("k", "k"),
        ("src.c", "s"),
    ];
    let look = "find . | sort; find . -type f | sort | while read f; do echo $f; cat $f; done";
    for script in [
        "rm -r build; mkdir build; echo new > build/new.o",
        "rm -r a; mkdir a",
        "rm -r a; mkdir a a/c; echo 1 > a/c/f",
        "rm -r a; mkdir a; echo n > a/x; rm a/x",
        "rm a/c/f; rmdir a/c; mkdir a/c",
        "mv a t; mv b a; mv t b",
        "rm -r b; mv a b; mkdir a",
        "rm -r b; cp -r a b",
        "rm -r c; mv a/c c; mkdir a/c",
        "rm k; mkdir k; echo x > k/new; echo y > k/new2",
        "rm -r a; echo file > a",
    ] {
        let laters = ["", "rm -r a; mkdir a", "rm -rf build b", "rm -r a/x b", "mv b q; mkdir b"];
        // Processes take long to start under Wine.
        for later in &laters[..if cfg!(windows) { 2 } else { laters.len() }] {
            let bench = Bench::new(&files);
            let expected = Bench::new(&files);
            let native = |script: &str| drop(user_script(&expected.tree(), script));
            bench.changes(script);
            native(script);
            let (shown, diff) = (stdout(&bench.sh(look)), bench.done(&["diff", "box"]));
            bench.write("src.c", "edited");
            expected.write("src.c", "edited");
            assert!(
                ["", "changed src.c\n"].contains(&&*bench.done(&["refresh", "box"])),
                "{script}"
            );
            let edited = shown.replace("src.c\ns", "src.c\nedited");
            assert_eq!(stdout(&bench.sh(look)), edited, "{script}");
            assert_eq!(bench.done(&["diff", "box"]), diff, "{script}");
            bench.sh(later);
            native(later);
            bench.done(&["apply", "box"]);
            assert_eq!(tree(&bench.tree()), tree(&expected.tree()), "{script}; {later}");
            assert_eq!(bench.done(&["diff", "box"]), "", "{script}; {later}");
        }
    }
}

/// Regression: the session kept showing the content that it had linked, and its next `apply` overwrote the user's edit.
#[test]
fn user_edit_of_a_linked_and_applied_file_is_refreshed() {
    let bench = Bench::new(&[("a", "one\n")]);
    bench.changes("ln a b");
    bench.done(&["apply", "box"]);
    bench.write("a", "by the user\n");
    assert_eq!(bench.done(&["refresh", "box"]), "changed a\nchanged b\n");
    assert_eq!(stdout(&bench.sh("cat a b")), "by the user\nby the user\n");
    assert_eq!(bench.done(&["diff", "box"]), "");
    std::fs::remove_file(bench.at("b")).unwrap();
    bench.write("b", "another\n");
    bench.done(&["refresh", "box"]);
    assert_eq!(stdout(&bench.sh("cat a b; rm b")), "by the user\nanother\n");
    bench.done(&["apply", "box"]);
    assert_eq!(bench.read("a"), "by the user\n");
    assert!(!bench.at("b").exists());
}

/// Regression: every later `exec --json` started nothing, and a refresh did not help, because the directory
/// could not be listed.
#[test]
fn moved_unlisted_directory_that_became_a_file_does_not_block_exec() {
    let bench = Bench::new(&[("c/d/unseen", "1\n")]);
    bench.changes("test -d c/d; echo work > result");
    std::fs::remove_dir_all(bench.at("c")).unwrap();
    bench.write("c", "by the user\n");
    let report = |args: &[&str]| -> Value {
        let output = bench.call(&[&["exec", "--json", "box"], args].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        serde_json::from_str(stdout(&output).lines().last().unwrap()).unwrap()
    };
    let moved = report(&["mv", "c", "moved"]);
    assert_eq!((&moved["exit_code"], &moved["error"]), (&0.into(), &Value::Null));
    let why = "cannot determine what changed: cannot list moved: I/O error (EIO)";
    assert_eq!(moved["changes_error"], why);
    assert_eq!(report(&["cat", "result"])["changes_error"], why);
    assert_eq!(bench.conflicts(), "conflict c\n");
    let wrote = report(&["touch", "new"]);
    assert_eq!(
        (&wrote["changes_error"], &wrote["changes"][0]["path"]),
        (&Value::Null, &"new".into())
    );
    assert!(bench.refused().contains("c "));
    std::fs::remove_file(bench.at("c")).unwrap();
    bench.done(&["apply", "box"]);
    let names: Vec<String> = tree(&bench.at(".")).into_keys().collect();
    assert_eq!(names, ["moved/", "moved/d/", "new", "result"]);
}

/// Regression: `diff` and `apply` failed afterwards, and each refresh reported the file again.
#[test]
fn file_removed_by_both_is_no_change() {
    if !has("git", "file_removed_by_both_is_no_change") {
        return;
    }
    let bench = Bench::new(&[("d/f", "1\n"), ("d/e", "2\n")]);
    bench.changes("rm -r d");
    std::fs::remove_file(bench.at("d/e")).unwrap();
    bench.done(&["refresh", "box"]);
    assert!(bench.done(&["diff", "box"]).contains("deleted file mode"));
    assert_eq!(bench.done(&["refresh", "box"]), "");
    bench.done(&["apply", "box"]);
    assert!(!bench.at("d").exists());
    // Regression: in a moved directory, the diff removed the file a second time.
    let bench = Bench::new(&[("d/f", "1\n"), ("d/e", "2\n")]);
    bench.changes("cat d/f d/e; mv d d2; rm d2/f");
    std::fs::remove_file(bench.at("d/f")).unwrap();
    bench.call(&["refresh", "box"]);
    assert!(bench.git_apply());
    assert_eq!(bench.read("d2/e"), "2\n");
    assert!(!bench.at("d2/f").exists());
}

/// Regression: the other files of the directory still could not be read.
#[test]
fn removed_directory_keeps_the_sessions_changes_after_a_refresh() {
    let bench = Bench::new(&[("b/f", "1\n"), ("b/g", "2\n")]);
    bench.changes("ls b; cat b/f b/g; echo more >> b/f");
    std::fs::remove_dir_all(bench.at("b")).unwrap();
    bench.conflicts();
    assert_eq!(stdout(&bench.sh("ls b; cat b/f")), "f\n1\nmore\n");
    bench.changes("rm -r b");
    bench.done(&["apply", "box"]);
    assert_eq!(bench.done(&["diff", "box"]), "");
}

/// Regression: a refresh reported nothing, and every `apply` asked for a refresh.
#[test]
fn directory_replaced_by_a_file_conflicts_with_the_sessions_new_file() {
    for refreshes in [true, false] {
        let bench = Bench::new(&[("a/c", "1\n")]);
        bench.changes("find . > /dev/null");
        bench.changes("echo mine > a/n");
        if refreshes {
            bench.done(&["refresh", "box"]);
        }
        std::fs::rename(bench.at("a"), bench.at("z")).unwrap();
        bench.write("a", "a file\n");
        for _ in 0..2 {
            assert!(bench.conflicts().contains("conflict a\n"), "{refreshes}");
            let shown = stdout(&bench.sh("test -d a && ls a; cat a/n"));
            assert_eq!(shown, "n\nmine\n", "{refreshes}");
            bench.refused();
        }
        std::fs::remove_file(bench.at("a")).unwrap();
        std::fs::rename(bench.at("z"), bench.at("a")).unwrap();
        bench.done(&["refresh", "box"]);
        bench.done(&["apply", "box"]);
        assert_eq!((bench.read("a/n"), bench.read("a/c")), ("mine\n".into(), "1\n".into()));
    }
}

/// Regression: entries that a killed `apply` had moved away and its recovery moved back were a permanent conflict.
#[cfg(unix)]
#[test]
fn named_pipe_moved_away_and_back_is_unchanged() {
    let bench = Bench::new(&[("b", "1\n")]);
    assert!(std::process::Command::new("mkfifo").arg(bench.at("p")).status().unwrap().success());
    bench.done(&["refresh", "box"]);
    bench.changes("rm p b; echo new > n");
    for (from, to) in [("p", "q"), ("q", "p"), ("b", "c"), ("c", "b")] {
        std::fs::rename(bench.at(from), bench.at(to)).unwrap();
    }
    bench.done(&["apply", "box"]);
    assert!(!bench.at("p").exists() && bench.at("n").exists());
}

/// Regression: after the session had listed the directory before and after the edit, the changes could not be
/// determined.
#[test]
fn file_made_by_both_is_a_conflict_even_after_listings() {
    let bench = Bench::new(&[("b", "1\n"), ("sub/b", "1\n")]);
    bench.changes("ls . sub; echo mine > out; echo mine > sub/out; mkdir made; echo more > work");
    bench.done(&["refresh", "box"]);
    for name in ["out", "sub/out"] {
        bench.write(name, "by the user\n");
    }
    std::fs::create_dir(bench.at("made")).unwrap();
    bench.sh("ls . sub");
    let conflicts = bench.conflicts();
    assert!(conflicts.contains("conflict out\n") && conflicts.contains("conflict sub/out\n"));
    bench.refused();
    assert!(bench.done(&["diff", "box"]).contains("+mine"));
    for name in ["out", "sub/out"] {
        std::fs::remove_file(bench.at(name)).unwrap();
    }
    bench.done(&["refresh", "box"]);
    bench.done(&["apply", "box"]);
    assert_eq!((bench.read("out"), bench.read("work")), ("mine\n".into(), "more\n".into()));
}
