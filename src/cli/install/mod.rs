//! `belljar install` and `uninstall`.

#[cfg(feature = "import")]
pub mod archive;
#[cfg(feature = "import")]
pub mod bundle;
#[cfg(feature = "import")]
pub mod compiled;
#[cfg(feature = "import")]
pub mod import;
#[cfg(feature = "oci")]
pub mod oci;
pub mod outdated;
pub mod project;
#[cfg_attr(
    not(feature = "import"),
    allow(dead_code, reason = "importing needs all of a recipe, listing its name")
)]
pub mod recipes;
pub mod signed;
pub mod stored;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bytesize::ByteSize;
use serde_json::{Value, json};

use super::args::groups::TierArg;
use super::args::toolchain::{InstallArgs, UninstallArgs};
use super::args::values::SHELL;
use super::background;
use super::compile::Compiler;
use super::exit::Usage;
use super::home::{cache_dir, installed_toolchains};
use super::progress::Progress;
use super::signatures::Signer;
use super::text::{count, printable, shell_word};
use crate::base::digest::Digest;
use crate::base::disk;
use crate::engine::{Engine, EngineConfig, Program, ProgramError, Tier, UnknownImports};
use crate::toolchain::{MANIFEST, Temporary, meant, similar};
use crate::{
    InstalledToolchains, Manifest, Module, Removed, Toolchain, ToolchainFolder, Toolchains,
};
use signed::Signing;

/// Installs toolchains.
pub fn install(args: &InstallArgs) -> Result<u8> {
    if args.package.is_some() && args.sources.len() > 1 {
        return Err(Usage("--package: name one recipe with it".to_owned()).into());
    }
    let store = installed_toolchains()?;
    if args.sources.is_empty() {
        return project::install(args, &store);
    }
    let signing = Signing::of(args)?;
    let mut lines = Vec::new();
    for source in &args.sources {
        let cannot = || format!("cannot install {}", printable(source));
        let mut unpacked = open(source, Path::new(""), args, &store).with_context(cannot)?;
        let signer = signing.examine(&mut unpacked.toolchain, &store).with_context(cannot)?;
        let manifest = unpacked.toolchain.manifest();
        let before = replaced_version(&store, &unpacked.toolchain);
        // First, as what cannot be compiled must not replace a version that works.
        let precompiled = unpacked.take_compiled(&signing, args).with_context(cannot)?;
        let compiled = if args.no_compile { 0 } else { compile(&unpacked.toolchain, args)? };
        let shown = Progress::start(format!("installing {}", manifest.name), args.quiet);
        // Another process may have installed something else in the meantime.
        let still = || signing.examine(&mut unpacked.toolchain.clone(), &store).map(drop);
        let digest = unpacked.toolchain.install_if(&store, still).with_context(cannot)?;
        drop(shown);
        signing.keep()?;
        if args.json {
            let mut line = line(manifest, digest, &signer, compiled);
            line["replaced_version"] = json!(before);
            line["precompiled"] = json!(precompiled);
            lines.push(line);
        } else {
            tell(manifest, before.as_deref());
        }
        if !args.quiet {
            signed::tell(manifest, &signer);
            tell_hidden(manifest, &store)?;
        }
    }
    if args.json {
        say!("{}", json!(lines));
    }
    Ok(0)
}

/// What was installed, as JSON.
fn line(manifest: &Manifest, digest: Digest, signer: &Signer, compiled: usize) -> Value {
    json!({
        "signature": signer.json(),
        "name": manifest.name, "version": manifest.version, "digest": digest,
        "programs": manifest.programs.keys().collect::<Vec<_>>(), "compiled": compiled,
    })
}

/// Says what was installed, in place of the version `before`.
fn tell(manifest: &Manifest, before: Option<&str>) {
    let programs: Vec<String> = manifest.programs.keys().map(|name| printable(name)).collect();
    let replaced = match before {
        Some(before) if before != manifest.version => {
            format!(" (replaced {})", printable(before))
        }
        _ => String::new(),
    };
    say!("{} {}: {}{replaced}", manifest.name, printable(&manifest.version), programs.join(" "));
}

/// The version of another toolchain that is installed under the name of `toolchain`.
fn replaced_version(store: &InstalledToolchains, toolchain: &ToolchainFolder) -> Option<String> {
    let old = Toolchain::installed(store, &toolchain.manifest().name).ok()?;
    Some(old.manifest().version.clone()).filter(|_| old.digest() != toolchain.digest())
}

/// Notes programs of `manifest` that hide others, or are hidden.
fn tell_hidden(manifest: &Manifest, store: &InstalledToolchains) -> Result<()> {
    let (all, built_in) = (Toolchains::default().with_installed(store)?, Toolchains::default());
    for name in manifest.programs.keys() {
        let shown = printable(name);
        if name == SHELL || built_in.resolve(name).is_ok() {
            note!("belljar: note: {shown} is used in place of the built-in program of this name");
        }
        let owners = all.described().filter(|other| other.manifest().programs.contains_key(name));
        let owners: Vec<&str> = owners.map(|owner| owner.manifest().name.as_str()).collect();
        if let [first, .., _] = owners[..] {
            note!(
                "belljar: note: {} have a program {shown}; that of {first} is run",
                owners.join(" and ")
            );
        }
    }
    Ok(())
}

/// A toolchain, ready to be installed.
pub struct Unpacked {
    /// The toolchain.
    pub toolchain: ToolchainFolder,
    /// The bundle that it is from, if it is from one.
    #[cfg_attr(not(feature = "import"), expect(dead_code, reason = "there are no bundles"))]
    bundle: Option<PathBuf>,
    /// Where it was unpacked, if it was.
    _folder: Option<Temporary>,
}

impl Unpacked {
    /// What has no bundle with compiled code.
    fn plain(toolchain: ToolchainFolder, folder: Option<Temporary>) -> Self {
        Self { toolchain, bundle: None, _folder: folder }
    }

    /// Puts compiled code that comes with it into the cache; returns of how many modules.
    ///
    /// # Errors
    /// It is not what was signed.
    #[cfg(feature = "import")]
    fn take_compiled(&self, signing: &Signing, args: &InstallArgs) -> Result<usize> {
        let Some(bundle) = &self.bundle else { return Ok(0) };
        compiled::take(bundle, &self.toolchain, signing, &engine(args)?, args.quiet)
    }

    #[cfg(not(feature = "import"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with bundles")]
    fn take_compiled(&self, _: &Signing, _: &InstallArgs) -> Result<usize> {
        Ok(0)
    }
}

/// Opens what `source` names; paths are relative to the folder `base`.
fn open(
    source: &str,
    base: &Path,
    args: &InstallArgs,
    store: &InstalledToolchains,
) -> Result<Unpacked> {
    let is_path = source.contains(std::path::is_separator) || source == ".";
    if let Some(recipe) = recipes::find(source).filter(|_| !is_path) {
        return from_recipe(&recipe?, args, store);
    }
    let names = || recipes::names().collect::<Vec<_>>().join(", ");
    if args.package.is_some() {
        let message = format!("--package: there is no recipe {source:?} (recipes: {})", names());
        return Err(Usage(message).into());
    }
    let path = &base.join(source);
    let metadata = disk::metadata(path);
    if metadata.as_ref().is_ok_and(std::fs::Metadata::is_file) {
        return from_bundle(path, store, args.quiet);
    }
    if metadata.is_ok() {
        if disk::symlink_metadata(&path.join(MANIFEST)).is_err() {
            let folder = printable(&path.to_string_lossy());
            let message =
                format!("it has no {MANIFEST}; write one with `belljar toolchain init {folder}`");
            return Err(Usage(message).into());
        }
        return Ok(Unpacked::plain(ToolchainFolder::open(path)?, None));
    }
    #[cfg(feature = "oci")]
    if oci::is_reference(source) {
        let registry = oci::Registry::of(source, args.plain_http)?;
        let (folder, toolchain) = oci::pull(&registry, store, args.quiet)?;
        return Ok(Unpacked::plain(toolchain, Some(folder)));
    }
    let known: Vec<String> = recipes::names().map(str::to_owned).collect();
    let meant = meant(&similar(&source.to_lowercase(), &known));
    Err(Usage(format!(
        "there is no folder or bundle {}, and no recipe of this name{meant} (recipes: {})",
        printable(&path.to_string_lossy()),
        names()
    ))
    .into())
}

/// The toolchain that `source` names, to be packed or pushed: a folder, a bundle, or what is installed under a name.
///
/// # Errors
/// There is none, or something in it is wrong.
#[cfg(feature = "import")]
pub fn toolchain_of(source: &str, quiet: bool) -> Result<Unpacked> {
    let (path, store) = (Path::new(source), installed_toolchains()?);
    match here(source, &store, quiet)? {
        Some(Here::Folder) => return Ok(Unpacked::plain(ToolchainFolder::open(path)?, None)),
        Some(Here::File) => return from_bundle(path, &store, quiet),
        None => {}
    }
    let folder = store.temporary()?;
    let (manifest, signature) =
        store.unpack(source, folder.path()).map_err(|error| match error {
            crate::InstallError::NotInstalled { .. } => anyhow::Error::from(Usage(format!(
                "there is no such folder or bundle, and {error}"
            ))),
            error => error.into(),
        })?;
    let toolchain = ToolchainFolder::of(folder.path(), manifest)?.with_signature(signature);
    Ok(Unpacked::plain(toolchain, Some(folder)))
}

/// What is at the path that a toolchain is named by.
pub enum Here {
    Folder,
    File,
}

/// What is at the path `source`, which may also be the name of a toolchain in `store`: the path precedes it, unless that is a
/// folder which is no toolchain. Notes that there are both, unless `quiet`.
///
/// # Errors
/// The store cannot be read.
pub fn here(source: &str, store: &InstalledToolchains, quiet: bool) -> Result<Option<Here>> {
    let path = Path::new(source);
    let (is_installed, is_file) = (store.has(source)?, path.is_file());
    let is_toolchain = is_file || disk::symlink_metadata(&path.join(MANIFEST)).is_ok();
    if is_installed && is_toolchain && !quiet {
        let what = if is_file { "file" } else { "folder" };
        note!(
            "belljar: note: {} is the {what} here, not the installed toolchain of this name",
            printable(source)
        );
    }
    Ok(match (is_toolchain || !is_installed, is_file) {
        (true, true) => Some(Here::File),
        (true, false) => path.is_dir().then_some(Here::Folder),
        (false, _) => None,
    })
}

#[cfg(feature = "import")]
fn from_recipe(
    recipe: &recipes::Recipe,
    args: &InstallArgs,
    store: &InstalledToolchains,
) -> Result<Unpacked> {
    let folder = import::import(recipe, args.package.as_deref(), store, args.quiet)?;
    let toolchain = ToolchainFolder::of(folder.path(), recipe.manifest.clone())?;
    Ok(Unpacked::plain(toolchain, Some(folder)))
}

#[cfg(feature = "import")]
fn from_bundle(file: &Path, store: &InstalledToolchains, quiet: bool) -> Result<Unpacked> {
    let shown = Progress::start(format!("unpacking {}", file.display()), quiet);
    let folder = store.temporary()?;
    let toolchain = bundle::open(file, folder.path())?;
    drop(shown);
    Ok(Unpacked { toolchain, bundle: Some(file.to_owned()), _folder: Some(folder) })
}

#[cfg(not(feature = "import"))]
fn from_bundle(_: &Path, _: &InstalledToolchains, _: bool) -> Result<Unpacked> {
    Err(no_bundles())
}

#[cfg(not(feature = "import"))]
fn no_bundles() -> anyhow::Error {
    Usage("this belljar was built without the feature `import`, which bundles need".to_owned())
        .into()
}

#[cfg(not(feature = "import"))]
fn from_recipe(_: &recipes::Recipe, _: &InstallArgs, _: &InstalledToolchains) -> Result<Unpacked> {
    Err(Usage("this belljar was built without the feature `import`, which recipes need".to_owned())
        .into())
}

/// Compiles the modules of `toolchain` that are not compiled yet; returns how many. What cannot be kept is compiled when it
/// runs.
fn compile(toolchain: &ToolchainFolder, args: &InstallArgs) -> Result<usize> {
    let compiler = Compiler {
        cache_dir: Some(cache_dir()?),
        fuel: false,
        args: args.compile,
        quiet: args.quiet,
    };
    let engine = engine(args)?;
    let (mut count, mut quick) = (0, Vec::new());
    for (program, path) in toolchain.modules() {
        let name = file_name(&path);
        let module = Module::read(&path)?.named(&name);
        let from_cache = || Program::from_cache(&engine, &module, UnknownImports::Trap);
        let mut found = from_cache()?;
        if found.is_none() {
            let size = ByteSize(module.size()).display().iec();
            let message = format!("compiling {} ({size})", printable(&name));
            let shown = Progress::start(message, args.quiet);
            let result = compiler.compile_into_cache(&module, &shown);
            drop(shown);
            match result {
                Err(error @ ProgramError::Cache { .. }) => {
                    if !args.quiet {
                        let error = anyhow::Error::from(error);
                        note!(
                            "belljar: warning: {error:#}; until then each run compiles what it needs"
                        );
                    }
                    break;
                }
                result => result?,
            }
            count += 1;
            found = from_cache()?;
        }
        if found.is_some_and(|it| it.tier() == Tier::Quick) {
            quick.push(shell_word(program));
        }
    }
    tell_of_quick_code(&quick, args);
    Ok(count)
}

/// Says that the programs `quick` begin with quick code if nothing will optimize it.
fn tell_of_quick_code(quick: &[String], args: &InstallArgs) {
    if !quick.is_empty()
        && !args.quiet
        && args.compile.tier == TierArg::Auto
        && let Some(why) = background::forbidden(&args.compile)
    {
        note!(
            "belljar: note: {0} run quick code, and nothing optimizes it, as {why}: `belljar cache compile {0}` makes \
             it about 1.6 times as fast",
            quick.join(" ")
        );
    }
}

/// What a module is called in messages: it may be several programs.
fn file_name(module: &Path) -> Cow<'_, str> {
    module.file_name().unwrap_or_default().to_string_lossy()
}

/// An engine with the cache in which installed programs are looked for.
fn engine(args: &InstallArgs) -> Result<Engine> {
    Ok(Engine::new(EngineConfig {
        pool_slots: 0,
        cache_dir: Some(cache_dir()?),
        tier: args.compile.tier.into(),
        optimize_in_background: false,
        ..EngineConfig::default()
    })?)
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
