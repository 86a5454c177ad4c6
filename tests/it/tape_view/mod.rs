//! `tape view`: the file that it writes, and the page in a browser: `browser.py` drives headless Chromium.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{
    belljar, number_from_env, package, scratch_of_build, skipped, stderr, stdout,
};

/// Records of the long tape, unless `BELLJAR_TEST_VIEW_RECORDS` gives another number.
const LONG_RECORDS: usize = 50_000;

/// A folder with `run.tape`, of a script whose processes read, write, print and fail, and `other.tape`, of one that differs.
fn recorded() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    std::fs::create_dir(dir.join("tree")).unwrap();
    let script = "sort in.txt | uniq -c > counts.txt; cat counts.txt missing.txt; sleep 3; rm old.txt; echo done >&2";
    for (tape, input) in [("run.tape", "b\na\nb\n"), ("other.tape", "b\na\nb\nc\n")] {
        std::fs::write(dir.join("tree/in.txt"), input).unwrap();
        std::fs::write(dir.join("tree/old.txt"), "old\n").unwrap();
        let args = ["record", "-q", "--worktree", "tree", "--tape", tape, "--", "sh", "-c", script];
        let output = belljar(dir).args(args).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    folder
}

fn view(dir: &Path, args: &[&str]) -> std::process::Output {
    belljar(dir).args(["tape", "view"]).args(args).output().unwrap()
}

fn viewed(dir: &Path, args: &[&str]) -> String {
    let output = view(dir, args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

#[test]
fn the_page_is_written_beside_the_tape_or_where_it_is_asked_for() {
    let folder = recorded();
    let dir = folder.path();
    assert_eq!(viewed(dir, &["run.tape"]), "run.tape.html\n");
    let page = std::fs::read_to_string(dir.join("run.tape.html")).unwrap();
    assert!(page.starts_with("<!doctype html>\n"));
    assert_eq!(viewed(dir, &["run.tape", "-o", "-"]), page);
    let report: Value =
        serde_json::from_str(&viewed(dir, &["run.tape", "other.tape", "-o", "p.html", "--json"]))
            .unwrap();
    assert_eq!(report["page"], "p.html");
    assert_eq!(report["bytes"], std::fs::metadata(dir.join("p.html")).unwrap().len());
    assert_eq!(report["tapes"][1]["tape"], "other.tape");
    assert!(report["differences"]["count"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(report["differences"]["first"]["category"], "file_stat.changed", "{report}");
    let report: Value =
        serde_json::from_str(&viewed(dir, &["run.tape", "run.tape", "--json"])).unwrap();
    assert_eq!(report["differences"]["count"], 0);
    assert_eq!(report["differences"]["first"], Value::Null);
    let output = view(dir, &["run.tape", "-o", "-", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("name a file with -o"), "{}", stderr(&output));
}

#[test]
fn the_page_replaces_an_earlier_page_and_nothing_else() {
    let folder = recorded();
    let dir = folder.path();
    std::fs::write(dir.join("run.tape.html"), "<!doctype html>\n<title>Mine</title>").unwrap();
    let output = view(dir, &["run.tape"]);
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    assert!(message.contains("it is not a page of belljar; name another file"), "{message}");
    assert_eq!(
        std::fs::read_to_string(dir.join("run.tape.html")).unwrap(),
        "<!doctype html>\n<title>Mine</title>"
    );
    // Nor the tape, though it was named by mistake.
    assert_eq!(view(dir, &["run.tape", "-o", "other.tape"]).status.code(), Some(2));
    std::fs::remove_file(dir.join("run.tape.html")).unwrap();
    for _ in 0..2 {
        viewed(dir, &["run.tape"]);
    }
    let output = view(dir, &["missing.tape"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("belljar record --tape missing.tape"), "{}", stderr(&output));
}

#[test]
fn damaged_and_unfinished_tapes_are_shown_up_to_there_with_a_warning() {
    let folder = recorded();
    let dir = folder.path();
    let whole = std::fs::read_to_string(dir.join("run.tape")).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    std::fs::write(dir.join("cut.tape"), &whole[..whole.len() - 20]).unwrap();
    let output = view(dir, &["cut.tape", "--json"]);
    assert!(output.status.success());
    assert!(
        stderr(&output).contains("the last line of cut.tape is cut off"),
        "{}",
        stderr(&output)
    );
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["tapes"][0]["cut_off"], true);
    assert_eq!(report["tapes"][0]["records"], lines.len() - 2);
    let damaged = [&lines[..6], &["{}"], &lines[6..]].concat().join("\n") + "\n";
    std::fs::write(dir.join("damaged.tape"), damaged).unwrap();
    let output = view(dir, &["damaged.tape", "--json"]);
    assert!(output.status.success());
    assert!(
        stderr(&output).contains("damaged.tape, line 7: invalid record"),
        "{}",
        stderr(&output)
    );
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["tapes"][0]["records"], 5);
    // Two tapes are compared as wholes.
    let output = view(dir, &["run.tape", "damaged.tape"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!dir.join("run.tape.html").exists());
}

/// Regression: which process of a pipeline read a file was not on the tape.
#[test]
fn records_of_files_tell_whose_turn_it_was_and_older_tapes_replay_without() {
    let folder = recorded();
    let dir = folder.path();
    let whole = std::fs::read_to_string(dir.join("run.tape")).unwrap();
    let records: Vec<Value> =
        whole.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let turn_of = |kind: &str, path: &str| {
        let found = records.iter().find(|it| it["kind"] == kind && it["path"] == path);
        found.unwrap_or_else(|| panic!("{kind} {path}"))["turn"].clone()
    };
    let pid_of = |program: &str| {
        let found =
            records.iter().find(|it| it["kind"] == "process_spawn" && it["program"] == program);
        found.unwrap_or_else(|| panic!("{program}"))["pid"].clone()
    };
    assert_eq!(turn_of("file_read", "/worktree/in.txt"), pid_of("sort"));
    assert_eq!(turn_of("file_stat", "/worktree/missing.txt"), pid_of("cat"));
    assert_eq!(turn_of("file_delete", "/worktree/old.txt"), pid_of("rm"));
    for record in &records {
        let has_turn = record.get("turn").is_some();
        assert!(!has_turn || record.get("pid").is_none() && record["phase"] == "run", "{record}");
    }
    let older = regex::Regex::new(r#""turn":\d+,"#).unwrap().replace_all(&whole, "");
    let older = older.replacen("\"1.16\"", "\"1.12\"", 1);
    assert!(older.len() < whole.len());
    std::fs::write(dir.join("run.tape"), older).unwrap();
    let output = belljar(dir).args(["replay", "-q", "run.tape"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    // A turn is compared where it is there.
    let wrong = regex::Regex::new(r#""turn":\d+,"#).unwrap().replace(&whole, r#""turn":77,"#);
    std::fs::write(dir.join("run.tape"), &*wrong).unwrap();
    let output = belljar(dir).args(["replay", "-q", "run.tape"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("turn: tape 77, run "), "{}", stderr(&output));
}

#[test]
fn fidelity_shows_the_contents_that_differ() {
    let folder = recorded();
    let dir = folder.path();
    let fidelity = |args: &[&str]| {
        let output = belljar(dir).args(["fidelity", "run.tape", "other.tape"]).args(args).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        stdout(&output)
    };
    let shown = fidelity(&[]);
    assert!(shown.contains("    |  b\n    |  a\n    |  b\n    | +c\n"), "{shown}");
    assert!(shown.contains("    | +      1 c\n"), "{shown}");
    let outcome = fidelity(&["--mode", "outcome"]);
    assert!(outcome.contains("    | +      1 c\n"), "{outcome}");
    let report: Value = serde_json::from_str(&fidelity(&["--json"])).unwrap();
    let divergences = report["divergences"].as_array().unwrap();
    let read = divergences.iter().find(|it| it["category"] == "file_read.changed").unwrap();
    let difference = &read["contents"][0];
    assert_eq!(difference["field"], "content_hash");
    assert_eq!(difference["is_text"], true);
    // Without the store there is a reason.
    std::fs::remove_dir_all(dir.join("other.tape.cas")).unwrap();
    let shown = fidelity(&[]);
    assert!(shown.contains("not compared: the replayed content cannot be read"), "{shown}");
}

/// The text of a hostile tape reaches the page only packed; its length does not reach it at all.
#[test]
fn a_hostile_tape_makes_a_page_of_bounded_length_without_its_texts() {
    let Some(mut python) = python("tapes.py", "the page of a hostile tape") else { return };
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    assert!(python.args(["hostile"]).arg(dir.join("hostile.tape")).status().unwrap().success());
    let page = viewed(dir, &["hostile.tape", "-o", "-"]);
    assert!(!page.contains("owned") && !page.contains("onerror"));
    assert!(page.len() < 1 << 20, "{}", page.len());
    let small = viewed(dir, &["hostile.tape", "-o", "-", "--max-page", "10k"]);
    assert!(small.len() < page.len(), "{} {}", small.len(), page.len());
}

/// Python for the script `name` beside this file. Without Python prints that `test` was skipped.
fn python(name: &str, test: &str) -> Option<Command> {
    if !crate::support::has("python3", test) {
        return None;
    }
    let mut python = Command::new("python3");
    python.env("PYTHONDONTWRITEBYTECODE", "1").arg(script(name));
    Some(python)
}

fn script(name: &str) -> PathBuf {
    package().join("tests/it/tape_view").join(name)
}

/// The browser's driver: chromedriver, the Python package selenium in `target/selenium`, and axe in `target/axe`. If one is
/// absent, prints that the test was skipped; with `BELLJAR_REQUIRE_CHROMIUM`, its absence is a failure.
fn browser(test: &str) -> Option<Command> {
    let (selenium, axe) = (
        package().join("target/selenium"),
        package().join("target/axe/node_modules/axe-core/axe.min.js"),
    );
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let missing = [
        (!runs("chromedriver"), "chromedriver"),
        (!selenium.is_dir(), "the Python package selenium in target/selenium"),
        (!axe.is_file(), "the npm package axe-core in target/axe"),
    ];
    if let Some((_, what)) = missing.into_iter().find(|(is_missing, _)| *is_missing) {
        assert!(std::env::var_os("BELLJAR_REQUIRE_CHROMIUM").is_none(), "{test} needs {what}");
        skipped(test, &format!("no {what}"));
        return None;
    }
    let mut python = python("browser.py", test)?;
    let shots = scratch_of_build().join("tape-view");
    std::fs::create_dir_all(&shots).unwrap();
    python.env("PYTHONPATH", selenium).env("AXE", axe).env("SHOTS", shots);
    Some(python)
}

/// Drives the page through the checks of the function `check` of `browser.py`.
fn drive(mut browser: Command, check: &str, page: &Path) {
    let output = browser.arg(check).arg(page).output().unwrap();
    assert!(output.status.success(), "{check}: {}{}", stdout(&output), stderr(&output));
}

#[test]
fn browser_shows_a_run() {
    let Some(browser) = browser("the page of a run") else { return };
    let folder = recorded();
    let dir = folder.path();
    let said = ["--kind", "note", "--author", "ann", "--evidence", "here <b>it</b> fails"];
    if cfg!(feature = "annotations") {
        let annotate = ["annotate", "run.tape", "--event", "8"];
        let output = belljar(dir).args(annotate).args(said).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    viewed(dir, &["run.tape"]);
    drive(browser, "run", &dir.join("run.tape.html"));
}

#[test]
fn browser_shows_two_runs_side_by_side() {
    let Some(browser) = browser("the page of two runs") else { return };
    let folder = recorded();
    viewed(folder.path(), &["run.tape", "other.tape", "-o", "two.html"]);
    drive(browser, "two", &folder.path().join("two.html"));
}

#[test]
fn browser_runs_nothing_of_a_hostile_tape() {
    let Some(browser) = browser("the page of a hostile tape in a browser") else { return };
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    for (name, turn) in [("hostile.tape", "0"), ("turned.tape", "5")] {
        let mut tapes = python("tapes.py", "hostile").unwrap();
        assert!(tapes.arg("hostile").arg(dir.join(name)).arg(turn).status().unwrap().success());
    }
    viewed(dir, &["hostile.tape", "turned.tape"]);
    drive(browser, "hostile", &dir.join("hostile.tape.html"));
}

#[test]
fn browser_scrolls_and_searches_a_long_tape() {
    let Some(mut browser) = browser("the page of a long tape") else { return };
    let records = number_from_env("BELLJAR_TEST_VIEW_RECORDS", LONG_RECORDS);
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let mut tapes = python("tapes.py", "long").unwrap();
    let long = dir.join("long.tape");
    assert!(tapes.arg("long").arg(&long).arg(records.to_string()).status().unwrap().success());
    viewed(dir, &["long.tape"]);
    browser.env("RECORDS", records.to_string());
    drive(browser, "long", &dir.join("long.tape.html"));
}
