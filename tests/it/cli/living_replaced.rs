//! Sessions that put something of their own in the place of a folder that they moved away, or a folder in the
//! place of another, where the user then takes away what it came from.

use std::os::unix::fs::symlink;

use super::living::Bench;
use crate::support::{bash, stderr, stdout};

fn user(bench: &Bench, script: &str) {
    let output = bash(&bench.tree(), script);
    assert!(output.status.success(), "{script}: {}", stderr(&output));
}

/// Regression: `refresh` dropped it, while its message said that the session keeps its version.
#[test]
fn replacement_of_a_moved_directory_stays_in_the_session() {
    for (session, edits, shown) in [
        (
            "mv src lib; mkdir src; echo mine > src/a; echo more > src/new",
            &["rm -r src", "rm -r src; echo file > src", "rm -r src; ln -s t src", "mv src g"][..],
            "cat src/a src/new",
        ),
        ("mv src k; echo mine > src; echo more > z", &["rm -r src"], "cat src z"),
        (
            "mv src k; mkdir -p src/z; echo mine > src/z/a; echo more > src/z/b",
            &["rm -r src; echo > src", "rm -r src"],
            "cat src/z/a src/z/b",
        ),
        ("mv src k; echo mine > t; echo more >> t; ln -s t src", &["rm -r src"], "cat src"),
    ] {
        for edit in edits {
            let bench = Bench::new(&[("src/a", "1\n"), ("src/b", "2\n")]);
            let output = bench.sh(session);
            assert!(output.status.success(), "{}", stderr(&output));
            user(&bench, edit);
            for _ in 0..2 {
                bench.call(&["refresh", "box"]);
                let output = bench.sh(shown);
                let what = format!("{session} / {edit}: {}", stderr(&output));
                assert_eq!(stdout(&output), "mine\nmore\n", "{what}");
            }
        }
    }
}

/// Regression: a build moves its output over that of the last build; then the user removes the build
/// directory. `apply` was refused every time, or no command could determine the session's changes.
#[test]
fn directory_moved_over_another_survives_removal_of_its_source() {
    for edit in ["rm -rf build", "rm -rf build; echo file > build", "rm -rf build/out"] {
        let bench =
            Bench::new(&[("build/out/app", "new\n"), ("build/x", "x\n"), ("dist/app", "old\n")]);
        let output = bench.sh("rm -rf dist; mv build/out dist; echo mine > dist/extra");
        assert!(output.status.success(), "{}", stderr(&output));
        user(&bench, edit);
        assert_eq!(bench.call(&["refresh", "box"]).status.code(), Some(1), "{edit}");
        let output = bench.sh("ls dist; cat dist/extra dist/app");
        assert_eq!(stdout(&output), "app\nextra\nmine\nnew\n", "{edit}: {}", stderr(&output));
        bench.call(&["refresh", "box"]);
        assert!(bench.done(&["diff", "box"]).contains("dist/extra"), "{edit}");
        bench.done(&["apply", "box"]);
        assert_eq!((&*bench.read("dist/app"), &*bench.read("dist/extra")), ("new\n", "mine\n"));
        let output = bench.sh("mkdir -p made; echo log > made/log");
        assert!(output.status.success(), "{edit}: {}", stderr(&output));
        bench.done(&["apply", "box"]);
        assert_eq!(bench.read("made/log"), "log\n", "{edit}");
    }
    // One that leads elsewhere.
    let bench = Bench::new(&[("build/out/app", "new\n"), ("dist/app", "old\n"), ("o/p", "p\n")]);
    assert!(bench.sh("rm -rf dist; mv build/out dist").status.success());
    user(&bench, "rm -rf build");
    symlink("o", bench.at("build")).unwrap();
    assert_eq!(bench.call(&["refresh", "box"]).status.code(), Some(1));
    assert_eq!(stdout(&bench.sh("cat dist/app; ls dist")), "new\napp\n");
    bench.done(&["apply", "box"]);
    assert_eq!(bench.read("dist/app"), "new\n");
}

/// Regression: a session that had moved a directory and read a file of it, which the user then removed, could
/// not be applied: `refresh` found nothing, and `apply` named the file every time.
#[test]
fn files_removed_from_a_directory_that_was_moved_are_settled_by_a_refresh() {
    let (rm, n) = ("rm d/b", "echo n > d/n");
    for (script, edits, later) in [
        ("cat d/b; mv d e", &[rm][..], ""),
        ("cat d/b; mv d e; rm e/b", &[rm], ""),
        ("mv d e; cat e/b", &[rm], ""),
        ("cat d/b; mv d e; echo n > e/b", &[rm], ""),
        ("cat d/b; mv d e; mv e/b x", &[rm], ""),
        ("cat d/b; mv d e", &["mv d/b d/z"], ""),
        ("cat d/s/x; mv d e; mv e/s e/u", &["rm -r d/s"], ""),
        ("cat d/b d/c; mv d e; mkdir d; cp e/c d/c", &["rm d/c"], ""),
        ("mv d e", &[n, "rm d/n"], "cat e/n"),
        ("cat d/b; mv d e", &["echo u > d/b", rm], ""),
        ("cat d/b; mv d e", &[rm, "echo one > d/b", rm], ""),
    ] {
        let bench = Bench::new(&[("d/b", "one\n"), ("d/c", "two\n"), ("d/s/x", "three\n")]);
        bench.sh(script);
        for edit in edits {
            user(&bench, edit);
            bench.call(&["refresh", "box"]);
            if !later.is_empty() {
                bench.sh(later);
            }
        }
        bench.call(&["refresh", "box"]);
        let list = "find . -type f | sort | xargs grep ''";
        let shown = stdout(&bench.sh(list));
        bench.done(&["apply", "box"]);
        let disk = bash(&bench.tree(), list);
        assert_eq!(stdout(&disk), shown, "{script}: {edits:?}");
    }
}
