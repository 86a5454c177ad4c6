//! The cost of sandboxes: creating, running, forking, saving, and many at once.
//!
//! One engine; everything is warm. On Linux, the memory of a session is printed as well.

use std::sync::Arc;
use std::time::Duration;

use belljar::process::ShellImage;
use belljar::sandbox::{ExecRequest, Sandbox, SandboxSpec, SnapshotStore};
use belljar::{Engine, EngineConfig, ToolchainPrograms, Toolchains};
use criterion::{BatchSize, Criterion, Throughput};

const FILES: usize = 10_000;
const LIVE: usize = 1000;
const MADE: usize = 10_000;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let guests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("guest-examples");
    let engine = Engine::new(EngineConfig::default()).expect("the engine");
    let toolchains = Toolchains::new(vec![guests]).expect("the guests' folder");
    let programs = ToolchainPrograms::new(&engine, toolchains).with("sh", ShellImage::maker());
    let programs = Arc::new(programs);
    let provision =
        || Sandbox::provision(programs.clone(), SandboxSpec::default()).expect("a session");
    let hello = ExecRequest::new("hello", [""; 0]);
    let run = |sandbox: &mut Sandbox| {
        let result = sandbox.exec(&hello).expect("it starts");
        assert_eq!(result.exit_code, 0);
    };

    run(&mut provision());
    print_memory(provision, run);

    let mut group = criterion.benchmark_group("sandbox");
    group.bench_function("provision", |b| b.iter_with_large_drop(provision));
    let mut sandbox = provision();
    group.bench_function("exec_hello", |b| b.iter(|| run(&mut sandbox)));
    group.bench_function("provision_exec_terminate", |b| b.iter(|| run(&mut provision())));

    let mut large = with_files(provision());
    group.bench_function("fork_10000_files", |b| b.iter_with_large_drop(|| large.fork()));
    let write = |mut fork: Sandbox| fork.files().write("/tmp/d0/f0", b"changed", 0);
    group.bench_function("first_write_of_a_fork", |b| {
        b.iter_batched(|| large.fork().expect("a fork"), write, BatchSize::SmallInput);
    });
    let folder = tempfile::tempdir().expect("a folder");
    let store = SnapshotStore::new(folder.path());
    group.bench_function("snapshot_10000_files", |b| b.iter(|| store.save(&mut large)));
    let id = store.save(&mut large).expect("a snapshot");
    group.bench_function("resume_10000_files", |b| b.iter(|| store.resume(id, programs.clone())));

    group.throughput(Throughput::Elements(MADE as u64));
    group.sample_size(10);
    group.bench_function("made_and_dropped_10000", |b| {
        b.iter(|| (0..MADE).for_each(|_| drop(provision())));
    });
    group.throughput(Throughput::Elements(LIVE as u64));
    let mut live: Vec<Sandbox> = (0..LIVE).map(|_| provision()).collect();
    group.bench_function("exec_in_each_of_1000", |b| b.iter(|| live.iter_mut().for_each(run)));
    group.finish();
}

/// Must run before the benches: the process can reuse memory that it freed earlier, which would not
/// be measured.
fn print_memory(provision: impl Fn() -> Sandbox, run: impl Fn(&mut Sandbox)) {
    let before = resident_bytes();
    let mut live: Vec<Sandbox> = (0..LIVE).map(|_| provision()).collect();
    let idle = resident_bytes();
    live.iter_mut().for_each(run);
    let used = resident_bytes();
    if let (Some(before), Some(idle), Some(used)) = (before, idle, used) {
        let each = |after: u64| after.saturating_sub(before) / LIVE as u64;
        println!("memory of a session: {} bytes new, {} after a program", each(idle), each(used));
    }
}

fn with_files(mut sandbox: Sandbox) -> Sandbox {
    let vfs = sandbox.files();
    for dir in 0..100 {
        vfs.create_dir(vfs.host_base(), &format!("tmp/d{dir}"), 0).expect("a directory");
    }
    for number in 0..FILES {
        let path = format!("/tmp/d{}/f{number}", number % 100);
        vfs.write(&path, format!("content {number}\n").as_bytes(), 0).expect("a file");
    }
    sandbox
}

/// Resident memory of this process, if the system shows it in `/proc`.
#[allow(clippy::disallowed_methods, reason = "it measures the host")]
fn resident_bytes() -> Option<u64> {
    const PAGE_BYTES: u64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split(' ').nth(1)?.parse::<u64>().ok()? * PAGE_BYTES)
}
