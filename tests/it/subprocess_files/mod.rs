//! Files that recorded programs made, changed and removed, in a replay.
#![cfg(unix)]

mod hostile;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use belljar::Machine;
use belljar::kernel::vfs::{DiffKind, FileType, Follow, Listed};
use belljar::native::{
    FilesError, Mismatch, ProcessTape, SubprocessConfig, SubprocessError, SubprocessFiles,
    SubprocessRequest, Subprocesses, TapedChange, TapedState, Unmade,
};
use belljar::testbench::{Testbench, TestbenchBuilder, TestbenchError, TestbenchSession};

const MAIN_C: &str = "int main(void) { return 7; }\n";

/// A directory with a project, and a tape beside it.
struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new(files: &[(&str, &str)]) -> Self {
        let scene = Self { folder: tempfile::tempdir().unwrap() };
        scene.reset(files);
        scene
    }

    /// Makes the project anew.
    fn reset(&self, files: &[(&str, &str)]) {
        let _ = fs::remove_dir_all(self.root());
        fs::create_dir(self.root()).unwrap();
        for (path, text) in files {
            let path = self.root().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn tape(&self) -> PathBuf {
        self.folder.path().join("tools.jsonl")
    }

    fn builder(&self) -> TestbenchBuilder {
        Testbench::builder().paused_clock_at_ms(0).fs_overlay(self.root())
    }

    fn record(&self) -> TestbenchSession {
        self.builder().record_subprocesses(self.tape()).build().activate().unwrap()
    }

    fn replay(&self) -> TestbenchSession {
        self.builder().replay_subprocesses(self.tape()).build().activate().unwrap()
    }

    fn replay_on_disk(&self) -> TestbenchSession {
        let builder = self.builder().subprocess_files(SubprocessFiles::on_disk());
        builder.replay_subprocesses(self.tape()).build().activate().unwrap()
    }

    /// What the first program of the tape changed.
    fn changes(&self) -> Vec<TapedChange> {
        ProcessTape::load(&self.tape()).unwrap().entries.remove(0).changes
    }
}

fn run(session: &mut TestbenchSession, words: &[&str]) {
    let output = session.command(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn run_all(session: &mut TestbenchSession, commands: &[&[&str]]) {
    for words in commands {
        run(session, words);
    }
}

fn run_scripts(session: &mut TestbenchSession) {
    for script in SCRIPTS {
        sh(session, script);
    }
}

fn sh(session: &mut TestbenchSession, script: &str) {
    run(session, &["sh", "-c", script]);
}

fn mismatch(error: TestbenchError) -> Mismatch {
    match error {
        TestbenchError::Subprocess(SubprocessError::Mismatch(mismatch)) => *mismatch,
        other => panic!("{other:?}"),
    }
}

fn read(session: &mut TestbenchSession, path: &str) -> Option<Vec<u8>> {
    session.overlay().unwrap().read(&format!("/worktree/{path}")).ok()
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[test]
fn replayed_compiler_leaves_its_object_file_in_the_overlay() {
    let scene = Scene::new(&[("main.c", MAIN_C)]);
    let compile = ["cc", "-c", "main.c", "-o", "main.o"];
    let mut session = scene.record();
    assert_eq!(read(&mut session, "main.o"), None);
    run(&mut session, &compile);
    let object = read(&mut session, "main.o").expect("a later step sees it");
    assert!(session.finalize().unwrap().fs_diff.is_empty(), "the disk has it");
    assert_eq!(object, fs::read(scene.root().join("main.o")).unwrap());

    scene.reset(&[("main.c", MAIN_C)]);
    let mut session = scene.replay();
    assert_eq!(read(&mut session, "main.o"), None);
    run(&mut session, &compile);
    assert!(read(&mut session, "main.o") == Some(object));
    let finalized = session.finalize().unwrap();
    assert!(finalized.unmade_files.is_empty());
    let [change] = &finalized.fs_diff[..] else { panic!("{:?}", finalized.fs_diff) };
    assert_eq!(change.path.as_str(), "main.o");
    assert!(matches!(change.kind, DiffKind::Added { .. }));
    assert!(!is_there(&scene.root().join("main.o")), "the disk stays as it is");
}

#[test]
fn edited_source_is_a_mismatch_that_names_it() {
    let scene = Scene::new(&[("main.c", MAIN_C)]);
    let compile = ["cc", "-c", "main.c", "-o", "main.o"];
    let mut session = scene.record();
    run(&mut session, &compile);
    session.finalize().unwrap();

    scene.reset(&[("main.c", "int main(void) { return 8; }\n")]);
    let mut session = scene.replay();
    let error = session.command("cc").args(&compile[1..]).output().unwrap_err();
    let mismatch = mismatch(error);
    assert_eq!(mismatch.differences.len(), 1);
    assert_eq!(mismatch.differences[0].field, "file main.c");
    assert!(
        mismatch.to_string().contains("\n  file main.c: tape a file of 29 bytes, "),
        "{mismatch}"
    );
    assert!(read(&mut session, "main.o").is_none());
    assert!(session.finalize().is_err());
}

/// All paths beneath `root`: type, executable, and content or text of the link.
fn tree(root: &Path) -> BTreeMap<String, (char, bool, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let shown = if metadata.is_dir() {
                dirs.push(path.clone());
                ('d', false, Vec::new())
            } else if metadata.is_symlink() {
                ('l', false, fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes())
            } else {
                let executable = metadata.permissions().mode() & 0o100 != 0;
                ('f', executable, fs::read(&path).unwrap())
            };
            found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), shown);
        }
    }
    found
}

/// What the overlay shows, as [`tree`] does.
fn shown(session: &mut TestbenchSession) -> BTreeMap<String, (char, bool, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    let vfs = session.overlay().unwrap();
    let base = vfs.host_base();
    let mut dirs = vec![String::new()];
    while let Some(dir) = dirs.pop() {
        let id = vfs.open_dir(&format!("/worktree{dir}")).unwrap();
        let listing = vfs.list(id).unwrap();
        vfs.close(id);
        for Listed { name, .. } in listing.iter() {
            let path = format!("{dir}/{name}");
            let (at, full) = (folder.path().join(&path[1..]), format!("worktree{path}"));
            match vfs.stat(base, &full, Follow::No).unwrap().file_type {
                FileType::Directory => {
                    fs::create_dir(&at).unwrap();
                    dirs.push(path);
                }
                FileType::SymbolicLink => {
                    std::os::unix::fs::symlink(vfs.read_link(base, &full).unwrap(), &at).unwrap();
                }
                _ => {
                    fs::write(&at, vfs.read(&format!("/{full}")).unwrap()).unwrap();
                    let executable = vfs.is_executable_at(base, &full, Follow::No).unwrap();
                    let mode = if executable { 0o755 } else { 0o644 };
                    fs::set_permissions(&at, fs::Permissions::from_mode(mode)).unwrap();
                }
            }
        }
    }
    tree(folder.path())
}

const PROJECT: &[(&str, &str)] = &[
    ("main.c", MAIN_C),
    ("old/deep/a", "a"),
    ("old/deep/b", "b"),
    ("becomes-dir", "file"),
    ("becomes-file/x", "x"),
    ("run.sh", "exit\n"),
    ("moved", "content"),
    ("grows", "one\n"),
    ("stays", "stays"),
];

/// Commands that change files in every way, one after the other.
const SCRIPTS: &[&str] = &[
    "rm -r old; mkdir -p new/deep; printf '\\377\\000' > new/deep/binary; : > new/empty",
    "rm becomes-dir; mkdir becomes-dir; echo in > becomes-dir/in; rm -r becomes-file; echo > becomes-file",
    "chmod +x run.sh; mv moved new/moved; ln -s ../stays new/link; ln -s nowhere broken",
    "echo two >> grows",
    "echo three >> grows; rm new/empty; rm broken; ln -s stays broken; chmod -x run.sh",
    "dd if=/dev/zero of=large bs=65536 count=40 2> /dev/null; exit 0",
];

#[test]
fn every_kind_of_change_is_made_again_in_the_overlay_and_on_the_disk() {
    let scene = Scene::new(PROJECT);
    let mut session = scene.record();
    run_scripts(&mut session);
    session.finalize().unwrap();
    let recorded = tree(&scene.root());

    scene.reset(PROJECT);
    let before = tree(&scene.root());
    let mut session = scene.replay();
    run_scripts(&mut session);
    assert_eq!(shown(&mut session), recorded);
    session.finalize().unwrap();
    assert_eq!(tree(&scene.root()), before);

    let mut session = scene.replay_on_disk();
    for path in ["grows", "new/deep/binary", "run.sh"] {
        read(&mut session, path);
    }
    run_scripts(&mut session);
    assert_eq!(tree(&scene.root()), recorded);
    assert_eq!(shown(&mut session), recorded, "the overlay shows the disk");
    let finalized = session.finalize().unwrap();
    assert!(finalized.fs_diff.is_empty() && finalized.unmade_files.is_empty());
    assert_eq!(tree(&scene.root()), recorded);
}

/// What the test itself writes between calls is not the programs'.
#[test]
fn files_that_the_caller_writes_are_not_recorded() {
    let scene = Scene::new(&[]);
    let go = |mut session: TestbenchSession| {
        for text in ["one", "two"] {
            fs::write(scene.root().join("in"), text).unwrap();
            sh(&mut session, "cat in >> out; exit 0");
        }
        let out = read(&mut session, "out");
        session.finalize().unwrap();
        out
    };
    let recorded = go(scene.record());
    assert_eq!(recorded.as_deref(), Some(&b"onetwo"[..]));
    let entries = ProcessTape::load(&scene.tape()).unwrap().entries;
    let paths = |at: usize| entries[at].changes.iter().map(|it| &*it.path).collect::<Vec<_>>();
    assert_eq!((paths(0), paths(1)), (vec!["out"], vec!["out"]));
    scene.reset(&[]);
    assert_eq!(go(scene.replay()), recorded);
    scene.reset(&[]);
    assert_eq!(go(scene.replay_on_disk()), recorded);
}

#[test]
fn failed_and_killed_programs_leave_what_they_wrote() {
    let scene = Scene::new(&[]);
    let go = |session: &mut TestbenchSession| {
        for (script, left) in
            [("echo half > out; exit 3", "half\n"), ("echo killed > out; kill -9 $$", "killed\n")]
        {
            let output = session.command("sh").args(["-c", script]).output().unwrap();
            assert!(!output.status.success());
            assert_eq!(read(session, "out").unwrap(), left.as_bytes());
        }
    };
    let mut session = scene.record();
    go(&mut session);
    session.finalize().unwrap();
    scene.reset(&[]);
    let mut session = scene.replay();
    go(&mut session);
    session.finalize().unwrap();
}

/// In the replay both have ended when they are asked, in another order than they ended when recorded.
#[test]
fn programs_that_run_side_by_side_leave_their_files_in_the_recorded_order() {
    let scene = Scene::new(&[("go", "")]);
    let slow = "while [ -e go ]; do sleep 0.01; done; cat quick > slow; echo end >> quick";
    let quick = "echo quick > quick";
    let mut session = scene.record();
    let mut first = session.command("sh").args(["-c", slow]).spawn().unwrap();
    let mut second = session.command("sh").args(["-c", quick]).spawn().unwrap();
    assert!(second.wait(&mut session).unwrap().success());
    fs::remove_file(scene.root().join("go")).unwrap();
    assert!(first.wait(&mut session).unwrap().success());
    session.finalize().unwrap();
    let recorded = tree(&scene.root());
    let entries = ProcessTape::load(&scene.tape()).unwrap().entries;
    assert_eq!((entries[0].ended, entries[1].ended), (Some(2), Some(1)));

    scene.reset(&[("go", "")]);
    let mut session = scene.replay();
    let mut first = session.command("sh").args(["-c", slow]).spawn().unwrap();
    let mut second = session.command("sh").args(["-c", quick]).spawn().unwrap();
    assert!(first.wait(&mut session).unwrap().success());
    assert!(second.wait(&mut session).unwrap().success());
    let mut now = shown(&mut session);
    session.finalize().unwrap();
    // The test removed it, and not a program; it was seen to be gone while one ran.
    now.remove("go");
    assert_eq!(now, recorded);
}

#[test]
fn repository_is_made_in_the_overlay_and_left_out_on_the_disk() {
    let scene = Scene::new(&[("a.txt", "a\n")]);
    let commands: &[&[&str]] = &[
        &["git", "init", "-q", "."],
        &["git", "add", "."],
        &["git", "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "first"],
        &["sh", "-c", "git rev-parse HEAD > head.txt"],
    ];
    let mut session = scene.record();
    run_all(&mut session, commands);
    session.finalize().unwrap();
    let recorded = tree(&scene.root());

    scene.reset(&[("a.txt", "a\n")]);
    let mut session = scene.replay();
    run_all(&mut session, commands);
    assert_eq!(shown(&mut session), recorded);
    session.finalize().unwrap();

    let mut session = scene.replay_on_disk();
    run_all(&mut session, commands);
    let unmade = session.finalize().unwrap().unmade_files;
    assert!(unmade.iter().any(|file| file.path == ".git/HEAD" && file.why == Unmade::Sensitive));
    assert!(unmade.iter().all(|file| file.path.starts_with(".git")));
    assert!(!is_there(&scene.root().join(".git")));
    assert_eq!(fs::read(scene.root().join("head.txt")).unwrap(), recorded["head.txt"].2);
}

#[test]
fn file_with_a_secret_is_withheld_and_replay_says_so() {
    let scene = Scene::new(&[]);
    let script = "printf -- '-----BEGIN %s KEY-----\\nMHcCAQ==\\n' 'EC PRIVATE' > key.pem";
    let mut session = scene.record();
    sh(&mut session, script);
    session.finalize().unwrap();
    let [TapedChange { after: Some(TapedState::File { withheld_by, .. }), .. }] =
        &scene.changes()[..]
    else {
        panic!("{:?}", scene.changes())
    };
    assert_eq!(withheld_by.as_deref(), Some("private-key"));
    assert!(!is_there(&scene.folder.path().join("tools.jsonl.cas")), "it has no content");
    scene.reset(&[]);
    let mut session = scene.replay();
    let error = session.command("sh").args(["-c", script]).output().unwrap_err();
    let message = format!("{error:?}");
    assert!(message.contains("cannot make key.pem again: it holds a secret"), "{message}");
    assert!(message.contains("SubprocessFiles::ignore"), "{message}");
}

fn files_error(error: TestbenchError) -> FilesError {
    match error {
        TestbenchError::Subprocess(SubprocessError::Files { source, .. }) => *source,
        other => panic!("{other:?}"),
    }
}

#[test]
fn limits_are_named_and_nothing_is_left() {
    let scene = Scene::new(&[("a", ""), ("b", "")]);
    let with = |files: SubprocessFiles| {
        let builder = scene.builder().subprocess_files(files);
        let mut session = builder.record_subprocesses(scene.tape()).build().activate().unwrap();
        let error = session.command("sh").args(["-c", "echo 1234 > c; echo 5678 > d"]).output();
        assert!(session.finalize().is_err(), "the caller may have ignored the error");
        files_error(error.unwrap_err())
    };
    let files = SubprocessFiles::in_overlay;
    assert!(matches!(with(files().entries_max(1)), FilesError::Scan(_)));
    let error = with(files().file_bytes_max(4));
    assert!(
        error.to_string().starts_with("c has 5 bytes, more than the limit file_bytes_max of 4")
    );
    fs::remove_file(scene.root().join("c")).unwrap();
    fs::remove_file(scene.root().join("d")).unwrap();
    assert!(matches!(with(files().bytes_max(9)), FilesError::Full { limit_bytes: 9, .. }));
    let left: Vec<_> = fs::read_dir(scene.folder.path()).unwrap().map(|it| it.unwrap()).collect();
    assert_eq!(left.len(), 1, "no tape and no contents: {left:?}");
}

#[test]
fn ignored_files_and_files_outside_the_root_are_not_on_the_tape() {
    let scene = Scene::new(&[]);
    let files = SubprocessFiles::in_overlay().ignore("cache").ignore("build/tmp");
    let builder = scene.builder().subprocess_files(files);
    let tape = scene.root().join("tapes.jsonl");
    let mut session = builder.clone().record_subprocesses(&tape).build().activate().unwrap();
    let script = "mkdir -p a/cache build/tmp cache; echo > a/cache/x; echo > build/tmp/y; \
                  echo > cache/z; echo > ../outside; echo > build/out";
    sh(&mut session, script);
    sh(&mut session, "cat build/out");
    session.finalize().unwrap();
    let entries = ProcessTape::load(&tape).unwrap().entries;
    let paths: Vec<_> = entries[0].changes.iter().map(|it| &*it.path).collect();
    assert_eq!(paths, ["a", "build", "build/out"]);
    assert!(entries[1].changes.is_empty(), "the store of the tape is beneath the root");
}

#[test]
fn session_that_is_dropped_leaves_no_contents_and_a_new_recording_none_of_the_old() {
    let scene = Scene::new(&[]);
    let cas = scene.folder.path().join("tools.jsonl.cas");
    let mut session = scene.record();
    sh(&mut session, "echo dropped > a");
    assert!(is_there(&cas));
    drop(session);
    assert!(!is_there(&cas) && !is_there(&scene.tape()));
    let contents = || fs::read_dir(&cas).map_or(0, Iterator::count);
    for (script, count) in [("echo 1 > a; echo 2 > b", 2), ("echo 3 > a", 1), ("true", 0)] {
        let mut session = scene.record();
        sh(&mut session, script);
        session.finalize().unwrap();
        assert_eq!(contents(), count, "{script}");
    }
    assert!(!is_there(&cas));
}

#[test]
fn without_an_overlay_files_are_made_only_when_asked() {
    let scene = Scene::new(&[]);
    let request = SubprocessRequest::new("sh").args(["-c", "echo made > out"]).clone();
    let open = |config, files| {
        let open = Subprocesses::open(config, |_, _| Ok(None)).unwrap();
        open.root(scene.root()).files(files)
    };
    let mut machine = Machine::builder().build().unwrap();
    let record = SubprocessConfig::Record { tape: scene.tape() };
    let mut session = open(record, SubprocessFiles::on_disk());
    session.output(&request, &mut machine).unwrap();
    session.finish().unwrap();
    let out = scene.root().join("out");
    for (files, is_made) in
        [(SubprocessFiles::nowhere(), false), (SubprocessFiles::on_disk(), true)]
    {
        scene.reset(&[]);
        let mut session = open(SubprocessConfig::Replay { tape: scene.tape() }, files);
        session.output(&request, &mut machine).unwrap();
        assert_eq!(is_there(&out), is_made);
        let unmade = session.unmade_files();
        assert_eq!(unmade.iter().any(|it| it.path == "out" && it.why == Unmade::Nowhere), !is_made);
        session.finish().unwrap();
    }
}

/// The arguments name `main.c` alone.
#[cfg(target_os = "linux")]
#[test]
fn edited_header_is_a_mismatch_and_a_file_that_was_not_read_is_none() {
    let files = |header, notes| {
        [
            ("main.c", "#include \"inc/seven.h\"\nint main(void) { return SEVEN; }\n"),
            ("inc/seven.h", header),
            ("inc/other.h", notes),
            ("notes.txt", notes),
        ]
    };
    let scene = Scene::new(&files("#define SEVEN 7\n", "one"));
    let compile = ["-c", "main.c"];
    let mut session = scene.record();
    session.command("cc").args(compile).output().unwrap();
    session.finalize().unwrap();
    let entries = ProcessTape::load(&scene.tape()).unwrap().entries;
    let inputs: Vec<_> = entries[0].inputs.iter().map(|input| &*input.path).collect();
    assert_eq!(inputs, ["inc/seven.h", "main.c"]);

    scene.reset(&files("#define SEVEN 7\n", "two"));
    let mut session = scene.replay();
    session.command("cc").args(compile).output().unwrap();
    session.finalize().unwrap();
    scene.reset(&files("#define SEVEN 8\n", "one"));
    let mut session = scene.replay();
    let mismatch = mismatch(session.command("cc").args(compile).output().unwrap_err());
    assert_eq!(mismatch.differences.len(), 1);
    assert_eq!(mismatch.differences[0].field, "file inc/seven.h");
}
