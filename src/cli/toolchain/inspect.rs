//! `belljar toolchain inspect`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context, Result};
use bytesize::ByteSize;
use serde_json::{Value, json};

use crate::base::digest::Digest;
use crate::base::disk;
use crate::cli::compile::engine_for_info;
use crate::cli::exit::Usage;
use crate::cli::home::installed_toolchains;
use crate::cli::install;
use crate::cli::signatures::{Keys, Verdict};
use crate::cli::text::{count, printable};
use crate::engine::ModuleInfo;
use crate::toolchain::{Code, MANIFEST, Temporary};
use crate::{InstalledToolchains, Manifest, Module, ProgramEntry, Toolchain, ToolchainFolder};

/// Most exports of a module that are shown.
const EXPORTS_SHOWN_MAX: usize = 8;

/// The first bytes of modules and components.
const WASM_MAGIC: &[u8] = b"\0asm";

/// A module of a toolchain.
struct Inspected {
    programs: Vec<String>,
    len_bytes: u64,
    info: ModuleInfo,
}

impl Inspected {
    /// Whether its output can depend on nothing but what belljar gives it.
    fn is_hermetic(&self) -> bool {
        !self.info.asks_host()
    }

    /// The names that it imports, by their modules.
    fn imports(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut imports: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (module, name) in &self.info.imports {
            imports.entry(module).or_default().push(name);
        }
        imports
    }

    fn json(&self, path: &str) -> Value {
        json!({
            "path": path, "programs": self.programs, "len_bytes": self.len_bytes, "imports": self.imports(),
            "unknown_imports": self.info.unknown_imports, "proposals": self.info.proposals,
            "exports": self.info.exports, "is_command": self.info.is_command, "hermetic": self.is_hermetic(),
        })
    }

    /// As it is shown by itself: with all imports and exports.
    fn say_whole(&self, path: &str) {
        let size = ByteSize(self.len_bytes).display().iec();
        let kind = if self.info.is_component() { "component" } else { "module" };
        say!("{kind} {}  {size}", printable(path));
        for (module, names) in self.imports() {
            let names = names.join(", ");
            let colon = if names.is_empty() { "" } else { ": " };
            say!("  imports {}{colon}{}", printable(module), printable(&names));
        }
        for export in &self.info.exports {
            say!("  exports {}", printable(export));
        }
        self.say_rest();
    }

    fn say(&self, path: &str) {
        let size = ByteSize(self.len_bytes).display().iec();
        say!("module {}  {size}", printable(path));
        let imports = self.imports();
        let imports: Vec<String> = imports
            .iter()
            .map(|(module, names)| format!("{} of {}", names.len(), printable(module)))
            .collect();
        say!(
            "  imports {}",
            if imports.is_empty() { "nothing".to_owned() } else { imports.join(", ") }
        );
        if !self.info.exports.is_empty() {
            let names = self.info.exports.iter().take(EXPORTS_SHOWN_MAX);
            let names: Vec<String> = names.map(|name| printable(name)).collect();
            let more = self.info.exports.len() - names.len();
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            say!("  exports {}{more}", names.join(", "));
        }
        self.say_rest();
    }

    fn say_rest(&self) {
        if !self.info.proposals.is_empty() {
            let proposals: Vec<&str> = self.info.proposals.iter().map(String::as_str).collect();
            say!("  proposals {}", proposals.join(", "));
        }
        if !self.info.unknown_imports.is_empty() {
            let unknown = printable(&self.info.unknown_imports.join(", "));
            say!("  traps when it calls {unknown}, which belljar does not have");
        }
        if !self.info.is_command {
            say!("  a library: it cannot be run");
        }
        if self.is_hermetic() {
            say!("  hermetic");
        } else {
            say!("  asks its host for operations, if a run has some: not hermetic with them");
        }
    }
}

/// Shows what a toolchain has and needs, or a module.
pub fn inspect(named: &str, json: bool) -> Result<u8> {
    if let Some(module) = module_at(named)? {
        let info = ModuleInfo::of(&engine_for_info()?, &module)
            .with_context(|| format!("cannot inspect {}", printable(named)))?;
        let inspected = Inspected { programs: Vec::new(), len_bytes: module.size(), info };
        if json {
            say!("{}", inspected.json(named));
        } else {
            inspected.say_whole(named);
        }
        return Ok(0);
    }
    let Opened { toolchain, digest, signature, _folder } = open(named)?;
    let modules = modules(toolchain.clone())?;
    let manifest = toolchain.manifest();
    if json {
        let modules: Vec<Value> = modules.iter().map(|(path, it)| it.json(path)).collect();
        say!(
            "{}",
            json!({
                "manifest": manifest, "digest": digest, "root": toolchain.root(),
                "modules": modules, "signature": signature.json(),
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
    if let Some(signer) = signature.described() {
        say!("{}", printable(&signer));
    }
    say!("digest {digest}");
    say!("files in {}", toolchain.root());
    for (name, program) in &manifest.programs {
        let ProgramEntry { module, script, .. } = program;
        let code = module.as_ref().or(script.as_ref()).map_or("", String::as_str);
        say!("program {}  {}", printable(name), printable(code));
    }
    for (path, module) in &modules {
        module.say(path);
    }
    for (guest, folder) in &manifest.trees {
        let (files, bytes) = toolchain.size_of(folder)?;
        let (files, bytes) = (count(files, "file"), ByteSize(bytes).display().iec());
        say!("tree {}  {}  {files}, {bytes}", printable(guest), printable(folder));
    }
    Ok(0)
}

/// The module or component in the file `named`; `None` if it is something else.
fn module_at(named: &str) -> Result<Option<Module>> {
    let path = Path::new(named);
    if installed_toolchains()?.has(named)? || !path.is_file() {
        return Ok(None);
    }
    let cannot = || format!("cannot inspect {}", printable(named));
    let mut head = Vec::new();
    let file = disk::open(path).with_context(cannot)?;
    file.take(WASM_MAGIC.len() as u64).read_to_end(&mut head).with_context(cannot)?;
    if head != WASM_MAGIC {
        return Ok(None);
    }
    Module::read(path).map(Some).with_context(cannot)
}

/// A toolchain to be shown.
struct Opened {
    toolchain: Toolchain,
    /// The digest by which it is known when it is installed.
    digest: Digest,
    signature: Verdict,
    /// Where it was unpacked, if it was.
    _folder: Option<Temporary>,
}

fn open(named: &str) -> Result<Opened> {
    let (store, keys, path) = (installed_toolchains()?, Keys::trusted()?, Path::new(named));
    if store.has(named)? && install::here(named, &store, false)?.is_none() {
        let signature = Verdict::of_installed(&keys, &store, named, None);
        let toolchain = Toolchain::installed(&store, named)?;
        return Ok(Opened { digest: toolchain.digest(), toolchain, signature, _folder: None });
    }
    let cannot = || format!("cannot inspect {}", printable(named));
    let folder = unpacked(path, &store).with_context(cannot)?;
    let dir = folder.as_ref().map_or(path, Temporary::path);
    let toolchain = Toolchain::open(dir)?.ok_or_else(|| {
        Usage(format!(
            "{} is neither an installed toolchain, a bundle, nor a folder with a {MANIFEST}",
            printable(named)
        ))
    })?;
    // As it will be installed, with all its files in the manifest.
    let whole = ToolchainFolder::open(dir).with_context(cannot)?;
    let text = whole.manifest().to_text();
    let signature = Verdict::of(&keys, text.as_bytes(), whole.signature());
    Ok(Opened { digest: whole.digest(), toolchain, signature, _folder: folder })
}

/// A folder with the files of the bundle `path`; `None` if that is no file.
#[cfg(feature = "import")]
pub fn unpacked(path: &Path, store: &InstalledToolchains) -> Result<Option<Temporary>> {
    if !path.is_file() {
        return Ok(None);
    }
    let folder = store.temporary()?;
    super::bundles::unpack_into(path, folder.path())?;
    Ok(Some(folder))
}

#[cfg(not(feature = "import"))]
#[expect(clippy::unnecessary_wraps, reason = "as with bundles")]
pub fn unpacked(_: &Path, _: &InstalledToolchains) -> Result<Option<Temporary>> {
    Ok(None)
}

/// The modules of `toolchain`, by their paths.
fn modules(toolchain: Toolchain) -> Result<BTreeMap<String, Inspected>> {
    let (engine, toolchain) = (engine_for_info()?, std::sync::Arc::new(toolchain));
    let mut modules: BTreeMap<String, Inspected> = BTreeMap::new();
    let Manifest { programs, .. } = toolchain.manifest();
    for (name, program) in programs {
        let Some(path) = &program.module else { continue };
        if let Some(known) = modules.get_mut(path) {
            known.programs.push(name.clone());
            continue;
        }
        let Some(described) = toolchain.program(name) else { continue };
        let Code::Module(file, _) = described.code else { continue };
        let cannot = || format!("cannot inspect {}", printable(path));
        let module = Module::read(&file).with_context(cannot)?.named(path);
        let info = ModuleInfo::of(&engine, &module).with_context(cannot)?;
        let inspected = Inspected { programs: vec![name.clone()], len_bytes: module.size(), info };
        modules.insert(path.clone(), inspected);
    }
    Ok(modules)
}
