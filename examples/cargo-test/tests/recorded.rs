//! Git is recorded once, in `tests/tapes`, and does not run again.

use std::process::Command;

use line_counts::changed_lines;

/// Git in `tests/data`: recorded on the tape of the test `name`, or replayed from it.
fn git(name: &str) -> Command {
    let mut command = Command::new("belljar");
    command.args(["native", "--quiet", "--root", "tests/data", "--tape"]);
    command.arg(format!("tests/tapes/{name}.jsonl"));
    if std::env::var_os("BELLJAR_UPDATE").is_some() {
        command.arg("--record");
    } else if std::env::var_os("CI").is_some() {
        // A tape that nobody committed is an error there.
        command.arg("--replay");
    }
    command.arg("git");
    command
}

#[test]
fn changed_lines_are_counted() {
    assert_eq!(changed_lines(git("changed"), "old.txt", "new.txt").unwrap(), (2, 1));
}

#[test]
fn equal_files_have_no_changed_lines() {
    assert_eq!(changed_lines(git("equal"), "old.txt", "old.txt").unwrap(), (0, 0));
}

#[test]
fn a_missing_file_is_an_error_with_the_words_of_git() {
    let error = changed_lines(git("missing"), "old.txt", "absent.txt").unwrap_err();
    assert!(error.to_string().contains("absent.txt"), "{error}");
}
