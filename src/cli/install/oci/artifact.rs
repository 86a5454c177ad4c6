//! Toolchains as artifacts: a manifest of OCI with a layer for each module, and one for all other files. An artifact with a
//! single module, as other tools push it, is a toolchain with one program.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Cursor, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use oci_client::manifest::{OciDescriptor, OciImageManifest};
use serde_json::json;

use super::registry::Registry;
use crate::base::disk::{self, DiskError};
use crate::cli::install::bundle::{self, Modules, Unpacked};
use crate::cli::progress::Progress;
use crate::cli::text::printable;
use crate::toolchain::{Temporary, at, digests, names};
use crate::{InstalledToolchains, Manifest, ProgramEntry, ToolchainFolder};

/// The media type of a module.
const MODULE: &str = "application/wasm";

/// Media types that other tools have given modules.
const MODULES: [&str; 3] = [
    MODULE,
    "application/vnd.wasm.content.layer.v1+wasm",
    "application/vnd.module.wasm.content.layer.v1+wasm",
];

/// The media type of the layer with `toolchain.json` and the files that are no modules: a bundle without modules.
const FILES: &str = "application/vnd.belljar.toolchain.v1+zip";

/// The media type of the configuration of an artifact for WebAssembly.
const CONFIG: &str = "application/vnd.wasm.config.v0+json";

/// The annotation with the path of a module.
const TITLE: &str = "org.opencontainers.image.title";

/// The folder of downloads in that of installed toolchains.
const DOWNLOADS: &str = crate::toolchain::DOWNLOADS;

/// Pushes `toolchain` to `registry`; returns the digest of the artifact's manifest, which depends on the toolchain alone.
///
/// # Errors
/// A file cannot be read; the registry does not take something.
pub fn push(toolchain: &ToolchainFolder, registry: &Registry, quiet: bool) -> Result<String> {
    registry.log_in()?;
    let manifest = toolchain.manifest();
    let mut layers = Vec::new();
    for path in manifest.modules() {
        let entry = manifest.files.get(path).with_context(|| format!("{path} is not a file"))?;
        let layer =
            descriptor(MODULE, format!("sha256:{}", entry.sha256), entry.len_bytes, Some(path))?;
        let _shown = Progress::start(format!("pushing {}", printable(path)), quiet);
        registry.push_blob(&layer.digest, entry.len_bytes, toolchain.open_file(path)?)?;
        layers.push(layer);
    }
    let shown = Progress::start("pushing other files".to_owned(), quiet);
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let path = folder.path().join("files");
    bundle::write(toolchain, Modules::Apart, &mut disk::create_new_private(&path)?)?;
    let (sha256, _, len_bytes) =
        digests::of_reader(&mut disk::open(&path)?).map_err(DiskError::new("read", &path))?;
    let files = descriptor(FILES, format!("sha256:{sha256}"), len_bytes, None)?;
    registry.push_blob(&files.digest, len_bytes, disk::open(&path)?)?;
    layers.push(files);
    let digests: Vec<&String> = layers.iter().map(|layer| &layer.digest).collect();
    // The time is required, and fixed, as the digest must not depend on it.
    let config = json!({
        "created": "1970-01-01T00:00:00Z", "architecture": "wasm", "os": "wasip1",
        "layerDigests": digests,
    });
    let config = config.to_string().into_bytes();
    let (sha256, _, len_bytes) = digests::of_reader(&mut &config[..])?;
    let described = descriptor(CONFIG, format!("sha256:{sha256}"), len_bytes, None)?;
    registry.push_blob(&described.digest, len_bytes, Cursor::new(config))?;
    let artifact = OciImageManifest {
        media_type: Some("application/vnd.oci.image.manifest.v1+json".to_owned()),
        config: described,
        layers,
        annotations: Some(annotations(manifest)),
        ..OciImageManifest::default()
    };
    drop(shown);
    registry.push_manifest(artifact)
}

fn descriptor(
    media_type: &str,
    digest: String,
    len_bytes: u64,
    title: Option<&str>,
) -> Result<OciDescriptor> {
    let annotations = title.map(|title| BTreeMap::from([(TITLE.to_owned(), title.to_owned())]));
    let size = i64::try_from(len_bytes)?;
    Ok(OciDescriptor {
        media_type: media_type.to_owned(),
        digest,
        size,
        annotations,
        ..OciDescriptor::default()
    })
}

fn annotations(manifest: &Manifest) -> BTreeMap<String, String> {
    let known = [
        ("title", Some(&manifest.name)),
        ("version", Some(&manifest.version)),
        ("description", manifest.description.as_ref()),
        ("licenses", manifest.license.as_ref()),
        ("url", manifest.homepage.as_ref()),
    ];
    let known = known.into_iter().filter_map(|(name, value)| Some((name, value?)));
    known.map(|(name, value)| (format!("org.opencontainers.image.{name}"), value.clone())).collect()
}

/// Pulls the toolchain that `registry` names into a new folder in `store`, which disappears when it is dropped.
///
/// # Errors
/// The registry sends nothing, or something else than its manifest says, or no toolchain and no module.
pub fn pull(
    registry: &Registry,
    store: &InstalledToolchains,
    quiet: bool,
) -> Result<(Temporary, ToolchainFolder)> {
    let shown = Progress::start(format!("pulling {}", registry.name()), quiet);
    let (artifact, digest) = registry.manifest()?;
    drop(shown);
    let folder = store.temporary()?;
    let store = store.dir();
    let mut pulling = Pulling { registry, store, quiet, fetched: Vec::new() };
    let files: Vec<&OciDescriptor> = of_type(&artifact, &[FILES]);
    let Unpacked { manifest, signature } = match files[..] {
        [files] => pulling.toolchain(files, &artifact, folder.path())?,
        [] => {
            let manifest = pulling.module(&artifact, &digest, folder.path())?;
            Unpacked { manifest, signature: None }
        }
        _ => {
            bail!("{} has {} layers of a toolchain's files, not one", registry.name(), files.len())
        }
    };
    let toolchain = ToolchainFolder::of(folder.path(), manifest)
        .with_context(|| format!("{} is not what its manifest says", registry.name()))?
        .with_signature(signature);
    for (path, _locked) in pulling.fetched {
        // What cannot be removed only costs space.
        let _ = disk::remove_file(&path);
    }
    Ok((folder, toolchain))
}

/// The version of the toolchain that `registry` names.
///
/// # Errors
/// The registry does not answer, or does not have it.
pub fn version(registry: &Registry) -> Result<String> {
    let (artifact, digest) = registry.manifest()?;
    let version = annotation(&artifact, "version");
    Ok(version.cloned().unwrap_or_else(|| version_of_module(registry, &digest).to_owned()))
}

/// The version of a module that another tool pushed. A digest is longer than a version may be.
fn version_of_module<'a>(registry: &'a Registry, digest: &'a str) -> &'a str {
    registry.tag().unwrap_or(digest.get(..19).unwrap_or(digest))
}

fn annotation<'a>(artifact: &'a OciImageManifest, name: &str) -> Option<&'a String> {
    artifact.annotations.as_ref()?.get(&format!("org.opencontainers.image.{name}"))
}

fn of_type<'a>(artifact: &'a OciImageManifest, types: &[&str]) -> Vec<&'a OciDescriptor> {
    let layers = artifact.layers.iter();
    layers.filter(|layer| types.contains(&layer.media_type.as_str())).collect()
}

struct Pulling<'a> {
    registry: &'a Registry,
    store: &'a Path,
    quiet: bool,
    /// The files that can be removed.
    fetched: Vec<(PathBuf, File)>,
}

impl Pulling<'_> {
    /// Fetches a layer to the file `path` of the folder `into`.
    fn layer(&mut self, layer: &OciDescriptor, into: &Path, path: &str) -> Result<()> {
        if !names::is_below_a_folder(path) {
            bail!("the path {path:?} of a layer leads elsewhere");
        }
        let shown = Progress::start(format!("pulling {}", printable(path)), self.quiet);
        let (fetched, mut file) = self.registry.blob(layer, &self.store.join(DOWNLOADS), &shown)?;
        let target = at(into, path);
        disk::create_private_dir_all(disk::folder_of(&target))?;
        let mut copy = disk::create_new_private(&target)
            .with_context(|| format!("{path:?} comes twice, or is a folder"))?;
        file.seek(SeekFrom::Start(0)).map_err(DiskError::new("read", &fetched))?;
        std::io::copy(&mut file, &mut copy).map_err(DiskError::new("write", &target))?;
        self.fetched.push((fetched, file));
        Ok(())
    }

    /// Fetches a toolchain whose manifest is in the layer `files`.
    fn toolchain(
        &mut self,
        files: &OciDescriptor,
        artifact: &OciImageManifest,
        into: &Path,
    ) -> Result<Unpacked> {
        let shown = Progress::start("pulling files".to_owned(), self.quiet);
        let (fetched, file) = self.registry.blob(files, &self.store.join(DOWNLOADS), &shown)?;
        let unpacked = bundle::unpack(&fetched, into, Modules::Apart)
            .with_context(|| format!("the layer {} is damaged", files.digest))?;
        drop(shown);
        self.fetched.push((fetched, file));
        let manifest = &unpacked.manifest;
        let modules = of_type(artifact, &[MODULE]);
        for path in manifest.modules() {
            let title = |layer: &&&OciDescriptor| title(layer) == Some(path);
            let Some(layer) = modules.iter().find(title) else {
                bail!("the module {} has no layer", printable(path));
            };
            let stated = manifest.files.get(path).map(|entry| format!("sha256:{}", entry.sha256));
            if stated.as_ref() != Some(&layer.digest) {
                bail!("the layer of {} has another digest than toolchain.json", printable(path));
            }
            self.layer(layer, into, path)?;
        }
        Ok(unpacked)
    }

    /// Fetches a single module, and describes it.
    fn module(
        &mut self,
        artifact: &OciImageManifest,
        digest: &str,
        into: &Path,
    ) -> Result<Manifest> {
        let modules = of_type(artifact, &MODULES);
        let [module] = modules[..] else {
            bail!(
                "{} is no toolchain: it has {} layers with WebAssembly, and not one",
                self.registry.name(),
                modules.len()
            );
        };
        let named = title(module).map(|title| title.rsplit(['/', '\\']).next().unwrap_or(title));
        let name = named.unwrap_or(self.registry.last_name());
        let name = name.strip_suffix(".wasm").unwrap_or(name).to_owned();
        let file = format!("{name}.wasm");
        self.layer(module, into, &file)?;
        let program = ProgramEntry { module: Some(file), ..ProgramEntry::default() };
        let version = version_of_module(self.registry, digest);
        let manifest = json!({
            "format": "1.0", "name": self.registry.last_name(), "version": version,
            "programs": { name: program },
        });
        let mut manifest = Manifest::parse(into, manifest.to_string().as_bytes())?;
        manifest.description = annotation(artifact, "description").cloned();
        manifest.license = annotation(artifact, "licenses").cloned();
        Ok(manifest)
    }
}

fn title(layer: &OciDescriptor) -> Option<&str> {
    layer.annotations.as_ref()?.get(TITLE).map(String::as_str)
}
