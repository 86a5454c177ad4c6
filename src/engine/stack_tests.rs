//! Recursion that optimized code allows is possible in quick code.

use std::fmt::Write;

use wasmtime::{Engine, Instance, Module, Store, Trap};

use super::config::EngineConfig;
use super::generator::Generator;
use super::module::Encoding;
use super::prepare::{Target, prepare};

/// A module whose export `go` calls itself without an end, and counts in the global `depth`.
fn recursive(shape: &str, locals: usize) -> String {
    let mut body = String::new();
    let declared = "i64 ".repeat(locals);
    match shape {
        // All locals are dead at the call.
        "dead" => {
            for local in 1..=locals {
                write!(body, "(local.set {local} (i64.add (local.get 0) (i64.const {local})))")
                    .unwrap();
                write!(body, "(global.set $sum (i64.xor (global.get $sum) (local.get {local})))")
                    .unwrap();
            }
            body += "(drop (call $go (local.get 0)))";
        }
        // All are used after it, and cannot be computed again.
        "live" => {
            for local in 1..=locals {
                write!(body, "(local.set {local} (i64.load offset={} (i32.const 0)))", local * 8)
                    .unwrap();
            }
            body += "(i64.store (i32.const 8) (local.get 0)) (drop (call $go (local.get 0)))";
            for local in 1..=locals {
                write!(body, "(global.set $sum (i64.xor (global.get $sum) (local.get {local})))")
                    .unwrap();
            }
        }
        // Operands wait on the stack.
        "operands" => {
            for at in 0..locals {
                write!(body, "(i64.load offset={} (i32.const 0))", at * 8).unwrap();
            }
            body += "(i64.store (i32.const 8) (local.get 0))(call $go (local.get 0))";
            for _ in 0..locals {
                body += "i64.add";
                body += " ";
            }
            body += "(global.set $sum)";
        }
        _ => unreachable!(),
    }
    format!(
        r#"(module (memory 1) (global $sum (mut i64) (i64.const 0))
            (global $depth (export "depth") (mut i32) (i32.const 0))
            (func $go (export "go") (param i64) (result i64) (local {declared})
                (global.set $depth (i32.add (global.get $depth) (i32.const 1)))
                {body} (global.get $sum)))"#
    )
}

/// Calls until the stack is exhausted.
fn depth(generator: Generator, text: &str) -> i32 {
    let engine =
        Engine::new(&generator.settings(&EngineConfig::default(), Encoding::Module, 0)).unwrap();
    let bytes = wat::parse_str(text).unwrap();
    let module = Module::new(
        &engine,
        prepare(
            &bytes,
            Target {
                form: generator.forms(&EngineConfig::default(), Encoding::Module)[0],
                merges_loads: generator == Generator::Optimizing,
            },
        )
        .unwrap(),
    )
    .unwrap();
    let mut store = Store::new(&engine, ());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let instance = Instance::new_async(&mut store, &module, &[]).await.unwrap();
        let go = instance.get_typed_func::<i64, i64>(&mut store, "go").unwrap();
        let error = go.call_async(&mut store, 1).await.unwrap_err();
        assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::StackOverflow));
        instance.get_global(&mut store, "depth").unwrap().get(&mut store).i32().unwrap()
    })
}

#[test]
fn recursion_that_optimized_code_allows_is_possible_in_quick_code() {
    for (shape, locals) in [
        ("dead", 2),
        ("dead", 50),
        ("dead", 200),
        ("dead", 1000),
        ("live", 2),
        ("live", 300),
        ("operands", 10),
        ("operands", 200),
    ] {
        let text = recursive(shape, locals);
        let optimized = depth(Generator::Optimizing, &text);
        let winch = (locals <= 200).then_some(Generator::Winch);
        for generator in [Generator::SinglePass].into_iter().chain(winch) {
            let quick = depth(generator, &text);
            assert!(
                f64::from(quick) >= 0.95 * f64::from(optimized),
                "{shape}, {locals} locals: {quick} calls with {generator:?}, {optimized} optimized"
            );
        }
    }
}
