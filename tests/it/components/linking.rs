//! What components import, and what they are.

use belljar::{Command, Encoding, Machine, Module, Outcome, Program, ProgramError, UnknownImports};

use crate::support::{belljar, engine, stderr, stdout};

fn component(text: &str) -> Module {
    let module = Module::from_bytes("component", text.as_bytes().to_vec()).unwrap();
    assert_eq!(module.encoding(), Encoding::Component);
    module
}

fn outcome(text: &str) -> Result<Outcome, String> {
    let program = Program::new(engine(), &component(text)).map_err(|error| error.to_string())?;
    let output = Command::new(&program).output(&mut Machine::builder().build().unwrap());
    output.map(|output| output.status.outcome().clone()).map_err(|error| error.to_string())
}

/// A component whose `run` calls the import `f`, if there is one, and returns `result`.
fn running(imports: &str, call: &str, result: u32) -> String {
    format!(
        r#"(component
            {imports}
            (core module $m
                {call}
                (func (export "run") (result i32) {} (i32.const {result})))
            (core instance $i (instantiate $m {}))
            (func $run (result (result)) (canon lift (core func $i "run")))
            (instance $r (export "run" (func $run)))
            (export "wasi:cli/run@0.2.0" (instance $r)))"#,
        if call.is_empty() { "" } else { "(call $f)" },
        if call.is_empty() {
            ""
        } else {
            r#"(with "host" (instance (export "f" (func $lowered))))"#
        },
    )
}

const IMPORTS_F: &str = r#"(import "f" (func $f)) (core func $lowered (canon lower (func $f)))"#;
const CALLS_F: &str = r#"(import "host" "f" (func $f))"#;

#[test]
fn result_of_run_is_the_exit_status() {
    assert_eq!(outcome(&running("", "", 0)), Ok(Outcome::Exited(0)));
    assert_eq!(outcome(&running("", "", 1)), Ok(Outcome::Exited(1)));
}

#[test]
fn unknown_function_is_a_trap_that_names_it() {
    let text = running(IMPORTS_F, CALLS_F, 0);
    let Ok(Outcome::Trapped(trap)) = outcome(&text) else { panic!("it calls f") };
    assert!(trap.message.contains("it called import f, which is not defined"), "{}", trap.message);
    let program = Program::new(engine(), &component(&text)).unwrap();
    assert_eq!(program.unknown_imports(), ["f"]);
    let denied = Program::with_unknown(engine(), &component(&text), UnknownImports::Deny);
    let Err(ProgramError::Import { import, .. }) = denied else { panic!("it is denied") };
    assert_eq!(import, "the function f");
}

#[test]
fn function_of_another_type_is_refused() {
    let imports = r#"(import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
        (export "now" (func (result u32)))))"#;
    let error = outcome(&running(imports, "", 0)).unwrap_err();
    assert!(error.contains("does not match WASI"), "{error}");
    // Another version has functions of its own.
    let other = imports.replace("0.2.0", "0.4.0");
    assert_eq!(outcome(&running(&other, "", 0)), Ok(Outcome::Exited(0)));
}

#[test]
fn unknown_resource_is_one_wherever_it_is_named() {
    let imports = r#"
        (import "a:b/c" (instance $c (export "thing" (type (sub resource)))))
        (alias export $c "thing" (type $thing))
        (import "a:b/d" (instance $d
            (alias outer 1 $thing (type $outer))
            (export "thing" (type (eq $outer)))))"#;
    assert_eq!(outcome(&running(imports, "", 0)), Ok(Outcome::Exited(0)));
}

#[test]
fn component_without_a_program_is_refused() {
    let error = outcome(r#"(component (instance $i) (export "a:b/c" (instance $i)))"#).unwrap_err();
    assert!(error.contains("a:b/c"), "{error}");
}

#[test]
fn program_of_another_type_is_refused() {
    let text = r#"(component
        (core module $m (func (export "run") (result i32) (i32.const 0)))
        (core instance $i (instantiate $m))
        (func $run (result u32) (canon lift (core func $i "run")))
        (instance $r (export "run" (func $run)))
        (export "wasi:cli/run@0.2.0" (instance $r)))"#;
    assert!(outcome(text).unwrap_err().contains("wasi:cli/run@0.2.0"));
}

#[test]
fn invalid_component_is_refused_with_the_place() {
    let mut bytes = wat::parse_str(running("", "", 0)).unwrap();
    bytes.truncate(bytes.len() - 3);
    let module = Module::from_bytes("cut", bytes).unwrap();
    let Err(ProgramError::Invalid { message, .. }) = Program::new(engine(), &module) else {
        panic!("it is cut")
    };
    assert!(message.contains("offset"), "{message}");
}

#[test]
fn shared_memory_of_a_component_is_refused() {
    let text = r"(component (core module (memory 1)) (core module (memory 1 1 shared)))";
    let error = Program::new(engine(), &component(text)).err().unwrap();
    assert!(matches!(error, ProgramError::SharedMemory { .. }), "{error}");
}

/// `toolchain inspect` of the component `text` in a file.
fn inspected(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let bytes = wat::parse_str(text).unwrap();
    std::fs::write(folder.path().join("c.wasm"), bytes).unwrap();
    let output = belljar(folder.path()).args(["toolchain", "inspect", "c.wasm"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

#[test]
fn inspect_shows_the_world_of_a_component_and_what_of_it_is_missing() {
    let found = inspected(
        r#"(component
            (import "wasi:random/random@0.2.3" (instance (export "get-random-u64" (func (result u64)))))
            (import "wasi:random/random@0.4.0" (instance (export "get-random-u64" (func (result u64)))))
            (import "belljar:process/processes@0.1.0" (instance (export "id" (func (result u32)))))
            (import "belljar:process/processes@0.2.0" (instance (export "id" (func (result u32)))))
            (import "mine:own/thing" (instance (export "act" (func))))
            (core module $m (func (export "f")))
            (core instance $i (instantiate $m))
            (func (export "start") (canon lift (core func $i "f"))))"#,
    );
    let wanted = "  imports belljar:process/processes@0.1.0: id
  imports belljar:process/processes@0.2.0: id
  imports mine:own/thing: act
  imports wasi:random/random@0.2.3: get-random-u64
  imports wasi:random/random@0.4.0: get-random-u64
  exports start
  proposals component-model
  traps when it calls wasi:random/random@0.4.0#get-random-u64, belljar:process/processes@0.2.0#id, \
        mine:own/thing#act, which belljar does not have
  a library: it cannot be run
  hermetic
";
    let (first, rest) = found.split_once('\n').unwrap();
    assert!(first.starts_with("component c.wasm  "), "{first}");
    assert_eq!(rest, wanted);
}

/// Two components, each with a memory of its own, made one: as `wac` and `wasm-tools compose` make them.
const COMPOSED: &str = r#"(component
    (component $inner
        (core module $m
            (memory (export "memory") 1)
            (data (i32.const 8) "\07")
            (func (export "get") (result i32) (i32.load8_u (i32.const 8))))
        (core instance $i (instantiate $m))
        (func $get (result u32) (canon lift (core func $i "get")))
        (instance $exports (export "get" (func $get)))
        (export "test:inner/numbers" (instance $exports)))
    (component $outer
        (import "test:inner/numbers" (instance $numbers (export "get" (func (result u32)))))
        (import "wasi:cli/exit@0.2.6" (instance $exit (export "exit-with-code" (func (param "code" u8)))))
        (core func $get (canon lower (func $numbers "get")))
        (core func $end (canon lower (func $exit "exit-with-code")))
        (core module $m
            (import "in" "get" (func $get (result i32)))
            (import "in" "end" (func $end (param i32)))
            (memory (export "memory") 2)
            (func (export "run") (result i32)
                (i32.store8 (i32.const 8) (i32.const 35))
                (call $end (i32.add (call $get) (i32.load8_u (i32.const 8))))
                (i32.const 0)))
        (core instance $i (instantiate $m (with "in" (instance (export "get" (func $get)) (export "end" (func $end))))))
        (func $run (result (result)) (canon lift (core func $i "run")))
        (instance $exports (export "run" (func $run)))
        (export "wasi:cli/run@0.2.6" (instance $exports)))
    (import "wasi:cli/exit@0.2.6" (instance $exit (export "exit-with-code" (func (param "code" u8)))))
    (instance $a (instantiate $inner))
    (instance $b (instantiate $outer
        (with "test:inner/numbers" (instance $a "test:inner/numbers")) (with "wasi:cli/exit@0.2.6" (instance $exit))))
    (export "wasi:cli/run@0.2.6" (instance $b "wasi:cli/run@0.2.6")))"#;

#[test]
fn composed_components_run_and_are_shown_from_outside() {
    assert_eq!(outcome(COMPOSED), Ok(Outcome::Exited(42)));
    let found = inspected(COMPOSED);
    let (_, rest) = found.split_once('\n').unwrap();
    assert_eq!(
        rest,
        "  imports wasi:cli/exit@0.2.6: exit-with-code\n  exports wasi:cli/run@0.2.6\n  proposals component-model\n  \
         hermetic\n"
    );
}
