//! Quick and optimized code: the same results, the same limits, and how the one is followed by the other.

use std::time::{Duration, Instant};

use belljar::engine::{Tier, TierChoice};
use belljar::{Command, Engine, EngineConfig, Limit, Limits, Machine, Module, Outcome, Program};

use crate::support::guest;

/// Time that a background optimization may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(2);

fn engine(tier: TierChoice, fuel: bool) -> Engine {
    Engine::new(EngineConfig { pool_slots: 0, tier, fuel, ..EngineConfig::default() }).unwrap()
}

fn module(text: &str) -> Module {
    Module::from_bytes("test", text.as_bytes().to_vec()).unwrap()
}

/// A module of 300 KiB that exits with 7.
pub fn large_module() -> String {
    let data = "x".repeat(300 << 10);
    format!(
        r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (memory (export "memory") 10) (data (i32.const 0) "{data}")
            (func (export "_start") (call $exit (i32.const 7))))"#
    )
}

fn outcome(program: &Program, limits: Limits) -> Outcome {
    let mut machine = Machine::builder().limits(limits).build().unwrap();
    Command::new(program).output(&mut machine).unwrap().status.outcome().clone()
}

#[test]
fn each_tier_prints_the_same_and_says_which_it_is() {
    for name in ["compute", "hello", "walk"] {
        let module = Module::read(&guest(name)).unwrap();
        let run = |tier: TierChoice, fuel: bool| {
            let program = Program::new(&engine(tier, fuel), &module).unwrap();
            let mut machine = Machine::builder().build().unwrap();
            let output = Command::new(&program).arg("20").output(&mut machine).unwrap();
            (output.status.code(), output.stdout, output.status.fuel_used(), program.tiers_run())
        };
        let (code, stdout, _, ran) = run(TierChoice::Quick, false);
        assert_eq!(ran, [Tier::Quick]);
        let (optimized_code, optimized_stdout, _, ran) = run(TierChoice::Optimized, false);
        assert_eq!(ran, [Tier::Optimized]);
        assert_eq!((code, &stdout), (optimized_code, &optimized_stdout), "{name}");
        // Fuel counts the same in both.
        let quick = run(TierChoice::Quick, true);
        let optimized = run(TierChoice::Optimized, true);
        assert!(quick.2.is_some_and(|fuel| fuel > 0));
        assert_eq!(quick.2, optimized.2, "{name}");
        assert_eq!((quick.0, quick.1), (code, stdout), "{name}");
    }
}

/// Where instructions are counted, the start function runs while the module is instantiated.
#[test]
fn exception_in_a_start_function_is_a_trap_whether_fuel_is_counted_or_not() {
    let module = module(
        r#"(module (tag $t) (func $init (throw $t)) (start $init) (func (export "_start")))"#,
    );
    for fuel in [false, true] {
        let program = Program::new(&engine(TierChoice::Auto, fuel), &module).unwrap();
        let Outcome::Trapped(trap) = outcome(&program, Limits::default()) else {
            panic!("fuel {fuel}: it did not trap");
        };
        assert_eq!(trap.message, "thrown Wasm exception", "fuel {fuel}");
    }
}

#[test]
fn large_module_begins_with_quick_code_and_is_optimized_beside() {
    let module = module(&large_module());
    let program = Program::new(&engine(TierChoice::Auto, false), &module).unwrap();
    assert_eq!(program.tier(), Tier::Quick);
    assert_eq!(outcome(&program, Limits::default()), Outcome::Exited(7));
    let started = Instant::now();
    while program.tier() == Tier::Quick {
        assert!(started.elapsed() < PATIENCE, "it is never optimized");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(outcome(&program, Limits::default()), Outcome::Exited(7));
    assert!(program.tiers_run().contains(&Tier::Optimized));
    // A small one is optimized at once.
    let small = Program::load(&engine(TierChoice::Auto, false), guest("hello")).unwrap();
    assert_eq!(small.tier(), Tier::Optimized);
}

#[test]
fn optimized_code_that_another_process_stored_is_used_by_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let config = |tier| EngineConfig {
        pool_slots: 0,
        tier,
        cache_dir: Some(dir.path().to_owned()),
        optimize_in_background: false,
        ..EngineConfig::default()
    };
    let module = module(&large_module());
    let program = Program::new(&Engine::new(config(TierChoice::Auto)).unwrap(), &module).unwrap();
    assert_eq!(outcome(&program, Limits::default()), Outcome::Exited(7));
    Program::new(&Engine::new(config(TierChoice::Optimized)).unwrap(), &module).unwrap();
    assert_eq!(outcome(&program, Limits::default()), Outcome::Exited(7));
    assert_eq!(program.tiers_run(), [Tier::Quick, Tier::Optimized]);
}

#[test]
fn proposals_that_the_quickest_compiler_lacks_run_in_quick_code() {
    let exit = r#"(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))"#;
    for (proposal, body) in [
        (
            "tail calls",
            r#"(func $down (param i32) (result i32)
                (if (result i32) (local.get 0)
                    (then (return_call $down (i32.sub (local.get 0) (i32.const 1))))
                    (else (i32.const 9))))
            (func (export "_start") (call $exit (call $down (i32.const 1000000))))"#,
        ),
        (
            "exceptions",
            r#"(tag $t (param i32))
            (func (export "_start")
                (call $exit (block $caught (result i32)
                    (try_table (catch $t $caught) (throw $t (i32.const 9)))
                    (i32.const 1))))"#,
        ),
        (
            "garbage collection",
            r#"(type $pair (struct (field i32) (field i32)))
            (func (export "_start")
                (call $exit (struct.get $pair 1 (struct.new $pair (i32.const 1) (i32.const 9)))))"#,
        ),
        (
            "relaxed vectors",
            r#"(func (export "_start") (call $exit (i32.trunc_f32_s (f32x4.extract_lane 0
                (f32x4.relaxed_madd (v128.const f32x4 2 2 2 2) (v128.const f32x4 4 4 4 4)
                    (v128.const f32x4 1 1 1 1))))))"#,
        ),
        (
            "function references",
            r#"(type $f (func (result i32))) (elem declare func $nine)
            (func $nine (type $f) (i32.const 9))
            (func (export "_start") (call $exit (call_ref $f (ref.func $nine))))"#,
        ),
    ] {
        let text = format!("(module {exit} (memory (export \"memory\") 1) {body})");
        let program = Program::new(&engine(TierChoice::Quick, false), &module(&text)).unwrap();
        assert_eq!(outcome(&program, Limits::default()), Outcome::Exited(9), "{proposal}");
        assert_eq!(program.tiers_run(), [Tier::Quick], "{proposal}");
    }
}

/// Programs that make no system call once they have begun.
const SPINNING: &[(&str, &str)] = &[
    ("a loop", r#"(func (export "_start") (loop (br 0)))"#),
    (
        "recursion",
        r#"(func $f (param i32) (if (local.get 0) (then
                (call $f (i32.sub (local.get 0) (i32.const 1)))
                (call $f (i32.sub (local.get 0) (i32.const 1))))))
            (func (export "_start") (call $f (i32.const 200)))"#,
    ),
    (
        "indirect recursion",
        r#"(table funcref (elem $f)) (type $t (func (param i32)))
            (func $f (type $t) (if (local.get 0) (then
                (call_indirect (type $t) (i32.sub (local.get 0) (i32.const 1)) (i32.const 0))
                (call_indirect (type $t) (i32.sub (local.get 0) (i32.const 1)) (i32.const 0)))))
            (func (export "_start") (call $f (i32.const 200)))"#,
    ),
    ("nested loops", r#"(func (export "_start") (loop (loop (br 0))))"#),
    (
        "a loop in a function that calls another",
        r#"(func $x) (func (export "_start") (loop (br 0)) (call $x))"#,
    ),
    (
        "a loop of stores in a function that calls another",
        r#"(func $x) (func (export "_start")
            (loop (i32.store (i32.const 0) (i32.const 1)) (br 0)) (call $x))"#,
    ),
    (
        "a loop over a global in a function that calls another",
        r#"(global $g (mut i64) (i64.const 0)) (func $x)
            (func (export "_start") (loop
                (global.set $g (i64.add (global.get $g) (i64.const 1))) (br 0)) (call $x))"#,
    ),
    ("tail calls", r#"(func $f (return_call $f)) (func (export "_start") (call $f))"#),
    (
        "a loop over vectors",
        r#"(func (export "_start") (local v128) (loop
            (local.set 0 (f32x4.add (local.get 0) (v128.const f32x4 1 1 1 1))) (br 0)))"#,
    ),
    (
        "a loop over floats",
        r#"(func (export "_start") (local f64)
            (loop (local.set 0 (f64.sqrt (f64.add (local.get 0) (f64.const 1)))) (br 0)))"#,
    ),
    ("its start function", r#"(func $init (loop (br 0))) (start $init) (func (export "_start"))"#),
    ("its initialization", r#"(func (export "_initialize") (loop (br 0))) (func (export ""))"#),
];

#[test]
fn spinning_programs_end_at_their_timeout_in_each_tier() {
    let timeout = Some(Duration::from_millis(30));
    for fuel in [false, true] {
        for tier in [TierChoice::Quick, TierChoice::Optimized] {
            let engine = engine(tier, fuel);
            for (what, body) in SPINNING {
                let text = format!("(module (memory (export \"memory\") 1) {body})");
                let program = Program::new(&engine, &module(&text)).unwrap();
                let ended = outcome(&program, Limits { timeout, ..Limits::default() });
                assert_eq!(ended, Outcome::Limit(Limit::Timeout), "{what}, {tier}, fuel: {fuel}");
                // Its memory can be used again.
                let ended = outcome(&program, Limits { timeout, ..Limits::default() });
                assert_eq!(ended, Outcome::Limit(Limit::Timeout), "{what} again, {tier}");
            }
        }
    }
}

#[test]
fn programs_of_one_engine_end_at_their_own_deadlines() {
    let engine = Engine::new(EngineConfig { pool_slots: 10, ..EngineConfig::default() }).unwrap();
    let spins = "(module (memory (export \"memory\") 1) (func (export \"_start\") (loop (br 0))))";
    let spins = Program::new(&engine, &module(spins)).unwrap();
    let counts = "(module (memory (export \"memory\") 1) (func (export \"_start\") (local i64)
        (loop (local.set 0 (i64.add (local.get 0) (i64.const 1)))
            (br_if 0 (i64.lt_u (local.get 0) (i64.const 300000000))))))";
    let counts = Program::new(&engine, &module(counts)).unwrap();
    std::thread::scope(|scope| {
        let counting = scope.spawn(|| outcome(&counts, Limits::default()));
        for _ in 0..20 {
            let limits = Limits { timeout: Some(Duration::from_millis(5)), ..Limits::default() };
            assert_eq!(outcome(&spins, limits), Outcome::Limit(Limit::Timeout));
        }
        assert_eq!(counting.join().unwrap(), Outcome::Exited(0));
    });
}

/// The trap of a program is its own, also when its run has a deadline.
#[test]
fn memory_traps_are_no_timeouts() {
    let limits = || Limits { timeout: Some(Duration::from_mins(1)), ..Limits::default() };
    for tier in [TierChoice::Quick, TierChoice::Optimized] {
        let text = "(module (memory (export \"memory\") 1) (func (export \"_start\")
            (loop (drop (i32.load (i32.const 70000))))))";
        let program = Program::new(&engine(tier, false), &module(text)).unwrap();
        let Outcome::Trapped(trap) = outcome(&program, limits()) else { panic!("no trap") };
        assert!(trap.message.contains("out of bounds"), "{trap:?}");
    }
}

#[test]
fn stop_page_counts_neither_as_memory_nor_as_an_export() {
    let limits = Limits { memory_bytes_max: 64 << 10, ..Limits::default() };
    for tier in [TierChoice::Quick, TierChoice::Optimized] {
        let engine = engine(tier, false);
        let text = "(module (memory (export \"memory\") 1) (func $f)
            (func (export \"_start\") (call $f)))";
        let program = Program::new(&engine, &module(text)).unwrap();
        assert_eq!(outcome(&program, limits), Outcome::Exited(0), "{tier}");
        let text = "(module (func $f (call $g)) (func $g) (start $f) (export \"a\" (func $g)))";
        let program = Program::new(&engine, &module(text)).unwrap();
        let mut machine = Machine::builder().build().unwrap();
        let error = Command::new(&program).output(&mut machine).unwrap_err().to_string();
        assert!(error.contains("\"a\"") && !error.contains("belljar:"), "{error}");
    }
}

/// The stack of quick code is large, so what is used of it counts while a process waits.
#[test]
fn deep_stack_of_a_waiting_process_counts_as_memory() {
    let text = r#"(module
        (import "wasi_snapshot_preview1" "poll_oneoff"
            (func $poll (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 24) "\01")
        (func $deep (param i32)
            (if (local.get 0)
                (then (call $deep (i32.sub (local.get 0) (i32.const 1))))
                (else (drop (call $poll
                    (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128)))))
            (i32.store (i32.const 200) (local.get 0)))
        (func (export "_start") (call $deep (i32.const 1000000))))"#;
    let program = Program::new(&engine(TierChoice::Quick, false), &module(text)).unwrap();
    let limits = |bytes| Limits { memory_bytes_max: bytes, ..Limits::default() };
    assert_eq!(outcome(&program, limits(1 << 30)), Outcome::Exited(0));
    assert_eq!(outcome(&program, limits(16 << 20)), Outcome::Limit(Limit::Memory));
}

/// What a recursion that has returned used is given back before the process waits.
#[test]
fn process_waits_after_a_deep_recursion_has_returned() {
    let text = r#"(module
        (import "wasi_snapshot_preview1" "poll_oneoff"
            (func $poll (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 24) "\01")
        (func $deep (param i32) (result i32)
            (if (result i32) (local.get 0)
                (then (i32.add (i32.const 1) (call $deep (i32.sub (local.get 0) (i32.const 1)))))
                (else (i32.const 0))))
        (func (export "_start")
            (if (i32.ne (call $deep (i32.const 1000000)) (i32.const 1000000)) (then unreachable))
            (drop (call $poll (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128)))
            (if (i32.ne (call $deep (i32.const 1000000)) (i32.const 1000000)) (then unreachable))))"#;
    let program = Program::new(&engine(TierChoice::Quick, false), &module(text)).unwrap();
    let limits = Limits { memory_bytes_max: 16 << 20, ..Limits::default() };
    assert_eq!(outcome(&program, limits), Outcome::Exited(0));
}

/// Regression: with fuel, which leaves modules as they are, an export of that name was called.
#[test]
fn export_of_a_reserved_name_is_not_called_with_fuel() {
    for export in ["(param i32)", "unreachable"] {
        let text = format!(
            "(module (memory (export \"memory\") 1) (func (export \"belljar:start\") {export})
                (func (export \"_start\")))"
        );
        let program = Program::new(&engine(TierChoice::Optimized, true), &module(&text)).unwrap();
        assert_eq!(outcome(&program, Limits::default()), Outcome::Exited(0));
    }
}

#[test]
fn code_used_least_recently_is_removed_first() {
    let dir = tempfile::tempdir().unwrap();
    let config = EngineConfig {
        pool_slots: 0,
        cache_dir: Some(dir.path().to_owned()),
        ..EngineConfig::default()
    };
    let engine = Engine::new(config).unwrap();
    let modules: Vec<_> =
        ["hello", "walk", "clock"].iter().map(|name| Module::read(&guest(name)).unwrap()).collect();
    for module in &modules {
        Program::new(&engine, module).unwrap();
    }
    // As if all were stored long ago; then one is used.
    for folder in ["keys", "code"] {
        for entry in std::fs::read_dir(dir.path().join("code-1").join(folder)).unwrap() {
            let file = std::fs::File::options().append(true).open(entry.unwrap().path()).unwrap();
            file.set_modified(std::time::SystemTime::now() - Duration::from_hours(25)).unwrap();
        }
    }
    let unknown = belljar::UnknownImports::Trap;
    let is_cached =
        |module: &Module| Program::from_cache(&engine, module, unknown).unwrap().is_some();
    assert!(is_cached(&modules[1]));
    let cache = engine.cache().unwrap();
    let before = cache.info().unwrap();
    let removed = cache.trim(before.bytes - 1).unwrap();
    assert_eq!(removed.entries, 1);
    assert_eq!(cache.info().unwrap().bytes, before.bytes - removed.bytes);
    assert!(is_cached(&modules[1]), "it was used last");
    assert_eq!(cache.trim(0).unwrap().entries, 2);
    assert_eq!(cache.info().unwrap().bytes, 0);
}
