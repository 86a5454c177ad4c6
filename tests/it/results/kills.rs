//! The cache of results with many processes at once, and with processes that are killed anywhere: hits are right, and
//! what is left behind is removed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use belljar::Digest;
use belljar::results::Trace;
use serde_json::Value;

use crate::support::plans::Chance;
use crate::support::{Belljar, belljar, number_from_env, stderr, stdout, tree};

/// Processes at once.
const TOGETHER: usize = 50;

/// Kills under load; `BELLJAR_TEST_RESULT_KILLS` overrides it.
const KILLS: usize = 40;

/// Kills at a system call, of each command; `BELLJAR_TEST_RESULT_CALLS` overrides it.
#[cfg(target_os = "linux")]
const CALLS: usize = 8;

/// Reads files, pipes, and writes files.
const SCRIPT: &str =
    "for f in in/*; do tr a-z A-Z < $f | sort > out-${f#in/}; done; cat out-*; wc -c out-a";

/// A cache that many projects use, with compiled code.
struct Shared(tempfile::TempDir);

impl Shared {
    fn new() -> Self {
        let shared = Self(tempfile::tempdir().unwrap());
        shared.project("warm", &mut Chance::new(0)).expect_right(&shared, &["--no-background"]);
        shared.cache(&["clear"]);
        shared
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn results(&self) -> PathBuf {
        self.path("cache/results-2")
    }

    fn project(&self, name: &str, chance: &mut Chance) -> Project {
        let folder = self.path(name);
        fs::create_dir_all(folder.join("in")).unwrap();
        let mut project = Project { folder, texts: Default::default() };
        for index in 0..project.texts.len() {
            project.edit(index, chance);
        }
        project
    }

    fn belljar(&self, folder: &Path) -> Belljar {
        let mut command = belljar(folder);
        command.env("BELLJAR_CACHE_DIR", self.path("cache"));
        command
    }

    /// What `belljar cache results ARGS` prints.
    fn cache(&self, args: &[&str]) -> String {
        let mut command = self.belljar(self.0.path());
        let output = command.args(["cache", "results"]).args(args).output().unwrap();
        let said = stderr(&output);
        assert!(output.status.success() && said.is_empty(), "cache results {args:?}: {said}");
        stdout(&output)
    }

    /// Checks that everything in the cache is whole; returns the number of temporary files.
    fn expect_whole(&self) -> usize {
        let mut temporaries = 0;
        let entries =
            if self.results().exists() { tree(&self.results()) } else { BTreeMap::default() };
        for (path, bytes) in entries {
            let name = path.rsplit('/').next().unwrap();
            if path.ends_with('/') {
                continue;
            }
            if name.starts_with(".belljar-") {
                temporaries += 1;
            } else if path.starts_with("modules/") {
                assert!(bytes.is_empty(), "{path}");
            } else {
                let digest = Digest::of(&bytes[Digest::BYTES..]).to_string();
                assert_eq!(digest, name, "a trace that is not whole");
                assert!(Trace::from_bytes(&bytes).is_some(), "{path}");
            }
        }
        temporaries
    }

    /// Checks that what killed processes left goes: temporary files after an hour, and directories without a trace.
    fn expect_swept(&self) {
        for path in tree(&self.results()).into_keys().filter(|path| path.contains("/.belljar-")) {
            let file = fs::File::options().append(true).open(self.results().join(path)).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }
        self.cache(&["gc", "--max-size", "1GiB"]);
        let paths: Vec<String> = tree(&self.results()).into_keys().collect();
        for path in &paths {
            assert!(!path.contains("/.belljar-"), "{path} is left");
            let has_more = |other: &String| other.len() > path.len() && other.starts_with(path);
            let is_empty = path.ends_with('/') && !paths.iter().any(has_more);
            assert!(!is_empty || path == "modules/", "{path} is left, and empty");
        }
        self.cache(&["clear"]);
        let left = tree(&self.results()).into_keys().filter(|path| path != "modules/");
        assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
    }
}

/// A folder with the files that [`SCRIPT`] reads.
struct Project {
    folder: PathBuf,
    texts: [String; 4],
}

impl Project {
    /// Gives one file another content, of few, so that other projects have it, too.
    fn edit(&mut self, index: usize, chance: &mut Chance) {
        let lines = (0..=chance.below(2)).map(|_| ["one\n", "two\n", "three\n"][chance.below(3)]);
        self.texts[index] = lines.collect();
        let name = ["a", "b", "c", "d"][index];
        fs::write(self.folder.join("in").join(name), &self.texts[index]).unwrap();
    }

    /// What [`SCRIPT`] prints.
    fn expected(&self) -> String {
        let sorted = |text: &String| {
            let upper = text.to_uppercase();
            let mut lines: Vec<&str> = upper.lines().collect();
            lines.sort_unstable();
            lines.into_iter().flat_map(|line| [line, "\n"]).collect::<String>()
        };
        let texts: String = self.texts.iter().map(sorted).collect();
        format!("{texts}{} out-a\n", self.texts[0].len())
    }

    fn script(&self, shared: &Shared, options: &[&str]) -> Belljar {
        let mut command = shared.belljar(&self.folder);
        command.args(["sh", "--cache-results", "--mtimes=fixed", "--quiet"]);
        command.args(options).args(["-c", SCRIPT]);
        command
    }

    fn check(&self, output: &Output) {
        let said = stderr(output);
        assert!(output.status.success(), "{said}");
        assert_eq!(stdout(output), self.expected(), "{said}");
        assert!(!said.contains("cache of results"), "{said}");
    }

    fn expect_right(&self, shared: &Shared, options: &[&str]) {
        self.check(&self.script(shared, options).output().unwrap());
    }

    /// Runs the script; returns its hits and misses.
    fn counts(&self, shared: &Shared) -> (u64, u64) {
        let report = format!("--json={}", self.folder.with_extension("json").display());
        self.expect_right(shared, &[&report]);
        let report = fs::read_to_string(self.folder.with_extension("json")).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        let count = |name: &str| report["results"][name].as_u64().unwrap();
        (count("hits"), count("misses"))
    }
}

#[test]
fn fifty_processes_at_once_share_a_cache() {
    let shared = Shared::new();
    let mut chance = Chance::new(17);
    let projects: Vec<Project> =
        (0..TOGETHER).map(|number| shared.project(&format!("p{number}"), &mut chance)).collect();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Others remove what these store.
        scope.spawn(|| {
            let mut chance = Chance::new(18);
            while !is_done.load(Ordering::Relaxed) {
                let max_size = ["0", "5KiB", "50KiB"][chance.below(3)];
                let ways: [&[&str]; 3] = [&["gc", "--max-size", max_size], &["clear"], &["list"]];
                shared.cache(ways[chance.below(3)]);
            }
        });
        for _ in 0..2 {
            let start = |project: &Project| {
                let mut command = project.script(&shared, &[]);
                let (out, err) = (std::process::Stdio::piped(), std::process::Stdio::piped());
                command.stdout(out).stderr(err).spawn().unwrap()
            };
            let children: Vec<_> = projects.iter().map(start).collect();
            for (project, child) in projects.iter().zip(children) {
                project.check(&child.wait_with_output().unwrap());
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(shared.expect_whole(), 0, "nobody was killed");
    for project in &projects[..5] {
        project.counts(&shared);
        let (hits, misses) = project.counts(&shared);
        assert_eq!((hits, misses), (10, 0));
    }
    shared.expect_swept();
}

#[test]
fn processes_that_are_killed_under_load_leave_a_cache_that_is_right() {
    let shared = Shared::new();
    let kills = number_from_env("BELLJAR_TEST_RESULT_KILLS", KILLS);
    let (left, killed) = (AtomicUsize::new(kills), AtomicUsize::new(0));
    let counted = std::sync::Mutex::new((0, 0));
    let takes = {
        let project = shared.project("timed", &mut Chance::new(1));
        let run = |_| {
            let began = std::time::Instant::now();
            project.expect_right(&shared, &[]);
            began.elapsed()
        };
        (0..4).map(run).min().expect("there are four").max(Duration::from_millis(20))
    };
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (shared, left, killed, counted) = (&shared, &left, &killed, &counted);
            scope.spawn(move || {
                let mut chance = Chance::new(100 + worker);
                let mut project = shared.project(&format!("w{worker}"), &mut chance);
                let take = |left: usize| left.checked_sub(1);
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                    project.edit(chance.below(4), &mut chance);
                    let mut command = match chance.below(5) {
                        0 => {
                            let mut command = shared.belljar(&project.folder);
                            let args = ["cache", "results", "gc", "--max-size"];
                            command.args(args).arg(["0", "10KiB"][chance.below(2)]);
                            command
                        }
                        _ => project.script(shared, &[]),
                    };
                    let null = std::process::Stdio::null;
                    let mut child = command.stdout(null()).stderr(null()).spawn().unwrap();
                    std::thread::sleep(takes * chance.below(100) as u32 / 100);
                    let is_running = child.try_wait().unwrap().is_none();
                    killed.fetch_add(usize::from(is_running), Ordering::Relaxed);
                    child.kill().unwrap();
                    child.wait().unwrap();
                    let (hits, misses) = project.counts(shared);
                    assert_eq!(hits + misses, 10);
                    let mut counted = counted.lock().unwrap();
                    *counted = (counted.0 + hits, counted.1 + misses);
                    drop(counted);
                    shared.cache(&["list"]);
                }
            });
        }
    });
    let (killed, (hits, misses)) = (killed.into_inner(), counted.into_inner().unwrap());
    let temporaries = shared.expect_whole();
    println!(
        "{killed} killed of {kills}: {hits} hits, {misses} misses, {temporaries} temporary files left"
    );
    assert!(killed > kills / 4, "{killed} of {kills} were killed before they ended");
    assert!(hits > 0 && misses > 0, "{hits} hits, {misses} misses");
    shared.expect_swept();
}

/// Kills at every kind of system call by which the cache is read, written and emptied.
#[cfg(target_os = "linux")]
#[test]
fn process_that_is_killed_at_any_system_call_leaves_a_cache_that_is_right() {
    use std::os::unix::process::ExitStatusExt;

    use crate::apply_kills::{can_trace, traced};

    if !can_trace("process_that_is_killed_at_any_system_call_leaves_a_cache_that_is_right") {
        return;
    }
    let calls = "openat,write,renameat,renameat2,?rename,unlinkat,?unlink,mkdirat,?mkdir,?rmdir,close,\
                 statx,fstat,newfstatat,getdents64,utimensat";
    let shared = Shared::new();
    let mut chance = Chance::new(5);
    let mut project = shared.project("project", &mut chance);
    let strace = |options: &[&str], args: &[&str], folder: &Path| {
        let mut command = traced();
        command.args(options).arg(env!("CARGO_BIN_EXE_belljar")).args(args).current_dir(folder);
        command.env("BELLJAR_CACHE_DIR", shared.path("cache"));
        command.env("BELLJAR_HOME", crate::support::home_dir());
        command.stdin(std::process::Stdio::null()).output().unwrap()
    };
    let script = ["sh", "-q", "--mtimes=fixed", "--cache-results", "-c", SCRIPT];
    let ways: [&[&str]; 3] =
        [&script, &["cache", "results", "gc", "--max-size=9KiB"], &["cache", "results", "clear"]];
    let kills = number_from_env("BELLJAR_TEST_RESULT_CALLS", CALLS);
    let log = shared.path("log");
    let mut temporaries = 0;
    for args in ways {
        let reset = |project: &mut Project, chance: &mut Chance| {
            project.edit(chance.below(4), chance);
            if args[0] == "sh" {
                drop(shared.cache(&["clear"]));
            } else {
                project.expect_right(&shared, &[]);
            }
        };
        reset(&mut project, &mut chance);
        let logged = ["-e", &format!("trace={calls}"), "-o", log.to_str().unwrap()];
        let whole = strace(&logged, args, &project.folder);
        assert!(whole.status.success(), "{}", stderr(&whole));
        let points =
            crate::apply_kills::calls_from(&fs::read_to_string(&log).unwrap(), "results-2");
        assert!(points.len() > 20, "{args:?}: {}", points.len());
        let mut killed = 0;
        for _ in 0..4 * kills {
            if killed == kills {
                break;
            }
            reset(&mut project, &mut chance);
            let (call, number) = &points[chance.below(points.len())];
            let inject = format!("inject={call}:signal=SIGKILL:when={number}");
            let options = ["-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject];
            let output = strace(&options, args, &project.folder);
            killed += usize::from(output.status.signal() == Some(9));
            temporaries += shared.expect_whole();
            let when = format!("{args:?}, killed at {call} number {number}");
            let (hits, misses) = project.counts(&shared);
            assert_eq!(hits + misses, 10, "{when}");
            assert_eq!(project.counts(&shared), (10, 0), "{when}");
            shared.cache(&["list"]);
        }
        assert_eq!(killed, kills, "{args:?}");
        shared.expect_swept();
    }
    println!("{} kills, {temporaries} temporary files left by them", 3 * kills);
}
