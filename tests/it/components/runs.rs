//! What holds for the runs of modules holds for those of components.

use std::time::Duration;

use belljar::{Command, Engine, EngineConfig, Limit, Limits, Machine, Module, Outcome, Program};

use super::{builder, command, output_in, text};
use crate::support::{belljar, engine, package, stderr, stdout};

/// A component whose program is `body`.
fn running(body: &str) -> Module {
    let text = format!(
        r#"(component
            (core module $m
                (memory (export "memory") 1)
                (func $run (export "run") (result i32) {body} (i32.const 0)))
            (core instance $i (instantiate $m))
            (func $run (result (result)) (canon lift (core func $i "run")))
            (instance $r (export "run" (func $run)))
            (export "wasi:cli/run@0.2.3" (instance $r)))"#
    );
    Module::from_bytes("component", text.into_bytes()).unwrap()
}

fn outcome(engine: &Engine, body: &str, limits: Limits) -> Outcome {
    let program = Program::new(engine, &running(body)).unwrap();
    let mut machine = Machine::builder().limits(limits).build().unwrap();
    Command::new(&program).output(&mut machine).unwrap().status.outcome().clone()
}

#[test]
fn limits_end_components() {
    let forever = "(loop (br 0))";
    let limits = Limits { timeout: Some(Duration::from_millis(50)), ..Limits::default() };
    assert_eq!(outcome(engine(), forever, limits), Outcome::Limit(Limit::Timeout));

    let fuel = Engine::new(EngineConfig { fuel: true, ..EngineConfig::default() }).unwrap();
    let limits = Limits { fuel: Some(10_000), ..Limits::default() };
    assert_eq!(outcome(&fuel, forever, limits), Outcome::Limit(Limit::Fuel));
    assert_eq!(outcome(&fuel, "", limits), Outcome::Exited(0));

    let limits = Limits { memory_bytes_max: 1 << 20, ..Limits::default() };
    let grow = "(drop (memory.grow (i32.const 10))) (if (i32.ne (memory.size) (i32.const 11)) (then unreachable))";
    assert_eq!(outcome(engine(), grow, limits), Outcome::Exited(0));
    let too_much = "(if (i32.ne (memory.grow (i32.const 100)) (i32.const -1)) (then unreachable))";
    assert_eq!(outcome(engine(), too_much, limits), Outcome::Exited(0));
}

#[test]
fn endless_recursion_is_a_trap() {
    let Outcome::Trapped(trap) = outcome(engine(), "(drop (call $run))", Limits::default()) else {
        panic!("the stack ends")
    };
    assert_eq!(trap.message, "call stack exhausted");
}

/// Every resource counts as memory.
#[test]
fn resources_end_at_the_limit_of_memory() {
    let limits = Limits { memory_bytes_max: 4 << 20, ..Limits::default() };
    let output = output_in(builder().limits(limits), &command(&vec!["stdin"; 40_000]));
    assert_eq!(*output.status.outcome(), Outcome::Limit(Limit::Memory), "{}", text(&output.stderr));
}

/// What the engine has of streams is bounded by the limit of memory, too.
#[test]
fn streams_without_end_are_a_trap() {
    let text = r#"(component
        (type $bytes (stream u8))
        (core func $new (canon stream.new $bytes))
        (core module $m
            (import "" "new" (func $new (result i64)))
            (global $made (mut i32) (i32.const 0))
            (func (export "run") (result i32)
                (loop (drop (call $new))
                    (global.set $made (i32.add (global.get $made) (i32.const 1)))
                    (br_if 0 (i32.ne (global.get $made) (i32.const 5000))))
                (i32.const 0)))
        (core instance $i (instantiate $m (with "" (instance (export "new" (func $new))))))
        (func $run (result (result)) (canon lift (core func $i "run")))
        (instance $r (export "run" (func $run)))
        (export "wasi:cli/run@0.2.3" (instance $r)))"#;
    let module = Module::from_bytes("component", text.as_bytes().to_vec()).unwrap();
    let program = Program::new(engine(), &module).unwrap();
    let outcome = |memory_bytes_max| {
        let limits = Limits { memory_bytes_max, ..Limits::default() };
        let mut machine = Machine::builder().limits(limits).build().unwrap();
        Command::new(&program).output(&mut machine).unwrap().status.outcome().clone()
    };
    assert_eq!(outcome(8 << 20), Outcome::Exited(0));
    let Outcome::Trapped(trap) = outcome(2 << 20) else { panic!("there are too many") };
    assert!(trap.message.contains("handle limit exceeded"), "{}", trap.message);
}

#[test]
fn both_tiers_run_components() {
    for tier in ["optimized", "quick"] {
        let config = EngineConfig { tier: tier.parse().unwrap(), ..EngineConfig::default() };
        let engine = Engine::new(config).unwrap();
        let module = Module::read(&package().join("tests/guests/preview2_calls.wasm")).unwrap();
        let program = Program::new(&engine, &module).unwrap();
        assert_eq!(program.tier().to_string(), tier);
        let mut machine = builder().build().unwrap();
        let output = Command::new(&program).args(["args"]).output(&mut machine).unwrap();
        assert_eq!(text(&output.stdout), "[\"preview2_calls\", \"args\"]\n", "{tier}");
    }
}

#[test]
fn nan_has_the_same_bits_in_components() {
    let nan = "(if (i32.ne (i32.reinterpret_f32 (f32.div (f32.const 0) (f32.const -0))) (i32.const 0x7fc00000)) (then unreachable))";
    assert_eq!(outcome(engine(), nan, Limits::default()), Outcome::Exited(0));
}

#[test]
fn component_is_loaded_from_the_cache() {
    let cache = tempfile::tempdir().unwrap();
    let config =
        || EngineConfig { cache_dir: Some(cache.path().to_owned()), ..EngineConfig::default() };
    let module = running("");
    let from_cache = |engine: &Engine| {
        Program::from_cache(engine, &module, belljar::UnknownImports::Trap).unwrap()
    };
    let engine = Engine::new(config()).unwrap();
    assert!(from_cache(&engine).is_none());
    Program::new(&engine, &module).unwrap();
    let program = from_cache(&Engine::new(config()).unwrap()).expect("it was stored");
    let output = Command::new(&program).output(&mut Machine::builder().build().unwrap()).unwrap();
    assert_eq!(*output.status.outcome(), Outcome::Exited(0));
}

/// The options of `run`: what is recorded is replayed and verified, changes are shown and written.
#[test]
fn run_does_with_components_what_it_does_with_modules() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let calls = package().join("tests/guests/preview2_calls.wasm");
    let calls = calls.to_str().unwrap();
    let steps = ["dirs", "open d1 no made c rw", "pwrite d2 bytes 0", "random 4", "wall"];
    let run = |options: &[&str]| {
        let mut belljar = belljar(folder);
        belljar.arg("run").args(options).arg(calls).args(steps).output().unwrap()
    };
    let diff = run(&["--diff"]);
    assert!(stdout(&diff).contains("+bytes"), "{}", stdout(&diff));
    let mut record = belljar(folder);
    record.args(["record", "--quiet", "--tape", "run.tape", "--", calls]).args(steps);
    let recorded = record.output().unwrap();
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    let replayed = belljar(folder).args(["replay", "run.tape"]).output().unwrap();
    assert!(replayed.status.success(), "{}", stderr(&replayed));
    assert_eq!(stdout(&replayed), stdout(&recorded));
    let mut verify = belljar(folder);
    let verified = verify.args(["verify", "--", calls]).args(steps).output().unwrap();
    assert!(verified.status.success(), "{}{}", stdout(&verified), stderr(&verified));
    let traced = run(&["--trace"]);
    assert!(stderr(&traced).contains("==> [method]descriptor.write(fd=5, len=5, offset=0)"));
    let applied = run(&["--apply"]);
    assert!(applied.status.success(), "{}", stderr(&applied));
    assert_eq!(std::fs::read(folder.join("made")).unwrap(), b"bytes");
}

/// A shell starts components like any program, and pipes connect them.
#[test]
fn components_are_processes_of_a_tree() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    std::fs::copy(package().join("tests/guests/preview2_calls.wasm"), folder.join("calls.wasm"))
        .unwrap();
    let shell = |script: &str| {
        let output = belljar(folder).args(["sh", "-c", script]).output().unwrap();
        (stdout(&output), stderr(&output))
    };
    let (out, said) =
        shell("./calls.wasm args | tr a-z A-Z; echo in | ./calls.wasm stdin 'blocking-read i0 9'");
    assert_eq!(out, "[\"./CALLS.WASM\", \"ARGS\"]\ni0\nin\\n\n", "{said}");
    // It waits for the pipe and a time at once, and for a pipe that is full.
    let (out, said) = shell(
        "(sleep 1; echo late) | ./calls.wasm stdin 'subscribe-input i0' 'in 500000000' 'poll p0 p1' 'block p0' 'read i0 9'",
    );
    assert_eq!(out, "i0\np0\np1\n[1]\nlate\\n\n", "{said}");
    let writes = "'out-blocking-zeroes o0 4096' ".repeat(17);
    let (out, said) = shell(&format!("./calls.wasm stdout {writes} | (sleep 1; wc -c)"));
    assert_eq!(out.trim(), (17 * (4096 + "done\n".len()) + "o0\n".len()).to_string(), "{said}");
}
