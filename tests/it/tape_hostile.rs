//! Damaged or malicious tapes, through every command that reads one: each tape is refused with its line, or read;
//! nothing panics, hangs or accesses files outside the tape's own folder.

use std::path::{Path, PathBuf};
use std::process::Output;

use belljar::Digest;
use belljar::tape::cas_dir;
use belljar::tape::{FidelityMode, Tape, TapeError, TapeReader, Version, compare};
use proptest::prelude::*;

use crate::support::{belljar, has_links, stderr, stdout, symlink};

/// Longest line of a tape.
const LINE_BYTES_MAX: usize = 16 << 20;

/// The tape, with an annotation, of a run that reads, prints and writes.
struct Recorded {
    folder: tempfile::TempDir,
    text: String,
}

impl Recorded {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        std::fs::write(tree.join("note.txt"), "one two\n".repeat(10_000)).unwrap();
        let this = Self { folder, text: String::new() };
        let record =
            ["record", "-q", "--tape", "run.tape", "--worktree", "tree", "--embed-program"];
        this.succeed(&[&record[..], &["--", "replace", "one", "three", "note.txt"]].concat());
        let text = std::fs::read_to_string(this.path()).unwrap();
        Self { text, ..this }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("run.tape")
    }

    fn call(&self, args: &[&str]) -> Output {
        belljar(self.folder.path()).args(args).output().unwrap()
    }

    fn succeed(&self, args: &[&str]) -> String {
        let output = self.call(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    }

    /// Replaces the tape by `text`, and removes its annotations.
    fn damage(&self, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(), text).unwrap();
        let _ = std::fs::remove_file(self.folder.path().join("run.tape.annotations.jsonl"));
    }

    /// The number, from 1, and the text of the first line with a record of this kind.
    fn line_of(&self, kind: &str) -> (usize, &str) {
        let kind = format!("\"kind\":\"{kind}\"");
        let mut lines = (1..).zip(self.text.lines());
        lines.find(|(_, line)| line.contains(&kind)).unwrap_or_else(|| panic!("no {kind}"))
    }

    /// The tape with `text` as the line `number`.
    fn with_line(&self, number: usize, text: &str) -> String {
        let lines = (1..).zip(self.text.lines());
        lines.map(|(at, line)| if at == number { text } else { line }.to_owned() + "\n").collect()
    }
}

/// The commands that read a whole tape. The other tape of `fidelity` is undamaged.
const READERS: [&[&str]; 8] = [
    &["tape", "show", "run.tape"],
    &["tape", "show", "--json", "run.tape"],
    &["tape", "grep", "no such text", "run.tape"],
    &["tape", "stat", "run.tape"],
    &["fidelity", "run.tape", "whole.tape"],
    &["fidelity", "--mode", "outcome", "whole.tape", "run.tape"],
    &["annotations", "validate", "run.tape"],
    &["replay", "-q", "run.tape"],
];

#[test]
fn every_command_names_the_line_of_an_error() {
    let recorded = Recorded::new();
    std::fs::write(recorded.folder.path().join("whole.tape"), &recorded.text).unwrap();
    let (read_at, read) = recorded.line_of("file_read");
    let (exit_at, _) = recorded.line_of("process_exit");
    let replaced = |from: &str, to: &str| {
        assert!(read.contains(from), "{read}");
        recorded.with_line(read_at, &read.replacen(from, to, 1))
    };
    let hash_at = read.find("\"content_hash\":\"").unwrap() + "\"content_hash\":\"".len();
    let hash = &read[hash_at..hash_at + 64];
    let seq = format!("\"seq\":{}", read_at - 2);
    let len = read.split("\"len_bytes\":").nth(1).unwrap().split([',', '}']).next().unwrap();
    let len = format!("\"len_bytes\":{len}");
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let version = format!("\"{}\"", Version::CURRENT);
    let numbered = |message: &'static str| (read_at, message);
    let cases = [
        ("", (1, "the tape is empty")),
        ("{", (1, "not a header")),
        ("{\"version\":\"1.0\"}\n", (1, "not a header")),
        ("\0\0\0\0\n", (1, "not a header")),
        (&recorded.text.replacen(&version, "\"1\"", 1), (1, "not a header")),
        (&format!("{}\n", "x".repeat(LINE_BYTES_MAX + 1)), (1, "exceeds 16777216 bytes")),
        (&replaced(hash, "../../../../../etc/passwd"), numbered("64")),
        (&replaced(hash, "/etc/passwd"), numbered("64")),
        (&replaced(hash, &hash.to_uppercase()), numbered("64")),
        (&replaced(hash, &format!("{hash}0")), numbered("64")),
        (&replaced(&len, "\"len_bytes\":18446744073709551616"), numbered("invalid record")),
        (&replaced(&len, "\"len_bytes\":-1"), numbered("invalid record")),
        (&replaced(&len, "\"len_bytes\":1e400"), numbered("invalid record")),
        (&replaced(&len, &format!("\"len_bytes\":{nested}")), numbered("recursion limit")),
        (&replaced(&seq, "\"seq\":1.5"), numbered("invalid record")),
        (&replaced(&seq, "\"seq\":0,\"seq\":1"), numbered("duplicate field")),
        (&replaced("\"kind\":\"file_read\"", "\"kind\":7"), numbered("invalid record")),
        (&recorded.with_line(read_at, ""), numbered("invalid record")),
        (&recorded.with_line(read_at, "[]"), numbered("invalid record")),
        (
            &recorded.with_line(read_at, &" ".repeat(LINE_BYTES_MAX + 1)),
            numbered("exceeds 16777216 bytes"),
        ),
        (&recorded.with_line(exit_at, "{\"seq\":"), (exit_at, "invalid record")),
    ];
    for (text, (line, message)) in cases {
        let shown = &text[..text.len().min(200)];
        recorded.damage(text);
        let refused_at = refused_at(&recorded.path());
        assert_eq!(refused_at, line as u64, "{shown}");
        for command in READERS {
            if command[0] == "annotations" {
                // Annotations that match this tape, so that the tape is read.
                recorded.damage(&recorded.text);
                recorded.succeed(&["annotate", "run.tape", "--event", "1", "--author", "me"]);
                std::fs::write(recorded.path(), text).unwrap();
            }
            let output = recorded.call(command);
            let said = stderr(&output);
            assert!(
                said.contains(&format!("run.tape, line {line}: ")),
                "{command:?} {shown}: {said}"
            );
            assert!(said.contains(message), "{command:?} {shown}: {said}");
            let code = if command[0] == "replay" && line > 1 { 125 } else { 2 };
            assert_eq!(output.status.code(), Some(code), "{command:?} {shown}: {said}");
        }
        let output = recorded.call(&["tape", "cat", "run.tape", hash]);
        let expected = if line == 1 { 2 } else { 0 };
        assert_eq!(output.status.code(), Some(expected), "{shown}: {}", stderr(&output));
    }
}

/// The line at which the library refuses a tape.
fn refused_at(path: &Path) -> u64 {
    match Tape::load(path).map(|_| ()) {
        Err(TapeError::Line { line, .. }) => line,
        other => panic!("{other:?}"),
    }
}

#[test]
fn newer_version_is_refused_before_the_records_are_parsed() {
    let recorded = Recorded::new();
    std::fs::write(recorded.folder.path().join("whole.tape"), &recorded.text).unwrap();
    recorded.succeed(&["annotate", "run.tape", "--event", "1", "--author", "me"]);
    std::fs::write(recorded.path(), "{\"version\":\"2.0\",\"unheard\":[]}\nof\n").unwrap();
    let cat: &[&str] = &["tape", "cat", "run.tape", "0"];
    for command in READERS.into_iter().chain([cat]) {
        let output = recorded.call(command);
        let said = stderr(&output);
        assert!(said.contains("run.tape has version 2.0") && said.contains("newer"), "{said}");
        assert_eq!(output.status.code(), Some(2), "{command:?}: {said}");
    }
}

/// Regression: such a tape was replayed and applied as if it were of the present kernel.
#[test]
fn a_tape_of_a_newer_kernel_is_refused_by_name() {
    let recorded = Recorded::new();
    let (machine_at, machine) = recorded.line_of("machine");
    let mut newer: serde_json::Value = serde_json::from_str(machine).unwrap();
    newer["config"]["kernel_version"] = 99.into();
    recorded.damage(recorded.with_line(machine_at, &newer.to_string()));
    for command in [
        &["replay", "run.tape"][..],
        &["diff", "run.tape"],
        &["apply", "--worktree", "tree", "run.tape"],
    ] {
        let output = recorded.call(command);
        let said = stderr(&output);
        assert!(!output.status.success(), "{command:?}: {said}");
        assert!(said.contains("kernel version 99"), "{command:?}: {said}");
        assert!(said.contains("use a newer belljar"), "{command:?}: {said}");
    }
}

/// Regression: a change with a length greater than its content was written with the content's length.
#[test]
fn change_with_a_wrong_content_length_is_not_applied() {
    let recorded = Recorded::new();
    let (change_at, change) = recorded.line_of("change");
    let before = std::fs::read(recorded.folder.path().join("tree/note.txt")).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(change).unwrap();
    let len_bytes = record["len_bytes"].as_u64().unwrap();
    for wrong in [Some(len_bytes + 1), Some(len_bytes - 1), Some(u64::MAX), None] {
        record["len_bytes"] = serde_json::json!(wrong);
        recorded.damage(recorded.with_line(change_at, &record.to_string()));
        let output = recorded.call(&["apply", "--worktree", "tree", "run.tape"]);
        assert!(!output.status.success(), "{wrong:?}");
        assert_eq!(std::fs::read(recorded.folder.path().join("tree/note.txt")).unwrap(), before);
    }
    recorded.damage(&recorded.text);
    recorded.succeed(&["apply", "--worktree", "tree", "run.tape"]);
}

/// Lengths and limits on a tape are untrusted: memory and time are not used on their account.
#[test]
fn huge_lengths_on_a_tape_cost_no_memory() {
    let recorded = Recorded::new();
    let huge = u64::MAX.to_string();
    let (read_at, read) = recorded.line_of("file_read");
    let (machine_at, machine) = recorded.line_of("machine");
    let len = read.split("\"len_bytes\":").nth(1).unwrap().split([',', '}']).next().unwrap();
    let longer = read.replace(&format!("\"len_bytes\":{len}"), &format!("\"len_bytes\":{huge}"));
    let mut limits: serde_json::Value = serde_json::from_str(machine).unwrap();
    for (_, limit) in limits["config"]["limits"].as_object_mut().unwrap() {
        *limit = u64::MAX.into();
    }
    let cases = [
        recorded.with_line(read_at, &longer),
        recorded.text.replace(&format!("\"len_bytes\":{len}"), &format!("\"len_bytes\":{huge}")),
        recorded.with_line(machine_at, &limits.to_string()),
    ];
    for text in cases {
        recorded.damage(text);
        recorded.succeed(&["tape", "stat", "run.tape"]);
        let output = recorded.call(&["replay", "-q", "--timeout", "20s", "run.tape"]);
        let code = output.status.code();
        assert!(matches!(code, Some(1 | 125)), "{code:?}: {}", stderr(&output));
        assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
    }
}

/// Short contents are in packs, which are not trusted either.
#[test]
fn pack_must_be_a_regular_file_with_the_contents_of_its_digests() {
    if !has_links("pack_must_be_a_regular_file_with_the_contents_of_its_digests") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    std::fs::write(dir.join("note.txt"), "one two\n".repeat(1000)).unwrap();
    let call = |args: &[&str]| belljar(dir).args(args).output().unwrap();
    let record =
        ["record", "-q", "--tape", "run.tape", "--", "replace", "one", "three", "note.txt"];
    assert!(call(&record).status.success());
    let pack = cas_dir(&dir.join("run.tape")).join("0.pack");
    let whole = std::fs::read(&pack).unwrap();
    let hash = Digest::of("one two\n".repeat(1000).as_bytes()).to_string();
    let cat = || call(&["tape", "cat", "run.tape", &hash]);
    assert_eq!(stdout(&cat()).len(), 8000);

    let secret = dir.join("secret");
    std::fs::rename(&pack, &secret).unwrap();
    assert!(symlink(&secret, &pack));
    assert!(stderr(&cat()).contains("no content"), "{}", stderr(&cat()));
    let replayed = call(&["replay", "-q", "run.tape"]);
    assert!(stderr(&replayed).contains("is missing"), "{}", stderr(&replayed));
    std::fs::remove_file(&pack).unwrap();

    let mut damaged = whole.clone();
    let at = damaged.windows(8).position(|bytes| bytes == b"one two\n").unwrap();
    damaged[at] = b'O';
    std::fs::write(&pack, &damaged).unwrap();
    for command in [&["tape", "cat", "run.tape", &hash][..], &["replay", "-q", "run.tape"]] {
        let output = call(command);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), &b""[..]));
        assert!(stderr(&output).contains("0.pack is damaged"), "{}", stderr(&output));
    }
    std::fs::write(&pack, &whole).unwrap();
    assert!(call(&["replay", "-q", "run.tape"]).status.success());
}

/// A link to another directory is not accepted as the store, whatever digests the tape names.
#[test]
fn store_must_be_a_real_directory_beside_the_tape() {
    if !has_links("store_must_be_a_real_directory_beside_the_tape") {
        return;
    }
    let recorded = Recorded::new();
    let (_, read) = recorded.line_of("file_read");
    let hash_at = read.find("\"content_hash\":\"").unwrap() + "\"content_hash\":\"".len();
    let hash = &read[hash_at..hash_at + 64];
    let cas = cas_dir(&recorded.path());
    let content = cas.join(hash);
    let secret = recorded.folder.path().join("secret");
    std::fs::rename(&content, &secret).unwrap();
    assert!(symlink(&secret, &content));
    let output = recorded.call(&["tape", "cat", "run.tape", hash]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), &b""[..]));
    assert!(stderr(&output).contains("is missing"), "{}", stderr(&output));

    std::fs::remove_file(&content).unwrap();
    std::fs::write(&content, "another content").unwrap();
    let output = recorded.call(&["tape", "cat", "run.tape", hash]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), &b""[..]));
    assert!(stderr(&output).contains("is damaged"), "{}", stderr(&output));

    let elsewhere = recorded.folder.path().join("elsewhere");
    std::fs::rename(&cas, &elsewhere).unwrap();
    assert!(symlink(&elsewhere, &cas));
    for command in [&["tape", "cat", "run.tape", hash][..], &["replay", "-q", "run.tape"]] {
        let output = recorded.call(command);
        assert!(!output.status.success(), "{command:?}");
        assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
    }
}

/// A tape with any kind of damage, read in every way.
fn read_all(path: &Path, whole: &Path) -> Result<(), TestCaseError> {
    let lines = std::fs::read(path).unwrap().split(|byte| *byte == b'\n').count() as u64;
    let mut reader = match TapeReader::open(path) {
        Ok(reader) => reader,
        Err(TapeError::Line { line, .. }) => {
            prop_assert_eq!(line, 1);
            return Ok(());
        }
        Err(TapeError::Version { .. }) => return Ok(()),
        Err(other) => return Err(TestCaseError::fail(other.to_string())),
    };
    for record in reader.by_ref() {
        if let Err(error) = record {
            let TapeError::Line { line, .. } = error else {
                return Err(TestCaseError::fail(error.to_string()));
            };
            prop_assert!(line > 1 && line <= lines, "line {} of {}", line, lines);
        }
    }
    for mode in FidelityMode::ALL {
        if let Ok(report) = compare(path, whole, mode) {
            prop_assert!((0.0..=1.0).contains(&report.score));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..Default::default() })]

    #[test]
    fn damaged_tapes_are_read_or_refused_with_a_line(
        cut in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 0..6),
        is_cut in any::<bool>(),
    ) {
        thread_local!(static RECORDED: Recorded = Recorded::new());
        RECORDED.with(|recorded| {
            let whole = recorded.folder.path().join("whole.tape");
            std::fs::write(&whole, &recorded.text).unwrap();
            let mut bytes = recorded.text.clone().into_bytes();
            for (index, bit) in flips {
                let at = index.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            if is_cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            std::fs::write(recorded.path(), bytes).unwrap();
            read_all(&recorded.path(), &whole)
        })?;
    }
}
