//! The same with BuildGrid and PostgreSQL, another server that others made.

use std::time::{Duration, Instant};

use super::Machine;
use crate::support::buildgrid::BuildGrid;
use crate::support::{number_from_env, stderr, tree};

#[test]
fn second_machine_runs_nothing_with_buildgrid() {
    let Some(buildgrid) = BuildGrid::start() else { return };
    super::shared_over(&buildgrid.address);
    super::large_results_are_shared_over(&buildgrid.address);
}

#[test]
fn signatures_are_kept_by_buildgrid() {
    let Some(buildgrid) = BuildGrid::start() else { return };
    super::trust::signed_results_are_shared_over(&buildgrid.address);
}

#[test]
fn builds_end_right_when_buildgrid_is_killed() {
    let kills = number_from_env("BELLJAR_TEST_BUILDGRID_KILLS", 2);
    let Some(buildgrid) = BuildGrid::start() else { return };
    let plain = Machine::new();
    plain.0.belljar(&["sh", "--apply", "build.sh"]);
    let right = tree(&plain.0.tree());
    let begun = Instant::now();
    Machine::new().build(&buildgrid.address, &[]);
    let whole = begun.elapsed();
    for kill in 0..kills {
        let machine = Machine::new();
        let address = format!("--remote-cache={}", buildgrid.address);
        let after = whole * u32::try_from(kill).unwrap() / u32::try_from(kills).unwrap();
        let output = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(after);
                buildgrid.kill();
            });
            let args =
                ["sh", "--apply", "--remote-upload", "--remote-timeout=2s", &address, "build.sh"];
            machine.0.belljar(&args)
        });
        assert_eq!(output.status.code(), Some(0), "killed after {after:?}: {}", stderr(&output));
        assert_eq!(tree(&machine.0.tree()), right, "killed after {after:?}");
        // Until it has started again.
        std::thread::sleep(Duration::from_secs(2));
    }
}
