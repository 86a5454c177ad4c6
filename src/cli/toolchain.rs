//! `belljar toolchain`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bytesize::ByteSize;
use serde_json::json;

use super::args::toolchain::{ToolchainAction, ToolchainArgs};
use super::exit::Usage;
use super::home::installed_toolchains;
#[cfg(feature = "oci")]
use super::install::oci::{self, Registry};
#[cfg(feature = "import")]
use super::install::{self, bundle};
use super::install::{recipes, stored};
#[cfg(feature = "import")]
use super::progress::Progress;
#[cfg(feature = "import")]
use super::signatures::secret;
use super::signatures::{Keys, Verdict};
use super::text::{count, printable};
#[cfg(feature = "import")]
use crate::base::atomic_file::TEMPORARY_PREFIX;
use crate::base::{atomic_file, disk};
#[cfg(feature = "import")]
use crate::engine::Platform;
#[cfg(feature = "import")]
use crate::toolchain::SIGNATURE;
#[cfg(feature = "import")]
use crate::toolchain::signature::SecretKey;
use crate::toolchain::{MANIFEST, names, signature_in};
use crate::{
    InstallError, Manifest, ManifestError, Problem, ProgramEntry, Removed, Toolchain,
    ToolchainFolder,
};

pub fn run(args: &ToolchainArgs) -> Result<u8> {
    match &args.action {
        ToolchainAction::List { json } => list(*json),
        ToolchainAction::Recipes { json } => recipes(*json),
        ToolchainAction::Inspect { toolchain, json } => inspect(toolchain, *json),
        ToolchainAction::Check { dir, json } => check(dir, *json),
        ToolchainAction::Init { dir, name } => init(dir, name.as_deref()),
        #[cfg(feature = "import")]
        ToolchainAction::Pack { source, sign, precompile, output, quiet } => {
            // First, as it may ask for a password.
            let key = sign.as_deref().map(secret::open).transpose()?;
            let source = install::toolchain_of(source, *quiet)?;
            let key = key.as_ref().map(|key| (key, &precompile[..]));
            pack(source.toolchain, key, output.as_deref(), *quiet)
        }
        ToolchainAction::Verify { names, json } => stored::verify(names, *json),
        ToolchainAction::Outdated { json } => stored::outdated(*json),
        #[cfg(feature = "oci")]
        ToolchainAction::Push { source, reference, plain_http, json, quiet } => {
            push(source, &Registry::of(reference, *plain_http)?, *json, *quiet)
        }
        #[cfg(feature = "oci")]
        ToolchainAction::Pull { reference, output, plain_http, quiet } => {
            let registry = Registry::of(reference, *plain_http)?;
            let (_folder, pulled) = oci::pull(&registry, &installed_toolchains()?, *quiet)?;
            pack(pulled, None, output.as_deref(), *quiet)
        }
        #[cfg(feature = "import")]
        ToolchainAction::Unpack { file, dir } => unpack(file, dir),
        ToolchainAction::Gc { json } => gc(*json),
    }
}

fn list(json: bool) -> Result<u8> {
    let store = installed_toolchains()?;
    let keys = if json { Keys::trusted()? } else { Keys::default() };
    let mut lines = Vec::new();
    for name in store.names()? {
        let toolchain = Toolchain::installed(&store, &name)?;
        let Manifest { version, description, programs, .. } = toolchain.manifest();
        if json {
            let programs: Vec<&String> = programs.keys().collect();
            lines.push(json!({
                "name": name, "version": version, "digest": toolchain.digest(), "programs": programs,
                "description": description,
                "signature": Verdict::of_installed(&keys, &store, &name, None).json(),
            }));
        } else {
            say_line(toolchain.manifest());
        }
    }
    for (name, version, digest) in store.versions()? {
        if json {
            lines.push(json!({
                "name": name, "version": version, "digest": digest, "for_projects": true,
                "signature": Verdict::of_installed(&keys, &store, &name, Some(digest)).json(),
            }));
        } else {
            say!("{name} {}  for projects, {digest}", printable(&version));
        }
    }
    if json {
        say!("{}", json!(lines));
    }
    Ok(0)
}

fn recipes(json: bool) -> Result<u8> {
    let mut lines = Vec::new();
    for name in recipes::names() {
        let Some(recipe) = recipes::find(name).transpose()? else { continue };
        let Manifest { version, description, license, .. } = &recipe.manifest;
        if json {
            let package = format!("{} {}", recipe.package.name, recipe.package.version);
            lines.push(json!({
                "name": name, "version": version, "description": description, "license": license,
                "client": format!("{:?}", recipe.package.client).to_lowercase(), "package": package,
            }));
        } else {
            say_line(&recipe.manifest);
        }
    }
    if json {
        say!("{}", json!(lines));
    }
    Ok(0)
}

fn say_line(Manifest { name, version, description, .. }: &Manifest) {
    let description = description.as_deref().unwrap_or_default();
    say!("{name} {}  {}", printable(version), printable(description));
}

fn inspect(named: &str, json: bool) -> Result<u8> {
    let (store, keys) = (installed_toolchains()?, Keys::trusted()?);
    let (toolchain, verdict) = if store.has(named)? {
        let verdict = Verdict::of_installed(&keys, &store, named, None);
        (Toolchain::installed(&store, named)?, verdict)
    } else {
        let opened = Toolchain::open(Path::new(named))?;
        let opened = opened.ok_or_else(|| {
            Usage(format!(
                "{} is neither an installed toolchain nor a folder with a {MANIFEST}",
                printable(named)
            ))
        })?;
        let signature = signature_in(Path::new(named))?;
        let text = opened.manifest().to_text();
        let verdict = Verdict::of(&keys, text.as_bytes(), signature.as_deref());
        (opened, verdict)
    };
    let manifest = toolchain.manifest();
    if json {
        say!(
            "{}",
            json!({
                "manifest": manifest, "digest": toolchain.digest(), "root": toolchain.root(),
                "signature": verdict.json(),
            })
        );
        return Ok(0);
    }
    say!("{} {}", manifest.name, printable(&manifest.version));
    let texts = [&manifest.description, &manifest.license, &manifest.homepage];
    for (what, text) in ["", "license ", "homepage "].iter().zip(texts) {
        if let Some(text) = text {
            say!("{what}{}", printable(text));
        }
    }
    if let Some(signer) = verdict.described() {
        say!("{}", printable(&signer));
    }
    say!("files in {}", toolchain.root());
    for (name, program) in &manifest.programs {
        let ProgramEntry { module, script, .. } = program;
        let code = module.as_ref().or(script.as_ref()).map_or("", String::as_str);
        say!("program {}  {}", printable(name), printable(code));
    }
    for (guest, folder) in &manifest.trees {
        say!("tree {}  {}", printable(guest), printable(folder));
    }
    Ok(0)
}

fn check(dir: &Path, json: bool) -> Result<u8> {
    let problems = match ToolchainFolder::open(dir) {
        Ok(toolchain) if json => {
            let files = toolchain.manifest().files.len();
            say!("{}", json!({ "problems": [], "files": files }));
            return Ok(0);
        }
        Ok(toolchain) => {
            let Manifest { name, version, programs, files, .. } = toolchain.manifest();
            let bytes: u64 = files.values().map(|file| file.len_bytes).sum();
            let (programs, files) = (count(programs.len(), "program"), count(files.len(), "file"));
            let bytes = ByteSize(bytes).display().iec();
            say!("{name} {}: {programs}, {files}, {bytes}; nothing is wrong", printable(version));
            return Ok(0);
        }
        Err(InstallError::Manifest(ManifestError::Invalid { problems, .. })) => problems,
        Err(InstallError::File { path, message }) => {
            let message = format!("{path}: {message}");
            vec![Problem { pointer: "/files".to_owned(), message }]
        }
        Err(error) => return Err(error).with_context(|| format!("cannot check {}", dir.display())),
    };
    if json {
        say!("{}", json!({ "problems": problems }));
    } else {
        for problem in &problems {
            say!("{}", printable(&problem.to_string()));
        }
    }
    Ok(1)
}

/// Writes a manifest for the modules in `dir`.
fn init(dir: &Path, name: Option<&str>) -> Result<u8> {
    let path = dir.join(MANIFEST);
    if disk::symlink_metadata(&path).is_ok() {
        return Err(
            Usage(format!("{} exists; change it, or remove it first", path.display())).into()
        );
    }
    let mut programs = BTreeMap::new();
    for module in modules(dir)? {
        let stem =
            Path::new(&module).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let entry = ProgramEntry { module: Some(module.clone()), ..ProgramEntry::default() };
        programs.entry(stem.to_owned()).or_insert(entry);
    }
    if programs.is_empty() {
        let message = format!("{} has no file whose name ends in .wasm", dir.display());
        return Err(Usage(message).into());
    }
    let folder = disk::canonical(dir)?;
    let folder = folder.file_name().and_then(|name| name.to_str());
    let manifest = Manifest {
        format: "1.0".to_owned(),
        name: name.map_or_else(|| plain(folder.unwrap_or_default()), str::to_owned),
        version: "0".to_owned(),
        description: None,
        license: None,
        homepage: None,
        programs,
        trees: BTreeMap::new(),
        files: BTreeMap::new(),
    };
    let text = manifest.to_text();
    Manifest::parse(&path, text.as_bytes())?;
    atomic_file::write(&path, &[text.as_bytes()])?;
    say!("wrote {}: {}", path.display(), count(manifest.programs.len(), "program"));
    Ok(0)
}

/// A name for a toolchain in the folder `folder`.
fn plain(folder: &str) -> String {
    let name: String = folder.chars().filter(|c| names::is_plain(*c)).take(64).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    if name.is_empty() { "toolchain".to_owned() } else { name.to_owned() }
}

/// The modules in `dir` and its folders, as paths relative to it.
fn modules(dir: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders: Vec<(PathBuf, String)> = vec![(dir.to_owned(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        for path in disk::list(&folder)? {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let metadata = disk::symlink_metadata(&path)?;
            let relative = format!("{prefix}{name}");
            if metadata.is_dir() {
                folders.push((path, format!("{relative}/")));
            } else if metadata.is_file() && path.extension().is_some_and(|it| it == "wasm") {
                found.push(relative);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Writes `toolchain` to a bundle, signed by a key, with compiled code for some platforms, or as it is signed.
#[cfg(feature = "import")]
fn pack(
    mut toolchain: ToolchainFolder,
    key: Option<(&SecretKey, &[Platform])>,
    output: Option<&Path>,
    quiet: bool,
) -> Result<u8> {
    let mut compiled = None;
    if let Some((key, platforms)) = key {
        let Manifest { name, version, .. } = toolchain.manifest();
        // In ASCII: minisign shows nothing else.
        let comment = format!("{name} {}", version.escape_default());
        let signature = key.sign(toolchain.manifest().to_text().as_bytes(), &comment)?;
        toolchain = toolchain.with_signature(Some(signature.text().to_owned()));
        if !platforms.is_empty() {
            compiled = Some(install::compiled::make(&toolchain, platforms, key, quiet)?);
        }
    } else {
        install::signed::expect_not_wrong(&toolchain)?;
    }
    let Manifest { name, version, files, .. } = toolchain.manifest();
    let output = if let Some(output) = output {
        output.to_owned()
    } else if version.chars().all(names::is_plain) {
        format!("{name}-{version}.{}", bundle::EXTENSION).into()
    } else {
        let version = printable(version);
        let message = format!(
            "the version {version:?} cannot be part of a file's name; name it with --output"
        );
        return Err(Usage(message).into());
    };
    let all: u64 = files.values().map(|file| file.len_bytes).sum();
    let shown =
        Progress::start(format!("packing {name} ({})", ByteSize(all).display().iec()), quiet);
    let others = compiled.as_ref().map_or(&[][..], |compiled| &compiled.entries);
    bundle::pack(&toolchain, others, &output)?;
    drop(shown);
    let bytes = disk::metadata(&output)?.len();
    let files = count(files.len(), "file");
    let signed =
        key.map_or_else(String::new, |(key, _)| format!(", signed by key {}", key.public().id()));
    say!("wrote {}: {files}, {}{signed}", output.display(), ByteSize(bytes).display().iec());
    Ok(0)
}

#[cfg(feature = "oci")]
fn push(source: &str, registry: &Registry, json: bool, quiet: bool) -> Result<u8> {
    let source = install::toolchain_of(source, quiet)?;
    install::signed::expect_not_wrong(&source.toolchain)?;
    let digest = oci::push(&source.toolchain, registry, quiet)?;
    let Manifest { name, version, .. } = source.toolchain.manifest();
    if json {
        let line = json!({
            "name": name, "version": version, "reference": registry.name(), "manifest": digest,
            "digest": source.toolchain.digest(),
        });
        say!("{line}");
    } else {
        say!("pushed {name} {} to {}: {}", printable(version), registry.name(), printable(&digest));
    }
    Ok(0)
}

/// Writes the files of a bundle to the folder `dir`.
#[cfg(feature = "import")]
fn unpack(file: &Path, dir: &Path) -> Result<u8> {
    if disk::symlink_metadata(dir).is_ok() {
        return Err(Usage(format!("{} exists; name a new folder", dir.display())).into());
    }
    let beside = disk::folder_of(dir);
    let made = tempfile::Builder::new().prefix(TEMPORARY_PREFIX).tempdir_in(beside);
    let folder = made.with_context(|| format!("cannot create a folder in {}", beside.display()))?;
    let toolchain = bundle::open(file, folder.path())
        .with_context(|| format!("cannot unpack {}", file.display()))?;
    let manifest = toolchain.manifest();
    atomic_file::write(&folder.path().join(MANIFEST), &[manifest.to_text().as_bytes()])?;
    if let Some(signature) = toolchain.signature() {
        atomic_file::write(&folder.path().join(SIGNATURE), &[signature.as_bytes()])?;
    }
    disk::rename(folder.path(), dir)?;
    say!("{}: {}", dir.display(), count(manifest.files.len(), "file"));
    Ok(0)
}

fn gc(json: bool) -> Result<u8> {
    let removed = installed_toolchains()?.gc()?;
    let Removed { contents, bytes } = removed.unwrap_or_default();
    if json {
        say!("{}", json!({ "contents": contents, "bytes": bytes, "in_use": removed.is_none() }));
    } else if removed.is_none() {
        say!("programs are running, which may need contents: nothing was removed");
    } else {
        say!("removed {}, {}", count(contents, "content"), ByteSize(bytes).display().iec());
    }
    Ok(0)
}
