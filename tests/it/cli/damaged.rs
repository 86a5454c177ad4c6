//! Sessions whose saved state is damaged, as a power cut can do.

use std::path::Path;

use super::scratch;
use super::sessions::{call, done};
use crate::support::{stderr, stdout};

/// Prints the lines 1 to 6000.
const LINES: &str = "seq 1 6000";

fn lines() -> String {
    let lines: Vec<String> = (1..=6000).map(|line| line.to_string()).collect();
    lines.join("\n") + "\n"
}

/// Writes zeros over the content that [`LINES`] prints.
fn damage_lines(folder: &Path) {
    let lines = lines();
    let contents = std::fs::read_dir(folder.join(".home/contents")).unwrap();
    let is_that = |path: &Path| std::fs::read(path).is_ok_and(|bytes| bytes == lines.as_bytes());
    let found = contents.map(|entry| entry.unwrap().path()).find(|path| is_that(path));
    std::fs::write(found.unwrap(), vec![0; lines.len()]).unwrap();
}

#[test]
fn damaged_content_is_written_again_by_another_session_that_has_it() {
    let folder = scratch();
    let at = folder.path();
    done(at, &["create", "--id", "one"]);
    done(at, &["exec", "one", "sh", "-c", &format!("{LINES} > new")]);
    damage_lines(at);
    done(at, &["create", "--id", "two"]);
    done(at, &["exec", "two", "sh", "-c", &format!("echo other > other; {LINES} > new")]);
    assert_eq!(done(at, &["exec", "two", "sh", "-c", "cat other; tail -n 1 new"]), "other\n6000\n");
    assert_eq!(done(at, &["exec", "one", "tail", "-n", "1", "new"]), "6000\n");
}

#[test]
fn damaged_content_that_was_only_read_is_taken_from_the_disk_where_it_is_the_same() {
    let folder = scratch();
    let at = folder.path();
    std::fs::write(at.join("read"), lines()).unwrap();
    done(at, &["create", "--id", "box"]);
    done(at, &["exec", "box", "sh", "-c", "echo mine > mine; cat read > /dev/null"]);
    damage_lines(at);
    for _ in 0..2 {
        assert_eq!(done(at, &["exec", "box", "tail", "-n", "1", "read"]), "6000\n");
    }
    // The same bytes, at another time.
    damage_lines(at);
    std::fs::write(at.join("read"), lines()).unwrap();
    let output = call(at, &["exec", "box", "tail", "-n", "1", "read"]);
    assert_eq!((&*stdout(&output), &*stderr(&output)), ("6000\n", ""));
    damage_lines(at);
    std::fs::write(at.join("read"), "something else\n").unwrap();
    let output = call(at, &["exec", "box", "tail", "-n", "1", "read"]);
    let said = stderr(&output);
    assert!(!output.status.success());
    assert!(said.contains("the state of session box cannot be read in whole"), "{said}");
    assert!(said.contains("is damaged") && !said.contains("--discard"), "{said}");
    assert!(
        said.contains("`belljar sandbox refresh box` takes in what is on the disk now"),
        "{said}"
    );
    let copied = call(at, &["cp", "box:read", "copy"]);
    assert!(stderr(&copied).contains("the state of session box cannot be read in whole"));
    done(at, &["refresh", "box"]);
    assert_eq!(done(at, &["exec", "box", "cat", "read", "mine"]), "something else\nmine\n");
}

#[test]
fn session_whose_own_changes_are_damaged_can_be_used_again_without_them() {
    let folder = scratch();
    let at = folder.path();
    std::fs::write(at.join("kept"), "kept\n").unwrap();
    done(at, &["create", "--id", "box", "--env", "NAME=value"]);
    done(
        at,
        &["exec", "box", "sh", "-c", &format!("{LINES} > new; echo 1 > /tmp/one; sleep 1000")],
    );
    let time = done(at, &["exec", "box", "date", "+%s"]);
    damage_lines(at);
    for command in [&["exec", "box", "true"][..], &["diff", "box"], &["refresh", "box"]] {
        let output = call(at, command);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(
            said.contains("cannot resume session box") && said.contains("is damaged"),
            "{said}"
        );
        assert!(said.contains("`belljar sandbox refresh --discard box`"), "{said}");
    }
    let output = call(at, &["refresh", "--discard", "box"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "belljar: gave up all changes of the session\n");
    let seen = done(at, &["exec", "box", "sh", "-c", "ls; ls /tmp; echo $NAME; date +%s"]);
    let (files, now) = seen.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(files, "kept\nnote.txt\nvalue");
    assert!(now.parse::<u64>().unwrap() >= time.trim().parse().unwrap(), "{now} {time}");
}

/// A program only learns that it cannot read something.
#[test]
fn damaged_state_of_a_session_is_named_and_not_forked() {
    let folder = scratch();
    let at = folder.path();
    std::fs::create_dir(at.join("deep")).unwrap();
    std::fs::write(at.join("deep/file"), "deep\n").unwrap();
    done(at, &["create", "--id", "box"]);
    done(at, &["exec", "box", "ls", "-R"]);
    let contents = at.join(".home/contents");
    let of_directory =
        |path: &Path| std::fs::read_to_string(path).is_ok_and(|text| text.starts_with("{\"dir\":"));
    let cut = |which: &dyn Fn(&Path) -> bool| {
        let paths = std::fs::read_dir(&contents).unwrap().map(|entry| entry.unwrap().path());
        let paths: Vec<_> = paths.filter(|path| which(path)).collect();
        assert!(!paths.is_empty());
        for path in paths {
            std::fs::write(path, "").unwrap();
        }
    };
    cut(&of_directory);
    let output = call(at, &["exec", "box", "ls", "deep"]);
    let said = stderr(&output);
    assert!(!output.status.success());
    let remedy = "the state of session box cannot be read in whole, so programs get I/O errors";
    assert!(said.contains(remedy), "{said}");
    assert!(said.contains("`belljar sandbox refresh --discard box`"), "{said}");
    for command in ["apply", "refresh"] {
        let output = call(at, &[command, "box"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{command}: {said}");
        assert!(said.contains("`belljar sandbox refresh --discard box`"), "{command}: {said}");
    }
    done(at, &["refresh", "--discard", "box"]);
    assert_eq!(done(at, &["exec", "box", "cat", "deep/file"]), "deep\n");
    assert_eq!(done(at, &["exec", "box", "ls", "deep"]), "file\n");

    cut(&|_| true);
    let output = call(at, &["fork", "box", "--id", "second"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("is damaged"), "{}", stderr(&output));
    let listed = done(at, &["list"]);
    assert!(!listed.contains("second"), "{listed}");
}
