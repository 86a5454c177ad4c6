//! Bundles: a toolchain as one file, a zip archive whose bytes depend on the toolchain alone: the manifest with all its
//! files, its signature if there is one, then the files in the order of their paths, with one time and one compression.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, bail};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, System, ZipArchive, ZipWriter};

use super::archive;
use crate::base::SIGNATURE_BYTES_MAX;
use crate::base::atomic_file;
use crate::base::disk::{self, DiskError};
use crate::cli::exit::Usage;
use crate::cli::text::printable;
use crate::toolchain::{FileEntry, MANIFEST, MANIFEST_BYTES_MAX, SIGNATURE, at, digests};
use crate::{Manifest, ToolchainFolder};

/// Level of the compression: changing it changes the bytes of all bundles.
const LEVEL: i64 = 9;

/// Extension of a bundle.
pub const EXTENSION: &str = "belljar";

/// The entry that says what compiled code there is, and that with its signature.
pub const COMPILED: &str = "compiled.json";
pub const COMPILED_SIGNATURE: &str = "compiled.json.minisig";

/// The folder of compiled code.
pub const CODE: &str = "compiled/";

/// Whether compiled code can have the name `name` in a bundle.
pub fn is_compiled(name: &str) -> bool {
    [COMPILED, COMPILED_SIGNATURE].contains(&name) || name.starts_with(CODE)
}

/// Writes `toolchain` to the file `path`, which appears whole or not at all. Behind its own files come `others`: the names
/// of entries, and files with their contents.
///
/// # Errors
/// A file cannot be read or written, or is not what the manifest says.
pub fn pack(toolchain: &ToolchainFolder, others: &[(String, PathBuf)], path: &Path) -> Result<()> {
    atomic_file::write_shared_with(path, |file| {
        write_with(toolchain, Modules::Inside, others, file)
            .with_context(|| format!("cannot write {}", path.display()))
    })
}

/// Where the modules of a toolchain are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Modules {
    /// In its bundle, with all other files.
    Inside,
    /// Elsewhere: the bundle has the manifest and the files of trees that are no modules.
    #[cfg(feature = "oci")]
    Apart,
}

impl Modules {
    /// The files of `manifest` that its bundle has, by their paths.
    fn files(self, manifest: &Manifest) -> BTreeMap<&str, &FileEntry> {
        let apart = if self == Self::Inside { BTreeSet::new() } else { manifest.modules() };
        let files = manifest.files.iter().map(|(path, entry)| (path.as_str(), entry));
        files.filter(|(path, _)| !apart.contains(path)).collect()
    }
}

/// Writes the bundle of `toolchain` to `file`.
///
/// # Errors
/// As [`pack`].
#[cfg(feature = "oci")]
pub fn write(toolchain: &ToolchainFolder, modules: Modules, file: &mut File) -> Result<()> {
    write_with(toolchain, modules, &[], file)
}

fn write_with(
    toolchain: &ToolchainFolder,
    modules: Modules,
    others: &[(String, PathBuf)],
    file: &mut File,
) -> Result<()> {
    let mut archive = ZipWriter::new(file);
    let options = |len_bytes: u64, executable| {
        SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(LEVEL))
            .last_modified_time(DateTime::default())
            .system(System::Unix)
            .unix_permissions(if executable { 0o755 } else { 0o644 })
            .large_file(len_bytes >= u64::from(u32::MAX))
    };
    let manifest = toolchain.manifest();
    let text = manifest.to_text();
    archive.start_file(MANIFEST, options(text.len() as u64, false))?;
    archive.write_all(text.as_bytes())?;
    if let Some(signature) = toolchain.signature() {
        archive.start_file(SIGNATURE, options(signature.len() as u64, false))?;
        archive.write_all(signature.as_bytes())?;
    }
    for (name, entry) in modules.files(manifest) {
        archive.start_file(name, options(entry.len_bytes, entry.executable))?;
        let opened = toolchain.open_file(name)?;
        let mut copying = Copying { from: opened.take(entry.len_bytes + 1), to: &mut archive };
        let (sha256, _, len_bytes) = digests::of_reader(&mut copying)?;
        if (&sha256, len_bytes) != (&entry.sha256, entry.len_bytes) {
            bail!("{name} changed while it was packed");
        }
    }
    for (name, path) in others {
        let len_bytes = disk::metadata(path)?.len();
        archive.start_file(name, options(len_bytes, false))?;
        std::io::copy(&mut disk::open(path)?, &mut archive)?;
    }
    archive.finish()?;
    Ok(())
}

/// Unpacks the bundle `file` into the empty folder `into`, and checks all its files.
///
/// # Errors
/// As [`unpack`]; those of [`ToolchainFolder::of`].
pub fn open(file: &Path, into: &Path) -> Result<ToolchainFolder> {
    let Unpacked { manifest, signature } = unpack(file, into, Modules::Inside)?;
    Ok(ToolchainFolder::of(into, manifest)?.with_signature(signature))
}

/// What a bundle says of its files.
pub struct Unpacked {
    pub manifest: Manifest,
    /// The signature of the manifest, which was not checked.
    pub signature: Option<String>,
}

/// Opens the archive `file`.
///
/// # Errors
/// [`Usage`] with the next step if it is something else that has to do with toolchains.
fn opened(file: &Path) -> Result<ZipArchive<File>> {
    let shown = printable(&file.to_string_lossy());
    let (mut content, mut head) = (disk::open(file)?, Vec::new());
    let read = (&content).take(4).read_to_end(&mut head).and_then(|_| content.rewind());
    read.map_err(DiskError::new("read", file))?;
    let is_zip = head.starts_with(b"PK");
    let why = match ZipArchive::new(content) {
        Ok(archive) if archive.index_for_name(MANIFEST).is_some() => return Ok(archive),
        Ok(_) => format!(
            "it has no {MANIFEST}; if it is a package of PyPI: `belljar toolchain init --from {shown}`"
        ),
        Err(error) if is_zip => {
            return Err(Error::from(error).context("it is damaged or incomplete: get it again"));
        }
        Err(_) if head.starts_with(&[0x1f, 0x8b]) => {
            format!("it is a package, not a bundle: `belljar toolchain init --from {shown}`")
        }
        Err(_) if head == b"\0asm" => format!(
            "it is a module, not a bundle: `belljar run {shown}` runs it, and `belljar toolchain init DIR` makes a \
             toolchain of a folder of modules"
        ),
        Err(error) => return Err(Error::from(error).context("it is not a bundle")),
    };
    Err(Usage(why).into())
}

/// Unpacks the bundle `file` into the empty folder `into`. Digests are not checked: see [`ToolchainFolder::of`].
///
/// # Errors
/// The bundle is damaged, or has an entry that its manifest does not have, a link, a path that leads elsewhere, the same
/// path twice, or more bytes than the manifest says.
pub fn unpack(file: &Path, into: &Path, modules: Modules) -> Result<Unpacked> {
    let mut archive = opened(file)?;
    if archive.offset() != 0 {
        bail!("it is not a bundle: something precedes the archive");
    }
    let entries = entries(&mut disk::open(file)?, archive.central_directory_start())?;
    if entries != archive.len() {
        bail!("it has a path twice: {entries} entries, and {} paths", archive.len());
    }
    let manifest = manifest(&mut archive)?;
    let signature = signature(&mut archive)?;
    let files = modules.files(&manifest);
    // Only the signature of compiled code says whether it is used: here it is passed over.
    let has_code = modules == Modules::Inside
        && archive.index_for_name(COMPILED).is_some()
        && !manifest.files.keys().any(|path| is_compiled(path));
    let is_code = |name: &str| has_code && is_compiled(name);
    let codes = archive.file_names().filter(|name| name.as_ref().is_ok_and(|name| is_code(name)));
    let codes = codes.count();
    let own = 1 + usize::from(signature.is_some()) + codes;
    if archive.len() != files.len() + own {
        let found = archive.len().saturating_sub(own);
        bail!("it has {found} files, and its manifest {}", files.len());
    }
    let all = files.values().try_fold(0_u64, |sum, file| sum.checked_add(file.len_bytes));
    if all.is_none_or(|bytes| bytes > archive::BYTES_MAX) {
        bail!("its files have more than {} bytes, which a toolchain may have", archive::BYTES_MAX);
    }
    // From where to where the entries are.
    let mut taken = Vec::new();
    for index in 0..archive.len() {
        let mut entry =
            archive.by_index(index).with_context(|| format!("entry {index} is damaged"))?;
        let name = entry.name()?.into_owned();
        let end = entry.data_start().and_then(|start| start.checked_add(entry.compressed_size()));
        let end = end.with_context(|| format!("{name:?} lies nowhere"))?;
        taken.push((entry.header_start(), end));
        if name == MANIFEST || name == SIGNATURE || is_code(&name) {
            continue;
        }
        let Some(stated) = files.get(name.as_str()) else {
            bail!("{name:?} is not in its manifest");
        };
        if !entry.is_file() || entry.is_symlink() {
            bail!("{name:?} is not a regular file");
        }
        let written = archive::write(into, &name, &mut entry, stated.len_bytes)?;
        if written != stated.len_bytes {
            bail!("{name:?} has {written} bytes, not the {} of its manifest", stated.len_bytes);
        }
        if stated.executable {
            disk::set_executable(&at(into, &name))?;
        }
    }
    taken.sort_unstable();
    if taken.windows(2).any(|two| two[1].0 < two[0].1) {
        bail!("two of its entries are the same bytes");
    }
    Ok(Unpacked { manifest, signature })
}

/// The number of entries in the directory of an archive, which begins at `start`. The library keeps one for each name.
fn entries(file: &mut File, start: u64) -> Result<usize> {
    const SIGNATURE: &[u8] = b"PK\x01\x02";
    const HEADER_BYTES: usize = 46;
    let mut reader = BufReader::new(file);
    reader.seek(SeekFrom::Start(start))?;
    let mut header = [0; HEADER_BYTES];
    let mut count = 0;
    while reader.read_exact(&mut header).is_ok() && header.starts_with(SIGNATURE) {
        let lengths =
            [28, 30, 32].map(|at| i64::from(u16::from_le_bytes([header[at], header[at + 1]])));
        reader.seek_relative(lengths.iter().sum())?;
        count += 1;
    }
    Ok(count)
}

/// Writes what is read to another place.
struct Copying<R, W> {
    from: R,
    to: W,
}

impl<R: Read, W: Write> Read for Copying<R, W> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.to.write_all(&buffer[..count])?;
        Ok(count)
    }
}

/// The manifest in the bundle `file`; nothing else is checked.
///
/// # Errors
/// The bundle is damaged; the manifest is wrong.
pub fn manifest_of(file: &Path) -> Result<Manifest> {
    manifest(&mut opened(file)?)
}

/// The content of the entry `name` of the bundle `file`, which has at most `bytes_max`; `None` if there is no such entry.
///
/// # Errors
/// The bundle is damaged; the entry has more bytes.
pub fn read(file: &Path, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>> {
    let mut archive = opened(file)?;
    entry(&mut archive, name, bytes_max)
}

/// The content of the entry `name`, which has at most `bytes_max`; `None` if there is no such entry.
fn entry(
    archive: &mut ZipArchive<impl Read + Seek>,
    name: &str,
    bytes_max: u64,
) -> Result<Option<Vec<u8>>> {
    if archive.index_for_name(name).is_none() {
        return Ok(None);
    }
    let entry = archive.by_name(name).with_context(|| format!("{name} is damaged"))?;
    let mut content = Vec::new();
    entry
        .take(bytes_max + 1)
        .read_to_end(&mut content)
        .with_context(|| format!("{name} is damaged"))?;
    if content.len() as u64 > bytes_max {
        bail!("its {name} has more than {bytes_max} bytes");
    }
    Ok(Some(content))
}

fn signature(archive: &mut ZipArchive<impl Read + Seek>) -> Result<Option<String>> {
    let Some(text) = entry(archive, SIGNATURE, SIGNATURE_BYTES_MAX)? else { return Ok(None) };
    let text = String::from_utf8(text).ok();
    text.map(Some).with_context(|| format!("its {SIGNATURE} is not UTF-8"))
}

fn manifest(archive: &mut ZipArchive<impl Read + Seek>) -> Result<Manifest> {
    let text = entry(archive, MANIFEST, MANIFEST_BYTES_MAX)?;
    let text = text.with_context(|| format!("it has no {MANIFEST}"))?;
    let manifest = Manifest::parse(Path::new(MANIFEST), &text)?;
    if manifest.files.is_empty() {
        bail!("its {MANIFEST} has no `files`");
    }
    Ok(manifest)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests use the disk")]
mod tests {
    use super::*;

    /// Its length was compared alone.
    #[test]
    fn file_that_changes_while_it_is_packed_does_not_get_into_the_bundle() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("t");
        disk::create_private_dir_all(&folder).unwrap();
        let write = |name: &str, text: &[u8]| std::fs::write(folder.join(name), text).unwrap();
        write("t.wasm", b"\0asm\x01\0\0\0");
        write(
            MANIFEST,
            br#"{"format": "1.0", "name": "t", "version": "1", "programs": {"t": {"module": "t.wasm"}}}"#,
        );
        let toolchain = ToolchainFolder::open(&folder).unwrap();
        write("t.wasm", b"\0asm\x01\0\0\x01");
        let error = pack(&toolchain, &[], &dir.path().join("t.belljar")).unwrap_err();
        assert!(format!("{error:#}").contains("t.wasm changed while it was packed"), "{error:#}");
        assert!(!dir.path().join("t.belljar").exists());
    }
}
