//! Runs that reach a limit on host resources, or the limit on the length of a record.

use crate::cli::scratch;
#[cfg(target_os = "linux")]
use crate::support::stdout;
use crate::support::{bash, stderr};

/// Regression: no program could be started, the script went on, and its remaining changes were written to the disk.
#[cfg(target_os = "linux")]
#[test]
fn a_script_runs_where_address_space_is_limited() {
    let folder = scratch();
    let script =
        "ulimit -v 100000000; \"$0\" sh --apply -c 'cp note.txt kept; echo new > note.txt'";
    let output = bash(folder.path(), script);
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!((&*read("kept"), &*read("note.txt")), ("one\ntwo\n", "new\n"));
    let output = bash(folder.path(), "ulimit -v 100000000; \"$0\" doctor");
    assert!(stdout(&output).contains("FAILED  pool "), "{}", stdout(&output));
}

/// Regression: a module could not reserve the address space for its memory; the script went on, and its remaining
/// changes were written to the disk.
#[cfg(target_os = "linux")]
#[test]
fn run_ends_if_a_module_cannot_reserve_its_memory() {
    let folder = scratch();
    let script = "ulimit -v 4000000; \"$0\" record --tape run.tape --apply -- \
                  sh -c 'echo begun; cp note.txt kept; echo new > note.txt'";
    let output = bash(folder.path(), script);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(134), "{message}");
    assert!(message.contains("belljar: cannot start cp: "), "{message}");
    assert!(message.contains("limit of host resources"), "{message}");
    assert_eq!(std::fs::read_to_string(folder.path().join("note.txt")).unwrap(), "one\ntwo\n");
    let replayed = bash(folder.path(), "\"$0\" replay run.tape");
    assert_eq!(replayed.status.code(), Some(134), "{}", stderr(&replayed));
    assert!(stderr(&replayed).contains("the run is the same"), "{}", stderr(&replayed));
}

/// Regression: a native program could not be started; the script went on, and its remaining changes were written to the
/// disk.
#[test]
fn run_ends_if_the_host_cannot_start_a_native_program() {
    let folder = scratch();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).ok();
    let doubled = format!("{}{}", "one\n".repeat(4), "two\n".repeat(4));
    let mut ended = 0;
    for files in 12..40 {
        let script = format!(
            "printf 'one\\ntwo\\n' > note.txt; rm -f kept; ulimit -n {files}; \"$0\" record --quiet \
             --tape run.tape --apply --on-missing native -- sh -c 'nice sed p note.txt | nice sed p > kept; echo new > note.txt'"
        );
        let output = bash(folder.path(), &script);
        let message = stderr(&output);
        if message.contains("limit of host resources") {
            ended += 1;
            assert_eq!(output.status.code(), Some(134), "{files}: {message}");
            let replayed = bash(folder.path(), "\"$0\" replay run.tape");
            assert!(stderr(&replayed).contains("the run is the same"), "{}", stderr(&replayed));
        }
        if output.status.success() {
            assert_eq!(read("kept").as_deref(), Some(&*doubled), "{files}: {message}");
            assert_eq!(read("note.txt").as_deref(), Some("new\n"), "{files}: {message}");
        } else {
            assert_eq!((read("kept"), read("note.txt")), (None, Some("one\ntwo\n".to_owned())));
        }
    }
    assert!(ended > 0);
}

/// Regression: the tape had a line that could not be read.
#[test]
fn a_call_whose_record_is_too_long_ends_the_recording() {
    let folder = scratch();
    let script = r#""$0" record --tape run.tape -- \
        sh -c 'basename "$(head -c 3000000 /dev/zero | tr "\0" "\033")"'"#;
    let output = bash(folder.path(), script);
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(stderr(&output).contains("exceeds the limit of 16777216 bytes"), "{}", stderr(&output));
    assert!(!folder.path().join("run.tape").exists());
}

/// A memory that cannot grow because this machine has none left ends the run: the program would see that, and do something
/// else than on another machine. A replay ends there, too.
#[cfg(target_os = "linux")]
#[test]
fn memory_that_this_machine_does_not_have_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let module = r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 1)
        (func (export "_start") (if (i32.eq (memory.grow (i32.const 32000)) (i32.const -1)) (then (call $exit (i32.const 1))))))"#;
    std::fs::write(folder.path().join("grows.wat"), module).unwrap();
    let record = "record --tape run.tape -- ./grows.wat";
    // Compiled before there is a limit.
    assert_eq!(bash(folder.path(), "\"$0\" run ./grows.wat").status.code(), Some(0));
    let output = bash(folder.path(), &format!("ulimit -d 1000000; \"$0\" {record}"));
    assert_eq!(output.status.code(), Some(134), "{}", stderr(&output));
    assert!(stderr(&output).contains("this machine has no memory left"), "{}", stderr(&output));
    let replayed = bash(folder.path(), "\"$0\" replay run.tape");
    assert_eq!(replayed.status.code(), Some(134), "{}", stderr(&replayed));
    assert!(stderr(&replayed).contains("the run is the same"), "{}", stderr(&replayed));
}
