//! The cost of a process: start, run to the end, collect the output, drop; compared with a native
//! process.
//!
//! Everything is warm: the programs are compiled, the pool's slots and the disk's caches are
//! filled.
#![allow(
    clippy::disallowed_methods,
    reason = "benches measure with the host's clock and processes"
)]

use std::path::{Path, PathBuf};
use std::process::{Command as HostCommand, Stdio};
use std::time::{Duration, Instant};

use belljar::{Command, Engine, EngineConfig, Machine, Module, Program};
use criterion::{BenchmarkId, Criterion};

const EXPECTED: &[u8] = b"hello, world\n";

/// About the size of `hello` in a language with a runtime of its own.
const PADDED_BYTES: usize = 110 << 10;

const THREADS: [usize; 3] = [1, 2, 4];

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let hello = include_bytes!("../guest-examples/hello.wasm");
    let engine = Engine::new(EngineConfig::default()).expect("the engine");
    let program = |name: &str, bytes: Vec<u8>| {
        let module = Module::from_bytes(name, bytes).expect("a module");
        Program::new(&engine, &module).expect("a program")
    };
    let programs = [
        ("hello", program("hello", hello.to_vec())),
        ("hello_110k", program("hello_110k", padded(hello, PADDED_BYTES))),
    ];

    for (name, program) in &programs {
        one_at_a_time(&mut criterion, name, program);
    }
    threads(&mut criterion, &programs[1].1);
    let dir = tempfile::tempdir().expect("a temporary folder");
    match native_hello(dir.path()) {
        Ok(native) => native_processes(&mut criterion, &native),
        Err(why) => eprintln!("spawn: no native processes to compare with: {why}"),
    }
    criterion.final_summary();
}

fn machine() -> Machine {
    Machine::builder().build().expect("a machine")
}

fn run(command: &Command, machine: &mut Machine) {
    let output = command.output(machine).expect("it starts");
    assert_eq!(output.stdout, EXPECTED);
}

fn one_at_a_time(criterion: &mut Criterion, name: &str, program: &Program) {
    let command = Command::new(program);
    let mut group = criterion.benchmark_group(format!("spawn/{name}"));
    group.bench_function("one_machine", |b| {
        let mut machine = machine();
        b.iter(|| run(&command, &mut machine));
    });
    group.bench_function("fresh_machine", |b| b.iter(|| run(&command, &mut machine())));
    group.bench_function("timeout", |b| {
        let limits =
            belljar::Limits { timeout: Some(Duration::from_mins(1)), ..Default::default() };
        let mut machine = Machine::builder().limits(limits).build().expect("a machine");
        b.iter(|| run(&command, &mut machine));
    });
    group.finish();
}

fn threads(criterion: &mut Criterion, program: &Program) {
    let command = Command::new(program);
    let mut group = criterion.benchmark_group("spawn/hello_110k/threads");
    for count in THREADS {
        group.bench_function(BenchmarkId::from_parameter(count), |b| {
            b.iter_custom(|iters| {
                on_threads(count, iters, |share| {
                    let mut machine = machine();
                    for _ in 0..share {
                        run(&command, &mut machine);
                    }
                })
            });
        });
    }
    group.finish();
}

fn native_processes(criterion: &mut Criterion, native: &Path) {
    let mut group = criterion.benchmark_group("spawn/native");
    group.bench_function("one", |b| b.iter(|| run_native(native)));
    for count in THREADS {
        group.bench_function(BenchmarkId::new("threads", count), |b| {
            b.iter_custom(|iters| {
                on_threads(count, iters, |share| (0..share).for_each(|_| run_native(native)))
            });
        });
    }
    group.finish();
}

/// The time that `count` threads together need for `iters` calls of `work`.
fn on_threads(count: usize, iters: u64, work: impl Fn(u64) + Sync) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..count as u64 {
            let share = iters / count as u64 + u64::from(thread < iters % count as u64);
            let work = &work;
            scope.spawn(move || work(share));
        }
    });
    start.elapsed()
}

/// `posix_spawn`, read, wait: one pipe, and nothing that the comparison does not need.
fn run_native(program: &Path) {
    let output = HostCommand::new(program)
        .stdin(Stdio::inherit())
        .stderr(Stdio::inherit())
        .stdout(Stdio::piped())
        .output()
        .expect("it starts");
    assert_eq!(output.stdout, EXPECTED);
}

/// The same source, linked statically: the fastest start on the host.
fn native_hello(dir: &Path) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("guest-examples/hello.c");
    let program = dir.join("hello");
    let status = HostCommand::new("cc")
        .args(["-std=c11", "-O2", "-static", "-o"])
        .args([&program, &source])
        .status()
        .map_err(|error| format!("cc: {error}"))?;
    if status.success() { Ok(program) } else { Err(format!("cc: {status}")) }
}

/// `module` with a data segment that extends it to `len` bytes, and memory for that segment after
/// its own.
fn padded(module: &[u8], len: usize) -> Vec<u8> {
    const MEMORY: u8 = 5;
    const DATA: u8 = 11;
    const PAGE: usize = 1 << 16;
    let mut out = module[..8].to_vec();
    let mut at = 8;
    let mut pages = 0;
    while at < module.len() {
        let id = module[at];
        at += 1;
        let size = leb(module, &mut at);
        let mut body = module[at..at + size].to_vec();
        at += size;
        if id == MEMORY {
            assert_eq!(body[..2], [1, 0], "one memory without a maximum");
            pages = leb(&body, &mut 2);
            body.truncate(2);
            put_leb(&mut body, pages + len.div_ceil(PAGE));
        } else if id == DATA {
            let mut first = 0;
            let count = leb(&body, &mut first);
            let segments = body.split_off(first);
            body.clear();
            put_leb(&mut body, count + 1);
            body.extend(segments);
            body.extend([0, 0x41]); // active, at the offset `i32.const`
            put_signed_leb(&mut body, pages * PAGE);
            body.push(0x0b);
            let bytes = len - module.len();
            put_leb(&mut body, bytes);
            body.extend((0..bytes).map(|i| b'!' + (i * 7 % 94) as u8));
        }
        out.push(id);
        put_leb(&mut out, body.len());
        out.extend(body);
    }
    assert!(out.len() >= len, "it has memory and data");
    out
}

fn leb(bytes: &[u8], at: &mut usize) -> usize {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = bytes[*at];
        *at += 1;
        value |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

fn put_leb(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// As [`put_leb`], for a number whose sign is read from the last byte.
fn put_signed_leb(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x40 {
        out.push(value as u8 & 0x7f | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
