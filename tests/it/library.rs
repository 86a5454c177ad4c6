//! The library: many machines in parallel, on many threads, inside a tokio runtime.

use belljar::{
    ClockConfig, Command, Engine, EngineConfig, HostDir, Limit, Limits, Machine, Module, Outcome,
    Program, ProgramError, UnknownImports,
};

use crate::support::{engine, guest};

fn program(name: &str) -> Program {
    Program::load(engine(), guest(name)).unwrap()
}

#[test]
fn machines_move_between_threads_and_programs_are_shared() {
    fn moves<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    moves::<Machine>();
    is_shared::<Engine>();
    is_shared::<Program>();
    is_shared::<Command>();
}

#[test]
fn machines_on_many_threads_never_see_each_other() {
    let (overwrite, cat, clock) = (program("overwrite"), program("cat"), program("clock"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shared"), "below").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (overwrite, cat, clock, path) = (&overwrite, &cat, &clock, folder.path());
            scope.spawn(move || {
                for round in 0..20u64 {
                    let second = 1000 * (thread + 1) + round;
                    let mut machine = Machine::builder()
                        .worktree(HostDir::open(path).unwrap())
                        .clock(ClockConfig::Paused { start_ns: second * 1_000_000_000 })
                        .build()
                        .unwrap();
                    let text = format!("{thread} {round}");
                    let write = format!("write:shared:{text}");
                    let output = Command::new(overwrite).arg(write).output(&mut machine).unwrap();
                    assert!(output.status.success());
                    let output = Command::new(cat).arg("shared").output(&mut machine).unwrap();
                    assert_eq!(output.stdout, text.into_bytes());
                    let output = Command::new(clock).output(&mut machine).unwrap();
                    let expected = format!("realtime {second}.");
                    assert!(output.stdout.starts_with(expected.as_bytes()));
                }
            });
        }
    });
    assert_eq!(std::fs::read(folder.path().join("shared")).unwrap(), b"below");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_run_inside_a_tokio_runtime() {
    let hello = program("hello");
    let mut machine = Machine::builder().build().unwrap();
    let here = Command::new(&hello).output(&mut machine).unwrap();
    assert_eq!(here.stdout, b"hello, world\n");
    let there = tokio::task::spawn_blocking(move || {
        Command::new(&hello).output(&mut machine).map(|output| (output, machine))
    });
    let (output, _machine) = there.await.unwrap().unwrap();
    assert_eq!(output.stdout, b"hello, world\n");
}

#[test]
fn a_machine_keeps_files_and_time_from_one_process_to_the_next() {
    let mut machine = Machine::builder().build().unwrap();
    let output = Command::new(&program("overwrite"))
        .args(["write:/tmp/kept:yes"])
        .output(&mut machine)
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Command::new(&program("sleeper")).arg("1500").output(&mut machine).unwrap();
    assert_eq!(machine.elapsed().as_millis(), 1500);
    let output = Command::new(&program("cat")).arg("/tmp/kept").output(&mut machine).unwrap();
    assert_eq!(output.stdout, b"yes");
    let left_open = Command::new(&program("trap")).output(&mut machine).unwrap();
    assert!(matches!(left_open.status.outcome(), Outcome::Trapped(_)));
    assert_eq!(machine.vfs_mut().read("/tmp/kept").unwrap(), b"yes");
}

#[test]
fn machines_on_one_engine_have_separate_timeouts() {
    let looping = program("loop");
    let hello = program("hello");
    let limited =
        |ms| Limits { timeout: Some(std::time::Duration::from_millis(ms)), ..Limits::default() };
    std::thread::scope(|scope| {
        for ms in [50, 150, 300] {
            let looping = &looping;
            scope.spawn(move || {
                let mut machine = Machine::builder().limits(limited(ms)).build().unwrap();
                let output = Command::new(looping).output(&mut machine).unwrap();
                assert_eq!(*output.status.outcome(), Outcome::Limit(Limit::Timeout));
            });
        }
        let mut machine = Machine::builder().limits(limited(60_000)).build().unwrap();
        for _ in 0..200 {
            assert!(Command::new(&hello).output(&mut machine).unwrap().status.success());
        }
    });
}

#[test]
fn fuel_needs_an_engine_that_counts_it() {
    let config = EngineConfig { pool_slots: 0, fuel: true, ..EngineConfig::default() };
    let metered = Engine::new(config).unwrap();
    let hello = Program::load(&metered, guest("hello")).unwrap();
    let limits = Limits { fuel: Some(1_000_000), ..Limits::default() };
    let mut machine = Machine::builder().limits(limits).build().unwrap();
    let first = Command::new(&hello).output(&mut machine).unwrap();
    let second = Command::new(&hello).output(&mut machine).unwrap();
    assert!(first.status.fuel_used().unwrap() > 10);
    assert_eq!(first.status.fuel_used(), second.status.fuel_used());
    assert_eq!(
        Command::new(&program("hello")).output(&mut machine).unwrap().status.fuel_used(),
        None
    );
}

/// Such modules have more memories, or larger tables, than a slot of the pool.
#[test]
fn modules_that_do_not_fit_the_pool_run_all_the_same() {
    let text = br#"(module
        (table 3000000 funcref)
        (memory (export "memory") 1) (memory 1) (memory 1)
        (func (export "_start")))"#;
    let module = belljar::Module::from_bytes("large", text.to_vec()).unwrap();
    let large = Program::new(engine(), &module).unwrap();
    let mut machine = Machine::builder().build().unwrap();
    assert!(Command::new(&large).output(&mut machine).unwrap().status.success());
}

/// The pool refuses such code at each load. Regression: the code was then removed from the cache, and compiled at every
/// start.
#[test]
fn code_that_does_not_fit_the_pool_stays_in_the_cache() {
    let text = br#"(module (table 300000 funcref) (func (export "_start")))"#;
    let module = belljar::Module::from_bytes("large", text.to_vec()).unwrap();
    Program::new(engine(), &module).unwrap();
    for _ in 0..3 {
        let cached = Program::from_cache(engine(), &module, UnknownImports::Trap).unwrap();
        let mut machine = Machine::builder().build().unwrap();
        let output = Command::new(&cached.unwrap()).output(&mut machine).unwrap();
        assert!(output.status.success());
    }
}

#[test]
fn deterministic_proposals_are_on_and_shared_memories_are_off() {
    let run = |text: &str| {
        let module = belljar::Module::from_bytes("proposal", text.as_bytes().to_vec()).unwrap();
        let program = Program::new(engine(), &module).map_err(|error| error.to_string())?;
        let mut machine = Machine::builder().build().unwrap();
        let output = Command::new(&program).output(&mut machine).unwrap();
        if output.status.success() { Ok(()) } else { Err(format!("{:?}", output.status)) }
    };
    let on = [
        r#"(module (func (export "_start") (drop (i8x16.splat (i32.const 1)))))"#,
        r#"(module (func (export "_start") (drop (f32x4.relaxed_madd (v128.const i32x4 0 0 0 0)
            (v128.const i32x4 0 0 0 0) (v128.const i32x4 0 0 0 0)))))"#,
        r#"(module (memory 1) (func (export "_start")
            (memory.fill (i32.const 0) (i32.const 1) (i32.const 2))))"#,
        r#"(module (func $f (return_call $g)) (func $g) (func (export "_start") (call $f)))"#,
        r#"(module (tag $t) (func (export "_start")
            (block $b (try_table (catch $t $b) (throw $t)))))"#,
        r#"(module (memory i64 1) (func (export "_start") (drop (i32.load (i64.const 0)))))"#,
        r#"(module (global i32 (i32.add (i32.const 1) (i32.const 2))) (func (export "_start")))"#,
        r#"(module (type $s (struct (field i32))) (func (export "_start")
            (drop (struct.get $s 0 (struct.new $s (i32.const 1))))))"#,
        r#"(module (memory 1) (memory 1) (func (export "_start")
            (drop (i32.load 1 (i32.const 0)))))"#,
        r#"(module (memory 1) (func (export "_start")
            (drop (i32.atomic.rmw.add (i32.const 0) (i32.const 1)))
            (drop (memory.atomic.notify (i32.const 0) (i32.const 1))) (atomic.fence)))"#,
    ];
    for text in on {
        assert_eq!(run(text), Ok(()), "{text}");
    }
    let waits = r#"(module (memory 1) (func (export "_start")
        (drop (memory.atomic.wait32 (i32.const 0) (i32.const 0) (i64.const -1)))))"#;
    let error = run(waits).unwrap_err();
    assert!(error.contains("atomic wait on non-shared memory"), "{error}");
    let shared = r#"(module (memory 1 1 shared) (func (export "_start")))"#;
    let error = run(shared).unwrap_err();
    assert!(error.contains("proposal has a shared memory"), "{error}");
}

/// Without canonicalization, the bits of a NaN result differ between processors.
#[test]
fn nans_are_canonical() {
    let text = r#"(module
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (func (export "_start")
            (call $exit (i32.ne (i32.const 0x7fc00000) (i32.reinterpret_f32
                (f32.add (f32.reinterpret_i32 (i32.const 0xffc12345)) (f32.const 1)))))))"#;
    let module = belljar::Module::from_bytes("nan", text.as_bytes().to_vec()).unwrap();
    let program = Program::new(engine(), &module).unwrap();
    let mut machine = Machine::builder().build().unwrap();
    assert_eq!(Command::new(&program).output(&mut machine).unwrap().status.code(), Some(0));
}

/// Regression: this limit applied only on the command line.
#[test]
fn library_refuses_modules_that_need_too_much_memory_to_compile() {
    // 300 variables live across 1000 loops.
    let write = |index: usize| format!("(local.set {index} (i32.const {index}))");
    let read = |index: usize| format!("(drop (local.get {index}))");
    let body = (0..300).map(write).collect::<String>()
        + &"(loop (br_if 0 (i32.const 0)))".repeat(1000)
        + &(0..300).map(read).collect::<String>();
    let text = format!(
        r#"(module (func (export "_start") (local {}) {body}) (func nop))"#,
        "i32 ".repeat(300)
    );
    let module = Module::from_bytes("hard.wat", text.into_bytes()).unwrap();
    let bytes = module.compile_bytes_max().unwrap();
    assert!((32 << 20..128 << 20).contains(&bytes), "{bytes}");
    let compile = |compile_memory_bytes_max| {
        let config =
            EngineConfig { pool_slots: 0, compile_memory_bytes_max, ..EngineConfig::default() };
        Program::new(&Engine::new(config).unwrap(), &module).map(|_| ())
    };
    // Enough memory to compile on one thread, but not on two.
    assert!(compile(bytes).is_ok());
    let refused = compile(bytes - 1).unwrap_err();
    assert!(matches!(refused, ProgramError::CompileMemory { .. }), "{refused:?}");
    let message = refused.to_string();
    assert!(
        message.contains("hard.wat") && message.contains("compile_memory_bytes_max"),
        "{message}"
    );
}

/// Regression: the second run started with what the first had left of the limits, and its report listed the limits that
/// the first had reached.
#[test]
fn each_run_of_a_machine_starts_with_full_limits() {
    let limits = Limits { output_bytes_max: 10, memory_bytes_max: 1 << 20, ..Limits::default() };
    let mut machine = Machine::builder().limits(limits).build().unwrap();
    let long = Command::shell("echo 0123456789").output(&mut machine).unwrap();
    assert_eq!(long.status.outcome(), &Outcome::Limit(Limit::Output));
    assert_eq!(machine.limits_hit(), [Limit::Output]);
    // All processes of a run share the limit.
    let tree = Command::shell("(echo 123); echo 123 | cat >&2; echo 123").output(&mut machine);
    assert_eq!(tree.unwrap().status.outcome(), &Outcome::Limit(Limit::Output));
    let big = "exec 2> /tmp/e; x=0123456789abcdef; while :; do x=$x$x; done";
    let big = Command::shell(big).output(&mut machine).unwrap();
    assert!(!big.status.success());
    assert_eq!(machine.limits_hit(), [Limit::Memory]);
    let short = Command::shell("echo 12345678").output(&mut machine).unwrap();
    assert_eq!(short.stdout, b"12345678\n");
    assert_eq!(machine.limits_hit(), []);
}
