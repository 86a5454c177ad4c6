//! The same with buildbox-casd, a server that others made.

use std::time::Instant;

use super::Machine;
use crate::support::casd::{Casd, free_port};
use crate::support::{number_from_env, stderr, tree};

#[test]
fn second_machine_runs_nothing_with_buildbox_casd() {
    let Some(casd) = Casd::start() else { return };
    super::shared_over(&casd.address);
    super::large_results_are_shared_over(&casd.address);
}

#[test]
fn signatures_are_kept_by_buildbox_casd() {
    let Some(casd) = Casd::start() else { return };
    super::trust::signed_results_are_shared_over(&casd.address);
}

#[test]
fn buildbox_casd_that_was_killed_and_started_again_still_has_the_results() {
    let Some(casd) = Casd::start() else { return };
    let (counts, printed) = Machine::new().build(&casd.address, &["--remote-upload"]);
    assert_eq!(counts[3], 21);
    let Some(casd) = Casd::start_in(casd.kill(), free_port()) else { return };
    let (counts, again) = Machine::new().build(&casd.address, &[]);
    assert_eq!((counts, again), ([21, 0, 21, 0], printed));
}

/// The server is killed at points all over a build that adds results, or is answered from them, and what it kept serves the
/// next build.
#[test]
fn builds_end_right_when_buildbox_casd_is_killed() {
    let kills = number_from_env("BELLJAR_TEST_CASD_KILLS", 3);
    let Some(mut casd) = Casd::start() else { return };
    let plain = Machine::new();
    plain.0.belljar(&["sh", "--apply", "build.sh"]);
    let right = tree(&plain.0.tree());
    let begun = Instant::now();
    Machine::new().build(&casd.address, &[]);
    let whole = begun.elapsed();
    for kill in 0..kills {
        let machine = Machine::new();
        let address = format!("--remote-cache={}", casd.address);
        let after = whole * u32::try_from(kill).unwrap() / u32::try_from(kills).unwrap();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(after);
            casd.kill()
        });
        let args =
            ["sh", "--apply", "--remote-upload", "--remote-timeout=2s", &address, "build.sh"];
        let output = machine.0.belljar(&args);
        assert_eq!(output.status.code(), Some(0), "killed after {after:?}: {}", stderr(&output));
        assert_eq!(tree(&machine.0.tree()), right, "killed after {after:?}");
        let Some(next) = Casd::start_in(killer.join().unwrap(), free_port()) else { return };
        casd = next;
    }
    let last = Machine::new();
    last.build(&casd.address, &["--remote-upload"]);
    assert_eq!(tree(&last.0.tree()), right);
    assert_eq!(Machine::new().build(&casd.address, &[]).0[..2], [21, 0], "the results are whole");
}
