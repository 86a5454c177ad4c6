//! `belljar toolchain verify`: whether installed toolchains are whole.

use anyhow::Result;
use serde_json::json;

use crate::Toolchain;
use crate::base::digest::Digest;
use crate::cli::exit::DIFFERENT;
use crate::cli::home::installed_toolchains;
use crate::cli::signatures::{Keys, Verdict};
use crate::cli::text::{count, printable};

/// What was found out about a toolchain.
struct Found {
    name: String,
    /// What it is called in text: with its version if it is one of a project.
    shown: String,
    version: String,
    digest: Digest,
    /// The paths of files that are missing or damaged.
    damaged: Vec<String>,
    signature: Verdict,
}

/// Reads all files of the toolchains `names`, or of all, and verifies their signatures.
pub fn verify(names: &[String], json: bool) -> Result<u8> {
    let (store, keys) = (installed_toolchains()?, Keys::trusted()?);
    let mut found = Vec::new();
    let versions = store.versions()?;
    let is_asked = |name: &str| names.is_empty() || names.iter().any(|asked| asked == name);
    for (name, version, digest) in versions.iter().filter(|(name, ..)| is_asked(name)) {
        let damaged = store.damaged_files_of(name, *digest)?;
        let signature = Verdict::of_installed(&keys, &store, name, Some(*digest));
        let (shown, version) = (format!("{name} {}", printable(version)), version.clone());
        found.push(Found {
            name: name.clone(),
            shown,
            version,
            digest: *digest,
            damaged,
            signature,
        });
    }
    let installed = store.names()?;
    let is_version = |name: &String| versions.iter().any(|(version, ..)| version == name);
    let asked = if names.is_empty() { &installed } else { names };
    for name in asked.iter().filter(|name| installed.contains(name) || !is_version(name)) {
        let damaged = store.damaged_files(name)?;
        let signature = Verdict::of_installed(&keys, &store, name, None);
        let (shown, name) = (name.clone(), name.clone());
        let toolchain = Toolchain::installed(&store, &name)?;
        let (version, digest) = (toolchain.manifest().version.clone(), toolchain.digest());
        found.push(Found { name, shown, version, digest, damaged, signature });
    }
    let (mut lines, mut is_damaged) = (Vec::new(), false);
    for Found { name, shown, version, digest, damaged, signature } in &found {
        is_damaged |= !damaged.is_empty() || signature.is_wrong();
        if json {
            lines.push(json!({
                "name": name, "version": version, "digest": digest, "damaged": damaged,
                "signature": signature.json(),
            }));
            continue;
        }
        let name = shown;
        if let Some(what) = signature.described() {
            say!("{name}: {}", printable(&what));
        }
        for path in damaged {
            say!("{name}: {} is missing or damaged", printable(path));
        }
        if damaged.is_empty() && signature.is_wrong() {
            say!("{name}: install it again, from who signed it");
        } else if damaged.is_empty() {
            say!("{name}: all files are as they were installed");
        } else {
            say!("{name}: {}; install it again", count(damaged.len(), "damaged file"));
        }
    }
    if json {
        say!("{}", json!(lines));
    }
    Ok(if is_damaged { DIFFERENT } else { 0 })
}
