//! `--apply` of directories, files and links that replace each other.

use std::path::Path;

use crate::cli::scratch;
use crate::support::{belljar, has_links, stderr, symlink, tree, user_script};

/// `b` is a link to `src`, which has the names that scripts make in `b`.
fn plant(folder: &Path) {
    std::fs::create_dir_all(folder.join("a/in")).unwrap();
    std::fs::create_dir_all(folder.join("src/a/deep")).unwrap();
    for name in ["a/in/f", "src/f", "src/a/g", "src/a/deep/h"] {
        std::fs::write(folder.join(name), name).unwrap();
    }
    assert!(symlink("src", folder.join("b")));
    assert!(symlink("../src/a", folder.join("a/link")));
}

/// Regression: directories that exist in the target of the link were not created, and writing files in them
/// failed.
#[test]
fn directory_replacing_a_link_is_written_completely() {
    if !has_links("directory_replacing_a_link_is_written_completely") {
        return;
    }
    for script in [
        "rm b; mkdir b b/a; echo x > b/a/g",
        "rm b; mkdir -p b/a/deep; echo x > b/f; echo y > b/a/deep/h",
        "mkdir a/a a/x; rm b; mv a b",
        "rm b; cp -r src b",
        "rm a/link; mkdir a/link a/link/deep; echo z > a/link/g",
        "rm b; mv src b; mkdir src src/a",
        "rm -r src; mkdir src src/a; echo n > src/a/g",
        "rm -r a; ln -s src a; echo n > a/f",
        "rm b; echo x > b; rm -r a; mkdir a a/in; echo y > a/in/f",
    ] {
        let natively = scratch();
        plant(natively.path());
        assert!(user_script(natively.path(), script).status.success(), "{script}");
        let expected = tree(natively.path());

        let applied = scratch();
        plant(applied.path());
        let output =
            belljar(applied.path()).args(["sh", "--apply", "-c", script]).output().unwrap();
        assert!(output.status.success(), "{script}: {}", stderr(&output));
        assert_eq!(tree(applied.path()), expected, "{script}");

        let (session, home) = (scratch(), scratch());
        plant(session.path());
        for args in [
            &["sandbox", "create", "--id", "s"][..],
            &["sandbox", "exec", "s", "sh", "-c", script],
            &["sandbox", "apply", "s"],
        ] {
            let mut command = belljar(session.path());
            let output = command.env("BELLJAR_HOME", home.path()).args(args).output().unwrap();
            assert!(output.status.success(), "{script}: {args:?}: {}", stderr(&output));
        }
        assert_eq!(tree(session.path()), expected, "{script}");
    }
}
