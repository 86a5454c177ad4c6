//! What two related sandboxes have in memory, compared: the changes of the library are those of mounted directories.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar::Errno;
use belljar::kernel::vfs::{FileType, Follow};
use belljar::sandbox::{MountSource, Sandbox};

use crate::changes::{Change, Version};

/// Where toolchains have their files.
const TOOLCHAINS: &str = "/.belljar";

/// The changes that turn what `before` has in memory into what `after` has there, sorted by path.
///
/// # Errors
/// The path that cannot be read, and why.
pub fn changes(before: &mut Sandbox, after: &mut Sandbox) -> Result<Vec<Change>, (String, Errno)> {
    let is_host = |mount: &belljar::sandbox::SandboxMount| mount.source != MountSource::Memory;
    let mut skipped: Vec<String> = [&*before, &*after]
        .iter()
        .flat_map(|sandbox| sandbox.mounts().iter().filter(|mount| is_host(mount)))
        .map(|mount| mount.target.clone())
        .collect();
    skipped.push(TOOLCHAINS.to_owned());
    let (old, new) = (tree(before, &skipped)?, tree(after, &skipped)?);
    let mut changes = Vec::new();
    for (path, was) in &old {
        match new.get(path) {
            Some(is) if is == was => {
                let (old, new) = (version(before, path, *was)?, version(after, path, *is)?);
                if old != new {
                    changes.push(Change::in_memory(path, *is, "modified", [old, new]));
                }
            }
            _ => {
                let old = version(before, path, *was)?;
                changes.push(Change::in_memory(path, *was, "deleted", [old, Version::Missing]));
            }
        }
    }
    for (path, is) in &new {
        if old.get(path).is_none_or(|was| was != is) {
            let new = version(after, path, *is)?;
            changes.push(Change::in_memory(path, *is, "added", [Version::Missing, new]));
        }
    }
    changes.sort_by(|a, b| a.path().cmp(b.path()));
    Ok(changes)
}

/// All entries below the root, without what is beneath a path of `skipped`.
fn tree(
    sandbox: &mut Sandbox,
    skipped: &[String],
) -> Result<BTreeMap<String, FileType>, (String, Errno)> {
    let mut entries = BTreeMap::new();
    // A list, because recursion could overflow the stack.
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let shown = if folder.is_empty() { "/" } else { &folder };
        let listed = sandbox.list(shown).map_err(|_| (shown.to_owned(), Errno::Io))?;
        for entry in listed {
            let path = format!("{folder}/{}", entry.name);
            if skipped.contains(&path) {
                continue;
            }
            if entry.file_type == FileType::Directory {
                folders.push(path.clone());
            }
            entries.insert(path, entry.file_type);
        }
    }
    Ok(entries)
}

/// The content of a file, or the text of a link.
fn version(
    sandbox: &mut Sandbox,
    path: &str,
    file_type: FileType,
) -> Result<Version, (String, Errno)> {
    let files = sandbox.files();
    let (base, relative) = (files.host_base(), path.trim_start_matches('/'));
    let read = match file_type {
        FileType::RegularFile => files.read(path).and_then(|bytes| {
            let is_executable = files.is_executable_at(base, relative, Follow::No)?;
            Ok(Version::Loaded(Arc::from(bytes), is_executable))
        }),
        FileType::SymbolicLink => {
            files.read_link(base, relative).map(|text| Version::Link(text.as_bytes().into()))
        }
        _ => Ok(Version::Missing),
    };
    read.map_err(|errno| (path.to_owned(), errno))
}
