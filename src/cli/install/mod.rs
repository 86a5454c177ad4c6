//! `belljar install` and `uninstall`.

#[cfg(feature = "import")]
mod archive;
#[cfg(feature = "import")]
pub mod bundle;
#[cfg(feature = "import")]
pub mod import;
pub mod recipes;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytesize::ByteSize;
use serde_json::json;

use super::args::toolchain::{InstallArgs, UninstallArgs};
use super::compile::Compiler;
use super::exit::Usage;
use super::home::{cache_dir, installed_toolchains};
use super::progress::Progress;
use super::text::{count, printable};
use crate::base::disk;
use crate::engine::{Engine, EngineConfig, Program, UnknownImports};
use crate::toolchain::{MANIFEST, similar};
use crate::{Code, InstalledToolchains, Removed, Resolved, Toolchain, ToolchainFolder};

/// Installs toolchains.
pub fn install(args: &InstallArgs) -> Result<u8> {
    if args.package.is_some() && args.sources.len() > 1 {
        return Err(Usage("--package: name one recipe with it".to_owned()).into());
    }
    let store = installed_toolchains()?;
    let mut lines = Vec::new();
    for source in &args.sources {
        let before = installed_version(&store, source);
        let name = from_source(source, args, &store)
            .with_context(|| format!("cannot install {}", printable(source)))?;
        let toolchain = Arc::new(Toolchain::installed(&store, &name)?);
        let compiled = if args.no_compile { 0 } else { compile(&toolchain, args)? };
        let manifest = toolchain.manifest();
        if args.json {
            lines.push(json!({
                "name": name, "version": manifest.version, "digest": toolchain.digest(),
                "programs": manifest.programs.keys().collect::<Vec<_>>(), "compiled": compiled,
                "replaced_version": before,
            }));
        } else {
            let programs: Vec<&str> = manifest.programs.keys().map(String::as_str).collect();
            say!("{name} {}: {}", printable(&manifest.version), programs.join(" "));
        }
    }
    if args.json {
        say!("{}", json!(lines));
    }
    Ok(0)
}

fn installed_version(store: &InstalledToolchains, name: &str) -> Option<String> {
    let toolchain = Toolchain::installed(store, name).ok()?;
    Some(toolchain.manifest().version.clone())
}

/// Installs what `source` names; returns the name of the toolchain.
fn from_source(source: &str, args: &InstallArgs, store: &InstalledToolchains) -> Result<String> {
    let is_path = source.contains(std::path::is_separator) || source == ".";
    if let Some(recipe) = recipes::find(source).filter(|_| !is_path) {
        return from_recipe(&recipe?, args, store);
    }
    if args.package.is_some() {
        let names: Vec<String> = recipes::names().map(str::to_owned).collect();
        let message =
            format!("--package: there is no recipe {source:?} (recipes: {})", names.join(", "));
        return Err(Usage(message).into());
    }
    let dir = Path::new(source);
    if disk::metadata(dir).is_ok_and(|metadata| metadata.is_file()) {
        return from_bundle(dir, args, store);
    }
    if disk::metadata(dir).is_ok_and(|metadata| metadata.is_dir()) {
        if disk::symlink_metadata(&dir.join(MANIFEST)).is_err() {
            let source = printable(source);
            let message =
                format!("it has no {MANIFEST}; write one with `belljar toolchain init {source}`");
            return Err(Usage(message).into());
        }
        return store_folder(&ToolchainFolder::open(dir)?, store, args.quiet);
    }
    let names: Vec<String> = recipes::names().map(str::to_owned).collect();
    let meant = similar(source, &names);
    let meant = if meant.is_empty() {
        String::new()
    } else {
        format!("; did you mean {}?", meant.join(", "))
    };
    Err(Usage(format!(
        "there is no such folder or bundle, and no recipe of this name{meant} (recipes: {})",
        names.join(", ")
    ))
    .into())
}

#[cfg(feature = "import")]
fn from_recipe(
    recipe: &recipes::Recipe,
    args: &InstallArgs,
    store: &InstalledToolchains,
) -> Result<String> {
    let folder = import::import(recipe, args.package.as_deref(), store.dir(), args.quiet)?;
    let toolchain = ToolchainFolder::of(folder.path(), recipe.manifest.clone())?;
    store_folder(&toolchain, store, args.quiet)
}

#[cfg(feature = "import")]
fn from_bundle(file: &Path, args: &InstallArgs, store: &InstalledToolchains) -> Result<String> {
    let shown = Progress::start(format!("unpacking {}", file.display()), args.quiet);
    let folder = import::temporary_in(store.dir())?;
    let manifest = bundle::unpack(file, folder.path())?;
    drop(shown);
    store_folder(&ToolchainFolder::of(folder.path(), manifest)?, store, args.quiet)
}

#[cfg(not(feature = "import"))]
fn from_bundle(_: &Path, _: &InstallArgs, _: &InstalledToolchains) -> Result<String> {
    Err(Usage("this belljar was built without the feature `import`, which bundles need".to_owned())
        .into())
}

#[cfg(not(feature = "import"))]
fn from_recipe(_: &recipes::Recipe, _: &InstallArgs, _: &InstalledToolchains) -> Result<String> {
    Err(Usage("this belljar was built without the feature `import`, which recipes need".to_owned())
        .into())
}

fn store_folder(
    toolchain: &ToolchainFolder,
    store: &InstalledToolchains,
    quiet: bool,
) -> Result<String> {
    let name = toolchain.manifest().name.clone();
    let shown = Progress::start(format!("installing {name}"), quiet);
    toolchain.install(store, &mut |_, _| {})?;
    drop(shown);
    Ok(name)
}

/// Compiles the modules of `toolchain` that are not compiled yet; returns how many.
fn compile(toolchain: &Arc<Toolchain>, args: &InstallArgs) -> Result<usize> {
    let cache_dir = cache_dir()?;
    let compiler = Compiler {
        cache_dir: Some(cache_dir.clone()),
        fuel: false,
        limits: args.compile,
        quiet: args.quiet,
    };
    let engine = Engine::new(EngineConfig {
        pool_slots: 0,
        cache_dir: Some(cache_dir),
        tier: args.compile.tier.into(),
        optimize_in_background: false,
        ..EngineConfig::default()
    })?;
    let mut count = 0;
    for name in toolchain.manifest().programs.keys() {
        let Some(program) = toolchain.program(name) else { continue };
        if program.code == Code::Script {
            continue;
        }
        let module = Resolved::Described(program).module()?;
        if Program::from_cache(&engine, &module, UnknownImports::Trap)?.is_some() {
            continue;
        }
        let size = ByteSize(module.size()).display().iec();
        let shown = Progress::start(format!("compiling {} ({size})", printable(name)), args.quiet);
        compiler.compile_into_cache(&module, &shown)?;
        drop(shown);
        count += 1;
    }
    Ok(count)
}

/// Removes installed toolchains.
pub fn uninstall(args: &UninstallArgs) -> Result<u8> {
    let store = installed_toolchains()?;
    let mut removed = Removed::default();
    for name in &args.names {
        let freed = store.uninstall(name)?;
        let Removed { contents, bytes } = freed.unwrap_or_default();
        removed.contents += contents;
        removed.bytes += bytes;
        if args.json {
            continue;
        }
        let (files, bytes) = (count(contents, "content"), ByteSize(bytes).display().iec());
        let name = printable(name);
        match freed {
            Some(_) => say!("removed {name}, with {files} that no other toolchain has, {bytes}"),
            None => say!(
                "removed {name}; its files stay while programs run: `belljar toolchain gc` removes them"
            ),
        }
    }
    if args.json {
        say!(
            "{}",
            json!({ "names": args.names, "contents": removed.contents, "bytes": removed.bytes })
        );
    }
    Ok(0)
}
