//! Random calls: no order of them, and no misuse of resources, makes the host panic, and each run of them is the same.
//!
//! `BELLJAR_TEST_CASES` is the number of sequences; the default is small.

use belljar::{Limits, Outcome, VfsLimits};

use super::{builder, command, output_in, text};
use crate::support::number_from_env;
use crate::support::plans::Chance;

/// Calls of a sequence.
const CALLS: usize = 40;

/// Calls: `D`, `I`, `O`, `P` and `L` stand for a descriptor, a stream of input or output, a pollable and a listing; `N` for
/// a number, `F` for a path, `T` for a time, `W` for a word.
const CALLS_OF: &[&str] = &[
    "open D follow F c rw",
    "open D no F ct w",
    "open D no F d r",
    "open D no F cx rw",
    "open D no F '' r",
    "advise D",
    "append-via-stream D",
    "write-via-stream D N",
    "read-via-stream D N",
    "create-directory D F",
    "flags D",
    "type D",
    "same D D",
    "link D no F D F",
    "link D follow F D F",
    "hash D",
    "hash-at D no F",
    "pread D N N",
    "pwrite D W N",
    "list D",
    "next L",
    "readlink D F",
    "remove-directory D F",
    "rename D F D F",
    "set-size D N",
    "set-times D T T",
    "set-times-at D follow F T T",
    "stat D",
    "stat-at D no F",
    "stat-at D follow F",
    "symlink D F F",
    "sync D",
    "unlink D F",
    "stdin",
    "stdout",
    "read I N",
    "blocking-read I N",
    "skip I N",
    "blocking-skip I N",
    "subscribe-input I",
    "out-check O",
    "out-write O W",
    "out-zeroes O N",
    "out-flush O",
    "out-blocking-flush O",
    "out-blocking-write O W",
    "out-blocking-zeroes O N",
    "out-splice O I N",
    "out-blocking-splice O I N",
    "out-subscribe O",
    "in N",
    "at N",
    "ready P",
    "block P",
    "poll P P P",
    "monotonic",
    "wall",
    "random N",
    "random-u64",
    "insecure N",
    "seed",
    "tcp",
    "udp",
    "drop D",
    "drop I",
    "drop O",
    "drop P",
    "drop L",
    "dirs",
    "terminals",
    "args",
];

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "3",
    "100",
    "4096",
    "4097",
    "70000",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
];
const PATHS: &[&str] = &[
    "a", "b", "d", "d/a", "d/b", "l", "l/a", ".", "..", "../a", "/a", "/tmp/a", "''", "a/", "d//a",
    "./d/../a",
];
const TIMES: &[&str] = &["keep", "now", "0", "1", "18446744073709551615"];
const WORDS: &[&str] = &["x", "words", "0123456789012345678901234567890123456789"];

fn draw(chance: &mut Chance) -> String {
    let template = CALLS_OF[chance.below(CALLS_OF.len())];
    let number = |chance: &mut Chance, kind: &str| format!("{kind}{}", chance.below(5));
    let words = template.split(' ').map(|word| match word {
        "D" | "I" | "O" | "P" | "L" => number(chance, &word.to_lowercase()),
        "N" => NUMBERS[chance.below(NUMBERS.len())].to_owned(),
        "F" => PATHS[chance.below(PATHS.len())].to_owned(),
        "T" => TIMES[chance.below(TIMES.len())].to_owned(),
        "W" => WORDS[chance.below(WORDS.len())].to_owned(),
        word => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn random_calls_never_panic_and_are_the_same_each_time() {
    // So that each kind has a value.
    let begin = [
        "dirs",
        "open d1 no a c rw",
        "create-directory d1 d",
        "list d1",
        "read-via-stream d2 0",
        "write-via-stream d2 0",
        "in 0",
    ];
    let limits = Limits {
        memory_bytes_max: 64 << 20,
        vfs: VfsLimits {
            file_bytes_max: 1 << 20,
            upper_bytes_max: 8 << 20,
            ..VfsLimits::default()
        },
        ..Limits::default()
    };
    let (mut ended, cases) = (0, number_from_env("BELLJAR_TEST_CASES", 300).min(20_000));
    for seed in 0..cases {
        let mut chance = Chance::new(seed as u64);
        let calls: Vec<String> = (0..CALLS).map(|_| draw(&mut chance)).collect();
        let calls: Vec<&str> = begin.into_iter().chain(calls.iter().map(String::as_str)).collect();
        let run = || {
            let output = output_in(builder().limits(limits), &command(&calls));
            (text(&output.stdout), text(&output.stderr), output.status.outcome().clone())
        };
        let (first, again) = (run(), run());
        assert_eq!(first, again, "{seed}: {calls:#?}");
        ended += usize::from(first.2 == Outcome::Exited(0));
    }
    // The others end at a trap, or at a limit.
    assert!(ended > cases / 10, "{ended} of {cases} runs make all calls");
}
