//! `belljar sandbox apply` after edits of the user that the session has not seen, and that are no conflict.

use serde_json::{Value, json};

use super::living::Bench;
use crate::support::{stderr, stdout};

const SOURCES: [(&str, &str); 3] = [("src/a", "1\n"), ("other/x", "x\n"), ("stamp", "s\n")];

/// A session that has made `out` of the files in `src`, and looked at `stamp`.
fn built() -> Bench {
    let bench = Bench::new(&SOURCES);
    let script = "cat src/* > out; [ -e stamp ] && [ ! -e gone ]";
    assert!(bench.sh(script).status.success());
    bench
}

/// Regression: it said nothing, and `make` took `out` for up to date.
#[test]
fn apply_names_what_changed_on_the_disk_and_is_older_now() {
    let bench = built();
    bench.write("src/b", "2\n");
    let output = bench.call(&["apply", "box"]);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("note: src/b was added on the disk, and the session has not seen"),
        "{said}"
    );
    assert!(said.contains("run `belljar sandbox refresh box`, build again there"), "{said}");
    assert_eq!(bench.read("out"), "1\n");
    // What it advises leads to a build of all sources, of which nothing is told any more.
    bench.done(&["refresh", "box"]);
    assert!(bench.sh("[ src -nt out ] && cat src/* > out").status.success());
    let output = bench.call(&["apply", "box"]);
    assert_eq!(stderr(&output), "belljar: 1 change written to the disk\n");
    assert_eq!(bench.read("out"), "1\n2\n");
}

#[test]
fn report_of_apply_has_what_the_session_has_not_seen() {
    let bench = built();
    bench.write("src/b", "2\n");
    bench.write("gone", "here\n");
    // With the stamp's old length; it was only looked up.
    bench.write("stamp", "t\n");
    // The session knows nothing of that directory.
    bench.write("other/y", "y\n");
    let report: Value = serde_json::from_str(&bench.done(&["apply", "box", "--json"])).unwrap();
    let unseen = |path, kind| json!({ "path": path, "kind": kind });
    assert_eq!(
        report["unseen"],
        json!([unseen("gone", "added"), unseen("src/b", "added"), unseen("stamp", "changed")])
    );
    let again = bench.call(&["apply", "box", "--json"]);
    let report: Value = serde_json::from_str(&stdout(&again)).unwrap();
    assert_eq!(report["changes"], json!([]));
}

#[test]
fn apply_without_edits_of_others_names_nothing() {
    let bench = built();
    for script in ["true", "echo 3 >> src/a", "mkdir src/new; mv src/a src/new; ls src"] {
        assert!(bench.sh(script).status.success(), "{script}");
        let report: Value = serde_json::from_str(&bench.done(&["apply", "box", "--json"])).unwrap();
        assert_eq!(report["unseen"], json!([]), "{script}");
    }
}

/// The session's own directories lie there.
#[test]
fn create_says_what_a_worktree_with_an_entry_mnt_means() {
    let folder = tempfile::tempdir().unwrap();
    let said = |name: &str| {
        let home = folder.path().join("home");
        let worktree = folder.path().join(name);
        std::fs::create_dir_all(&worktree).unwrap();
        let mut belljar = crate::support::belljar(&worktree);
        let output =
            belljar.env("BELLJAR_HOME", home).args(["sandbox", "create"]).output().unwrap();
        assert!(output.status.success());
        stderr(&output)
    };
    std::fs::create_dir_all(folder.path().join("with/mnt")).unwrap();
    assert!(said("with").contains("note: the worktree has an entry mnt, so programs of wasi-libc"));
    assert_eq!(said("without"), "");
}
