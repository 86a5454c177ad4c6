//! A timeout in real time can end a run at any point. Its tape says where, and a replay ends there at any speed.

use std::process::Output;

use belljar::tape::Kind;

use super::scene::Scene;
use crate::support::{stderr, stdout};

/// Records and replays a run of `args` that its timeout ends; returns the recorded output.
fn ended(scene: &Scene, args: &[&str]) -> Output {
    for timeout in ["30ms", "150ms", "400ms"] {
        let output = scene.same(&[&["--timeout", timeout], args].concat());
        assert_eq!(output.status.code(), Some(124), "{args:?}: {}", stderr(&output));
        let records = scene.tape().records;
        let ends = records.iter().filter(|record| matches!(record.kind, Kind::Timeout { .. }));
        assert_eq!(ends.count(), 1, "{args:?}");
    }
    scene.same(&[&["--timeout", "400ms"], args].concat())
}

/// Regression: the replay ran on to its own timeout, and diverged from the tape.
#[test]
fn timeout_of_a_script_between_calls_is_replayed_at_the_same_call() {
    let scene = Scene::new();
    let output = ended(&scene, &["sh", "-c", "while :; do echo x; done"]);
    assert!(stdout(&output).len() > 100, "{}", stdout(&output));
    for script in [
        "while :; do echo x >> made; wc -l made; done",
        "while :; do :; done",
        "while :; do ./w.wasm one three note.txt; done",
        "i=0; while :; do i=$((i+1)); echo $i > sub/f$i; rm -f sub/f$((i-3)); done",
        "exec 3>made; while :; do echo x >&3; done",
        "(while :; do echo a; done) | while read x; do echo $x >> made; done",
        "while :; do sleep 1; date +%s; done",
        "while :; do read a < note.txt; echo $a$(cat note.txt); done & wait",
    ] {
        ended(&scene, &["sh", "-c", script]);
    }
}

#[test]
fn timeout_of_a_module_is_replayed_at_the_same_place() {
    let scene = Scene::new();
    let module = |import: &str, memory: &str, body: &str| {
        let text = format!(
            r#"(module {import} (memory (export "memory") 1) {memory}
            (func (export "_start") {body}))"#
        );
        scene.write("tree/loop.wat", &text);
    };
    module("", "", "(loop (br 0))");
    ended(&scene, &["./loop.wat"]);
    ended(&scene, &["sh", "-c", "echo a > made; ./loop.wat | wc & ./loop.wat"]);
    // A module that writes, a module that waits for its input, and a module that asks for random bytes and the time.
    let wasi = |name: &str, params: &str| {
        format!(
            r#"(import "wasi_snapshot_preview1" "{name}" (func ${name} (param {params}) (result i32)))"#
        )
    };
    let text = r#"(data (i32.const 0) "\10\00\00\00\04\00\00\00") (data (i32.const 16) "text")"#;
    let write = "(loop (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 32))) (br 0))";
    module(&wasi("fd_write", "i32 i32 i32 i32"), text, write);
    ended(&scene, &["./loop.wat"]);
    ended(&scene, &["sh", "-c", "./loop.wat > made"]);
    ended(&scene, &["--clock", "real", "sh", "-c", "./loop.wat | ./sub/found.wasm"]);
    let chance = [wasi("random_get", "i32 i32"), wasi("clock_time_get", "i32 i64 i32")].concat();
    let ask = "(loop (drop (call $random_get (i32.const 0) (i32.const 60000)))
        (drop (call $clock_time_get (i32.const 0) (i64.const 1) (i32.const 8))) (br 0))";
    module(&chance, "", ask);
    ended(&scene, &["./loop.wat"]);
    ended(&scene, &["--clock", "real", "./loop.wat"]);
}

/// Regression: some of these replays ended at the end of the recorded input instead.
#[test]
fn timeout_of_a_waiting_run_is_replayed() {
    let scene = Scene::new();
    for script in ["sleep 9", "sleep 9 | cat", "date; sleep 1 & wait; date"] {
        ended(&scene, &["--clock", "real", "sh", "-c", script]);
    }
}

/// Regression: a sleep ended only at the virtual timeout.
#[test]
fn run_on_the_real_clock_ends_at_the_earlier_of_its_two_timeouts() {
    let scene = Scene::new();
    let script = "echo x > made; sleep 1000";
    ended(&scene, &["--clock", "real", "--virtual-timeout", "900s", "sh", "-c", script]);
}

/// Regression: reads of files that the run wrote are on the tape as well, so the replay did not find the point of the
/// timeout.
#[test]
fn timeout_while_a_written_file_is_read_back_is_replayed() {
    let scene = Scene::new();
    let big = std::fs::File::create(scene.path("tree/big")).unwrap();
    big.set_len(40_000_000).unwrap();
    ended(&scene, &["sh", "-c", "echo x >> big; while :; do :; done"]);
    // At the end of a process, where it makes no call.
    let wasi = |name: &str, params: &str| {
        format!(
            r#"(import "wasi_snapshot_preview1" "{name}" (func ${name} (param {params}) (result i32)))"#
        )
    };
    let text = format!(
        r#"(module {} {} {} (memory (export "memory") 1) (data (i32.const 8) "made")
            (data (i32.const 16) "\08\00\00\00\01\00\00\00")
            (func (export "_start")
                (drop (call $path_open (i32.const 4) (i32.const 0) (i32.const 8) (i32.const 4)
                    (i32.const 1) (i64.const -1) (i64.const 0) (i32.const 0) (i32.const 32)))
                (drop (call $fd_filestat_set_size (i32.load (i32.const 32)) (i64.const 1000000000)))
                (drop (call $fd_write (i32.load (i32.const 32)) (i32.const 16) (i32.const 1)
                    (i32.const 36)))))"#,
        wasi("path_open", "i32 i32 i32 i32 i32 i64 i64 i32 i32"),
        wasi("fd_filestat_set_size", "i32 i64"),
        wasi("fd_write", "i32 i32 i32 i32"),
    );
    scene.write("tree/leave.wat", &text);
    ended(&scene, &["sh", "-c", "./leave.wat; while :; do :; done"]);
    ended(
        &scene,
        &[
            "sh",
            "-c",
            "{ head -c 40000000 /dev/zero; } > f & sleep 5; echo done; while :; do :; done",
        ],
    );
}
