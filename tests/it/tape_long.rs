//! Tapes of very many records: reading one takes memory for a line, not for the whole tape.
//!
//! A tape has 200,000 records, or the number in `BELLJAR_TAPE_RECORDS`, such as 1000000.

use std::path::Path;

use belljar::tape::{FileTape, Header, Kind, Recorder, Redaction, Tape};

#[cfg(target_os = "linux")]
use crate::support::{belljar, stderr, stdout};

const RECORDS: u64 = 200_000;

/// Bytes that a comparison may use for each record of each tape.
#[cfg(target_os = "linux")]
const COMPARED_BYTES: u64 = 200;

fn records() -> u64 {
    let asked = std::env::var("BELLJAR_TAPE_RECORDS").ok();
    asked.map_or(RECORDS, |asked| asked.parse().expect("BELLJAR_TAPE_RECORDS is a number"))
}

/// Writes `records` different records, as programs make them. The sleep at `odd`, if that record is
/// a sleep, is longer.
fn write(path: &Path, records: u64, odd: Option<u64>) {
    let tape = FileTape::create(path, &Header::new(0), u64::MAX).unwrap();
    let recorder = Recorder::new(tape, Redaction::default());
    for number in 0..records {
        recorder.set_monotonic(number * 1_000_000);
        recorder.push(match number % 3 {
            0 if odd == Some(number) => Kind::ClockSleep { duration_ns: u64::MAX },
            0 => Kind::ClockSleep { duration_ns: number },
            1 => Kind::StreamWrite {
                pid: 1,
                fd: 1,
                bytes: recorder.payload(format!("line {number} of what it prints\n").as_bytes()),
            },
            _ => Kind::FileDelete {
                path: format!("/worktree/folder/file {number}"),
                content_hash: None,
                len_bytes: None,
            },
        });
    }
    assert_eq!(recorder.finish().unwrap(), records);
}

/// Runs `belljar` with a limit of `limit_mib` MiB on the memory of a process, which the kernel
/// enforces.
#[cfg(target_os = "linux")]
fn within(folder: &Path, limit_mib: u64, args: &[&str]) -> std::process::Output {
    let mut command = belljar(folder);
    let command = command.command();
    let program = command.get_program().to_owned();
    let limited = format!("ulimit -d {} && exec \"$0\" \"$@\"", limit_mib * 1024);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &limited]).arg(program).args(args).current_dir(folder);
    command.get_envs().for_each(|(name, value)| {
        value.map(|value| shell.env(name, value));
    });
    shell.output().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn long_tape_is_inspected_in_little_memory() {
    const LITTLE_MIB: u64 = 32;
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (records, tape) = (records(), dir.join("a.tape"));
    write(&tape, records, None);
    write(&dir.join("b.tape"), records, Some(records / 6 * 3));
    let succeed = |limit_mib: u64, args: &[&str]| {
        let output = within(dir, limit_mib, args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    };

    let stat = succeed(LITTLE_MIB, &["tape", "stat", "--json", "a.tape"]);
    let stat: serde_json::Value = serde_json::from_str(&stat).unwrap();
    assert_eq!(stat["records"], records);
    assert_eq!(succeed(LITTLE_MIB, &["tape", "show", "a.tape"]).lines().count() as u64, records);
    let last = format!("\"seq\":{},", records - 1);
    let found = succeed(LITTLE_MIB, &["tape", "grep", "--json", &last, "a.tape"]);
    assert!(found.contains(&last) && found.lines().count() == 1, "{found}");
    succeed(LITTLE_MIB, &["annotate", "a.tape", "--event", "5", "--author", "me"]);
    assert_eq!(succeed(LITTLE_MIB, &["annotations", "validate", "a.tape"]), "0 problems\n");

    // As described in `docs/tape-format.md`.
    let compare_mib = LITTLE_MIB + (2 * records * COMPARED_BYTES).div_ceil(1 << 20);
    for mode in ["semantic", "byte-identical"] {
        let args = ["fidelity", "--json", "--mode", mode, "a.tape", "b.tape"];
        let output = within(dir, compare_mib, &args);
        assert_eq!(output.status.code(), Some(1), "{mode}: {}", stderr(&output));
        let report: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(report["divergence_count"], 1, "{report}");
        assert_eq!(report["recorded_records"], records);
    }

    // A content can have any length.
    let bytes = std::fs::metadata(&tape).unwrap().len();
    let content = belljar::Digest::of(&std::fs::read(&tape).unwrap()).to_string();
    let cas = belljar::tape::cas_dir(&tape);
    std::fs::create_dir_all(&cas).unwrap();
    let file = std::fs::File::create(cas.join(&content)).unwrap();
    std::io::copy(&mut std::fs::File::open(&tape).unwrap(), &mut &file).unwrap();
    let half_mib = (bytes >> 20) / 2;
    let printed = within(dir, half_mib.min(LITTLE_MIB), &["tape", "cat", "a.tape", &content]);
    assert!(printed.status.success(), "{}", stderr(&printed));
    assert_eq!(printed.stdout.len() as u64, bytes);

    // The limit is effective: a command that needs more memory fails.
    let compared = within(dir, half_mib.min(8), &["fidelity", "a.tape", "b.tape"]);
    assert!(compared.status.code().is_none_or(|code| code > 2), "{}", stdout(&compared));
}

#[test]
fn long_tape_can_be_loaded_completely() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tape");
    let records = records().min(RECORDS) / 4;
    write(&path, records, None);
    let tape = Tape::load(&path).unwrap();
    assert_eq!(tape.records.len() as u64, records);
    assert!((0..).zip(&tape.records).all(|(seq, record)| record.seq == seq));
    assert!((0..).zip(&tape.records).all(|(at, record)| record.monotonic_ms == at));
}
