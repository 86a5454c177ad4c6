//! Compiling in a process of its own, whose memory and time have limits.
//!
//! The memory and time to compile a function can grow with the square of its size, and the code
//! generator cannot be interrupted. So modules that are not small are compiled by a second belljar
//! process, which puts the code into the cache. If it runs out of memory, the module is compiled again
//! on one thread, which takes less, and then refused.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::args::groups::{CompileArgs, TierArg};
use super::args::installation::ChildArgs;
use super::background::{self, Queue};
use super::home::{cache_bytes_max, home_dir};
use super::loaded::LoadedPrograms;
use super::progress::Progress;
use super::text::{last_part, printable, shell_word};
use crate::base::ambient;
use crate::engine::{CacheError, CacheUse, CodeCache, CompileProgress, Tier, TierChoice};
use crate::{Engine, EngineConfig, Module, Program, ProgramError, UnknownImports};

/// Modules that are smaller, and take no more memory, are compiled in this process.
const SMALL_BYTES: u64 = 16 << 10;
const SMALL_COMPILE_BYTES: u64 = 128 << 20;

/// Longest interval at which a compiling process is polled.
const LOOK_EVERY_MAX: Duration = Duration::from_millis(20);

/// Most bytes of progress that are read: more than ten hours of it.
const PROGRESS_BYTES_MAX: u64 = 16 << 20;

/// Time of a compilation that is worth a word.
const LONG: Duration = Duration::from_secs(2);

/// Interval at which progress is told.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// What the process that compiles prints when it waits for another one, which compiles the same module.
const WAITS: &str = "waits";

/// Exit codes of the process that compiles.
const NOT_KEPT: i32 = 3;
const REFUSED: i32 = 4;
const TOO_MUCH: i32 = 5;
const NOT_STORED: i32 = 6;

/// What became of a module that was compiled in a process of its own.
#[derive(PartialEq, Eq)]
enum Aside {
    /// Its code is in the cache.
    Kept,
    /// It was compiled, and its code cannot be stored: why.
    NotStored(String),
    /// It was not compiled.
    Failed,
}

/// An engine for [`crate::engine::ModuleInfo`]: it compiles what is as good as empty, and keeps nothing.
pub fn engine_for_info() -> Result<Engine> {
    let (pool_slots, tier) = (0, TierChoice::Quick);
    let config = EngineConfig { pool_slots, tier, cache_dir: None, ..EngineConfig::default() };
    Ok(Engine::new(config)?)
}

/// How modules are compiled whose code is not in the cache.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// The directory of the cache.
    pub cache_dir: Option<PathBuf>,
    /// Whether the code counts fuel.
    pub fuel: bool,
    /// The tier, the limits of compiling, and what may go on after the run.
    pub args: CompileArgs,
    /// Whether to print no progress.
    pub quiet: bool,
}

/// Real time that compiling took so far.
static SPENT: Mutex<Spent> = Mutex::new(Spent { before: Duration::ZERO, since: None });

struct Spent {
    before: Duration,
    /// When the compilation in progress began, if there is one.
    since: Option<Instant>,
}

impl Spent {
    fn total(&self) -> Duration {
        self.before + self.since.map(ambient::elapsed_since).unwrap_or_default()
    }
}

/// Real time that compiling has taken in this process by now.
pub fn spent() -> Duration {
    SPENT.lock().unwrap_or_else(PoisonError::into_inner).total()
}

/// Counts the time until it is dropped as spent.
struct Spending;

impl Spending {
    fn start() -> Self {
        SPENT.lock().unwrap_or_else(PoisonError::into_inner).since = Some(ambient::instant_now());
        Self
    }
}

impl Drop for Spending {
    fn drop(&mut self) {
        let mut spent = SPENT.lock().unwrap_or_else(PoisonError::into_inner);
        spent.before = spent.total();
        spent.since = None;
    }
}

impl Compiler {
    /// For [`crate::ToolchainPrograms::compiler`].
    pub fn shared(self) -> crate::toolchain::Compile {
        Arc::new(move |engine, module, unknown| self.compile(engine, module, unknown))
    }

    /// For [`crate::ToolchainPrograms::on_load`]; `loaded` gets the programs.
    pub fn loads(self, loaded: &LoadedPrograms) -> crate::toolchain::Loaded {
        let loaded = loaded.clone();
        Arc::new(move |program, module, is_cached| {
            loaded.note(program);
            if is_cached {
                self.loaded(program, module);
            }
        })
    }

    /// The program of `module`, whose code is not in the cache of `engine`.
    ///
    /// # Errors
    /// As [`Program::compile`]; [`ProgramError::Compile`] at a limit.
    pub fn compile(
        &self,
        engine: &Engine,
        module: &Module,
        unknown: UnknownImports,
    ) -> Result<Program, ProgramError> {
        let size = bytesize::ByteSize(module.size()).display().iec();
        let name = last_part(module.name());
        let cache_dir = self.cache_dir.as_deref();
        let has_room = |dir| CodeCache::new(dir).expect_room(module.size());
        let kept = cache_dir.map(|dir| has_room(dir).map(|()| dir));
        let is_kept = matches!(kept, Some(Ok(_)));
        let once = if is_kept { " once" } else { "" };
        let message = format!("compiling {name}{once} ({size}{})", self.what_counts());
        let (begun, _spending) = (ambient::instant_now(), Spending::start());
        let shown = Progress::start(message, self.quiet);
        let is_small =
            module.size() < SMALL_BYTES && module.compile_bytes_max()? <= SMALL_COMPILE_BYTES;
        if !is_small
            && let Some(program) = self.compiled_aside(engine, module, unknown, kept, &shown)?
        {
            drop(shown);
            self.loaded(&program, module);
            if is_kept && ambient::elapsed_since(begun) > LONG {
                self.tell_of_quick_code(&program, module);
            }
            return Ok(program);
        }
        let progress = CompileProgress::default();
        let compiled = shown
            .follow(&progress, || Program::compile_watched(engine, module, unknown, &progress));
        drop(shown);
        let (program, used) = compiled.map_err(|error| match error {
            ProgramError::CompileMemory { name, bytes, limit_bytes } => {
                let [bytes, limit] =
                    [bytes, limit_bytes].map(|it| bytesize::ByteSize(it).display().iec());
                let message = format!(
                    "it may take {bytes} of memory, and the limit is {limit} (raise it with \
                     --max-compile-memory)"
                );
                ProgramError::Compile { name, message }
            }
            error => error,
        })?;
        if let CacheUse::Failed(error) = used {
            self.warn_of_cache(&reason(error));
        }
        Ok(program)
    }

    /// Says that `program`, which is made of `module`, runs quick code if nothing will optimize it.
    fn tell_of_quick_code(&self, program: &Program, module: &Module) {
        let stays = self.args.tier == TierArg::Auto && program.tier() == Tier::Quick;
        if stays
            && !self.quiet
            && let Some(why) = background::forbidden(&self.args)
        {
            let name = last_part(module.name());
            let fuel = if self.fuel { "--fuel " } else { "" };
            let named = word_for(module).unwrap_or_else(|| "FILE".to_owned());
            note!(
                "belljar: {name} runs quick code, and nothing optimizes it, as {why}: `belljar cache compile \
                 {fuel}{named}` makes it about 1.6 times as fast"
            );
        }
    }

    /// What the code of this compiler does besides running, for messages.
    fn what_counts(&self) -> &'static str {
        if self.fuel { ", counting fuel" } else { "" }
    }

    fn warn_of_cache(&self, why: &str) {
        if !self.quiet {
            note!("belljar: warning: cannot cache the compiled code: {why}");
        }
    }

    /// Says that the cache keeps nothing but the code of `module`, which is larger than the cache may be.
    fn warn_of_limit(&self, cache_dir: &Path, module: &Module) {
        let (Ok(info), Ok(bytes_max)) = (CodeCache::new(cache_dir).info(), cache_bytes_max())
        else {
            return;
        };
        if info.bytes > bytes_max && !self.quiet {
            let [bytes, limit] =
                [info.bytes, bytes_max].map(|it| bytesize::ByteSize(it).display().iec());
            note!(
                "belljar: warning: the code of {} takes {bytes}, and the cache may take {limit}: it keeps no other code \
                 beside it, and loses it with the next; raise BELLJAR_CACHE_MAX_SIZE",
                printable(module.name())
            );
        }
    }

    /// The program of `module`, compiled in a process of its own; `None` if that is not possible. `kept` is the cache,
    /// if there is one. Where it cannot be written, or there is none, the code goes through a temporary one.
    ///
    /// # Errors
    /// As [`Program::compile`]; [`ProgramError::Compile`] at a limit.
    fn compiled_aside(
        &self,
        engine: &Engine,
        module: &Module,
        unknown: UnknownImports,
        kept: Option<Result<&Path, CacheError>>,
        shown: &Progress,
    ) -> Result<Option<Program>, ProgramError> {
        let mut not_kept = None;
        match kept {
            Some(Ok(cache_dir)) => match self.compile_aside(cache_dir, module, shown)? {
                Aside::Kept => return Program::from_cache(engine, module, unknown),
                Aside::NotStored(why) => not_kept = Some(why),
                Aside::Failed => return Ok(None),
            },
            Some(Err(error)) => not_kept = Some(reason(error)),
            None => {}
        }
        // For this user alone: what is in it is run.
        let Ok(scratch) = tempfile::tempdir() else { return Ok(None) };
        if self.compile_aside(scratch.path(), module, shown)? != Aside::Kept {
            return Ok(None);
        }
        let cache = CodeCache::new(scratch.path());
        let program = Program::from_other_cache(&cache, engine, module, unknown)?;
        if let (Some(why), Some(_)) = (not_kept, &program) {
            self.warn_of_cache(&why);
        }
        Ok(program)
    }

    /// Has `module` optimized if `program`, which is made of it, begins with quick code.
    pub fn loaded(&self, program: &Program, module: &Module) {
        if let Some(cache_dir) = &self.cache_dir
            && self.args.tier == TierArg::Auto
            && program.tier() == Tier::Quick
        {
            background::want(cache_dir, module, self.fuel, &self.args);
        }
    }

    /// Compiles `module` into the cache, in a process of its own.
    ///
    /// # Errors
    /// As [`Program::compile`]; [`ProgramError::Compile`] at a limit, [`ProgramError::Cache`] if its code cannot be kept.
    pub fn compile_into_cache(
        &self,
        module: &Module,
        shown: &Progress,
    ) -> Result<(), ProgramError> {
        let _spending = Spending::start();
        let not_kept = |message| {
            let name = module.name().to_owned();
            Err(ProgramError::Cache { name, message })
        };
        let unknown = || "see `belljar doctor`, or set BELLJAR_CACHE_DIR".to_owned();
        let Some(cache_dir) = &self.cache_dir else { return not_kept(unknown()) };
        if let Err(error) = CodeCache::new(cache_dir).expect_room(module.size()) {
            return not_kept(reason(error));
        }
        match self.compile_aside(cache_dir, module, shown)? {
            Aside::Kept => Ok(()),
            Aside::NotStored(why) => not_kept(why),
            Aside::Failed => not_kept(unknown()),
        }
    }

    /// Compiles `module` in a process of its own.
    ///
    /// # Errors
    /// As [`Program::compile`]; [`ProgramError::Compile`] at a limit.
    fn compile_aside(
        &self,
        cache_dir: &Path,
        module: &Module,
        shown: &Progress,
    ) -> Result<Aside, ProgramError> {
        let bytes = module.bytes()?;
        let refuse =
            |message: String| ProgramError::Compile { name: module.name().to_owned(), message };
        for threads in [None, Some("1")] {
            // If no process can be started, compile in this one.
            let Ok(mut child) = self.start(cache_dir, module, threads) else {
                return Ok(Aside::Failed);
            };
            let waiting = || waiting_for(cache_dir, module);
            let (status, said) = match self.wait(&mut child, &bytes, waiting, shown) {
                Ok(Some(ended)) => ended,
                Ok(None) => {
                    let limit = readable_duration(self.args.limits.compile_timeout);
                    return Err(refuse(format!(
                        "it takes longer than {limit} (raise it with --compile-timeout)"
                    )));
                }
                Err(_) => return Ok(Aside::Failed),
            };
            match status.code() {
                Some(0) => {
                    if self.cache_dir.as_deref() == Some(cache_dir) {
                        self.warn_of_limit(cache_dir, module);
                    }
                    return Ok(Aside::Kept);
                }
                Some(NOT_STORED) => return Ok(Aside::NotStored(said.trim().to_owned())),
                // It was not the memory.
                None if is_asked_to_end(status) => {
                    return Ok(Aside::NotStored(
                        "its compilation was ended by a signal".to_owned(),
                    ));
                }
                Some(NOT_KEPT) => return Ok(Aside::Failed),
                Some(REFUSED) => return Err(ProgramError::Refused(said.trim().to_owned())),
                _ => {}
            }
        }
        let limit = bytesize::ByteSize(self.args.limits.max_compile_memory).display().iec();
        Err(refuse(format!(
            "it takes more than {limit} of memory (raise it with --max-compile-memory)"
        )))
    }

    fn start(&self, cache_dir: &Path, module: &Module, threads: Option<&str>) -> Result<Child> {
        #[allow(
            clippy::disallowed_methods,
            reason = "this is belljar itself, and no program of the host's"
        )]
        let mut child = std::process::Command::new(std::env::current_exe()?);
        child
            .arg("compile-module")
            .arg("--cache-dir")
            .arg(cache_dir)
            .args(["--name", module.name()]);
        child.arg(format!("--module-bytes={}", module.size()));
        child.arg(format!("--memory-bytes-max={}", self.args.limits.max_compile_memory));
        child.arg(format!("--tier={}", TierChoice::from(self.args.tier)));
        if self.fuel {
            child.arg("--fuel");
        }
        // An allocation that fails while a backtrace is made waits for itself.
        child.env_remove("RUST_BACKTRACE").env_remove("RUST_LIB_BACKTRACE");
        if let Some(threads) = threads {
            child.env("RAYON_NUM_THREADS", threads);
        }
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(child.spawn()?)
    }

    /// The exit status and error output of the child; `None` if it ran out of time.
    fn wait(
        &self,
        child: &mut Child,
        bytes: &[u8],
        waiting: impl Fn() -> String + Send,
        shown: &Progress,
    ) -> Result<Option<(ExitStatus, String)>> {
        let mut stdin = child.stdin.take().context("no standard input")?;
        let stdout = child.stdout.take().context("no standard output")?;
        let mut stderr = child.stderr.take().context("no standard error")?;
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new;
            // A child that exits early does not read everything: the write may fail. As long as the pipe is open, the
            // child knows that this process waits for it.
            let written = thread().spawn_scoped(scope, move || {
                let _ = stdin.write_all(bytes);
                stdin
            })?;
            thread().spawn_scoped(scope, move || {
                for line in BufReader::new(stdout.take(PROGRESS_BYTES_MAX)).lines() {
                    let Ok(line) = line else { break };
                    if line == WAITS {
                        shown.wait(waiting());
                        continue;
                    }
                    let numbers: Vec<u64> =
                        line.split(' ').filter_map(|number| number.parse().ok()).collect();
                    if let [compiled, functions] = *numbers {
                        shown.set(compiled, functions);
                    }
                }
            })?;
            let said = thread().spawn_scoped(scope, move || {
                let mut said = Vec::new();
                let read = stderr.by_ref().take(64 << 10).read_to_end(&mut said);
                read.map(|_| String::from_utf8_lossy(&said).into_owned())
            })?;
            let mut pause = Duration::from_millis(1);
            let status = loop {
                if let Some(status) = child.try_wait()? {
                    break status;
                }
                if spent() > self.args.limits.compile_timeout {
                    child.kill()?;
                    child.wait()?;
                    return Ok(None);
                }
                ambient::sleep(pause);
                pause = (pause * 2).min(LOOK_EVERY_MAX);
            };
            let said = said.join().ok().and_then(Result::ok).unwrap_or_default();
            drop(written);
            Ok(Some((status, said)))
        })
    }
}

/// How a command line names `module`: a program of an installed toolchain by its name, others by their files; `None` if only
/// programs see its file.
fn word_for(module: &Module) -> Option<String> {
    let is_installed = |path: &Path| home_dir().is_ok_and(|home| path.starts_with(home));
    match module.path() {
        Some(path) if !is_installed(path) => Some(shell_word(&path.to_string_lossy())),
        None if module.name().contains('/') => None,
        _ => Some(shell_word(module.name())),
    }
}

/// Why code cannot be kept, in one line.
fn reason(error: CacheError) -> String {
    format!("{:#}", anyhow::Error::from(error))
}

/// Whether a process was ended by a signal that asks for it, unlike those of the system when memory is short.
#[cfg(unix)]
fn is_asked_to_end(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    // HUP, INT, QUIT and TERM.
    matches!(status.signal(), Some(1 | 2 | 3 | 15))
}

#[cfg(not(unix))]
fn is_asked_to_end(_: ExitStatus) -> bool {
    false
}

/// What is said while another process compiles `module`.
fn waiting_for(cache_dir: &Path, module: &Module) -> String {
    let name = last_part(module.name());
    match Queue::of(cache_dir).running() {
        Some(running) if running.id.starts_with(&module.digest().to_string()) => format!(
            "waiting for process {}, which optimizes {name} in the background (`belljar cache stop` ends it)",
            running.pid
        ),
        _ => format!("waiting for another process, which compiles {name}"),
    }
}

/// Compiles the module on standard input into the cache. Ends when the parent process ends, however that happens: only
/// the parent process waits for the code.
pub fn child(args: &ChildArgs) -> Result<u8> {
    let is_counted = limit_memory(args.memory_bytes_max);
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(args.module_bytes).read_to_end(&mut bytes)?;
    end_with_parent()?;
    let config = EngineConfig {
        pool_slots: 0,
        fuel: args.fuel,
        cache_dir: Some(args.cache_dir.clone()),
        cache_bytes_max: cache_bytes_max()?,
        tier: args.tier.into(),
        optimize_in_background: false,
        // If the system enforces the limit, no estimate from the code is needed.
        compile_memory_bytes_max: if is_counted { u64::MAX } else { args.memory_bytes_max },
    };
    let engine = Engine::new(config)?;
    let module = Module::from_bytes(args.name.as_str(), bytes)?;
    let progress = CompileProgress::default();
    tell_progress(&progress);
    // Another process may be compiling it.
    let cache = CodeCache::new(&args.cache_dir);
    let waits = || {
        // The parent process shows it.
        let _ = writeln!(std::io::stdout(), "{WAITS}");
    };
    let _lock = cache.lock(module.digest(), engine.config(), waits);
    let unknown = UnknownImports::Trap;
    if let Ok(Some(_)) = Program::from_cache(&engine, &module, unknown) {
        return Ok(0);
    }
    let code = match Program::compile_watched(&engine, &module, unknown, &progress) {
        // The parent process reports these errors itself.
        Ok((_, CacheUse::Stored | CacheUse::Hit))
        | Err(ProgramError::Import { .. } | ProgramError::Mismatch { .. }) => 0,
        Err(ProgramError::CompileMemory { .. }) => TOO_MUCH,
        Err(error @ ProgramError::Invalid { .. }) => {
            let _ = write!(std::io::stderr(), "{error}");
            REFUSED
        }
        Ok((_, CacheUse::Failed(error))) => {
            let _ = write!(std::io::stderr(), "{}", reason(error));
            NOT_STORED
        }
        Ok((_, CacheUse::Off)) | Err(_) => NOT_KEPT,
    };
    match u8::try_from(code) {
        Ok(code) => Ok(code),
        Err(_) => bail!("no exit code"),
    }
}

/// Ends this process when the parent process has closed its end of standard input.
fn end_with_parent() -> Result<()> {
    let wait = || {
        // Nothing more is written to it.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        std::process::exit(NOT_KEPT);
    };
    std::thread::Builder::new().spawn(wait).context("cannot start a thread")?;
    Ok(())
}

/// Prints how far the compilation is, for the parent process, as long as this process runs.
fn tell_progress(progress: &CompileProgress) {
    let progress = progress.clone();
    let tell = move || {
        let mut told = 0;
        loop {
            ambient::sleep(TELL_EVERY);
            let (compiled, functions) = (progress.compiled(), progress.functions());
            if compiled == told {
                continue;
            }
            told = compiled;
            let mut stdout = std::io::stdout().lock();
            let line = writeln!(stdout, "{compiled} {functions}").and_then(|()| stdout.flush());
            if line.is_err() {
                break;
            }
        }
    };
    // Without a thread, nothing is told.
    let _ = std::thread::Builder::new().spawn(tell);
}

/// Makes allocations beyond `bytes_max` fail, on systems that count private memory; returns whether
/// this one does.
fn limit_memory(bytes_max: u64) -> bool {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let own = getrlimit(Resource::Data);
        let current = own.current.map_or(bytes_max, |own| own.min(bytes_max));
        setrlimit(Resource::Data, Rlimit { current: Some(current), maximum: own.maximum }).is_ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = bytes_max;
        false
    }
}

fn readable_duration(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds if seconds % 60 == 0 => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}
