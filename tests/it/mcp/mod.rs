//! `belljar mcp`: with real clients, with hostile ones, by the library, and as a tape.

mod agent;
mod calls;
mod clients;
mod hostile;
mod replays;
mod wire;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Belljar, belljar, package, skipped, stderr, stdout};

/// A folder `project` of the host, and a policy that lets clients have it.
pub struct Scene(tempfile::TempDir);

impl Scene {
    /// A scene whose policy has these fields besides `version` and `folders`.
    pub fn new(policy: &Value) -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir_all(scene.path("project/sub")).unwrap();
        std::fs::create_dir_all(scene.path("other")).unwrap();
        scene.write("project/a.txt", "of the host\n");
        scene.write("project/sub/b.txt", "below\n");
        scene.write("other/secret.txt", "secret\n");
        let mut text = json!({
            "version": 1,
            "folders": [
                { "name": "project", "path": "project", "apply": true },
                { "name": "docs", "path": "project/sub" },
            ],
        });
        for (field, value) in policy.as_object().unwrap() {
            text[field] = value.clone();
        }
        scene.write("policy.json", &text.to_string());
        scene
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        std::fs::write(self.path(path), text).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    /// How many calls of `calls.tape` get the same answers in a replay, and how many are left out.
    pub fn replayed(&self) -> (u64, u64) {
        let replayed = self.belljar().args(["replay", "--json", "calls.tape"]).output().unwrap();
        assert!(replayed.status.success(), "{}{}", stdout(&replayed), stderr(&replayed));
        let report: Value = serde_json::from_str(&stdout(&replayed)).unwrap();
        (report["calls"].as_u64().unwrap(), report["left_out"].as_u64().unwrap())
    }

    /// `belljar` with a home of its own.
    pub fn belljar(&self) -> Belljar {
        let mut command = belljar(self.0.path());
        command.env("BELLJAR_HOME", self.path("home"));
        command
    }
}

/// Python with the package `mcp`, for the script `name` beside this file. If it is absent, prints that `test` was skipped;
/// with `BELLJAR_REQUIRE_MCP`, its absence is a failure.
pub fn python(name: &str, test: &str) -> Option<std::process::Command> {
    let packages = package().join("target/mcp");
    let python = || {
        let mut python = std::process::Command::new("python3");
        python.env("PYTHONPATH", &packages).env("PYTHONDONTWRITEBYTECODE", "1");
        python
    };
    if !python().args(["-c", "import mcp"]).output().is_ok_and(|output| output.status.success()) {
        let is_required = std::env::var_os("BELLJAR_REQUIRE_MCP").is_some();
        assert!(!is_required, "the Python package mcp is missing");
        skipped(test, "the Python package mcp is missing");
        return None;
    }
    let mut python = python();
    python.arg(script(name));
    Some(python)
}

fn script(name: &str) -> PathBuf {
    Path::new(package()).join("tests/it/mcp").join(name)
}
