//! BuildGrid with PostgreSQL, a second server of the Remote Execution API that others made.
//!
//! ```text
//! python3 -m pip install --target target/buildgrid buildgrid==0.4.4 psycopg2-binary==2.9.13
//! apt-get install postgresql
//! ```

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::casd::free_port;

/// The server, and perhaps a worker, which end when this is dropped: they notice that their standard input is closed.
pub struct BuildGrid {
    /// `grpc://HOST:PORT`.
    pub address: String,
    server: Child,
    worker: Option<Child>,
    folder: tempfile::TempDir,
}

fn installed() -> PathBuf {
    super::package().join("target/buildgrid")
}

/// Starts `command`, and waits until it says that it is ready.
fn start(command: &mut Command) -> Child {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("ready"), "{line:?}");
    child
}

impl BuildGrid {
    /// Starts one, if it is installed.
    pub fn start() -> Option<Self> {
        Self::start_with(None)
    }

    /// Starts one that speaks TLS, with `key.pem` and `certificate.pem` in the folder `tls`.
    pub fn start_with_tls(tls: &Path) -> Option<Self> {
        Self::start_with(Some(tls))
    }

    fn start_with(tls: Option<&Path>) -> Option<Self> {
        let is_there = installed().join("buildgrid").is_dir()
            && Path::new("/usr/lib/postgresql/15/bin/initdb").is_file();
        if !is_there {
            let is_required = std::env::var_os("BELLJAR_REQUIRE_BUILDGRID").is_some();
            assert!(!is_required, "{} or PostgreSQL 15 is not there", installed().display());
            eprintln!("SKIPPED: no BuildGrid");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let server = start(
            Command::new(super::package().join("tests/buildgrid/server.sh"))
                .args([&installed(), &folder.path().join("server")])
                .arg(port.to_string())
                .env("BUILDGRID_RESTART", "1")
                .envs(tls.map(|tls| ("BUILDGRID_TLS", tls))),
        );
        let scheme = if tls.is_some() { "grpcs" } else { "grpc" };
        Some(Self { address: format!("{scheme}://localhost:{port}"), server, worker: None, folder })
    }

    /// Starts a worker that executes actions with the program `runner`, so many at once.
    pub fn add_worker(&mut self, runner: &Path, jobs: usize) {
        let work = self.folder.path().join("worker");
        std::fs::create_dir(&work).unwrap();
        let mut command = Command::new("python3");
        command
            .arg(super::package().join("tests/buildgrid/bot.py"))
            .arg(format!("--remote={}", self.address.replace("grpc://", "http://")))
            .arg(format!("--jobs={jobs}"))
            .arg(format!("--work={}", work.display()))
            .arg("--")
            .arg(runner)
            .env("PYTHONPATH", installed())
            .stderr(Stdio::null());
        self.worker = Some(start(&mut command));
    }

    /// Kills the server, which starts again.
    pub fn kill(&self) {
        let pid = std::fs::read_to_string(self.folder.path().join("server/buildgrid.pid"));
        // It may have been killed already, and not be there again.
        let Some(pid) = pid.ok().and_then(|pid| pid.trim().parse().ok()) else { return };
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

impl Drop for BuildGrid {
    fn drop(&mut self) {
        for child in self.worker.iter_mut().chain([&mut self.server]) {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}
