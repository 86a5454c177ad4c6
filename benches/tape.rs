//! The cost of a tape: calls of a guest without a tape, with a tape in memory and with one on the disk; then a single
//! record, written and read.
#![allow(clippy::cast_precision_loss, reason = "a benchmark is an average")]
#![allow(clippy::disallowed_methods, reason = "benches measure with the host's clock")]

use std::path::Path;
use std::time::{Duration, Instant};

use belljar::Machine;
use belljar::tape::{FileTape, Header, Kind, MemoryTape, Recorder, Redaction, TapeReader};
use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};

use fsbench::{ns_per_op, program};

mod fsbench;

/// The operations that `fsbench` times, and their number per run. A machine records what it requests from the layers
/// and the host, and what is written; a tape must not affect its other calls.
const OPS: [(&str, u64); 6] = [
    ("create", 10_000),
    ("open_read", 100_000),
    ("stat_hit", 100_000),
    ("stat_miss", 100_000),
    ("readdir", 10_000),
    ("clock", 100_000),
];

/// Records written between two tapes, and records of a tape to read.
const RECORDS: u64 = 10_000;

#[derive(Clone, Copy)]
enum Sink {
    Off,
    Memory,
    File,
}

const SINKS: [(Sink, &str); 3] =
    [(Sink::Off, "off"), (Sink::Memory, "memory"), (Sink::File, "file")];

impl Sink {
    fn recorder(self, folder: &Path) -> Option<Recorder> {
        match self {
            Self::Off => None,
            Self::Memory => Some(Recorder::new(MemoryTape::default(), Redaction::default())),
            Self::File => {
                let path = folder.join("bench.tape");
                let tape = FileTape::create(&path, &Header::new(0), u64::MAX).expect("a tape");
                Some(Recorder::new(tape, Redaction::default()))
            }
        }
    }
}

fn main() {
    let mut criterion = fsbench::criterion();
    let folder = tempfile::tempdir().expect("a temporary folder");
    calls(&mut criterion, folder.path());
    records(&mut criterion, folder.path());
    criterion.final_summary();
}

fn calls(criterion: &mut Criterion, folder: &Path) {
    let program = program();
    for (op, per_run) in OPS {
        let mut group = criterion.benchmark_group(format!("tape/{op}"));
        // One run of the guest is the work of one sample, even if few iterations are requested.
        group.sampling_mode(SamplingMode::Flat);
        for (sink, name) in SINKS {
            group.bench_function(BenchmarkId::from_parameter(name), |b| {
                b.iter_custom(|iters| {
                    let runs = iters.div_ceil(per_run);
                    let one_run = |_| {
                        let machine = Machine::builder();
                        match sink.recorder(folder) {
                            None => ns_per_op(&program, op, per_run, machine),
                            Some(recorder) => {
                                let ns = ns_per_op(
                                    &program,
                                    op,
                                    per_run,
                                    machine.tape(recorder.clone()),
                                );
                                recorder.finish().expect("it is recorded");
                                ns
                            }
                        }
                    };
                    let sum: f64 = (0..runs).map(one_run).sum();
                    Duration::from_secs_f64(sum / runs as f64 * iters as f64 / 1e9)
                });
            });
        }
        group.finish();
    }
}

fn push(recorder: &Recorder, count: u64) {
    for number in 0..count {
        let bytes = recorder.payload(b"a line of what a program prints\n");
        recorder.push(Kind::StreamWrite { pid: 1, fd: 1 + (number % 2) as u32, bytes });
    }
}

fn records(criterion: &mut Criterion, folder: &Path) {
    let mut group = criterion.benchmark_group("tape/record");
    for (sink, name) in SINKS {
        if matches!(sink, Sink::Off) {
            continue;
        }
        group.bench_function(BenchmarkId::new("write", name), |b| {
            b.iter_custom(|iters| {
                let mut spent = Duration::ZERO;
                let mut left = iters;
                while left > 0 {
                    let count = left.min(RECORDS);
                    let recorder = sink.recorder(folder).expect("it is not off");
                    let start = Instant::now();
                    push(&recorder, count);
                    spent += start.elapsed();
                    left -= count;
                }
                spent
            });
        });
    }
    let recorder = Sink::File.recorder(folder).expect("it is not off");
    push(&recorder, RECORDS);
    recorder.finish().expect("it is recorded");
    group.throughput(Throughput::Elements(RECORDS));
    group.bench_function("read", |b| {
        b.iter(|| {
            let tape = TapeReader::open(&folder.join("bench.tape")).expect("it was written");
            assert_eq!(tape.flatten().count() as u64, RECORDS);
        });
    });
    group.finish();
}
