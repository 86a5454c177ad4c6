//! Programs of the host whose output nobody reads any more.
#![cfg(unix)]

use std::process::Stdio;

use crate::native_children::Place;
use crate::support::stdout;

/// Regression: the input of the loop was lost to a program whose reader had exited, and the program's actions on exit
/// were not done.
#[test]
fn program_whose_reader_exits_ends_as_natively() {
    let place = Place::new();
    let endless = "host-sh -c 'while echo x; do :; done 2>/dev/null'";
    let script =
        format!("while read -r name; do echo $name; {endless} | head -n 1; done < note.txt");
    let said = "one\nx\ntwo\nx\nthree\nx\n";
    assert_eq!(place.printed(&script), said);
    let ignoring = "host-sh -c 'trap \"\" PIPE; while echo x 2>/dev/null; do :; done; echo done > done; exit 5'";
    let script = format!(
        "{{ {ignoring} < /dev/null; echo $? > code; }} | head -n 1; cat code; {endless} | head -n 1"
    );
    let (recorded, _) = place.replayed(&[], &["sh", "-c", &script], Stdio::null());
    assert_eq!(stdout(&recorded), "x\n5\nx\n");
    assert_eq!(std::fs::read_to_string(place.worktree.path().join("done")).unwrap(), "done\n");
}

/// Regression: it learned that at the third write after.
#[test]
fn first_write_after_the_reader_has_exited_raises_sigpipe() {
    let place = Place::new();
    let writer = "host-sh -c 'echo ready; sleep 1; echo more; echo made > survived'";
    let script =
        format!("{{ {writer}; echo $? > code; }} | {{ read -r line; echo $line; }}; cat code");
    let (recorded, _) = place.replayed(&[], &["sh", "-c", &script], Stdio::null());
    assert_eq!(stdout(&recorded), "ready\n141\n");
    assert!(!place.worktree.path().join("survived").exists());
}

/// Regression: the program was killed, and called not runnable.
#[cfg(target_os = "linux")]
#[test]
fn program_whose_output_finds_no_room_goes_on_as_without_a_reader() {
    use crate::support::stderr;

    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let script =
        "host-sh -c 'trap \"\" PIPE; while echo x; do :; done 2>/dev/null; exit 5'; echo $? >&2";
    let place = Place::new();
    let tape = place.tape().display().to_string();
    let record = ["record", "--quiet", "--on-missing", "native", "--tape", &tape];
    let recorded = place
        .command(&[&record[..], &["--", "sh", "-c", script]].concat())
        .stdout(full)
        .output()
        .unwrap();
    let message =
        "belljar: cannot write the output of host-sh: No space left on device (ENOSPC)\n5\n";
    assert_eq!(stderr(&recorded), message);
    let replayed = place.command(&["replay", &tape]).env("PATH", "").output().unwrap();
    assert!(stderr(&replayed).starts_with(message), "{}", stderr(&replayed));
}

/// Regression: each program could write once more, so that a loop of them went on for ever.
#[test]
fn loop_of_programs_ends_when_the_reader_of_the_run_is_gone() {
    for script in
        ["while host-sh -c 'echo q'; do :; done", "while host-sh -c 'echo q >&2'; do :; done 2>&1"]
    {
        let place = Place::new();
        let (mut reader, writer) = std::io::pipe().unwrap();
        let args = ["sh", "--quiet", "--on-missing", "native", "-c", script];
        let mut belljar = place.command(&args);
        belljar.stdout(writer);
        let mut running = belljar.stdin(Stdio::null()).spawn().unwrap();
        drop(belljar);
        let mut begun = [0; 2];
        std::io::Read::read_exact(&mut reader, &mut begun).unwrap();
        drop(reader);
        // The status of the last `:`.
        assert_eq!(running.wait().unwrap().code(), Some(0), "{script}");
    }
}

/// Regression: a replay ended the program as soon as its reader exited.
#[test]
fn replay_ends_a_program_that_ignores_sigpipe_with_the_run() {
    let place = Place::new();
    let ignoring = "host-sh -c 'trap \"\" PIPE; while :; do echo x 2>/dev/null; sleep 0.05; done'";
    let script = format!("{ignoring} | head -n 1 & host-sh -c 'sleep 0.5'; echo done");
    let (recorded, _) = place.replayed(&[], &["sh", "-c", &script], Stdio::null());
    assert_eq!(stdout(&recorded), "x\ndone\n");
}
