//! Calls of a guest through the whole stack: compiled code, ABI, kernel. The guest times itself
//! (`fsbench`), so its start does not count, and its clock is the host's.
#![allow(clippy::cast_precision_loss, reason = "a benchmark is an average")]

use std::time::Duration;

use belljar::Machine;
use criterion::{SamplingMode, Throughput};

use fsbench::{ns_per_op, program};

mod fsbench;

/// An operation that `fsbench` times, its number per run, and the bytes that each moves.
struct Op {
    name: &'static str,
    /// Enough to be measurable, and few enough that a run of files stays within the limits of a
    /// machine.
    per_run: u64,
    bytes: Option<u64>,
}

const MIB: u64 = 1 << 20;

const OPS: [Op; 8] = [
    Op { name: "create", per_run: 10_000, bytes: None },
    Op { name: "open_read", per_run: 100_000, bytes: None },
    Op { name: "stat_hit", per_run: 100_000, bytes: None },
    Op { name: "stat_miss", per_run: 100_000, bytes: None },
    Op { name: "readdir", per_run: 10_000, bytes: None },
    Op { name: "clock", per_run: 1_000_000, bytes: None },
    Op { name: "seqwrite", per_run: 256, bytes: Some(MIB) },
    Op { name: "read4k", per_run: 256, bytes: Some(MIB) },
];

fn main() {
    let mut criterion = fsbench::criterion();
    let program = program();

    let mut group = criterion.benchmark_group("syscalls");
    // One run of the guest is the work of one sample, even if few iterations are requested.
    group.sampling_mode(SamplingMode::Flat);
    for op in &OPS {
        if let Some(bytes) = op.bytes {
            group.throughput(Throughput::Bytes(bytes));
        }
        group.bench_function(op.name, |b| {
            b.iter_custom(|iters| {
                let runs = iters.div_ceil(op.per_run);
                let sum: f64 = (0..runs)
                    .map(|_| ns_per_op(&program, op.name, op.per_run, Machine::builder()))
                    .sum();
                Duration::from_secs_f64(sum / runs as f64 * iters as f64 / 1e9)
            });
        });
    }
    group.finish();
    criterion.final_summary();
}
