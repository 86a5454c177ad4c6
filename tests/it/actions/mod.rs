//! Actions of the Remote Execution API: `belljar runner`, which buildbox-casd calls, and `--remote-exec`.

mod buildgrid;
mod client;
mod elsewhere;
mod hostile;
mod remote_exec;
mod runner;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;

use self::client::{Client, Tree};
use crate::support::cache_dir;
use crate::support::casd::Casd;

/// A server whose worker is belljar.
struct Cluster {
    casd: Casd,
    client: Client,
    /// The home of belljar on the worker.
    home: tempfile::TempDir,
}

/// A program in the directory `home`, which is belljar's home on a worker, that calls `belljar runner`.
fn runner_script(home: &Path) -> PathBuf {
    let runner = home.join("runner");
    let script = format!(
        "#!/bin/sh\nBELLJAR_HOME={} BELLJAR_CACHE_DIR={} exec {} runner \"$@\"\n",
        home.display(),
        cache_dir().display(),
        env!("CARGO_BIN_EXE_belljar")
    );
    fs::write(&runner, script).unwrap();
    fs::set_permissions(&runner, fs::Permissions::from_mode(0o755)).unwrap();
    runner
}

impl Cluster {
    /// One that executes so many actions at once, if buildbox-casd is installed.
    fn start(jobs: usize, options: &[&str]) -> Option<Self> {
        let home = tempfile::tempdir().unwrap();
        let runner = runner_script(home.path());
        let mut all =
            vec![format!("--buildbox-run={}", runner.display()), format!("--jobs={jobs}")];
        all.extend(options.iter().map(|option| format!("--runner-arg={option}")));
        let casd = Casd::start_with(&all)?;
        let client = Client::new(&casd.address);
        Some(Self { casd, client, home })
    }

    /// Executes `command` on `tree`, which must succeed as far as the cluster is concerned.
    fn result(&mut self, tree: &Tree, command: &api::Command) -> api::ActionResult {
        let answer = self.client.execute(tree, command);
        let status = answer.status.unwrap_or_default();
        assert_eq!(status.code, 0, "{}", status.message);
        answer.result.expect("a result")
    }

    /// The code and the message of the status of what cannot be executed.
    fn failure(&mut self, tree: &Tree, command: &api::Command) -> (i32, String) {
        let status = self.client.execute(tree, command).status.expect("a status");
        (status.code, status.message)
    }
}
