//! A belljar that writes is ended at any system call. Its target then has the old or the new state as a whole, at once
//! or after the next belljar has recovered it.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::{can_trace, traced};
use crate::sandbox::home;
use crate::support::plans::Chance;
use crate::support::{belljar, cache_dir, stderr, stdout, tree};

/// How often belljar is ended by each signal, unless `BELLJAR_TEST_APPLY_KILLS` says otherwise.
const KILLS: usize = 6;

/// The system calls at which belljar is ended. Some of them do not exist on every processor.
const CALLS: &str = "openat,openat2,write,fsync,syncfs,linkat,renameat,renameat2,unlinkat,mkdirat,close,\
                     statx,fstat,newfstatat,flock,lseek,ftruncate,fchmod,fchmodat,utimensat,\
                     ?rename,?unlink,?mkdir,?link,getdents64";

/// System calls at which a recovery is ended.
const RECOVERY_CALLS: [&str; 5] = ["openat2", "renameat2", "unlinkat", "fsync", "statx"];

type Files = BTreeMap<String, Vec<u8>>;

/// The command that writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `sh --apply`.
    Script,
    /// `sandbox apply`, with the changes of a session.
    Session,
    /// `apply`, with the changes of a recorded run.
    Tape,
    /// `native --apply`, with the changes of a recorded native program.
    Native,
    /// `sandbox cp`, from a folder of a session over one of the disk.
    CopyOut,
    /// `sandbox cp`, from a folder of the disk over one of a session.
    CopyIn,
}

impl Way {
    /// Number of existing files that it replaces. A few files are synced one by one, many with their whole file system.
    fn files(self) -> usize {
        if matches!(self, Self::Tape | Self::Native | Self::CopyOut) { 40 } else { 100 }
    }

    /// Part of the arguments of the first system call at which it may be ended.
    fn beginning(self) -> &'static str {
        if self == Self::CopyIn { "/box.lock\"" } else { ".draft\"" }
    }
}

/// The target, the command that writes, and a home of its own.
struct Bench {
    folder: tempfile::TempDir,
    way: Way,
    script: String,
    before: Files,
    after: Files,
    /// The home before and after the write, without garbage.
    homes: [Files; 2],
    /// System calls from the first that writes on: the name, and the number of the call among those of that name.
    calls: Vec<(String, usize)>,
}

impl Bench {
    fn new(way: Way) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = way.files();
        let script = format!(
            "mkdir made; for i in $(seq {files}); do echo new $i > d/f$i; done; \
             for i in $(seq 20); do echo made > made/g$i; done; mv moved elsewhere; rm gone"
        );
        let (before, after) = (Files::new(), Files::new());
        let homes = [Files::new(), Files::new()];
        let calls = Vec::new();
        let mut bench = Self { folder, way, script, before, after, homes, calls };
        bench.prepare();
        bench.reset();
        bench.before = bench.now();
        bench.homes[0] = bench.swept_home();
        let log = bench.folder.path().join("calls");
        let output = bench
            .strace(&["-e", &format!("trace={CALLS}"), "-o", log.to_str().unwrap()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        bench.after = bench.now();
        assert_ne!(bench.before, bench.after);
        bench.homes[1] = bench.swept_home();
        bench.calls = calls_from(&std::fs::read_to_string(log).unwrap(), way.beginning());
        assert!(bench.calls.len() > 5 * files, "{}", bench.calls.len());
        bench
    }

    fn tree(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Makes the state from which all attempts begin.
    fn prepare(&self) {
        let files = self.way.files();
        match self.way {
            Way::Script | Way::Session => {}
            Way::Tape => {
                self.reset();
                self.succeed(&["record", "-q", "--tape", "../run.tape", "sh", "-c", &self.script]);
            }
            Way::Native => {
                self.reset();
                self.succeed(&["native", "-q", "--tape", "../run.jsonl", "sh", "-c", &self.script]);
            }
            Way::CopyOut => self.make_session(
                "box",
                &format!(
                    "mkdir -p /tmp/d/made; cd /tmp/d; for i in $(seq {files}); do echo new $i > f$i; done; \
                     for i in $(seq 20); do echo made > made/g$i; done; ln -s f1 link"
                ),
            ),
            Way::CopyIn => self.make_session(
                "old",
                &format!(
                    "mkdir /tmp/d; cd /tmp/d; for i in $(seq 0 {files}); do echo before $i > f$i; done; \
                     echo before > link"
                ),
            ),
        }
    }

    fn make_session(&self, id: &str, script: &str) {
        std::fs::create_dir_all(self.tree()).unwrap();
        self.succeed(&["sandbox", "create", "--no-worktree", "--id", id]);
        self.succeed(&["sandbox", "exec", id, "sh", "-c", script]);
    }

    /// Restores the target's state before the write.
    fn reset(&self) {
        let tree = self.tree();
        let _ = std::fs::remove_dir_all(&tree);
        std::fs::create_dir_all(tree.join("d")).unwrap();
        for number in 1..=self.way.files() {
            std::fs::write(tree.join(format!("d/f{number}")), format!("old {number}\n")).unwrap();
        }
        std::fs::create_dir(tree.join("moved")).unwrap();
        for name in ["gone", "moved/a", "moved/b", "d/link"] {
            std::fs::write(tree.join(name), "old\n").unwrap();
        }
        match self.way {
            Way::Script | Way::Tape | Way::Native | Way::CopyOut => {}
            Way::Session => {
                let _ = self.belljar(&["sandbox", "rm", "box"]);
                self.succeed(&["sandbox", "create", "--id", "box"]);
                self.succeed(&["sandbox", "exec", "box", "sh", "-c", &self.script]);
            }
            Way::CopyIn => {
                let _ = self.belljar(&["sandbox", "rm", "box"]);
                self.succeed(&["sandbox", "fork", "old", "--id", "box"]);
            }
        }
    }

    /// The arguments of the command that writes.
    fn args(&self) -> Vec<&str> {
        match self.way {
            Way::Script => vec!["sh", "--apply", "-c", &self.script],
            Way::Session => vec!["sandbox", "apply", "box"],
            Way::Tape => vec!["apply", "../run.tape"],
            Way::Native => {
                vec![
                    "native",
                    "--tape",
                    "../run.jsonl",
                    "--replay",
                    "--apply",
                    "sh",
                    "-c",
                    &self.script,
                ]
            }
            Way::CopyOut => vec!["sandbox", "cp", "box:/tmp/d", "."],
            Way::CopyIn => vec!["sandbox", "cp", "d", "box:/tmp"],
        }
    }

    fn belljar(&self, args: &[&str]) -> Output {
        belljar(&self.tree()).env("BELLJAR_HOME", self.home()).args(args).output().unwrap()
    }

    fn succeed(&self, args: &[&str]) {
        let output = self.belljar(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    }

    /// The writing belljar, under `strace` with these options.
    fn strace(&self, options: &[&str]) -> Command {
        self.strace_of(options, &self.args())
    }

    fn strace_of(&self, options: &[&str], args: &[&str]) -> Command {
        let mut command = traced();
        command.args(options).arg(env!("CARGO_BIN_EXE_belljar")).args(args);
        command.current_dir(self.tree());
        command.env("BELLJAR_CACHE_DIR", cache_dir()).env("BELLJAR_HOME", self.home());
        command.stdin(Stdio::null());
        command
    }

    /// The present state of the target.
    fn now(&self) -> Files {
        if self.way != Way::CopyIn {
            return tree(&self.tree());
        }
        let mut session = home::open(&self.home()).resume("box").unwrap();
        let shown = tempfile::tempdir().unwrap();
        session.copy_out("/tmp/d", shown.path()).unwrap();
        tree(shown.path())
    }

    /// Whether the target has its new state; `None` if it has neither the new state nor the old one.
    fn is_new(&self) -> Option<bool> {
        let now = self.now();
        (now == self.before || now == self.after).then_some(now == self.after)
    }

    /// A system call at which belljar is to be ended.
    fn draw(&self, chance: &mut Chance) -> &(String, usize) {
        let mut at = chance.below(self.calls.len());
        // A session changes only in the last few calls.
        if self.way == Way::CopyIn && chance.below(2) == 0 {
            at = self.calls.len() - 1 - chance.below(30);
        }
        &self.calls[at]
    }

    fn journals(&self) -> usize {
        let entries = std::fs::read_dir(self.home().join("journals")).into_iter().flatten();
        entries.filter(|entry| entry.as_ref().unwrap().file_name() != "lock").count()
    }

    /// The home after `sandbox gc` has removed garbage, without journals.
    fn swept_home(&self) -> Files {
        self.succeed(&["sandbox", "gc"]);
        let mut home = tree(&self.home());
        home.retain(|path, _| !path.starts_with("journals/"));
        home
    }

    /// Recovers from a kill; sometimes a first recovery is itself killed.
    fn recover(&self, chance: &mut Chance, when: &str) {
        if chance.below(3) == 0 {
            let call = RECOVERY_CALLS[chance.below(RECOVERY_CALLS.len())];
            let inject =
                format!("inject={call}:signal=SIGKILL:when={}", 1 + chance.below(self.way.files()));
            let trace = format!("trace={call}");
            let options = ["-o", "/dev/null", "-e", &trace, "-e", &inject];
            self.strace_of(&options, &["recover"]).output().unwrap();
        }
        let args: &[&str] =
            if chance.below(2) == 0 { &["recover"] } else { &["run", "cat", "d/f1"] };
        let output = self.belljar(args);
        assert!(output.status.success(), "{when}: {}", stderr(&output));
    }

    /// Writes once more: nothing that the ended belljar left prevents that.
    fn write_again(&self, is_new: bool, when: &str) {
        let output = self.belljar(&self.args());
        // A script or a tape may fail in a folder that already has its changes.
        let is_done = is_new && matches!(self.way, Way::Script | Way::Tape | Way::Native);
        assert!(output.status.success() || is_done, "{when}: then {}", stderr(&output));
        assert_eq!(self.is_new(), Some(true), "{when}: and then once more");
        if self.way == Way::Session {
            let output = self.belljar(&["sandbox", "diff", "box"]);
            assert_eq!((stdout(&output), stderr(&output)), Default::default(), "{when}");
        }
    }
}

/// The system calls of the first thread, from the first that has `beginning` among its arguments.
pub(crate) fn calls_from(log: &str, beginning: &str) -> Vec<(String, usize)> {
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
        writes |= rest.contains(beginning);
        if writes {
            found.push((name.to_owned(), *number));
        }
    }
    found
}

/// Ends the write by each signal, as often as the environment says.
fn end_often(test: &str, way: Way) {
    if !can_trace(test) {
        return;
    }
    let bench = Bench::new(way);
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
            let (call, number) = bench.draw(&mut chance);
            let inject = format!("inject={call}:signal=SIG{name}:when={number}");
            let trace = format!("trace={call}");
            let options = ["-o", "/dev/null", "-e", &trace, "-e", &inject];
            let output = bench.strace(&options).output().unwrap();
            let when = format!("SIG{name} at {call} number {number}: {}", stderr(&output));
            if output.status.success() {
                // This run made fewer calls than the first one, so no signal ended it.
                continue;
            }
            assert_eq!(output.status.signal(), Some(signal), "{when}");
            if signal == 9 {
                recovered += usize::from(bench.journals() > 0);
                bench.recover(&mut chance, &when);
            }
            let Some(is_new) = bench.is_new() else {
                panic!("{when}: neither what it was nor what it was to be");
            };
            (old, new) = (old + usize::from(!is_new), new + usize::from(is_new));
            if matches!(way, Way::CopyOut | Way::CopyIn) {
                // The home changes only if files are copied into the session.
                let home = &bench.homes[usize::from(is_new && way == Way::CopyIn)];
                assert_eq!(bench.swept_home(), *home, "{when}: the home");
            }
            if chance.below(2) == 0 {
                bench.write_again(is_new, &when);
            }
            assert_eq!(bench.journals(), 0, "{when}");
        }
        let line = format!("SIG{name}: {old} old, {new} new, 0 mixed, {recovered} recovered; ");
        told.push_str(&line);
    }
    let _ = std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("{test}: {told}of {} system calls\n", bench.calls.len()).as_bytes(),
    );
}

/// Regression: a third of the files was new, the rest old, and thousands of temporary files were left.
#[test]
fn killed_apply_leaves_the_old_tree_or_the_new_one() {
    end_often("killed_apply_leaves_the_old_tree_or_the_new_one", Way::Script);
}

/// The session can be used afterwards, whether or not it recorded that its changes were applied.
#[test]
fn killed_session_apply_leaves_the_old_tree_or_the_new_one() {
    end_often("killed_session_apply_leaves_the_old_tree_or_the_new_one", Way::Session);
}

#[test]
fn killed_tape_apply_leaves_the_old_tree_or_the_new_one() {
    end_often("killed_tape_apply_leaves_the_old_tree_or_the_new_one", Way::Tape);
}

/// Regression: half of the changes were on the disk, and a second `native --apply` refused the rest.
#[test]
fn killed_native_apply_leaves_the_old_tree_or_the_new_one() {
    end_often("killed_native_apply_leaves_the_old_tree_or_the_new_one", Way::Native);
}

#[test]
fn killed_copy_out_leaves_the_old_tree_or_the_new_one() {
    end_often("killed_copy_out_leaves_the_old_tree_or_the_new_one", Way::CopyOut);
}

#[test]
fn killed_copy_in_leaves_the_old_session_or_the_new_one() {
    end_often("killed_copy_in_leaves_the_old_session_or_the_new_one", Way::CopyIn);
}
