//! Belljar is ended by a signal, at any system call, while it writes to the disk.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::plans::Chance;
use crate::support::{belljar, cache_dir, home_dir, skipped, stderr, stdout, tree};

/// How often belljar is ended by each signal, unless `BELLJAR_TEST_APPLY_KILLS` says otherwise.
const KILLS: usize = 6;

/// Files that are written.
const FILES: usize = 200;

/// The system calls at which it is ended.
const CALLS: &str = "openat,openat2,write,fsync,syncfs,linkat,renameat,renameat2,unlinkat,mkdirat,close,\
                     statx,fstat,newfstatat,flock,lseek,ftruncate,fchmod,fchmodat,utimensat";

type Files = BTreeMap<String, Vec<u8>>;

/// A folder, what a script changes in it, and a home of its own.
struct Bench {
    folder: tempfile::TempDir,
    script: String,
    before: Files,
    after: Files,
    /// Whether a session has made the changes, which `sandbox apply` writes.
    is_session: bool,
    /// Names of system calls from the first that writes on, with how many of that name came before.
    calls: Vec<(String, usize)>,
}

impl Bench {
    fn tree(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    fn new(is_session: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = format!(
            "mkdir made; for i in $(seq {FILES}); do echo new $i > d/f$i; done; \
             for i in $(seq 20); do echo made > made/g$i; done; mv moved elsewhere; rm gone"
        );
        let (before, after) = (Files::new(), Files::new());
        let mut bench = Self { folder, script, before, after, is_session, calls: Vec::new() };
        bench.reset();
        bench.before = tree(&bench.tree());
        let log = bench.folder.path().join("calls");
        let output = bench
            .strace(&["-e", &format!("trace={CALLS}"), "-o", log.to_str().unwrap()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        bench.after = tree(&bench.tree());
        assert_ne!(bench.before, bench.after);
        bench.calls = calls(&std::fs::read_to_string(log).unwrap());
        assert!(bench.calls.len() > 10 * FILES, "{}", bench.calls.len());
        bench
    }

    fn reset(&self) {
        let tree = self.tree();
        let _ = std::fs::remove_dir_all(&tree);
        std::fs::create_dir_all(tree.join("d")).unwrap();
        for number in 1..=FILES {
            std::fs::write(tree.join(format!("d/f{number}")), format!("old {number}\n")).unwrap();
        }
        std::fs::create_dir(tree.join("moved")).unwrap();
        for name in ["gone", "moved/a", "moved/b"] {
            std::fs::write(tree.join(name), "old\n").unwrap();
        }
        if self.is_session {
            let _ = self.belljar(&["sandbox", "rm", "box"]);
            for args in [
                &["sandbox", "create", "--id", "box"][..],
                &["sandbox", "exec", "box", "sh", "-c", &self.script],
            ] {
                let output = self.belljar(args);
                assert!(output.status.success(), "{args:?}: {}", stderr(&output));
            }
        }
    }

    fn belljar(&self, args: &[&str]) -> std::process::Output {
        belljar(&self.tree()).env("BELLJAR_HOME", self.home()).args(args).output().unwrap()
    }

    /// Belljar, applying the script, under `strace` with these options.
    fn strace(&self, options: &[&str]) -> Command {
        let mut command = traced();
        command.args(["-f", "-qq"]).args(options).arg(env!("CARGO_BIN_EXE_belljar"));
        if self.is_session {
            command.args(["sandbox", "apply", "box"]);
        } else {
            command.args(["sh", "--apply", "-c", &self.script]);
        }
        command.current_dir(self.tree());
        command.env("BELLJAR_CACHE_DIR", cache_dir()).env("BELLJAR_HOME", self.home());
        command.stdin(Stdio::null());
        command
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn journals(&self) -> usize {
        let entries = std::fs::read_dir(self.home().join("journals")).unwrap();
        entries.filter(|entry| entry.as_ref().unwrap().file_name() != "lock").count()
    }

    /// Whether the folder is what it was to be; `None` if it is neither that nor what it was.
    fn is_new(&self) -> Option<bool> {
        let now = tree(&self.tree());
        (now == self.before || now == self.after).then_some(now == self.after)
    }
}

/// The system calls of the first thread, from the one on that makes a journal.
fn calls(log: &str) -> Vec<(String, usize)> {
    let main = log.split_whitespace().next().unwrap();
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found = Vec::new();
    let mut writes = false;
    for line in log.lines() {
        let Some((pid, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        let Some((name, _)) = rest.split_once('(') else { continue };
        if pid != main || name.contains(' ') {
            continue;
        }
        let number = count.entry(name).or_default();
        *number += 1;
        writes |= rest.contains(".draft\"");
        if writes {
            found.push((name.to_owned(), *number));
        }
    }
    found
}

/// `strace`, of programs that ignore no signal, whatever whoever started the tests had ignored.
pub(crate) fn traced() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,TERM", "strace"]);
    command
}

/// Whether programs can be traced here; says so if not.
pub(crate) fn can_trace(test: &str) -> bool {
    let works = traced().args(["-f", "-qq", "-o", "/dev/null", "true"]).output();
    let why = match works {
        Ok(output) if output.status.success() => return true,
        Ok(output) => stderr(&output),
        Err(error) => format!("strace does not run: {error}"),
    };
    let required = std::env::var_os("BELLJAR_REQUIRE_STRACE").is_some();
    assert!(!required, "{test} needs strace, and the right to trace programs: {why}");
    skipped(test, &format!("install strace, and allow ptrace: {}", why.trim()));
    false
}

/// A third of the files was new, the rest old, and thousands of temporaries lay about.
#[test]
fn apply_leaves_the_old_tree_or_the_new_one_whatever_ends_it() {
    if can_trace("apply_leaves_the_old_tree_or_the_new_one_whatever_ends_it") {
        end_often(&Bench::new(false));
    }
}

/// As above. Whatever the session knows of it, it goes on from there.
#[test]
fn apply_of_a_session_leaves_the_old_tree_or_the_new_one_whatever_ends_it() {
    if can_trace("apply_of_a_session_leaves_the_old_tree_or_the_new_one_whatever_ends_it") {
        end_often(&Bench::new(true));
    }
}

fn end_often(bench: &Bench) {
    let kills: usize =
        std::env::var("BELLJAR_TEST_APPLY_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let mut chance = Chance::new(11);
    let mut told = String::new();
    for (name, signal) in [("INT", 2), ("TERM", 15), ("HUP", 1), ("KILL", 9)] {
        let (mut old, mut new, mut recovered) = (0, 0, 0);
        let mut attempts = 0;
        while old + new < kills {
            attempts += 1;
            assert!(attempts < 20 + 10 * kills, "SIG{name}: belljar is not ended");
            if bench.is_new() != Some(false) {
                bench.reset();
            }
            let (call, number) = &bench.calls[chance.below(bench.calls.len())];
            let inject = format!("inject={call}:signal=SIG{name}:when={number}");
            let trace = format!("trace={call}");
            let options = ["-o", "/dev/null", "-e", &trace, "-e", &inject];
            let output = bench.strace(&options).output().unwrap();
            let when = format!("SIG{name} at {call} number {number}: {}", stderr(&output));
            if output.status.success() {
                // One call less than last time: nothing has ended it.
                continue;
            }
            assert_eq!(output.status.signal(), Some(signal), "{when}");
            if signal == 9 {
                recovered += usize::from(bench.journals() > 0);
                let args: &[&str] =
                    if chance.below(2) == 0 { &["recover"] } else { &["run", "cat", "d/f1"] };
                let mut next = belljar(&bench.tree());
                let output = next.env("BELLJAR_HOME", bench.home()).args(args).output().unwrap();
                assert!(output.status.success(), "{when}: {}", stderr(&output));
            }
            match bench.is_new() {
                Some(true) => new += 1,
                Some(false) => old += 1,
                None => panic!("{when}: neither the old tree nor the new one"),
            }
            if bench.is_session && chance.below(2) == 0 {
                let output = bench.belljar(&["sandbox", "apply", "box"]);
                assert!(output.status.success(), "{when}: then {}", stderr(&output));
                assert_eq!(bench.is_new(), Some(true), "{when}");
                let output = bench.belljar(&["sandbox", "diff", "box"]);
                assert_eq!((stdout(&output), stderr(&output)), Default::default(), "{when}");
            }
            assert_eq!(bench.journals(), 0, "{when}");
        }
        let line = format!("SIG{name}: {old} old, {new} new, 0 mixed, {recovered} recovered; ");
        told.push_str(&line);
    }
    let _ = std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("apply was ended: {told}of {} system calls\n", bench.calls.len()).as_bytes(),
    );
}

/// `ulimit -f` ended belljar by a signal, in the middle.
#[test]
fn apply_beyond_the_limit_of_a_file_leaves_the_old_tree() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..30 {
        std::fs::write(folder.path().join(format!("f{number}")), "old").unwrap();
    }
    let before = tree(folder.path());
    let script = "for i in $(seq 0 29); do echo new > f$i; done; seq 100000 > f20";
    let output = Command::new("bash")
        .args([
            "-c",
            "ulimit -f 64; exec \"$0\" sh --apply -c \"$1\"",
            env!("CARGO_BIN_EXE_belljar"),
            script,
        ])
        .current_dir(folder.path())
        .env("BELLJAR_CACHE_DIR", cache_dir())
        .env("BELLJAR_HOME", home_dir())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125), "{:?} {}", output.status, stderr(&output));
    assert!(stderr(&output).contains("File too large"), "{}", stderr(&output));
    assert_eq!(tree(folder.path()), before);
}

fn killed_halfway(folder: &Path, home: &Path) {
    for number in 0..40 {
        std::fs::write(folder.join(format!("f{number}")), "old").unwrap();
    }
    let output = traced()
        .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat", "-e"])
        .arg("inject=renameat:signal=SIGKILL:when=20")
        .arg(env!("CARGO_BIN_EXE_belljar"))
        .args(["sh", "--apply", "-c", "for i in $(seq 0 39); do echo new > f$i; done"])
        .current_dir(folder)
        .env("BELLJAR_CACHE_DIR", cache_dir())
        .env("BELLJAR_HOME", home)
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), Some(9), "{}", stderr(&output));
}

#[test]
fn recover_says_what_it_did_to_people_and_machines() {
    if !can_trace("recover_says_what_it_did_to_people_and_machines") {
        return;
    }
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let recover = |args: &[&str]| {
        let mut command = belljar(folder.path());
        command.env("BELLJAR_HOME", home.path()).arg("recover").args(args).output().unwrap()
    };
    let nothing = recover(&[]);
    assert!(nothing.status.success() && stdout(&nothing) == "nothing to recover in .\n");
    killed_halfway(folder.path(), home.path());
    let output = recover(&[]);
    assert!(output.status.success());
    let said = stderr(&output);
    assert!(said.contains("taken back: the folder is as it was before (18 files)"), "{said}");
    assert_eq!(tree(folder.path()).len(), 40);
    assert!(tree(folder.path()).values().all(|content| content == b"old"));
    killed_halfway(folder.path(), home.path());
    let report: serde_json::Value = serde_json::from_slice(&recover(&["--json"]).stdout).unwrap();
    assert_eq!(report["recovered"][0]["outcome"], "taken_back", "{report}");
    assert_eq!(report["recovered"][0]["files"], 18, "{report}");
    assert_eq!(stdout(&recover(&["--json", "--all"])), "{\"recovered\":[]}\n");
    assert_eq!(recover(&["no/such/folder"]).status.code(), Some(2));
}

/// A program was shown temporaries, and a third of the changes.
#[test]
fn every_command_that_opens_a_folder_recovers_it_first() {
    if !can_trace("every_command_that_opens_a_folder_recovers_it_first") {
        return;
    }
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let tape = home.path().join("t.tape");
    let tape = tape.to_str().unwrap();
    let mut session = vec!["sandbox", "create", "--id", "box"];
    let commands: &[&[&str]] = &[
        &["run", "ls", "-a"],
        &["sh", "-c", "ls -a"],
        &["record", "--tape", tape, "--", "ls", "-a"],
        &["run", "--no-worktree", "--dir", ".::/w", "ls", "/w"],
        &["sandbox", "exec", "box", "sh", "-c", "echo *"],
        &["sandbox", "ls", "box"],
    ];
    for args in commands {
        killed_halfway(folder.path(), home.path());
        let run = |args: &[&str]| {
            let mut command = belljar(folder.path());
            command.env("BELLJAR_HOME", home.path()).args(args).output().unwrap()
        };
        if !session.is_empty() {
            // Once: it sees to the folder as well.
            let output = run(&session);
            assert!(stderr(&output).contains("taken back"), "{}", stderr(&output));
            session.clear();
            killed_halfway(folder.path(), home.path());
        }
        let output = run(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("taken back"), "{args:?}: {}", stderr(&output));
        assert!(stdout(&output).contains("f39"), "{args:?}: {}", stdout(&output));
        assert!(!stdout(&output).contains(".belljar-"), "{args:?}: {}", stdout(&output));
        assert!(tree(folder.path()).values().all(|content| content == b"old"), "{args:?}");
    }
}

/// A report that could not be written was once said with the code of a conflict, in which nothing is
/// written.
#[test]
fn a_report_that_is_lost_after_apply_has_a_code_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    let text = "a line\n".repeat(200);
    let file = folder.path().join("f");
    let run = |limit: &str, args: &str| {
        std::fs::write(&file, &text).unwrap();
        Command::new("bash")
            .args(["-c", &format!("ulimit -f {limit}; exec \"$0\" {args}")])
            .arg(env!("CARGO_BIN_EXE_belljar"))
            .current_dir(folder.path())
            .env("BELLJAR_CACHE_DIR", cache_dir())
            .env("BELLJAR_HOME", home.path())
            .output()
            .unwrap()
    };
    let replace = "replace line word f";
    // Compiled here, and kept: code that is fresh takes a file in memory, which the limit counts as well.
    for args in ["run --quiet replace line word f", "sh --quiet -c 'cat f > g'"] {
        let output = run("unlimited", args);
        assert!(output.status.success(), "{args}: {}", stderr(&output));
    }
    for (limit, args, option) in [
        ("2", format!("run --quiet --apply --diff=../d.diff {replace}"), "--diff"),
        (
            "2",
            "sh --quiet --apply --trace=../t.log -c 'cat f f f f f f f f; echo a word > f'"
                .to_owned(),
            "--trace",
        ),
        ("unlimited", format!("run --quiet --apply --json {replace} > /dev/full"), "--json"),
    ] {
        let args = args.replace("../", &format!("{}/", home.path().display()));
        let output = run(limit, &args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(123), "{args}: {said}");
        assert!(said.contains(option) && said.contains("the changes are on the disk"), "{said}");
        assert!(std::fs::read_to_string(&file).unwrap().starts_with("a word"), "{args}");
    }
    // Where nothing was written it is another one.
    let output = run("unlimited", &format!("run --quiet --json {replace} > /dev/full"));
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    let mut session = belljar(folder.path());
    session.env("BELLJAR_HOME", home.path()).args(["sandbox", "create", "--id", "box"]);
    assert!(session.output().unwrap().status.success());
    let output = run("unlimited", "sandbox refresh --json box");
    assert!(output.status.success(), "{}", stderr(&output));
    let mut session = belljar(folder.path());
    session.env("BELLJAR_HOME", home.path()).args(["sandbox", "exec", "box", "cat", "f"]);
    assert!(session.output().unwrap().status.success());
    let output = run("unlimited", "sandbox cp --json box:f copy > /dev/full");
    assert_eq!(output.status.code(), Some(123), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(folder.path().join("copy")).unwrap(), text);
}
