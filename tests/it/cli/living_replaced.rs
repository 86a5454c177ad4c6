//! Sessions that put new content in place of a moved directory, or move a directory over another; then the user removes
//! the source.

use super::living::Bench;
use crate::support::{has_links, stderr, stdout, symlink, user_script};

fn user(bench: &Bench, script: &str) {
    let output = user_script(&bench.tree(), script);
    assert!(output.status.success(), "{script}: {}", stderr(&output));
}

/// Regression: `refresh` dropped the replacement, while its message said that the session keeps its version.
#[test]
fn replacement_of_a_moved_directory_stays_in_the_session() {
    let links = has_links("replacement_of_a_moved_directory_stays_in_the_session");
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
            if edit.contains("ln -s") && !links {
                continue;
            }
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

/// Regression: after a build moved its output over the previous output and the user removed the build directory,
/// `apply` was refused every time, or no command could determine the session's changes.
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
    if !has_links("directory_moved_over_another_survives_removal_of_its_source") {
        return;
    }
    // The source is replaced by a link to another directory.
    let bench = Bench::new(&[("build/out/app", "new\n"), ("dist/app", "old\n"), ("o/p", "p\n")]);
    assert!(bench.sh("rm -rf dist; mv build/out dist").status.success());
    user(&bench, "rm -rf build");
    assert!(symlink("o", bench.at("build")));
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
        ("cat d/b; mv d e", &["mv d/b z"], ""),
        ("cat d/s/x; mv d e; mv e/s e/u", &["rm -r d/s"], ""),
        ("cat d/b d/c; mv d e; mkdir d; cp e/c d/c", &["rm d/c"], ""),
        ("mv d e", &[n, "rm d/n"], ""),
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
        let disk = user_script(&bench.tree(), list);
        assert_eq!(stdout(&disk), shown, "{script}: {edits:?}");
    }
}

/// Makes the changes of `script` in the session and on the disk. A refresh must then find no difference, and the
/// session must accept further changes.
fn alike(files: &[(&str, &str)], script: &str) -> Bench {
    let bench = Bench::new(files);
    let output = bench.sh(script);
    assert!(output.status.success(), "{script}: {}", stderr(&output));
    user(&bench, script);
    assert_eq!(bench.done(&["refresh", "box"]), "", "{script}");
    assert_eq!(bench.done(&["diff", "box"]), "", "{script}");
    let list = "find . | sort; find . -type f | sort | xargs grep ''";
    assert_eq!(stdout(&bench.sh(list)), stdout(&user_script(&bench.tree(), list)), "{script}");
    let output = bench.sh("echo more > more; echo other > f");
    assert!(output.status.success(), "{script}: {}", stderr(&output));
    bench.done(&["refresh", "box"]);
    bench.done(&["apply", "box"]);
    assert_eq!((&*bench.read("more"), &*bench.read("f")), ("more\n", "other\n"), "{script}");
    bench
}

/// Regression: after the refresh, the session could not be compared, applied or refreshed.
#[test]
fn directory_moved_to_the_place_of_another_by_user_and_session_is_no_change() {
    let files =
        [("site/i", "old\n"), ("site/s/x", "1\n"), ("new/i", "new\n"), ("new/n", "n\n"), ("f", "")];
    for script in [
        "mv site old; mv new site",
        "mv site t; mv new site; mv t new",
        "rm -r site; mv new site",
        "mv new/i site/i; mv new/n n; rmdir new",
        "mv site/s s; rm site/i; rmdir site; mv s site",
    ] {
        alike(&files, script);
    }
}

/// Regression: a false conflict was reported, or the directory came back in the session.
#[test]
fn directory_replaced_by_a_link_by_user_and_session_is_no_change() {
    if !has_links("directory_replaced_by_a_link_by_user_and_session_is_no_change") {
        return;
    }
    let files = [("d/a", "1\n"), ("d/s/x", "2\n"), ("e/a", "3\n"), ("e/s/x", "4\n"), ("f", "")];
    for script in [
        "rm -r d; ln -s e d",
        "mv d old; ln -s old d",
        "mv d/s d/t; ln -s ../e/s d/s",
        "rm -r d; echo file > d",
    ] {
        let bench = alike(&files, script);
        assert!(stdout(&bench.sh("test -L d || test -L d/s || test -f d; echo $?")).contains('0'));
    }
    // An apply without a refresh has the same result.
    let bench = Bench::new(&files);
    assert!(bench.sh("rm -r d; ln -s e d; echo more > more").status.success());
    user(&bench, "rm -r d; ln -s e d");
    bench.done(&["apply", "box"]);
    assert_eq!((&*bench.read("more"), &*bench.read("d/a")), ("more\n", "3\n"));
}

/// Regression: the refresh found nothing, and `apply` was refused every time.
#[test]
fn file_put_back_after_its_directory_was_moved_conflicts_with_an_edit() {
    let files = [("d/a", "1\n"), ("d/b", "2\n"), ("k", "k\n")];
    for script in [
        "mv d e; mkdir d; mv e/a d/a",
        "mv d e; mkdir d; cp e/a d/a",
        "mv d t; mv t d; echo S >> d/b",
    ] {
        for edit in ["echo user > d/a", "rm d/a", "rm d/a; mkdir d/a", "mv d/a d/z"] {
            let what = format!("{script} / {edit}");
            let bench = Bench::new(&files);
            let output = bench.sh(&format!("cat d/a; {script}; echo S >> k"));
            assert!(output.status.success(), "{what}: {}", stderr(&output));
            user(&bench, edit);
            bench.call(&["refresh", "box"]);
            let list = "find . | sort; find . -type f | sort | xargs grep ''";
            let shown = stdout(&bench.sh(list));
            let output = bench.call(&["apply", "box"]);
            if output.status.success() {
                assert_eq!(stdout(&user_script(&bench.tree(), list)), shown, "{what}");
                assert_eq!(bench.read("k"), "k\nS\n", "{what}");
            } else {
                // If `apply` is refused, `refresh` reports the conflict.
                assert_eq!(bench.call(&["refresh", "box"]).status.code(), Some(1), "{what}");
            }
        }
    }
}

/// Regression: of two new files with the same name, one hid the other.
#[test]
fn name_made_in_a_moved_directory_and_at_its_new_place_is_shown_once() {
    let bench = Bench::new(&[("d/a", "1\n")]);
    assert!(bench.sh("mv d e").status.success());
    user(&bench, "mkdir e; echo old place > d/n; echo new place > e/n");
    let output = bench.call(&["refresh", "box"]);
    assert_eq!((output.status.code(), &*stdout(&output)), (Some(1), "conflict d\n"));
    assert_eq!(stdout(&bench.sh("cat e/n e/a")), "new place\n1\n");
    user(&bench, "mv d/n m");
    bench.done(&["refresh", "box"]);
    bench.done(&["apply", "box"]);
    assert_eq!((&*bench.read("e/n"), &*bench.read("m")), ("new place\n", "old place\n"));
    assert_eq!(bench.read("e/a"), "1\n");
    assert!(!bench.at("d").exists());
}

/// Regression: a file added by the user was reported but not shown, and the diff deleted it.
#[test]
fn new_file_in_one_of_two_directories_that_changed_places_stays_where_it_is() {
    let bench = Bench::new(&[("a/f", "1\n")]);
    std::fs::create_dir(bench.at("b")).unwrap();
    bench.done(&["refresh", "box"]);
    assert!(bench.sh("mv a t; mv b a; mv t b").status.success());
    bench.write("a/new", "by the user\n");
    assert_eq!(bench.done(&["refresh", "box"]), "added a/new\n");
    assert_eq!(stdout(&bench.sh("ls a b")), "a:\nnew\n\nb:\nf\n");
    bench.done(&["apply", "box"]);
    assert_eq!((bench.read("a/new"), bench.read("b/f")), ("by the user\n".into(), "1\n".into()));
    assert_eq!(bench.done(&["diff", "box"]), "");
}

/// Regression: all files that the session had not read showed the same time until a refresh.
#[test]
fn times_of_contents_are_the_same_after_a_moved_directory_was_applied() {
    let bench = Bench::with(&[("b/c", "1\n"), ("b/d", "2\n")], &["--mtimes", "content"]);
    assert!(bench.sh("mv b x").status.success());
    bench.done(&["fork", "box", "--id", "other"]);
    bench.done(&["apply", "box"]);
    let list = ["--", "ls", "-l", "x"];
    let expected = bench.done(&[&["exec", "other"], &list[..]].concat());
    assert_eq!(bench.done(&[&["exec", "box"], &list[..]].concat()), expected);
}

/// Regression: a second refresh, which found nothing, gave the file another inode number.
#[test]
fn inode_numbers_are_the_same_after_a_second_refresh() {
    let bench = Bench::new(&[("d/e", "1\n")]);
    assert!(bench.sh("mv d x; ln -s x d; ln x/e y").status.success());
    bench.done(&["refresh", "box"]);
    let numbers = stdout(&bench.sh("ls -i x/e y"));
    for _ in 0..2 {
        bench.done(&["refresh", "box"]);
        assert_eq!(stdout(&bench.sh("ls -i x/e y")), numbers);
    }
}

/// Regression: a refresh reported the file as changed, and still showed the time at which the session wrote it.
#[test]
fn touch_of_an_applied_file_is_taken_in_by_a_refresh() {
    for (script, edit) in [
        ("echo x > f; cp f out", "touch f"),
        ("echo x > f; cp f out", "echo x > f"),
        ("echo x > f; ln f g; cp f out", "touch g"),
    ] {
        // Belljar, which makes the edit there, separates a name that it touches from the others.
        if cfg!(windows) && edit == "touch g" {
            continue;
        }
        let bench = Bench::new(&[("f", "a\n")]);
        assert!(bench.sh(script).status.success());
        bench.done(&["apply", "box"]);
        std::thread::sleep(std::time::Duration::from_millis(50));
        user(&bench, edit);
        bench.done(&["refresh", "box"]);
        let output = bench.sh("test f -nt out && echo newer");
        assert_eq!(stdout(&output), "newer\n", "{script}; {edit}");
    }
}

/// Regression: with `--mtimes content`, an applied file had another time after each refresh.
#[test]
fn applied_file_keeps_its_time_in_a_refresh_with_times_of_contents() {
    let bench = Bench::with(&[("a", "1\n"), ("b", "2\n")], &["--mtimes", "content"]);
    assert!(bench.sh("echo new > a; echo more > c; ls -l b").status.success());
    let times = "ls -l a b c";
    let before = stdout(&bench.sh(times));
    bench.done(&["apply", "box"]);
    for edit in ["true", "echo user > d", "echo user > b"] {
        user(&bench, edit);
        bench.done(&["refresh", "box"]);
        let now = stdout(&bench.sh(times));
        let of = |all: &str, name: &str| {
            all.lines().find(|line| line.ends_with(name)).map(str::to_owned)
        };
        for name in ["a", "c"] {
            assert_eq!(of(&now, name), of(&before, name), "{edit}");
        }
        assert_eq!(of(&now, "b") == of(&before, "b"), edit != "echo user > b", "{edit}: {now}");
    }
}
