//! Sequences of calls that once had other answers than natively, in each way to give a program a worktree.

use std::fs;

use super::calls::Call;
use super::native::Native;
use super::{Folders, Way, c_guest, compare_calls};

/// Makes the calls, each of them a name and its two texts, in folders that hold the entries `planted`: a text, or a directory.
fn compare(planted: &[(&str, Option<&str>)], calls: &[(&'static str, &str, &str)]) {
    let guest = c_guest("paths");
    let mut native = Native::start(&guest.native);
    for way in [Way::Default, Way::NoWorktree, Way::Session, Way::Known] {
        let scratch = tempfile::tempdir().unwrap();
        let folders = Folders::new(scratch.path());
        for folder in [&folders.there, &folders.here] {
            for (name, text) in planted {
                match text {
                    Some(text) => fs::write(folder.join(name), text).unwrap(),
                    None => fs::create_dir(folder.join(name)).unwrap(),
                }
            }
        }
        let call = |&(name, path, other): &(&'static str, &str, &str)| {
            let (path, other) = (path.to_owned(), other.to_owned());
            Call { name, slot: None, path, other }
        };
        let all = calls.iter().map(call);
        let compared =
            compare_calls(&guest, way, &mut native, &folders, all, &format!("{calls:?}"));
        assert_eq!(compared, calls.len(), "{calls:?}");
    }
}

/// Regression: `src/c` was `c` at the top of the worktree.
#[test]
fn folder_without_src_has_nothing_in_src() {
    for call in [
        ("create", "src/c", "text"),
        ("rename", "a", "src/c"),
        ("link", "a", "src/c"),
        ("symlink", "src/c", "a"),
        ("unlink", "src/a", ""),
        ("mkdir", "src/gen", ""),
        ("rmdir", "src/d", ""),
        ("read", "src/a", ""),
        ("list", "src/d", ""),
        ("stat", "src/a", ""),
    ] {
        let planted = [("a", Some("text")), ("d", None)];
        let then = [call, ("list", ".", ""), ("stat", "src", "")];
        compare(&planted, &then);
        let made = [("mkdir", "src", ""), call, ("list", "src", ""), ("list", ".", "")];
        compare(&planted, &made);
    }
}

/// Regression: calls on `lib/null` and through a file succeeded.
#[test]
fn nothing_is_made_in_a_missing_directory_or_in_a_file() {
    let planted = [("a", None), ("a/y.c", Some("text"))];
    compare(
        &planted,
        &[
            ("mkdir", "lib/null", ""),
            ("symlink", "a/y.c/x", "text"),
            ("create", "a/y.c/x", "text"),
            ("link", "a/y.c", "lib/y.c"),
            ("list", ".", ""),
        ],
    );
}

/// Regression: with a file `tmp` in the worktree, `tmp/x` was in `/tmp`.
#[test]
fn file_called_tmp_or_dev_is_no_directory() {
    for name in ["tmp", "dev"] {
        let inner = format!("{name}/x");
        let planted = [(name, Some("text")), ("a", Some("text"))];
        for call in ["create", "mkdir", "read", "stat", "list", "unlink", "rmdir"] {
            compare(&planted, &[(call, &inner, "text"), ("list", ".", ""), ("read", name, "")]);
        }
        for call in ["rename", "link"] {
            compare(&planted, &[(call, "a", &inner), ("list", ".", "")]);
        }
    }
}

/// What the worktree has wins, real devices included.
#[test]
fn directory_called_tmp_or_dev_hides_the_mount() {
    for (name, inner) in [("tmp", "tmp/x"), ("dev", "dev/null"), ("dev", "dev/zero")] {
        compare(
            &[(name, None), ("a", Some("text"))],
            &[
                ("stat", inner, ""),
                ("create", inner, "text"),
                ("rename", inner, "b"),
                ("link", "a", inner),
                ("list", name, ""),
                ("rename", name, "c"),
                ("list", ".", ""),
            ],
        );
    }
}

/// Regression: the text was lost without an error.
#[test]
fn link_into_a_missing_directory_cannot_be_written_through() {
    compare(
        &[],
        &[
            ("symlink", "dang", "zz/q"),
            ("create", "dang", "text"),
            ("append", "dang", ""),
            ("mkdir", "zz", ""),
            ("create", "dang", "text"),
            ("read", "zz/q", ""),
        ],
    );
}

/// Regression: a missing file and a new name that is too long gave the error of the name.
#[test]
fn rename_looks_up_both_directories_before_the_last_names() {
    let long = "n".repeat(256);
    let inner = format!("{long}/x");
    for (from, to) in [
        ("none", &*long),
        ("a", &long),
        ("none", &inner),
        ("a", &inner),
        (&long, "b"),
        (&long, &long),
    ] {
        compare(&[("a", Some("text"))], &[("rename", from, to), ("link", from, to)]);
    }
    compare(&[("d", None)], &[("rename", "d", "d"), ("rename", "d", "d/"), ("rename", ".", ".")]);
}
