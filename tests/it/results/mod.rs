//! Results of processes that are known from earlier runs: `--cache-results`.

mod builds;
mod kept;
mod kills;
pub mod random;
#[cfg(feature = "remote")]
mod remote;
mod trust;

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::support::{belljar, guest, stderr, stdout, tree};

/// A folder with a project and a cache of results.
struct Project(tempfile::TempDir);

impl Project {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["tree", "cache"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self(folder)
    }

    fn tree(&self) -> std::path::PathBuf {
        self.0.path().join("tree")
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.tree().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn belljar(&self, args: &[&str]) -> Output {
        let mut command = belljar(&self.tree());
        command.args(args).env("BELLJAR_CACHE_DIR", self.0.path().join("cache"));
        command.output().unwrap()
    }

    /// What `belljar COMMAND OPTIONS… --cache-results` reports.
    fn cached(&self, command: &str, args: &[&str]) -> (Value, Output) {
        let mut all = vec![command, "--cache-results", "--explain", "--json=../report.json"];
        all.extend(args);
        let output = self.belljar(&all);
        let report = fs::read_to_string(self.0.path().join("report.json")).unwrap();
        (serde_json::from_str(&report).unwrap(), output)
    }

    /// Hits and misses of a run, and what was said of the misses.
    fn counts(&self, command: &str, args: &[&str]) -> (u64, u64, String) {
        let (report, output) = self.cached(command, args);
        let count = |name: &str| report["results"][name].as_u64().unwrap();
        (count("hits"), count("misses"), stderr(&output))
    }
}

fn guest_arg(name: &str) -> String {
    guest(name).display().to_string()
}

#[test]
fn known_run_has_the_same_output_code_and_changes() {
    let project = Project::new();
    project.write("a.txt", "one\ntwo\n");
    let args = ["--diff=../diff", "replace", "one", "1", "a.txt"];
    let runs: Vec<_> = (0..2)
        .map(|_| {
            let (report, output) = project.cached("run", &args);
            let diff = fs::read_to_string(project.0.path().join("diff")).unwrap();
            (report, output, diff)
        })
        .collect();
    let [(first, of_first, first_diff), (second, of_second, second_diff)] = &runs[..] else {
        unreachable!("there are two")
    };
    assert_eq!((&first["cached"], &second["cached"]), (&false.into(), &true.into()));
    assert!(first_diff.contains("+1\n"), "{first_diff}");
    assert_eq!(first_diff, second_diff);
    assert_eq!(stdout(of_first), stdout(of_second));
    for field in ["exit_code", "changes", "sensitive", "virtual_time_ms", "upper_bytes", "status"] {
        assert_eq!(first[field], second[field], "{field}");
    }
    let code = project.cached("run", &[&guest_arg("exit"), "42"]).1.status.code();
    let (report, output) = project.cached("run", &[&guest_arg("exit"), "42"]);
    assert_eq!((code, output.status.code()), (Some(42), Some(42)));
    assert_eq!(report["cached"], true);
}

#[test]
fn known_changes_are_applied_and_a_run_after_them_is_known() {
    let project = Project::new();
    project.write("a.txt", "b\na\n");
    let sorts = ["--apply", "-c", "sort < a.txt > sorted"];
    assert_eq!(project.counts("sh", &sorts).0, 0);
    fs::remove_file(project.tree().join("sorted")).unwrap();
    let (hits, misses, said) = project.counts("sh", &sorts);
    assert_eq!((hits, misses), (1, 0), "{said}");
    assert_eq!(fs::read_to_string(project.tree().join("sorted")).unwrap(), "a\nb\n");
    // The file that it writes is there now, which `sort` cannot tell.
    assert_eq!(project.counts("sh", &sorts).1, 0);
}

#[test]
fn what_a_run_asked_for_decides_and_nothing_else() {
    let project = Project::new();
    project.write("src/a.c", "a");
    project.write("src/other.c", "other");
    let grep = ["grep", "-l", "a", "include/a.h", "src/a.c"];
    assert_eq!(project.counts("run", &grep).1, 1);
    assert_eq!(project.counts("run", &grep).0, 1);

    project.write("src/other.c", "another text");
    project.write("src/new.c", "new");
    assert_eq!(project.counts("run", &grep).0, 1, "what was not read does not matter");

    project.write("include/a.h", "a");
    let (hits, misses, said) = project.counts("run", &grep);
    assert_eq!((hits, misses), (0, 1), "{said}");
    assert!(said.contains("belljar: ran grep: include/a.h: it is there now\n"), "{said}");

    fs::remove_dir_all(project.tree().join("include")).unwrap();
    assert_eq!(project.counts("run", &grep).0, 1, "the earlier run is still known");

    let (_, _, said) = project.counts("run", &["ls", "src"]);
    assert!(said.contains("ran ls: it did not run with these arguments before"), "{said}");
    project.write("src/z.c", "z");
    let (hits, _, said) = project.counts("run", &["ls", "src"]);
    assert_eq!(hits, 0);
    assert!(said.contains("ran ls: src: it has "), "{said}");
}

/// A program that waits for others, and pipes, in a script.
#[test]
fn one_changed_file_of_many_runs_what_reads_it() {
    let project = Project::new();
    let names: Vec<String> = (0..50).map(|number| format!("f{number}")).collect();
    for name in &names {
        project.write(&format!("src/{name}"), name);
    }
    project.write(
        "build.sh",
        "for f in src/*; do tr a-z A-Z < $f | sort > out-${f#src/}; done; cat out-* | wc -c\n",
    );
    let counts = || project.counts("sh", &["build.sh"]);
    let (_, misses, _) = counts();
    assert_eq!(misses, 102);
    assert_eq!((counts().0, counts().1), (102, 0));
    project.write("src/f7", "another");
    let (hits, misses, said) = counts();
    assert_eq!((hits, misses), (98, 4), "{said}");
}

#[test]
fn damaged_and_foreign_results_are_not_used() {
    let project = Project::new();
    project.write("a.txt", "one\n");
    let wc = ["wc", "a.txt"];
    assert_eq!(project.counts("run", &wc).1, 1);
    let results = project.0.path().join("cache/results-2");
    let trace = || {
        let mut traces = files(&results);
        traces.retain(|(_, bytes)| !bytes.is_empty());
        assert_eq!(traces.len(), 1);
        traces.remove(0)
    };
    for part in 0..4 {
        let (path, mut bytes) = trace();
        let at = (bytes.len() - 1) * part / 3;
        bytes[at] ^= 0x10;
        fs::write(path, bytes).unwrap();
        let (report, output) = project.cached("run", &wc);
        assert_eq!(report["cached"], false, "byte {at}");
        assert!(stdout(&output).ends_with("a.txt\n"));
    }
    // What a killed process leaves behind.
    fs::write(trace().0.with_file_name(".belljar-killed"), "").unwrap();
    assert_eq!(project.counts("run", &wc).0, 1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&results, fs::Permissions::from_mode(0o777)).unwrap();
        let (hits, _, said) = project.counts("run", &wc);
        assert_eq!(hits, 0);
        assert!(said.contains("the cache of results cannot be used"), "{said}");
    }
}

fn files(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    tree(folder)
        .into_iter()
        .filter(|(name, _)| !name.ends_with('/'))
        .map(|(name, bytes)| (folder.join(name), bytes))
        .collect()
}

#[test]
fn run_that_cannot_be_known_says_why() {
    let project = Project::new();
    project.write("a.txt", "one\n");
    for (option, why) in [
        ("--clock=real", "--clock real"),
        ("--fuel=1000000000", "--fuel"),
        ("--trace=../trace", "--trace"),
    ] {
        for _ in 0..2 {
            let (report, output) = project.cached("run", &[option, "wc", "a.txt"]);
            assert_eq!(report["cached"], false, "{option}");
            assert!(report["results"]["not_used"].as_str().unwrap().contains(why));
            assert!(stderr(&output).contains("results are not cached"), "{}", stderr(&output));
        }
    }
    let missing = project.belljar(&["run", "--explain", "wc", "a.txt"]);
    assert!(stderr(&missing).contains("--cache-results"), "{}", stderr(&missing));
}

#[test]
fn results_with_secrets_are_not_kept() {
    let project = Project::new();
    project.write("key", "AKIAABCDEFGHIJKLMNOP\n");
    project.write("plain", "text\n");
    for (name, hits) in [("plain", 1), ("key", 0)] {
        project.cached("run", &["cat", name]);
        assert_eq!(project.counts("run", &["cat", name]).0, hits, "{name}");
    }
    let with_token = ["--env", "API_TOKEN=quite-secret", &guest_arg("env")];
    project.cached("run", &with_token);
    assert_eq!(project.counts("run", &with_token).0, 0);
    let results = project.0.path().join("cache/results-2");
    for (path, bytes) in files(&results) {
        let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
        assert!(!has(b"AKIA") && !has(b"quite-secret"), "{}", path.display());
    }
}

#[test]
fn what_a_module_may_import_is_checked_though_its_results_are_known() {
    let project = Project::new();
    let lacking = guest_arg("missing_import");
    assert_eq!(project.cached("run", &[&lacking]).1.status.code(), Some(0));
    assert_eq!(project.cached("run", &[&lacking]).0["cached"], true);
    let denied = project.cached("run", &["--unknown-imports=deny", &lacking]).1;
    assert_eq!(denied.status.code(), Some(126), "{}", stderr(&denied));
}

/// A program that reads the clock, random bytes and its number has an own result for each answer.
#[test]
fn clock_and_chance_are_questions() {
    let project = Project::new();
    for (program, options) in [
        ("clock", ["--start-at=2030-01-01", "--start-at=2031-01-01"]),
        ("random", ["--seed=1", "--seed=2"]),
    ] {
        let program = guest_arg(program);
        let mut printed = Vec::new();
        for (option, known) in
            [(options[0], false), (options[1], false), (options[0], true), (options[1], true)]
        {
            let (report, output) = project.cached("run", &[option, &program]);
            assert_eq!(report["cached"], known, "{option} {}", stderr(&output));
            printed.push(stdout(&output));
        }
        assert_eq!(printed[..2], printed[2..]);
        assert_ne!(printed[0], printed[1]);
    }
}

#[test]
fn session_is_answered_from_results() {
    let project = Project::new();
    project.write("a.txt", "one\n");
    let home = project.0.path().join("home");
    let belljar = |args: &[&str]| {
        let mut command = belljar(&project.tree());
        let cache = project.0.path().join("cache");
        command.args(args).env("BELLJAR_CACHE_DIR", cache).env("BELLJAR_HOME", &home);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    for known in [false, true] {
        belljar(&["sandbox", "create", "--id", "box"]);
        let exec = ["sandbox", "exec", "--cache-results", "--json", "box", "wc", "a.txt"];
        let printed = belljar(&exec);
        let report: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
        assert_eq!(report["cached"], known);
        belljar(&["sandbox", "rm", "box"]);
    }
}

#[test]
fn cache_results_lists_shows_and_removes() {
    let project = Project::new();
    project.write("a.txt", "one\n");
    project.cached("run", &["wc", "a.txt"]);
    let list = stdout(&project.belljar(&["cache", "results", "list"]));
    assert!(list.ends_with("wc a.txt\n"), "{list}");
    let action = list.split(' ').next().unwrap();
    let shown = stdout(&project.belljar(&["cache", "results", "show", action]));
    assert!(shown.contains("  path_open a.txt = 0\n"), "{shown}");
    let missing = project.belljar(&["cache", "results", "show", "xyz"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("`belljar cache results list`"));
    let info = stdout(&project.belljar(&["cache", "results", "info", "--json"]));
    let info: Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["traces"], 1);
    let removed = stdout(&project.belljar(&["cache", "results", "gc", "--max-size", "0"]));
    assert!(removed.starts_with("removed results of 1 trace"), "{removed}");
    assert_eq!(project.counts("run", &["wc", "a.txt"]).1, 1);
    project.belljar(&["cache", "results", "clear"]);
    assert_eq!(project.counts("run", &["wc", "a.txt"]).1, 1);
}

/// `--rerun` finds a result that someone made up.
#[test]
fn wrong_result_is_found_when_it_is_run_again() {
    let project = Project::new();
    project.write("a.txt", "one\n");
    project.cached("run", &["cat", "a.txt"]);
    let (report, _) = project.cached("run", &["--rerun=100", "cat", "a.txt"]);
    assert_eq!((&report["results"]["rerun"], &report["cached"]), (&1.into(), &false.into()));

    // The output of `cat` is what it hands over.
    let results = project.0.path().join("cache/results-2");
    let (path, bytes) = files(&results).into_iter().find(|(_, it)| !it.is_empty()).unwrap();
    let mut body = bytes[belljar::Digest::BYTES..].to_vec();
    let at = body.windows(4).rposition(|window| window == b"one\n").unwrap();
    body[at..at + 3].copy_from_slice(b"two");
    let digest = belljar::Digest::of(&body);
    fs::write(path, [&digest.as_bytes()[..], &body].concat()).unwrap();
    let (_, output) = project.cached("run", &["cat", "a.txt"]);
    assert_eq!(stdout(&output), "two\n", "digests find damage, not lies");
    let (report, output) = project.cached("run", &["--rerun=100", "cat", "a.txt"]);
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("one\n", Some(125)));
    assert_eq!(report["results"]["wrong"], 1);
    let said = stderr(&output);
    assert!(said.contains("the cache has wrong results of cat (its call "), "{said}");
    assert!(said.contains("`belljar cache results clear`"), "{said}");
}

/// A trace that someone made up may have a wrong result, and nothing worse.
#[test]
fn hostile_traces_never_panic() {
    use std::sync::Arc;

    use belljar::results::{ResultCache, Results};
    use belljar::{Command, Digest, Machine, Program, Toolchains};

    use crate::support::plans::Chance;

    let folder = tempfile::tempdir().unwrap();
    let module = Toolchains::default().resolve("wc").unwrap().module().unwrap();
    let wc = Program::new(crate::support::engine(), &module).unwrap();
    let results = Arc::new(Results::new(ResultCache::new(folder.path())));
    let run = || {
        let mut machine = Machine::builder().build().unwrap();
        machine.set_results(Some(results.clone()));
        machine.vfs_mut().write("/tmp/a.txt", b"one two\n", 0).unwrap();
        Command::new(&wc).arg("/tmp/a.txt").output(&mut machine).unwrap()
    };
    let expected = run();
    let trace = results.cache().all().unwrap().remove(0);
    let good = fs::read(&trace.path).unwrap();
    let mut chance = Chance::new(7);
    let mut followed = 0;
    for _ in 0..crate::support::number_from_env("BELLJAR_TEST_HOSTILE_TRACES", 2000) {
        let mut body = good[Digest::BYTES..].to_vec();
        for _ in 0..=chance.below(3) {
            let at = chance.below(body.len());
            match chance.below(4) {
                0 => body[at] = chance.below(256) as u8,
                1 => body[at] ^= 1 << chance.below(8),
                2 => drop(body.drain(at..body.len().min(at + 1 + chance.below(8)))),
                _ => body.insert(at, chance.below(256) as u8),
            }
        }
        for other in results.cache().all().unwrap() {
            fs::remove_file(other.path).unwrap();
        }
        fs::create_dir_all(trace.path.parent().unwrap()).unwrap();
        let digest = Digest::of(&body);
        fs::write(&trace.path, [&digest.as_bytes()[..], &body].concat()).unwrap();
        let output = run();
        followed += usize::from(output.stdout != expected.stdout || !output.status.success());
    }
    assert!(followed > 0, "some traces were followed where they are wrong");
}
