//! The programs `examples/*.rs`, which are built together with the tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{stderr, stdout};

fn example(name: &str, args: &[&Path], words: &[&str]) -> Output {
    let belljar = PathBuf::from(env!("CARGO_BIN_EXE_belljar"));
    let folder = belljar.parent().unwrap().join("examples");
    let program = folder.join(name).with_extension(std::env::consts::EXE_EXTENSION);
    let output = Command::new(&program).args(args).args(words).output();
    output.unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("note"), "one\ntwo\n").unwrap();
    folder
}

#[test]
fn run_tool_example_prints_the_diff() {
    let folder = folder();
    let output = example("run_tool", &[folder.path()], &["replace", "two", "three", "note"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let patch = stdout(&output);
    assert!(patch.contains("-two\n+three\n"), "{patch}");
    assert_eq!(std::fs::read_to_string(folder.path().join("note")).unwrap(), "one\ntwo\n");
    let output = example("run_tool", &[folder.path()], &["replace", "absent", "x", "note"]);
    assert!(stderr(&output).contains("replace ended with Some(1)"), "{}", stderr(&output));
}

#[test]
fn a_recorded_run_is_repeated_from_its_tape() {
    let (folder, tapes) = (folder(), tempfile::tempdir().unwrap());
    let tape = tapes.path().join("run.tape");
    let output = example("record_replay", &[folder.path(), &tape], &["wc", "-l", "note"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let printed = stdout(&output);
    assert!(printed.starts_with("2 note\nthe same in "), "{printed}");
    assert!(tape.exists());
}
