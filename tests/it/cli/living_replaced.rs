//! Sessions that put something of their own in the place of a folder that they moved away, or a folder in the
//! place of another, where the user then takes away what it came from.

use std::os::unix::fs::symlink;

use super::living::Bench;
use crate::support::{bash, stderr, stdout};

fn user(bench: &Bench, script: &str) {
    let output = bash(&bench.tree(), script);
    assert!(output.status.success(), "{script}: {}", stderr(&output));
}

/// `refresh` dropped it, and said that the session keeps its version.
#[test]
fn what_took_the_place_of_a_folder_that_was_moved_away_is_the_sessions() {
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

/// A build puts its outcome in the place of the last one; then the user cleans. `apply` was refused for ever,
/// or nothing of the session could be told any more.
#[test]
fn a_folder_that_took_the_place_of_another_stands_for_itself_where_it_came_from_nothing() {
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
