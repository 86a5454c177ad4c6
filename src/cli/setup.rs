//! From parsed arguments to the pieces of the library.

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use belljar::base::{ambient, disk};
use belljar::host::SessionHost;
use belljar::kernel::process::programs::Programs;
use belljar::kernel::vfs::{JournalError, Journals};
use belljar::native::{NativeChildren, NativeError, NativePrograms};
use belljar::net::EgressPolicy;
use belljar::process::ShellImage;
use belljar::{
    ClockConfig, EngineConfig, Input, Limits, Machine, Mtimes, Preopen, Resolved,
    ToolchainPrograms, Toolchains, UnknownImports, VfsLimits,
};
use etcetera::BaseStrategy;

use super::args::{
    ClockArg, LimitArgs, MtimesArg, NativeTime, OnMissing, RuleArgs, RunArgs, TimeArgs,
    UnknownImportsArg,
};
use super::compile::Compiler;
use super::exit::Usage;
use super::mounts;
use super::record::Recording;
use super::values::{StdinFrom, split_once};

/// The name of the shell.
pub const SHELL: &str = "sh";

/// The folder for compiled code: `BELLJAR_CACHE_DIR`, or the platform's.
pub fn cache_dir() -> Result<PathBuf> {
    if let Some(dir) = ambient::setting("BELLJAR_CACHE_DIR") {
        return Ok(dir.into());
    }
    let base = etcetera::choose_base_strategy()
        .context("cannot find the home folder for the cache; set BELLJAR_CACHE_DIR")?;
    absolute(&base.cache_dir(), "BELLJAR_CACHE_DIR")
}

/// The folder for sandboxes: `BELLJAR_HOME`, or the platform's.
pub fn home_dir() -> Result<PathBuf> {
    if let Some(dir) = ambient::setting("BELLJAR_HOME") {
        return Ok(dir.into());
    }
    let base = etcetera::choose_base_strategy()
        .context("cannot find the home folder for sandboxes; set BELLJAR_HOME")?;
    absolute(&base.data_dir(), "BELLJAR_HOME")
}

/// Belljar's folder in the folder `base` of the platform. A relative one would be another in each current
/// directory, and in the reach of programs.
fn absolute(base: &Path, variable: &str) -> Result<PathBuf> {
    if !base.is_absolute() {
        let base = base.display();
        let message =
            format!("{base} is no absolute path: set HOME to one, or {variable} to a folder");
        return Err(Usage(message).into());
    }
    Ok(base.join("belljar"))
}

/// The folder of journals: what is being written to the disk.
pub fn journals_dir() -> Result<PathBuf> {
    Ok(home_dir()?.join("journals"))
}

/// The journals of this user, to write one.
pub fn journals() -> Result<Journals> {
    Journals::open(&journals_dir()?).map_err(|error| {
        let remedy = match error {
            // It says what to do.
            JournalError::Exposed(_) => "",
            _ => "; set BELLJAR_HOME to a folder that you can write to",
        };
        let what = format!("cannot note what is about to be written to the disk{remedy}");
        anyhow::Error::from(error).context(what)
    })
}

/// The toolchains of [`toolchain_dirs`].
pub fn toolchains(dirs: &[PathBuf]) -> Result<Toolchains> {
    Ok(Toolchains::new(toolchain_dirs(dirs)?)?)
}

/// The folders named with `--toolchain`, then those of `BELLJAR_TOOLCHAIN`.
pub fn toolchain_dirs(dirs: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut dirs = dirs.to_vec();
    Toolchains::new(dirs.clone()).context("--toolchain")?;
    if let Some(list) = ambient::setting("BELLJAR_TOOLCHAIN") {
        let listed = std::env::split_paths(&list).filter(|dir| !dir.as_os_str().is_empty());
        let listed: Vec<PathBuf> = listed.collect();
        Toolchains::new(listed.clone()).context("the variable BELLJAR_TOOLCHAIN")?;
        dirs.extend(listed);
    }
    Ok(dirs)
}

/// Whether PROGRAM is the path of a module rather than the name of a program.
fn is_path(program: &OsStr) -> bool {
    let extension = Path::new(program).extension().unwrap_or_default().to_ascii_lowercase();
    let is_module = ["wasm", "wat", "cwasm"].iter().any(|known| extension == *known);
    let is_separator = |byte: &u8| std::path::is_separator(char::from(*byte));
    is_module || program.as_encoded_bytes().iter().any(is_separator)
}

/// What PROGRAM names, by path or in `dirs` and `BELLJAR_TOOLCHAIN`.
pub fn program(program: &OsStr, dirs: &[PathBuf]) -> Result<Resolved> {
    if is_path(program) {
        return Ok(Resolved::at(program.into())?);
    }
    match program.to_str() {
        Some(name) => Ok(toolchains(dirs)?.resolve(name)?),
        None => Err(Usage(format!(
            "{0} cannot be the name of a program: it is not UTF-8; for a module of that name, say \
             where it is: ./{0}.wasm",
            program.display()
        ))
        .into()),
    }
}

/// How to make the engine for one run.
pub fn engine_config(args: &RunArgs) -> Result<EngineConfig> {
    let cache_dir = if args.no_cache { None } else { Some(cache_dir()?) };
    let compile_memory_bytes_max = args.compile.max_compile_memory;
    let fuel = args.limits.fuel.is_some();
    Ok(EngineConfig { pool_slots: 0, fuel, cache_dir, compile_memory_bytes_max })
}

/// How modules of a run are compiled.
pub fn compiler(args: &RunArgs) -> Result<Compiler> {
    let EngineConfig { cache_dir, fuel, .. } = engine_config(args)?;
    Ok(Compiler { cache_dir, fuel, limits: args.compile, quiet: args.quiet })
}

/// Processes beside the first that are started in no time. To make more ready would take longer than
/// most trees take to run.
pub const POOL_SLOTS: u32 = 100;

/// How programs of the host run as processes, if they may.
pub fn native_children(args: &RunArgs) -> Result<Option<Arc<NativeChildren>>> {
    if args.on_missing == OnMissing::Deny {
        return Ok(None);
    }
    let worktree = args.mounts.worktree.clone().unwrap_or_default().host;
    let children = NativeChildren::new(worktree)
        .sandbox_profile(args.profile)
        .map_err(NativeError::Profile)?
        .charge_time(args.native_time == NativeTime::Charged);
    Ok(Some(Arc::new(children)))
}

/// The machine, which is recorded by `recording`, and the preopens where they are not the whole
/// namespace.
pub fn machine(
    args: &RunArgs,
    recording: Option<&Recording>,
    children: Option<&Arc<NativeChildren>>,
    host: &SessionHost,
) -> Result<(Machine, Option<Vec<Preopen>>)> {
    let engine = EngineConfig { pool_slots: POOL_SLOTS, ..engine_config(args)? };
    let mut programs = ToolchainPrograms::with_engine_config(engine, toolchains(&args.toolchain)?)
        .unknown_imports(unknown_imports(args))
        .compiler(compiler(args)?.shared())
        .with(SHELL, ShellImage::maker());
    if let Some(recording) = recording.filter(|recording| recording.embeds()) {
        programs = programs.embed_in(recording.recorder());
    }
    let mut programs: Arc<dyn Programs> = Arc::new(programs);
    if let Some(children) = children {
        programs = Arc::new(NativePrograms::new(programs, Arc::clone(children)));
    }
    let mut builder = Machine::builder()
        .limits(limits(&args.limits))
        .seed(args.time.seed)
        .clock(clock(&args.time)?)
        .programs(programs)
        .host(Arc::new(host.clone()));
    builder = builder.mtimes(mtimes(&args.time)?);
    if let Some(recording) = recording {
        builder = builder.tape(recording.recorder());
    }
    let (machine, preopens) = mounts::mount(builder, &args.mounts, children.is_some(), args.quiet)?;
    machine.vfs().hide_temporaries(&journals_dir()?);
    Ok((machine, preopens))
}

/// Whom programs may reach through their host.
///
/// # Errors
/// [`Usage`] for a rule of the environment that makes no sense.
pub fn network_policy(args: &RuleArgs) -> Result<EgressPolicy> {
    #[cfg(not(feature = "http"))]
    if !args.allow_net.is_empty() {
        let why = "--allow-net: this belljar was built without the feature `http`";
        return Err(Usage(why.to_owned()).into());
    }
    if args.allow_net.is_empty() && args.deny_net.is_empty() {
        let of_environment = EgressPolicy::from_environment();
        return Ok(of_environment.map_err(Usage::because)?.unwrap_or_default());
    }
    let allowed = args.allow_net.iter().cloned().fold(EgressPolicy::default(), EgressPolicy::allow);
    Ok(args.deny_net.iter().cloned().fold(allowed, EgressPolicy::deny))
}

/// The bounds of a run.
pub fn limits(args: &LimitArgs) -> Limits {
    Limits {
        memory_bytes_max: args.max_memory,
        fuel: args.fuel,
        timeout: args.timeout,
        virtual_timeout: args.virtual_timeout,
        open_files_max: args.max_files,
        processes_max: args.max_processes,
        output_bytes_max: args.max_output,
        host_call_bytes_max: args.max_host_call,
        vfs: VfsLimits { upper_bytes_max: args.max_upper, ..VfsLimits::default() },
        ..Limits::default()
    }
}

/// What to do about functions that a module imports and nobody defines.
pub fn unknown_imports(args: &RunArgs) -> UnknownImports {
    match args.unknown_imports {
        UnknownImportsArg::Trap => UnknownImports::Trap,
        UnknownImportsArg::Deny => UnknownImports::Deny,
    }
}

/// What the clock is.
pub fn clock(args: &TimeArgs) -> Result<ClockConfig> {
    match (args.clock, args.start_at) {
        (ClockArg::Paused, Some(start_ns)) => Ok(ClockConfig::Paused { start_ns }),
        (ClockArg::Paused, None) => Ok(ClockConfig::default()),
        (ClockArg::Real, None) => Ok(ClockConfig::Host),
        (ClockArg::Real, Some(_)) => Err(Usage(
            "--start-at cannot set the host's clock: leave out --clock real, or --start-at".into(),
        )
        .into()),
    }
}

/// 2000-01-01T00:00:00Z, which is past: the time of all files under the host's clock, nanoseconds since
/// the Unix epoch.
const FIXED_NS: u64 = 946_684_800_000_000_000;

/// The times that files below show.
pub fn mtimes(args: &TimeArgs) -> Result<Mtimes> {
    Ok(match args.mtimes {
        MtimesArg::Host => Mtimes::Host,
        MtimesArg::Content => Mtimes::Content,
        MtimesArg::Fixed => Mtimes::Fixed(match clock(args)? {
            ClockConfig::Paused { start_ns } => start_ns,
            ClockConfig::Host => FIXED_NS,
        }),
    })
}

/// The variables of `--env`, with those that are passed through looked up. One that is not set here
/// is not set there either.
pub fn environment(given: &[OsString]) -> Result<Vec<(OsString, OsString)>> {
    let mut variables = Vec::new();
    for given in given {
        let (key, value) = match split_once(given, "=") {
            Some((key, value)) => (key, Some(value)),
            None => (given.clone(), given.to_str().and_then(ambient::env_var)),
        };
        if key.is_empty() {
            return Err(Usage(format!("--env {}: a variable needs a name", given.display())).into());
        }
        variables.extend(value.map(|value| (key, value)));
    }
    Ok(variables)
}

/// What `--stdin` names.
pub fn stdin(from: &StdinFrom) -> Result<Input> {
    Ok(match from {
        StdinFrom::Inherit => Input::Host,
        StdinFrom::Null => Input::Empty,
        StdinFrom::File(path) => Input::Reader(open_stdin(path)?),
    })
}

fn open_stdin(path: &Path) -> Result<Box<dyn Read + Send>> {
    if disk::metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
        return Err(Usage(format!("--stdin: {} is a directory", path.display())).into());
    }
    let file = disk::open_stream(path).map_err(|error| Usage::of("--stdin", error))?;
    Ok(Box::new(file))
}

/// Bytes of an argument as a guest gets them.
pub fn guest_bytes(text: &OsStr) -> Vec<u8> {
    #[cfg(unix)]
    return std::os::unix::ffi::OsStrExt::as_bytes(text).to_vec();
    #[cfg(not(unix))]
    return text.to_string_lossy().into_owned().into_bytes();
}

/// Whether to show progress and colour on standard error.
pub fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}
