//! The cost of processes that start others, and of scripts.
//!
//! One machine and one engine; everything is warm. `compare.sh` runs the same programs natively for comparison.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use belljar::process::ShellImage;
use belljar::{Command, Engine, EngineConfig, Limits, Machine, Program};
use belljar::{ToolchainPrograms, Toolchains};
use criterion::{Criterion, Throughput};

const CHILDREN: u64 = 1000;
const MEBIBYTES: u64 = 256;
const COMMANDS: u64 = 10_000;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("guest-examples");
    let engine = Engine::new(EngineConfig::default()).expect("the engine");
    let toolchains = Toolchains::new(vec![guests.clone()]).expect("the guests' folder");
    let programs = ToolchainPrograms::new(&engine, toolchains).with("sh", ShellImage::maker());
    let limits = Limits { processes_max: 2 * CHILDREN as u32, ..Limits::default() };
    let machine = Machine::builder().limits(limits).programs(Arc::new(programs));
    let mut machine = machine.build().expect("a machine");
    let spawnbench = Program::load(&engine, guests.join("spawnbench.wasm")).expect("a program");
    let mut run = |command: &Command| {
        let output = command.output(&mut machine).expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let spawnbench = |args: &[&str]| {
        let mut command = Command::new(&spawnbench);
        command.args(args);
        command
    };

    let mut group = criterion.benchmark_group("tree");
    group.throughput(Throughput::Elements(CHILDREN));
    let count = CHILDREN.to_string();
    let one_by_one = spawnbench(&["spawn", &count, "hello"]);
    group.bench_function("spawn_wait", |b| b.iter(|| run(&one_by_one)));
    let at_once = spawnbench(&["children", &count, "hello"]);
    group.bench_function("children", |b| b.iter(|| run(&at_once)));
    group.throughput(Throughput::Bytes(MEBIBYTES << 20));
    let pipeline = spawnbench(&["pipeline", "8", &MEBIBYTES.to_string()]);
    group.bench_function("pipeline_of_8", |b| b.iter(|| run(&pipeline)));
    group.finish();

    let mut group = criterion.benchmark_group("shell");
    group.throughput(Throughput::Elements(COMMANDS));
    let builtins = Command::shell("i=0; while [ $i -lt 5000 ]; do i=$((i + 1)); echo $i; done");
    group.bench_function("builtins", |b| b.iter(|| run(&builtins)));
    group.throughput(Throughput::Elements(CHILDREN));
    let programs = Command::shell(
        "i=0; while [ $i -lt 1000 ]; do i=$((i + 1)); basename /a/b.$i >/dev/null; done",
    );
    group.bench_function("programs", |b| b.iter(|| run(&programs)));
    group.finish();
    criterion.final_summary();
}
