//! `belljar:process` and `belljar:host`: processes of components (`tests/guests/rust/process-calls` makes the calls), and
//! the crate `belljar-guest` (`guest-examples/rust/commands` starts programs with it).

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::{belljar, package, stderr, stdout};

fn guest(name: &str) -> PathBuf {
    package().join("tests/guests").join(name)
}

/// `belljar run` of `program` in `folder`, without what it says of changes.
fn run_in(folder: &Path, program: &Path, words: &[&str]) -> Output {
    belljar(folder).args(["run", "--quiet"]).arg(program).args(words).output().unwrap()
}

/// What `process-calls` prints.
fn printed(words: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = run_in(folder.path(), &guest("process_calls.wasm"), words);
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    stdout(&output)
}

/// What programs print that start others in all ways of `std::process`.
const COMMANDS: &str = include_str!("commands.txt");

#[test]
fn programs_start_others_on_both_versions_of_wasi() {
    for program in ["commands_wasip1.wasm", "commands_wasip2.wasm"] {
        let folder = tempfile::tempdir().unwrap();
        let output = run_in(folder.path(), &guest(program), &[]);
        assert!(output.status.success(), "{program}: {}", stderr(&output));
        assert_eq!(stdout(&output), COMMANDS, "{program}");
        assert!(!folder.path().join("d").exists(), "its changes stay in the run");
    }
}

/// The same program, built for this machine, where `belljar-guest` is `std::process`.
#[cfg(unix)]
#[test]
fn programs_start_others_as_natively() {
    let target = package().join("target/guests/native");
    let mut cargo =
        std::process::Command::new(std::env::var("CARGO").unwrap_or("cargo".to_owned()));
    cargo.args(["build", "--quiet", "--locked", "--package", "commands", "--manifest-path"]);
    cargo.arg(package().join("guest-examples/rust/Cargo.toml")).arg("--target-dir").arg(&target);
    let built = cargo.env_remove("CARGO_BUILD_TARGET").output().unwrap();
    if !built.status.success() && std::env::var_os("BELLJAR_REQUIRE_WASI_TARGET").is_none() {
        return println!("skipped: the program cannot be built here: {}", stderr(&built));
    }
    assert!(built.status.success(), "{}", stderr(&built));
    let folder = tempfile::tempdir().unwrap();
    let mut program = std::process::Command::new(target.join("debug/commands"));
    let output = program.current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), COMMANDS);
}

#[test]
fn child_is_waited_for_as_often_as_asked() {
    let seven = "ExitStatus::Exited(7), then ExitStatus::Exited(7)\n";
    assert_eq!(printed(&["spawn", "sh", "-c", "exit 7"]), seven);
    let killed = "ExitStatus::Signalled(15), then ExitStatus::Signalled(15)\n";
    assert_eq!(printed(&["spawn", "sh", "-c", "kill -TERM $$"]), killed);
}

#[test]
fn errors_of_processes_have_names() {
    let wanted = "no entry no-entry
directory access
NUL invalid
long path name-too-long
no name invalid
bad name invalid
current-dir no-entry
to 4 unsupported
to 9999 bad-descriptor
same as bad-descriptor
many arguments argument-list-too-long
many descriptors argument-list-too-long
arguments argument-list-too-long
kill invalid unsupported
kill 0 (), winch ()
wait ExitStatus::Exited(5), then Some(ExitStatus::Exited(5))
kill after no-such-process
kill nobody no-such-process, with 0 no-such-process
chdir no-entry
chdir long name-too-long
";
    assert_eq!(printed(&["errors"]), wanted);
}

#[test]
fn stream_of_a_file_begins_for_a_child_where_it_is() {
    let wanted = "at 3: 012abc6789
appended: 012abc6789end
read before: Ok([49, 50])
abc6789end
shared: one two
both: one two+-
copied: 012abc67012nd
still mine: Ok(13)
";
    assert_eq!(printed(&["places"]), wanted);
}

#[test]
fn children_have_the_descriptors_that_they_are_given() {
    // The file that the component has open itself is not among them.
    assert_eq!(printed(&["descriptors"]), "no more\ngiven\nthrough\n\n");
}

/// A script gives a component a descriptor, which gives it to its child without knowing it.
#[test]
fn inherited_descriptors_go_on_to_children_of_components() {
    let folder = tempfile::tempdir().unwrap();
    let program = guest("process_calls.wasm");
    std::fs::copy(program, folder.path().join("calls.wasm")).unwrap();
    let script = "./calls.wasm spawn sh -c 'echo through >&7' 7>out; cat out";
    let output = belljar(folder.path()).args(["sh", "-q", "-c", script]).output().unwrap();
    assert_eq!(
        stdout(&output),
        "ExitStatus::Exited(0), then ExitStatus::Exited(0)\nthrough\n",
        "{}",
        stderr(&output)
    );
}

#[test]
fn process_ids_and_the_current_directory_are_those_of_the_kernel() {
    let wanted = "1 0\nchild 2\n2 1\nExitStatus::Exited(0)\n\"/worktree\"\n";
    assert_eq!(printed(&["ids"]), wanted);
}

#[test]
fn ends_of_children_are_waited_for_beside_other_events() {
    let wanted = "false false
[1]
ExitStatus::Exited(0), still [1]
[1]
true Some(ExitStatus::Exited(0)) 86403
";
    assert_eq!(printed(&["subscribe"]), wanted);
}

#[test]
fn loop_that_asks_for_the_end_of_a_child_ends() {
    assert_eq!(printed(&["impatient"]), "done\n");
}

#[test]
fn commands_of_the_host_end_by_sigpipe_whatever_the_caller_ignores() {
    let done = printed(&["ignores-sigpipe", r#"{"command":"yes | head -1"}"#]);
    assert!(done.contains(r#"\"stderr\":\"\""#), "{done}");
}

/// The limit of processes is 500.
#[test]
fn dropped_children_need_not_be_waited_for() {
    assert_eq!(printed(&["dropped", "600"]), "600 dropped\n");
}

#[test]
fn pipes_end_at_the_limit() {
    assert_eq!(printed(&["pipes", "100"]), "100\n");
    assert_eq!(printed(&["pipes", "2000"]), "too-many-open-files\n");
}

#[test]
fn writing_to_a_pipe_without_a_reader_fails_or_ends_the_process() {
    assert_eq!(printed(&["broken", "ignored"]), "Err(\"failed\")\n");
    let folder = tempfile::tempdir().unwrap();
    let ended = run_in(folder.path(), &guest("process_calls.wasm"), &["broken", "default"]);
    assert_eq!((ended.status.code(), stdout(&ended)), (Some(141), String::new()));
}

#[test]
fn stream_that_is_given_away_must_have_no_pollables() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["pollable-of-a-given-stream"];
    let ended = run_in(folder.path(), &guest("process_calls.wasm"), &words);
    assert_eq!(ended.status.code(), Some(134));
    assert!(stderr(&ended).contains("a resource was dropped before its children"));
}

#[test]
fn component_calls_the_host() {
    assert_eq!(printed(&["has", "process", "process.exec", "nope"]), "true\ntrue\nfalse\n");
    let done = printed(&["call", "process.exec", r#"{"command":"echo hi"}"#]);
    assert!(done.starts_with("Ok(") && done.contains(r#"\"stdout\":\"hi\\n\""#), "{done}");
    let failed = printed(&["call", "no.such", ""]);
    assert!(failed.contains("kind: \"unsupported\""), "{failed}");
    let failed = printed(&["call", "process.exec", "{"]);
    assert!(failed.contains("kind: \"params\""), "{failed}");
    assert_eq!(printed(&["call-long-name"]), "false Err(\"unsupported\")\n");
}

/// Programs of both versions of WASI and built-in ones in one tree, recorded and replayed.
#[test]
fn tree_of_all_kinds_of_programs_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = ("guest-examples/rust/wasip1", "guest-examples/rust/wasip2");
    for (from, to) in [(old, "old"), (new, "new")] {
        let file = package().join(from).join("pipeline.wasm");
        std::fs::copy(file, folder.path().join(to).with_extension("wasm")).unwrap();
    }
    let script = "./old.wasm seq 100 , ./new.wasm grep 7 , ./old.wasm head -3 , cat; ./new.wasm sh -c 'exit 3'";
    let run = |how: &[&str]| {
        let output = belljar(folder.path()).args(how).output().unwrap();
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let recorded = run(&["record", "-q", "--tape", "t.tape", "--", "sh", "-c", script]);
    assert_eq!((recorded.0, &*recorded.1), (Some(3), "7\n17\n27\n"), "{}", recorded.2);
    let replayed = run(&["replay", "t.tape"]);
    assert_eq!((replayed.0, replayed.1), (recorded.0, recorded.1), "{}", replayed.2);
}

#[test]
fn examples_ask_the_host() {
    let folder = tempfile::tempdir().unwrap();
    for version in ["wasip1", "wasip2"] {
        let ask = package().join("guest-examples/rust").join(version).join("ask.wasm");
        let done = run_in(folder.path(), &ask, &["process.exec", r#"{"command":"echo hi"}"#]);
        assert!(stdout(&done).contains(r#""stdout":"hi\n""#), "{version}: {}", stderr(&done));
        let failed = run_in(folder.path(), &ask, &["net.nothing"]);
        assert_eq!(failed.status.code(), Some(1));
        let said = stderr(&failed);
        assert!(said.starts_with("ask: unsupported operation net.nothing"), "{version}: {said}");
    }
}
