//! Loops that wait by asking again and again: they end, as natively, and a replay has the same turns.

use std::path::Path;
use std::process::Command;

#[cfg(unix)]
use crate::support::skipped;
use crate::support::{belljar, package, stderr, stdout};

/// Runs `program` with `args` in `folder`, records and replays it; returns what it printed.
fn recorded(folder: &Path, program: &str, args: &[&str]) -> String {
    let beside = tempfile::tempdir().unwrap();
    let tape = beside.path().join("t.tape");
    let mut command = belljar(folder);
    // A loop that does not end fails the test.
    command.args(["record", "-q", "--timeout", "120s", "--tape"]).arg(&tape);
    let output = command.args(["--", program]).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    let replayed = belljar(folder).arg("replay").arg(&tape).output().unwrap();
    assert!(replayed.status.success(), "{args:?}: {}", stderr(&replayed));
    stdout(&output)
}

#[test]
fn loops_of_a_script_that_wait_for_other_processes_end() {
    let scripts = [
        "(sleep 1; echo > made) & while [ ! -e made ]; do :; done; echo made",
        "sleep 1 & p=$!; until ! kill -0 $p 2>/dev/null; do :; done; wait $p; echo $?",
        "while :; do :; done & p=$!; sleep 1; kill $p; wait $p; echo $?",
        "f() { while :; do :; done; }; f & p=$!; f & q=$!; sleep 1; kill $p $q; wait; echo both",
        "(while [ ! -e b ]; do :; done; echo > a) & (sleep 1; echo > b) & \
         until [ -e a ]; do :; done; echo a",
        // These never wait, or only for each other.
        "yes | cat > /dev/null & p=$!; sleep 0.3; kill $p; wait $p; echo $?",
        "yes > /dev/null & p=$!; sleep 0.3; kill $p; wait $p; echo $?",
        "yes | xargs -n 1 true & p=$!; sleep 0.1; kill $p; wait $p; echo $?",
        "cat /dev/zero > /dev/null & p=$!; sleep 0.3; kill $p; wait $p; echo $?",
        "while read -r a <<E\nwords\nE\ndo :; done & p=$!; echo b | sed s/b/c/; kill $p; wait $p; echo $?",
        "x=$(printf %40000s x); while echo \"$x\"; do :; done > /dev/null & p=$!; \
         echo $(echo a); kill $p; wait $p; echo $?",
        "read x < /dev/zero & p=$!; sleep 0.1; kill $p; wait $p; echo $?",
        // The shell waits for one child while another one ends.
        "sleep 0.1 & p=$!; (while kill -0 $p 2>/dev/null; do sleep 1; done); wait $p; echo $?",
        "true & p=$!; while kill -0 $p 2>/dev/null; do :; done | cat; wait $p; echo $?",
        "(exit 3) & p=$!; { while kill -0 $p 2>/dev/null; do sleep 1; done; echo gone; } & \
         wait $!; wait $p; echo $?",
        "(exit 3) & p=$!; sleep 1 | (exit 4) | (sleep 1; exit 5); echo $?; wait $p; echo $?",
        "(sleep 1; exit 3) & p=$!; (exit 4) & q=$!; wait $p; echo $?; wait $q; echo $?; wait; echo $?",
    ];
    for script in scripts {
        let folder = tempfile::tempdir().unwrap();
        let inside = recorded(folder.path(), "sh", &["-c", script]);
        let natively = Command::new("sh").args(["-c", script]).current_dir(&folder).output();
        if cfg!(unix) {
            assert_eq!(inside, stdout(&natively.unwrap()), "{script}");
        }
    }
}

#[test]
fn a_script_that_asks_programs_for_the_time_comes_to_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let script = "begun=$(date +%s); while [ $(date +%s) -le $begun ]; do :; done; echo later";
    assert_eq!(recorded(folder.path(), "sh", &["-c", script]), "later\n");
}

/// The ways in which the guest program waits, with what it prints.
const WAYS: [(&str, &str); 5] = [
    ("wait", "status 7\nin time\n"),
    ("read", "hi\nin time\n"),
    ("poll", "ready\nin time\n"),
    ("yield", "made\nin time\n"),
    ("time", "later\nin time\n"),
];

#[test]
fn loops_of_a_module_that_wait_for_other_processes_end() {
    let module = package().join("tests/guests/spins_with_libbelljar.wasm").display().to_string();
    for (way, printed) in WAYS {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(recorded(folder.path(), &module, &[way]), printed, "{way}");
    }
}

/// The same program natively prints the same, if a C compiler is here.
#[cfg(unix)]
#[test]
fn loops_of_a_module_end_as_natively() {
    let source = package().join("tests/guests/spins_with_libbelljar.c");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("spins");
    let compiled = Command::new("cc").arg("-o").arg(&program).arg(source).status();
    if !compiled.is_ok_and(|status| status.success()) {
        return skipped("loops_of_a_module_end_as_natively", "install a C compiler");
    }
    for (way, printed) in WAYS {
        let folder = tempfile::tempdir().unwrap();
        let natively = Command::new(&program).arg(way).current_dir(&folder).output().unwrap();
        assert_eq!(stdout(&natively), printed, "{way}");
    }
}

#[cfg(unix)]
#[test]
fn a_loop_that_waits_for_a_native_program_ends() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("native-nap");
    std::fs::write(&program, "#!/bin/sh\nsleep 0.2\n").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    for script in [
        "native-nap & p=$!; while kill -0 $p 2>/dev/null; do :; done; wait $p; echo $?",
        "yes | cat > /dev/null & native-nap; p=$?; kill $!; echo $p",
        "yes > /dev/null & native-nap; p=$?; kill $!; echo $p",
    ] {
        let mut command = belljar(folder.path());
        command.args(["run", "-q", "--timeout", "120s", "--on-missing", "native"]);
        command.args(["--", "sh", "-c", script]);
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        let output = command.env("PATH", path).output().unwrap();
        assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("0\n", ""), "{script}");
    }
}

/// Regression: a call that reads and then writes began again in between, and what it had read was lost.
#[test]
fn component_that_splices_beside_a_sleeping_process_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let guest = package().join("tests/guests/preview2_calls.wasm");
    std::fs::copy(guest, folder.path().join("p.wasm")).unwrap();
    let lines: Vec<String> = (0..4000).map(|number| format!("{number:05}\n")).collect();
    std::fs::write(folder.path().join("in"), lines.concat()).unwrap();
    let calls = "out-blocking-splice o0 i0 6\n".repeat(4000);
    std::fs::write(folder.path().join("calls"), format!("stdin\nstdout\n{calls}")).unwrap();
    for shift in 0..3 {
        let script = format!(
            "IFS='\n'; sleep 1 & printf '{:shift$}' '' > /dev/null; cat in | ./p.wasm $(cat calls) | \
             grep '^[0-9][0-9][0-9][0-9][0-9]$' | cmp - in && echo same",
            ""
        );
        assert_eq!(recorded(folder.path(), "sh", &["-c", &script]), "same\n", "{shift}");
    }
}
