//! `belljar sandbox`: its output and exit codes.

use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;

use super::scratch;
#[cfg(unix)]
use crate::support::bash;
use crate::support::replays::Belljar;
use crate::support::{belljar, stderr, stdout};

fn sandbox(folder: &Path) -> Belljar {
    let mut command = belljar(folder);
    command.arg("sandbox").env("BELLJAR_HOME", folder.join(".home"));
    command
}

fn call(folder: &Path, args: &[&str]) -> Output {
    sandbox(folder).args(args).output().unwrap()
}

/// Runs a command that must succeed; returns its output.
fn done(folder: &Path, args: &[&str]) -> String {
    let output = call(folder, args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

fn json(folder: &Path, args: &[&str]) -> Value {
    serde_json::from_str(done(folder, args).lines().last().unwrap()).unwrap()
}

#[test]
fn a_session_lives_from_command_to_command() {
    let folder = scratch();
    let at = folder.path();
    assert_eq!(done(at, &["create", "--id", "box", "--env", "WHO=me"]), "box\n");
    let script = "echo more >> note.txt; echo $WHO; pwd; sleep 60; exit 3";
    let output = call(at, &["exec", "box", "--", "sh", "-c", script]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(3), "me\n/worktree\n".to_owned()));
    assert_eq!(done(at, &["exec", "box", "date", "+%s"]), "2114380860\n");
    let diff = done(at, &["diff", "box"]);
    assert!(
        diff.contains("--- a/note.txt\n+++ b/note.txt\n") && diff.contains("\n+more\n"),
        "{diff}"
    );
    assert_eq!(done(at, &["ls", "box"]), ".home/\nnote.txt\n");
    assert_eq!(done(at, &["exec", "box", "ls", ".home"]), "", "what is in the home is hidden");
    assert_eq!(std::fs::read_to_string(at.join("note.txt")).unwrap(), "one\ntwo\n");

    let snapshot = done(at, &["snapshot", "box"]).trim().to_owned();
    done(at, &["exec", "box", "rm", "note.txt"]);
    let fork = done(at, &["fork", &snapshot[..12]]).trim().to_owned();
    assert_eq!(done(at, &["exec", &fork, "cat", "note.txt"]), "one\ntwo\nmore\n");
    let taken = call(at, &["resume", &snapshot]);
    assert_eq!(taken.status.code(), Some(2));
    assert!(stderr(&taken).contains("`belljar sandbox rm box`"), "{}", stderr(&taken));
    done(at, &["rm", "box"]);
    assert_eq!(done(at, &["resume", &snapshot]), "box\n");
    assert_eq!(done(at, &["exec", "box", "wc", "-l", "note.txt"]), "3 note.txt\n");
    assert_eq!(done(at, &["resume", &snapshot, "--id", "other"]), "other\n");
    done(at, &["rm", "box", "other", &fork, &snapshot]);
    assert_eq!(done(at, &["list"]), "");
    assert!(done(at, &["gc"]).starts_with("removed "));
}

#[test]
fn every_sandbox_command_has_json_output() {
    if !crate::support::has_links("every_sandbox_command_has_json_output") {
        return;
    }
    let folder = scratch();
    let at = folder.path();
    assert_eq!(json(at, &["create", "--id", "box", "--json"])["id"], "box");
    let script = "mkdir sub; printf text > sub/new; ln -s new sub/link";
    let report = json(at, &["exec", "--json", "box", "sh", "-c", script]);
    assert_eq!((&report["id"], &report["exit_code"]), (&"box".into(), &0.into()));
    let report = sandbox(at)
        .args(["exec", "--json", "--virtual-timeout", "2s", "box", "sleep", "9"])
        .output();
    let report = report.unwrap();
    assert_eq!(report.status.code(), Some(124));
    assert_eq!(serde_json::from_str::<Value>(&stdout(&report)).unwrap()["timed_out"], true);
    let listed = json(at, &["ls", "box", "/worktree/sub", "--json"]);
    assert_eq!(listed[1], serde_json::json!({ "name": "new", "type": "file", "size": 4 }));
    assert_eq!(listed[0]["type"], "symlink");
    let changes = json(at, &["diff", "box", "--json"]);
    assert_eq!(changes["changes"][0]["path"], "sub");
    let copied = json(at, &["cp", "box:/worktree/sub", "out", "--json"]);
    assert_eq!((&copied["files"], &copied["links"]), (&1.into(), &1.into()));
    assert_eq!(std::fs::read(at.join("out/new")).unwrap(), b"text");
    assert_eq!(json(at, &["cp", "--json", "note.txt", "box:/tmp"])["files"], 1);
    assert_eq!(done(at, &["exec", "box", "cat", "/tmp/note.txt"]), "one\ntwo\n");
    let snapshot = json(at, &["snapshot", "box", "--json"])["id"].as_str().unwrap().to_owned();
    assert!(json(at, &["fork", &snapshot, "--json"])["id"].is_string());
    assert_eq!(json(at, &["resume", &snapshot, "--id", "two", "--json"])["id"], "two");
    let listed = json(at, &["list", "--json"]);
    let kinds: Vec<_> = listed.as_array().unwrap().iter().map(|entry| &entry["kind"]).collect();
    assert_eq!(kinds, ["session", "session", "session", "snapshot"]);
    assert_eq!(json(at, &["rm", "two", "--json"])["removed"][0], "two");
    assert_eq!(json(at, &["gc", "--json"])["contents"], 4);
}

#[test]
fn options_of_create_are_kept_with_the_session() {
    let folder = scratch();
    let at = folder.path();
    std::fs::create_dir_all(at.join("lib")).unwrap();
    std::fs::write(at.join("lib/part"), "a part\n").unwrap();
    std::fs::create_dir_all(at.join("tools")).unwrap();
    std::fs::copy(crate::support::guest("clock"), at.join("tools/clock.wasm")).unwrap();
    let create = [
        "create",
        "--id",
        "box",
        "--dir",
        "lib::/part::ro",
        "--toolchain",
        "tools",
        "--start-at",
        "@1000000000",
        "--seed",
        "7",
        "--virtual-timeout",
        "5s",
        "--max-upper",
        "1MiB",
        "--allow-net",
        "example.com:443",
    ];
    done(at, &create);
    let elsewhere = tempfile::tempdir().unwrap();
    let from_there = |args: &[&str]| {
        let home = at.join(".home");
        sandbox(elsewhere.path()).env("BELLJAR_HOME", home).args(args).output().unwrap()
    };
    let output = from_there(&["exec", "box", "clock"]);
    assert!(stdout(&output).starts_with("realtime 1000000000.0"), "{}", stderr(&output));
    assert_eq!(stdout(&from_there(&["exec", "box", "cat", "/part/part"])), "a part\n");
    let output = from_there(&["exec", "box", "sh", "-c", "echo x > /part/part"]);
    assert!(!output.status.success());
    assert_eq!(from_there(&["exec", "box", "sleep", "9"]).status.code(), Some(124));
    let output = from_there(&["exec", "box", "sh", "-c", "seq 200000 > big"]);
    assert!(!output.status.success(), "the limit holds: {}", stdout(&output));
    assert_eq!(from_there(&["exec", "box", "sleep", "4"]).status.code(), Some(0));
    std::fs::remove_dir_all(at.join("lib")).unwrap();
    let gone = from_there(&["exec", "box", "true"]);
    assert!(stderr(&gone).contains("lib") && gone.status.code() == Some(125), "{}", stderr(&gone));
}

#[test]
fn errors_of_sandboxes_name_the_next_step() {
    let folder = scratch();
    let at = folder.path();
    done(at, &["create", "--id", "box"]);
    let says = |args: &[&str], code: i32, words: &str| {
        let output = call(at, args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{args:?}: {}", stderr(&output));
    };
    says(&["exec", "nothing", "true"], 2, "`belljar sandbox list`");
    says(&["exec", "box", "nothing"], 127, "`belljar programs`");
    says(&["exec", "box", "./note.txt"], 126, "note.txt");
    says(&["exec", "box", "--cwd", "/nowhere", "true"], 2, "/nowhere");
    says(&["exec", "box", "--env", "1=2", "true"], 2, "digit");
    says(&["create", "--id", "box"], 2, "`belljar sandbox rm box`");
    says(&["create", "--id", "../x"], 2, "letters, digits");
    says(&["create", "--worktree", "nowhere"], 2, "nowhere");
    says(&["create", "--dir", ".::/worktree"], 2, "choose another GUEST");
    says(&["create", "--worktree", ".home/sessions"], 2, "cannot mount");
    says(&["create", "--toolchain", "nowhere"], 2, "nowhere");
    says(&["create", "--allow-net", "http://x"], 2, "URL");
    says(&["cp", "note.txt", "other.txt"], 2, "ID:/PATH");
    says(&["cp", "box:/a", "box:/b"], 2, "copy to the host first");
    says(&["cp", "box:/worktree/nothing", "."], 2, "worktree/nothing");
    says(&["fork", "0123456789"], 2, "`belljar sandbox list`");
    says(&["exec", "box", "./nothing.wasm"], 127, "`belljar sandbox ls box`");
    says(
        &["exec", "--virtual-timeout", "1s", "box", "sleep", "9"],
        124,
        "(raise it with --virtual-timeout; the session",
    );
    says(&["cp", "ab:b", "box:/b"], 2, "write ./ before");
    says(&["apply", "nothing"], 2, "`belljar sandbox list`");
    says(&["refresh", "nothing"], 2, "`belljar sandbox list`");
    says(&["sanpshot", "box"], 2, "did you mean snapshot? (commands: create, exec, ");
    says(&["rm", "box", "gone"], 2, "gone");
    says(&["ls", "box"], 2, "`belljar sandbox create`");
}

/// Regression: relative paths started at the root, while `exec`, and `ls` without a path, started in the worktree.
#[test]
fn relative_paths_of_a_session_begin_in_its_worktree() {
    let folder = scratch();
    let at = folder.path();
    done(at, &["create", "--id", "box"]);
    done(at, &["exec", "box", "sh", "-c", "mkdir sub; echo x > sub/made"]);
    assert_eq!(done(at, &["ls", "box", "sub"]), "made\n");
    done(at, &["cp", "box:sub/made", "copy.txt"]);
    assert_eq!(std::fs::read_to_string(at.join("copy.txt")).unwrap(), "x\n");
    done(at, &["cp", "copy.txt", "box:sub"]);
    assert_eq!(done(at, &["exec", "--cwd", "sub", "box", "ls"]), "copy.txt\nmade\n");
    done(at, &["create", "--id", "bare", "--no-worktree"]);
    done(at, &["cp", "copy.txt", "bare:tmp/there"]);
    assert_eq!(done(at, &["ls", "bare", "tmp"]), "there\n");
    if cfg!(unix) {
        std::fs::write(at.join("a:b"), "a colon").unwrap();
        done(at, &["cp", "./a:b", "box:c"]);
        assert_eq!(done(at, &["exec", "box", "cat", "c"]), "a colon");
    }
}

/// Regression: no session after the first one that did not exist was removed.
#[test]
fn rm_removes_the_other_sessions_if_one_does_not_exist() {
    let folder = scratch();
    let at = folder.path();
    done(at, &["create", "--id", "box"]);
    done(at, &["create", "--id", "other"]);
    let output = call(at, &["rm", "--json", "gone", "box", "lost", "other"]);
    assert_eq!(output.status.code(), Some(2));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["removed"], serde_json::json!(["box", "other"]));
    let failed: Vec<&Value> =
        report["failed"].as_array().unwrap().iter().map(|failed| &failed["id"]).collect();
    assert_eq!(failed, ["gone", "lost"]);
    let said = stderr(&output);
    assert!(said.contains("\"gone\"") && said.contains("\"lost\""), "{said}");
    assert!(said.ends_with("belljar: removed box, other\n"), "{said}");
    assert_eq!(done(at, &["list"]), "");
    let output = call(at, &["rm", "gone"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!stderr(&output).contains("belljar: removed"), "{}", stderr(&output));
}

/// Regression: the message suggested the option after `--`, where it would have been an argument of the program.
#[test]
fn unknown_option_is_not_suggested_as_a_value() {
    let folder = scratch();
    let output = call(folder.path(), &["exec", "-w", "/tmp", "box", "ls"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no option -w"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("as a value"), "{}", stderr(&output));
}

#[test]
fn a_program_of_a_session_reads_standard_input() {
    let folder = scratch();
    let at = folder.path();
    done(at, &["create", "--id", "box", "--no-worktree"]);
    let mut child = sandbox(at)
        .args(["exec", "box", "wc", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"five!").unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), "5\n");
    let file = sandbox(at).args(["exec", "--stdin", "note.txt", "box", "wc", "-l"]).output();
    assert_eq!(stdout(&file.unwrap()), "2\n");
}

/// A command that waits for a long time names what it waits for.
#[test]
fn waiting_for_a_locked_session_prints_a_message() {
    let folder = scratch();
    let at = folder.path();
    done(at, &["create", "--id", "box"]);
    let mut first = sandbox(at)
        .args(["exec", "box", "sh", "-c", "read line; echo $line > first"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lock = at.join(".home/sessions/box.lock");
    let is_free = || std::fs::File::open(&lock).unwrap().try_lock().is_ok();
    while is_free() {
        std::thread::yield_now();
    }
    let mut second = sandbox(at)
        .args(["exec", "box", "cat", "first"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut says = String::new();
    let mut stderr = std::io::BufReader::new(second.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut stderr, &mut says).unwrap();
    assert_eq!(says, "belljar: waiting for the program that runs in box…\n");
    std::io::Write::write_all(&mut first.stdin.take().unwrap(), b"came first\n").unwrap();
    assert!(first.wait().unwrap().success());
    assert_eq!(stdout(&second.wait_with_output().unwrap()), "came first\n");
}

/// The policy belongs to the session; secrets are given to each command and not stored.
#[test]
fn policies_are_kept_with_a_session() {
    let folder = scratch();
    let at = folder.path();
    let policy = "{\"version\": 1,\n \"deny\": [\"rm *\"], \"approve\": [\"mv\"]}\n";
    std::fs::write(at.join("policy.json"), policy).unwrap();
    std::fs::write(at.join("answers.json"), "[\"yes\"]").unwrap();
    let guests = crate::support::package().join("guest-examples");
    let guests = guests.to_str().unwrap();
    done(at, &["create", "--id", "box", "--host-policy", "policy.json", "--toolchain", guests]);
    std::fs::remove_file(at.join("policy.json")).unwrap();
    let snapshot = done(at, &["snapshot", "box"]);
    done(at, &["fork", snapshot.trim(), "--id", "fork"]);
    for id in ["box", "fork"] {
        let output = call(at, &["exec", id, "sh", "-c", "x=rm; $x note.txt"]);
        assert_eq!(output.status.code(), Some(126), "{}", stderr(&output));
        let says = stderr(&output);
        assert!(says.contains("deny `rm *` (policy.json, line 2)"), "{says}");
    }
    let moves = ["sh", "-c", "mv note.txt moved"];
    let unasked = call(at, &[&["exec", "box"][..], &moves].concat());
    assert_eq!(unasked.status.code(), Some(126), "{}", stderr(&unasked));
    done(at, &[&["exec", "--host-answers", "answers.json", "box"][..], &moves].concat());
    assert_eq!(done(at, &["exec", "box", "ls", "moved"]), "moved\n");

    let asked = ["exec", "--host-task", "tidy up", "box", "ask", "runtime.task"];
    assert_eq!(done(at, &asked), "{\"ok\":\"tidy up\"}\n");
    let set = ["exec", "--json", "box", "ask", "runtime.set_result", "{\"value\": [1]}"];
    assert_eq!(json(at, &set)["host_result"], serde_json::json!([1]));
    let bad = call(at, &["create", "--host-policy", "answers.json"]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(stderr(&bad).contains("answers.json, line 1"), "{}", stderr(&bad));
}

#[cfg(feature = "http")]
#[test]
fn credentials_are_per_command_and_not_stored() {
    const SECRET: &str = "correct-horse-battery";
    let folder = scratch();
    let at = folder.path();
    let hello = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    let server = crate::http::Server::saying(&[hello, hello]);
    let address = format!("127.0.0.1:{}", server.port);
    let guests = crate::support::package().join("guest-examples");
    let guests = guests.to_str().unwrap();
    done(at, &["create", "--id", "box", "--allow-net", &address, "--toolchain", guests]);
    let params = serde_json::json!({ "url": server.url("/") }).to_string();
    let credential = format!("{address}=X-Key: $MY_TOKEN");
    let with = sandbox(at)
        .env("MY_TOKEN", SECRET)
        .args(["exec", "--credential", &credential, "box", "ask", "net.http", &params])
        .output()
        .unwrap();
    assert!(stdout(&with).contains("hello"), "{}", stderr(&with));
    assert!(server.request().contains(SECRET));
    assert!(done(at, &["exec", "box", "ask", "net.http", &params]).contains("hello"));
    assert!(!server.request().contains(SECRET));
    for (path, bytes) in crate::support::tree(&at.join(".home")) {
        assert!(!String::from_utf8_lossy(&bytes).contains(SECRET), "{path}");
    }
}

/// Regression: a write to a pipe that is never read held the session's lock forever, and blocked every command that
/// waited for it.
#[test]
fn exec_whose_output_is_not_read_ends_at_its_timeout() {
    let folder = scratch();
    let at = folder.path();
    done(at, &["create", "--id", "box", "--no-worktree"]);
    let mut child = sandbox(at)
        .args(["exec", "--timeout", "1s", "box", "yes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The pipe stays open and is not read.
    let unread = child.stdout.take();
    let since = std::time::Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if since.elapsed().as_secs() > 60 {
            child.kill().unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    drop(unread);
    assert_eq!(status.code(), Some(124));
    let said = stderr(&child.wait_with_output().unwrap());
    assert!(said.contains("its session is as it was before"), "{said}");
    assert_eq!(done(at, &["exec", "box", "echo", "free"]), "free\n");
}

/// Regression: a device of the host was replaced by a file, also `/dev/null`.
#[cfg(unix)]
#[test]
fn copy_to_the_host_replaces_no_pipe_and_no_device() {
    let bench = super::living::Bench::new(&[("a", "one\n"), ("b", "two\n")]);
    assert!(bash(&bench.tree(), "mkfifo pipe").status.success());
    for (to, why) in [("pipe", "it is a device, a pipe or a socket"), ("b/", "not a directory")] {
        let output = bench.call(&["cp", "box:a", to]);
        assert_eq!(output.status.code(), Some(2), "{to}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{to}: {}", stderr(&output));
    }
    assert!(bash(&bench.tree(), "[ -p pipe ] && grep -q two b").status.success());
}
