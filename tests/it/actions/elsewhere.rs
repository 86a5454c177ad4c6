//! `--remote-exec`: what was moved, times, what is read and fetched, what happens without a server, and results of processes.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use super::remote_exec::{run, state};
use super::{Cluster, runner_script};
use crate::support::casd::Casd;
use crate::support::{belljar, stderr, stdout};

/// A folder with these files, all of them of 2001.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("a", "text of a\n"),
        ("b", "text of b\n"),
        ("d/x", "text of x\n"),
        ("d/inner/y", "text of y\n"),
        ("e/z", "text of z\n"),
        ("e/same", "text of a\n"),
    ] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    }
    folder
}

fn modified(folder: &Path, path: &str) -> Duration {
    let modified = fs::symlink_metadata(folder.join(path)).unwrap().modified().unwrap();
    modified.duration_since(UNIX_EPOCH).unwrap()
}

#[test]
fn what_was_moved_and_times_are_told_as_here() {
    let Some(cluster) = Cluster::start(1, &[]) else { return };
    let remote = cluster.option();
    for script in [
        "echo 1 >old; sleep 10; echo 2 >newer",
        "mv a moved",
        "mv a t; mv b a; mv t b",
        "mkdir -p new/deep; mv a new/deep/a; mv d new/deep/d",
        "mv d moved; mv moved/inner out; mv moved/x x; echo more >>x",
        "mv d t; mv e d; mv t e",
        "mv a b",
        "cp a b; mv a t; mv b a; mv t b",
        "cp -r d e/d; mv d t; mv e/d d; mv t e/d; mv e/d/inner e/d/x e",
        "mv a keep; echo text of a >a",
        "mv d/inner .; rm -r d; mkdir d; mv inner d/again",
        "mv a x1; mv x1 x2; chmod +x x2; mv d/x a; mkdir c; mv c b2",
        "mkdir .belljar-moved-0; mv a .belljar-moved-0/a; mv b c",
        "ln -s a l; mv l l2; mv d/x l",
        "rm -r d; mv e d; mv d/z z",
        "touch -d 2010-01-02T03:04:05Z a; touch b",
        "cat a >t; cat t >a; rm t",
        "touch -d 2010-01-02T03:04:05Z new d; echo 1 >old; sleep 10; echo 2 >newer",
        "touch -r a b; mv b c; cp -p a copy",
        "mv b x; echo t >>a; sleep 1; touch d/x",
        "mkdir x; echo t >>a; sleep 10; touch b",
        "echo b >b; sleep 1; touch -r b c",
        "echo b >b; sleep 1; cp -p b c; sleep 1",
        "ln a further",
        "ln a l1; ln a l2; rm a; ln d/x b2",
        "ln a further; echo more >>further; mv d/x x; ln x d/again",
        "rm b; ln a b; cp -p a c",
        "rm e/same; ln a e/same",
    ] {
        let folders = [folder(), folder()];
        acts_as_here(&remote, &folders, &[], script);
    }
}

#[test]
fn what_happens_between_mounts_is_told_as_here() {
    let Some(cluster) = Cluster::start(1, &[]) else { return };
    let remote = cluster.option();
    for script in [
        "echo t >>/m/z; sleep 2; echo x >a",
        "echo x >a; sleep 2; echo t >>/m/z",
        "mv a /m/moved; mv /m/z from",
        "mv d /m/d; mv /m/z z; echo more >>z",
        "ln a l; mv a /m/a",
        "mv none /m/none; ls -ld none; echo 1 >none/sub/new; mv none/sub/y none/sub/w",
        "mkdir none/dir; echo 1 >none/file; ls none",
        "rm -r none/sub/y d; mv e none/sub/",
    ] {
        let folders = [folder(), folder()];
        for folder in &folders {
            fs::create_dir(folder.path().join("w")).unwrap();
            for name in ["a", "b", "d"] {
                fs::rename(folder.path().join(name), folder.path().join("w").join(name)).unwrap();
            }
            fs::rename(folder.path().join("w/d/inner"), folder.path().join("s")).unwrap();
        }
        let mounts = ["--worktree=w", "--dir=e::/m", "--dir=s::/worktree/none/sub"];
        acts_as_here(&remote, &folders, &mounts, script);
    }
}

/// A run in the first of `folders`, and one elsewhere in the other one, with the same `options`, do the same.
fn acts_as_here(remote: &str, folders: &[tempfile::TempDir; 2], options: &[&str], script: &str) {
    let [here_in, there_in] = folders.each_ref().map(tempfile::TempDir::path);
    for how in ["--diff", "--apply"] {
        let mut words = [&["sh", how], options, &["-c", script]].concat();
        let (here, expected) = run(here_in, &words);
        words.insert(1, remote);
        let (there, elsewhere) = run(there_in, &words);
        assert_eq!(stdout(&here), stdout(&there), "{script}: {}", stderr(&there));
        assert_eq!(here.status, there.status, "{script}: {}", stderr(&there));
        assert_eq!(expected, elsewhere, "{how}: {script}");
    }
    assert_eq!(state(here_in), state(there_in), "{script}");
    // Those that a program sets; others are of when the changes were written, in their order.
    let paths: Vec<String> = state(here_in).into_keys().collect();
    for path in &paths {
        let [here, there] = [here_in, there_in].map(|folder| modified(folder, path).as_secs());
        assert!(here.abs_diff(there) <= 20, "{script}: {path}: {here}, and there {there}");
        let names = |folder: &Path| fs::symlink_metadata(folder.join(path)).unwrap().nlink();
        let is_file = |path: &&String| here_in.join(path).is_file();
        if !is_file(&path) {
            continue;
        }
        assert_eq!(names(here_in), names(there_in), "{script}: {path}");
        for other in paths.iter().filter(is_file) {
            let [here, there] = [here_in, there_in]
                .map(|folder| modified(folder, path).cmp(&modified(folder, other)));
            assert_eq!(here, there, "{script}: {path} and {other}");
        }
    }
}

/// To make the changes again takes other memory than they took.
#[test]
fn limit_of_changes_holds_once() {
    let Some(cluster) = Cluster::start(1, &[]) else { return };
    let remote = cluster.option();
    for (most, script) in [
        ("--max-upper=6000B", "i=0; while [ $i -lt 10 ]; do echo 1 >f$i; i=$((i+1)); done"),
        ("--max-upper=500B", "mv a c; mv b a; mv c b; mv d e2"),
        ("--max-upper=2000B", "i=0; while [ $i -lt 10 ]; do echo 1 >f$i; i=$((i+1)); done"),
    ] {
        acts_as_here(&remote, &[folder(), folder()], &[most], script);
    }
}

/// Hands everything on to `server`; counts the bytes that come from there.
fn counting(server: &str) -> (String, Arc<AtomicU64>) {
    let (listener, count) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::<AtomicU64>::default());
    let address = format!("grpc://{}", listener.local_addr().unwrap());
    let (server, counted) = (server.strip_prefix("grpc://").unwrap().to_owned(), count.clone());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
            let (to_server, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || hand_on(client, to_server, None));
            let counted = counted.clone();
            std::thread::spawn(move || hand_on(server, to_client, Some(&counted)));
        }
    });
    (address, count)
}

fn hand_on(mut from: TcpStream, mut to: TcpStream, counted: Option<&AtomicU64>) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        counted.inspect(|counted| {
            counted.fetch_add(count as u64, Ordering::Relaxed);
        });
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

#[test]
fn contents_are_fetched_only_if_they_are_needed() {
    let Some(cluster) = Cluster::start(1, &[]) else { return };
    let (address, count) = counting(&cluster.casd.address);
    let remote = format!("--remote-exec={address}");
    let script = "seq 1000000 >large; echo done";
    let mut fetched = Vec::new();
    for option in ["--check", "--quiet", "--diff=../diff", "--apply"] {
        let (here_in, there_in) = (folder(), folder());
        let (here, expected) = run(here_in.path(), &["sh", option, "-c", script]);
        let before = count.load(Ordering::Relaxed);
        let (there, elsewhere) = run(there_in.path(), &["sh", &remote, option, "-c", script]);
        fetched.push(count.load(Ordering::Relaxed) - before);
        assert_eq!(here.status, there.status, "{option}: {}", stderr(&there));
        assert_eq!(expected, elsewhere, "{option}");
        assert_eq!(state(here_in.path()), state(there_in.path()), "{option}");
    }
    let is_all = |bytes: &u64| *bytes > 6_000_000;
    assert_eq!(
        fetched.iter().map(is_all).collect::<Vec<_>>(),
        [false, false, true, true],
        "{fetched:?}"
    );
    assert!(fetched[..2].iter().all(|bytes| *bytes < 100_000), "{fetched:?}");
}

/// Edit, run, edit, run: also edits that leave the length and the time of a file as they were.
#[test]
fn edited_files_are_read_again() {
    let Some(cluster) = Cluster::start(1, &[]) else { return };
    let remote = cluster.option();
    let folder = folder();
    let cache = tempfile::tempdir().unwrap();
    let run = || {
        let output = belljar(folder.path())
            .env("BELLJAR_CACHE_DIR", cache.path())
            .args(["sh", &remote, "--stdin=null", "-c", "cat a b d/x"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    let table = cache.path().join("hashes-1");
    assert_eq!(run(), "text of a\ntext of b\ntext of x\n");
    // The files changed just before they were read: nothing is known of them.
    std::thread::sleep(Duration::from_millis(2100));
    assert_eq!(run(), "text of a\ntext of b\ntext of x\n");
    assert_eq!(fs::read_dir(&table).unwrap().count(), 1, "a table for the folder");
    assert_eq!(run(), "text of a\ntext of b\ntext of x\n");
    let path = folder.path().join("a");
    for text in ["next of a\n", "best of a\n"] {
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, text).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
        assert_eq!(run(), format!("{text}text of b\ntext of x\n"));
    }
    // Another file comes in place of one.
    fs::rename(folder.path().join("b"), &path).unwrap();
    fs::write(folder.path().join("b"), "text of c\n").unwrap();
    assert_eq!(run(), "text of b\ntext of c\ntext of x\n");
    // What is damaged is forgotten.
    let of_folder = fs::read_dir(&table).unwrap().next().unwrap().unwrap().path();
    fs::write(&of_folder, "damaged").unwrap();
    assert_eq!(run(), "text of b\ntext of c\ntext of x\n");
    // The server was emptied: what is known here is read and uploaded.
    drop(cluster);
    let Some(cluster) = Cluster::start(1, &[]) else { return };
    let remote = cluster.option();
    let output = belljar(folder.path())
        .env("BELLJAR_CACHE_DIR", cache.path())
        .args(["sh", &remote, "--stdin=null", "-c", "cat a b d/x"])
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "text of b\ntext of c\ntext of x\n", "{}", stderr(&output));
}

#[test]
fn run_is_made_here_if_the_server_fails_and_that_is_asked_for() {
    let folder = folder();
    let nobody = "--remote-exec=grpc://127.0.0.1:9";
    let script = "cat; echo made >new";
    let mut process = belljar(folder.path())
        .args(["sh", nobody, "--remote-exec-fallback", "--apply", "--json=../report", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It was read for the worker.
    process.stdin.take().unwrap().write_all(b"the input\n").unwrap();
    let output = process.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), "the input\n");
    assert!(
        stderr(&output).contains("belljar: warning: grpc://127.0.0.1:9: "),
        "{}",
        stderr(&output)
    );
    assert!(stderr(&output).contains("; sh runs here\n"), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(folder.path().join("new")).unwrap(), "made\n");
    let (_, report) = run(
        folder.path(),
        &["sh", nobody, "--remote-exec-fallback", "--check", "-c", "echo made >other"],
    );
    assert_eq!(report["exit_code"], 122);
    assert!(report["remote_exec_error"].as_str().unwrap().contains("127.0.0.1:9"), "{report}");
    assert_eq!(report["changes"][0]["path"], "other");

    // A worker that has not what the run needs.
    let Some(cluster) = Cluster::start(1, &["--max-output=10B"]) else { return };
    let words =
        ["sh", &cluster.option(), "--remote-exec-fallback", "-c", "seq 1000 | tail -n 1; seq 100"];
    let (output, _) = run(folder.path(), &words);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).starts_with("1000\n1\n"), "nothing of the first try is printed");

    let alone =
        belljar(folder.path()).args(["run", "--remote-exec-fallback", "true"]).output().unwrap();
    assert_eq!(alone.status.code(), Some(2), "{}", stderr(&alone));
}

/// What runs on a worker is known to those who share results with its server.
#[test]
fn processes_of_a_worker_are_known_to_everybody() {
    let Some(cluster) = Cluster::start(1, &["--cache-results"]) else { return };
    let remote = cluster.option();
    let script = "for f in a b d/x; do tr a-z A-Z <$f >${f##*/}.out; done; sort *.out; env";
    let (there, here) = (folder(), folder());
    let elsewhere = |more: &[&str]| {
        let args = ["sh", &remote, "--stdin=null", "--apply"];
        let output = belljar(there.path()).args(args).args(more).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        output
    };
    let output = elsewhere(&["-c", script]);
    elsewhere(&["--env=API_KEY=correct-horse-battery", "-c", "sort a"]);

    let cache = tempfile::tempdir().unwrap();
    let known = |more: &[&str]| {
        let address = format!("--remote-cache={}", cluster.casd.address);
        let output = belljar(here.path())
            .env("BELLJAR_CACHE_DIR", cache.path())
            .args(["sh", &address, "--mtimes=fixed", "--explain", "--stdin=null", "--apply"])
            .args(more)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        (stdout(&output), stderr(&output))
    };
    let (printed, said) = known(&["-c", script]);
    assert_eq!(printed, stdout(&output));
    assert!(said.contains("5 processes answered from the cache, 0 ran"), "{said}");
    assert_eq!(state(here.path()), state(there.path()));
    // What was given a secret was not shared.
    let (_, said) = known(&["--env=API_KEY=correct-horse-battery", "-c", "sort a"]);
    assert!(said.contains("0 processes answered from the cache, 1 ran"), "{said}");

    // And what others have added is known to the worker, which the log of the worker says.
    let log = cluster.home.path().join("log");
    let runner = runner_script(cluster.home.path());
    let wrapper = cluster.home.path().join("logging");
    fs::write(
        &wrapper,
        format!(
            "#!/bin/sh\nexec {} --cache-results --verbose \"$@\" 2>>{}\n",
            runner.display(),
            log.display()
        ),
    )
    .unwrap();
    fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let options = [format!("--buildbox-run={}", wrapper.display()), "--jobs=1".to_owned()];
    let Some(casd) = Casd::start_with(&options) else { return };
    let upload = format!("--remote-cache={}", casd.address);
    let first = belljar(folder().path())
        .env("BELLJAR_CACHE_DIR", cache.path())
        .args(["sh", &upload, "--remote-upload", "--mtimes=fixed", "--stdin=null"])
        .args(["-c", "tr a-z A-Z <a | sort"])
        .output()
        .unwrap();
    assert!(first.status.success(), "{}", stderr(&first));
    let there = belljar(folder().path())
        .args(["sh", &format!("--remote-exec={}", casd.address), "--stdin=null"])
        .args(["-c", "tr a-z A-Z <a | sort"])
        .output()
        .unwrap();
    assert_eq!(stdout(&there), stdout(&first), "{}", stderr(&there));
    let log = fs::read_to_string(&log).unwrap();
    assert!(log.contains("2 processes answered from results, 0 ran"), "{log}");
}

/// A worker that is killed leaves no process behind that goes on for nobody.
#[test]
fn runner_ends_when_its_worker_is_killed() {
    let Some(mut cluster) = Cluster::start(1, &[]) else { return };
    let command = bazel_remote_apis::build::bazel::remote::execution::v2::Command {
        arguments: ["sh", "-c", "while :; do :; done"].map(str::to_owned).to_vec(),
        ..Default::default()
    };
    let action = cluster.client.action(&super::client::Tree::new(), &command, |_| ());
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("action"), action).unwrap();
    let runner = runner_script(cluster.home.path());
    let script = format!(
        "{} --remote={} --action=action --action-result=result & echo $!; wait",
        runner.display(),
        cluster.casd.address.replace("grpc://", "http://")
    );
    let mut worker = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pid = [0; 20];
    let count = worker.stdout.as_mut().unwrap().read(&mut pid).unwrap();
    let pid = String::from_utf8_lossy(&pid[..count]).trim().to_owned();
    let of_runner = Path::new("/proc").join(&pid).join("cmdline");
    let is_there = || fs::read_to_string(&of_runner).is_ok_and(|line| line.contains("runner"));
    std::thread::sleep(Duration::from_secs(1));
    assert!(is_there(), "it executes the action");
    worker.kill().unwrap();
    worker.wait().unwrap();
    let killed = Instant::now();
    while is_there() {
        assert!(killed.elapsed() < Duration::from_mins(1), "it goes on");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(!folder.path().join("result").exists());
}
