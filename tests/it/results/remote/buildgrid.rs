//! The same with BuildGrid and PostgreSQL, another server that others made.

use std::time::Duration;

use super::Machine;
use crate::support::buildgrid::BuildGrid;
use crate::support::{bash, number_from_env, stderr};

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

/// A server with a certificate that only a file of this user's vouches for.
#[test]
fn results_are_shared_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let script = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
                  -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE \
                  -keyout key.pem -out certificate.pem";
    let made = bash(folder.path(), script);
    assert!(made.status.success(), "{}", stderr(&made));
    let Some(buildgrid) = BuildGrid::start_with_tls(folder.path()) else { return };
    let (first, second) = (Machine::new(), Machine::new());
    let trusted = format!("--remote-certificates={}/certificate.pem", folder.path().display());
    let (counts, printed) = first.build(&buildgrid.address, &[&trusted, "--remote-upload"]);
    assert_eq!(counts, [0, 21, 0, 21]);
    let (counts, same) = second.build(&buildgrid.address, &[&trusted]);
    assert_eq!((counts, printed), ([21, 0, 21, 0], same));

    // Without it, and with TLS where the server has it not, or the other way round: a note, and the run goes on.
    let plain = buildgrid.address.replace("grpcs://", "grpc://");
    for (address, options) in [(&buildgrid.address, &[][..]), (&plain, &[])] {
        let args = [&["run", "--remote-timeout=5s"], options, &["cat", "in/1"]].concat();
        let (report, printed, said) = Machine::new().run(address, &args);
        assert_eq!(printed, "text of 1\nand more\n");
        let error = report["results"]["remote"]["error"].as_str().unwrap_or_default();
        assert!(!error.is_empty(), "{address}: {said}");
        if address.starts_with("grpcs") {
            assert!(error.contains("certificate"), "{address}: {error}");
        }
    }
}

#[test]
fn builds_end_right_when_buildgrid_is_killed() {
    let kills = number_from_env("BELLJAR_TEST_BUILDGRID_KILLS", 2);
    let Some(buildgrid) = BuildGrid::start() else { return };
    super::killed_in_builds(&mut buildgrid.address.clone(), kills, |_| {
        buildgrid.kill();
        // Until it has started again.
        std::thread::sleep(Duration::from_secs(2));
    });
}
