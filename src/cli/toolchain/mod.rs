//! `belljar toolchain`.

mod check;
mod draft;
mod inspect;
#[cfg(feature = "import")]
mod package;

use std::path::Path;

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
use crate::toolchain::names;
#[cfg(feature = "import")]
use crate::toolchain::signature::SecretKey;
#[cfg(feature = "import")]
use crate::toolchain::{MANIFEST, SIGNATURE};
use crate::{Manifest, Removed, Toolchain, ToolchainFolder};

pub fn run(args: &ToolchainArgs) -> Result<u8> {
    match &args.action {
        ToolchainAction::List { json } => list(*json),
        ToolchainAction::Recipes { json } => recipes(*json),
        ToolchainAction::Inspect { toolchain, json } => inspect::inspect(toolchain, *json),
        ToolchainAction::Check { dir, json } => check::check(dir, *json),
        #[cfg(feature = "import")]
        ToolchainAction::Init { dir, name, from: Some(package) } => {
            package::init(package, dir.as_deref(), name.as_deref())
        }
        ToolchainAction::Init { dir, name, .. } => {
            draft::init(dir.as_deref().unwrap_or(Path::new(".")), name.as_deref())
        }
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
