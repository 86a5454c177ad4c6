//! `belljar sandbox list`, `ls` and `diff`.

use anyhow::{Context, Result};
use belljar::WORKTREE;
use belljar::kernel::vfs::FileType;
use belljar::sandbox::{HomeKind, Listed, Sandbox};
use serde_json::json;

use super::args::{DiffArgs, ListArgs, LsArgs};
use super::disk::{tell_all, tell_met, with_drifts};
use super::home;
use crate::cli::changes::{self, render_diff};
use crate::cli::report::printable;
use crate::cli::setup::journals_dir;
use crate::cli::sink;

/// Where relative paths of a session begin.
pub fn start_dir(sandbox: &Sandbox) -> &'static str {
    let has_worktree = sandbox.mounts().iter().any(|mount| mount.target == WORKTREE);
    if has_worktree { WORKTREE } else { "/" }
}

/// The path `path` of a session, from its root.
pub fn absolute(sandbox: &Sandbox, path: &str) -> String {
    match start_dir(sandbox) {
        _ if path.starts_with('/') => path.to_owned(),
        start => format!("{}/{path}", start.trim_end_matches('/')),
    }
}

pub fn list(args: &ListArgs) -> Result<u8> {
    let entries = home()?.list()?;
    if args.json {
        say!("{}", json!(entries));
        return Ok(0);
    }
    for entry in entries {
        let kind = match (entry.kind, entry.state) {
            (HomeKind::Snapshot, _) => "snapshot",
            (HomeKind::Session, Some(_)) => "session",
            (HomeKind::Session, None) => "damaged session",
        };
        say!("{kind}  {}", entry.id);
    }
    Ok(0)
}

pub fn ls(args: &LsArgs) -> Result<u8> {
    let mut sandbox = home()?.resume(&args.id)?;
    sandbox.files().hide_temporaries(&journals_dir()?);
    let path = absolute(&sandbox, args.path.as_deref().unwrap_or_default());
    let entries = sandbox.list(&path);
    tell_met(&mut sandbox, &args.id);
    let entries = entries?;
    if args.json {
        let line = |entry: &Listed| json!({ "name": entry.name, "type": type_name(entry.file_type), "size": entry.size });
        say!("{}", json!(entries.iter().map(line).collect::<Vec<_>>()));
        return Ok(0);
    }
    for entry in entries {
        let mark = match entry.file_type {
            FileType::Directory => "/",
            FileType::SymbolicLink => "@",
            _ => "",
        };
        say!("{}{mark}", printable(&entry.name));
    }
    Ok(0)
}

fn type_name(file_type: FileType) -> &'static str {
    match file_type {
        FileType::RegularFile => "file",
        FileType::Directory => "directory",
        FileType::SymbolicLink => "symlink",
        _ => "special",
    }
}

pub fn diff(args: &DiffArgs) -> Result<u8> {
    let mut sandbox = home()?.resume(&args.id)?;
    sandbox.files().hide_temporaries(&journals_dir()?);
    let entries = sandbox.diff().context("cannot tell what the session changed");
    let entries = entries.map_err(|error| with_drifts(error, &mut sandbox, &args.id))?;
    let vfs = sandbox.files();
    let changes = changes::changes_of(vfs, &entries);
    changes::warn_of_sensitive(&changes, args.json);
    if args.json {
        say!("{}", json!({ "changes": changes }));
    } else {
        let text = render_diff(vfs, &entries);
        let text = text.map_err(|error| with_drifts(error, &mut sandbox, &args.id))?;
        sink::print(text.as_bytes());
    }
    tell_all(&mut sandbox, &args.id);
    Ok(0)
}
