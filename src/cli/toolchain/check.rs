//! `belljar toolchain check`.

use std::path::Path;

use anyhow::{Context, Result};
use bytesize::ByteSize;
use serde_json::json;

use super::inspect::unpacked;
use crate::base::disk;
use crate::cli::compile::engine_for_info;
use crate::cli::exit::Usage;
use crate::cli::home::installed_toolchains;
use crate::cli::signatures::{Keys, Verdict};
use crate::cli::text::{count, printable};
use crate::engine::{Engine, ModuleInfo};
use crate::toolchain::{MANIFEST, SIGNATURE, Temporary, pointer, signature_in};
use crate::{InstallError, Manifest, ManifestError, Module, Problem, ToolchainFolder};

/// Lists what is wrong with the toolchain in `dir`, and what may be.
pub fn check(dir: &Path, json: bool) -> Result<u8> {
    let cannot = || format!("cannot check {}", dir.display());
    if disk::metadata(dir).is_err() {
        return Err(Usage(format!("{}: there is no such folder", dir.display())).into());
    }
    let unpacked = unpacked(dir, &installed_toolchains()?).with_context(cannot)?;
    let dir = unpacked.as_ref().map_or(dir, Temporary::path);
    if disk::symlink_metadata(&dir.join(MANIFEST)).is_err() {
        let dir = dir.display();
        let message = format!("{dir} has no {MANIFEST}; `belljar toolchain init {dir}` writes one");
        return Err(Usage(message).into());
    }
    let (toolchain, mut problems) = match ToolchainFolder::check(dir) {
        Ok((toolchain, problems)) => (Some(toolchain), problems),
        Err(InstallError::Manifest(ManifestError::Invalid { problems, .. })) => (None, problems),
        Err(InstallError::Manifest(error @ ManifestError::Version { .. })) => {
            let (pointer, message) = (pointer(&["format"]), error.to_string());
            (None, vec![Problem { pointer, message }])
        }
        Err(error) => return Err(error).with_context(cannot),
    };
    let mut notes = Vec::new();
    if let Some(toolchain) = &toolchain {
        let engine = engine_for_info()?;
        for (name, path) in toolchain.modules() {
            let pointer = pointer(&["programs", name, "module"]);
            // A file that is missing or no module is among the problems.
            let Ok(module) = Module::read(&path) else { continue };
            check_module(&engine, &module.named("it"), &pointer, &mut problems, &mut notes);
        }
        notes.extend(misspelled_placeholders(toolchain.manifest()));
        problems.extend(wrong_signature(dir, toolchain)?);
    }
    let status = u8::from(!problems.is_empty());
    let manifest = toolchain.as_ref().map(ToolchainFolder::manifest);
    if json {
        let files = manifest.map_or(0, |manifest| manifest.files.len());
        say!("{}", json!({ "problems": problems, "notes": notes, "files": files }));
        return Ok(status);
    }
    for problem in &problems {
        say!("{}", printable(&problem.to_string()));
    }
    for note in &notes {
        say!("note: {}", printable(&note.to_string()));
    }
    if let (Some(manifest), true) = (manifest, problems.is_empty()) {
        let Manifest { name, version, programs, files, .. } = manifest;
        let bytes: u64 = files.values().map(|file| file.len_bytes).sum();
        let (programs, files) = (count(programs.len(), "program"), count(files.len(), "file"));
        let bytes = ByteSize(bytes).display().iec();
        say!("{name} {}: {programs}, {files}, {bytes}; nothing is wrong", printable(version));
    }
    Ok(status)
}

/// What is wrong with the signature of `toolchain`, which is in the folder `dir`.
fn wrong_signature(dir: &Path, toolchain: &ToolchainFolder) -> Result<Option<Problem>> {
    let signature = match signature_in(dir) {
        Ok(signature) => signature,
        Err(error) => {
            return Ok(Some(Problem { pointer: String::new(), message: error.to_string() }));
        }
    };
    let text = toolchain.manifest().to_text();
    let verdict = Verdict::of(&Keys::trusted()?, text.as_bytes(), signature.as_deref());
    let why = verdict.described().filter(|_| verdict.is_wrong());
    Ok(why.map(|why| Problem { pointer: String::new(), message: format!("{SIGNATURE}: {why}") }))
}

fn check_module(
    engine: &Engine,
    module: &Module,
    pointer: &str,
    problems: &mut Vec<Problem>,
    notes: &mut Vec<Problem>,
) {
    let told = |message: String| Problem { pointer: pointer.to_owned(), message };
    match ModuleInfo::of(engine, module) {
        Err(error) => problems.push(told(error.to_string())),
        Ok(info) => {
            if !info.is_command {
                let why =
                    "it does not export the function `_start`: it is a library, not a program";
                problems.push(told(why.to_owned()));
            }
            let others: Vec<&str> =
                info.exports.iter().map(String::as_str).filter(|name| is_interface(name)).collect();
            if info.is_command && !others.is_empty() {
                let (some, count) =
                    (others[..others.len().min(3)].join(", "), count(others.len(), "function"));
                notes.push(told(format!(
                    "it exports {count} besides `_start`, such as {some}: it may be a library for a host \
                     that calls them"
                )));
            }
            for import in &info.unknown_imports {
                let why = format!(
                    "it imports {import}, which belljar does not have; calling it is a trap"
                );
                notes.push(told(why));
            }
        }
    }
}

/// Whether an export with the name `name` is more than what compilers add to a program.
fn is_interface(name: &str) -> bool {
    const OF_COMPILERS: [&str; 8] =
        ["_", "asyncify_", "dynCall", "emscripten_", "stack", "setThrew", "malloc", "free"];
    !OF_COMPILERS.iter().any(|prefix| name.starts_with(prefix))
}

/// Notes of words in braces that are not `{toolchain}`, but similar to it.
fn misspelled_placeholders(manifest: &Manifest) -> Vec<Problem> {
    let mut notes = Vec::new();
    let mut examine = |names: &[&str], text: &str| {
        for part in text.split('{').skip(1) {
            let Some((word, _)) = part.split_once('}') else { continue };
            if word != "toolchain" && strsim::damerau_levenshtein(word, "toolchain") <= 2 {
                let message =
                    format!("{{{word}}} is passed as it is; `{{toolchain}}` may be meant");
                notes.push(Problem { pointer: pointer(names), message });
            }
        }
    };
    for (name, program) in &manifest.programs {
        for (index, arg) in program.args.iter().enumerate() {
            examine(&["programs", name, "args", &index.to_string()], arg);
        }
        for (key, value) in &program.env {
            examine(&["programs", name, "env", key], value);
        }
    }
    notes
}
