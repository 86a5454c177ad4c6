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
const BYTES_MAX: u64 = 4 << 30;

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
        for (index, entry) in archive.entries()?.enumerate() {
            let mut entry = entry?;
            if index == ENTRIES_MAX {
                bail!("it has more than {ENTRIES_MAX} entries");
            }
            let kind = entry.header().entry_type();
            if kind.is_dir() || kind.is_pax_global_extensions() {
                continue;
            }
            let path = entry.path()?.into_owned();
            let name = path.to_str().context("a path is not UTF-8")?.to_owned();
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

/// Takes in an entry of an archive: its name, whether it is a regular file, and its content.
type Take<'a, T> = dyn FnMut(&mut T, &str, bool, &mut dyn Read) -> Result<()> + 'a;

/// Writes a new file at `path`, which is relative to the folder `into`; returns its length.
///
/// # Errors
/// The path leads elsewhere, or exists; the content has more than `bytes_max`.
pub fn write(into: &Path, path: &str, content: &mut dyn Read, bytes_max: u64) -> Result<u64> {
    if !names::is_below_a_folder(path) {
        bail!("the path {path:?} leads elsewhere");
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
