//! Native programs that are ended may clean up first: `make` removes the target that it was making.
#![cfg(unix)]

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::native_children::Place;
use crate::support::{stderr, stdout};

/// A program that begins to make `half`, and removes it if a signal ends it.
const MAKES: &str = "trap 'sleep 0.1; rm half; echo removed >said; exit 3' TERM INT HUP; echo part >half; while :; do sleep 0.01; done";

/// Those of `numbers` that the tests were not started to ignore, as by `nohup`: programs ignore these then, too.
fn heard(numbers: &[u32]) -> Vec<u32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.map_or(0, |mask| u64::from_str_radix(mask.trim(), 16).unwrap());
    numbers.iter().copied().filter(|number| mask >> (number - 1) & 1 == 0).collect()
}

/// The numbers of the signals.
const HUP: u32 = 1;
const INT: u32 = 2;
const TERM: u32 = 15;

fn wait_for(path: &Path) {
    while !path.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the program has cleaned up in `place`.
fn is_clean(place: &Place) -> bool {
    let folder = place.worktree.path();
    !folder.join("half").exists() && folder.join("said").exists()
}

#[test]
fn program_that_a_script_kills_cleans_up() {
    for signal in heard(&[HUP, INT, TERM]) {
        let place = Place::new();
        let script = format!(
            "host-sh -c \"{MAKES}\" & until [ -e half ]; do sleep 0.05; done; kill -{signal} $!; wait $!; echo $?"
        );
        // The disk's files are read again each time that they are looked for.
        let script = script.replace("until [ -e half ]", "until host-sh -c '[ -e half ]'");
        assert_eq!(place.printed(&script), format!("{}\n", 128 + signal), "{signal}");
        assert!(is_clean(&place), "{signal}");
    }
}

#[test]
fn program_that_sigkill_ends_does_not() {
    let place = Place::new();
    let script = format!(
        "host-sh -c \"{MAKES}\" & until host-sh -c '[ -e half ]'; do sleep 0.05; done; kill -9 $!; wait $!; echo $?"
    );
    assert_eq!(place.printed(&script), "137\n");
    assert!(!is_clean(&place));
}

#[test]
fn program_that_the_end_of_the_run_or_a_timeout_ends_cleans_up() {
    let place = Place::new();
    place.printed(&format!(
        "host-sh -c \"{MAKES}\" & until host-sh -c '[ -e half ]'; do sleep 0.05; done; echo done"
    ));
    assert!(is_clean(&place), "the script ended");
    let place = Place::new();
    let args = ["sh", "--on-missing", "native", "--timeout", "1s", "-c"];
    let output = place.command(&args).arg(format!("host-sh -c \"{MAKES}\"")).output().unwrap();
    assert_eq!(output.status.code(), Some(124), "{}{}", stdout(&output), stderr(&output));
    assert!(is_clean(&place), "the timeout");
    // Regression: belljar waited a second for calls of the host that block, and no longer for this.
    let place = Place::new();
    let slow = MAKES.replace("sleep 0.1", "sleep 1.5");
    let output = place.command(&args).arg(format!("host-sh -c \"{slow}\"")).output().unwrap();
    assert_eq!(output.status.code(), Some(124), "{}{}", stdout(&output), stderr(&output));
    assert!(is_clean(&place), "the timeout, slowly");
}

/// A program that does not end is killed.
#[test]
fn program_that_ignores_signals_is_killed() {
    let place = Place::new();
    let stubborn = "trap '' TERM; echo begun >begun; while :; do sleep 0.01; done";
    let script = format!(
        "host-sh -c \"{stubborn}\" & until host-sh -c '[ -e begun ]'; do sleep 0.05; done; kill $!; wait $!; echo $?"
    );
    assert_eq!(place.printed(&script), "143\n");
}

/// Ends `belljar` by `signal` once the program has begun; returns the signal that ended it.
fn ended_by(mut belljar: Child, place: &Place, signal: rustix::process::Signal) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;

    wait_for(&place.worktree.path().join("half"));
    let pid = rustix::process::Pid::from_child(&belljar);
    rustix::process::kill_process(pid, signal).unwrap();
    belljar.wait().unwrap().signal()
}

#[test]
fn program_cleans_up_when_ctrl_c_ends_belljar() {
    use rustix::process::Signal;

    let signals = heard(&[HUP, INT, TERM]).into_iter();
    let signals = signals.map(|number| Signal::from_named_raw(number.cast_signed()).unwrap());
    for signal in signals {
        let place = Place::new();
        let script = format!("host-sh -c \"{MAKES}\"; host-sh -c 'echo next >next'");
        let mut belljar = place.command(&["sh", "--on-missing", "native", "-c", &script]);
        let belljar = belljar.stdin(Stdio::null()).spawn().unwrap();
        assert_eq!(ended_by(belljar, &place, signal), Some(signal.as_raw()));
        assert!(is_clean(&place), "{signal:?}");
        assert!(!place.worktree.path().join("next").exists(), "the script ends with it");
    }
    let place = Place::new();
    let tape = place.tape();
    let args = ["native", "--tape", tape.to_str().unwrap(), "host-sh", "-c", MAKES];
    let belljar = place.command(&args).stdin(Stdio::null()).spawn().unwrap();
    assert_eq!(ended_by(belljar, &place, Signal::TERM), Some(Signal::TERM.as_raw()));
    assert!(is_clean(&place), "belljar native");
}

/// It would act on another directory of this name.
#[test]
fn program_is_not_started_in_a_directory_that_the_run_made_or_moved() {
    for script in [
        "rm -r build; mkdir build; cd build; host-sh -c 'rm -f old; touch made'",
        "rm -r build; mv other build; cd build; host-sh -c 'rm -f old'",
        "mv build kept; mv other build; cd build/sub; host-sh -c 'rm -f old'",
    ] {
        let place = Place::new();
        let folder = place.worktree.path();
        for dir in ["build/sub", "other/sub"] {
            std::fs::create_dir_all(folder.join(dir)).unwrap();
            std::fs::write(folder.join(dir).join("old"), "").unwrap();
        }
        std::fs::write(folder.join("build/old"), "").unwrap();
        let args = ["sh", "--quiet", "--on-missing", "native", "-c", script];
        let output = place.command(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(126), "{script}: {}", stderr(&output));
        assert!(stderr(&output).contains("made or moved the directory"), "{}", stderr(&output));
        assert!(folder.join("build/old").exists() && folder.join("build/sub/old").exists());
        assert!(!folder.join("build/made").exists());
    }
}
