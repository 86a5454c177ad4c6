//! `verify` and `fidelity`.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::{guest_arg, scratch};
use crate::support::{belljar, stderr, stdout};

fn call(folder: &Path, args: &[&str]) -> Output {
    belljar(folder).args(args).output().unwrap()
}

fn verify(folder: &Path, args: &[&str]) -> (Option<i32>, Value) {
    let output = call(folder, &[&["verify", "-q", "-n", "2", "--report-json"], args].concat());
    let report = serde_json::from_str(&stdout(&output));
    (output.status.code(), report.unwrap_or_else(|_| panic!("{args:?}: {}", stderr(&output))))
}

#[test]
fn what_depends_on_its_files_alone_is_proved_so() {
    let folder = scratch();
    std::fs::create_dir(folder.path().join("unread")).unwrap();
    let (walk, random, clock) = (guest_arg("walk"), guest_arg("random"), guest_arg("clock"));
    let overwrite = guest_arg("overwrite");
    for args in [
        &["wc", "note.txt"][..],
        &["replace", "one", "two", "note.txt"],
        &["sha256sum", "note.txt", "gone"],
        &[&walk, "."],
        &[&random],
        &[&clock],
        &[&overwrite, "rename:note.txt:unread/note.txt"],
        &["--dir", ".::/twice::ro", &walk, "/twice"],
    ] {
        let (code, report) = verify(folder.path(), args);
        assert_eq!((code, &report["equal"]), (Some(0), &true.into()), "{args:?}: {report}");
    }
    assert!(folder.path().join("note.txt").exists());
}

#[test]
fn what_depends_on_more_is_found_and_its_cause_named() {
    let folder = scratch();
    let (walk, env, clock, sleeper) =
        (guest_arg("walk"), guest_arg("env"), guest_arg("clock"), guest_arg("sleeper"));
    let user = "USER";
    for (args, cause) in [
        (&["--clock", "real", &clock][..], "--clock real"),
        (&["--clock", "real", &sleeper, "1"], "--clock real"),
        (&["--env", user, &env], "--env"),
        (&["--env", "LANG", &env], "--env"),
        (&["--env", "BELLJAR_VERIFY", &env], "--env"),
        (&["--mtimes", "host", &walk, "."], "--mtimes host"),
        (&["--mtimes", "host", "wc", "note.txt"], "--mtimes host"),
    ] {
        let (code, report) = verify(folder.path(), args);
        assert_eq!((code, &report["equal"]), (Some(1), &false.into()), "{args:?}: {report}");
        assert!(report["cause"].as_str().unwrap().contains(cause), "{args:?}: {report}");
    }
}

#[test]
fn standard_input_is_the_same_for_all_runs() {
    let folder = scratch();
    let mut command = belljar(folder.path());
    command.args(["verify", "-q", "--", "wc"]).stdin(std::process::Stdio::piped());
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"one\ntwo\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(stdout(&output).starts_with("3 runs are the same, in "), "{}", stdout(&output));
}

#[test]
fn verify_says_what_it_cannot_do() {
    let folder = scratch();
    let output = call(folder.path(), &["verify", "--apply", "--", "wc", "note.txt"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("leave out --apply"));
    let output = call(folder.path(), &["verify", "--", "nothing"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("no program \"nothing\""), "{}", stderr(&output));
}

#[test]
fn one_inserted_event_is_one_divergence() {
    let folder = scratch();
    let dir = folder.path();
    let record = |tape: &str, args: &[&str]| {
        let output = call(dir, &[&["record", "-q", "--tape", tape, "--"], args].concat());
        assert!(output.status.success(), "{}", stderr(&output));
    };
    record("a.tape", &["wc", "note.txt"]);
    let text = std::fs::read_to_string(dir.join("a.tape")).unwrap();
    let (header, records) = text.split_once('\n').unwrap();
    let mut records: Vec<Value> =
        records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut inserted = records[4].clone();
    inserted["kind"] = "extra".into();
    records.insert(4, inserted);
    let mut other = header.to_owned();
    for (seq, mut record) in records.into_iter().enumerate() {
        record["seq"] = seq.into();
        other = format!("{other}\n{record}");
    }
    std::fs::write(dir.join("b.tape"), other + "\n").unwrap();
    for mode in ["byte-identical", "semantic"] {
        let output = call(dir, &["fidelity", "--json", "--mode", mode, "a.tape", "b.tape"]);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(report["divergence_count"], 1, "{mode}: {report}");
    }
    let output = call(dir, &["fidelity", "--mode", "outcome", "a.tape", "b.tape"]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert_eq!(call(dir, &["fidelity", "a.tape", "a.tape"]).status.code(), Some(0));
    assert_eq!(call(dir, &["fidelity", "a.tape", "gone"]).status.code(), Some(2));
}
