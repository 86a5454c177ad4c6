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
                  touch -h -d 2005-01-01T00:00:00Z l; touch -h -d 2006-01-01T00:00:00Z m";
    assert!(bash(folder, script).status.success());
}

/// A session over the files of [`sown`].
fn session() -> Bench {
    let bench = Bench::new(&[]);
    sown(&bench.tree());
    bench.done(&["refresh", "box"]);
    bench
}

/// The times of files and links by path, in seconds.
fn times(folder: &Path) -> BTreeMap<String, i64> {
    use std::os::unix::fs::MetadataExt;
    let mut times = BTreeMap::new();
    for path in crate::support::tree(folder).keys().filter(|path| !path.ends_with('/')) {
        times.insert(path.clone(), folder.join(path).symlink_metadata().unwrap().mtime());
    }
    for link in ["l", "m", "k"] {
        if let Ok(found) = folder.join(link).symlink_metadata() {
            times.insert(link.to_owned(), found.mtime());
        }
    }
    times
}

const SCRIPTS: [&str; 9] = [
    "mv c b",
    "ln -f c b",
    "mv a t; mv b a; mv t b",
    "mv a b; mv c a",
    "mv l m",
    "mv l k",
    "rm -r d; mv e d",
    "mv d t; mv e d; mv t e",
    "mv a t; mv t a; mkdir f; mv b f; mv f/b b; rmdir f",
];

/// Regression: the content was unchanged, so the file on the disk kept its time, and the session had another.
#[test]
fn moved_file_with_equal_content_brings_its_time() {
    for script in SCRIPTS {
        let native = tempfile::tempdir().unwrap();
        sown(native.path());
        assert!(bash(native.path(), script).status.success());
        let wanted = times(native.path());

        let folder = tempfile::tempdir().unwrap();
        sown(folder.path());
        succeed(folder.path(), &["sh", "--apply", "-c", script]);
        assert_eq!(times(folder.path()), wanted, "sh --apply: {script}");

        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        sown(&tree);
        let record = ["record", "--tape", "t", "--worktree", "tree", "--", "sh", "-c", script];
        succeed(folder.path(), &record);
        for _ in 0..2 {
            succeed(folder.path(), &["apply", "t", "--worktree", "tree"]);
            assert_eq!(times(&tree), wanted, "apply TAPE: {script}");
        }

        let bench = session();
        assert!(bench.sh(script).status.success());
        // A refresh that takes in an unrelated file keeps the change.
        assert!(bash(&bench.tree(), "echo z > z").status.success());
        bench.done(&["refresh", "box"]);
        bench.done(&["apply", "box"]);
        std::fs::remove_file(bench.tree().join("z")).unwrap();
        assert_eq!(times(&bench.tree()), wanted, "sandbox apply: {script}");
        let again = stderr(&bench.call(&["apply", "box"]));
        assert!(again.contains("changed nothing"), "{script}: {again}");
    }
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
