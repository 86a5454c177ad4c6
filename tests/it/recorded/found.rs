//! The results of program lookups are on the tape: a replay has other folders, or none.

use belljar::Digest;
use belljar::tape::Kind;
use belljar::tape::TapeStore;

use super::scene::Scene;
use crate::support::{belljar, guest, stderr, stdout};

/// Regression: the replay had no engine for the module.
#[test]
fn a_script_that_starts_nothing_but_a_module_of_the_tree_is_replayed() {
    let scene = Scene::new();
    for script in ["./w.wasm one three note.txt", "./text.wat; echo $?", "PATH=sub found note.txt"]
    {
        let output = scene.same(&["sh", "-c", script]);
        assert_eq!(output.status.code(), Some(0), "{script}: {}", stderr(&output));
    }
}

#[test]
fn programs_of_bin_are_found_by_a_replay() {
    let scene = Scene::new();
    let script =
        "/bin/wc -l note.txt; /usr/bin/echo x; /usr/local/bin/cat note.txt; /bin/sh -c 'echo y'";
    let output = scene.same(&["sh", "-c", script]);
    assert!(stdout(&output).ends_with("one\ntwo\none\ny\n"), "{}", stdout(&output));
    let output = scene.same(&["sh", "-c", "/bin/nothing; echo $?"]);
    assert_eq!(stdout(&output), "127\n");
}

#[test]
fn fuel_is_counted_by_a_replay() {
    let scene = Scene::new();
    // One limit ends the module, one ends the shell, and one is not reached.
    for (fuel, code) in [("2000", 124), ("300", 124), ("90000000", 0)] {
        let script = "x=$(wc note.txt); while [ ${#x} -lt 200 ]; do x=x$x; done; wc note.txt";
        let output = scene.same(&["--fuel", fuel, "sh", "-c", script]);
        assert_eq!(output.status.code(), Some(code), "{fuel}: {}", stderr(&output));
        let module = scene.same(&["--fuel", fuel, "wc", "note.txt"]);
        assert_eq!(module.status.code(), Some(code), "{fuel}: {}", stderr(&module));
    }
}

/// Shells and modules start a program that exists and cannot be started for another reason. Regression: the
/// replay found no program, and assigned no process number.
#[test]
fn failed_start_of_an_existing_program_is_replayed() {
    let scene = Scene::new();
    for script in [
        "wc <&9; echo $?; sh -c 'echo $PPID'",
        "cat note.txt | wc -l 3<&9",
        "seq 3 | (cd /tmp; wc -l)",
    ] {
        scene.same(&["sh", "-c", script]);
    }
    // A descriptor that is not open; a directory that does not exist; the process's own directory.
    for (dir, action) in [("", [0, 99, 1]), ("nothing", [2, 0, 0]), ("", [0, 1, 3])] {
        scene.write("tree/start.wat", &super::spawner::start_twice("wc", dir, action));
        let output = scene.same(&["./start.wat"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let kinds: Vec<Kind> = scene.tape().records.into_iter().map(|record| record.kind).collect();
        let finds = kinds.iter().filter(|kind| matches!(kind, Kind::ProgramFind { .. })).count();
        let starts = kinds.iter().filter(|kind| matches!(kind, Kind::ProcessSpawn { .. })).count();
        assert_eq!((finds, starts), (2, 2), "both are found, and one starts: {kinds:#?}");
    }
}

#[test]
fn a_program_under_another_name_is_found_by_a_replay() {
    let scene = Scene::new();
    let output = scene.same(&["--argv0", "zz", "wc", "note.txt"]);
    assert!(output.status.success());
    let output = scene.same(&["--argv0", "zz", "sh", "-c", "exec 2>&1; nothing; cat nothing"]);
    assert!(stdout(&output).contains("nothing"), "{}", stdout(&output));
    let spawned = scene.tape().records.into_iter().find_map(|record| match record.kind {
        Kind::ProcessSpawn { program, argv0, .. } => Some((program, argv0)),
        _ => None,
    });
    assert_eq!(spawned, Some(("sh".to_owned(), Some("zz".to_owned()))));
    // Without the module on the tape, a replay uses the built-in program.
    let folder = scene.path("elsewhere");
    let record = ["record", "--quiet", "--tape", "t", "--argv0", "zz", "--", "wc", "t"];
    belljar(&folder).args(record).output().unwrap();
    let replayed = belljar(&folder).args(["replay", "t"]).output().unwrap();
    assert!(stderr(&replayed).contains("the run is the same"), "{}", stderr(&replayed));
}

#[test]
fn replay_answers_operation_names_with_dots() {
    let scene = Scene::new();
    for name in ["x.", "x", ".", ".x", "x.y.", "x..", "..", "host.capabilities.", ""] {
        let output = scene.same(&["./ask.wasm", name]);
        assert_eq!(output.status.code(), Some(1), "{name:?}: {}", stdout(&output));
        scene.same(&["./ask.wasm", "-h", name, "host.capabilities"]);
    }
}

/// Regression: a replay used the first module of that name.
#[test]
fn replay_finds_the_recorded_program_behind_another_of_its_name() {
    let scene = Scene::new();
    let folder = scene.path("tree");
    let record = ["record", "--quiet", "--tape", "../t", "--", "sh", "-c", "cat note.txt"];
    let recorded = belljar(&folder).args(record).output().unwrap();
    assert_eq!(stdout(&recorded), "one\ntwo\none\n");
    for tools in ["../tools", "../other"] {
        let replay = ["replay", "--toolchain", tools, "../t"];
        let replayed = belljar(&folder).args(replay).output().unwrap();
        assert!(stderr(&replayed).contains("the run is the same"), "{}", stderr(&replayed));
        assert_eq!(stdout(&replayed), stdout(&recorded));
    }
}

/// Regression: only the first program was stored.
#[test]
fn all_programs_of_a_process_tree_are_stored_with_the_tape() {
    let scene = Scene::new();
    scene.same(&["sh", "-c", "tool; command -v damaged; sh -c 'cat note.txt'"]);
    for name in ["tools/tool.wasm", "tools/cat.wasm"] {
        let digest = Digest::of(&std::fs::read(scene.path(name)).unwrap());
        let kept = TapeStore::of(&scene.path("run.tape")).get(digest, 1 << 30);
        assert!(kept.is_ok(), "{name}: {kept:?}");
    }
    // A module that contains what looks like a secret is not stored, and the recording fails with a message.
    let mut module = std::fs::read(scene.path("tools/tool.wasm")).unwrap();
    module.extend(b"\0\x23\x01 ");
    module.extend(b"sk-abcdefghijklmnopqrstuvwxyz0123");
    std::fs::write(scene.path("tools/tool.wasm"), module).unwrap();
    let both = scene.both(&["sh", "-c", "tool"]);
    assert_eq!(both.recorded.status.code(), Some(125));
    let said = stderr(&both.recorded);
    assert!(said.contains("cannot store the module tool with the tape"), "{said}");
}

/// Regression: `--module` could only replace the only program.
#[test]
fn a_replay_takes_several_modules() {
    let scene = Scene::new();
    let folder = scene.path("tree");
    let record = ["record", "--quiet", "--toolchain", "../tools", "--tape", "../t", "--"];
    let script = ["sh", "-c", "tool; cat note.txt"];
    assert!(belljar(&folder).args(record).args(script).status().unwrap().success());
    let (tool, cat) = (guest("clock").display().to_string(), guest("cat").display().to_string());
    let args = ["replay", "--module", &tool, "--module", &cat, "../t"];
    let replayed = belljar(&folder).args(args).output().unwrap();
    assert!(stderr(&replayed).contains("the run is the same"), "{}", stderr(&replayed));
}

/// Regression: the tape had no record of an interrupted call, so the replay had no answer.
#[test]
fn host_call_interrupted_by_the_end_of_the_run_is_replayed() {
    let scene = Scene::new();
    for script in [
        r#"./ask.wasm process.exec '{"argv":["rm","note.txt"],"cwd":"sub"}' & ./ask.wasm runtime.task"#,
        r#"./ask.wasm process.exec '{"command":"cat; tool; sleep 3"}' & sleep 2; kill $!; sleep 1"#,
        r#"./ask.wasm process.exec '{"argv":["sleep","9"]}' & sleep 1"#,
    ] {
        scene.same(&["--fuel", "9000", "sh", "-c", script]);
        scene.same(&["--host-policy", "../policy.json", "sh", "-c", script]);
        scene.same(&["sh", "-c", script]);
    }
    let records = scene.tape().records;
    let ended = records.iter().filter(|record| match &record.kind {
        Kind::HostCall { result, .. } => format!("{result:?}").contains("was ended"),
        _ => false,
    });
    assert_eq!(ended.count(), 1, "{records:#?}");
}

/// Regression: the replay reported a deadlock of its processes.
#[cfg(unix)]
#[test]
fn timeout_during_a_wait_for_a_native_program_is_replayed() {
    // `nice` is not built in, so it runs natively.
    const ENDLESS: &str = "nice sleep 1000";
    let scene = Scene::new();
    let (piped, beside) = (format!("{ENDLESS} | cat"), format!("sleep 1; {ENDLESS} & wait"));
    for script in [ENDLESS, &piped, &beside] {
        let options = ["--on-missing", "native", "--timeout", "700ms", "sh", "-c", script];
        let output = scene.same(&options);
        assert_eq!(output.status.code(), Some(124), "{script}: {}", stderr(&output));
    }
}

/// Regression: the message had the path in the host's toolchain, which a replay does not have.
#[test]
fn program_that_cannot_start_is_reported_by_its_name() {
    let scene = Scene::new();
    let signature = r#"(module (memory (export "memory") 1) (func (export "_start") (param i32)))"#;
    let memory = r#"(module (memory (export "memory") 100) (func (export "_start")))"#;
    for (name, text) in [
        ("library", r#"(module (memory (export "memory") 1) (func (export "run")))"#),
        ("signature", signature),
        ("memory", memory),
    ] {
        std::fs::write(scene.path(&format!("tools/{name}.wasm")), wat::parse_str(text).unwrap())
            .unwrap();
    }
    for name in ["library", "signature", "memory", "damaged"] {
        let script = format!("{name}; echo $?");
        let output = scene.same(&["--max-memory", "2MiB", "sh", "-c", &script]);
        let said = stderr(&output);
        assert!(said.contains(name) && !said.contains("tools"), "{name}: {said}");
    }
}
