//! Runs replayed from their tapes, without the tree over which they ran.

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar::Digest;
use belljar::Errno;
use belljar::kernel::vfs::{Blob, DirEntry, FileType, Layer, Stat, VPath};
use belljar::tape::{
    FidelityMode, FileTape, Header, Kind, MemoryTape, Record, Recorder, Redaction, Tape, TapeError,
    compare,
};
use belljar::testbench::{ReplayError, Replayed, record_changes, replay};
use belljar::{
    ClockConfig, Command, HostDir, Input, Limits, Machine, Module, Output, Program, Source,
    Toolchains,
};

use crate::support::{engine, guest};

fn module(name: &str) -> Module {
    match Toolchains::default().resolve(name) {
        Ok(resolved) => resolved.module().unwrap(),
        Err(_) => Module::read(&guest(name)).unwrap(),
    }
}

pub fn program(name: &str) -> Program {
    Program::new(engine(), &module(name)).unwrap()
}

pub fn load(name: &str, digest: Option<Digest>) -> Result<Module, String> {
    let module = module(name);
    if Some(module.digest()) == digest { Ok(module) } else { Err("another module".to_owned()) }
}

/// Records `program` over the folder `tree`; the tape is beside it.
fn record(
    scratch: &Path,
    clock: ClockConfig,
    name: &str,
    args: &[&str],
    stdin: Input,
) -> (PathBuf, Output) {
    let path = scratch.join("run.tape");
    let tape = FileTape::create(&path, &Header::new(0), 1 << 30).unwrap();
    let recorder = Recorder::new(tape, Redaction::default());
    let mut machine = Machine::builder()
        .worktree(HostDir::open(&scratch.join("tree")).unwrap())
        .clock(clock)
        .tape(recorder.clone())
        .build()
        .unwrap();
    let output = Command::new(&program(name)).args(args).output_from(&mut machine, stdin).unwrap();
    record_changes(&mut machine, &recorder).unwrap();
    recorder.finish().unwrap();
    (path, output)
}

pub fn scratch() -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    let tree = scratch.path().join("tree");
    std::fs::create_dir_all(tree.join("dir")).unwrap();
    std::fs::write(tree.join("note.txt"), "one two one\n").unwrap();
    std::fs::write(tree.join("dir/large"), vec![7; 100_000]).unwrap();
    scratch
}

pub fn forget_tree(scratch: &Path) {
    std::fs::remove_dir_all(scratch.join("tree")).unwrap();
}

pub fn replayed(path: &Path) -> Replayed {
    replay(engine(), path, &Limits::default(), load).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_run_is_repeated_without_its_tree() {
    let scratch = scratch();
    let args = ["one", "three", "note.txt", "dir/large"];
    let (path, output) =
        record(scratch.path(), ClockConfig::default(), "replace", &args, Input::Empty);
    assert!(output.status.success(), "{output:?}");
    forget_tree(scratch.path());
    let mut again = replayed(&path);
    assert_eq!(again.outputs, [Ok(output)]);
    assert_eq!(again.machine.vfs_mut().read("/worktree/note.txt").unwrap(), b"three two three\n");
    let tape = Tape::load(&path).unwrap();
    assert_eq!(again.records, tape.records.len() as u64);
    let kinds: Vec<&str> = tape.records.iter().map(|record| record.kind.name()).collect();
    for kind in ["machine", "process_spawn", "file_read", "file_write", "process_exit", "change"] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
}

#[test]
fn listing_random_bytes_and_time_are_those_of_the_tape() {
    for (name, args) in [
        ("walk", &[][..]),
        ("random", &[]),
        ("clock", &[]),
        ("sleeper", &["5"]),
        ("many_files", &["20", "dir"]),
    ] {
        let scratch = scratch();
        let (path, output) =
            record(scratch.path(), ClockConfig::default(), name, args, Input::Empty);
        forget_tree(scratch.path());
        assert_eq!(replayed(&path).outputs, [Ok(output)], "{name}");
    }
}

/// The real clock never repeats; the tape does.
#[test]
fn real_clock_is_replayed() {
    for (name, args) in [("clock", &[][..]), ("writer", &["dir/out", "1"]), ("walk", &["."])] {
        let scratch = scratch();
        let (path, output) = record(scratch.path(), ClockConfig::Host, name, args, Input::Empty);
        forget_tree(scratch.path());
        assert_eq!(replayed(&path).outputs, [Ok(output)], "{name}");
    }
}

/// Returns at most three bytes per read.
struct Trickle(Cursor<Vec<u8>>);

impl Read for Trickle {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let count = buf.len().min(3);
        self.0.read(&mut buf[..count])
    }
}

#[test]
fn stdin_is_replayed_in_the_recorded_pieces() {
    let scratch = scratch();
    let bytes = b"what\x00 came\xff in".to_vec();
    let stdin = Input::Reader(Box::new(Trickle(Cursor::new(bytes.clone()))));
    let (path, output) = record(scratch.path(), ClockConfig::default(), "cat", &["-"], stdin);
    assert_eq!(output.stdout, bytes);
    assert_eq!(replayed(&path).outputs, [Ok(output)]);
}

/// Up to version 4 of the kernel, the second run started with what the first had left of the
/// limits.
#[test]
fn each_of_two_runs_is_replayed_with_its_recorded_limits() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("run.tape");
    let tape = FileTape::create(&path, &Header::new(0), 1 << 30).unwrap();
    let recorder = Recorder::new(tape, Redaction::default());
    let greeting = Command::new(&program("hello"));
    let alone = greeting.clone().output(&mut Machine::builder().build().unwrap()).unwrap();
    let limits = Limits { output_bytes_max: alone.stdout.len() as u64 + 1, ..Limits::default() };
    let mut machine = Machine::builder().limits(limits).tape(recorder.clone()).build().unwrap();
    let outputs: Vec<_> = (0..2).map(|_| Ok(greeting.output(&mut machine).unwrap())).collect();
    assert_eq!(outputs, [Ok(alone.clone()), Ok(alone)]);
    recorder.finish().unwrap();
    assert_eq!(replayed(&path).outputs, outputs);

    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"kernel_version\":11", "\"kernel_version\":4")).unwrap();
    let again = replay(engine(), &path, &Limits::default(), load);
    let said = again.map(|_| ()).unwrap_err().to_string();
    assert!(said.contains("process_exit"), "{said}");
}

#[test]
fn the_first_mismatch_ends_the_replay() {
    let scratch = scratch();
    let args = ["one", "three", "note.txt"];
    let (path, _) = record(scratch.path(), ClockConfig::default(), "replace", &args, Input::Empty);
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, whole.replace("\"three\"", "\"trees\"")).unwrap();
    let Err(ReplayError::Tape(TapeError::Desync(desync))) =
        replay(engine(), &path, &Limits::default(), load)
    else {
        panic!("the replay went through");
    };
    let found = desync.found.as_ref().unwrap();
    assert!(matches!(found.kind, Kind::FileWrite { .. } | Kind::StreamWrite { .. }), "{desync}");
    assert!(!desync.before.is_empty());
}

#[test]
fn incomplete_tape_is_an_error() {
    let scratch = scratch();
    let (path, _) =
        record(scratch.path(), ClockConfig::default(), "wc", &["dir/large"], Input::Empty);
    let whole = std::fs::read_to_string(&path).unwrap();
    let without = |kind: &str| {
        let kept: Vec<&str> = whole.lines().filter(|line| !line.contains(kind)).collect();
        std::fs::write(&path, kept.join("\n") + "\n").unwrap();
        replay(engine(), &path, &Limits::default(), load).map(|_| ()).unwrap_err()
    };
    assert!(matches!(without("\"machine\""), ReplayError::Incomplete { .. }));
    assert!(matches!(without("\"process_spawn\""), ReplayError::Incomplete { .. }));
    assert!(matches!(without("\"process_exit\""), ReplayError::Tape(TapeError::Desync(_))));

    // A content missing in the store cannot be read, and the run reports that.
    std::fs::write(&path, &whole).unwrap();
    std::fs::remove_dir_all(belljar::tape::cas_dir(&path)).unwrap();
    assert!(matches!(
        replay(engine(), &path, &Limits::default(), load).map(|_| ()).unwrap_err(),
        ReplayError::Tape(TapeError::Desync(_))
    ));
}

/// A guest ends when its tape is full: nothing may happen unrecorded.
#[test]
fn a_full_tape_ends_the_run() {
    let scratch = scratch();
    let path = scratch.path().join("run.tape");
    let tape = FileTape::create(&path, &Header::new(0), 2000).unwrap();
    let recorder = Recorder::new(tape, Redaction::default());
    let mut machine = Machine::builder().tape(recorder.clone()).build().unwrap();
    let output =
        Command::new(&program("many_files")).args(["1000", "/tmp/m"]).output(&mut machine).unwrap();
    assert_eq!(output.status.outcome().name(), "tape");
    assert!(matches!(recorder.finish(), Err(TapeError::Full { .. })));
}

/// A layer that lists its entries unsorted, which layers must not do.
struct Unsorted {
    backwards: bool,
}

impl Layer for Unsorted {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        let is_file = ["a", "b", "c"].contains(&path.as_str());
        if !path.is_root() && !is_file {
            return Err(Errno::Noent);
        }
        let file_type = if is_file { FileType::RegularFile } else { FileType::Directory };
        Ok(Stat {
            file_type,
            size: 0,
            mtime_ns: 0,
            executable: false,
            stamp: 0,
            inode: 0,
            nlink: 1,
        })
    }

    fn list(&self, _path: &VPath) -> Result<Vec<DirEntry>, Errno> {
        let entry =
            |name: &&str| DirEntry { name: (*name).into(), file_type: FileType::RegularFile };
        let mut entries: Vec<_> = ["a", "b", "c"].iter().map(entry).collect();
        if self.backwards {
            entries.reverse();
        }
        Ok(entries)
    }

    fn read_link(&self, _path: &VPath) -> Result<Box<[u8]>, Errno> {
        Err(Errno::Inval)
    }

    fn open(&self, _path: &VPath) -> Result<Blob, Errno> {
        Ok(Blob::Bytes(Arc::from(Vec::new())))
    }
}

#[test]
fn comparison_names_the_divergence_of_a_faulty_layer() {
    let tape_of = |backwards: bool| {
        let tape = MemoryTape::default();
        let recorder = Recorder::new(tape.clone(), Redaction::default());
        let layer: Arc<dyn Layer> = Arc::new(Unsorted { backwards });
        let mut machine = Machine::builder()
            .mount("/worktree", Source::Layers(vec![layer]))
            .tape(recorder.clone())
            .build()
            .unwrap();
        Command::new(&program("walk")).arg(".").output(&mut machine).unwrap();
        recorder.finish().unwrap();
        tape.records()
    };
    let (sorted, again, unsorted) = (tape_of(false), tape_of(false), tape_of(true));
    let compare =
        |other: &[Record]| compare(sorted.as_slice(), other, FidelityMode::ByteIdentical).unwrap();
    assert!(compare(&again).is_faithful());
    let report = compare(&unsorted);
    assert_eq!(report.divergences[0].category, "dir_list.changed", "{report}");
}
