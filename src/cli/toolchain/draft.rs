//! `belljar toolchain init`: the first manifest of a folder of modules.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::base::{atomic_file, disk};
use crate::cli::compile::engine_for_info;
use crate::cli::exit::Usage;
use crate::cli::planted_links::check_here;
use crate::cli::text::{count, printable};
use crate::engine::ModuleInfo;
use crate::toolchain::{MANIFEST, names};
use crate::{Manifest, Module, ProgramEntry};

/// Writes a manifest for the modules in `dir`.
pub fn init(dir: &Path, name: Option<&str>) -> Result<u8> {
    let path = dir.join(MANIFEST);
    check_here("DIR", &path)?;
    if disk::symlink_metadata(&path).is_ok() {
        return Err(
            Usage(format!("{} exists; change it, or remove it first", path.display())).into()
        );
    }
    let folder = disk::canonical(dir)?;
    let folder = folder.file_name().and_then(|name| name.to_str());
    let name = match name {
        Some(name) => expect_name(name)?,
        None => plain(folder.unwrap_or_default()),
    };
    let manifest = Manifest { programs: programs(dir, dir)?, ..empty(name) };
    write(&manifest, dir)?;
    say!("wrote {}: {}", path.display(), count(manifest.programs.len(), "program"));
    Ok(0)
}

/// A manifest of nothing.
pub fn empty(name: String) -> Manifest {
    Manifest {
        format: "1.0".to_owned(),
        name,
        version: "0".to_owned(),
        description: None,
        license: None,
        homepage: None,
        programs: BTreeMap::new(),
        trees: BTreeMap::new(),
        files: BTreeMap::new(),
    }
}

/// Checks `manifest`, and writes it to the folder `dir`.
pub fn write(manifest: &Manifest, dir: &Path) -> Result<()> {
    let (path, text) = (dir.join(MANIFEST), manifest.to_text());
    Manifest::parse(&path, text.as_bytes())?;
    Ok(atomic_file::write(&path, &[text.as_bytes()])?)
}

/// The name `name` for a toolchain.
///
/// # Errors
/// [`Usage`] if none can have it.
pub fn expect_name(name: &str) -> Result<String, Usage> {
    if plain(name) == name {
        return Ok(name.to_owned());
    }
    Err(Usage(format!(
        "--name: {} cannot be the name of a toolchain: expected letters, digits, `.`, `_`, `+` and `-`, a letter or \
         digit first, at most 64",
        printable(name)
    )))
}

/// A name for a toolchain that is like `name`.
pub fn plain(name: &str) -> String {
    let name: String = name.chars().filter(|c| names::is_plain(*c)).take(64).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    if name.is_empty() { "toolchain".to_owned() } else { name.to_owned() }
}

/// The programs in `dir` and its folders, each named after its file. Notes which modules are none. Messages call all of
/// them `shown`.
///
/// # Errors
/// There is none.
pub fn programs(dir: &Path, shown: &Path) -> Result<BTreeMap<String, ProgramEntry>> {
    let (engine, mut programs) = (engine_for_info()?, BTreeMap::new());
    let (all, mut left_out) = (modules(dir)?, Vec::new());
    for path in &all {
        let module = Module::read(&names::at(dir, path));
        let info = module.and_then(|module| ModuleInfo::of(&engine, &module.named("it")));
        match info {
            Ok(info) if info.is_command => {
                let entry = ProgramEntry { module: Some(path.clone()), ..ProgramEntry::default() };
                programs.entry(name_of(path, &programs)).or_insert(entry);
            }
            Ok(_) => left_out.push(format!("{path}: it is a library, which has no `_start`")),
            Err(error) => left_out.push(format!("{path}: {error}")),
        }
    }
    for line in &left_out {
        note!("belljar: note: left out {}", printable(line));
    }
    if programs.is_empty() {
        let message = if all.is_empty() {
            format!("{} has no file whose name ends in .wasm", shown.display())
        } else {
            format!("{} has no program: see the notes above", shown.display())
        };
        return Err(Usage(message).into());
    }
    Ok(programs)
}

/// A name for the program of the module `path`: that of the file, or, if it is taken, the path.
fn name_of(path: &str, taken: &BTreeMap<String, ProgramEntry>) -> String {
    let path = path.trim_end_matches(".wasm");
    let name = path.rsplit('/').next().unwrap_or(path);
    if taken.contains_key(name) { path.replace('/', "-") } else { name.to_owned() }
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
