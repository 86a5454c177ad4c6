//! Whatever writes is ended at any system call: what it writes to is wholly old or new then, or once the
//! next belljar has seen to it.

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

/// The system calls at which it is ended. Not all of them are there on every processor.
const CALLS: &str = "openat,openat2,write,fsync,syncfs,linkat,renameat,renameat2,unlinkat,mkdirat,close,\
                     statx,fstat,newfstatat,flock,lseek,ftruncate,fchmod,fchmodat,utimensat,\
                     ?rename,?unlink,?mkdir,?link,getdents64";

/// System calls at which a recovery is ended.
const RECOVERY_CALLS: [&str; 5] = ["openat2", "renameat", "unlinkat", "fsync", "statx"];

type Files = BTreeMap<String, Vec<u8>>;

/// What writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `sh --apply`.
    Script,
    /// `sandbox apply`, what a session has changed.
    Session,
    /// `apply`, what a recorded run has changed.
    Tape,
    /// `sandbox cp`, a folder of a session over one of the disk.
    CopyOut,
    /// `sandbox cp`, a folder of the disk over one of a session.
    CopyIn,
}

impl Way {
    /// How many files it replaces, besides those that it makes. Few are synced one by one, many by their
    /// file system.
    fn files(self) -> usize {
        if matches!(self, Self::Tape | Self::CopyOut) { 40 } else { 100 }
    }

    /// What the first system call at which it may be ended has among its arguments.
    fn beginning(self) -> &'static str {
        if self == Self::CopyIn { "/box.lock\"" } else { ".draft\"" }
    }
}

/// What is written to, what writes, and a home of its own.
struct Bench {
    folder: tempfile::TempDir,
    way: Way,
    script: String,
    before: Files,
    after: Files,
    /// The home before and after, without garbage.
    homes: [Files; 2],
    /// Names of system calls from the first that writes on, with how many of that name came before.
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

    /// Makes what all attempts begin from.
    fn prepare(&self) {
        let files = self.way.files();
        match self.way {
            Way::Script | Way::Session => {}
            Way::Tape => {
                self.reset();
                self.succeed(&["record", "-q", "--tape", "../run.tape", "sh", "-c", &self.script]);
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

    /// Makes what is written to what it is before.
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
            Way::Script | Way::Tape | Way::CopyOut => {}
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

    /// What writes.
    fn args(&self) -> Vec<&str> {
        match self.way {
            Way::Script => vec!["sh", "--apply", "-c", &self.script],
            Way::Session => vec!["sandbox", "apply", "box"],
            Way::Tape => vec!["apply", "../run.tape"],
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

    /// Belljar, writing, under `strace` with these options.
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

    /// What is written to, as it is now.
    fn now(&self) -> Files {
        if self.way != Way::CopyIn {
            return tree(&self.tree());
        }
        let mut session = home::open(&self.home()).resume("box").unwrap();
        let shown = tempfile::tempdir().unwrap();
        session.copy_out("/tmp/d", shown.path()).unwrap();
        tree(shown.path())
    }

    /// Whether that is what it was to be; `None` if it is neither that nor what it was.
    fn is_new(&self) -> Option<bool> {
        let now = self.now();
        (now == self.before || now == self.after).then_some(now == self.after)
    }

    /// A system call at which it is to be ended.
    fn draw(&self, chance: &mut Chance) -> &(String, usize) {
        let mut at = chance.below(self.calls.len());
        // A session is another one from its last few calls on.
        if self.way == Way::CopyIn && chance.below(2) == 0 {
            at = self.calls.len() - 1 - chance.below(30);
        }
        &self.calls[at]
    }

    fn journals(&self) -> usize {
        let entries = std::fs::read_dir(self.home().join("journals")).into_iter().flatten();
        entries.filter(|entry| entry.as_ref().unwrap().file_name() != "lock").count()
    }

    /// The sessions of the home and what they are made of, once `sandbox gc` has removed what is of nobody.
    fn swept_home(&self) -> Files {
        self.succeed(&["sandbox", "gc"]);
        let mut home = tree(&self.home());
        home.retain(|path, _| !path.starts_with("journals/"));
        home
    }

    /// What was killed is seen to, by a belljar that may be killed itself.
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

    /// Writes once more: nothing that was ended stands in the way of that.
    fn write_again(&self, is_new: bool, when: &str) {
        let output = self.belljar(&self.args());
        // What a script or a tape does, it does to a folder to which that was not done.
        let is_done = is_new && matches!(self.way, Way::Script | Way::Tape);
        assert!(output.status.success() || is_done, "{when}: then {}", stderr(&output));
        assert_eq!(self.is_new(), Some(true), "{when}: and then once more");
        if self.way == Way::Session {
            let output = self.belljar(&["sandbox", "diff", "box"]);
            assert_eq!((stdout(&output), stderr(&output)), Default::default(), "{when}");
        }
    }
}

/// The system calls of the first thread, from the one on that has `beginning` among its arguments.
fn calls_from(log: &str, beginning: &str) -> Vec<(String, usize)> {
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

/// Ends what writes by each signal, as often as the environment says.
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
                // One call less than last time: nothing has ended it.
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
                // The session is what it was in the one case, and as the folder is in the other.
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

#[test]
fn killed_copy_out_leaves_the_old_tree_or_the_new_one() {
    end_often("killed_copy_out_leaves_the_old_tree_or_the_new_one", Way::CopyOut);
}

#[test]
fn killed_copy_in_leaves_the_old_session_or_the_new_one() {
    end_often("killed_copy_in_leaves_the_old_session_or_the_new_one", Way::CopyIn);
}
