//! `belljar host`, and calls of the host in runs, recordings and replays.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use super::scratch;
use crate::support::{belljar, package, stderr, stdout};

fn host(folder: &Path, args: &[&str]) -> Output {
    belljar(folder).arg("host").args(args).output().unwrap()
}

fn answer(output: &Output) -> Value {
    serde_json::from_str(stdout(output).lines().next().unwrap()).unwrap()
}

#[test]
fn manifest_is_printed_as_text_and_json() {
    let folder = scratch();
    let text = stdout(&host(folder.path(), &["manifest"]));
    assert!(text.lines().any(|line| line.starts_with("process.exec  ")), "{text}");
    let manifest = answer(&host(folder.path(), &["manifest", "--json"]));
    let ops = json!([
        "exec",
        "get_default_shell",
        "list_shells",
        "set_default_shell",
        "shell_invocation"
    ]);
    assert_eq!(manifest["process"]["ops"], ops);
    assert_eq!(manifest["workspace"]["operations"]["cwd"]["mocked"], false);
}

#[test]
fn host_call_prints_its_result() {
    let folder = scratch();
    let output = host(folder.path(), &["call", "workspace.cwd"]);
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("/worktree\n", Some(0)));
    let params = r#"{"command": "wc -l < note.txt; echo more >> note.txt"}"#;
    let output = host(folder.path(), &["call", "process.exec", "--params", params, "--json"]);
    assert_eq!(answer(&output)["ok"]["stdout"], "2\n");
    assert!(stderr(&output).contains("1 change (note.txt modified)"), "{}", stderr(&output));
    let apply = ["call", "--apply", "process.exec", "--params", params, "--quiet"];
    assert_eq!(host(folder.path(), &apply).status.code(), Some(0));
    let note = std::fs::read_to_string(folder.path().join("note.txt")).unwrap();
    assert_eq!(note, "one\ntwo\nmore\n");
}

#[test]
fn parameters_come_from_the_command_line_a_file_or_standard_input() {
    let folder = scratch();
    let params = json!({ "text": "{{ n }}", "vars": { "n": 1 } }).to_string();
    std::fs::write(folder.path().join("p.json"), &params).unwrap();
    for given in [params.as_str(), "@p.json"] {
        let output = host(folder.path(), &["call", "template.render", "--params", given]);
        assert_eq!(stdout(&output), "1\n", "{}", stderr(&output));
    }
    let mut child = belljar(folder.path())
        .args(["host", "call", "template.render", "--params", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(params.as_bytes()).unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), "1\n");
    for (args, message) in [
        (&["--params", "{"][..], "--params is not JSON: EOF"),
        (&["--params", "{\"a\":1,\"a\":2}"], "duplicate field"),
        (&["--params", "@none"], "--params: cannot"),
        (&["--argv0", "x"], "--argv0 is not an option of calls"),
        // Regression: the argument was ignored.
        (&["{}"], "parameters come after --params"),
        (&["--host-policy", "none"], "--host-policy: cannot"),
        (&["--host-answers", "p.json"], "expected a list of strings"),
    ] {
        let output = host(folder.path(), &[&["call", "workspace.cwd"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn failed_host_call_names_the_next_step() {
    let folder = scratch();
    for (operation, params, expected) in [
        ("process.exce", "{}", "(did you mean process.exec?"),
        ("interaction.ask", r#"{"question": "well?"}"#, "(--host-answers"),
        ("net.http", r#"{"url": "http://example.com"}"#, "(--allow-net can allow it)"),
    ] {
        let output = host(folder.path(), &["call", operation, "--params", params]);
        assert_eq!(output.status.code(), Some(1), "{operation}");
        assert!(stderr(&output).contains(expected), "{operation}: {}", stderr(&output));
    }
}

/// Regression: the help showed the examples of `belljar run`.
#[test]
fn the_help_of_calls_has_examples_of_calls() {
    let folder = scratch();
    for option in ["-h", "--help"] {
        let help = stdout(&host(folder.path(), &["call", option]));
        assert!(help.contains("belljar host call process.exec --params"), "{help}");
        assert!(!help.contains("belljar run wc"), "{help}");
    }
}

#[test]
fn failed_and_blocked_host_calls_have_their_own_exit_codes() {
    let folder = scratch();
    let output = host(folder.path(), &["call", "x.y"]);
    assert_eq!(output.status.code(), Some(1));
    let said =
        "belljar: unsupported operation x.y (`belljar host manifest` lists all operations)\n";
    assert_eq!(stderr(&output), said);
    let output = host(folder.path(), &["call", "x.y", "--json"]);
    let error =
        json!({ "error": { "kind": "unsupported", "message": "unsupported operation x.y" } });
    assert_eq!(answer(&output), error);
    std::fs::write(folder.path().join("p.json"), "{\"version\": 1,\n\"deny\": [\"rm\"]}").unwrap();
    let params = r#"{"argv": ["rm", "note.txt"]}"#;
    let policy = ["--host-policy", "p.json", "--json"];
    let output =
        host(folder.path(), &[&["call", "process.exec", "--params", params][..], &policy].concat());
    assert_eq!(output.status.code(), Some(126));
    let answer = answer(&output);
    let blocked = &answer["ok"]["blocked_by"];
    assert_eq!((&blocked["file"], &blocked["line"]), (&json!("p.json"), &json!(2)));
    std::fs::write(folder.path().join("bad.json"), "{\"version\": 1,\n\"denied\": []}").unwrap();
    let output = host(folder.path(), &["call", "workspace.cwd", "--host-policy", "bad.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("bad.json, line 2: unknown field `denied`"));
}

#[test]
fn recorded_host_calls_are_replayed_without_the_host() {
    let folder = scratch();
    std::fs::write(folder.path().join("a.json"), "[\"blue\"]").unwrap();
    std::fs::write(folder.path().join("p.json"), "{\"version\": 1, \"deny\": [\"rm\"]}").unwrap();
    let script = "ask interaction.ask '{\"question\":\"color?\"}'
        ask runtime.task
        ask runtime.set_result '{\"value\":{\"n\":1}}'
        rm note.txt
        ask process.exec '{\"command\":\"x=rm; $x note.txt\"}'
        ask -h process.exec db";
    let toolchain = package().join("guest-examples");
    let with = |args: &[&str]| {
        belljar(folder.path()).args(args).arg("--toolchain").arg(&toolchain).output().unwrap()
    };
    let mut record = belljar(folder.path());
    record.args(["record", "--tape", "t.tape", "--host-answers", "a.json", "--host-task", "go"]);
    record.args(["--host-policy", "p.json", "--json=r.json", "--quiet", "--toolchain"]);
    let recorded = record.arg(&toolchain).args(["--", "sh", "-c", script]).output().unwrap();
    let printed = stdout(&recorded);
    assert!(printed.contains("{\"answer\":\"blue\"}") && printed.contains("{\"ok\":\"go\"}"));
    assert!(printed.contains("\"status\":\"blocked\"") && printed.contains("db no"), "{printed}");
    assert!(stderr(&recorded).contains("rm: blocked by the command policy: deny `rm`"));
    let report = std::fs::read_to_string(folder.path().join("r.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["host_result"], json!({ "n": 1 }));
    for file in ["a.json", "p.json"] {
        std::fs::remove_file(folder.path().join(file)).unwrap();
    }
    let replayed = with(&["replay", "t.tape"]);
    assert_eq!(stdout(&replayed), printed, "{}", stderr(&replayed));
    assert!(stderr(&replayed).contains("the run is the same"), "{}", stderr(&replayed));
}

#[test]
fn question_without_configured_answers_is_an_error() {
    let folder = scratch();
    let toolchain = package().join("guest-examples");
    let output = belljar(folder.path())
        .args(["run", "--toolchain"])
        .arg(toolchain)
        .args(["ask", "interaction.ask", "{\"question\":\"color?\"}"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("no answers are configured"), "{}", stdout(&output));
}

/// `verify` does not read these files: only its runs do.
#[test]
fn verify_passes_policy_and_answers_to_its_runs() {
    let folder = scratch();
    std::fs::write(folder.path().join("bad.json"), "{\n\"denied\": []}").unwrap();
    for option in ["--host-policy", "--host-answers"] {
        let verify = |file: &str| {
            let args = ["verify", "-n", "2", option, file, "--", "wc", "note.txt"];
            belljar(folder.path()).args(args).output().unwrap()
        };
        let output = verify("bad.json");
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let message = stderr(&output);
        assert!(message.contains(&format!("{option}: bad.json, line")), "{message}");
    }
    let task = ["verify", "-n", "2", "--host-task", "go", "--max-host-call", "1K", "--", "wc"];
    let output = belljar(folder.path()).args(task).args(["note.txt"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}
