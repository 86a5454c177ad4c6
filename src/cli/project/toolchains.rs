//! The toolchains that a project uses.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::current::Project;
use super::file::Wanted;
use super::lock::{LOCK_FILE, Lock, Locked};
use crate::base::digest::Digest;
use crate::cli::exit::Usage;
use crate::cli::signatures::Signer;
use crate::cli::text::printable;
use crate::toolchain::MANIFEST;
use crate::{InstalledToolchains, SignedManifest, Toolchain, Toolchains};

impl Wanted {
    /// The folder that is used where it lies, if its source is one.
    ///
    /// # Errors
    /// It is outside of a project that is not trusted.
    pub fn folder(&self, project: &Project) -> Result<Option<PathBuf>> {
        let Some(source) = &self.source else { return Ok(None) };
        let path = project.dir.join(source);
        if !path.is_dir() {
            return Ok(None);
        }
        expect_within(project, source)?;
        Ok(Some(path))
    }

    /// Checks that `project` lets it be a folder.
    ///
    /// # Errors
    /// [`Usage`] if the project demands signatures: a folder has none that holds after an edit.
    pub fn expect_folder_allowed(&self, name: &str, project: &Project) -> Result<()> {
        if project.file.signers.is_none() {
            return Ok(());
        }
        let (path, source) = (project.path(), self.source.as_deref().unwrap_or(name));
        let source = printable(source);
        Err(Usage(format!(
            "{}: {name}: `signed-by` demands a signature, and a folder is used as it is: name a bundle, which \
             `belljar toolchain pack --sign KEYFILE {source}` writes",
            path.display(),
        ))
        .into())
    }

    /// Whether `version` is a version that is wanted.
    pub fn is_version(&self, version: &str) -> bool {
        self.version.as_ref().is_none_or(|wanted| wanted == version)
    }

    /// Checks that `version` is the version that is wanted of the toolchain `name`.
    ///
    /// # Errors
    /// It is not.
    pub fn expect_version(&self, name: &str, version: &str, project: &Project) -> Result<()> {
        match &self.version {
            Some(wanted) if !self.is_version(version) => Err(Usage(format!(
                "{}: {name} {} is wanted, and this is {}",
                project.path().display(),
                printable(wanted),
                printable(version)
            ))
            .into()),
            _ => Ok(()),
        }
    }
}

/// Checks that the file or folder `source` is in `project`, or that this is trusted.
///
/// # Errors
/// [`Usage`].
pub fn expect_within(project: &Project, source: &str) -> Result<()> {
    let is_within = project.path_within(Path::new(source)).is_some();
    if is_within || project.is_granted(&project.grant_of_source(source))? {
        return Ok(());
    }
    let (path, source) = (project.path(), printable(source));
    Err(Usage(format!(
        "{}: {source} is outside of the project, and counts only after `belljar trust`",
        path.display()
    ))
    .into())
}

/// Checks that one of the keys that `project` demands made `signature`, the signature of the manifest `text` of the
/// toolchain `name`.
///
/// # Errors
/// [`Usage`] if none did.
pub fn expect_signed(
    project: &Project,
    name: &str,
    text: &[u8],
    signature: Option<&str>,
) -> Result<()> {
    let Some(keys) = &project.file.signers else { return Ok(()) };
    let why = match keys.signer(text, signature) {
        Ok(Signer::Known(_)) => return Ok(()),
        Ok(Signer::Nobody) => "it is not signed".to_owned(),
        Ok(Signer::Stranger(id)) => format!("its signature names key {id}"),
        Err(error) => format!("{error:#}"),
    };
    let (path, name, ids) = (project.path(), printable(name), keys.ids().join(" or "));
    Err(Usage(format!(
        "{}: `signed-by` demands that {name} is signed by key {ids}, and {why}: get it from who has this key, then \
         `belljar install --update`",
        path.display(),
    ))
    .into())
}

/// As [`expect_signed`], for what is installed with the digest `digest`.
///
/// # Errors
/// [`Usage`]; it cannot be read.
pub fn expect_installed_signed(
    project: &Project,
    store: &InstalledToolchains,
    name: &str,
    digest: Digest,
) -> Result<()> {
    if project.file.signers.is_none() {
        return Ok(());
    }
    let SignedManifest { text, signature } = store.signed_manifest(name, Some(digest))?;
    expect_signed(project, name, &text, signature.as_deref())
}

/// The toolchains of `project`, in the order in which it names them; `None` if it names none.
///
/// # Errors
/// One is not installed, or not the one that is locked, or not signed as `project` demands; with `must_be_locked`, one
/// is not locked.
pub fn of(
    project: &Project,
    store: &InstalledToolchains,
    must_be_locked: bool,
) -> Result<Option<Toolchains>> {
    let Some(wanted) = &project.file.toolchains else { return Ok(None) };
    let lock = Lock::read(project)?;
    let mut toolchains = Toolchains::default();
    for (name, wanted) in wanted {
        if let Some(folder) = wanted.folder(project)? {
            wanted.expect_folder_allowed(name, project)?;
            let found = Toolchain::open(&folder)?;
            let Some(found) = found else {
                bail!(Usage(format!("{}: it has no {MANIFEST}", folder.display())));
            };
            expect_name(name, &found.manifest().name, project)?;
            wanted.expect_version(name, &found.manifest().version, project)?;
            toolchains = toolchains.then(Toolchains::new(vec![folder])?);
            continue;
        }
        let locked = match &lock {
            Some(lock) => {
                let out_of_date = || {
                    Usage(format!(
                        "{LOCK_FILE} has no {name}: run `belljar install` in {}",
                        project.dir.display()
                    ))
                };
                let locked = lock.find(name).ok_or_else(out_of_date)?;
                wanted.expect_version(name, &locked.version, project).with_context(|| {
                    format!("{LOCK_FILE} is out of date: run `belljar install`")
                })?;
                locked.clone()
            }
            None if must_be_locked => bail!(Usage(format!(
                "--locked: {} has no {LOCK_FILE}: run `belljar install` there, and commit the file",
                project.dir.display()
            ))),
            None if wanted.source.is_some() => bail!(not_installed(name, project)),
            None => installed(name, wanted, project, store)?,
        };
        let Locked { version, digest, .. } = locked;
        toolchains = toolchains.with_version(store, name, &version, digest)?;
        expect_installed_signed(project, store, name, digest)?;
    }
    Ok(Some(toolchains))
}

fn not_installed(name: &str, project: &Project) -> Usage {
    Usage(format!(
        "{} names {name}, which is not installed for this project: run `belljar install` in {}",
        project.path().display(),
        project.dir.display()
    ))
}

/// The toolchain that is installed under `name`, for a project without a lock file.
fn installed(
    name: &str,
    wanted: &Wanted,
    project: &Project,
    store: &InstalledToolchains,
) -> Result<Locked> {
    let dir = project.dir.display();
    if !store.has(name)? {
        bail!(not_installed(name, project));
    }
    let found = Toolchain::installed(store, name)?;
    let remedy = || format!("run `belljar install` in {dir}");
    wanted.expect_version(name, &found.manifest().version, project).with_context(remedy)?;
    Ok(Locked::of(&found))
}

/// Checks that a toolchain is called what `belljar.toml` calls it.
///
/// # Errors
/// [`Usage`].
pub fn expect_name(wanted: &str, found: &str, project: &Project) -> Result<()> {
    if wanted == found {
        return Ok(());
    }
    let (path, found) = (project.path(), printable(found));
    Err(Usage(format!("{}: {wanted}: its source is the toolchain {found}", path.display())).into())
}
