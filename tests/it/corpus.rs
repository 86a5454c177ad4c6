//! The corpus of runs whose bytes are the same on every system.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{belljar, package, stderr, stdout};

/// What `belljar doctor --self-test` prints, with the programs of `guest-examples`, and its exit code.
fn self_test(arguments: &[&str]) -> (Option<i32>, Value) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = belljar(folder.path());
    command.args(["doctor", "--self-test", "--json"]).args(arguments);
    if let Some(home) = std::env::var_os("BELLJAR_TEST_CORPUS_HOME") {
        command.env("BELLJAR_HOME", home);
    }
    let output = command.output().unwrap();
    let report = serde_json::from_str(&stdout(&output));
    (output.status.code(), report.unwrap_or_else(|error| panic!("{error}: {}", stderr(&output))))
}

/// With `BELLJAR_TEST_BLESS`, the digests become those of this machine; build belljar again then.
#[test]
fn runs_have_the_bytes_of_other_systems() {
    let guests = package().join("guest-examples").display().to_string();
    // With `BELLJAR_TEST_CORPUS_HOME`, also the programs of toolchains that are installed there: see `.ci/elsewhere`.
    let (code, report) = self_test(&["--toolchain", &guests]);
    let runs = report["runs"].as_array().unwrap();
    if std::env::var_os("BELLJAR_TEST_BLESS").is_some() {
        let path = package().join("tests/corpus/digests.json");
        let text = std::fs::read_to_string(&path).unwrap();
        let mut digests: BTreeMap<String, Value> = serde_json::from_str(&text).unwrap();
        for run in runs.iter().filter(|run| run["found"].is_object()) {
            digests.insert(run["name"].as_str().unwrap().to_owned(), run["found"].clone());
        }
        std::fs::write(path, serde_json::to_string_pretty(&digests).unwrap() + "\n").unwrap();
        return;
    }
    let of = |result: &str| runs.iter().filter(|run| run["result"] == result).count();
    assert_eq!((code, &report["equal"]), (Some(0), &Value::Bool(true)), "{report:#}");
    assert!(of("equal") >= 12 && of("differs") + of("failed") == 0, "{report:#}");
}

#[test]
fn rows_of_programs_that_are_not_there_are_left_out() {
    let (code, report) = self_test(&[]);
    assert_eq!(code, Some(0), "{report:#}");
    let runs = report["runs"].as_array().unwrap();
    let of_guests = runs.iter().find(|run| run["name"] == "guest programs").unwrap();
    assert_eq!(of_guests["result"], "left_out");
    assert_eq!(
        of_guests["why"],
        "no hello; install its toolchain, or name it with --toolchain DIR"
    );
}

#[test]
fn a_run_that_differs_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    // Another program of a name that a row needs.
    let other = folder.path().join("tools");
    crate::support::copy_tree(&package().join("guest-examples"), &other);
    std::fs::copy(crate::support::guest("env"), other.join("hello.wasm")).unwrap();
    let (other, kept) = (other.display().to_string(), folder.path().join("kept"));
    let keep = kept.display().to_string();
    let (code, report) = self_test(&["--toolchain", &other, "--keep", &keep]);
    assert_eq!((code, &report["equal"]), (Some(1), &Value::Bool(false)), "{report:#}");
    let runs = report["runs"].as_array().unwrap();
    let differs: Vec<&Value> = runs.iter().filter(|run| run["result"] == "differs").collect();
    assert_eq!(differs.len(), 1, "{report:#}");
    assert_eq!(
        (&differs[0]["name"], &differs[0]["why"]),
        (&"guest programs".into(), &"the output differs".into())
    );
    let stdout = std::fs::read_to_string(kept.join("guest programs/stdout")).unwrap();
    assert!(stdout.starts_with("argv[0]=hello\n"), "{stdout}");
}
