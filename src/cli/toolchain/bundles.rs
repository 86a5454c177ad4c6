//! `belljar toolchain pack`, `push` and `unpack`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bytesize::ByteSize;
#[cfg(feature = "oci")]
use serde_json::json;

use super::new_folder;
use crate::base::signature::SecretKey;
use crate::base::{atomic_file, disk};
use crate::cli::exit::Usage;
#[cfg(feature = "oci")]
use crate::cli::install::oci::{self, Registry};
use crate::cli::install::{self, bundle};
use crate::cli::planted_links::check_here;
use crate::cli::progress::Progress;
use crate::cli::text::{count, printable};
use crate::engine::Platform;
use crate::toolchain::{MANIFEST, SIGNATURE, names};
use crate::{Manifest, ToolchainFolder};

/// Writes `toolchain` to a bundle, signed by a key, with compiled code for some platforms, or as it is signed.
pub fn pack(
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
    let Manifest { name, files, .. } = toolchain.manifest();
    let output = match output {
        Some(output) => output.to_owned(),
        None => file_name(toolchain.manifest())?,
    };
    check_here("--output", &output)?;
    let all: u64 = files.values().map(|file| file.len_bytes).sum();
    let shown =
        Progress::start(format!("packing {name} ({})", ByteSize(all).display().iec()), quiet);
    let others = compiled.as_ref().map_or(&[][..], |compiled| &compiled.entries);
    bundle::pack(&toolchain, others, &output)?;
    drop(shown);
    let bytes = disk::metadata(&output)?.len();
    let files = count(files.len(), "file");
    let signed = match key {
        Some((key, _)) => format!(", signed by key {}", key.public().id()),
        None if toolchain.signature().is_some() => ", with its signature".to_owned(),
        None => String::new(),
    };
    say!("wrote {}: {files}, {}{signed}", output.display(), ByteSize(bytes).display().iec());
    Ok(0)
}

/// The usual name of a bundle of a toolchain.
///
/// # Errors
/// [`Usage`] if its version cannot be part of one.
pub fn file_name(Manifest { name, version, .. }: &Manifest) -> Result<PathBuf, Usage> {
    if version.chars().all(names::is_plain) {
        return Ok(format!("{name}-{version}.{}", bundle::EXTENSION).into());
    }
    let version = printable(version);
    Err(Usage(format!(
        "the version {version:?} cannot be part of a file's name; name it with --output"
    )))
}

#[cfg(feature = "oci")]
pub fn push(source: &str, registry: &Registry, json: bool, quiet: bool) -> Result<u8> {
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

/// Writes the files of a bundle to the new folder `dir`.
pub fn unpack(file: &Path, dir: &Path) -> Result<u8> {
    new_folder::expect_none(dir)?;
    let folder = new_folder::beside(dir)?;
    let toolchain = unpack_into(file, folder.path())
        .with_context(|| format!("cannot unpack {}", file.display()))?;
    disk::rename(folder.path(), dir)?;
    say!("{}: {}", dir.display(), count(toolchain.manifest().files.len(), "file"));
    Ok(0)
}

/// Writes the files of the bundle `file`, its manifest and its signature to the empty folder `dir`.
pub fn unpack_into(file: &Path, dir: &Path) -> Result<ToolchainFolder> {
    let toolchain = bundle::open(file, dir)?;
    let manifest = toolchain.manifest().to_text();
    atomic_file::write(&dir.join(MANIFEST), &[manifest.as_bytes()])?;
    if let Some(signature) = toolchain.signature() {
        atomic_file::write(&dir.join(SIGNATURE), &[signature.as_bytes()])?;
    }
    Ok(toolchain)
}
