//! If `BELLJAR_TEST_REPLAY_ALL` is set, the runs of tests are recorded, and replayed once without their files: each
//! `belljar run` and `belljar sh` that is waited for, and each run of a machine through [`output`]. Otherwise they are
//! only run.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Output, Stdio};

use belljar::Digest;
use belljar::tape::{FileTape, Header, Recorder, Redaction};
use belljar::testbench::{record_changes, replay};
use belljar::{Command, Limits, Machine, MachineBuilder, Module, Toolchains};

use super::{cache_dir, engine, guest, home_dir, package};

/// Tests whose runs are not replayed, and why not.
const NOT_REPLAYED: [(&str, &str); 8] = [
    ("results::", "a recorded run is not answered from results"),
    ("determinism::", "another user, who may not write the tape, runs half of it"),
    ("cli::messages::bytes::", "a tape is text, and refuses arguments that are not"),
    ("cli::report::native_program_is", "it runs on no machine unless it is recorded"),
    (
        "cli::report::every_outcome_writes_a_report",
        "a wrong command line has a report with `run` alone",
    ),
    ("cli::hints::", "what is said of a wrong command line is of `run` and `sh`"),
    (
        "cli::messages::options_do_not_follow_links",
        "a wrong command line has a report with `run` alone",
    ),
    (
        "cli::compiling::compile_time_does_not_count",
        "how long it takes is measured, without the replay",
    ),
];

/// Tests whose runs are not answered from results, though `BELLJAR_CACHE_RESULTS` is set, and why not.
const NOT_CACHED: [(&str, &str); 3] = [
    ("results::", "they say themselves which runs are"),
    ("cli::compiling::", "a module whose results are known is not compiled"),
    (
        "cli::sessions::exec_report_has_all_fields_of_a_run_report",
        "the imports of a module whose results are known are not reported",
    ),
];

/// Options of `run` that take no value, or only one after `=`.
const FLAGS: [&str; 9] = [
    "--apply",
    "--check",
    "--diff",
    "--json",
    "--trace",
    "--quiet",
    "-q",
    "--no-worktree",
    "--no-cache",
];

/// Options that print something other than the program's output.
const REPORTS: [&str; 3] = ["--diff", "--json", "--trace"];

/// Whether the runs of this test are replayed.
fn is_replayed() -> bool {
    std::env::var_os("BELLJAR_TEST_REPLAY_ALL").is_some() && !is_among(&NOT_REPLAYED)
}

/// Whether the name of this test begins with one of `prefixes`.
fn is_among(prefixes: &[(&str, &str)]) -> bool {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    prefixes.iter().any(|(prefix, _)| test.starts_with(prefix))
}

/// The `belljar` binary, started by the program in `BELLJAR_TEST_RUNNER`, if that is set: an emulator with its options,
/// separated by spaces.
fn binary() -> std::process::Command {
    let built = env!("CARGO_BIN_EXE_belljar");
    let runner = std::env::var("BELLJAR_TEST_RUNNER").unwrap_or_default();
    let mut words = runner.split(' ').filter(|word| !word.is_empty());
    let Some(emulator) = words.next() else { return std::process::Command::new(built) };
    let mut command = std::process::Command::new(emulator);
    command.args(words).arg(built);
    command
}

/// The `belljar` binary, with methods like those of [`std::process::Command`].
pub struct Belljar {
    command: std::process::Command,
    args: Vec<OsString>,
    /// The folder of the recording.
    scratch: Option<tempfile::TempDir>,
}

impl Belljar {
    /// See [`super::belljar`].
    pub fn new(folder: &Path) -> Self {
        let mut command = binary();
        command
            .current_dir(folder)
            .env("BELLJAR_CACHE_DIR", cache_dir())
            .env("BELLJAR_HOME", home_dir())
            .env_remove("BELLJAR_TOOLCHAIN")
            .stdin(Stdio::null());
        if is_among(&NOT_CACHED) {
            command.env_remove("BELLJAR_CACHE_RESULTS");
        }
        Self { command, args: Vec::new(), scratch: None }
    }

    pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub fn args<A: AsRef<OsStr>>(&mut self, args: impl IntoIterator<Item = A>) -> &mut Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.command.env(name, value);
        self
    }

    pub fn envs<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        &mut self,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> &mut Self {
        self.command.envs(variables);
        self
    }

    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.command.env_remove(name);
        self
    }

    pub fn current_dir(&mut self, folder: impl AsRef<Path>) -> &mut Self {
        self.command.current_dir(folder);
        self
    }

    pub fn stdin(&mut self, stdin: impl Into<Stdio>) -> &mut Self {
        self.command.stdin(stdin);
        self
    }

    pub fn stdout(&mut self, stdout: impl Into<Stdio>) -> &mut Self {
        self.command.stdout(stdout);
        self
    }

    pub fn stderr(&mut self, stderr: impl Into<Stdio>) -> &mut Self {
        self.command.stderr(stderr);
        self
    }

    /// The command without recording, for tests that need other methods of [`std::process::Command`].
    pub fn command(&mut self) -> &mut std::process::Command {
        let args = std::mem::take(&mut self.args);
        self.command.args(args)
    }

    /// Starts the command, which is neither waited for nor recorded.
    pub fn spawn(&mut self) -> std::io::Result<Child> {
        self.command().spawn()
    }

    pub fn output(&mut self) -> std::io::Result<Output> {
        let recorded = self.record();
        let output = self.command().output()?;
        if let Some(recorded) = recorded {
            recorded.replay(output.status, Some(&output.stdout));
        }
        Ok(output)
    }

    pub fn status(&mut self) -> std::io::Result<ExitStatus> {
        let recorded = self.record();
        let status = self.command().status()?;
        if let Some(recorded) = recorded {
            recorded.replay(status, None);
        }
        Ok(status)
    }

    /// Changes a `run` or `sh` so that it is recorded.
    fn record(&mut self) -> Option<Recorded> {
        if !is_replayed() {
            return None;
        }
        let what = self.args.first()?.to_str()?;
        let is_sh = what == "sh";
        if !is_sh && what != "run" {
            return None;
        }
        let rest: Vec<OsString> = self.args[1..].to_vec();
        if rest.iter().any(|arg| arg == "--help" || arg == "-h") {
            return None;
        }
        let shown = self.args.clone();
        let scratch = self.scratch.insert(tempfile::tempdir().unwrap());
        let tape = scratch.path().join("run.tape");
        let elsewhere = scratch.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        self.args = vec!["record".into(), "--embed-program".into(), "--tape".into()];
        self.args.push(tape.clone().into());
        if is_sh {
            let options = options_len(&rest);
            self.args.extend(rest[..options].iter().cloned());
            self.args.push("sh".into());
            self.args.extend(rest[options..].iter().skip_while(|arg| *arg == "--").cloned());
        } else {
            self.args.extend(rest);
        }
        Some(Recorded { tape, elsewhere, shown })
    }
}

/// Number of `args` that are options of belljar.
fn options_len(args: &[OsString]) -> usize {
    let mut len = 0;
    while let Some(arg) = args.get(len).and_then(|arg| arg.to_str())
        && (arg == "-q" || arg.len() > 2 && arg.starts_with("--"))
    {
        let is_alone = arg.contains('=') || FLAGS.contains(&arg);
        len += if is_alone { 1 } else { 2 };
    }
    len.min(args.len())
}

/// A recorded run.
struct Recorded {
    tape: PathBuf,
    elsewhere: PathBuf,
    shown: Vec<OsString>,
}

impl Recorded {
    /// Replays the run, if it left a tape, and compares it with `status` and `stdout`.
    fn replay(&self, status: ExitStatus, stdout: Option<&[u8]>) {
        if !self.tape.exists() {
            return;
        }
        let mut replay = binary();
        let replay = replay
            .current_dir(&self.elsewhere)
            .env("BELLJAR_CACHE_DIR", cache_dir())
            .env("BELLJAR_HOME", home_dir())
            .env_remove("BELLJAR_TOOLCHAIN")
            .env("PATH", "")
            .stdin(Stdio::null())
            .args(["replay", "../run.tape"]);
        let replayed = replay.output().unwrap();
        let said = super::stderr(&replayed);
        let what = &self.shown;
        assert!(said.contains("the run is the same"), "{what:?}, replayed: {said}");
        let reports = |arg: &&OsString| {
            let text = arg.to_string_lossy();
            REPORTS.iter().any(|report| text == *report)
        };
        let has_reports = self.shown.iter().any(|arg| reports(&arg));
        if let Some(stdout) = stdout.filter(|_| !has_reports) {
            assert!(replayed.stdout == stdout, "{what:?}, replayed: {}", super::stdout(&replayed));
        }
        // These exit codes come from steps after the run, which a replay does not repeat.
        if !matches!(status.code(), None | Some(122 | 123 | 125)) {
            assert_eq!(replayed.status.code(), status.code(), "{what:?}, replayed: {said}");
        }
    }
}

/// Runs `command` in the machine that `builder` makes; returns the machine and the output.
pub fn output(builder: MachineBuilder, command: &Command) -> (Machine, belljar::Output) {
    output_with(builder, command, &[])
}

/// As [`output`], with programs from `modules` and `guest-examples`, and the built-in ones.
pub fn output_with(
    builder: MachineBuilder,
    command: &Command,
    modules: &[Module],
) -> (Machine, belljar::Output) {
    if !is_replayed() {
        let mut machine = builder.build().unwrap();
        let output = command.output(&mut machine).unwrap();
        return (machine, output);
    }
    let scratch = tempfile::tempdir().unwrap();
    let tape = scratch.path().join("run.tape");
    let file = FileTape::create(&tape, &Header::new(0), 1 << 30).unwrap();
    let recorder = Recorder::new(file, Redaction::default());
    let mut machine = builder.tape(recorder.clone()).build().unwrap();
    let output = command.output(&mut machine).unwrap();
    record_changes(&mut machine, &recorder).unwrap();
    recorder.finish().unwrap();
    let load = |name: &str, digest: Option<Digest>| {
        let is_it = |module: &Module| digest.is_none_or(|digest| module.digest() == digest);
        let folders = vec![package().join("guest-examples"), package().join("tests/guests")];
        let named = Toolchains::new(folders).unwrap().all(name);
        let named = named.into_iter().map(|resolved| resolved.module().unwrap());
        let at_path = Module::read(&guest(name)).ok();
        // Some tests build their guest.
        let built = super::scratch_of_build().join(name).with_extension("wasm");
        let built = Module::read(&built).ok();
        let mut all = modules.iter().cloned().chain(named).chain(at_path).chain(built);
        all.find(is_it).ok_or_else(|| format!("no module of the tests is {name}"))
    };
    // The recorded timeout also ends the replay, which needs no timeout of its own.
    let bounds = Limits { timeout: None, ..*machine.limits() };
    let replayed = replay(engine(), &tape, &bounds, load);
    let text = || std::fs::read_to_string(&tape).unwrap();
    let replayed = replayed.unwrap_or_else(|error| panic!("replayed: {error}\n{}", text()));
    let [Ok(again)] = replayed.outputs.as_slice() else { panic!("one process starts") };
    assert!(again.stdout == output.stdout && again.stderr == output.stderr, "{}", text());
    assert_eq!(again.status.code(), output.status.code(), "{}", text());
    (machine, output)
}
