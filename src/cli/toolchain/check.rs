//! `belljar toolchain check`.

use std::path::Path;

use anyhow::{Context, Result};
use bytesize::ByteSize;
use serde_json::json;

use crate::cli::compile::engine_for_info;
use crate::cli::text::{count, printable};
use crate::engine::{Engine, ModuleInfo};
use crate::toolchain::pointer;
use crate::{InstallError, Manifest, ManifestError, Module, Problem, ToolchainFolder};

/// Lists what is wrong with the toolchain in `dir`, and what may be.
pub fn check(dir: &Path, json: bool) -> Result<u8> {
    let cannot = || format!("cannot check {}", dir.display());
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
            for import in &info.unknown_imports {
                let why = format!(
                    "it imports {import}, which belljar does not have; calling it is a trap"
                );
                notes.push(told(why));
            }
        }
    }
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
