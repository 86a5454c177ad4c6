//! Compiled code in bundles: `compiled.json` says what it is and what it fits, and has a signature of its own. Machine code
//! does what it likes, so it is taken from a bundle only if a trusted key signed it, and then only into the cache, in place
//! of compiling.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::bundle::{self, CODE, COMPILED, COMPILED_SIGNATURE};
use super::signed::Signing;
use crate::base::SIGNATURE_BYTES_MAX;
use crate::base::digest::Digest;
use crate::base::disk;
use crate::base::signature::SecretKey;
use crate::cli::exit::Usage;
use crate::cli::progress::Progress;
use crate::cli::signatures::Signer;
use crate::cli::text::printable;
use crate::engine::{AdoptError, CompileProgress, Engine, Platform, TierChoice, adopt};
use crate::toolchain::digests;
use crate::{Manifest, Module, ToolchainFolder};

/// Longest `compiled.json`, in bytes.
const INDEX_BYTES_MAX: u64 = 4 << 20;

/// Most bytes of the code of a module.
const CODE_BYTES_MAX: u64 = 4 << 30;

/// The format that this version reads and writes.
const FORMAT: &str = "1.0";

/// `compiled.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    format: String,
    /// The digest of the toolchain's manifest.
    toolchain: Digest,
    /// The version of belljar that compiled it.
    belljar: String,
    /// The code by its target.
    targets: BTreeMap<String, TargetCode>,
}

/// The code for a target.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetCode {
    /// What a belljar must have in common with the one that compiled it: see [`Platform::compatibility`].
    compatibility: Digest,
    /// The code of each module, by the digest of the module.
    modules: BTreeMap<Digest, CodeEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CodeEntry {
    sha256: String,
    len_bytes: u64,
}

/// The entry of a bundle with the code of the module with the digest `module` for `target`.
fn code_name(target: Platform, module: Digest) -> String {
    format!("{CODE}{target}/{module}.cwasm")
}

/// Compiled code, to be packed.
pub struct Compiled {
    /// The entries of the bundle, in their order, and the files with their contents.
    pub entries: Vec<(String, PathBuf)>,
    _folder: TempDir,
}

/// Compiles the modules of `toolchain` for `platforms`, and signs the result with `key`.
///
/// # Errors
/// [`Usage`] if this belljar does not compile for one of them, or the toolchain has files with the names of compiled code; a
/// module cannot be compiled.
pub fn make(
    toolchain: &ToolchainFolder,
    platforms: &[Platform],
    key: &SecretKey,
    quiet: bool,
) -> Result<Compiled> {
    let Manifest { name, version, files, .. } = toolchain.manifest();
    if let Some(path) = files.keys().find(|path| bundle::is_compiled(path)) {
        bail!(Usage(format!(
            "--precompile: {path:?} of the toolchain has the name of compiled code: name it otherwise, or pack it \
             without --precompile"
        )));
    }
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let (mut codes, mut targets) = (Vec::new(), BTreeMap::new());
    for platform in platforms {
        if !platform.is_reachable() {
            bail!(Usage(format!(
                "--precompile: this belljar compiles for {} only: pack for {platform} on such a machine",
                std::env::consts::ARCH
            )));
        }
        let mut modules = BTreeMap::new();
        for (_, path) in toolchain.modules() {
            let name = super::file_name(&path);
            let module = Module::read(&path)?.named(&name);
            if modules.contains_key(&module.digest()) {
                continue;
            }
            let shown =
                Progress::start(format!("compiling {} for {platform}", printable(&name)), quiet);
            let progress = CompileProgress::default();
            let code = shown.follow(&progress, || platform.compile(&module, &progress))?;
            drop(shown);
            let file = folder.path().join(format!("{platform}-{}", module.digest()));
            let (sha256, _, len_bytes) = digests::of_reader(&mut &code[..])?;
            write(&file, &code)?;
            codes.push((code_name(*platform, module.digest()), file));
            modules.insert(module.digest(), CodeEntry { sha256, len_bytes });
        }
        let compatibility = platform.compatibility()?;
        targets.insert(platform.to_string(), TargetCode { compatibility, modules });
    }
    let index = Index {
        format: FORMAT.to_owned(),
        toolchain: toolchain.digest(),
        belljar: env!("CARGO_PKG_VERSION").to_owned(),
        targets,
    };
    let text = serde_json::to_string_pretty(&index)? + "\n";
    let comment = format!("compiled code of {name} {}", version.escape_default());
    let signature = key.sign(text.as_bytes(), &comment)?;
    let mut entries = Vec::new();
    for (name, text) in [(COMPILED, text.as_str()), (COMPILED_SIGNATURE, signature.text())] {
        let file = folder.path().join(name);
        write(&file, text.as_bytes())?;
        entries.push((name.to_owned(), file));
    }
    codes.sort();
    entries.extend(codes);
    Ok(Compiled { entries, _folder: folder })
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    let mut file = disk::create_new_private(path)?;
    std::io::Write::write_all(&mut file, content).map_err(disk::DiskError::new("write", path))?;
    Ok(())
}

/// Why compiled code is not taken, though nothing is wrong with it.
struct Passed(String);

/// Puts the compiled code in the bundle `file` of `toolchain` into the cache of `engine`, if there is some that fits and that
/// a trusted key signed; returns of how many modules. If not, a note says why.
///
/// # Errors
/// A signature is wrong; the code is not what was signed.
pub fn take(
    file: &Path,
    toolchain: &ToolchainFolder,
    signing: &Signing,
    engine: &Engine,
    quiet: bool,
) -> Result<usize> {
    if engine.config().tier == TierChoice::Quick {
        return Ok(0);
    }
    let Some(text) = bundle::read(file, COMPILED, INDEX_BYTES_MAX)? else { return Ok(0) };
    let why = match fitting(file, &text, toolchain, signing)? {
        Ok((platform, code)) => match take_all(file, toolchain, engine, platform, &code)? {
            Ok(count) => return Ok(count),
            Err(Passed(why)) => why,
        },
        Err(Passed(why)) => why,
    };
    if !quiet {
        let (name, why) = (printable(&toolchain.manifest().name), printable(&why));
        note!("belljar: note: {name} is compiled here, and its compiled code is not used: {why}");
    }
    Ok(0)
}

/// The code for this belljar that `text`, the `compiled.json` of the bundle `file`, names.
fn fitting(
    file: &Path,
    text: &[u8],
    toolchain: &ToolchainFolder,
    signing: &Signing,
) -> Result<Result<(Platform, TargetCode), Passed>> {
    let passed = |why: String| Ok(Err(Passed(why)));
    let signature = bundle::read(file, COMPILED_SIGNATURE, SIGNATURE_BYTES_MAX)?;
    let signature = signature.map(|text| String::from_utf8_lossy(&text).into_owned());
    let signer = signing.signer(text, signature.as_deref()).context(COMPILED)?;
    if !matches!(signer, Signer::Known(_)) {
        return passed(format!("it is {}", signer.described()));
    }
    let Ok(index) = serde_json::from_slice::<Index>(text) else {
        return passed("it is of another version of belljar".to_owned());
    };
    let Index { format, toolchain: of, belljar, mut targets } = index;
    if of != toolchain.digest() {
        bail!(Usage(format!(
            "{COMPILED} is of another toolchain, {of}; nothing was installed: get the bundle again from who signed it"
        )));
    }
    let own = env!("CARGO_PKG_VERSION");
    if format != FORMAT || belljar != own {
        return passed(format!("it is of belljar {belljar}, and this is {own}"));
    }
    let names = targets.keys().cloned().collect::<Vec<_>>().join(", ");
    let found = Platform::host().and_then(|host| Some((host, targets.remove(&host.to_string())?)));
    let Some((host, code)) = found else {
        return passed(format!("it is for {names}, and not for this machine"));
    };
    if host.compatibility()? != code.compatibility {
        return passed("it was compiled with other settings".to_owned());
    }
    Ok(Ok((host, code)))
}

/// Puts the code for the modules of `toolchain` into the cache of `engine`.
fn take_all(
    file: &Path,
    toolchain: &ToolchainFolder,
    engine: &Engine,
    platform: Platform,
    code: &TargetCode,
) -> Result<Result<usize, Passed>> {
    let mut count = 0;
    for (name, path) in toolchain.modules() {
        let module = Module::read(&path)?.named(name);
        let Some(stated) = code.modules.get(&module.digest()) else { continue };
        let entry = code_name(platform, module.digest());
        let wrong = || {
            Usage(format!(
                "{entry} is not what {COMPILED} says; nothing was installed: get the bundle again from who signed it"
            ))
        };
        let bytes_max = stated.len_bytes.min(CODE_BYTES_MAX);
        let content = bundle::read(file, &entry, bytes_max).with_context(wrong)?;
        let content = content.ok_or_else(wrong)?;
        let (sha256, _, len_bytes) = digests::of_reader(&mut &content[..])?;
        if (sha256, len_bytes) != (stated.sha256.clone(), stated.len_bytes) {
            bail!(wrong());
        }
        match adopt(engine, &module, &content) {
            Ok(is_new) => count += usize::from(is_new),
            Err(AdoptError::Engine(error)) => return Err(error.into()),
            Err(error) => return Ok(Err(Passed(error.to_string()))),
        }
    }
    Ok(Ok(count))
}
