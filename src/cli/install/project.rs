//! Installs the toolchains that a project names.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::signed::{self, Signing};
use super::{Unpacked, compile, line, open, recipes, tell};
use crate::base::digest::Digest;
use crate::cli::args::toolchain::InstallArgs;
use crate::cli::exit::Usage;
use crate::cli::progress::Progress;
use crate::cli::project::lock::{LOCK_FILE, Lock, Locked};
use crate::cli::project::toolchains::{
    expect_installed_signed, expect_name, expect_signed, expect_within,
};
use crate::cli::project::{self, PROJECT_FILE, Project, Wanted};
use crate::cli::signatures::Signer;
use crate::cli::text::printable;
use crate::{InstalledToolchains, SignedManifest, Toolchain, ToolchainFolder};

/// Installs what the project of the current directory names, as versions beside what is installed by name.
pub fn install(args: &InstallArgs, store: &InstalledToolchains) -> Result<u8> {
    let Some(project) = project::current()? else {
        bail!(Usage(format!(
            "name what to install, or run this in a project: no {PROJECT_FILE} is in this directory or above it \
             (recipes: {})",
            recipes::names().collect::<Vec<_>>().join(", ")
        )));
    };
    let Some(wanted) = &project.file.toolchains else {
        bail!(Usage(format!("{} has no [toolchains]", project.path().display())));
    };
    let old = Lock::read(project)?;
    let needs = old.iter().flat_map(|lock| &lock.toolchains).map(|locked| locked.digest).collect();
    let signing = Signing::of(args)?;
    let mut run = Installing { args, store, project, signing, lines: Vec::new(), needs };
    let mut locked = Vec::new();
    for (name, wanted) in wanted {
        let known = old.as_ref().and_then(|lock| lock.find(name)).filter(|_| !args.update);
        let version = run
            .one(name, wanted, known)
            .with_context(|| format!("cannot install {}", printable(name)))?;
        locked.extend(version);
    }
    let lock = Lock::new(locked);
    if old.as_ref().unwrap_or(&Lock::new(Vec::new())) != &lock {
        if args.locked {
            bail!(Usage(format!(
                "{LOCK_FILE} does not fit {PROJECT_FILE}, and --locked forbids to change it"
            )));
        }
        // A project with folders only needs none.
        if old.is_some() || !lock.toolchains.is_empty() {
            lock.write(project)?;
        }
    }
    let digests: Vec<Digest> = lock.toolchains.iter().map(|locked| locked.digest).collect();
    if !digests.is_empty() {
        store.note_needs(&Lock::path(project), &digests, false)?;
    }
    if args.json {
        say!("{}", json!(run.lines));
    }
    Ok(0)
}

struct Installing<'a> {
    args: &'a InstallArgs,
    store: &'a InstalledToolchains,
    project: &'a Project,
    signing: Signing,
    lines: Vec<Value>,
    /// The digests of what is locked, and of what was installed.
    needs: Vec<Digest>,
}

impl Installing<'_> {
    /// Installs the toolchain `name`, of which `known` is locked. `None` if it is used where it lies.
    fn one(
        &mut self,
        name: &str,
        wanted: &Wanted,
        known: Option<&Locked>,
    ) -> Result<Option<Locked>> {
        let Self { args, store, project, .. } = *self;
        if let Some(folder) = wanted.folder(project)? {
            wanted.expect_folder_allowed(name, project)?;
            let Unpacked { toolchain, .. } = open(".", &folder, args, store)?;
            let manifest = toolchain.manifest();
            expect_name(name, &manifest.name, project)?;
            wanted.expect_version(name, &manifest.version, project)?;
            let compiled = if args.no_compile { 0 } else { compile(&toolchain, args)? };
            self.report(&toolchain, &Signer::Nobody, compiled);
            return Ok(None);
        }
        let known = self.usable(wanted, known)?;
        if let Some(found) = self.found(name, wanted, known)? {
            store.keep_version(name, found.digest)?;
            return Ok(Some(found));
        }
        let source = self.source(name, wanted)?;
        let unpacked = open(source, &project.dir, args, store)?;
        let toolchain = &unpacked.toolchain;
        let manifest = toolchain.manifest();
        expect_name(name, &manifest.name, project)?;
        wanted.expect_version(name, &manifest.version, project)?;
        let text = manifest.to_text();
        expect_signed(project, name, text.as_bytes(), toolchain.signature())?;
        let signer = self.signing.signer(text.as_bytes(), toolchain.signature())?;
        let digest = toolchain.digest();
        if let Some(known) = known.filter(|known| known.digest != digest) {
            bail!(Usage(format!(
                "{LOCK_FILE} has the digest {}, and what {} has now is {digest}; to use that: \
                 `belljar install --update`",
                known.digest,
                printable(source)
            )));
        }
        unpacked.take_compiled(&self.signing, args)?;
        let compiled = if args.no_compile { 0 } else { compile(toolchain, args)? };
        let shown = Progress::start(format!("installing {name}"), args.quiet);
        self.needs.push(digest);
        store.note_needs(&Lock::path(project), &self.needs, true)?;
        self.store_version(toolchain)?;
        drop(shown);
        self.report(toolchain, &signer, compiled);
        // Where the project demands signatures, they were checked.
        if !args.quiet && project.file.signers.is_none() {
            signed::tell(toolchain.manifest(), &signer);
        }
        let version = toolchain.manifest().version.clone();
        Ok(Some(Locked { name: name.to_owned(), version, digest }))
    }

    /// `known`, which the lock file has, if `wanted` is not another version.
    fn usable<'k>(&self, wanted: &Wanted, known: Option<&'k Locked>) -> Result<Option<&'k Locked>> {
        let usable = known.filter(|known| wanted.is_version(&known.version));
        if usable.is_some() || !self.args.locked {
            return Ok(usable);
        }
        bail!(Usage(match known {
            Some(Locked { version, .. }) => format!(
                "{LOCK_FILE} has the version {}, not the one of {PROJECT_FILE}, and --locked forbids to change it",
                printable(version)
            ),
            None => format!("{LOCK_FILE} does not have it, and --locked forbids to add it"),
        }))
    }

    /// From where `wanted` is installed.
    fn source<'w>(&self, name: &'w str, wanted: &'w Wanted) -> Result<&'w str> {
        let source = wanted.source.as_deref().unwrap_or(name);
        match recipes::find(source) {
            // Before its package is fetched.
            Some(recipe) => wanted.expect_version(name, &recipe?.manifest.version, self.project)?,
            None if wanted.source.is_none() => bail!(self.nowhere(name, wanted)?),
            None => {
                expect_trusted_registry(self.project, source)?;
                expect_within(self.project, source)?;
            }
        }
        Ok(source)
    }

    /// Stores `toolchain`. If this project demands no signature, one that is there already stays: another project may demand it.
    fn store_version(&self, toolchain: &ToolchainFolder) -> Result<()> {
        let (name, digest) = (&toolchain.manifest().name, toolchain.digest());
        let stored = || self.store.signed_manifest(name, Some(digest)).ok()?.signature;
        match stored().filter(|_| self.project.file.signers.is_none()) {
            Some(kept) => {
                toolchain.clone().with_signature(Some(kept)).install_version(self.store)?
            }
            None => toolchain.install_version(self.store)?,
        };
        Ok(())
    }

    /// Why `wanted`, which has no source, cannot be installed: it is no recipe.
    fn nowhere(&self, name: &str, wanted: &Wanted) -> Result<Usage> {
        let (path, version) = (self.project.path(), wanted.version.as_deref());
        let source = version.filter(|it| it.contains('/') || it.ends_with(".belljar"));
        let why = match (source, version) {
            (Some(source), _) => {
                format!(
                    "a bundle, folder or registry is written `{name} = {{ source = {source:?} }}`"
                )
            }
            (None, Some(version)) if self.store.has(name)? => format!(
                "the version {} is wanted, and {} is installed; name where to get it with `source`",
                printable(version),
                printable(&Toolchain::installed(self.store, name)?.manifest().version)
            ),
            _ => format!(
                "there is no recipe of this name, and nothing is installed under it: name a bundle, a folder or a \
                 registry, `{name} = {{ source = \"...\" }}` (recipes: {})",
                recipes::names().collect::<Vec<_>>().join(", ")
            ),
        };
        Ok(Usage(format!("{}: {why}", path.display())))
    }

    /// What is installed already: what is locked, or, if nothing is, what is installed under the name.
    fn found(
        &mut self,
        name: &str,
        wanted: &Wanted,
        known: Option<&Locked>,
    ) -> Result<Option<Locked>> {
        let Self { args, store, project, .. } = *self;
        let is_whole = |known: &Locked| {
            store.damaged_files_of(name, known.digest).is_ok_and(|damaged| damaged.is_empty())
        };
        // Where it comes from, it may be signed by now.
        let is_signed = |found: &Toolchain| {
            expect_installed_signed(project, store, name, found.digest()).is_ok()
        };
        let found = match known {
            // What is damaged is installed again.
            Some(known) if !is_whole(known) => None,
            Some(known) => Toolchain::version(store, name, known.digest)?,
            None if args.update || wanted.source.is_some() => None,
            None if store.has(name)? => {
                let fits = |found: &Toolchain| wanted.is_version(&found.manifest().version);
                Some(Toolchain::installed(store, name)?).filter(fits)
            }
            None => None,
        };
        let Some(found) = found.filter(is_signed) else { return Ok(None) };
        if args.json {
            let SignedManifest { text, signature } =
                store.signed_manifest(name, Some(found.digest()))?;
            let signer = self.signing.signer(&text, signature.as_deref())?;
            self.lines.push(line(found.manifest(), found.digest(), &signer, 0));
        } else if !args.quiet {
            tell(found.manifest(), None);
        }
        Ok(Some(Locked::of(&found)))
    }

    fn report(&mut self, toolchain: &ToolchainFolder, signer: &Signer, compiled: usize) {
        if self.args.json {
            self.lines.push(line(toolchain.manifest(), toolchain.digest(), signer, compiled));
        } else {
            tell(toolchain.manifest(), None);
        }
    }
}

/// Checks that the project is trusted if `source` names something in a registry.
///
/// # Errors
/// [`Usage`].
pub fn expect_trusted_registry(project: &Project, source: &str) -> Result<()> {
    if !is_remote(project, source) || project.is_granted(&project.grant_of_source(source))? {
        return Ok(());
    }
    let path = project.path();
    bail!(Usage(format!(
        "{}: registries such as that of {} count only after `belljar trust`",
        path.display(),
        printable(source)
    )))
}

/// Whether the source `source` of a toolchain counts only once `project` is trusted: it is in a registry, or outside.
pub fn is_beyond(project: &Project, source: &str) -> bool {
    is_remote(project, source) || project.path_within(Path::new(source)).is_none()
}

/// Whether `source` is a reference to a registry.
#[cfg(feature = "oci")]
pub fn is_remote(project: &Project, source: &str) -> bool {
    super::oci::is_reference(source) && !project.dir.join(source).exists()
}

#[cfg(not(feature = "oci"))]
pub fn is_remote(_: &Project, _: &str) -> bool {
    false
}
