//! The guest that times its own calls (`guest-examples/fsbench.c`), and how to run it. Its start is not measured, and
//! its clock is the host's.

use std::time::Duration;

use belljar::{ClockConfig, Command, Engine, EngineConfig, MachineBuilder, Module, Program};
use criterion::Criterion;

/// The duration of measurements.
pub fn criterion() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args()
}

pub fn program() -> Program {
    let engine = Engine::new(EngineConfig::default()).expect("the engine");
    let bytes = include_bytes!("../../guest-examples/fsbench.wasm").to_vec();
    let module = Module::from_bytes("fsbench", bytes).expect("a module");
    Program::new(&engine, &module).expect("a program")
}

/// Nanoseconds for one of `count` operations, or for one MiB, as timed by the guest.
pub fn ns_per_op(program: &Program, op: &str, count: u64, machine: MachineBuilder) -> f64 {
    let mut machine = machine.clock(ClockConfig::Host).build().expect("a machine");
    let output = Command::new(program)
        .args([op, &count.to_string()])
        .output(&mut machine)
        .expect("it starts");
    let text = String::from_utf8(output.stdout).expect("fsbench prints text");
    let words: Vec<&str> = text.split(' ').collect();
    let value: f64 =
        words.get(1).and_then(|word| word.parse().ok()).expect("fsbench has succeeded");
    match words[2] {
        "ns/op" => value,
        "MiB/s" => 1e9 / value,
        unit => panic!("fsbench has a new unit: {unit}"),
    }
}
