//! The kernel's file system alone: the cost of a call without a guest.
#![allow(clippy::disallowed_methods, reason = "benches measure with the host's clock and files")]

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar::kernel::vfs::{Base, Follow, NodeId, OpenFlags, VfsLimits};
use belljar::{HostDir, Mtimes, Overlay, Source};
use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const NOW: u64 = 1_000_000_000;

/// Enough names to defeat a cache of one.
const EXISTING: usize = 1000;

/// Files that are created between two clean-ups, so that a bench does not measure the limits.
const BATCH: u64 = 10_000;

/// Entries of the folder that is listed.
const LISTED: usize = 10_000;

const LARGE_BYTES: usize = 256 * MIB;

/// Number of files of the large tree, and of one folder in it.
const TREE_FILES: usize = 100_000;
const TREE_FOLDER: usize = 1000;

const READ: OpenFlags = OpenFlags {
    create: false,
    exclusive: false,
    truncate: false,
    directory: false,
    follow: true,
    write: false,
};
const WRITE: OpenFlags = OpenFlags { create: true, truncate: true, write: true, ..READ };

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    files(&mut criterion);
    listings(&mut criterion);
    contents(&mut criterion);
    renames(&mut criterion);
    mounts(&mut criterion);
    criterion.final_summary();
}

fn empty() -> (Overlay, Base) {
    let overlay = Overlay::new(VfsLimits::default(), NOW);
    let base = overlay.host_base();
    (overlay, base)
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("f{i:08}")).collect()
}

fn create(overlay: &mut Overlay, base: Base, path: &str, bytes: &[u8]) {
    let id = overlay.open(base, path, WRITE, NOW).expect("it can be made");
    overlay.write_at(id, 0, bytes, NOW).expect("it can be written");
    overlay.close(id);
}

fn with_files(count: usize) -> (Overlay, Base, Vec<String>) {
    let (mut overlay, base) = empty();
    let names = names(count);
    for name in &names {
        create(&mut overlay, base, name, &[b'x'; KIB]);
    }
    (overlay, base, names)
}

fn files(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("kernel");
    group.bench_function("create", |b| {
        let names = names(BATCH as usize);
        b.iter_custom(|iters| {
            let (mut overlay, base) = empty();
            let mut spent = Duration::ZERO;
            let mut left = iters;
            while left > 0 {
                let batch = left.min(BATCH);
                let names = &names[..batch as usize];
                let start = Instant::now();
                for name in names {
                    create(&mut overlay, base, name, &[b'x'; KIB]);
                }
                spent += start.elapsed();
                for name in names {
                    overlay.unlink(base, name, NOW).expect("it is there");
                }
                left -= batch;
            }
            spent
        });
    });
    group.bench_function("open_read", |b| {
        let (mut overlay, base, names) = with_files(EXISTING);
        let mut next = names.iter().cycle();
        let mut buf = [0; KIB];
        b.iter(|| {
            let name = next.next().expect("a cycle has no end");
            let id = overlay.open(base, name, READ, NOW).expect("it is there");
            let count = overlay.read_at(id, 0, &mut buf).expect("it can be read");
            overlay.close(id);
            assert_eq!(count, KIB);
        });
    });
    group.bench_function("stat_hit", |b| {
        let (mut overlay, base, names) = with_files(EXISTING);
        let mut next = names.iter().cycle();
        b.iter(|| overlay.stat(base, next.next().expect("a cycle has no end"), Follow::Yes));
    });
    group.bench_function("stat_miss", |b| {
        let (mut overlay, base, _) = with_files(EXISTING);
        let missing: Vec<String> = (0..EXISTING).map(|i| format!("m{i:08}")).collect();
        let mut next = missing.iter().cycle();
        b.iter(|| overlay.stat(base, next.next().expect("a cycle has no end"), Follow::Yes));
    });
    group.bench_function("stat_hit_deep", |b| {
        let (mut overlay, base) = empty();
        let mut path = String::new();
        for step in ["usr", "share", "project", "src", "module"] {
            path.push_str(step);
            overlay.create_dir(base, &path, NOW).expect("it can be made");
            path.push('/');
        }
        path.push_str("file.c");
        create(&mut overlay, base, &path, b"x");
        b.iter(|| overlay.stat(base, black_box(&path), Follow::Yes));
    });
    group.finish();
}

fn listings(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("kernel/readdir");
    group.throughput(Throughput::Elements(LISTED as u64));
    let sum = |overlay: &mut Overlay, dir: NodeId| {
        let list = overlay.list(dir).expect("it is a folder");
        assert_eq!(list.len(), LISTED);
        list.iter().fold(0, |sum, entry| sum ^ entry.ino ^ entry.name.len() as u64)
    };
    group.bench_function("again", |b| {
        let (mut overlay, base, _) = with_files(LISTED);
        b.iter(|| sum(&mut overlay, base.dir));
    });
    group.bench_function("after_a_removal", |b| {
        let (mut overlay, base, names) = with_files(LISTED);
        b.iter_custom(|iters| {
            let mut spent = Duration::ZERO;
            for turn in 0..iters {
                let name = &names[turn as usize * 7919 % LISTED];
                overlay.unlink(base, name, NOW).expect("it is there");
                create(&mut overlay, base, name, b"x");
                let start = Instant::now();
                black_box(sum(&mut overlay, base.dir));
                spent += start.elapsed();
            }
            spent
        });
    });
    group.bench_function("of_the_host", |b| {
        let host = tempfile::tempdir().expect("a temporary folder");
        for name in names(LISTED) {
            fs::write(host.path().join(name), b"").expect("it can be made");
        }
        b.iter_custom(|iters| {
            let mut spent = Duration::ZERO;
            for _ in 0..iters {
                let mut overlay = mounted(host.path());
                let start = Instant::now();
                let dir = overlay.open_dir("/worktree").expect("it is mounted");
                black_box(sum(&mut overlay, dir));
                spent += start.elapsed();
            }
            spent
        });
    });
    group.finish();
}

fn contents(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("kernel");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.throughput(Throughput::Bytes(LARGE_BYTES as u64));
    let write_all = |overlay: &mut Overlay, id: NodeId| {
        let block = vec![b'x'; 64 * KIB];
        for at in (0..LARGE_BYTES).step_by(block.len()) {
            overlay.write_at(id, at as u64, &block, NOW).expect("it can be written");
        }
    };
    group.bench_function("seqwrite_256MiB", |b| {
        let (mut overlay, base) = empty();
        b.iter_custom(|iters| {
            let mut spent = Duration::ZERO;
            for _ in 0..iters {
                let start = Instant::now();
                let id = overlay.open(base, "large", WRITE, NOW).expect("it can be made");
                write_all(&mut overlay, id);
                overlay.close(id);
                spent += start.elapsed();
                overlay.unlink(base, "large", NOW).expect("it is there");
            }
            spent
        });
    });
    group.bench_function("read4k_256MiB", |b| {
        let (mut overlay, base) = empty();
        let id = overlay.open(base, "large", WRITE, NOW).expect("it can be made");
        write_all(&mut overlay, id);
        let mut block = [0; 4 * KIB];
        b.iter(|| {
            for at in (0..LARGE_BYTES).step_by(block.len()) {
                let count = overlay.read_at(id, at as u64, &mut block).expect("it can be read");
                assert_eq!(count, block.len());
            }
        });
    });
    group.finish();
}

fn renames(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("kernel/rename_dir");
    for count in [1, 10_000] {
        group.bench_function(BenchmarkId::from_parameter(count), |b| {
            let (mut overlay, base) = empty();
            overlay.create_dir(base, "a", NOW).expect("it can be made");
            for name in names(count) {
                create(&mut overlay, base, &format!("a/{name}"), b"x");
            }
            b.iter(|| {
                overlay.rename((base, "a"), (base, "b"), NOW).expect("a is there");
                overlay.rename((base, "b"), (base, "a"), NOW).expect("b is there");
            });
        });
    }
    group.finish();
}

fn mounted(dir: &Path) -> Overlay {
    let mut overlay = Overlay::new(VfsLimits::default(), NOW);
    let host = HostDir::open(dir).expect("the folder is there");
    let source = Source::Host(Arc::new(host));
    overlay.mount("/worktree", source, false, Mtimes::Fixed(NOW), NOW).expect("it can be mounted");
    overlay
}

fn mounts(criterion: &mut Criterion) {
    let tree = tempfile::tempdir().expect("a temporary folder");
    for folder in names(TREE_FILES / TREE_FOLDER) {
        let folder = tree.path().join(folder);
        fs::create_dir(&folder).expect("it can be made");
        for name in names(TREE_FOLDER) {
            fs::write(folder.join(name), b"").expect("it can be made");
        }
    }
    let nothing = tempfile::tempdir().expect("a temporary folder");
    let trees = [(0, nothing.path()), (TREE_FILES, tree.path())];

    let mut group = criterion.benchmark_group("kernel/mount");
    for (count, dir) in trees {
        group.bench_function(BenchmarkId::from_parameter(count), |b| b.iter(|| mounted(dir)));
    }
    group.bench_function(BenchmarkId::new("and_stat_one", TREE_FILES), |b| {
        b.iter(|| {
            let mut overlay = mounted(tree.path());
            overlay.metadata("/worktree/f00000050/f00000500").expect("it is there")
        });
    });
    group.finish();
}
