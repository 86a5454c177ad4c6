//! Sessions with directories mounted in their worktree, which the user or a program changes afterwards.

use super::living::Bench;
use crate::support::{has_links, stderr, stdout, symlink};

/// A session over `tree` with the folder `tools` mounted at `at`.
fn with_tools(files: &[(&str, &str)], at: &str) -> Bench {
    let tools = tempfile::tempdir().unwrap().keep();
    std::fs::write(tools.join("tool"), "tool\n").unwrap();
    Bench::with(files, &["--dir", &format!("{}::{at}", tools.display())])
}

/// Regression: no command could open the session any more.
#[test]
fn session_opens_after_the_worktree_got_a_name_of_a_mount() {
    let bench = with_tools(&[("a", "1\n")], "/lib");
    assert_eq!(stdout(&bench.sh("echo new > n; cat /lib/tool")), "tool\n");
    std::fs::create_dir(bench.at("lib")).unwrap();
    bench.write("lib/own", "own\n");
    assert_eq!(stdout(&bench.sh("cat n lib/tool")), "new\ntool\n");
    assert!(bench.done(&["diff", "box"]).contains("+new"));
    // Programs could not tell the two apart.
    for args in [&["refresh", "box"][..], &["refresh", "--discard", "box"]] {
        let refused = bench.call(args);
        assert_eq!(refused.status.code(), Some(125), "{args:?}");
        assert!(stderr(&refused).contains("the worktree has \"lib\" of its own"), "{args:?}");
    }
    std::fs::rename(bench.at("lib"), bench.at("mine")).unwrap();
    bench.done(&["refresh", "box"]);
    assert_eq!(
        stdout(&bench.sh("cat n mine/own /lib/tool; echo more >> mine/own")),
        "new\nown\ntool\n"
    );
    bench.done(&["apply", "box"]);
    assert_eq!((bench.read("n"), bench.read("mine/own")), ("new\n".into(), "own\nmore\n".into()));
}

/// Regression: no command could open the session, and no refresh was possible.
#[test]
fn session_opens_after_the_directory_of_a_mount_point_was_removed_or_replaced() {
    for replaced in [false, true] {
        let bench = with_tools(&[("sub/x/hidden", "1\n"), ("a", "1\n")], "/worktree/sub/x");
        assert_eq!(stdout(&bench.sh("echo new > n; cat sub/x/tool; echo k > sub/x/k")), "tool\n");
        std::fs::remove_dir_all(bench.at("sub")).unwrap();
        if replaced {
            bench.write("sub", "a file\n");
        }
        for _ in 0..2 {
            assert_eq!(
                stdout(&bench.sh("cat n sub/x/tool sub/x/k")),
                "new\ntool\nk\n",
                "{replaced}"
            );
            bench.done(&["refresh", "box"]);
        }
        let diff = bench.done(&["diff", "box"]);
        assert!(diff.contains("b/n") && diff.contains("/k") && !diff.contains("deleted"), "{diff}");
        bench.done(&["apply", "box"]);
        assert_eq!(bench.read("n"), "new\n");
        assert_eq!(bench.at("sub").exists(), replaced);
        if replaced {
            assert_eq!(bench.read("sub"), "a file\n");
        }
        assert_eq!(bench.done(&["diff", "box"]), "", "{replaced}");
        if replaced {
            let fork = ["fork", "box", "--id", "other"];
            bench.done(&fork);
            bench.done(&["refresh", "--discard", "other"]);
        }
        // A file of the session beside the mount point brings the directory back, or conflicts with what is there.
        bench.sh("echo beside > sub/beside");
        let applied = bench.call(&["apply", "box"]);
        assert_eq!(applied.status.success(), !replaced, "{}", stderr(&applied));
        if replaced {
            assert!(stderr(&applied).contains("sub"), "{}", stderr(&applied));
        } else {
            assert_eq!(bench.read("sub/beside"), "beside\n");
        }
    }
}

/// Regression: a refresh took the file for the former state of the directory, and no apply was possible any more.
#[test]
fn file_in_the_place_of_a_mounts_directory_blocks_apply_only_while_it_is_there() {
    let refreshes = [&["refresh", "box"][..], &["refresh", "--discard", "box"]];
    for (had_dir, refresh) in [(false, refreshes[0]), (false, refreshes[1]), (true, refreshes[0])] {
        let file = if had_dir { "x/was" } else { "a" };
        let bench = with_tools(&[(file, "1\n")], "/worktree/x/m");
        if had_dir {
            std::fs::remove_dir_all(bench.at("x")).unwrap();
        }
        bench.write("x", "file\n");
        bench.done(refresh);
        assert!(bench.sh("echo k > x/k; echo other > o").status.success());
        for _ in 0..2 {
            let applied = bench.call(&["apply", "box"]);
            assert!(stderr(&applied).contains("x appeared on the disk"), "{}", stderr(&applied));
            let output = bench.call(&["refresh", "box"]);
            assert_eq!(stdout(&output), "conflict x\n", "{}", stderr(&output));
        }
        bench.done(&["fork", "box", "--id", "other"]);
        std::fs::remove_file(bench.at("x")).unwrap();
        for id in ["box", "other"] {
            bench.done(&["refresh", id]);
            bench.done(&["apply", id]);
            assert_eq!((bench.read("x/k"), bench.read("o")), ("k\n".into(), "other\n".into()));
            assert_eq!(bench.done(&["diff", id]), "");
            std::fs::remove_dir_all(bench.at("x")).unwrap();
            std::fs::remove_file(bench.at("o")).unwrap();
        }
    }
}

/// As above: nothing conflicts if the file, or the dangling link, is gone before the session is refreshed again.
#[test]
fn name_that_was_in_the_place_of_a_mounts_directory_does_not_block_apply() {
    if !has_links("name_that_was_in_the_place_of_a_mounts_directory_does_not_block_apply") {
        return;
    }
    for is_link in [false, true] {
        let bench = with_tools(&[("a", "1\n")], "/worktree/x/m");
        if is_link {
            assert!(symlink("nowhere", bench.at("x")));
        } else {
            bench.write("x", "file\n");
        }
        assert_eq!(bench.done(&["refresh", "box"]), "added x\n");
        assert!(bench.sh("echo k > x/k; echo other > o").status.success());
        std::fs::remove_file(bench.at("x")).unwrap();
        assert_eq!(bench.done(&["refresh", "box"]), "");
        bench.done(&["apply", "box"]);
        assert_eq!((bench.read("x/k"), bench.read("o")), ("k\n".into(), "other\n".into()));
    }
}

/// Regression: after a refresh, programs of the session read and wrote outside of its directories.
#[test]
fn a_link_in_the_place_of_a_mounted_directory_is_not_followed() {
    if !has_links("a_link_in_the_place_of_a_mounted_directory_is_not_followed") {
        return;
    }
    let files = [("sub/a", "a\n"), ("a", "1\n")];
    for option in ["sub::/s", "sub::/s::ro"] {
        let bench = Bench::with(&files, &["--dir", option]);
        let secret = tempfile::tempdir().unwrap();
        std::fs::write(secret.path().join("s"), "secret\n").unwrap();
        let plant = format!("rm -r sub; ln -s {} sub", secret.path().display());
        assert!(bench.sh(&plant).status.success());
        bench.done(&["apply", "box"]);
        let commands: [&[&str]; 3] =
            [&["refresh", "box"], &["exec", "box", "cat", "/s/s"], &["diff", "box"]];
        for command in commands {
            let refused = bench.call(command);
            assert_eq!(refused.status.code(), Some(125), "{command:?}: {}", stdout(&refused));
            let why = "by a symbolic link";
            assert!(stderr(&refused).contains(why), "{command:?}: {}", stderr(&refused));
        }
        // A link in a read-only mount can be the user's own.
        let made = bench.call(&["create", "--id", "other", "--dir", "sub::/s"]);
        assert_eq!(made.status.code(), Some(2), "{}", stderr(&made));
        // Another session does not follow it either, nor does `cp`, whatever name the folder has.
        let (inner, outer) = (bench.tree(), bench.tree().with_extension("link"));
        assert!(symlink(&inner, &outer));
        let through = outer.join("sub").display().to_string();
        let made = bench.call(&["create", "--id", "third", "--dir", &format!("{through}::/s")]);
        assert_eq!(made.status.code(), Some(2), "{}", stdout(&made));
        bench.done(&["create", "--id", "fourth"]);
        for to in ["sub/copied", &format!("{through}/copied")] {
            let copied = bench.call(&["cp", "fourth:a", to]);
            assert_eq!(copied.status.code(), Some(2), "{to}: {}", stderr(&copied));
        }
        assert!(!secret.path().join("copied").exists());
        // The user puts the directory back.
        std::fs::remove_file(bench.at("sub")).unwrap();
        std::fs::create_dir(bench.at("sub")).unwrap();
        bench.write("sub/a", "again\n");
        bench.done(&["refresh", "box"]);
        assert_eq!(stdout(&bench.sh("cat /s/a")), "again\n");
    }
}
