//! The command line: options, messages and exit codes.

mod applied;
mod checks;
mod compiling;
mod damaged;
#[cfg(unix)]
mod equal_files;
#[cfg(unix)]
mod executable;
mod hints;
mod host;
#[cfg(unix)]
mod host_limits;
mod link_parents;
mod link_texts;
mod living;
mod living_mounts;
mod living_moves;
mod living_replaced;
#[cfg(unix)]
mod living_twins;
mod living_unseen;
mod man_pages;
mod messages;
#[cfg(unix)]
mod moved_between;
mod names;
#[cfg(unix)]
mod native;
#[cfg(target_os = "linux")]
mod owners;
mod places;
mod plain_programs;
mod replacing;
mod report;
mod sandbox;
mod sessions;
mod sh;
mod streams;
mod tape;
mod tape_faults;
#[cfg(target_os = "linux")]
mod unseen;
mod verify;

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::support::{belljar, git_apply, guest, has, stderr, stdout};

fn scratch() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("note.txt"), "one\ntwo\n").unwrap();
    folder
}

fn run(folder: &Path, args: &[&str]) -> Output {
    belljar(folder).arg("run").args(args).output().unwrap()
}

fn guest_arg(name: &str) -> String {
    guest(name).display().to_string()
}

#[test]
fn nothing_is_written_unless_asked_for() {
    let folder = scratch();
    let note = folder.path().join("note.txt");
    let output = run(folder.path(), &["replace", "two", "three", "note.txt"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("1 change (note.txt modified)"), "{}", stderr(&output));
    assert!(stderr(&output).contains("--apply"));
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "one\ntwo\n");

    let output = run(folder.path(), &["--apply", "replace", "two", "three", "note.txt"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let expected = "belljar: 1 change (note.txt modified), written to the disk\n";
    assert_eq!(stderr(&output), expected);
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "one\nthree\n");
}

#[test]
fn diff_applies_with_git() {
    if !has("git", "diff_applies_with_git") {
        return;
    }
    let folder = scratch();
    let script = [
        "append:note.txt:more",
        "write:new/file:text",
        "symlink:note.txt:link",
        "rename:gone:kept",
    ];
    std::fs::write(folder.path().join("gone"), [0u8, 1, 2, 255]).unwrap();
    let module = guest_arg("overwrite");
    let mut args = vec!["--quiet", "--diff", &module, "mkdir:new"];
    args.extend(script);
    let output = run(folder.path(), &args);
    assert!(output.status.success(), "{}", stderr(&output));
    let applied = git_apply(folder.path(), &output.stdout);
    assert!(applied.status.success(), "{}: {}", stderr(&applied), stdout(&output));
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert_eq!(read("note.txt"), b"one\ntwo\nmore");
    assert_eq!(read("new/file"), b"text");
    assert_eq!(read("kept"), [0, 1, 2, 255]);
    assert!(!folder.path().join("gone").exists());
    #[cfg(unix)]
    assert_eq!(std::fs::read_link(folder.path().join("link")).unwrap(), Path::new("note.txt"));
}

/// Regression: the second mount hid the first without a message.
#[test]
fn two_mounts_at_one_path_are_refused() {
    let folder = scratch();
    for args in [&["run"][..], &["sandbox", "create"]] {
        let dirs = ["--dir", ".::/lib/sub", "--dir", ".::/lib"];
        let mut command = belljar(folder.path());
        command.args(args).args(dirs).env("BELLJAR_HOME", folder.path().join("home"));
        let output = command.args((args[0] == "run").then_some("true")).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let said = "--dir .::/lib: it would hide the mount at /lib/sub; put it before that one";
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    let args =
        ["--dir", ".::/lib", "--dir", ".::/lib/sub", "cat", "/lib/note.txt", "/lib/sub/note.txt"];
    assert_eq!(stdout(&run(folder.path(), &args)), "one\ntwo\none\ntwo\n");
}

/// Equivalent to `wasmtime run --dir H::G`.
#[test]
fn without_a_worktree_the_directories_are_exactly_those_given() {
    let folder = scratch();
    std::fs::create_dir(folder.path().join("other")).unwrap();
    let module = guest_arg("overwrite");
    let options = ["--no-worktree", "--apply", "--dir", "other::/w", "--dir", ".::/ro::ro"];
    let output = run(folder.path(), &[&options[..], &[&module, "write:/w/made:text"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(std::fs::read(folder.path().join("other/made")).unwrap(), b"text");
    for (step, errno) in [
        ("write:/ro/made:x", "Read-only file system"),
        ("write:/elsewhere/made:x", "No such file or directory"),
        ("write:/w/../escape:x", "Operation not permitted"),
    ] {
        let output = run(folder.path(), &[&options[..], &[&module, step]].concat());
        assert!(!output.status.success());
        assert!(stderr(&output).contains(errno), "{step}: {}", stderr(&output));
    }
}

#[test]
fn relative_and_absolute_paths_reach_the_same_files() {
    let folder = scratch();
    let lib = tempfile::tempdir().unwrap();
    std::fs::write(lib.path().join("part"), "a part\n").unwrap();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    std::fs::write(folder.path().join("src/main"), "main\n").unwrap();
    let mount = format!("{}::/lib::ro", lib.path().display());
    let paths = [
        "note.txt",
        "/worktree/note.txt",
        "src/main",
        "/lib/part",
        "/lib/../lib/part",
        "../worktree/note.txt",
    ];
    let output = run(folder.path(), &[&["--dir", &mount, "cat"][..], &paths].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), "one\ntwo\none\ntwo\nmain\na part\na part\none\ntwo\n");
    let output = run(folder.path(), &["--cwd", "src", "cat", "main", "../note.txt"]);
    assert_eq!(stdout(&output), "main\none\ntwo\n", "{}", stderr(&output));
    let output = run(folder.path(), &["cat", "../../etc/passwd"]);
    assert!(stderr(&output).contains("Operation not permitted"), "{}", stderr(&output));
}

/// An option after PROGRAM is never belljar's: an argument of an untrusted tool could be `--apply`.
#[test]
fn options_after_the_program_belong_to_the_program() {
    let folder = scratch();
    let module = guest_arg("env");
    let arguments = ["--apply", "--help", "--dir", "/etc::/etc", "-q", "--json", "--", "x"];
    let output = run(folder.path(), &[&[module.as_str()][..], &arguments].concat());
    let expected: Vec<String> =
        (1..).zip(arguments).map(|(i, arg)| format!("argv[{i}]={arg}\n")).collect();
    let environ = "environ[0]=PWD=/worktree\n";
    assert_eq!(stdout(&output), format!("argv[0]=env\n{}{environ}", expected.concat()));
    let output = run(folder.path(), &["replace", "--apply", "one", "1", "note.txt"]);
    assert!(!output.status.success(), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(folder.path().join("note.txt")).unwrap(), "one\ntwo\n");
}

/// Programs cannot tell `lib/f` from `/lib/f`: with both, one of them would be hidden.
#[test]
fn mount_at_a_name_of_the_worktree_is_refused() {
    let folder = scratch();
    std::fs::create_dir(folder.path().join("lib")).unwrap();
    std::fs::write(folder.path().join("lib/f"), "as it was").unwrap();
    let module = guest_arg("overwrite");
    let args = ["--dir", "lib::/lib::ro", &module, "write:/lib/f:changed"];
    let output = run(folder.path(), &args);
    assert_eq!(output.status.code(), Some(2));
    let expected = "belljar: --dir lib::/lib::ro: cannot mount at /lib: the worktree has \"lib\" of \
                    its own, and programs cannot tell lib/x from /lib/x; /lib2 is free\n";
    assert_eq!(stderr(&output), expected);
    for path in ["/lib2/f", "lib2/f", "/lib2/new", "lib2/new"] {
        let step = format!("write:{path}:changed");
        let output = run(folder.path(), &["--apply", "--dir", "lib::/lib2::ro", &module, &step]);
        assert!(stderr(&output).contains("Read-only file system"), "{path}: {}", stderr(&output));
    }
    assert_eq!(std::fs::read(folder.path().join("lib/f")).unwrap(), b"as it was");
    assert!(!folder.path().join("lib/new").exists() && !folder.path().join("lib2").exists());
}

#[cfg(unix)]
#[test]
fn closed_stderr_does_not_panic() {
    let folder = scratch();
    for command in ["run replace one 1 note.txt", "programs", "run nothing"] {
        let script = format!("\"$0\" {command} >/dev/full 2>/dev/full; echo $?");
        let output = crate::support::bash(folder.path(), &script);
        assert_ne!(stdout(&output), "101\n", "{command}");
    }
}

#[test]
fn standard_input_is_inherited_empty_or_a_file() {
    let folder = scratch();
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    std::fs::write(folder.path().join("bytes"), &bytes).unwrap();
    let output = run(folder.path(), &["--stdin", "bytes", "cat"]);
    assert!(output.stdout == bytes);
    assert_eq!(run(folder.path(), &["--stdin", "null", "cat"]).stdout, b"");
    let mut child = belljar(folder.path())
        .args(["run", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&bytes).map(|()| bytes));
    let output = child.wait_with_output().unwrap();
    assert!(output.stdout == writer.join().unwrap().unwrap());
}

/// The guest's output can be read while it still waits for input.
#[test]
fn output_streams_while_the_guest_runs() {
    use std::io::Read;

    let mut child = belljar(scratch().path())
        .current_dir(std::env::temp_dir())
        .args(["run", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut reply = [0; 5];
    for word in [b"first", b"other"] {
        stdin.write_all(word).unwrap();
        stdin.flush().unwrap();
        stdout.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, word);
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn environment_has_only_pwd_and_given_variables() {
    let folder = scratch();
    let module = guest_arg("env");
    let output = belljar(folder.path())
        .args(["run", "--env", "A=1", "--env", "PASSED", "--env", "UNSET", "--env", "B=x=y"])
        .args(["--argv0", "called", &module, "-x", "--env", "C=3"])
        .env("PASSED", "through")
        .output()
        .unwrap();
    let expected = "argv[0]=called\nargv[1]=-x\nargv[2]=--env\nargv[3]=C=3\n\
                    environ[0]=PWD=/worktree\nenviron[1]=A=1\nenviron[2]=PASSED=through\n\
                    environ[3]=B=x=y\n";
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
}

#[test]
fn clock_and_seed_are_options() {
    let folder = scratch();
    let clock = guest_arg("clock");
    let at = |options: &[&str]| stdout(&run(folder.path(), &[options, &[&clock]].concat()));
    assert!(at(&[]).starts_with("realtime 2114380800.000000000\n"));
    assert!(at(&["--start-at", "1970-01-01T00:00:01Z"]).starts_with("realtime 1.000000000\n"));
    assert!(at(&["--start-at", "1500"]).starts_with("realtime 1.500000000\n"));
    assert!(!at(&["--quiet", "--clock", "real"]).starts_with("realtime 2114380800."));
    let random = guest_arg("random");
    let with = |seed: &str| stdout(&run(folder.path(), &["--seed", seed, &random]));
    assert_eq!(with("0"), stdout(&run(folder.path(), &[&random])));
    assert_ne!(with("0"), with("1"));
}

#[test]
fn unknown_imports_trap_when_called_or_are_denied() {
    let folder = scratch();
    let module = guest_arg("missing_import");
    assert_eq!(run(folder.path(), &[&module]).status.code(), Some(0));
    let called = run(folder.path(), &[&module, "x"]);
    assert_eq!(called.status.code(), Some(134));
    assert!(stderr(&called).contains("env.nowhere"), "{}", stderr(&called));
    let denied = run(folder.path(), &["--unknown-imports", "deny", &module]);
    assert_eq!(denied.status.code(), Some(126));
    assert!(stderr(&denied).contains("env.nowhere"), "{}", stderr(&denied));
}

#[test]
fn programs_are_found_in_toolchains_first() {
    let folder = scratch();
    std::fs::copy(guest("hello"), folder.path().join("wc.wasm")).unwrap();
    let output = run(folder.path(), &["--toolchain", ".", "wc"]);
    assert_eq!(stdout(&output), "hello, world\n");
    let output = belljar(folder.path())
        .args(["run", "wc"])
        .env("BELLJAR_TOOLCHAIN", folder.path())
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "hello, world\n");
    let listed = belljar(folder.path()).args(["programs", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert!(listed.as_array().unwrap().iter().any(|program| program["name"] == "sha256sum"));
}

#[cfg(unix)]
#[test]
fn missing_program_may_run_natively() {
    let folder = scratch();
    let output = run(folder.path(), &["--on-missing", "native", "cat", "note.txt"]);
    assert_eq!(stdout(&output), "one\ntwo\n", "built in, so not the host's");
    assert!(!stderr(&output).contains("without protection"));
    let output = run(folder.path(), &["--on-missing", "native", "nice", "sed", "1q", "note.txt"]);
    assert_eq!(stdout(&output), "one\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("without protection"));
    let output = run(folder.path(), &["--on-missing", "native", "no-such-program-anywhere"]);
    assert_eq!(output.status.code(), Some(127), "{}", stderr(&output));
}

#[test]
fn a_trace_shows_calls_and_answers() {
    let folder = scratch();
    let output = run(folder.path(), &["--trace=t.log", "cat", "note.txt", "gone"]);
    assert_eq!(output.status.code(), Some(1));
    let trace = std::fs::read_to_string(folder.path().join("t.log")).unwrap();
    assert!(trace.contains("==> path_open(fd=4, \"note.txt\", "), "{trace}");
    assert!(trace.contains("<== fd=5, errno=success\n"), "{trace}");
    assert!(trace.contains("<== errno=noent\n"), "{trace}");
    assert!(trace.ends_with("==> proc_exit(code=1)\n<== exited with code 1\n"), "{trace}");
}

#[test]
fn help_and_completions_are_printed() {
    let folder = scratch();
    let help = belljar(folder.path()).args(["run", "--help"]).output().unwrap();
    for word in ["Examples:", "Exit codes", "--apply", "copy-on-write", "wasmtime run"] {
        assert!(stdout(&help).contains(word), "no {word}");
    }
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = belljar(folder.path()).args(["completions", shell]).output().unwrap();
        assert!(stdout(&script).contains("virtual-timeout"), "{shell}");
    }
    let doctor = belljar(folder.path())
        .args(["doctor", "--json"])
        .env("BELLJAR_HOME", folder.path().join("home"))
        .output()
        .unwrap();
    let doctor: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    assert_eq!(doctor["healthy"], true, "{doctor}");
}
