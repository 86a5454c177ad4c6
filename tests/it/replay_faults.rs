//! Runs over streams and layers that fail or change, replayed from their tapes: a guest gets the same answers again.

use std::io::{self, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use belljar::Errno;
use belljar::kernel::vfs::{Blob, DirEntry, Layer, Stat, VPath};
use belljar::tape::{FileTape, Header, Kind, Recorder, Redaction, Tape};
use belljar::testbench::record_changes;
use belljar::{Command, HostDir, Input, Machine, Outcome, OutputStream, Source, Stdio};

use crate::replay::{forget_tree, program, replayed, scratch};

/// The bytes that a stream has accepted, for a test to check.
#[derive(Clone, Default)]
struct Taken(Arc<Mutex<Vec<u8>>>);

impl Taken {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

/// Accepts what is written, but fails the writes with these numbers.
struct Breaking {
    taken: Taken,
    write: usize,
    fails: &'static [(usize, io::ErrorKind)],
}

impl Write for Breaking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let write = self.write;
        self.write += 1;
        if let Some((_, kind)) = self.fails.iter().find(|(at, _)| *at == write) {
            return Err((*kind).into());
        }
        self.taken.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns at most five bytes per read, and fails after `reads` reads.
struct Failing {
    bytes: Cursor<Vec<u8>>,
    reads: usize,
}

impl Read for Failing {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let Some(left) = self.reads.checked_sub(1) else {
            return Err(io::ErrorKind::ConnectionReset.into());
        };
        self.reads = left;
        let count = buf.len().min(5);
        self.bytes.read(&mut buf[..count])
    }
}

/// A folder in which each given operation fails once.
struct Flaky {
    folder: HostDir,
    faults: Mutex<Vec<(&'static str, &'static str, Errno)>>,
}

impl Flaky {
    fn check(&self, operation: &str, path: &VPath) -> Result<(), Errno> {
        let mut faults = self.faults.lock().unwrap();
        let found = faults.iter().position(|(of, at, _)| *of == operation && *at == path.as_str());
        found.map_or(Ok(()), |index| Err(faults.remove(index).2))
    }
}

impl Layer for Flaky {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        self.check("stat", path)?;
        self.folder.stat(path)
    }

    fn list(&self, path: &VPath) -> Result<Vec<DirEntry>, Errno> {
        self.check("list", path)?;
        self.folder.list(path)
    }

    fn read_link(&self, path: &VPath) -> Result<Box<[u8]>, Errno> {
        self.check("read_link", path)?;
        self.folder.read_link(path)
    }

    fn open(&self, path: &VPath) -> Result<Blob, Errno> {
        self.check("open", path)?;
        self.folder.open(path)
    }
}

/// The results of a recorded run.
struct Recorded {
    tape: PathBuf,
    outcome: Outcome,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Records `name` over `source`; writes to standard output fail according to `fails`.
fn record(
    scratch: &Path,
    source: Source,
    (name, args): (&str, &[&str]),
    stdin: Input,
    fails: &'static [(usize, io::ErrorKind)],
) -> Recorded {
    let tape = scratch.join("run.tape");
    let file = FileTape::create(&tape, &Header::new(0), 1 << 30).unwrap();
    let recorder = Recorder::new(file, Redaction::default());
    let builder = Machine::builder().mount("/worktree", source).tape(recorder.clone());
    let mut machine = builder.build().unwrap();
    let (out, err) = (Taken::default(), Taken::default());
    let stream = |taken: &Taken, fails| {
        OutputStream::Writer(Box::new(Breaking { taken: taken.clone(), write: 0, fails }))
    };
    let streams = Stdio { stdin, stdout: stream(&out, fails), stderr: stream(&err, &[]) };
    let status = Command::new(&program(name)).args(args).status(&mut machine, streams).unwrap();
    record_changes(&mut machine, &recorder).unwrap();
    recorder.finish().unwrap();
    let outcome = status.outcome().clone();
    Recorded { tape, outcome, stdout: out.bytes(), stderr: err.bytes() }
}

fn tree(scratch: &Path) -> Source {
    Source::Host(Arc::new(HostDir::open(&scratch.join("tree")).unwrap()))
}

fn flaky(scratch: &Path, faults: Vec<(&'static str, &'static str, Errno)>) -> Source {
    let folder = HostDir::open(&scratch.join("tree")).unwrap();
    Source::Layers(vec![Arc::new(Flaky { folder, faults: Mutex::new(faults) })])
}

fn expect_same(recorded: &Recorded) {
    let again = replayed(&recorded.tape);
    let output = again.outputs[0].as_ref().unwrap();
    assert_eq!(*output.status.outcome(), recorded.outcome);
    assert_eq!(String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&recorded.stdout));
    assert_eq!(String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&recorded.stderr));
}

/// Regression: the replay accepted every write, and diverged at the write that had failed.
#[test]
fn a_write_that_failed_fails_again() {
    let scratch = scratch();
    let stdin = || {
        let bytes = Cursor::new(b"the first, and more".to_vec());
        Input::Reader(Box::new(Failing { bytes, reads: 99 }))
    };
    let cat = ("cat", &["-", "-"][..]);
    for (fails, stdout, why) in [
        (&[(2, io::ErrorKind::BrokenPipe)][..], "the first,", ""),
        (&[(0, io::ErrorKind::StorageFull)], "", "No space left on device"),
    ] {
        let recorded = record(scratch.path(), tree(scratch.path()), cat, stdin(), fails);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(&recorded.stdout), stdout);
        assert!(text(&recorded.stderr).contains(why), "{}", text(&recorded.stderr));
        expect_same(&recorded);
    }
}

/// Regression: the end of the tape's reads was taken for the end of the stream.
#[test]
fn a_read_that_failed_fails_again() {
    let scratch = scratch();
    let bytes = Cursor::new(b"the first, and more".to_vec());
    let stdin = Input::Reader(Box::new(Failing { bytes, reads: 2 }));
    let cat = ("cat", &["-", "note.txt"][..]);
    let recorded = record(scratch.path(), tree(scratch.path()), cat, stdin, &[]);
    assert_eq!(recorded.stdout, b"the first,one two one\n");
    assert!(String::from_utf8_lossy(&recorded.stderr).contains("cat: -: "));
    expect_same(&recorded);
}

/// Regression: failed operations of a layer were not on the tape, and operations that succeeded only later were
/// recorded as if they always had.
#[test]
fn failures_of_a_layer_are_replayed() {
    let scratch = scratch();
    let tree = scratch.path().join("tree");
    let has_link = crate::support::symlink("note.txt", tree.join("link"));
    let cat = ("cat", &["note.txt"; 4][..]);
    let sums = ("sha256sum", &["note.txt"; 4][..]);
    let links = ("sha256sum", &["link"; 3][..]);
    for (run, faults, failures, kind) in [
        (
            cat,
            vec![("open", "note.txt", Errno::Io), ("open", "note.txt", Errno::Acces)],
            2,
            "file_error",
        ),
        (sums, vec![("stat", "note.txt", Errno::Io)], 1, "file_stat"),
        (links, vec![("read_link", "link", Errno::Io)], 1, "file_error"),
        (("walk", &["."][..]), vec![("list", "dir", Errno::Io)], 1, "dir_list"),
    ] {
        if run == links && !has_link {
            continue;
        }
        let source = flaky(scratch.path(), faults);
        let recorded = record(scratch.path(), source, run, Input::Empty, &[]);
        let complaints = String::from_utf8_lossy(&recorded.stderr).lines().count();
        assert_eq!(complaints, failures, "{kind}: {}", String::from_utf8_lossy(&recorded.stderr));
        let tape = Tape::load(&recorded.tape).unwrap();
        let is_failure = |kind: &Kind| serde_json::to_string(kind).unwrap().contains("\"io\"");
        let failed = tape.records.iter().find(|record| is_failure(&record.kind)).unwrap();
        assert_eq!(failed.kind.name(), kind);
        expect_same(&recorded);
    }
    forget_tree(scratch.path());
}

/// Overwrites a file of the host with `bytes` as soon as something is written to it.
struct Meddling {
    file: PathBuf,
    bytes: Vec<u8>,
    taken: Taken,
}

impl Write for Meddling {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        std::fs::write(&self.file, &self.bytes)?;
        self.taken.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Regression: the tape had the content at the time of opening, and the run read the later content.
#[test]
fn a_file_that_changes_during_a_recorded_run_is_read_as_it_was() {
    let scratch = scratch();
    let file = scratch.path().join("tree/dir/large");
    let before: Vec<u8> = (0..5 << 20).map(|i: u32| (i % 251) as u8).collect();
    std::fs::write(&file, &before).unwrap();
    let path = scratch.path().join("run.tape");
    let tape = FileTape::create(&path, &Header::new(0), 1 << 30).unwrap();
    let recorder = Recorder::new(tape, Redaction::default());
    let builder =
        Machine::builder().mount("/worktree", tree(scratch.path())).tape(recorder.clone());
    let mut machine = builder.build().unwrap();
    let taken = Taken::default();
    let meddling = Meddling { file, bytes: vec![b'!'; before.len()], taken: taken.clone() };
    let stdout = OutputStream::Writer(Box::new(meddling));
    let stdio = Stdio { stdout, ..Stdio::default() };
    let status =
        Command::new(&program("cat")).arg("dir/large").status(&mut machine, stdio).unwrap();
    record_changes(&mut machine, &recorder).unwrap();
    recorder.finish().unwrap();
    assert!(status.success());
    assert!(taken.bytes() == before, "the run has read what the file became");
    assert!(replayed(&path).outputs[0].as_ref().unwrap().stdout == before);
}
