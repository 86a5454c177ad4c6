//! The documents of the tape's format: their examples can be read, and the Python reader reads what is written.

use std::collections::BTreeMap;
use std::process::Command;

use belljar::Digest;
use belljar::llm::{LlmProvider, LlmRequest, Message, Replay};
use belljar::tape::{
    Annotation, AnnotationHeader, FileTape, Header, Kind, Record, Recorder, Redaction, cas_dir,
};
use serde_json::Value;

use crate::support::{package, skipped, stderr, stdout};

/// The lines of the blocks fenced as `json`.
fn examples(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(package().join("docs").join(document)).unwrap();
    let mut in_block = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            in_block = !in_block && language == "json";
        } else if in_block {
            found.push(line.to_owned());
        }
    }
    found
}

/// Reads `line` and writes it again without loss.
fn round_trip<T: serde::de::DeserializeOwned + serde::Serialize>(line: &str) -> T {
    let read: T = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let expected: Value = serde_json::from_str(line).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), expected);
    read
}

#[test]
fn tape_format_shows_every_kind() {
    let lines = examples("tape-format.md");
    round_trip::<Header>(&lines[0]);
    let mut kinds = BTreeMap::new();
    for line in &lines[1..] {
        let record: Record = round_trip(line);
        assert!(!matches!(record.kind, Kind::Unknown { .. }), "{line}");
        kinds.insert(record.kind.name().to_owned(), record.kind);
    }
    let text = std::fs::read_to_string(package().join("docs/tape-format.md")).unwrap();
    let (_, tables) = text.split_once("\n### Programs of the host\n").expect("they have a table");
    let (native, changes) = tables.split_once("\n### Changes\n").expect("changes have one, too");
    let (changes, _) = changes.split_once("\n**Integers.**").expect("which ends");
    for (name, kind) in &kinds {
        let row = text.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("no row for {name}"));
        let rows = match name.as_str() {
            "change" => format!("{row}{changes}"),
            "native" => format!("{row}{native}"),
            _ => row.to_owned(),
        };
        for field in kind.fields().keys() {
            assert!(rows.contains(&format!("`{field}`")), "{name} has {field}");
        }
    }
    let rows = text.lines().filter(|line| line.starts_with("| `")).count();
    assert!(kinds.len() == 28 && rows > kinds.len(), "{} kinds", kinds.len());
}

#[test]
fn annotations_in_the_docs_are_valid() {
    let lines = examples("annotations.md");
    round_trip::<AnnotationHeader>(&lines[0]);
    let annotation: Annotation = round_trip(&lines[1]);
    assert!(annotation.unknown.is_empty());
}

#[test]
fn example_fixture_in_the_docs_is_valid() {
    let lines = examples("llm.md");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fixture.jsonl");
    std::fs::write(&path, lines.join("\n")).unwrap();
    let mut replay = Replay::open(&path).unwrap();
    let request = LlmRequest::new("m1", vec![Message::new("user", "hi")]);
    assert!(lines[1].contains(&request.digest().to_string()), "{}", request.digest());
    let mut answer = || replay.complete(&request);
    for expected in [Ok("ho"), Ok("ho"), Err("it broke"), Err("slow down")] {
        match (answer(), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found.content, expected),
            (Err(found), Err(expected)) => assert_eq!(found.to_string(), expected),
            (found, _) => panic!("{found:?} is not {expected:?}"),
        }
    }
    assert_eq!(replay.finish(), []);
}

#[test]
fn the_reader_in_python_reads_a_tape() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|run| run.status.success()) {
        skipped("the_reader_in_python_reads_a_tape", "no python3");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let tape = FileTape::create(&path, &Header::new(0), 1 << 20).unwrap();
    let recorder = Recorder::new(tape, Redaction::default());
    for bytes in [b"short".as_slice(), &[0xff; 9000], b"\xff sk-abcdefghijklmnopqrstuvwxyz"] {
        recorder.push(Kind::StreamWrite { pid: 1, fd: 1, bytes: recorder.payload(bytes) });
    }
    recorder.push(Kind::ClockSleep { duration_ns: u64::MAX });
    recorder.finish().unwrap();

    let read = || {
        let script = package().join("docs/tape_reader.py");
        assert!(std::fs::read_to_string(&script).unwrap().lines().count() < 110);
        Command::new("python3").arg(script).arg(&path).output().unwrap()
    };
    let run = read();
    let printed = stdout(&run);
    assert!(run.status.success(), "{}", stderr(&run));
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 6, "{printed}");
    assert!(lines[0].starts_with("0 stream_write {\"pid\": 1,"), "{printed}");
    assert_eq!(lines[3], "3 clock_sleep {\"duration_ns\": 18446744073709551615}");
    assert_eq!(lines[4..], ["       1 clock_sleep", "       3 stream_write"]);

    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 10]).unwrap();
    let cut = read();
    assert!(cut.status.success() && stderr(&cut).contains("line 5 is cut off"), "{}", stderr(&cut));
    std::fs::write(&path, whole.replace("\"1.16\"", "\"2.0\"")).unwrap();
    assert!(!read().status.success());
    std::fs::write(&path, whole.replace("\"seq\":1", "\"seq\":x")).unwrap();
    assert!(stderr(&read()).contains("line 3 is no record"));
    std::fs::write(&path, "").unwrap();
    assert!(stderr(&read()).contains("it is empty"));

    // Contents are found in packs and as files; a pack is read to its first incomplete entry.
    std::fs::write(&path, &whole).unwrap();
    let hash = Digest::of(&[0xff; 9000]).to_string();
    let (pack, content) = (cas_dir(&path).join("0.pack"), cas_dir(&path).join(&hash));
    std::fs::write(&content, "other").unwrap();
    assert!(read().status.success());
    let bytes = std::fs::read(&pack).unwrap();
    std::fs::write(&pack, &bytes[..bytes.len() - 1]).unwrap();
    assert!(stderr(&read()).contains("has 5 bytes, not 9000"));
    std::fs::write(&content, [0xff; 9000]).unwrap();
    assert!(read().status.success());
    std::fs::remove_file(&content).unwrap();
    assert!(stderr(&read()).contains(&format!("{hash}: No such file")), "{}", stderr(&read()));
}
