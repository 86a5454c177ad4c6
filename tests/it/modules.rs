//! Modules that no toolchain produces: they run, or are refused with a message that names the reason.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use belljar::Errno;
use belljar::{
    Command, Limit, Limits, Machine, Module, Outcome, Program, ProgramError, Stdio, UnknownImports,
};

use crate::support::engine;

fn module(text: &str) -> Module {
    Module::from_bytes("hostile", text.as_bytes().to_vec()).unwrap()
}

fn outcome(text: &str, machine: &mut Machine) -> Outcome {
    let program = Program::new(engine(), &module(text)).unwrap();
    Command::new(&program).output(machine).unwrap().status.outcome().clone()
}

/// Runs a guest with the memories `rest` that exits with the result of `call`, an i32 expression.
fn answer(rest: &str, call: &str) -> Outcome {
    let text = format!(
        r#"(module
            (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (import "wasi_snapshot_preview1" "poll_oneoff"
                (func $poll (param i32 i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "random_get"
                (func $random (param i32 i32) (result i32)))
            {rest}
            (func (export "_start") (call $exit {call})))"#
    );
    outcome(&text, &mut Machine::builder().build().unwrap())
}

fn exits_with(errno: Errno) -> Outcome {
    Outcome::Exited(errno.code().into())
}

#[test]
fn a_million_subscriptions_are_refused() {
    let memory = r#"(memory (export "memory") 1300)"#;
    let poll = |count: u32| {
        let (events, out) = (count * 48, count * 80);
        format!(
            "(call $poll (i32.const 0) (i32.const {events}) (i32.const {count}) (i32.const {out}))"
        )
    };
    assert_eq!(answer(memory, &poll(1_000_000)), exits_with(Errno::Inval));
    let events =
        |count: u32| format!("(i32.add {} (i32.load (i32.const {})))", poll(count), count * 80);
    assert_eq!(answer(memory, &events(1 << 16)), Outcome::Exited(1 << 16), "all clocks, all due");
}

#[test]
fn pointers_refer_to_the_exported_memory() {
    let fill = |at: u32| format!("(call $random (i32.const {at}) (i32.const 8))");
    let two = r#"(memory $large 10) (memory $small (export "memory") 1)"#;
    assert_eq!(answer(two, &fill(65528)), Outcome::Exited(0));
    assert_eq!(answer(two, &fill(65529)), exits_with(Errno::Fault));
    // The other memory is unchanged.
    let other = format!("(i32.add {} (i32.load $large (i32.const 0)))", fill(0));
    assert_eq!(answer(two, &other), Outcome::Exited(0));
    assert_eq!(answer("(memory 10)", &fill(0)), exits_with(Errno::Fault), "none is exported");
    assert_eq!(answer(r#"(global (export "memory") i32 (i32.const 0))"#, &fill(0)), {
        exits_with(Errno::Fault)
    });
}

#[test]
fn memory64_is_accessed_through_32_bit_pointers() {
    let fill = |at: u32| format!("(call $random (i32.const {at}) (i32.const 8))");
    let memory = r#"(memory (export "memory") i64 1)"#;
    assert_eq!(answer(memory, &fill(65528)), Outcome::Exited(0));
    for at in [65529, u32::MAX] {
        assert_eq!(answer(memory, &fill(at)), exits_with(Errno::Fault));
    }
}

#[test]
fn unknown_imports_are_limited_to_a_thousand() {
    let importing = |count: u32| {
        let import = |n| format!(r#"(import "env" "f{n}" (func))"#);
        let imports: Vec<String> = (0..count).map(import).collect();
        module(&format!(r#"(module {} (func (export "_start")))"#, imports.join("")))
    };
    let compile = |count| Program::compile(engine(), &importing(count), UnknownImports::Trap);
    assert_eq!(compile(1000).unwrap().0.unknown_imports().len(), 1000);
    let refused = compile(1001).map(|_| ());
    assert!(matches!(refused, Err(ProgramError::TooManyUnknownImports { .. })), "{refused:?}");
}

/// Objects that a guest allocates on the garbage-collected heap count towards its memory.
#[test]
fn objects_count_as_memory() {
    let text = r#"(module
        (type $a (array (mut i64)))
        (type $list (struct (field (ref null $list)) (field (ref $a))))
        (func (export "_start") (local $all (ref null $list))
            (loop $more
                (local.set $all (struct.new $list (local.get $all)
                    (array.new $a (i64.const 7) (i32.const 100000))))
                (br $more))))"#;
    let limits = Limits { memory_bytes_max: 64 << 20, ..Limits::default() };
    let mut machine = Machine::builder().limits(limits).build().unwrap();
    assert!(matches!(outcome(text, &mut machine), Outcome::Trapped(_)));
    assert_eq!(machine.limits_hit(), [Limit::Memory]);
}

/// The output of a trace.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_trace_ends_at_its_limit_and_the_guest_runs_on() {
    let text = r#"(module
        (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
        (func (export "_start") (local $n i32)
            (loop $more
                (drop (call $yield))
                (br_if $more (i32.ne (i32.const 1000)
                    (local.tee $n (i32.add (local.get $n) (i32.const 1))))))))"#;
    let limits = Limits { trace_bytes_max: 1000, ..Limits::default() };
    let mut machine = Machine::builder().limits(limits).build().unwrap();
    let log = Log::default();
    machine.set_trace(Some(Box::new(log.clone())));
    let program = Program::new(engine(), &module(text)).unwrap();
    let status = Command::new(&program).status(&mut machine, Stdio::default()).unwrap();
    assert!(status.success());
    assert_eq!(machine.limits_hit(), [Limit::Trace]);
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.starts_with("==> sched_yield()\n<== errno=success\n==> "), "{log}");
    assert!(
        log.ends_with("the trace ends here: it has reached its limit of 1000 bytes\n"),
        "{log}"
    );
    assert!(log.len() < 1100);
}

/// Regression: a reactor, as C++ and Rust build it for hosts that call it several times, was reported as a library,
/// although the command line of wasmtime runs it.
#[test]
fn reactor_is_initialized_and_its_empty_name_export_called() {
    let reactor = |exports: &str| {
        format!(
            r#"(module
                (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
                (global $state (mut i32) (i32.const 1))
                (func $initialize (global.set $state (i32.const 40)))
                (func $main (call $exit (i32.add (global.get $state) (i32.const 2))))
                (func $start (call $exit (i32.add (global.get $state) (i32.const 3))))
                {exports})"#
        )
    };
    let (initialize, main, start) = (
        r#"(export "_initialize" (func $initialize))"#,
        r#"(export "" (func $main))"#,
        r#"(export "_start" (func $start))"#,
    );
    for (exports, code) in [
        (vec![initialize, main], 42),
        (vec![main], 3),
        (vec![initialize, start], 43),
        (vec![initialize, main, start], 42),
        (vec![start], 4),
    ] {
        let outcome =
            outcome(&reactor(&exports.concat()), &mut Machine::builder().build().unwrap());
        assert_eq!(outcome, Outcome::Exited(code), "{exports:?}");
    }
}

#[test]
fn library_error_lists_the_exports() {
    let message = |text: &str| {
        let program = Program::new(engine(), &module(text)).unwrap();
        let started = Command::new(&program).output(&mut Machine::builder().build().unwrap());
        started.unwrap_err().to_string()
    };
    let library = r#"(module
        (func (export "_initialize")) (func (export "greet") (param i32)) (func (export "add"))
        (memory (export "memory") 1))"#;
    let exports =
        r#"--invoke (Command::invoke) calls what it exports: "_initialize", "greet", "add""#;
    assert!(message(library).ends_with(exports), "{}", message(library));
    assert!(message("(module)").ends_with("it exports no function"));
    let many: Vec<String> =
        (0..30).map(|number| format!("(func (export \"f{number}\"))")).collect();
    assert!(message(&format!("(module {})", many.concat())).ends_with(r#""f19" and 10 more"#));
    let of_empty_name = r#"(module (func (export "") (param i32)))"#;
    assert!(message(of_empty_name).contains(r#"export "" must have type () -> ()"#));
}
