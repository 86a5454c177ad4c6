//! The same with buildbox-casd, a server that others made.

use super::Machine;
use crate::support::casd::{Casd, free_port};
use crate::support::{number_from_env, tree};

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
    let mut casd = Casd::start();
    let Some(mut address) = casd.as_ref().map(|casd| casd.address.clone()) else { return };
    let right = super::killed_in_builds(&mut address, kills, |address| {
        let kept = casd.take().expect("one runs").kill();
        casd = Casd::start_in(kept, free_port());
        address.clone_from(&casd.as_ref().expect("it started before").address);
    });
    let last = Machine::new();
    last.build(&address, &["--remote-upload"]);
    assert_eq!(tree(&last.0.tree()), right);
    assert_eq!(Machine::new().build(&address, &[]).0[..2], [21, 0], "the results are whole");
}
