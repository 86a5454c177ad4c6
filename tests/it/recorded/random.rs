//! Random runs: programs of all origins, started by scripts and by modules, failing in all ways, with all options.
//! `BELLJAR_TEST_REPLAYS` is the number of runs, `BELLJAR_TEST_SEED` the seed of the first.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::scene::Scene;
use super::spawner::{PROGRAMS, spawner};
use crate::support::plans::Chance;
use crate::support::{number_from_env, stderr};

const RUNS: usize = 60;

const THREADS: usize = 2;

/// Commands inside the machine: built-in programs, builtins of the shell, and modules of the tree.
const COMMANDS: [&str; 31] = [
    "wc note.txt",
    "cat - sub/inner",
    "sort note.txt",
    "echo x",
    "printf '%s\\n' a b",
    "read -r a b",
    "env",
    "date +%s",
    "sleep 2",
    "ls -l sub",
    "sha256sum note.txt",
    "replace one three note.txt",
    "./w.wasm one four note.txt",
    "./random.wasm",
    "./sleeper.wasm 1500",
    "./ask.wasm runtime.task",
    "./ask.wasm interaction.ask '{\"question\":\"?\"}'",
    "./ask.wasm process.exec '{\"argv\":[\"wc\",\"note.txt\"]}'",
    "./ask.wasm process.exec '{\"argv\":[\"rm\",\"note.txt\"],\"cwd\":\"sub\"}'",
    "./ask.wasm process.exec '{\"command\":\"tool; cat nothing\",\"env\":{\"A\":\"1\"}}'",
    "./ask.wasm process.list_shells",
    "./ask.wasm -h x. host.has process.exec",
    "./ask.wasm x.",
    "./spawn.wat",
    "rm -f sub/inner",
    "cp w.wasm /tmp/copy.wasm",
    "/tmp/copy.wasm one five note.txt",
    "mkdir -p sub/made",
    "false",
    "kill -9 $$",
    "exit 7",
];

/// Programs of the host, in some of the runs.
const OF_HOST: [&str; 4] = ["expand", "fmt note.txt", "dd count=0", "unexpand"];

/// Adds a random redirection, assignment or shell construct to a command.
fn dressed(chance: &mut Chance, command: String) -> String {
    match chance.below(22) {
        0 => format!("{command} > made"),
        1 => format!("{command} 2>&1"),
        2 => format!("{command} < note.txt"),
        3 => format!("{command} <&-"),
        4 => format!("{command} >&-"),
        5 => format!("{command} 0<&9"),
        6 => format!("{command} < nothing"),
        7 => format!("A=1 PATH=sub {command}"),
        8 => format!("({command})"),
        9 => format!("x=$({command}); echo \"$x\""),
        10 => format!("{command} & wait"),
        11 => format!("cd sub; {command}; cd .."),
        12 => format!("{command} <<E\nhere\nE\n"),
        13 => format!("exec 3<note.txt; {command} <&3"),
        14 => format!("! {command}"),
        _ => command,
    }
}

fn command(chance: &mut Chance, has_host: bool) -> String {
    let program = PROGRAMS[chance.below(PROGRAMS.len())];
    let command = match chance.below(10) {
        0..=3 => COMMANDS[chance.below(COMMANDS.len())].to_owned(),
        4 if has_host => OF_HOST[chance.below(OF_HOST.len())].to_owned(),
        5 => format!("command -v '{program}'"),
        6 => format!("type '{program}'"),
        7 => format!("exec '{program}' note.txt"),
        8 => format!("sh -c \"'{program}' note.txt\""),
        _ => format!("'{program}' note.txt one"),
    };
    dressed(chance, command)
}

fn script(chance: &mut Chance, has_host: bool) -> String {
    let mut script = command(chance, has_host);
    for _ in 0..chance.below(5) {
        script += ["; ", "\n", " && ", " || ", " | ", " & "][chance.below(6)];
        script += &command(chance, has_host);
    }
    // The delimiter of a here-document must be alone on its line.
    script.replace("E\n;", "E\n").replace("E\n &&", "E\n").replace("E\n ||", "E\n")
}

/// Random options of a run; there may be none.
fn options(chance: &mut Chance) -> Vec<&'static str> {
    const OPTIONS: [&[&str]; 39] = [
        &["--timeout", "40ms"],
        &["--timeout", "250ms"],
        &["--fuel", "3000"],
        &["--fuel", "60000"],
        &["--fuel", "100000000"],
        &["--seed", "7"],
        &["--start-at", "2024-02-29T12:00:00Z"],
        &["--clock", "real"],
        &["--argv0", "zz"],
        &["--env", "A=b"],
        &["--env", "PATH=sub:/worktree"],
        &["--cwd", "sub"],
        &["--max-processes", "2"],
        &["--max-processes", "4"],
        &["--max-files", "6"],
        &["--max-memory", "3MiB"],
        &["--max-output", "40"],
        &["--max-upper", "60"],
        &["--max-host-call", "100"],
        &["--virtual-timeout", "1s"],
        &["--dir", "../other::/lib::ro"],
        &["--stdin", "../input"],
        &["--stdin", "null"],
        &["--mtimes", "host"],
        &["--mtimes", "content"],
        &["--mtimes", "fixed"],
        &["--worktree", ".::ro"],
        &["--tier", "quick"],
        &["--tier", "optimized"],
        &["--no-cache"],
        &["--compile-timeout", "1h"],
        &["--apply"],
        &["--allow-net", "example.com"],
        &["--profile", "worktree"],
        &["--native-time", "charged"],
        &["--unknown-imports", "deny"],
        &["--host-answers", "../answers"],
        &["--host-policy", "../policy.json"],
        &["--host-task", "the task"],
    ];
    let mut chosen: Vec<&[&str]> = Vec::new();
    for _ in 0..chance.below(4) {
        let option = OPTIONS[chance.below(OPTIONS.len())];
        if chosen.iter().all(|known| known[0] != option[0]) {
            chosen.push(option);
        }
    }
    if chance.below(12) == 0 {
        chosen.retain(|option| !["--cwd", "--worktree"].contains(&option[0]));
        chosen.push(&["--no-worktree", "--dir", ".::.", "--dir", "../other::/other"]);
    }
    // `--start-at` cannot be used with `--clock real`.
    if chosen.contains(&&["--clock", "real"][..]) {
        chosen.retain(|option| option[0] != "--start-at");
    }
    chosen.concat()
}

/// Records one random run and replays it; returns whether it left a tape.
fn recorded_and_replayed(seed: u64) -> bool {
    let mut chance = Chance::new(seed);
    let scene = Scene::new();
    scene.write("tree/spawn.wat", &spawner(&mut chance));
    let has_host = cfg!(unix) && chance.below(4) == 0;
    let mut args = options(&mut chance);
    if has_host {
        args.extend(["--on-missing", "native"]);
    }
    args.push("--");
    let mut script = script(&mut chance, has_host);
    if args.contains(&"--timeout") && chance.below(2) == 0 {
        script = format!("{script}\nwhile :; do {}\ndone", command(&mut chance, has_host));
    }
    match chance.below(10) {
        0 | 1 => args.push("./spawn.wat"),
        2 => args.extend([PROGRAMS[chance.below(PROGRAMS.len())], "note.txt"]),
        _ => args.extend(["sh", "-c", &script]),
    }
    let both = scene.both(&args);
    let what = format!("BELLJAR_TEST_SEED={seed} BELLJAR_TEST_REPLAYS=1: {args:?}");
    both.expect_same(&what);
    if both.replayed.is_none() {
        // A run that cannot start leaves no tape, nor does a run that a tape cannot hold.
        let code = both.recorded.status.code();
        let said = stderr(&both.recorded);
        assert!(matches!(code, Some(2 | 125 | 126 | 127)), "{what}: {said}");
        assert!(!said.contains("panicked"), "{what}: {said}");
    }
    both.replayed.is_some()
}

#[test]
fn random_runs_are_replayed() {
    let runs = number_from_env("BELLJAR_TEST_REPLAYS", RUNS);
    let first = number_from_env("BELLJAR_TEST_SEED", 1) as u64;
    let (next, taped) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= runs {
                        break;
                    }
                    let has_tape = recorded_and_replayed(first + number as u64);
                    taped.fetch_add(usize::from(has_tape), Ordering::Relaxed);
                }
            });
        }
    });
    let taped = taped.into_inner();
    assert!(runs < 20 || taped * 2 > runs, "{taped} of {runs} runs left a tape");
}
