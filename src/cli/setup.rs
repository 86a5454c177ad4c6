//! Builds the objects of the library from parsed arguments.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};

use super::args::run::{NativeTime, OnMissing, RunArgs};
use super::args::values::SHELL;
use super::compile::Compiler;
use super::exit::Usage;
use super::home::{cache_bytes_max, cache_dir, installed_toolchains, journals_dir};
use super::loaded::LoadedPrograms;
use super::mounts;
use super::options::{clock, limits, mtimes, unknown_imports};
use super::project;
use super::record::Recording;
use super::signals;
use crate::base::ambient;
use crate::host::SessionHost;
use crate::kernel::process::programs::Programs;
use crate::native::{NativeChildren, NativeError, NativePrograms};
use crate::process::ShellImage;
use crate::results::Results;
use crate::store::FileDigests;
use crate::{
    EngineConfig, InstalledToolchains, Machine, Preopen, Resolved, ToolchainPrograms, Toolchains,
};

/// The toolchains of [`named_toolchains`], then those of the project, or, without one that names some, those that are
/// installed.
pub fn toolchains(dirs: &[PathBuf]) -> Result<Toolchains> {
    toolchains_with(dirs, false)
}

/// The toolchains of a run.
///
/// # Errors
/// As [`toolchains`]; with `--locked`, the lock file of the project does not have each.
pub fn toolchains_of_run(args: &RunArgs) -> Result<Toolchains> {
    toolchains_with(&args.toolchain, args.locked)
}

fn toolchains_with(dirs: &[PathBuf], locked: bool) -> Result<Toolchains> {
    let (named, store) = (named_toolchains(dirs)?, installed_toolchains()?);
    match project_toolchains(&store, locked)? {
        Some(toolchains) => Ok(named.then(toolchains)),
        None => Ok(named.with_installed(&store)?),
    }
}

/// The toolchains in the directories of `--toolchain`, then in those of `BELLJAR_TOOLCHAIN`.
pub fn named_toolchains(dirs: &[PathBuf]) -> Result<Toolchains> {
    let toolchains = Toolchains::new(dirs.to_vec()).context("--toolchain")?;
    let Some(list) = ambient::setting("BELLJAR_TOOLCHAIN") else { return Ok(toolchains) };
    let listed = std::env::split_paths(&list).filter(|dir| !dir.as_os_str().is_empty());
    let listed = Toolchains::new(listed.collect()).context("the variable BELLJAR_TOOLCHAIN")?;
    Ok(toolchains.then(listed))
}

/// The toolchains that the project of the current directory names, if it names some.
pub fn project_toolchains(store: &InstalledToolchains, locked: bool) -> Result<Option<Toolchains>> {
    let of_project = match project::current()? {
        Some(project) => project::toolchains::of(project, store, locked)?,
        None => None,
    };
    if locked && of_project.is_none() {
        let message =
            "--locked: no belljar.toml with [toolchains] is in this directory or above it";
        return Err(Usage(message.to_owned()).into());
    }
    Ok(of_project)
}

/// Whether PROGRAM is the path of a module rather than the name of a program.
pub fn is_path(program: &OsStr) -> bool {
    let extension = Path::new(program).extension().unwrap_or_default().to_ascii_lowercase();
    let is_module = ["wasm", "wat", "cwasm"].iter().any(|known| extension == *known);
    let is_separator = |byte: &u8| std::path::is_separator(char::from(*byte));
    is_module || program.as_encoded_bytes().iter().any(is_separator)
}

/// The installed toolchain that has the program `name`, and the `belljar.toml` that leaves it out.
pub fn left_out_by_project(name: &str) -> Option<(String, PathBuf)> {
    let project = project::current().ok()??;
    project.file.toolchains.as_ref()?;
    let installed = Toolchains::default().with_installed(&installed_toolchains().ok()?).ok()?;
    let mut owners = installed.described();
    let owner = owners.find(|owner| owner.manifest().programs.contains_key(name))?;
    Some((owner.manifest().name.clone(), project.path()))
}

/// The program that PROGRAM names, by path, or in `toolchains`.
pub fn program(program: &OsStr, toolchains: &Toolchains) -> Result<Resolved> {
    if is_path(program) {
        return Ok(Resolved::at(program.into())?);
    }
    match program.to_str() {
        Some(name) => Ok(toolchains.resolve(name)?),
        None => Err(Usage(format!(
            "{0} cannot be the name of a program: it is not UTF-8; to run a module of that name, \
             give its path: ./{0}.wasm",
            program.display()
        ))
        .into()),
    }
}

/// The settings of the engine for one run.
pub fn engine_config(args: &RunArgs) -> Result<EngineConfig> {
    let cache_dir = if args.no_cache { None } else { Some(cache_dir()?) };
    let compile_memory_bytes_max = args.compile.limits.max_compile_memory;
    Ok(EngineConfig {
        pool_slots: 0,
        fuel: args.limits.fuel.is_some(),
        cache_dir,
        cache_bytes_max: cache_bytes_max()?,
        tier: args.compile.tier.into(),
        // A process of its own does that.
        optimize_in_background: false,
        compile_memory_bytes_max,
    })
}

/// What remembers the digests of large modules, unless the run uses no cache.
pub fn file_digests(args: &RunArgs) -> Result<Option<FileDigests>> {
    Ok(if args.no_cache { None } else { Some(FileDigests::new(&cache_dir()?)) })
}

/// The compiler of a run's modules.
pub fn compiler(args: &RunArgs) -> Result<Compiler> {
    let EngineConfig { cache_dir, fuel, .. } = engine_config(args)?;
    Ok(Compiler { cache_dir, fuel, args: args.compile, quiet: args.quiet })
}

/// Processes after the first for which address space is reserved. Reserving more would take longer than
/// most process trees run.
pub const POOL_SLOTS: u32 = 100;

/// The settings of native programs as processes, with `--on-missing native`.
pub fn native_children(args: &RunArgs) -> Result<Option<Arc<NativeChildren>>> {
    if args.on_missing == OnMissing::Deny {
        return Ok(None);
    }
    signals::pass_to_natives()?;
    let worktree = args.mounts.worktree.clone().unwrap_or_default().host;
    let children = NativeChildren::new(worktree)
        .sandbox_profile(args.profile)
        .map_err(NativeError::Profile)?
        .charge_time(args.native_time == NativeTime::Charged);
    Ok(Some(Arc::new(children)))
}

/// The machine, recorded by `recording`, and the preopens if they are not the whole namespace; `loaded` gets the
/// modules that it loads; processes start the programs of `toolchains`, and are answered from `results`.
pub fn machine(
    args: &RunArgs,
    recording: Option<&Recording>,
    children: Option<&Arc<NativeChildren>>,
    host: SessionHost,
    loaded: &LoadedPrograms,
    toolchains: Toolchains,
    results: Option<&Arc<Results>>,
) -> Result<(Machine, Option<Vec<Preopen>>)> {
    let engine = EngineConfig { pool_slots: POOL_SLOTS, ..engine_config(args)? };
    let compiler = compiler(args)?;
    let mut programs = ToolchainPrograms::with_engine_config(engine, toolchains)
        .unknown_imports(unknown_imports(args))
        .compiler(compiler.clone().shared())
        .on_load(compiler.loads(loaded))
        .answered_from(results.cloned())
        .with(SHELL, ShellImage::maker());
    if let Some(digests) = file_digests(args)? {
        programs = programs.file_digests(digests);
    }
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
        .host(host);
    builder = builder.mtimes(mtimes(&args.time)?);
    if let Some(recording) = recording {
        builder = builder.tape(recording.recorder());
    }
    let (mut machine, preopens) =
        mounts::mount(builder, &args.mounts, children.is_some(), args.quiet)?;
    machine.vfs().hide_temporaries(&journals_dir()?);
    machine.set_results(results.cloned());
    Ok((machine, preopens))
}
