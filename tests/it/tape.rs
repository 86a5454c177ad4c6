//! Tapes as files: what is written reads back, and what is damaged is named by its line.

use std::io::Write;
use std::path::{Path, PathBuf};

use belljar::base::digest::Digest;
use belljar::tape::{
    FileTape, Header, Kind, Payload, Recorder, Redaction, Tape, TapeError, TapeReader, cas_dir,
};
use proptest::prelude::*;

const BYTES_MAX: u64 = 1 << 20;

fn recorder(path: &Path, bytes_max: u64) -> Recorder {
    let tape = FileTape::create(path, &Header::new(5), bytes_max).unwrap();
    Recorder::new(tape, Redaction::default())
}

fn write(pid: u32, bytes: Payload) -> Kind {
    Kind::StreamWrite { pid, fd: 1, bytes }
}

/// A tape of three records, the second of which has its bytes in the store.
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
fn a_tape_that_is_not_finished_can_be_read_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let recorder = recorder(&path, BYTES_MAX);
    for _ in 0..2000 {
        recorder.push(write(1, recorder.payload(&[0xfe; 5000])));
    }
    let so_far = Tape::load(&folder.path().join("run.tape.partial")).unwrap();
    assert!(so_far.records.len() > 1000);
    assert!(!path.exists());
    drop(recorder);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_tape_written_again_drops_what_only_the_old_one_kept() {
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

/// A program whose changes were written to the disk can leave links where the next tape is written.
#[cfg(unix)]
#[test]
fn links_that_were_planted_are_not_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let victim = folder.path().join("victim");
    let create = || FileTape::create(&path, &Header::new(0), BYTES_MAX).map(|_| ());

    std::fs::write(&victim, "precious").unwrap();
    let partial = folder.path().join("run.tape.partial");
    for target in [&victim, &folder.path().join("new")] {
        std::os::unix::fs::symlink(target, &partial).unwrap();
        let message = format!("{:#}", anyhow::Error::from(create().unwrap_err()));
        assert!(message.contains("it is no file; remove it"), "{message}");
        std::fs::remove_file(&partial).unwrap();
    }
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    assert!(!folder.path().join("new").exists());

    // A further name of a file is no longer that file once the tape begins.
    std::fs::hard_link(&victim, &partial).unwrap();
    finished(folder.path());
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    std::fs::remove_dir_all(cas_dir(&path)).unwrap();

    let others = folder.path().join("others");
    std::fs::create_dir(&others).unwrap();
    let content = others.join("0".repeat(64));
    std::fs::write(&content, "of another tape").unwrap();
    std::os::unix::fs::symlink(&others, cas_dir(&path)).unwrap();
    assert!(create().unwrap_err().to_string().contains("is no folder"));
    assert!(content.exists());
}

/// What is killed leaves a tape behind, which the next recorder replaces.
#[test]
fn what_a_killed_recorder_left_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("run.tape.partial"), "left behind").unwrap();
    assert_eq!(Tape::load(&finished(folder.path())).unwrap().records.len(), 3);
}

#[test]
fn contents_come_in_pieces_and_secrets_lie_across_them() {
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
        let (digest, len_bytes) = recorder.content_from(read).unwrap();
        assert_eq!((digest, len_bytes), (Digest::of(bytes), bytes.len() as u64));
        cas_dir(&path).join(digest.to_string()).exists()
    };
    let mut bytes = vec![b'.'; 250_000];
    assert!(keep(&bytes));
    bytes[99_990..100_020].copy_from_slice(b"sk-abcdefghijklmnopqrstuvwxyz1");
    assert!(!keep(&bytes));
    assert!(keep(b""));
}

#[test]
fn a_full_tape_says_so_and_writes_nothing_more() {
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
fn what_is_damaged_is_named_by_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = finished(folder.path());
    let whole = std::fs::read_to_string(&path).unwrap();

    std::fs::write(&path, whole.replace("\"seq\":1", "\"seq\":one")).unwrap();
    assert_eq!(line_error(&path).0, 3);

    std::fs::write(&path, whole.replacen("\"version\"", "\"vershun\"", 1)).unwrap();
    let (line, message) = line_error(&path);
    assert_eq!(line, 1);
    assert!(message.contains("no header"), "{message}");

    std::fs::write(&path, "").unwrap();
    assert!(line_error(&path).1.contains("empty"));

    std::fs::write(&path, vec![b'x'; (16 << 20) + 2]).unwrap();
    assert!(line_error(&path).1.contains("longer than"));

    std::fs::write(&path, whole.replacen("\"1.0\"", "\"2.0\"", 1)).unwrap();
    assert!(matches!(Tape::load(&path).map(|_| ()), Err(TapeError::Version { .. })));

    std::fs::write(&path, whole.replacen("\"1.0\"", "\"1.9\"", 1)).unwrap();
    assert_eq!(Tape::load(&path).unwrap().records.len(), 3);
}

#[test]
fn a_name_in_the_store_is_a_digest_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = finished(folder.path());
    let whole = std::fs::read_to_string(&path).unwrap();
    let start = whole.find("content_hash\":\"").unwrap() + "content_hash\":\"".len();
    let hash = &whole[start..start + 64];
    std::fs::write(&path, whole.replace(hash, "../../../../etc/passwd")).unwrap();
    assert_eq!(line_error(&path).0, 3);

    // A length that nothing has costs no memory, and a missing or longer content is an error.
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

    /// Whatever is done to its bytes, a tape loads or gives an error; and a record that is read
    /// writes again.
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
