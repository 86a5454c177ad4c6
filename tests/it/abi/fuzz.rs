//! Random functions with random arguments.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use belljar::results::{ResultCache, Results};
use belljar::{Limit, Limits, Outcome, Source};

use super::flags::{BOTH, CREAT, DIRECTORY, READ, WRITE};
use super::functions::FUNCTIONS;
use super::interpreter::MEMORY_BYTES;
use super::poll::{Wait, encode};
use super::script::{Arg, Kind, Script, Slot, Snapshot};
use super::tree::{Item, Tree};
use super::world::{DIR, World, builder};

const SCRIPTS: u64 = 240;
const CALLS: u32 = 80;

/// Paths, good and bad.
const PATHS: &[&[u8]] = &[
    b"f",
    b"d",
    b"d/x",
    b"d/..",
    b"l",
    b"l/",
    b"ld/x",
    b"loop",
    b".",
    b"..",
    b"../w/f",
    b"/",
    b"",
    b"/w/f",
    b"w/f",
    b"new",
    b"new/",
    b"mnt",
    b"mnt/x",
    b"ro/f",
    b"ro/new",
    b"ro/d/..",
    b"tmp/x",
    b"a\0b",
    b"\xff",
    b"d//./x/",
    b"d/x/y",
    "é".as_bytes(),
    &[b'n'; 300],
];

/// `SplitMix64`: the same numbers on every system.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u32) -> u32 {
        u32::try_from(self.next() % u64::from(end)).unwrap()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(u32::try_from(from.len()).unwrap()) as usize]
    }
}

/// Memory to which calls with likely arguments write.
const SCRATCH: std::ops::Range<u32> = 40_000..60_000;

/// Places in the memory of a script to which arguments can point.
struct Places {
    paths: Vec<Slot>,
    lists: Vec<Slot>,
    subscriptions: Vec<Slot>,
    /// Small numbers, for arguments that are loaded.
    words: Slot,
}

fn scratch(chance: &mut Chance) -> u32 {
    (SCRATCH.start + chance.below(SCRATCH.end - SCRATCH.start)) & !7
}

fn places(s: &mut Script, chance: &mut Chance) -> Places {
    let paths: Vec<Slot> = PATHS.iter().map(|path| s.bytes(path)).collect();
    let lists = (0..8)
        .map(|_| {
            let mut list = Vec::new();
            for _ in 0..chance.below(4) {
                let ptr = match chance.below(8) {
                    0 => chance.below(MEMORY_BYTES + 8),
                    _ => scratch(chance),
                };
                let len = chance.pick(&[0_u32, 1, 7, 100, 3000]);
                list.extend([ptr.to_le_bytes(), len.to_le_bytes()].concat());
            }
            s.bytes(&list)
        })
        .collect();
    let subscriptions = (0..6)
        .map(|_| {
            let mut waits = Vec::new();
            for index in 0..4 {
                let wait = match chance.below(9) {
                    0..=2 => Wait::Read(chance.below(9)),
                    3 | 4 => Wait::Write(chance.below(9)),
                    5 => Wait::Clock(chance.below(5), chance.next(), 0),
                    6 | 7 => Wait::Clock(chance.below(4), chance.below(50).into(), 0),
                    _ => Wait::Clock(1, chance.below(50).into(), 1),
                };
                waits.extend(encode(s.snapshot, index, wait));
            }
            s.bytes(&waits)
        })
        .collect();
    let bytes: Vec<u8> =
        (0..256).flat_map(|_| [chance.below(9), 0, 0, 0]).map(|b| b as u8).collect();
    Places { paths, lists, subscriptions, words: s.bytes(&bytes) }
}

/// A random value.
fn word(chance: &mut Chance, places: &Places) -> Arg {
    let value = match chance.below(8) {
        0 | 1 => chance.below(9),
        2 => chance.below(MEMORY_BYTES / 8) * 8,
        3 => chance.below(MEMORY_BYTES),
        4 => MEMORY_BYTES - chance.below(64),
        5 => chance.pick(&[u32::MAX, u32::MAX - 7, 1 << 31, 1 << 16, MEMORY_BYTES, 1 << 8]),
        6 => (chance.next() >> 32) as u32,
        _ => return Arg::Load(places.words.addr + chance.below(250) * 4),
    };
    Arg::Const(value.into())
}

/// A likely value for the parameter `name`.
fn likely_word(name: &str, chance: &mut Chance, places: &Places) -> Arg {
    let value = match name {
        "dir" | "new_dir" => chance.pick(&[3, 3, 3, 4, 5, 6]),
        "fd" | "from" | "to" => chance.below(10),
        "flags" | "fd_flags" => chance.pick(&[0, 0, 1, 1, 4, 5]),
        "oflags" => chance.pick(&[0, 1, 1, 2, 5, 8, 9]),
        "fst_flags" => chance.pick(&[0, 1, 2, 4, 5, 8, 10]),
        "whence" => chance.below(3),
        "advice" => chance.below(6),
        "id" | "count" => chance.below(5),
        "subscriptions" => chance.pick(&places.subscriptions).addr,
        "code" | "signal" | "how" => chance.below(4),
        // All other parameters are pointers to results.
        _ => scratch(chance),
    };
    Arg::Const(value.into())
}

fn long(name: &str, chance: &mut Chance) -> Arg {
    if name == "rights" {
        return Arg::Const(chance.pick(&[BOTH, BOTH, READ, WRITE, 0, u64::MAX]));
    }
    Arg::Const(match chance.below(8) {
        0..=4 => chance.below(40).into(),
        5 => u64::MAX - u64::from(chance.below(9)),
        6 => 1 << chance.below(64),
        _ => chance.next(),
    })
}

fn likely_pair(name: &str, chance: &mut Chance, places: &Places) -> [Arg; 2] {
    let (ptr, len) = match name {
        "path" | "new_path" | "text" => {
            let path = chance.pick(&places.paths);
            (path.addr, path.len)
        }
        "iovs" => {
            let list = chance.pick(&places.lists);
            (list.addr, list.len / 8)
        }
        _ => (scratch(chance), chance.below(300)),
    };
    [Arg::Const(ptr.into()), Arg::Const(len.into())]
}

fn script(seed: u64) -> Script {
    let mut chance = Chance(seed);
    let snapshot = if seed.is_multiple_of(4) { Snapshot::Unstable } else { Snapshot::Preview1 };
    let mut s = Script::of(snapshot);
    s.trap_on_bad_answers();
    let places = places(&mut s, &mut chance);
    for (path, oflags, rights) in [("f", 0, BOTH), ("d", DIRECTORY, READ), ("new", CREAT, BOTH)] {
        s.path_open(DIR, 0, path, oflags, rights, 0, 0, SCRATCH.start).any();
    }
    // In one script of eight, all arguments are random.
    let nonsense = if seed.is_multiple_of(8) { 1 } else { 12 };
    for _ in 0..CALLS {
        let (name, params) = chance.pick(FUNCTIONS);
        let ends_much = ["proc_exit", "fd_close", "fd_renumber"].contains(&name);
        if ends_much && chance.below(8) > 0 {
            continue;
        }
        let mut args = Vec::new();
        for (param, kind) in params {
            let is_likely = chance.below(nonsense) > 0;
            match kind {
                Kind::Long => args.push(long(param, &mut chance)),
                Kind::Word if is_likely => args.push(likely_word(param, &mut chance, &places)),
                Kind::Word => args.push(word(&mut chance, &places)),
                Kind::Pair if is_likely => args.extend(likely_pair(param, &mut chance, &places)),
                Kind::Pair => args.extend([(); 2].map(|()| word(&mut chance, &places))),
            }
        }
        s.call(name, &args).any();
    }
    s
}

fn world(seed: u64) -> World {
    let mut limits = Limits::default();
    limits.vfs.upper_bytes_max = 1 << 20;
    limits.vfs.file_bytes_max = 1 << 22;
    limits.open_files_max = 12;
    let below = || Tree::source([("f", Item::File(b"below")), ("d", Item::Dir)]);
    let machine = builder()
        .mount("/w/mnt", below())
        .mount_read_only("/w/ro", below())
        .mount("/worktree", Source::Memory)
        .limits(limits);
    let mut world =
        if seed.is_multiple_of(3) { World::namespace(machine) } else { World::confined(machine) };
    world.file("f", b"content");
    world.dir("d");
    world.file("d/x", b"");
    for (link, text) in [("l", "f"), ("ld", "d"), ("loop", "loop")] {
        world.link(link, text);
    }
    world.stdin = vec![b'i'; 1000];
    world
}

/// Collects the trace of a failed run.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<Vec<u8>>>);

impl Write for Trace {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The last calls of the script of `seed`.
fn last_calls(seed: u64) -> String {
    let (mut world, trace) = (world(seed), Trace::default());
    world.machine.set_trace(Some(Box::new(trace.clone())));
    world.run_until(&script(seed));
    let text = String::from_utf8_lossy(&trace.0.lock().unwrap()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

/// No call panics or traps, returns an errno outside preview1, or writes to memory when it fails; the same
/// calls give the same results again.
#[test]
fn random_calls_neither_panic_nor_trap_and_repeat() {
    let mut exits = 0;
    for seed in 0..SCRIPTS {
        let run = |world: &mut World| {
            let run = world.run_until(&script(seed));
            (run.outcome, run.stdout, world.tree(), world.machine.elapsed())
        };
        let first = run(&mut world(seed));
        match first.0 {
            Outcome::Exited(code) => exits += u32::from(code != 0),
            Outcome::Limit(Limit::Output) => {}
            ref other => panic!("seed {seed}: {other:?}\n{}", last_calls(seed)),
        }
        assert!(first == run(&mut world(seed)), "seed {seed} is not the same twice");
    }
    println!("{SCRIPTS} scripts of {CALLS} calls, {exits} ended by proc_exit");
}

/// A script whose results are known does the same in the same world, and in another one as if it were not known.
#[test]
fn random_calls_are_the_same_if_they_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let results = Arc::new(Results::new(ResultCache::new(folder.path())));
    let outcome = |mut world: World, seed: u64| {
        let run = world.run_until(&script(seed));
        let dump = (run.answers, run.memory);
        (run.outcome, run.stdout, dump, world.tree(), world.machine.elapsed())
    };
    let known = |mut world: World, seed: u64| {
        world.machine.set_results(Some(results.clone()));
        outcome(world, seed)
    };
    let other = |seed: u64| {
        let mut world = world(seed);
        world.file("f", if seed.is_multiple_of(2) { b"changed" } else { b"longer content" });
        world.dir("new");
        world
    };
    for seed in 0..SCRIPTS {
        let (same, changed) = (outcome(world(seed), seed), outcome(other(seed), seed));
        for round in 0..2 {
            assert!(same == known(world(seed), seed), "seed {seed}, round {round}: a known run");
            assert!(
                changed == known(other(seed), seed),
                "seed {seed}, round {round}: another world"
            );
        }
    }
    let statistics = results.statistics();
    assert_eq!(statistics.error, None);
    assert!(statistics.hits > SCRIPTS && statistics.misses >= SCRIPTS, "{statistics:?}");
}
