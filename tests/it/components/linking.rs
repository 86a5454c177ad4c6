//! What components import, and what they are.

use belljar::{Command, Encoding, Machine, Module, Outcome, Program, ProgramError, UnknownImports};

use crate::support::engine;

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
    // A version that is not one of 0.2 has functions of its own.
    let other = imports.replace("0.2.0", "0.3.0");
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
