//! `--invoke`: calls of exports of components and modules (`tests/guests/rust/exports` has functions of all types).

use belljar::{Command, Machine, Module, Outcome, Program, RunError};
use serde_json::{Value, json};

use super::text;
use crate::support::{belljar, engine, package, stderr, stdout};

const MODULE: &str = r#"(module
    (func (export "add") (param i32 i32) (result i32) local.get 0 local.get 1 i32.add)
    (func (export "two") (result i64 f32) i64.const -1 f32.const nan)
    (func (export "_x.y") (param f64) (result f64) local.get 0)
    (global $ready (mut i32) (i32.const 0))
    (func (export "_initialize") i32.const 7 global.set $ready)
    (func (export "ready") (result i32) global.get $ready)
    (func (export "spin") (loop br 0))
    (func (export "reference") (result funcref) ref.null func)
    (func (export "host") (param externref)))"#;

/// It returns a resource, alone and in a list.
const RESOURCE: &str = r#"(component
    (type $r' (resource (rep i32)))
    (export $r "r" (type $r'))
    (core func $new (canon resource.new $r'))
    (core module $m
        (import "" "new" (func $new (param i32) (result i32)))
        (func (export "make") (result i32) (call $new (i32.const 1))))
    (core instance $i (instantiate $m (with "" (instance (export "new" (func $new))))))
    (func (export "make") (result (own $r)) (canon lift (core func $i "make"))))"#;

#[test]
fn result_that_cannot_be_written_is_refused_before_the_call() {
    let why = "it returns a reference, a resource, a stream or a future, which cannot be written";
    assert_eq!(invoke(&module(), "reference()"), Err(why.to_owned()));
    let component = Module::from_bytes("r", RESOURCE.into()).unwrap();
    let component = Program::new(engine(), &component).unwrap();
    assert_eq!(invoke(&component, "make()"), Err(why.to_owned()));
    assert!(invoke(&module(), "host(1)").is_err());
}

/// What `call` of `program` printed and returned, or why it cannot be made.
fn invoke(program: &Program, call: &str) -> Result<(String, Option<Value>), String> {
    let mut machine = super::builder().build().unwrap();
    match Command::new(program).invoke(call).output(&mut machine) {
        Ok(output) => {
            assert_eq!(*output.status.outcome(), Outcome::Exited(0), "{call}");
            Ok((text(&output.stdout), machine.returned().cloned()))
        }
        Err(RunError::Invoke { problem, .. }) => Err(problem),
        Err(error) => panic!("{call}: {error}"),
    }
}

fn component() -> Program {
    Program::load(engine(), package().join("tests/guests/exports.wasm")).unwrap()
}

fn module() -> Program {
    Program::new(engine(), &Module::from_bytes("lib", MODULE.into()).unwrap()).unwrap()
}

#[test]
fn values_of_all_types_go_in_and_come_out() {
    let program = component();
    for (call, printed, returned) in [
        (
            r#"greet("you", some(2))"#,
            "ok(\"hello youhello you\")",
            json!({ "ok": "hello youhello you" }),
        ),
        (r#"greet("a", some(0))"#, "err(\"nobody\")", json!({ "err": "nobody" })),
        ("greet(\"a\", none)", "ok(\"hello a\")", json!({ "ok": "hello a" })),
        ("same-float(nan)", "nan", json!("nan")),
        ("same-float(-inf)", "-inf", json!("-inf")),
        ("same-float(1.5)", "1.5", json!(1.5)),
        ("same-char('\u{2603}')", "'\u{2603}'", json!("\u{2603}")),
        ("pair()", "(7, \"seven\")", json!([7, "seven"])),
        ("same-shape(dot)", "dot", json!("dot")),
        ("same-shape(circle(0.5))", "circle(0.5)", json!({ "circle": 0.5 })),
        (
            "same-shape(line(({x: 1, y: 2}, {x: 3, y: 4})))",
            "line(({x: 1, y: 2}, {x: 3, y: 4}))",
            json!({ "line": [{ "x": 1.0, "y": 2.0 }, { "x": 3.0, "y": 4.0 }] }),
        ),
        ("same-color(dark-blue)", "dark-blue", json!("dark-blue")),
        ("same-style({wide, bold})", "{bold, wide}", json!(["bold", "wide"])),
        ("same-points([])", "[]", json!([])),
    ] {
        assert_eq!(invoke(&program, call), Ok((format!("{printed}\n"), Some(returned))), "{call}");
    }
    assert_eq!(invoke(&program, "nothing()"), Ok((String::new(), None)));
    assert_eq!(invoke(&program, "nothing"), Ok((String::new(), None)));
}

#[test]
fn function_of_an_interface_is_found_by_its_name_or_with_the_interface() {
    let program = component();
    let printed = |call: &str| invoke(&program, call).map(|(printed, _)| printed);
    assert_eq!(printed("test:exports/shapes#add(1, -2)"), Ok("-1\n".to_owned()));
    assert_eq!(printed("test:exports/others@1.2.3#add(1, 2)"), Ok("3\n".to_owned()));
    assert_eq!(
        printed("add(1, 2)"),
        Err(
            "add is one of test:exports/shapes@1.2.3#add, test:exports/others@1.2.3#add: name the \
             interface, too"
                .to_owned()
        )
    );
}

#[test]
fn call_that_cannot_be_made_says_why() {
    let (component, module) = (component(), module());
    let deep = format!("nothing({})", "[".repeat(100_000));
    for (program, call, why) in [
        (&component, "nope()", "it exports no function nope; it has greet, same-float, "),
        (&component, "other:p/i#add(1, 2)", "it exports no function other:p/i#add; it has"),
        (&component, "greet(1, none)", "it takes (string, option<u32>)"),
        (&component, "greet()", "it takes (string, option<u32>)"),
        (&component, "greet(\"a\"", "unexpected end of input"),
        (&component, "nothing(1)", "it takes ()"),
        (&component, &deep, "it takes ()"),
        (&module, "nope", "it has add, two, _x.y, _initialize, ready, spin, reference"),
        (&module, "add(1)", "it takes (s32, s32)"),
        (&module, "add(1, 9999999999)", "it takes (s32, s32)"),
    ] {
        let problem = invoke(program, call).unwrap_err();
        assert!(problem.contains(why), "{call}: {problem}");
    }
}

#[test]
fn message_about_long_names_is_cut() {
    let names = (0..30).map(|number| format!("(export \"{}{number}\")", "é".repeat(400)));
    let text = format!("(module (func {}))", names.collect::<String>());
    let module = Module::from_bytes("m", text.into_bytes()).unwrap();
    let error = invoke(&Program::new(engine(), &module).unwrap(), "nope()").unwrap_err();
    assert!(error.len() < 5000 && error.contains('…'), "{} bytes", error.len());
}

#[test]
fn functions_of_modules_are_called_after_initialize() {
    let program = module();
    for (call, printed, returned) in [
        ("add(3, -4)", "-1\n", json!(-1)),
        ("two", "-1\nnan\n", json!([-1, "nan"])),
        ("_x.y(1.5)", "1.5\n", json!(1.5)),
        ("ready()", "7\n", json!(7)),
    ] {
        assert_eq!(invoke(&program, call), Ok((printed.to_owned(), Some(returned))), "{call}");
    }
}

#[test]
fn what_is_called_can_trap_and_meets_limits() {
    let mut machine = Machine::builder().build().unwrap();
    let output = Command::new(&component()).invoke("fail()").output(&mut machine).unwrap();
    assert!(matches!(output.status.outcome(), Outcome::Trapped(_)), "{:?}", output.status);
    assert!(text(&output.stderr).contains("it fails"), "{}", text(&output.stderr));
    assert_eq!(machine.returned(), None);

    let timeout = Some(std::time::Duration::from_millis(100));
    let limits = belljar::Limits { timeout, ..belljar::Limits::default() };
    let mut machine = Machine::builder().limits(limits).build().unwrap();
    let output = Command::new(&module()).invoke("spin").output(&mut machine).unwrap();
    assert_eq!(*output.status.outcome(), Outcome::Limit(belljar::Limit::Timeout));
}

#[test]
fn what_is_no_module_has_no_exports() {
    let mut machine = Machine::builder().build().unwrap();
    let error = Command::shell("true").invoke("f()").output(&mut machine).unwrap_err();
    assert_eq!(error.to_string(), "cannot call f() of sh: it is not a module");
}

#[test]
fn command_line_prints_reports_records_and_verifies_calls() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("lib.wat"), MODULE).unwrap();
    std::fs::copy(package().join("tests/guests/exports.wasm"), at.join("exports.wasm")).unwrap();
    let run = |words: &[&str]| belljar(at).args(words).output().unwrap();

    // Without parentheses, the arguments of the program are those of the call.
    let output = run(&["run", "--invoke", "add", "lib.wat", "3", "4"]);
    assert_eq!(stdout(&output), "7\n", "{}", stderr(&output));

    let call = "save(\"a.txt\", \"hi\\n\")";
    let output = run(&["run", "--invoke", call, "--apply", "--json=r.json", "./exports.wasm"]);
    assert_eq!(stdout(&output), "ok\n", "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(at.join("a.txt")).unwrap(), "hi\n");
    let report: Value = serde_json::from_slice(&std::fs::read(at.join("r.json")).unwrap()).unwrap();
    assert_eq!((&report["returned"], &report["status"]), (&json!("ok"), &json!("exited")));

    let output = run(&["run", "--invoke", "nope", "./lib.wat"]);
    assert_eq!(output.status.code(), Some(126));
    assert!(
        stderr(&output).contains("cannot call nope() of ./lib.wat: it exports no function nope")
    );

    let record = ["record", "--tape", "t.tape", "--invoke", "add(5, 6)", "./lib.wat"];
    assert_eq!(stdout(&run(&record)), "11\n");
    let output = run(&["replay", "--module", "lib.wat", "t.tape"]);
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("11\n", Some(0)));

    let output = run(&["verify", "--invoke", "add(5, 6)", "./lib.wat"]);
    assert!(output.status.success(), "{}", stderr(&output));

    let cached = ["run", "--cache-results", "--json", "--invoke"];
    for (call, why) in [
        (["add(5, 6)", "./lib.wat"], "--invoke makes a call of its own"),
        (["pair()", "./exports.wasm"], "results of components are not cached"),
    ] {
        let output = run(&[&cached[..], &call].concat());
        assert!(stdout(&output).contains(why), "{}", stdout(&output));
    }
}
