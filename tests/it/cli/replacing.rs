//! Files that options name: belljar replaces only files that it wrote itself.

use std::path::Path;
use std::process::Output;

use crate::cli::{guest_arg, run, scratch};
use crate::support::{belljar, stderr, stdout};

fn call(folder: &Path, args: &[&str]) -> Output {
    belljar(folder).args(args).output().unwrap()
}

/// Regression: reports, diffs, traces and tapes replaced any file that was named, without a message.
#[test]
fn output_options_do_not_replace_foreign_files() {
    let folder = scratch();
    let dir = folder.path();
    let git = "diff --git a/x b/x\nindex 5626abf..f719efd 100644\n--- a/x\n+++ b/x\n";
    let files = [
        ("notes.md", "# notes\n"),
        ("package.json", "{\"name\":\"mine\",\"version\":\"1.0\"}\n"),
        ("of-git.patch", git),
        ("lines.jsonl", "{\"status\":\"exited\"}\n{\"status\":\"exited\"}\n"),
    ];
    for (name, text) in files {
        std::fs::write(dir.join(name), text).unwrap();
    }
    let script = "echo ran > ran; echo ran";
    for (name, text) in files {
        let option = |option: &str| format!("{option}={name}");
        for args in [
            &["run", &option("--json"), "sh", "-c", script][..],
            &["run", &option("--diff"), "sh", "-c", script],
            &["run", &option("--trace"), "sh", "-c", script],
            &["sh", "--apply", &option("--json"), "-c", script],
            &["host", "call", &option("--json"), "workspace.cwd"],
            &["verify", &option("--json"), "--", "sh", "-c", script],
            &["record", "--apply", "--tape", name, "--", "sh", "-c", script],
        ] {
            let output = call(dir, args);
            let message = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
            let words = format!("cannot replace {name}: it is not a ");
            let next = "; name another file, or remove this one first";
            assert!(message.contains(&words) && message.contains(next), "{args:?}: {message}");
            assert_eq!(stdout(&output), "", "{args:?}: the program has not run");
            assert_eq!(std::fs::read_to_string(dir.join(name)).unwrap(), text, "{args:?}");
        }
    }
    assert!(!dir.join("ran").exists());
    // A refused run writes its report.
    call(dir, &["run", "--json=r.json", "--diff=notes.md", "wc"]);
    let report = std::fs::read_to_string(dir.join("r.json")).unwrap();
    assert!(report.contains("cannot replace notes.md"), "{report}");
    // The report of an invalid command line does not replace a foreign file either.
    call(dir, &["run", "--json=notes.md", "--timeout", "soon", "wc"]);
    assert_eq!(std::fs::read_to_string(dir.join("notes.md")).unwrap(), "# notes\n");
}

/// Regression: one of the two outputs was overwritten.
#[test]
fn two_options_cannot_name_one_file() {
    let folder = scratch();
    let dir = folder.path();
    let refused = |args: &[&str], words: &str| {
        let output = call(dir, args);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(words) && message.contains("name another file"), "{message}");
    };
    refused(
        &["run", "--json=same", "--diff=./same", "true"],
        "--diff: --json writes ./same as well",
    );
    refused(&["run", "--trace=same", "--diff=same", "true"], "--trace: --diff writes same as well");
    refused(
        &["record", "--tape=same", "--json=same", "true"],
        "--tape: --json writes same as well",
    );
    assert!(!dir.join("same").exists());
    if cfg!(unix) {
        let output = call(dir, &["run", "--json=/dev/null", "--diff=/dev/null", "true"]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
}

#[test]
fn session_report_does_not_replace_a_foreign_file() {
    let folder = scratch();
    let dir = folder.path();
    let home = dir.join(".home");
    let sandbox = |args: &[&str]| {
        belljar(dir).arg("sandbox").args(args).env("BELLJAR_HOME", &home).output().unwrap()
    };
    sandbox(&["create", "--id", "box"]);
    let exec = |name: &str| {
        let option = format!("--json={name}");
        sandbox(&["exec", &option, "box", "--", "sh", "-c", "echo more >> note.txt; cat note.txt"])
    };
    let refused = exec("note.txt");
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("--json: cannot replace note.txt"), "{}", stderr(&refused));
    for lines in 3..5 {
        let output = exec("r.json");
        assert_eq!(stdout(&output).lines().count(), lines, "{}", stderr(&output));
    }
}

/// A script can use the same output names on every run.
#[test]
fn output_options_replace_files_that_belljar_wrote() {
    let folder = scratch();
    let dir = folder.path();
    let changing = ["replace", "one", "1", "note.txt"];
    let (mut reports, trap) = (Vec::new(), guest_arg("trap"));
    for name in ["r", "d", "t", "tape", "tape.partial"] {
        std::fs::write(dir.join(name), "").unwrap();
    }
    for _ in 0..2 {
        let options = ["--json=r", "--diff=d", "--trace=t"];
        let output = run(dir, &[&options[..], &changing].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        for (args, code) in [
            (&["record", "-q", "--tape", "tape", "--json=r", "--", "wc", "note.txt"][..], 0),
            (&["run", "--json=r", "nothing"], 127),
            (&["run", "--json=r", "--trace=t", &trap, "divide"], 134),
            (&["sh", "--json=r", "--trace=t", "--diff=d", "-c", "exit 3"], 3),
            (&["verify", "-n", "2", "--json=r", "--", "wc", "note.txt"], 0),
            (&["host", "call", "--json=r", "workspace.cwd"], 0),
            (&["host", "call", "--json=r", "no.such"], 1),
            (&["run", "--json=r", "--timeout", "soon", "wc"], 2),
        ] {
            let output = call(dir, args);
            assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
            reports.push(std::fs::read_to_string(dir.join("r")).unwrap());
        }
    }
    assert!(reports.iter().all(|report| report.ends_with("}\n")), "{reports:?}");
    assert!(std::fs::read_to_string(dir.join("tape")).unwrap().starts_with("{\"version\""));
    // A tape of a later version is also recognised as a tape.
    let text = std::fs::read_to_string(dir.join("tape")).unwrap().replacen("1.4", "2.0", 1);
    std::fs::write(dir.join("tape"), text).unwrap();
    let again = call(dir, &["record", "-q", "--tape", "tape", "wc", "note.txt"]);
    assert!(again.status.success(), "{}", stderr(&again));
}

/// Regression: a manifest without a newline at its end, as some programs write JSON, was taken for a
/// truncated tape.
#[test]
fn a_manifest_with_a_version_is_not_taken_for_a_tape() {
    let folder = scratch();
    let manifest = r#"{"version":"3.1.0","name":"mine"}"#;
    std::fs::write(folder.path().join("lock.json"), manifest).unwrap();
    let args = ["record", "--tape", "lock.json", "seq", "1"];
    let output = belljar(folder.path()).args(args).output().unwrap();
    assert!(!output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("lock.json"), "{}", stderr(&output));
    let kept = std::fs::read_to_string(folder.path().join("lock.json")).unwrap();
    assert_eq!(kept, manifest);
}

/// Regression: `FILE.partial` was removed even if it was not a tape.
#[test]
fn a_file_that_is_called_partial_is_not_taken_for_a_tape() {
    let folder = scratch();
    let partial = folder.path().join("film.partial");
    std::fs::write(&partial, "half a film").unwrap();
    let output = call(folder.path(), &["record", "--tape", "film", "wc", "note.txt"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("film.partial: it is not a tape"), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(&partial).unwrap(), "half a film");
}

/// Regression: a report to `/dev/stdout` truncated the file that standard output was appended to.
#[cfg(unix)]
#[test]
fn report_to_dev_stdout_is_appended() {
    let folder = scratch();
    let log = folder.path().join("log");
    std::fs::write(&log, "earlier\n").unwrap();
    for (redirect, earlier) in [(">>", "earlier\n"), (">", "")] {
        let script = format!("\"$0\" run --quiet --json=/dev/stdout wc -l note.txt {redirect} log");
        let output = std::process::Command::new("bash")
            .args(["-c", &script, env!("CARGO_BIN_EXE_belljar")])
            .current_dir(folder.path())
            .env("BELLJAR_CACHE_DIR", crate::support::cache_dir())
            .env("BELLJAR_HOME", crate::support::home_dir())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let text = std::fs::read_to_string(&log).unwrap();
        let expected = format!("{earlier}2 note.txt\n{{\"status\":\"exited\"");
        assert!(text.starts_with(&expected), "{redirect}: {text}");
    }
    for name in ["/dev/null", "/dev/stderr"] {
        let option = format!("--json={name}");
        assert!(run(folder.path(), &[&option, "wc", "note.txt"]).status.success(), "{name}");
    }
}

/// Regression: the tapes `run` and `run.partial` removed each other's contents.
#[test]
fn tape_with_a_name_that_belongs_to_another_is_refused() {
    let folder = scratch();
    for name in ["run.partial", "run.cas"] {
        let output = call(folder.path(), &["record", "--tape", name, "--", "true"]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("belong to the tape NAME"), "{}", stderr(&output));
    }
}
