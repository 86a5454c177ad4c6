//! Random calls, alone and as tasks beside each other: no order of them makes the host panic, and each run is the same.
//!
//! `BELLJAR_TEST_CASES` is the number of sequences; the default is small.

use belljar::{Limits, Outcome, VfsLimits};

use super::{builder, command, output_in, text};
use crate::support::number_from_env;
use crate::support::plans::Chance;

/// Calls, or groups of them, of a sequence.
const CALLS: usize = 25;

/// Calls: `D` stands for a descriptor, `N` for a number, `C` for a count of bytes, `F` for a path, `T` for a time, `W` for a
/// word.
const CALLS_OF: &[&str] = &[
    "open D follow F c rw",
    "open D no F ct w",
    "open D no F d r",
    "open D no F cx rw",
    "open D no F - r",
    "advise D",
    "append D W",
    "write D N W",
    "read D N C C",
    "mkdir D F",
    "flags D",
    "type D",
    "same D D",
    "link D no F D F",
    "link D follow F D F",
    "hash D",
    "hash-at D no F",
    "list D",
    "readlink D F",
    "rmdir D F",
    "rename D F D F",
    "size D N",
    "times D T T",
    "times-at D follow F T T",
    "stat D",
    "stat-at D no F",
    "stat-at D follow F",
    "symlink D F F",
    "sync D",
    "unlink D F",
    "stdin C C",
    "out W",
    "err W",
    "much C",
    "copy",
    "sleep C",
    "sleep C",
    "until N",
    "now",
    "wall",
    "random C",
    "number",
    "insecure C",
    "seed",
    "tcp",
    "udp",
    "resolve W",
    "dirs",
    "args",
];

/// Waits that another call ends.
const ENDLESS: [&str; 2] = ["never", "spin"];

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "3",
    "100",
    "4096",
    "70000",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
];
const COUNTS: &[&str] = &["0", "1", "2", "3", "17", "100", "4096", "70000"];
const PATHS: &[&str] = &[
    "a", "b", "d", "d/a", "d/b", "l", "l/a", ".", "..", "../a", "/a", "/tmp/a", "''", "a/", "d//a",
    "./d/../a",
];
const TIMES: &[&str] = &["keep", "now", "0", "1", "-1", "9223372036854775807"];
const WORDS: &[&str] = &["x", "words", "0123456789012345678901234567890123456789"];

fn draw(chance: &mut Chance) -> String {
    let template = CALLS_OF[chance.below(CALLS_OF.len())];
    let words = template.split(' ').map(|word| match word {
        "D" => format!("d{}", chance.below(5)),
        "N" => NUMBERS[chance.below(NUMBERS.len())].to_owned(),
        "C" => COUNTS[chance.below(COUNTS.len())].to_owned(),
        "F" => PATHS[chance.below(PATHS.len())].to_owned(),
        "T" => TIMES[chance.below(TIMES.len())].to_owned(),
        "W" => WORDS[chance.below(WORDS.len())].to_owned(),
        word => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A call, or several at once.
fn draw_group(chance: &mut Chance) -> String {
    let several = |chance: &mut Chance, count: usize| {
        (0..count).map(|_| draw(chance)).collect::<Vec<_>>().join(" + ")
    };
    match chance.below(6) {
        0 | 1 => draw(chance),
        2 => format!("first {}", several(chance, 2)),
        3 => format!("spawn {}", draw(chance)),
        // Nothing ends it but the other one.
        4 => format!("first {} + {}", ENDLESS[chance.below(2)], draw(chance)),
        _ => {
            let count = 2 + chance.below(5);
            format!("together {}", several(chance, count))
        }
    }
}

#[test]
fn random_tasks_never_panic_and_are_the_same_each_time() {
    let begin = ["open d1 no a c rw", "mkdir d1 d", "open d1 no d - r"];
    let limits = Limits {
        memory_bytes_max: 64 << 20,
        vfs: VfsLimits {
            file_bytes_max: 1 << 20,
            upper_bytes_max: 8 << 20,
            ..VfsLimits::default()
        },
        ..Limits::default()
    };
    let (mut ended, cases) = (0, number_from_env("BELLJAR_TEST_CASES", 100).min(20_000));
    for seed in 0..cases {
        let mut chance = Chance::new(seed as u64);
        let calls: Vec<String> = (0..CALLS).map(|_| draw_group(&mut chance)).collect();
        let calls: Vec<&str> = begin.into_iter().chain(calls.iter().map(String::as_str)).collect();
        let run = || {
            let mut command = command(&calls);
            command.stdin("input of the program\n".repeat(5000).into_bytes());
            let output = output_in(builder().limits(limits), &command);
            (text(&output.stdout), text(&output.stderr), output.status.outcome().clone())
        };
        let (first, again) = (run(), run());
        assert_eq!(first, again, "{seed}: {calls:#?}");
        ended += usize::from(first.2 == Outcome::Exited(0));
    }
    // The others wait for ever, or end at a limit.
    assert!(ended > cases / 10, "{ended} of {cases} runs make all calls");
}
