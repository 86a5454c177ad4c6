//! Unpacks wheels (zip) and tarballs of npm (gzip, tar). What they hold is not trusted: only regular files get out, to
//! paths below one folder, and no more bytes than a toolchain can have.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::recipes::Client;
use crate::base::disk;
use crate::toolchain::{at, names};

/// Most bytes that are unpacked.
pub const BYTES_MAX: u64 = 4 << 30;

/// Longest description of an entry of tar, in bytes.
const EXTENSION_BYTES_MAX: u64 = 64 << 10;

/// Most entries of an archive.
const ENTRIES_MAX: usize = 1_000_000;

/// A file or folder of an archive, and the path that it gets.
#[derive(Clone)]
pub struct Wanted {
    from: String,
    to: String,
    /// It is an archive (tar) itself, whose files are wanted.
    is_archive: bool,
}

impl Wanted {
    /// `files` of an archive, by the paths that they get.
    pub fn all(files: &BTreeMap<String, String>, is_archive: bool) -> Vec<Self> {
        let wanted = |(to, from): (&String, &String)| Self {
            from: from.clone(),
            to: to.clone(),
            is_archive,
        };
        files.iter().map(wanted).collect()
    }
}

/// Unpacks what is `wanted` of `file` into the folder `into`.
///
/// # Errors
/// The archive is damaged; an entry that is wanted is a link, has a path that leads elsewhere, or comes twice; nothing has
/// one of the names.
pub fn unpack(file: &Path, client: Client, wanted: &[Wanted], into: &Path) -> Result<()> {
    let mut unpacking =
        Unpacking { wanted, into, found: vec![false; wanted.len()], left: BYTES_MAX };
    unpacking.package(file, client, &mut Unpacking::entry)?;
    match unpacking.found.iter().position(|found| !found) {
        None => Ok(()),
        Some(index) => bail!("it has no {}", wanted[index].from),
    }
}

/// Unpacks all regular files of `file` into the folder `into`; returns the names of other entries, such as links.
///
/// # Errors
/// The archive is damaged; a path leads elsewhere, or comes twice.
pub fn unpack_all(file: &Path, client: Client, into: &Path) -> Result<Vec<String>> {
    let mut unpacking = Unpacking { wanted: &[], into, found: Vec::new(), left: BYTES_MAX };
    let mut others = Vec::new();
    unpacking.package(file, client, &mut |unpacking, name, is_file, content| {
        if is_file {
            return unpacking.write(name, true, content);
        }
        others.push(name.to_owned());
        Ok(())
    })?;
    Ok(others)
}

struct Unpacking<'a> {
    wanted: &'a [Wanted],
    into: &'a Path,
    /// Which of `wanted` are there.
    found: Vec<bool>,
    /// Bytes that may still come.
    left: u64,
}

impl Unpacking<'_> {
    /// Calls `take` with each entry of the package `file`.
    fn package(&mut self, file: &Path, client: Client, take: &mut Take<'_, Self>) -> Result<()> {
        let file = disk::open(file)?;
        match client {
            Client::Pip => self.zip(file, take),
            Client::Npm => self.tar(&mut flate2::read::GzDecoder::new(file), take),
        }
    }

    fn zip(&mut self, file: File, take: &mut Take<'_, Self>) -> Result<()> {
        let mut archive = zip::ZipArchive::new(file)?;
        if archive.len() > ENTRIES_MAX {
            bail!("it has more than {ENTRIES_MAX} entries");
        }
        for index in 0..archive.len() {
            let mut entry = archive.by_index(index)?;
            if entry.is_dir() {
                continue;
            }
            let name = entry.name()?.into_owned();
            let is_file = entry.is_file() && !entry.is_symlink();
            take(self, &name, is_file, &mut entry)?;
        }
        Ok(())
    }

    fn tar(&mut self, archive: &mut dyn Read, take: &mut Take<'_, Self>) -> Result<()> {
        let mut archive = tar::Archive::new(archive);
        // The name of the next entry, if entries before it say so.
        let mut long_name = None;
        // The library would read extensions of any length into memory.
        for (index, entry) in archive.entries()?.raw(true).enumerate() {
            let mut entry = entry?;
            if index == ENTRIES_MAX {
                bail!("it has more than {ENTRIES_MAX} entries");
            }
            let kind = entry.header().entry_type();
            if kind.is_gnu_longname() || kind.is_pax_local_extensions() {
                let text = extension(&mut entry)?;
                long_name = if kind.is_gnu_longname() {
                    text.split(|byte| *byte == 0).next().map(<[u8]>::to_vec)
                } else {
                    path_in_pax(&text)?.or(long_name)
                };
                continue;
            }
            if kind.is_gnu_longlink() || kind.is_pax_global_extensions() {
                continue;
            }
            let name = long_name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
            if kind.is_dir() {
                continue;
            }
            let name = String::from_utf8(name).context("a path is not UTF-8")?;
            take(self, &name, kind.is_file(), &mut entry)?;
        }
        Ok(())
    }

    /// Writes the entry `name`, if it is wanted.
    fn entry(&mut self, name: &str, is_file: bool, content: &mut dyn Read) -> Result<()> {
        for (wanted, found) in self.wanted.iter().zip(&mut self.found) {
            let Some(rest) = name.strip_prefix(&*wanted.from) else { continue };
            if !(rest.is_empty() || rest.starts_with('/')) {
                continue;
            }
            *found = true;
            if wanted.is_archive {
                let to = wanted.to.clone();
                return self.tar(content, &mut |unpacking, name, is_file, content| {
                    let name = name.strip_prefix("./").unwrap_or(name);
                    unpacking.write(&format!("{to}/{name}"), is_file, content)
                });
            }
            return self.write(&format!("{}{rest}", wanted.to), is_file, content);
        }
        Ok(())
    }

    fn write(&mut self, path: &str, is_file: bool, content: &mut dyn Read) -> Result<()> {
        if !is_file {
            bail!("{path:?} is not a regular file");
        }
        self.left -= write(self.into, path, content, self.left)?;
        Ok(())
    }
}

/// The content of an entry of tar that describes the next one.
fn extension(entry: &mut impl Read) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    entry.take(EXTENSION_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > EXTENSION_BYTES_MAX {
        bail!("it describes an entry with more than {EXTENSION_BYTES_MAX} bytes");
    }
    Ok(text)
}

/// The path that an extension of pax gives the next entry.
fn path_in_pax(text: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut path = None;
    for extension in tar::PaxExtensions::new(text) {
        let extension = extension?;
        match extension.key_bytes() {
            b"path" => path = Some(extension.value_bytes().to_vec()),
            b"size" => {
                bail!("the length of an entry is in an extension, as if it had more than 8 GiB")
            }
            _ => {}
        }
    }
    Ok(path)
}

/// Takes in an entry of an archive: its name, whether it is a regular file, and its content.
type Take<'a, T> = dyn FnMut(&mut T, &str, bool, &mut dyn Read) -> Result<()> + 'a;

/// Writes a new file at `path`, which is relative to the folder `into`; returns its length.
///
/// # Errors
/// The path leads elsewhere, or exists; the content has more than `bytes_max`.
pub fn write(into: &Path, path: &str, content: &mut dyn Read, bytes_max: u64) -> Result<u64> {
    if !names::is_below_a_folder(path) {
        let shown: String = path.chars().take(100).collect();
        bail!("the path {shown:?} leads elsewhere, or is too long or too deep");
    }
    let target = at(into, path);
    if let Some(parent) = target.parent() {
        disk::create_private_dir_all(parent)?;
    }
    let mut file = disk::create_new_private(&target)
        .with_context(|| format!("{path:?} comes twice, or is a folder"))?;
    let copied = io::copy(&mut content.take(bytes_max.saturating_add(1)), &mut file);
    let written = copied.with_context(|| format!("{path:?} cannot be unpacked"))?;
    if written > bytes_max {
        bail!("{path:?} has more than the {bytes_max} bytes that it may have");
    }
    Ok(written)
}
