//! Malicious guests: each gets an errno or reaches a named limit, and the host keeps running and stays unchanged.

use std::path::Path;

use belljar::{HostDir, Machine};
use serde_json::Value;

use crate::support::{belljar, guest, has_links, stderr, stdout, symlink, tree};

/// Runs a guest in `folder`; returns its exit code, output and report.
fn run(folder: &Path, options: &[&str], name: &str, args: &[&str]) -> (i32, String, Value) {
    let report = tempfile::NamedTempFile::new().unwrap();
    let output = belljar(folder)
        .args(["run", &format!("--json={}", report.path().display())])
        .args(options)
        .arg(guest(name))
        .args(args)
        .output()
        .unwrap();
    let text = std::fs::read_to_string(report.path()).unwrap();
    let code = output.status.code().expect("the host process is not killed");
    let value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    (code, stdout(&output), value)
}

fn empty() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn no_path_leads_outside() {
    let outside = empty();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "the needle in the haystack").unwrap();
    let inside = outside.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&secret, inside.join("absolute-link")).unwrap();
        std::os::unix::fs::symlink("../secret", inside.join("relative-link")).unwrap();
        std::os::unix::fs::symlink(outside.path(), inside.join("folder-link")).unwrap();
    }
    let before = tree(outside.path());
    let target = secret.display().to_string();
    let modes: &[&[&str]] =
        &[&[], &["--no-worktree", "--dir", ".::."], &["--no-worktree", "--dir", ".::/"]];
    for options in modes {
        for target in [target.as_str(), "../secret"] {
            let (code, out, _) = run(&inside, options, "escape", &[target, "needle"]);
            assert_eq!(code, 0, "{options:?}\n{out}");
            assert!(!out.contains("LEAK"), "{out}");
        }
        for link in ["absolute-link", "relative-link", "folder-link/secret"] {
            let (code, out, _) = run(&inside, options, "cat", &[link]);
            assert_eq!((code, out.as_str()), (1, ""), "{options:?} {link}");
        }
    }
    assert_eq!(tree(outside.path()), before);
}

/// A directory of the host's tree is replaced by a link to the outside.
#[test]
fn a_tree_that_changes_during_the_run_does_not_lead_outside() {
    if !has_links("a_tree_that_changes_during_the_run_does_not_lead_outside") {
        return;
    }
    let outside = empty();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let inside = outside.path().join("inside");
    std::fs::create_dir_all(inside.join("sub")).unwrap();
    std::fs::write(inside.join("sub/secret"), "harmless").unwrap();
    let mut machine = Machine::builder().worktree(HostDir::open(&inside).unwrap()).build().unwrap();
    assert!(machine.vfs_mut().metadata("/worktree/sub").is_ok());
    std::fs::rename(inside.join("sub"), inside.join("moved")).unwrap();
    assert!(symlink(outside.path(), inside.join("sub")));
    assert!(machine.vfs_mut().read("/worktree/sub/secret").is_err());
}

#[test]
fn endless_loops_end_in_time() {
    let dir = empty();
    for (options, limit) in
        [(&["--timeout", "300ms"][..], "timeout"), (&["--fuel", "1000000"], "fuel")]
    {
        let (code, _, report) = run(dir.path(), options, "loop", &[]);
        assert_eq!((code, &report["status"]), (124, &Value::from("timed_out")));
        assert_eq!(report["limits_hit"], Value::from(vec![limit]));
    }
    let options = ["--virtual-timeout", "1h"];
    let (code, _, report) = run(dir.path(), &options, "sleeper", &["86400000"]);
    assert_eq!((code, &report["limits_hit"]), (124, &Value::from(vec!["virtual_timeout"])));
    assert_eq!(report["virtual_time_ms"], 3_600_000);
}

#[test]
fn waiting_for_stdin_ends_at_the_timeout() {
    let mut command = belljar(empty().path());
    command.args(["run", "--timeout", "300ms", "cat"]).stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.current_dir(std::env::temp_dir()).spawn().unwrap();
    // Kept open, and never written to.
    let stdin = child.stdin.take();
    assert_eq!(child.wait().unwrap().code(), Some(124));
    drop(stdin);
}

/// System calls of the host cannot be interrupted. Regression: a write to a pipe that is never read blocked a run
/// forever.
#[test]
fn run_blocked_on_a_host_pipe_ends_at_the_timeout() {
    let dir = empty();
    let mut command = belljar(dir.path());
    command.args(["run", "--timeout", "200ms"]).arg(guest("spew")).arg("100");
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Kept open, and never read.
    let stdout = child.stdout.take();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
    assert!(stderr(&output).ends_with("was ended: timeout (raise it with --timeout)\n"));
    drop(stdout);
}

/// Opening a named pipe blocks until it has a writer. As a module it is refused: a module is a regular file.
#[cfg(unix)]
#[test]
fn opening_a_named_pipe_does_not_block() {
    let dir = empty();
    let pipe = dir.path().join("pipe.wasm");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (arguments, code, why, status) in [
        (&["pipe.wasm"][..], 126, "not a regular file but a pipe or a device", "not_started"),
        (&["--stdin", "pipe.wasm", "cat"], 124, "was not loaded in time: timeout", "timed_out"),
    ] {
        let mut command = belljar(dir.path());
        command.args(["run", "--timeout", "200ms", "--json=r.json"]).args(arguments);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
        let report = std::fs::read_to_string(dir.path().join("r.json")).unwrap();
        assert!(report.contains(&format!("\"status\":\"{status}\"")), "{report}");
    }
    // If the pipe has a writer, it can be opened, and reading it blocks.
    let (held, open) = (std::sync::mpsc::channel::<()>(), pipe.clone());
    let writer = std::thread::spawn(move || {
        let _open = std::fs::File::options().write(true).open(open).unwrap();
        let _ = held.1.recv();
    });
    let mut command = belljar(dir.path());
    command.args(["run", "--timeout", "200ms", "--stdin", "pipe.wasm", "cat"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
    assert!(stderr(&output).contains("was ended: timeout"));
    drop(held.0);
    writer.join().unwrap();
}

#[test]
fn allocation_ends_at_the_limit() {
    let dir = empty();
    let (code, out, report) = run(dir.path(), &["--max-memory", "100MiB"], "alloc_bomb", &[]);
    assert_eq!((code, &report["limits_hit"]), (3, &Value::from(vec!["memory"])), "{out}");
    let mib: u32 = out.trim().trim_end_matches(" MiB").parse().unwrap();
    assert!((64..=100).contains(&mib), "{out}");
}

#[test]
fn writing_ends_at_the_limit() {
    let dir = empty();
    let options = ["--max-upper", "10MiB"];
    let (code, _, report) = run(dir.path(), &options, "writer", &["big", "100"]);
    assert_eq!((code, &report["limits_hit"]), (1, &Value::from(vec!["upper"])));
    let (code, _, report) = run(dir.path(), &options, "many_files", &["1000000", "d"]);
    assert_eq!((code, &report["limits_hit"]), (1, &Value::from(vec!["upper"])));
    assert!(report["upper_bytes"].as_u64().unwrap() <= 10 << 20);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn output_ends_at_the_limit() {
    let dir = empty();
    let (code, out, report) = run(dir.path(), &["--max-output", "1MiB"], "spew", &["100"]);
    assert_eq!((code, &report["status"]), (134, &Value::from("limit")));
    assert_eq!(report["limits_hit"], Value::from(vec!["output"]));
    assert_eq!(out.len(), 1 << 20);
}

#[test]
fn recursion_ends_in_a_trap_at_a_depth_that_does_not_depend_on_the_host() {
    let dir = empty();
    let (code, _, report) = run(dir.path(), &[], "deep", &["100000000"]);
    assert_eq!((code, &report["status"]), (134, &Value::from("trapped")));
    let (code, out, _) = run(dir.path(), &[], "deep", &["30000"]);
    assert_eq!((code, out.as_str()), (0, "30000 levels\n"));
}

/// Regression: `--apply` put a guest's link at the path of the report, and the report followed it.
#[test]
fn a_report_does_not_follow_a_link_that_the_guest_made() {
    if !has_links("a_report_does_not_follow_a_link_that_the_guest_made") {
        return;
    }
    let outside = empty();
    let victim = outside.path().join("victim");
    std::fs::write(&victim, "precious").unwrap();
    let inside = outside.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let module = guest("overwrite");
    let apply = |options: &[&str], steps: &[&str]| {
        let mut command = belljar(&inside);
        command.args(["run", "--apply"]).args(options).arg(&module).args(steps).output().unwrap()
    };
    apply(&["--json=report.json"], &["unlink:report.json", "symlink:../victim:report.json"]);
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    apply(&[], &["symlink:../victim:trace.log"]);
    for option in ["--trace=trace.log", "--json=trace.log"] {
        let output = apply(&[option], &[]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("symbolic link"), "{}", stderr(&output));
    }
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
}

/// Code in the cache runs with the user's rights, so no guest may write there.
#[test]
fn the_cache_cannot_be_reached_through_a_mounted_folder() {
    let dir = empty();
    let cached = |arguments: &[&str]| {
        let mut command = belljar(dir.path());
        command.env("BELLJAR_CACHE_DIR", dir.path().join(".cache"));
        command.args(["run", "--quiet"]).args(arguments).output().unwrap()
    };
    let (hello, walk) = (guest("hello").display().to_string(), guest("walk").display().to_string());
    assert!(cached(&[&hello]).status.success());
    let cache = tree(&dir.path().join(".cache"));
    assert!(cache.len() > 2);
    let seen = stdout(&cached(&[&walk, "."]));
    assert!(!seen.contains("code-1"), "{seen}");
    let overwrite = guest("overwrite").display().to_string();
    let step = "write:.cache/code-1/keys/x:poison";
    assert!(!cached(&["--apply", &overwrite, step]).status.success());
    assert!(cached(&["--apply", &overwrite, "rename:.cache:moved"]).status.code() != Some(0));
    assert!(tree(&dir.path().join(".cache")).keys().all(|name| !name.ends_with("/x")));
    assert!(cached(&[&hello]).status.success());
}

#[test]
fn control_characters_in_names_are_escaped() {
    let dir = empty();
    let output = belljar(dir.path())
        .arg("run")
        .arg(guest("overwrite"))
        .arg("write:a\u{1b}[2J\nbelljar: all fine:x")
        .output()
        .unwrap();
    assert!(!stderr(&output).contains('\u{1b}'), "{}", stderr(&output));
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
}

#[test]
fn maximum_timeout_is_no_timeout() {
    let dir = empty();
    let options = ["--timeout", "9223372036854775807s"];
    assert_eq!(run(dir.path(), &options, "hello", &[]).0, 0);
}

/// Tables use memory of the host.
#[test]
fn tables_count_as_memory() {
    let dir = empty();
    let text =
        "(module (table 2000000 funcref) (table 2000000 funcref) (func (export \"_start\")))";
    std::fs::write(dir.path().join("t.wat"), text).unwrap();
    let start = |limit| belljar(dir.path()).args(["run", "--max-memory", limit, "t.wat"]).output();
    assert_eq!(start("64MiB").unwrap().status.code(), Some(0));
    assert_eq!(start("20MiB").unwrap().status.code(), Some(126));
}

#[test]
fn every_kind_of_trap_has_its_name() {
    let dir = empty();
    for (kind, message) in [
        ("unreachable", "unreachable"),
        ("divide", "divide by zero"),
        ("overflow", "integer overflow"),
        ("memory", "out of bounds memory access"),
        ("call", "indirect call"),
    ] {
        let (code, _, report) = run(dir.path(), &[], "trap", &[kind]);
        assert_eq!(code, 134, "{kind}");
        assert!(report["error"].as_str().unwrap().contains(message), "{kind}: {report}");
    }
}
