//! From parsed arguments to the pieces of the library.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use belljar::base::{ambient, disk};
use belljar::{
    ClockConfig, EngineConfig, HostDir, Limits, Machine, MachineBuilder, Module, Mtimes, Preopen,
    Reach, Resolved, Source, Toolchains, VfsLimits,
};
use etcetera::BaseStrategy;

use super::args::{ClockArg, MtimesArg, RunArgs};
use super::exit::Usage;
use super::values::DirMount;

/// The folder for compiled code: `BELLJAR_CACHE_DIR`, or the platform's.
pub fn cache_dir() -> Result<PathBuf> {
    if let Some(dir) = ambient::setting("BELLJAR_CACHE_DIR") {
        return Ok(dir.into());
    }
    let base = etcetera::choose_base_strategy()
        .context("cannot find the home folder for the cache; set BELLJAR_CACHE_DIR")?;
    Ok(base.cache_dir().join("belljar"))
}

/// The folders named with `--toolchain`, then those of `BELLJAR_TOOLCHAIN`.
pub fn toolchains(dirs: &[PathBuf]) -> Result<Toolchains> {
    let mut dirs = dirs.to_vec();
    if let Some(list) = ambient::setting("BELLJAR_TOOLCHAIN") {
        dirs.extend(std::env::split_paths(&list).filter(|dir| !dir.as_os_str().is_empty()));
    }
    Ok(Toolchains::new(dirs)?)
}

/// Whether PROGRAM is the path of a module rather than the name of a program.
pub fn is_path(program: &str) -> bool {
    let extension = Path::new(program).extension();
    let is_module = extension.is_some_and(|e| e.eq_ignore_ascii_case("wasm") || e == "wat");
    is_module || program.contains('/') || (cfg!(windows) && program.contains('\\'))
}

/// The module that PROGRAM names.
pub fn module(args: &RunArgs) -> Result<Module> {
    let program = args.program()?;
    let resolved = if is_path(program) {
        Resolved::File(program.into())
    } else {
        toolchains(&args.toolchain)?.resolve(program)?
    };
    Ok(resolved.module()?)
}

/// How to make the engine for one run.
pub fn engine_config(args: &RunArgs) -> Result<EngineConfig> {
    let cache_dir = if args.no_cache { None } else { Some(cache_dir()?) };
    Ok(EngineConfig { pooling: false, fuel: args.fuel.is_some(), cache_dir })
}

/// Hides the cache of compiled code where it lies in the mounted folder `host`: whoever can write
/// there decides what runs.
fn hide_cache(builder: MachineBuilder, host: &Path, at: &str) -> Result<MachineBuilder> {
    let (Ok(cache), Ok(host)) = (disk::canonical(&cache_dir()?), disk::canonical(host)) else {
        return Ok(builder);
    };
    if host.starts_with(&cache) {
        let message = format!(
            "{} is where belljar keeps compiled code: it cannot be mounted",
            host.display()
        );
        return Err(Usage(message).into());
    }
    let Ok(inside) = cache.strip_prefix(&host) else { return Ok(builder) };
    let inside: Vec<_> = inside.iter().map(OsStr::to_string_lossy).collect();
    let at = format!("{}/{}", at.trim_end_matches('/'), inside.join("/"));
    Ok(builder.mount_read_only(at, Source::Memory))
}

/// The machine, and the preopens where they are not the whole namespace.
pub fn machine(args: &RunArgs) -> Result<(Machine, Option<Vec<Preopen>>)> {
    let mut builder = Machine::builder().limits(limits(args)).seed(args.seed).clock(clock(args));
    if args.mtimes == MtimesArg::Host {
        builder = builder.mtimes(Mtimes::Host);
    }
    let mut preopens = None;
    if args.no_worktree {
        builder = builder.tmp(false);
    } else {
        let dir = args.worktree.clone().unwrap_or_else(|| ".".into());
        builder = builder.mount(belljar::WORKTREE, open_dir("--worktree", &dir)?);
        builder = hide_cache(builder, &dir, belljar::WORKTREE)?;
    }
    for mount in &args.dir {
        let source = open_dir("--dir", &mount.host)?;
        let at = mount_point(&mount.guest)?;
        builder = add_mount(builder, at.clone(), source, mount.read_only);
        builder = hide_cache(builder, &mount.host, &at)?;
    }
    if args.no_worktree {
        let preopen = |mount: &DirMount| {
            let (path, name) = (mount_point(&mount.guest)?, mount.guest.clone());
            Ok(Preopen { path, name, reach: Reach::Confined })
        };
        preopens = Some(args.dir.iter().map(preopen).collect::<Result<_>>()?);
    }
    let machine = builder.build().map_err(|error| Usage(error.to_string()))?;
    Ok((machine, preopens))
}

fn add_mount(
    builder: MachineBuilder,
    at: String,
    source: Source,
    read_only: bool,
) -> MachineBuilder {
    if read_only { builder.mount_read_only(at, source) } else { builder.mount(at, source) }
}

/// Where a folder that the guest calls `guest` stands in the namespace: relative names, `.` above
/// all, begin at the root.
fn mount_point(guest: &str) -> Result<String> {
    let mut names = Vec::new();
    for name in guest.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                let message = format!(
                    "--dir: {guest}: `..` has no place in a mount point; name one with HOST::GUEST"
                );
                return Err(Usage(message).into());
            }
            name => names.push(name),
        }
    }
    Ok(format!("/{}", names.join("/")))
}

fn open_dir(option: &str, path: &Path) -> Result<Source> {
    match HostDir::open(path) {
        Ok(dir) => Ok(Source::Host(Arc::new(dir))),
        Err(error) => {
            Err(Usage(format!("{option} {}: cannot open the folder: {error}", path.display()))
                .into())
        }
    }
}

fn limits(args: &RunArgs) -> Limits {
    Limits {
        memory_bytes_max: args.max_memory,
        fuel: args.fuel,
        timeout: args.timeout,
        virtual_timeout: args.virtual_timeout,
        open_files_max: args.max_files,
        output_bytes_max: args.max_output,
        vfs: VfsLimits { upper_bytes_max: args.max_upper, ..VfsLimits::default() },
        ..Limits::default()
    }
}

fn clock(args: &RunArgs) -> ClockConfig {
    match args.clock {
        ClockArg::Paused => ClockConfig::Paused { start_ns: args.start_at },
        ClockArg::Real => ClockConfig::Host,
    }
}

/// The variables of `--env`, with those that are passed through looked up. One that is not set here
/// is not set there either.
pub fn environment(args: &RunArgs) -> Result<Vec<(String, OsString)>> {
    let mut variables = Vec::new();
    for given in &args.env {
        let (key, value) = match given.split_once('=') {
            Some((key, value)) => (key, Some(value.into())),
            None => (given.as_str(), ambient::env_var(given)),
        };
        if key.is_empty() {
            return Err(Usage(format!("--env {given}: a variable needs a name")).into());
        }
        if let Some(value) = value {
            variables.push((key.to_owned(), value));
        }
    }
    Ok(variables)
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
