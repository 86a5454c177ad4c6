//! `belljar toolchain init --from`: the first manifest of a package that somebody published.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Deserializer};

use super::{draft, new_folder};
use crate::base::disk;
use crate::cli::exit::Usage;
use crate::cli::install::archive;
use crate::cli::install::recipes::Client;
use crate::cli::text::{count, printable};
use crate::toolchain::MANIFEST;
use crate::{Manifest, toolchain};

/// Longest description of a package that is read, in bytes.
const METADATA_BYTES_MAX: u64 = 1 << 20;

/// Files with which a language calls the modules: of no use here.
const GLUE: &[&str] = &["py", "pyc", "pyi", "js", "mjs", "cjs", "ts", "mts", "cts", "map"];

/// Files about a package.
const ABOUT: &[&str] = &["readme", "changelog", "authors"];

/// Files with what everybody who passes a package on passes on with it.
const LICENSES: &[&str] = &["license", "licence", "copying", "copyright", "notice"];

/// The folder into which these are copied.
const LICENSES_FOLDER: &str = "licenses";

/// Unpacks the package `file` into the new folder `dir`, and writes a manifest for it.
pub fn init(file: &Path, dir: Option<&Path>, name: Option<&str>) -> Result<u8> {
    let folder = new_folder::beside(dir.unwrap_or(Path::new("new")))?;
    let (client, others) = unpack(file, folder.path())?;
    let about = About::read(folder.path(), client)?;
    let name = match (name, dir.and_then(Path::file_name)) {
        (Some(name), _) => draft::expect_name(name)?,
        (None, Some(folder)) if about.name.is_empty() => draft::plain(&folder.to_string_lossy()),
        (None, _) => draft::plain(about.name.rsplit('/').next().unwrap_or_default()),
    };
    let dir = dir.map_or_else(|| PathBuf::from(&name), Path::to_owned);
    new_folder::expect_none(&dir)?;
    for other in &others {
        note!("belljar: note: left out {}: it is not a regular file", printable(other));
    }
    let programs = draft::programs(folder.path(), file)?;
    let mut data = Data::default();
    data.examine(folder.path(), "")?;
    data.add_licenses(folder.path())?;
    let manifest = Manifest {
        version: if about.version.is_empty() { "0".to_owned() } else { about.version },
        description: about.description,
        license: about.license,
        homepage: about.homepage,
        programs,
        trees: data.trees,
        ..draft::empty(name)
    };
    draft::write(&manifest, folder.path())?;
    disk::rename(folder.path(), &dir)?;
    for (folder, files) in &data.left_out {
        let files = count(*files, "file");
        let folder = if folder.is_empty() { "." } else { folder };
        note!(
            "belljar: note: programs do not see {files} of {}; add the folder to `trees` if they need them, and unpack \
             archives first",
            printable(folder)
        );
    }
    let (programs, trees) = (manifest.programs.len(), manifest.trees.len());
    let (programs, trees) = (count(programs, "program"), count(trees, "tree"));
    say!("wrote {}: {programs}, {trees}", dir.join(MANIFEST).display());
    if let Some(program) = manifest.programs.keys().next() {
        say!("try it: belljar run --toolchain {} {}", dir.display(), printable(program));
    }
    Ok(0)
}

/// Unpacks all regular files of the package `file` into the empty folder `into`; returns its kind, and the names of other entries.
///
/// # Errors
/// It is no package; one of its paths leads elsewhere.
pub fn unpack(file: &Path, into: &Path) -> Result<(Client, Vec<String>)> {
    let client = client_of(file)?;
    let others = archive::unpack_all(file, client, into)
        .with_context(|| format!("cannot unpack {}", file.display()))?;
    Ok((client, others))
}

/// The kind of the package `file`, by its first bytes.
fn client_of(file: &Path) -> Result<Client> {
    let fetch = "fetch a package with `python3 -m pip download --no-deps --only-binary=:all: NAME` or \
                 `npm pack --ignore-scripts NAME`, and name its file";
    if !file.is_file() {
        return Err(Usage(format!("there is no file {}; {fetch}", file.display())).into());
    }
    let mut head = Vec::new();
    let opened = disk::open(file)?;
    opened
        .take(4)
        .read_to_end(&mut head)
        .with_context(|| format!("cannot read {}", file.display()))?;
    match head[..] {
        [b'P', b'K', 3, 4] => Ok(Client::Pip),
        [0x1f, 0x8b, ..] => Ok(Client::Npm),
        _ => Err(Usage(format!(
            "{} is neither a wheel (zip) nor a tarball (tar.gz); {fetch}",
            file.display()
        ))
        .into()),
    }
}

/// What a package says about itself. The names are those of `package.json`, too.
#[derive(Default, Deserialize)]
#[serde(default)]
struct About {
    name: String,
    version: String,
    description: Option<String>,
    #[serde(deserialize_with = "text_or_nothing")]
    license: Option<String>,
    homepage: Option<String>,
}

/// In old packages of npm, the license is no text.
fn text_or_nothing<'de, D: Deserializer<'de>>(license: D) -> Result<Option<String>, D::Error> {
    let license = serde_json::Value::deserialize(license)?;
    Ok(license.as_str().map(str::to_owned))
}

impl About {
    fn read(dir: &Path, client: Client) -> Result<Self> {
        let about = match client {
            Client::Pip => {
                let is_about =
                    |path: &&PathBuf| path.extension().is_some_and(|it| it == "dist-info");
                let listed = disk::list(dir)?;
                let Some(info) = listed.iter().find(is_about) else { return Ok(Self::default()) };
                text(&info.join("METADATA"))?.map(|text| Self::of_wheel(&text))
            }
            Client::Npm => {
                let text = text(&dir.join("package").join("package.json"))?;
                text.and_then(|text| serde_json::from_str(&text).ok())
            }
        };
        Ok(about.unwrap_or_default())
    }

    /// Source: "Core metadata specifications" of Python; the fields come before the first empty line.
    fn of_wheel(text: &str) -> Self {
        let field = |name: &str| {
            let mut lines = text.lines().take_while(|line| !line.is_empty());
            let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))?;
            Some(value.trim().to_owned()).filter(|value| !value.is_empty() && value != "UNKNOWN")
        };
        let url = || Some(field("Project-URL")?.split_once(", ")?.1.to_owned());
        Self {
            name: field("Name").unwrap_or_default(),
            version: field("Version").unwrap_or_default(),
            description: field("Summary"),
            license: field("License-Expression").or_else(|| field("License")),
            homepage: field("Home-page").or_else(url),
        }
    }
}

/// The text of a file about a package, if it is there and not too long.
fn text(path: &Path) -> Result<Option<String>> {
    if disk::symlink_metadata(path).is_err() {
        return Ok(None);
    }
    let bytes = disk::read_at_most(path, METADATA_BYTES_MAX)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// The folders of a package that programs may need.
#[derive(Default)]
struct Data {
    /// By the paths that programs see.
    trees: BTreeMap<String, String>,
    /// Folders, and how many of their files are in no tree and may be data.
    left_out: BTreeMap<String, usize>,
    /// Files with licenses that are in no tree.
    licenses: Vec<String>,
}

/// What is in a folder of a package.
#[derive(Default)]
struct Contents {
    folders: Vec<String>,
    licenses: Vec<String>,
    /// Files that may be data, and files that call modules.
    data: usize,
    glue: usize,
}

impl Contents {
    fn of(dir: &Path, path: &str) -> Result<Self> {
        let mut found = Self::default();
        for entry in disk::list(&toolchain::at(dir, path))? {
            let Some(name) = entry.file_name().and_then(|name| name.to_str()) else { continue };
            let below = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            if disk::symlink_metadata(&entry)?.is_dir() {
                if name != "__pycache__" {
                    found.folders.push(below);
                }
            } else if begins_with(LICENSES, name) {
                found.licenses.push(below);
            } else if is_glue(name) {
                found.glue += 1;
            } else if !is_about(name) && !is_module(name) {
                found.data += 1;
            }
        }
        Ok(found)
    }

    /// Whether more of the files in it and below may be data than call modules.
    fn are_data(&self, dir: &Path) -> Result<bool> {
        let (mut data, mut glue, mut left) = (self.data, self.glue, self.folders.clone());
        while let Some(folder) = left.pop() {
            let below = Self::of(dir, &folder)?;
            data += below.data;
            glue += below.glue;
            left.extend(below.folders);
        }
        Ok(data > glue)
    }
}

impl Data {
    /// Makes a tree of the folder `path` of `dir` if all in it can be data, or else of those of its folders of which that holds:
    /// a program that finds its files by their places needs them together.
    fn examine(&mut self, dir: &Path, path: &str) -> Result<()> {
        let found = Contents::of(dir, path)?;
        // The package's own folder has glue beside its data.
        let is_own = path.is_empty() || path == "package";
        if !is_own && !path.ends_with(".dist-info") && found.glue == 0 && found.are_data(dir)? {
            let name = path.rsplit('/').next().unwrap_or(path);
            let name = if self.trees.contains_key(name) { path } else { name };
            self.trees.insert(name.to_owned(), path.to_owned());
            return Ok(());
        }
        let is_left_out = found.data > 0 || (found.glue > 1 && !found.folders.is_empty());
        if is_left_out && !path.ends_with(".dist-info") {
            self.left_out.insert(path.to_owned(), found.data.max(found.glue));
        }
        self.licenses.extend(found.licenses);
        found.folders.iter().try_for_each(|below| self.examine(dir, below))
    }

    /// Copies the licenses that are in no tree to a folder of `dir` of their own, which is a tree: they stay with the programs.
    fn add_licenses(&mut self, dir: &Path) -> Result<()> {
        let is_free = disk::symlink_metadata(&dir.join(LICENSES_FOLDER)).is_err();
        if self.licenses.is_empty() || !is_free || self.trees.contains_key(LICENSES_FOLDER) {
            return Ok(());
        }
        for path in &self.licenses {
            let from = toolchain::at(dir, path);
            let Some(text) = disk::read_at_most(&from, METADATA_BYTES_MAX)? else { continue };
            let name = path.rsplit('/').next().unwrap_or(path);
            let mut to = format!("{LICENSES_FOLDER}/{name}");
            if disk::symlink_metadata(&toolchain::at(dir, &to)).is_ok() {
                to = format!("{LICENSES_FOLDER}/{}", path.replace('/', "-"));
            }
            archive::write(dir, &to, &mut &*text, text.len() as u64)?;
        }
        self.trees.insert(LICENSES_FOLDER.to_owned(), LICENSES_FOLDER.to_owned());
        Ok(())
    }
}

/// Whether `name`, in any case, begins with one of `beginnings`.
fn begins_with(beginnings: &[&str], name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    beginnings.iter().any(|beginning| name.starts_with(beginning))
}

fn is_glue(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.rsplit_once('.').is_some_and(|(_, extension)| GLUE.contains(&extension))
}

fn is_about(name: &str) -> bool {
    begins_with(ABOUT, name)
        || matches!(&*name.to_ascii_lowercase(), "package.json" | "py.typed" | ".ds_store")
}

fn is_module(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "wasm")
}
