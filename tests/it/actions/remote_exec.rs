//! `--remote-exec`: what a run elsewhere does is what it does here.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;

use super::Cluster;
use crate::results::random;
use crate::support::plans::Chance;
use crate::support::{bash, belljar, guest, number_from_env, stderr, stdout, tree};

impl Cluster {
    pub fn option(&self) -> String {
        format!("--remote-exec={}", self.casd.address)
    }
}

/// What `belljar WORDS…` does in `folder`, without the report's times.
pub fn run(folder: &Path, words: &[&str]) -> (Output, Value) {
    let report = tempfile::tempdir().unwrap();
    let path = report.path().join("report.json");
    let json = format!("--json={}", path.display());
    let mut all = vec![words[0], "--mtimes=fixed", "--stdin=null", &json];
    all.extend(&words[1..]);
    let output = belljar(folder).args(&all).output().unwrap();
    let mut report: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    // What belljar loads, and how long it takes, is a matter of the machine.
    for field in ["timings", "tiers", "cache_hit", "cached"] {
        report.as_object_mut().unwrap().remove(field);
    }
    (output, report)
}

/// What the program itself wrote to standard error.
fn said(output: &Output) -> String {
    let text = stderr(output);
    let lines = text.lines().filter(|line| !line.starts_with("belljar: "));
    lines.collect::<Vec<_>>().join("\n")
}

/// What is in `folder`: contents of files and whether they are executable, texts of links, directories.
pub fn state(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut unlisted = vec![(folder.to_owned(), String::new())];
    while let Some((at, prefix)) = unlisted.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            let metadata = entry.metadata().unwrap();
            let what = if metadata.is_dir() {
                unlisted.push((entry.path(), format!("{name}/")));
                "directory".to_owned()
            } else if metadata.is_symlink() {
                format!("link to {}", fs::read_link(entry.path()).unwrap().display())
            } else {
                let executable = metadata.permissions().mode() & 0o100 != 0;
                format!("{executable} {:?}", fs::read(entry.path()).unwrap())
            };
            found.insert(name, what);
        }
    }
    found
}

#[test]
fn random_runs_elsewhere_do_what_they_do_here() {
    let Some(cluster) = Cluster::start(2, &[]) else { return };
    let remote = cluster.option();
    for seed in 0..number_from_env("BELLJAR_TEST_REMOTE_RUNS", 40) as u64 {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let mut script = String::new();
        for folder in &folders {
            let mut chance = Chance::new(seed);
            random::plant(&mut chance, folder.path());
            let lines: Vec<String> = (0..3).map(|_| random::command(&mut chance, 2)).collect();
            script = lines.join("\n");
        }
        let [here_in, there_in] = folders.each_ref().map(tempfile::TempDir::path);
        let (here, expected) = run(here_in, &["sh", "--apply", "-c", &script]);
        let (there, elsewhere) = run(there_in, &["sh", &remote, "--apply", "-c", &script]);
        assert_eq!(stdout(&here), stdout(&there), "{seed}: {script}");
        assert_eq!(said(&here), said(&there), "{seed}: {script}");
        assert_eq!(here.status, there.status, "{seed}: {script}");
        assert_eq!(expected, elsewhere, "{seed}: {script}");
        assert_eq!(state(here_in), state(there_in), "{seed}: {script}");
    }
}

#[test]
fn options_of_a_run_hold_elsewhere() {
    let Some(cluster) = Cluster::start(1, &[]) else { return };
    let remote = cluster.option();
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in [("work/in/a", "b\na\n"), ("work/out/old", "1"), ("lib/x", "x\n")] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::copy(guest("env"), folder.path().join("work/env.wasm")).unwrap();
    let work = folder.path().join("work");
    let script = "cat /lib/x; echo no >/lib/y; sort a >../out/new; rm ../out/old; echo $0 $1 $SET; date; \
                  od -An -N4 -tx1 /dev/urandom; pwd; sleep 60; date";
    let cases: [&[&str]; 4] = [
        &[
            "sh",
            "--dir=../lib::/lib::ro",
            "--cwd=in",
            "--env=SET=a b",
            "--seed=7",
            "--start-at=2040-01-02",
            "--diff",
            "-c",
            script,
            "name",
            "word",
        ],
        &["run", "--env=A=1", "--argv0=called", "./env.wasm", "x"],
        &["run", "sort", "-r", "in/a"],
        &["sh", "--max-output=10B", "-c", "echo a line that is too long"],
    ];
    for words in cases {
        let (here, expected) = run(&work, words);
        let (there, elsewhere) = run(&work, &[&words[..1], &[&remote], &words[1..]].concat());
        assert_eq!(stdout(&here), stdout(&there), "{words:?}: {}", stderr(&there));
        assert_eq!(said(&here), said(&there), "{words:?}");
        assert_eq!(here.status, there.status, "{words:?}");
        assert_eq!(expected, elsewhere, "{words:?}");
    }
}

/// However a run ends elsewhere: it is told as here, and its changes are applied only if it ended by itself.
#[test]
fn ends_of_all_kinds_are_told_as_here() {
    let Some(cluster) = Cluster::start(1, &["--timeout=1h"]) else { return };
    let remote = cluster.option();
    let exit = r#"(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))"#;
    let modules = [
        ("trap.wat", r#"(module (func $f unreachable) (func (export "_start") (call $f)))"#),
        (
            "import.wat",
            r#"(module (import "env" "f" (func $f)) (func (export "_start") (call $f)))"#,
        ),
        ("library.wat", r#"(module (func (export "f")))"#),
        ("large.wat", r#"(module (memory 100) (func (export "_start")))"#),
    ];
    let code = format!(r#"(module {exit} (func (export "_start") (call $exit (i32.const 300))))"#);
    let cases: [&[&str]; 13] = [
        &["sh", "--apply", "-c", "echo n >new; kill -TERM $$"],
        &["sh", "--apply", "-c", "echo n >new; kill -9 $$"],
        &["sh", "--apply", "-c", "echo n >new; ./trap.wat; rm old"],
        &["sh", "--apply", "-c", "echo n >new; no-such-program"],
        &["sh", "--apply", "--max-upper=100B", "-c", "seq 100 >new; echo $?"],
        &["sh", "--apply", "--max-output=10B", "-c", "echo n >new; echo a line that is too long"],
        &["sh", "--apply", "--virtual-timeout=5s", "-c", "echo n >new; sleep 60"],
        &["run", "--apply", "./trap.wat"],
        &["run", "./import.wat"],
        &["run", "./library.wat"],
        &["run", "--max-memory=1MiB", "./large.wat"],
        &["run", "./code.wat"],
        &["run", "--apply=success", "sh", "-c", "echo n >new; exit 3"],
    ];
    for words in cases {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for folder in &folders {
            fs::write(folder.path().join("old"), "1").unwrap();
            fs::write(folder.path().join("code.wat"), &code).unwrap();
            for (name, text) in modules {
                fs::write(folder.path().join(name), text).unwrap();
            }
        }
        let [here_in, there_in] = folders.each_ref().map(tempfile::TempDir::path);
        let (here, expected) = run(here_in, words);
        let (there, elsewhere) = run(there_in, &[&words[..1], &[&remote], &words[1..]].concat());
        // What to do about a program that is missing is another thing there.
        let told = |output: &Output| {
            let text = stderr(output);
            let lines = text.lines().filter(|line| !line.contains("there is no program"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(told(&here), told(&there), "{words:?}");
        assert_eq!(stdout(&here), stdout(&there), "{words:?}");
        assert_eq!(here.status, there.status, "{words:?}");
        assert_eq!(expected, elsewhere, "{words:?}");
        assert_eq!(state(here_in), state(there_in), "{words:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let endless = ["sh", &remote, "--timeout=1s", "-c", "while :; do :; done"];
    let (output, report) = run(folder.path(), &endless);
    assert_eq!(output.status.code(), Some(124));
    assert!(stderr(&output).contains("sh was ended: timeout (raise it with --timeout)"));
    assert_eq!(report["limits_hit"], serde_json::json!(["timeout"]));
}

#[test]
fn timeout_of_the_worker_is_told_as_one_of_the_worker() {
    let Some(cluster) = Cluster::start(1, &["--timeout=1s"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let args =
        ["sh", &cluster.option(), "--timeout=1h", "--stdin=null", "-c", "while :; do :; done"];
    let output = belljar(folder.path()).args(args).output().unwrap();
    assert_eq!(output.status.code(), Some(134));
    let said = "the program was ended: timeout, a limit of the worker";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
}

/// The reader of the output goes away; the program has ended already, and its changes are applied.
#[test]
fn output_that_nobody_reads_is_no_reason_to_lose_the_changes() {
    let Some(cluster) = Cluster::start(1, &[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "\"$0\" sh {} --apply --stdin=null -c 'seq 200000; echo >f' | head -n 1; exit ${{PIPESTATUS[0]}}",
        cluster.option()
    );
    let output = bash(folder.path(), &script);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(folder.path().join("f").exists(), "{}", stderr(&output));
}

/// The entries of a directory that is mounted within the worktree are changed through that mount alone.
#[test]
fn mounts_within_the_worktree_change_once() {
    let Some(cluster) = Cluster::start(1, &[]) else { return };
    let remote = cluster.option();
    let script = "rm lib/x; mkdir -p lib/d new/e; echo 2 >lib/d/y; echo 3 >new/z; ls lib";
    for mounts in [&["--dir=lib"][..], &["--dir=lib::/worktree/new/inner"]] {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for folder in &folders {
            fs::create_dir(folder.path().join("lib")).unwrap();
            fs::write(folder.path().join("lib/x"), "1").unwrap();
        }
        let [here_in, there_in] = folders.each_ref().map(tempfile::TempDir::path);
        let (here, expected) =
            run(here_in, &[&["sh", "--apply"], mounts, &["-c", script]].concat());
        let (there, elsewhere) =
            run(there_in, &[&["sh", "--apply", &remote], mounts, &["-c", script]].concat());
        assert_eq!(stderr(&here), stderr(&there));
        assert_eq!((here.status, expected), (there.status, elsewhere), "{mounts:?}");
        assert_eq!(state(here_in), state(there_in), "{mounts:?}");
    }
}

/// A run that is interrupted is cancelled on the server, whose worker ends it.
#[test]
fn interrupted_run_is_cancelled() {
    let Some(cluster) = Cluster::start(1, &[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let option = cluster.option();
    let args = ["sh", &option, "--stdin=null", "-c", "while :; do :; done"];
    let mut endless = belljar(folder.path()).args(args).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let pid = rustix::process::Pid::from_child(&endless);
    // Not SIGINT, which belljar ignores if the tests were started in the background.
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let status = endless.wait().unwrap();
    assert_eq!(status.signal(), Some(15), "{status}");
    // The one worker has time for the next run.
    let args = ["sh", &option, "--stdin=null", "--remote-timeout=30s", "-c", "echo next"];
    let next = belljar(folder.path()).args(args).output().unwrap();
    assert_eq!(stdout(&next), "next\n", "{}", stderr(&next));
}

/// What cannot be uploaded is named, though the program might never look at it.
#[test]
fn input_that_cannot_be_uploaded_is_named() {
    let Some(cluster) = Cluster::start(1, &[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let text = std::ffi::OsStr::from_bytes(b"\xff");
    std::os::unix::fs::symlink(text, folder.path().join("odd")).unwrap();
    let args = ["sh", &cluster.option(), "--stdin=null", "-c", "true"];
    let output = belljar(folder.path()).args(args).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("/worktree/odd cannot be uploaded: "), "{}", stderr(&output));
}

#[test]
fn input_is_sent_and_changes_are_applied() {
    let Some(cluster) = Cluster::start(1, &[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("input"), "c\na\n").unwrap();
    let option = cluster.option();
    let args = ["sh", &option, "--apply", "--stdin=input", "-c", "sort >sorted; rm input"];
    let output = belljar(folder.path()).args(args).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(tree(folder.path()).into_keys().collect::<Vec<_>>(), ["sorted"]);
    assert_eq!(fs::read_to_string(folder.path().join("sorted")).unwrap(), "a\nc\n");
    // The same again: the server knows it.
    fs::write(folder.path().join("input"), "c\na\n").unwrap();
    fs::remove_file(folder.path().join("sorted")).unwrap();
    let output = belljar(folder.path()).args(args).output().unwrap();
    assert!(stderr(&output).contains("the server knew the result of sh"), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(folder.path().join("sorted")).unwrap(), "a\nc\n");
}

#[test]
fn what_a_worker_does_not_have_is_refused_with_its_name() {
    let Some(cluster) = Cluster::start(1, &[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let option = cluster.option();
    for (more, said) in [
        (&["--clock=real", "sort"][..], "--clock real: a worker of --remote-exec cannot do that"),
        (&["--mtimes=host", "sort"], "--mtimes host: a worker"),
        (&["--host-policy=policy.json", "sort"], "--host-policy: a worker"),
        (&["--unknown-imports=deny", "sort"], "--unknown-imports: a worker"),
        (&["--explain", "sort"], "--explain: a worker"),
        (&["--cwd=none", "sort"], "--cwd: /worktree/none: "),
        (&["--no-worktree", "sort"], "--no-worktree: a worker"),
        (&["no-such-program"], "no program \"no-such-program\""),
    ] {
        let output = belljar(folder.path()).args(["run", &option]).args(more).output().unwrap();
        assert_ne!(output.status.code(), Some(0));
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    let nobody = "--remote-exec=grpc://127.0.0.1:9";
    let output = belljar(folder.path()).args(["run", nobody, "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("grpc://127.0.0.1:9: "), "{}", stderr(&output));
}

/// The server ends while a worker executes the run: nothing is on the disk, and the error says what happened.
#[test]
fn server_that_is_killed_in_the_middle_leaves_the_disk_as_it_was() {
    let Some(cluster) = Cluster::start(1, &[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "1").unwrap();
    let before = tree(folder.path());
    let option = cluster.option();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(2));
        drop(cluster);
    });
    let script = "rm a; echo 2 >b; i=0; while [ $i -lt 100000000 ]; do i=$((i+1)); done";
    let args = ["sh", &option, "--apply", "--stdin=null", "--remote-timeout=5s", "-c", script];
    let output = belljar(folder.path()).args(args).output().unwrap();
    killer.join().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(stderr(&output).contains("Execute"), "{}", stderr(&output));
    assert_eq!(tree(folder.path()), before);
}
