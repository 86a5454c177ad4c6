//! Tapes as files: a written tape reads back unchanged, and damage is reported with its line.

use std::io::Write;
use std::path::{Path, PathBuf};

use belljar::Digest;
use belljar::tape::{
    FileTape, Header, Kind, MemoryTape, Payload, Recorder, Redaction, Tape, TapeError, TapeReader,
    TapeStore, cas_dir,
};
use proptest::prelude::*;

use crate::support::{has_links, symlink};

const BYTES_MAX: u64 = 1 << 20;

fn recorder(path: &Path, bytes_max: u64) -> Recorder {
    let tape = FileTape::create(path, &Header::new(5), bytes_max).unwrap();
    Recorder::new(tape, Redaction::default())
}

fn write(pid: u32, bytes: Payload) -> Kind {
    Kind::StreamWrite { pid, fd: 1, bytes }
}

/// A tape of three records; the bytes of the second are in the store.
fn finished(folder: &Path) -> PathBuf {
    let path = folder.join("run.tape");
    let recorder = recorder(&path, BYTES_MAX);
    recorder.push(write(1, recorder.payload(b"short")));
    recorder.push(write(1, recorder.payload(&[0xff; 9000])));
    recorder.push(Kind::ClockSleep { duration_ns: 7 });
    assert_eq!(recorder.finish().unwrap(), 3);
    path
}

fn line_error(path: &Path) -> (u64, String) {
    match Tape::load(path).map(|_| ()) {
        Err(TapeError::Line { line, message, .. }) => (line, message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_tape_reads_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let tape = Tape::load(&finished(folder.path())).unwrap();
    assert_eq!(tape.header, Header::new(5));
    assert!(!tape.cut_off);
    let bytes: Vec<Vec<u8>> = tape.records[..2]
        .iter()
        .map(|record| match &record.kind {
            Kind::StreamWrite { bytes, .. } => tape.payload(bytes).unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(bytes, [b"short".to_vec(), vec![0xff; 9000]]);
    assert_eq!(tape.records[2].kind, Kind::ClockSleep { duration_ns: 7 });
}

#[test]
fn unfinished_tape_is_readable_and_removed_on_drop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let recorder = recorder(&path, BYTES_MAX);
    for _ in 0..2000 {
        recorder.push(write(1, recorder.payload(&[0xfe; 5000])));
    }
    let so_far = Tape::load(&folder.path().join("run.tape.partial")).unwrap();
    assert!(so_far.records.len() > 1000);
    let Kind::StreamWrite { bytes, .. } = &so_far.records[0].kind else { panic!() };
    assert_eq!(so_far.payload(bytes).unwrap(), [0xfe; 5000]);
    assert!(!path.exists());
    drop((so_far, recorder));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn rewritten_tape_removes_contents_of_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = finished(folder.path());
    let again = recorder(&path, BYTES_MAX);
    again.push(write(1, again.payload(&[0xfd; 6000])));
    again.finish().unwrap();
    assert_eq!(std::fs::read_dir(cas_dir(&path)).unwrap().count(), 1);
    assert_eq!(Tape::load(&path).unwrap().records.len(), 1);
}

#[test]
fn two_writers_of_one_tape_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let _first = recorder(&path, BYTES_MAX);
    let second = FileTape::create(&path, &Header::new(0), BYTES_MAX);
    assert!(matches!(second.map(|_| ()), Err(TapeError::Disk(_))));
}

/// A program whose changes were applied can leave links at the path of the next tape.
#[test]
fn tape_is_not_written_through_links() {
    if !has_links("tape_is_not_written_through_links") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let victim = folder.path().join("victim");
    let create = || FileTape::create(&path, &Header::new(0), BYTES_MAX).map(|_| ());

    std::fs::write(&victim, "precious").unwrap();
    let partial = folder.path().join("run.tape.partial");
    for target in [&victim, &folder.path().join("new")] {
        assert!(symlink(target, &partial));
        let message = format!("{:#}", anyhow::Error::from(create().unwrap_err()));
        assert!(message.contains("it is not a regular file; remove it"), "{message}");
        std::fs::remove_file(&partial).unwrap();
    }
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    assert!(!folder.path().join("new").exists());

    // A file that no recorder left is not removed. If the partial file is a hard link to another file, the tape becomes
    // a new file, and the other file stays unchanged.
    std::fs::hard_link(&victim, &partial).unwrap();
    let message = format!("{:#}", anyhow::Error::from(create().unwrap_err()));
    assert!(message.contains("it is not a tape"), "{message}");
    std::fs::write(&victim, "{\"version\":\"1.4\",\"bel").unwrap();
    finished(folder.path());
    assert_eq!(std::fs::read(&victim).unwrap(), b"{\"version\":\"1.4\",\"bel");
    std::fs::remove_dir_all(cas_dir(&path)).unwrap();

    let others = folder.path().join("others");
    std::fs::create_dir(&others).unwrap();
    let content = others.join("0".repeat(64));
    std::fs::write(&content, "of another tape").unwrap();
    assert!(symlink(&others, cas_dir(&path)));
    assert!(create().unwrap_err().to_string().contains("is not a directory"));
    assert!(content.exists());
}

/// A killed recorder leaves a partial tape, which the next recorder replaces.
#[test]
fn leftover_of_a_killed_recorder_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let partial = folder.path().join("run.tape.partial");
    std::fs::write(partial, "{\"version\":\"1.4\",\"belljar_ver").unwrap();
    assert_eq!(Tape::load(&finished(folder.path())).unwrap().records.len(), 3);
}

/// Regression: a file that was appended to is read when it is closed, and a failure to open it then is a record. The
/// recorder deadlocked with itself, and a replay without its contents waited for an hour.
#[test]
fn recording_while_a_content_is_read_does_not_deadlock() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = recorder(&folder.path().join("run.tape"), BYTES_MAX);
    let (tape, (said, heard)) = (recorder.clone(), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        let read = |_: u64, _: &mut [u8]| {
            tape.push(Kind::FileError {
                path: "/file".to_owned(),
                operation: "open".to_owned(),
                errno: "io".to_owned(),
            });
            Err(std::io::Error::other("no"))
        };
        said.send(tape.content_from("/file", read).is_err()).unwrap();
    });
    assert_eq!(heard.recv_timeout(std::time::Duration::from_mins(1)), Ok(true));
    assert_eq!(recorder.records(), 1);
}

#[test]
fn secrets_across_pieces_of_a_content_are_redacted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let recorder = recorder(&path, BYTES_MAX);
    let keep = |bytes: &[u8]| {
        let read = |offset: u64, buf: &mut [u8]| {
            let rest = &bytes[usize::try_from(offset).unwrap()..];
            let count = rest.len().min(buf.len()).min(100_000);
            buf[..count].copy_from_slice(&rest[..count]);
            Ok::<_, std::io::Error>(count)
        };
        let content = recorder.content_from("/file", read).unwrap();
        let expected = (Digest::of(bytes), bytes.len() as u64);
        assert_eq!((content.content_hash, content.len_bytes), expected);
        let is_kept = TapeStore::of(&path).open(content.content_hash, content.len_bytes).is_ok();
        assert_eq!(is_kept, content.withheld_by.is_none());
        is_kept
    };
    let mut bytes = vec![b'.'; 250_000];
    assert!(keep(&bytes));
    bytes[99_990..100_020].copy_from_slice(b"sk-abcdefghijklmnopqrstuvwxyz1");
    assert!(!keep(&bytes));
    assert!(keep(b""));
}

/// Regression: a secret that a program writes in pieces could be on the tape, piece by piece.
#[test]
fn secret_written_in_pieces_is_redacted_once_recognised() {
    let recorder = Recorder::new(MemoryTape::default(), Redaction::default());
    let token = format!("ghp_{}", "0123456789".repeat(4));
    let inline = |fd, text: &str| match recorder.stream_payload(1, fd, text.as_bytes()) {
        Payload::Inline { text } => text,
        Payload::Stored { .. } => panic!("{text} is short"),
    };
    let first = &token[..9];
    assert_eq!(inline(1, &format!("token: {first}")), format!("token: {first}"));
    assert_eq!(inline(2, &token[9..]), token[9..], "another stream");
    assert_eq!(inline(1, &format!("{} end", &token[9..])), "[redacted] end");
    assert_eq!(inline(1, " and more"), " and more");

    let bytes: String = token.chars().map(|c| inline(3, &c.to_string())).collect();
    let seen_at = "ghp_".len() + 36;
    assert_eq!(bytes.replace("[redacted]", ""), token[..seen_at - 1]);

    inline(4, first);
    let long = [&token.as_bytes()[9..], &[0xff; 5000]].concat();
    let rest = recorder.stream_payload(1, 4, &long);
    assert!(
        matches!(rest, Payload::Stored { withheld_by: Some(rule), .. } if rule == "github-token")
    );
    let more = recorder.stream_payload(1, 4, &[0xff; 5000]);
    assert!(matches!(more, Payload::Stored { withheld_by: None, .. }));
}

/// Regression: the letter of an escape hid the start of a secret in JSON text of calls and in arguments of programs.
#[test]
fn secrets_after_escapes_are_redacted_in_all_texts() {
    const SECRET: &str = "AKIAIOSFODNN7EXAMPLE";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let script = format!(r"printf 'a\n{SECRET}\t'");
    let json = serde_json::json!({ "text": format!("a\n{SECRET}\n"), "script": script });
    let json = json.to_string();
    let mut header = Header::new(5);
    header.argv = vec!["sh".to_owned(), "-c".to_owned(), script.clone()];
    let redaction = Redaction::default();
    let tape = FileTape::create(&path, &header.without_secrets(&redaction), BYTES_MAX).unwrap();
    let recorder = Recorder::new(tape, redaction);
    let call = |params: &str| Kind::HostCall {
        pid: Some(1),
        capability: "notes".to_owned(),
        operation: "add".to_owned(),
        params: recorder.payload(params.as_bytes()),
        done_as: None,
        result: recorder.payload(params.as_bytes()),
        answered_by: None,
        amended: false,
    };
    recorder.push(call(&json));
    recorder.push(call(&format!("{json}{}", " ".repeat(5000))));
    let long = serde_json::json!([SECRET, "x".repeat(5000)]);
    recorder.push(write(1, recorder.json_payload(long)));
    let spawn = serde_json::json!({
        "kind": "process_spawn", "pid": 1, "program": "sh", "args": ["-c", script], "env": [], "mode": "builtin",
        "preopens": [], "stdin": "empty",
    });
    recorder.push(serde_json::from_value(spawn).unwrap());
    recorder.finish().unwrap();

    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains(SECRET), "{text}");
    let tape = Tape::load(&path).unwrap();
    let Kind::HostCall { params: Payload::Inline { text }, .. } = &tape.records[0].kind else {
        panic!("{:?}", tape.records[0])
    };
    assert_eq!(text, &json.replace(SECRET, "[redacted]"));
    let Kind::HostCall { params, .. } = &tape.records[1].kind else { panic!() };
    assert!(matches!(params, Payload::Stored { withheld_by: Some(_), .. }), "{params:?}");
    // JSON that is redacted text by text is not withheld.
    let Kind::StreamWrite { bytes, .. } = &tape.records[2].kind else { panic!() };
    assert!(tape.payload(bytes).unwrap().starts_with(br#"["[redacted]","xxx"#));
}

/// Regression: the error named a damaged store.
#[test]
fn a_file_that_changes_while_it_is_recorded_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let record = |first: &[u8], second: &[u8]| {
        let recorder = recorder(&path, BYTES_MAX);
        let mut passes = 0;
        let read = |offset: u64, buf: &mut [u8]| {
            passes += usize::from(offset == 0);
            let bytes = if passes == 1 { first } else { second };
            let rest = bytes.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
            let count = rest.len().min(buf.len());
            buf[..count].copy_from_slice(&rest[..count]);
            Ok::<_, std::io::Error>(count)
        };
        let content = recorder.content_from("/worktree/log", read).unwrap();
        assert_eq!(content.content_hash, Digest::of(first));
        recorder.finish()
    };
    let (long, other) = (vec![b'a'; 100_000], vec![b'b'; 100_000]);
    for changed in [&other[..], &long[..99_999]] {
        let error = record(&long, changed).unwrap_err();
        assert!(
            matches!(&error, TapeError::Changed { path } if path == "/worktree/log"),
            "{error}"
        );
    }
    record(&long, &[&long[..], b"a"].concat()).unwrap();
    let kept = cas_dir(&path).join(Digest::of(&long).to_string());
    assert_eq!(std::fs::read(kept).unwrap(), long);
    // A short content is read once, so it cannot change in between.
    record(b"short", b"other").unwrap();
    assert_eq!(TapeStore::of(&path).get(Digest::of(b"short"), 5).unwrap(), b"short");
}

/// Regression: a content of an older tape was trusted to match its name.
#[test]
fn a_damaged_content_of_an_older_tape_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let record = || {
        let recorder = recorder(&path, BYTES_MAX);
        recorder.push(write(1, recorder.payload(&vec![0xff; 90_000])));
        recorder.finish().unwrap();
    };
    record();
    let content = std::fs::read_dir(cas_dir(&path)).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&content, vec![0xfe; 90_000]).unwrap();
    record();
    let tape = Tape::load(&path).unwrap();
    let Kind::StreamWrite { bytes, .. } = &tape.records[0].kind else { panic!() };
    assert_eq!(tape.payload(bytes).unwrap(), vec![0xff; 90_000]);
}

#[test]
fn a_tape_of_version_1_0_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let hash = Digest::of(b"");
    let stamps = r#""phase":"run","virtual_time_ms":5,"monotonic_ms":0"#;
    let lines = [
        r#"{"version":"1.0","belljar_version":"0.1.0","started_at_unix_ms":5,"argv":[]}"#
            .to_owned(),
        format!(
            r#"{{"seq":0,{stamps},"kind":"file_read","path":"/a","content_hash":"{hash}","len_bytes":0}}"#
        ),
        format!(r#"{{"seq":1,{stamps},"kind":"stream_read","pid":1,"bytes":{{"text":"yes"}}}}"#),
    ];
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let tape = Tape::load(&path).unwrap();
    let (content_hash, path) = (hash, "/a".to_owned());
    let read = Kind::FileRead { path, content_hash, len_bytes: 0, withheld_by: None };
    assert_eq!(tape.records[0].kind, read);
    assert_eq!(tape.records[1].kind.name(), "stream_read");
}

#[test]
fn full_tape_is_reported_and_not_extended() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = recorder(&folder.path().join("run.tape"), 10_000);
    recorder.push(write(1, recorder.payload(&[0xff; 5000])));
    assert!(!recorder.failed());
    recorder.push(write(1, recorder.payload(&[0xfe; 5000])));
    assert!(recorder.failed());
    assert!(matches!(recorder.finish(), Err(TapeError::Full { limit_bytes: 10_000 })));
}

#[test]
fn a_line_that_is_cut_off_is_left_out_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = finished(folder.path());
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 10]).unwrap();
    let tape = Tape::load(&path).unwrap();
    assert!(tape.cut_off);
    assert_eq!(tape.records.len(), 2);
}

#[test]
fn damaged_line_error_names_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = finished(folder.path());
    let whole = std::fs::read_to_string(&path).unwrap();

    std::fs::write(&path, whole.replace("\"seq\":1", "\"seq\":one")).unwrap();
    assert_eq!(line_error(&path).0, 3);

    std::fs::write(&path, whole.replacen("\"version\"", "\"vershun\"", 1)).unwrap();
    let (line, message) = line_error(&path);
    assert_eq!(line, 1);
    assert!(message.contains("not a header"), "{message}");

    std::fs::write(&path, "").unwrap();
    assert!(line_error(&path).1.contains("empty"));

    std::fs::write(&path, vec![b'x'; (16 << 20) + 2]).unwrap();
    assert!(line_error(&path).1.contains("exceeds 16777216 bytes"));

    std::fs::write(&path, whole.replacen("\"1.16\"", "\"2.0\"", 1)).unwrap();
    assert!(matches!(Tape::load(&path).map(|_| ()), Err(TapeError::Version { .. })));

    std::fs::write(&path, whole.replacen("\"1.16\"", "\"1.17\"", 1)).unwrap();
    assert_eq!(Tape::load(&path).unwrap().records.len(), 3);
}

#[test]
fn content_names_must_be_digests() {
    let folder = tempfile::tempdir().unwrap();
    let path = finished(folder.path());
    let whole = std::fs::read_to_string(&path).unwrap();
    let start = whole.find("content_hash\":\"").unwrap() + "content_hash\":\"".len();
    let hash = &whole[start..start + 64];
    std::fs::write(&path, whole.replace(hash, "../../../../etc/passwd")).unwrap();
    assert_eq!(line_error(&path).0, 3);

    // A length that exceeds the content costs no memory; a missing or longer content is an error.
    std::fs::write(&path, whole.replace("9000", "18446744073709551615")).unwrap();
    let tape = Tape::load(&path).unwrap();
    let Kind::StreamWrite { bytes, .. } = &tape.records[1].kind else { panic!() };
    assert_eq!(tape.payload(bytes).unwrap().len(), 9000);
    std::fs::write(&path, whole.replace("9000", "8999")).unwrap();
    let tape = Tape::load(&path).unwrap();
    let Kind::StreamWrite { bytes, .. } = &tape.records[1].kind else { panic!() };
    assert!(tape.payload(bytes).is_err());
}

#[test]
fn a_long_tape_is_read_a_line_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let recorder = recorder(&path, 1 << 30);
    for duration_ns in 0..50_000 {
        recorder.push(Kind::ClockSleep { duration_ns });
    }
    recorder.finish().unwrap();
    let mut reader = TapeReader::open(&path).unwrap();
    let mut count = 0;
    for record in reader.by_ref() {
        assert_eq!(record.unwrap().kind, Kind::ClockSleep { duration_ns: count });
        count += 1;
    }
    assert_eq!((count, reader.line()), (50_000, 50_001));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    /// With any change of its bytes, a tape loads or gives an error; a record that is read can be written
    /// again.
    #[test]
    fn damaged_bytes_never_panic(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let folder = tempfile::tempdir().unwrap();
        let path = finished(folder.path());
        let mut bytes = std::fs::read(&path).unwrap();
        for (index, byte) in damage {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        std::fs::File::create(&path).unwrap().write_all(&bytes).unwrap();
        if let Ok(tape) = Tape::load(&path) {
            for record in tape.records {
                let line = serde_json::to_string(&record).unwrap();
                prop_assert_eq!(serde_json::from_str::<belljar::tape::Record>(&line).unwrap(), record);
            }
        }
    }
}
