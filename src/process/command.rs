//! A process builder shaped like [`std::process::Command`].

use std::sync::Arc;

use super::by_name;
use super::shell::ShellImage;
use crate::base::digest::Digest;
use crate::engine::{Finished, LateProgram, Outcome, Program, RunError};
use crate::kernel::guest::{Preopen, Reach, SpawnError, Startup};
use crate::kernel::io::stdio::{Input, OutputStream, Stdio};
use crate::kernel::machine::Machine;
use crate::kernel::process::TrappedProcess;
use crate::kernel::process::programs::{MakeImage, NeededTree};
use crate::kernel::process::schedule::{self, Mode};
use crate::results::Results;

/// A program to run in a [`Machine`], with its arguments, environment and streams.
///
/// By default the environment and standard input are empty, and the whole namespace of the machine is
/// open; relative paths start at `/worktree` if something is mounted there, else at `/`.
///
/// ```
/// use belljar::{Command, Engine, EngineConfig, Machine, Module, Program};
///
/// let engine = Engine::new(EngineConfig { pool_slots: 0, ..EngineConfig::default() })?;
/// let module = Module::from_bytes("exit", br#"(module
///     (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
///     (memory (export "memory") 1)
///     (func (export "_start") (call $exit (i32.const 3))))"#.to_vec())?;
/// let program = Program::new(&engine, &module)?;
/// let mut machine = Machine::builder().build()?;
/// let output = Command::new(&program).arg("--flag").env("LANG", "C").output(&mut machine)?;
/// assert_eq!(output.status.code(), Some(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Command {
    image: CommandImage,
    /// The default of `argv0`.
    name: Vec<u8>,
    /// The program's name on a tape, if it is not `name`.
    taped_name: Option<String>,
    argv0: Option<Vec<u8>>,
    args: Vec<Vec<u8>>,
    env: Vec<(Vec<u8>, Vec<u8>)>,
    current_dir: Option<String>,
    preopens: Option<Vec<Preopen>>,
    trees: Vec<NeededTree>,
    invoke: Option<String>,
    results: Option<Arc<Results>>,
    stdin: Vec<u8>,
}

impl Command {
    /// A process of `program`.
    pub fn new(program: &Program) -> Self {
        let (name, digest) = (program.default_argv0(), Some(program.digest()));
        let program = program.clone();
        Self::of(CommandImage::Made(Arc::new(move || Box::new(program.clone())), digest), name)
    }

    /// As [`Command::new`], for a program that is loaded when its code has to run.
    pub fn late(program: &LateProgram) -> Self {
        let (name, digest) = (program.default_argv0(), Some(program.digest()));
        let program = program.clone();
        Self::of(CommandImage::Made(Arc::new(move || Box::new(program.clone())), digest), name)
    }

    /// A process of the shell that runs the POSIX script `text`: `sh -c TEXT`. Further arguments are `$0`,
    /// `$1` and so on.
    ///
    /// It can start the programs of [`crate::MachineBuilder::programs`]; builtins need none.
    ///
    /// ```
    /// use belljar::{Command, Machine};
    ///
    /// let mut machine = Machine::builder().build()?;
    /// let script = "for word in \"$@\"; do echo $((${#word} + 1)); done";
    /// let output = Command::shell(script).args(["sh", "one", "two words"]).output(&mut machine)?;
    /// assert_eq!(output.stdout, b"4\n10\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shell(text: impl AsRef<[u8]>) -> Self {
        let mut command = Self::sh();
        command.args([b"-c".as_slice(), text.as_ref()]);
        command
    }

    /// A process of the shell, controlled by its arguments.
    pub fn sh() -> Self {
        Self::of(CommandImage::Made(ShellImage::maker(), None), "sh")
    }

    /// A process of the program that the machine finds by this name: in
    /// [`crate::MachineBuilder::programs`], then in the directories of `PATH`. A name with a slash is the
    /// path of a module or script in the namespace.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use belljar::{Command, Engine, EngineConfig, Machine, ToolchainPrograms, Toolchains};
    ///
    /// let engine = EngineConfig { pool_slots: 0, ..EngineConfig::default() };
    /// let programs = ToolchainPrograms::with_engine_config(engine, Toolchains::default());
    /// let mut machine = Machine::builder().programs(Arc::new(programs)).build()?;
    /// let output = Command::named("basename").arg("/a/b.c").output(&mut machine)?;
    /// assert_eq!(output.stdout, b"b.c\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn named(program: impl Into<String>) -> Self {
        let program = program.into();
        let name = program.clone();
        Self::of(CommandImage::Named(program), name)
    }

    /// A process of an image that is not a module.
    pub(crate) fn of_image(image: MakeImage, name: impl Into<Vec<u8>>) -> Self {
        Self::of(CommandImage::Made(image, None), name)
    }

    fn of(image: CommandImage, name: impl Into<Vec<u8>>) -> Self {
        Self {
            image,
            name: name.into(),
            taped_name: None,
            argv0: None,
            args: Vec::new(),
            env: Vec::new(),
            current_dir: None,
            preopens: None,
            trees: Vec::new(),
            invoke: None,
            results: None,
            stdin: Vec::new(),
        }
    }

    /// A process that looks up `program` as on a tape: see [`Command::named`].
    pub(crate) fn taped_named(program: &str) -> Self {
        let name = program.to_owned();
        let make: MakeImage = Arc::new(move || by_name::image(&name));
        Self::of(CommandImage::Made(make, None), program)
    }

    /// Sets the program's name for a tape.
    pub(crate) fn taped_name(&mut self, name: &str) -> &mut Self {
        self.taped_name = Some(name.to_owned());
        self
    }

    /// Adds an argument. It ends at a NUL, as for a C program.
    pub fn arg(&mut self, arg: impl AsRef<[u8]>) -> &mut Self {
        self.args.push(until_nul(arg.as_ref()));
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<[u8]>>(&mut self, args: impl IntoIterator<Item = A>) -> &mut Self {
        for arg in args {
            self.arg(arg);
        }
        self
    }

    /// Sets `argv[0]`. Default: the module's file name without `.wasm`.
    pub fn argv0(&mut self, name: impl AsRef<[u8]>) -> &mut Self {
        self.argv0 = Some(until_nul(name.as_ref()));
        self
    }

    /// Sets a variable of the environment. Variables keep the order in which they were first set.
    pub fn env(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        let (key, value) = (until_nul(key.as_ref()), until_nul(value.as_ref()));
        match self.env.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = value,
            None => self.env.push((key, value)),
        }
        self
    }

    /// Unsets a variable.
    pub fn env_remove(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        self.env.retain(|(known, _)| known != key.as_ref());
        self
    }

    /// Unsets all variables.
    pub fn env_clear(&mut self) -> &mut Self {
        self.env.clear();
        self
    }

    /// Sets the current directory, an absolute path in the namespace.
    pub fn current_dir(&mut self, path: impl Into<String>) -> &mut Self {
        self.current_dir = Some(path.into());
        self
    }

    /// Sets the directories that are open from descriptor 3 on, in place of the whole namespace.
    pub fn preopens(&mut self, preopens: Vec<Preopen>) -> &mut Self {
        self.preopens = Some(preopens);
        self
    }

    /// Makes the process call an export of its program in place of the start function, and write the results to standard
    /// output, a line each. `call` is `NAME(ARGUMENTS)`, or `NAME` if there are none; the arguments and the results are
    /// values of WAVE, the text format of the component model. A library's `_initialize` runs first. A function of an
    /// interface of a component is `INTERFACE#NAME`, or `NAME` if no other interface has one of this name.
    ///
    /// A call that cannot be made is [`RunError::Invoke`]. See [`Machine::returned`] for the results as JSON.
    pub fn invoke(&mut self, call: impl Into<String>) -> &mut Self {
        self.invoke = Some(call.into());
        self
    }

    /// Answers the process, and all that it starts, from `results`, as far as these have what they do, and adds those that
    /// ran; `results` count both. What is answered cannot be told from what ran: see [`crate::results`]. Default: the
    /// results of the machine ([`Machine::set_results`]), if it has some.
    ///
    /// A process of a machine that is recorded or traced always runs.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use belljar::results::{ResultCache, Results};
    /// use belljar::{Command, Engine, EngineConfig, Machine, Program, Toolchains};
    ///
    /// let engine = Engine::new(EngineConfig { pool_slots: 0, ..EngineConfig::default() })?;
    /// let wc = Program::new(&engine, &Toolchains::default().resolve("wc")?.module()?)?;
    /// let folder = tempfile::tempdir()?;
    /// let results = Arc::new(Results::new(ResultCache::new(folder.path())));
    /// let count = |text: &str| {
    ///     let mut machine = Machine::builder().build()?;
    ///     let mut command = Command::new(&wc);
    ///     let output = command.arg("-l").stdin(text).cached(&results).output(&mut machine)?;
    ///     Ok::<_, Box<dyn std::error::Error>>(String::from_utf8(output.stdout)?)
    /// };
    /// assert_eq!(count("a\nb\n")?, "2\n");
    /// assert_eq!(count("a\nb\n")?, "2\n");
    /// assert_eq!(count("other\n")?, "1\n");
    /// let statistics = results.statistics();
    /// assert_eq!((statistics.hits, statistics.misses), (1, 2));
    /// assert_eq!(statistics.differences[1].to_string(), "wc: standard input: it has other content");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cached(&mut self, results: &Arc<Results>) -> &mut Self {
        self.results = Some(results.clone());
        self
    }

    /// Sets the trees of its toolchain, which are mounted before it starts.
    pub(crate) fn trees(&mut self, trees: Vec<NeededTree>) -> &mut Self {
        self.trees = trees;
        self
    }

    /// Sets standard input for [`Command::output`].
    pub fn stdin(&mut self, bytes: impl Into<Vec<u8>>) -> &mut Self {
        self.stdin = bytes.into();
        self
    }

    /// Runs the program to its end and collects its standard output and error.
    ///
    /// # Errors
    /// [`RunError`] if it cannot be started. A failure of the program itself is not an error.
    pub fn output(&self, machine: &mut Machine) -> Result<Output, RunError> {
        self.output_from(machine, Input::Bytes(std::io::Cursor::new(self.stdin.clone())))
    }

    /// As [`Command::output`], with another standard input.
    ///
    /// # Errors
    /// As [`Command::output`].
    pub fn output_from(&self, machine: &mut Machine, stdin: Input) -> Result<Output, RunError> {
        let (stdout, stderr) =
            (OutputStream::Capture(Vec::new()), OutputStream::Capture(Vec::new()));
        self.output_on(machine, Stdio { stdin, stdout, stderr })
    }

    /// As [`Command::output`], on these streams; returns what they captured.
    ///
    /// # Errors
    /// As [`Command::output`].
    pub fn output_on(&self, machine: &mut Machine, stdio: Stdio) -> Result<Output, RunError> {
        let finished = self.run(machine, stdio);
        let status = ExitStatus {
            outcome: finished.outcome?,
            trapped: finished.trapped,
            fuel_used: finished.fuel_used,
        };
        let stdout = finished.stdio.stdout.into_captured();
        let stderr = finished.stdio.stderr.into_captured();
        Ok(Output { status, stdout, stderr })
    }

    /// Runs the program to its end on these streams.
    ///
    /// # Errors
    /// As [`Command::output`].
    pub fn status(&self, machine: &mut Machine, stdio: Stdio) -> Result<ExitStatus, RunError> {
        let Finished { outcome, trapped, fuel_used, .. } = self.run(machine, stdio);
        Ok(ExitStatus { outcome: outcome?, trapped, fuel_used })
    }

    fn run(&self, machine: &mut Machine, stdio: Stdio) -> Finished<()> {
        let mut args = Vec::with_capacity(1 + self.args.len());
        args.push(self.argv0.clone().unwrap_or_else(|| self.name.clone()));
        args.extend(self.args.iter().cloned());
        let variable = |(key, value): &(Vec<u8>, Vec<u8>)| [key, value.as_slice()].join(&b'=');
        let mut environ: Vec<Vec<u8>> = self.env.iter().map(variable).collect();
        let (image, module_hash, trees) = match &self.image {
            CommandImage::Made(make, digest) => (make(), *digest, self.trees.clone()),
            CommandImage::Named(program) => match by_name::find(machine, program) {
                Ok(found) => {
                    found.launch.apply(&mut args, &mut environ);
                    (found.image, found.digest, found.trees)
                }
                Err(error) => return Finished::not_started(stdio, error),
            },
        };
        if let Some(call) = &self.invoke
            && image.mode() != Mode::Module
        {
            let program = String::from_utf8_lossy(&self.name).into_owned();
            let problem = "it is not a module".to_owned();
            let error = RunError::Invoke { program, call: call.clone(), problem };
            return Finished::not_started(stdio, error);
        }
        let taped_trees = match machine.mount_trees(&trees) {
            Ok(()) => trees.iter().map(NeededTree::taped).collect(),
            Err(errno) => {
                let program = String::from_utf8_lossy(&self.name).into_owned();
                let reason = "a tree of its toolchain cannot be mounted".to_owned();
                let error = RunError::Spawn(SpawnError { program, errno, reason });
                return Finished::not_started(stdio, error);
            }
        };
        let mut preopens = match &self.preopens {
            Some(preopens) => preopens.clone(),
            None => namespace_preopens(machine, self.current_dir.as_deref()),
        };
        // A process that does not see the whole namespace sees the trees.
        if !preopens.iter().any(|preopen| preopen.reach == Reach::Namespace) {
            let is_new = |tree: &&NeededTree| !preopens.iter().any(|known| known.path == tree.at);
            let preopen = |tree: &NeededTree| Preopen {
                path: tree.at.clone(),
                name: tree.at.clone(),
                reach: Reach::Confined,
            };
            let new: Vec<Preopen> = trees.iter().filter(is_new).map(preopen).collect();
            preopens.extend(new);
        }
        let name = || String::from_utf8_lossy(&self.name).into_owned();
        let program = Some(self.taped_name.clone().unwrap_or_else(name));
        let (trees, invoke) = (taped_trees, self.invoke.clone());
        let startup =
            Startup { args, environ, stdio, preopens, program, module_hash, trees, invoke };
        let mut taken = std::mem::replace(machine, Machine::vacant());
        let of_machine = taken.results.clone();
        if self.results.is_some() {
            taken.set_results(self.results.clone());
        }
        let finished = schedule::run(image, taken, startup);
        let Finished { machine: back, stdio, outcome, trapped, fuel_used } = finished;
        *machine = back;
        machine.set_results(of_machine);
        Finished { machine: (), stdio, outcome, trapped, fuel_used }
    }
}

/// The program of a [`Command`].
#[derive(Clone)]
enum CommandImage {
    /// An image, and the digest of its module, if it is one.
    Made(MakeImage, Option<Digest>),
    /// A name that the machine looks up.
    Named(String),
}

/// The root, and the current directory: last, because C libraries take the two for the same prefix and use
/// the last.
fn namespace_preopens(machine: &Machine, current_dir: Option<&str>) -> Vec<Preopen> {
    let default = machine.worktree().unwrap_or("/");
    let preopen =
        |path: &str, name: &str, reach| Preopen { path: path.into(), name: name.into(), reach };
    vec![
        preopen("/", "/", Reach::Namespace),
        preopen(current_dir.unwrap_or(default), ".", Reach::CurrentDir),
    ]
}

fn until_nul(bytes: &[u8]) -> Vec<u8> {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}

/// How a process ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExitStatus {
    outcome: Outcome,
    trapped: Vec<TrappedProcess>,
    fuel_used: Option<u64>,
}

impl ExitStatus {
    /// That of a program that ended on another machine.
    #[cfg(all(feature = "cli", feature = "remote"))]
    pub(crate) fn of_another_machine(outcome: Outcome, trapped: Vec<TrappedProcess>) -> Self {
        Self { outcome, trapped, fuel_used: None }
    }

    /// Returns whether it exited with code 0.
    pub fn success(&self) -> bool {
        self.outcome == Outcome::Exited(0)
    }

    /// Its exit code; `None` if it did not exit but trapped, was killed or reached a limit.
    pub fn code(&self) -> Option<u32> {
        self.outcome.exit_code()
    }

    /// Its outcome.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Processes other than it that trapped: the first 100.
    pub fn trapped(&self) -> &[TrappedProcess] {
        &self.trapped
    }

    /// Fuel used, if the engine counts it.
    pub fn fuel_used(&self) -> Option<u64> {
        self.fuel_used
    }
}

/// The result of [`Command::output`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// How the process ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}
