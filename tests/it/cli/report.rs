//! The outputs of `--json`, `--diff` and `--trace`.

use std::path::Path;

use serde_json::Value;

use crate::cli::{guest_arg, run, scratch};
use crate::support::{guest, stderr, stdout};

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}

#[test]
fn report_has_outcome_and_changes() {
    let folder = scratch();
    let output = run(folder.path(), &["--json", "--quiet", "replace", "one", "1", "note.txt"]);
    let printed = stdout(&output);
    let report: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    assert_eq!((&report["status"], &report["exit_code"]), (&"exited".into(), &0.into()));
    assert_eq!(report["applied"], false);
    assert_eq!(report["changes"][0]["path"], "note.txt");
    assert_eq!(report["changes"][0]["kind"], "modified");
    assert_eq!(report["changes"][0]["mount"], "/worktree");
    assert_eq!(report["virtual_time_ms"], 0);
    assert!(report["timings"]["run_ms"].as_f64().unwrap() > 0.0);

    let output = run(folder.path(), &["--json", &guest_arg("exit"), "42"]);
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(output.status.code(), Some(42));
    assert_eq!(report["guest_exit_code"], 42);
    let sleeper = guest_arg("sleeper");
    let output = run(folder.path(), &["--json=r.json", &sleeper, "90000"]);
    assert_eq!(stdout(&output), "90000 ms\n");
    let report = std::fs::read_to_string(folder.path().join("r.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&report).unwrap()["virtual_time_ms"], 90000);
}

/// The beginning of a report of an earlier run.
const EARLIER: &str = r#"{"status":"exited","exit_code":77,"guest_exit_code":77,"limits_hit":[],"virtual_time_ms":1}"#;

/// Every run writes a report, however it ends; a report of an earlier run never remains.
#[test]
fn every_outcome_writes_a_report() {
    let folder = scratch();
    let dir = folder.path();
    let path = dir.join("r.json");
    let docs = std::fs::read_to_string(crate::support::package().join("docs/cli.md")).unwrap();
    std::fs::write(dir.join("text.wasm"), "no module").unwrap();
    let (trap, looping, spew, exit, missing) = (
        guest_arg("trap"),
        guest_arg("loop"),
        guest_arg("spew"),
        guest_arg("exit"),
        guest_arg("missing_import"),
    );
    let cases: &[(&[&str], i32, &str, &str)] = &[
        (&["wc", "note.txt"], 0, "exited", ""),
        (&["--cache-results", "replace", "one", "three", "note.txt"], 0, "exited", ""),
        (&[&exit, "7"], 7, "exited", ""),
        (&["nothing"], 127, "not_started", "no program \"nothing\""),
        (&["./gone.wasm"], 127, "not_started", "gone.wasm"),
        (&["text.wasm"], 126, "not_started", "not a WebAssembly module"),
        (&["--unknown-imports", "deny", &missing], 126, "not_started", "env.nowhere"),
        (&["--dir", "gone::/x", "wc"], 2, "not_started", "--dir gone::/x"),
        (&["--toolchain", "gone", "wc"], 2, "not_started", "--toolchain"),
        (&["--stdin", "gone", "wc"], 2, "not_started", "--stdin"),
        (&["--trace=gone/x", "wc"], 2, "not_started", "--trace"),
        (&["--cwd", "/gone", "wc"], 2, "not_started", "/gone"),
        (&["--aply", "wc"], 2, "not_started", "--aply"),
        (&["--timeout", "soon", "wc"], 2, "not_started", "soon"),
        (&["--dir", "::", "wc"], 2, "not_started", "HOST::GUEST"),
        (&[], 2, "not_started", "<PROGRAM>"),
        (&[&trap, "divide"], 134, "trapped", "divide"),
        (&["--timeout", "50ms", &looping], 124, "timed_out", "timeout"),
        (&["--fuel", "1000", &looping], 124, "timed_out", "fuel"),
        (&["--max-output", "1K", &spew, "1"], 134, "limit", "output"),
    ];
    for (args, code, status, words) in cases {
        std::fs::write(&path, EARLIER).unwrap();
        let output = run(dir, &[&["--json=r.json"][..], args].concat());
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {}", stderr(&output));
        let report = read(&path);
        assert_eq!(report["exit_code"], *code, "{args:?}: {report}");
        assert_eq!(report["status"], *status, "{args:?}: {report}");
        let error = report["error"].as_str().unwrap_or_default();
        assert!(
            error.contains(words) && error.is_empty() == words.is_empty(),
            "{args:?}: {report}"
        );
        let fields = report.as_object().unwrap();
        assert_eq!(fields.len(), 25, "{report}");
        // Machines read these: each one is in the table of the documentation, also those of its parts.
        let parts = [&report["changes"][0], &report["timings"], &report["results"]];
        let parts = parts.iter().filter_map(|part| part.as_object());
        for field in parts.chain([fields]).flat_map(|part| part.keys()) {
            assert!(docs.contains(&format!("`{field}`")), "{field} is not documented");
        }
    }
}

/// Arguments after PROGRAM are never options of belljar, even if belljar's own options are invalid.
#[test]
fn report_option_after_program_writes_no_report() {
    let folder = scratch();
    let output = run(folder.path(), &["--timeout", "soon", "wc", "--json=note.txt"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(folder.path().join("note.txt")).unwrap(), "one\ntwo\n");
}

#[test]
fn a_conflict_is_reported_as_a_failure_that_wrote_nothing() {
    let folder = scratch();
    let dir = folder.path();
    // The program reads the file, waits for its input, and then changes the file.
    let module = dir.join("slow.wat");
    std::fs::write(
        &module,
        r#"(module
        (import "wasi_snapshot_preview1" "path_open" (func $open
            (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_write"
            (func $write (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_read"
            (func $read (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 100) "note.txt")
        (data (i32.const 0) "\64\00\00\00\08\00\00\00")
        (func (export "_start")
            (drop (call $open (i32.const 4) (i32.const 0) (i32.const 100) (i32.const 8)
                (i32.const 0) (i64.const 0x42) (i64.const 0) (i32.const 0) (i32.const 200)))
            (drop (call $write (i32.load (i32.const 200)) (i32.const 0) (i32.const 1) (i32.const 204)))
            (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 204)))
            (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 204)))))"#,
    )
    .unwrap();
    let mut child = crate::support::belljar(dir)
        .args(["run", "--apply", "--json=r.json", "slow.wat"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 8];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
    std::fs::write(dir.join("note.txt"), "changed by somebody else").unwrap();
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    let report = read(&dir.join("r.json"));
    assert_eq!((&report["status"], &report["exit_code"]), (&"failed".into(), &125.into()));
    assert_eq!((&report["guest_exit_code"], &report["applied"]), (&0.into(), &false.into()));
    assert!(report["error"].as_str().unwrap().contains("note.txt"), "{report}");
    assert_eq!(report["changes"][0]["path"], "note.txt");
}

#[cfg(unix)]
#[test]
fn native_program_is_reported_as_native() {
    let folder = scratch();
    let options = ["--on-missing", "native", "--json=r.json"];
    let output = run(folder.path(), &[&options[..], &["nice", "sed", "1q", "gone"]].concat());
    let report = read(&folder.path().join("r.json"));
    assert_eq!(report["status"], "native");
    assert_eq!(report["exit_code"], output.status.code().unwrap());
    assert_ne!(report["exit_code"], 0);
    assert_eq!(report["host_programs"], serde_json::json!(["nice"]));
    let script = ["sh", "-c", "nice sed q note.txt; nice sed q note.txt"];
    run(folder.path(), &[&options[..], &script].concat());
    let report = read(&folder.path().join("r.json"));
    assert_eq!((&report["status"], report["exit_code"].as_i64()), (&"exited".into(), Some(0)));
    assert_eq!(report["host_programs"], serde_json::json!(["nice"]));
}

/// The diff and the report also begin on a new line after a program whose output does not end with
/// a newline.
#[test]
fn diff_and_report_begin_on_a_new_line() {
    let folder = scratch();
    let wat = r#"(module
        (import "wasi_snapshot_preview1" "fd_write"
            (func $write (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "path_create_directory"
            (func $mkdir (param i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "path_symlink"
            (func $link (param i32 i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 0) "\08\00\00\00\04\00\00\00part")
        (func (export "_start")
            (drop (call $link (i32.const 8) (i32.const 4) (i32.const 4) (i32.const 8) (i32.const 4)))
            (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 100)))))"#;
    std::fs::write(folder.path().join("part.wat"), wat).unwrap();
    let output = run(folder.path(), &["--quiet", "--diff", "--json", "part.wat"]);
    let printed = stdout(&output);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[..2], ["part", "diff --git a/part b/part"], "{printed}");
    assert!(lines.last().unwrap().starts_with("{\"status\":\"exited\""), "{printed}");
}

#[test]
fn diff_file_is_never_stale_and_write_errors_name_it() {
    let folder = scratch();
    let path = folder.path().join("d.patch");
    std::fs::write(&path, "diff --git a/gone b/gone\ndeleted file mode 100644\n").unwrap();
    assert_eq!(run(folder.path(), &["--diff=d.patch", "nothing"]).status.code(), Some(127));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    let changing = ["replace", "one", "1", "note.txt"];
    run(folder.path(), &[&["--diff=d.patch"][..], &changing].concat());
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("diff --git a/note.txt"));
    if cfg!(target_os = "linux") {
        let output = run(folder.path(), &[&["--diff=/dev/full"][..], &changing].concat());
        assert_eq!(output.status.code(), Some(125));
        let message = stderr(&output);
        assert!(message.contains("--diff: cannot write /dev/full"), "{message}");
    }
}

#[test]
fn a_diff_into_a_file_that_the_program_read_is_no_conflict() {
    let folder = scratch();
    let changing = ["replace", "one", "1", "note.txt", "d.patch"];
    let output = run(folder.path(), &[&["--apply", "--diff=d.patch"][..], &changing].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("note.txt"), "1\ntwo\n");
    assert!(read("d.patch").starts_with("diff --git a/note.txt"));
}

/// Regression: `--apply` wrote the times, and the message did not list them.
#[test]
fn changes_of_times_only_are_listed() {
    let folder = scratch();
    std::fs::create_dir(folder.path().join("d")).unwrap();
    let steps = ["touch:note.txt:1000", "touch:d:2000", "write:new:text", "touch:new:3000"];
    let module = guest_arg("overwrite");
    let output = run(folder.path(), &[&["--json", "--diff=d.patch", &module][..], &steps].concat());
    let message = stderr(&output);
    for words in
        ["3 changes (new added, d times, note.txt times)", "the diff does not show 2 changes"]
    {
        assert!(message.contains(words), "{message}");
    }
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let kinds: Vec<&Value> =
        report["changes"].as_array().unwrap().iter().map(|change| &change["kind"]).collect();
    assert_eq!(kinds, ["added", "times", "times"], "{report}");
    run(folder.path(), &[&["--apply", &module][..], &steps].concat());
    let modified = std::fs::metadata(folder.path().join("note.txt")).unwrap().modified().unwrap();
    assert_eq!(modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs(), 1000);
}

/// Output is passed on to the terminal or pipe and not kept, so it may be long.
#[test]
fn output_is_bounded_only_if_asked_for() {
    let folder = scratch();
    let spew = guest("spew").display().to_string();
    assert_eq!(run(folder.path(), &[&spew, "65"]).stdout.len(), 65 << 20);
    let bounded = run(folder.path(), &["--max-output", "64MiB", &spew, "65"]);
    assert_eq!((bounded.status.code(), bounded.stdout.len()), (Some(134), 64 << 20));
}
