//! `belljar sandbox list`, `show`, `ls` and `diff`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use bytesize::ByteSize;
use serde_json::{Value, json};

use super::disk::{tell_all, with_drifts};
use super::{PROJECT_TOOLCHAINS, TOOLCHAIN, home, or_explain};
use crate::base::ambient;
use crate::base::digest::Digest;
use crate::cli::args::sandbox::{DiffArgs, ListArgs, LsArgs, ShowArgs};
use crate::cli::changes;
use crate::cli::exit::{Hinted, Usage};
use crate::cli::home::journals_dir;
use crate::cli::project::lock::Locked;
use crate::cli::report::Change;
use crate::cli::sink;
use crate::cli::text::printable;
use crate::kernel::vfs::{
    CompareError, DiffEntry, FileType, diff_overlays, render_reported_diff, reported_changes,
    reported_changes_since,
};
use crate::sandbox::{
    FilesystemAccess, HomeDetails, HomeEntry, HomeKind, Listed, MountSource, Sandbox, SandboxMount,
};
use crate::{ClockConfig, Mtimes};

pub fn list(args: &ListArgs) -> Result<u8> {
    let home = home()?;
    let entries = home.list()?;
    // A damaged one is listed as well.
    let known = |entry: &HomeEntry| home.details(&entry.id).ok();
    if args.json {
        let line = |entry: &HomeEntry| {
            let details = known(entry).map(|details| json_of(&details));
            details.unwrap_or_else(|| json!(entry))
        };
        say!("{}", json!(entries.iter().map(line).collect::<Vec<_>>()));
        return Ok(0);
    }
    let mut table = vec![["", "ID", "CHANGED", "SIZE", "FOLDER", "FROM"].map(str::to_owned)];
    for entry in &entries {
        table.push(if let Some(details) = known(entry) {
            [
                kind_name(details.kind).to_owned(),
                details.id.clone(),
                age(details.changed_ms),
                ByteSize(details.size_bytes).display().iec().to_string(),
                details.folder().map_or("-".into(), |path| printable(&path.to_string_lossy())),
                details.origin.map_or("-".into(), |origin| short(&origin).to_owned()),
            ]
        } else {
            let kind = format!("damaged {}", kind_name(entry.kind));
            [kind, entry.id.clone(), "-".into(), "-".into(), "-".into(), "-".into()]
        });
    }
    if !entries.is_empty() {
        print_table(&table);
    }
    Ok(0)
}

pub fn show(args: &ShowArgs) -> Result<u8> {
    let details = home()?.details(&args.id)?;
    let toolchains = toolchains_of(&details);
    if args.json {
        let mut line = json_of(&details);
        if let (Some(line), Value::Object(made_with)) = (line.as_object_mut(), made_with(&details))
        {
            line.extend(made_with);
            line.insert("toolchains".to_owned(), json!(toolchains));
            line.insert("project_toolchains".to_owned(), json!(project_toolchains(&details)));
        }
        say!("{line}");
        return Ok(0);
    }
    let mut table = vec![
        ["id".to_owned(), details.id.clone()],
        ["kind".to_owned(), kind_name(details.kind).to_owned()],
        ["state".to_owned(), details.state.to_string()],
        ["from".to_owned(), details.origin.clone().unwrap_or_else(|| "-".to_owned())],
        ["created".to_owned(), age(details.created_ms)],
        ["changed".to_owned(), age(details.changed_ms)],
        ["size".to_owned(), ByteSize(details.size_bytes).display().iec().to_string()],
    ];
    for SandboxMount { target, source, access } in &details.mounts {
        let source = match source {
            MountSource::Host(path) => printable(&path.to_string_lossy()),
            MountSource::Memory => "memory".to_owned(),
        };
        let access = if *access == FilesystemAccess::ReadOnly { ", read-only" } else { "" };
        table.push(["mount".to_owned(), format!("{target}: {source}{access}")]);
    }
    let clock = match details.now_ns {
        Some(now_ns) => format!("paused, at {}", date(now_ns)),
        None => "the host's".to_owned(),
    };
    let mtimes = match details.mtimes {
        Mtimes::Fixed(at_ns) => format!("fixed, at {}", date(at_ns)),
        mtimes => name_of(mtimes).to_owned(),
    };
    table.push(["clock".to_owned(), clock]);
    table.push(["seed".to_owned(), details.seed.to_string()]);
    table.push(["mtimes".to_owned(), mtimes]);
    let dirs = toolchains.iter().map(|dir| printable(&dir.to_string_lossy()));
    table.extend(dirs.map(|dir| ["toolchain".to_owned(), dir]));
    let versions = project_toolchains(&details).unwrap_or_default();
    let versions = versions.iter().map(|it| printable(&format!("{} {}", it.name, it.version)));
    table.extend(versions.map(|version| ["toolchain".to_owned(), version]));
    let variables = details.env.iter().map(|(name, value)| printable(&format!("{name}={value}")));
    table.extend(variables.map(|variable| ["env".to_owned(), variable]));
    print_table(&table);
    Ok(0)
}

/// The settings of a session other than its mounts and toolchains.
fn made_with(details: &HomeDetails) -> Value {
    let start_at = match details.clock {
        ClockConfig::Paused { start_ns } => Some(date(start_ns)),
        ClockConfig::Host => None,
    };
    json!({
        "clock": if start_at.is_some() { "paused" } else { "real" },
        "start_at": start_at,
        "now": details.now_ns.map(date),
        "seed": details.seed,
        "mtimes": name_of(details.mtimes),
        "env": details.env,
    })
}

/// The toolchain directories of a session, in the order in which they are searched.
fn toolchains_of(details: &HomeDetails) -> Vec<PathBuf> {
    let dirs = details.metadata.get(TOOLCHAIN).map(|dirs| serde_json::from_str(dirs));
    dirs.and_then(Result::ok).unwrap_or_default()
}

/// The toolchains of the project in which a session was made, if it names some.
fn project_toolchains(details: &HomeDetails) -> Option<Vec<Locked>> {
    serde_json::from_str(details.metadata.get(PROJECT_TOOLCHAINS)?).ok()
}

fn name_of(mtimes: Mtimes) -> &'static str {
    match mtimes {
        Mtimes::Host => "host",
        Mtimes::Content => "content",
        Mtimes::Fixed(_) => "fixed",
    }
}

/// An instant in nanoseconds since the Unix epoch, in RFC 3339.
fn date(ns: u64) -> String {
    jiff::Timestamp::from_nanosecond(ns.into()).unwrap_or_default().to_string()
}

fn json_of(details: &HomeDetails) -> Value {
    let mut line = json!(details);
    if let Some(fields) = line.as_object_mut() {
        fields.insert("folder".to_owned(), json!(details.folder()));
    }
    line
}

fn kind_name(kind: HomeKind) -> &'static str {
    match kind {
        HomeKind::Session => "session",
        HomeKind::Snapshot => "snapshot",
    }
}

/// The first twelve digits of a snapshot's id, which identify it; all of a session's id.
fn short(id: &str) -> &str {
    if Digest::from_hex(id).is_some() { &id[..12] } else { id }
}

/// How long ago a time in milliseconds since the Unix epoch was, in the largest unit.
fn age(then_ms: u64) -> String {
    let seconds = (ambient::wall_now_ns() / 1_000_000).saturating_sub(then_ms) / 1000;
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// Prints rows with aligned columns.
fn print_table<const N: usize>(rows: &[[String; N]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        say!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

pub fn ls(args: &LsArgs) -> Result<u8> {
    let mut sandbox = or_explain(home()?.resume(&args.id), &args.id)?;
    sandbox.files().hide_temporaries(&journals_dir()?);
    let path = sandbox.absolute(args.path.as_deref().unwrap_or_default());
    let entries = sandbox.list(&path);
    tell_all(&mut sandbox, &args.id);
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
    let mut sandbox = resumed(&args.id)?;
    let (entries, changes, mut shown) = match &args.other {
        None => {
            let entries = sandbox.diff().context("cannot determine what the session changed");
            let entries = entries.map_err(|error| with_drifts(error, &mut sandbox, &args.id))?;
            let changes = reported_changes(sandbox.files(), &entries);
            (entries, changes, sandbox)
        }
        Some(other) => {
            let mut after = resumed(other)?;
            let others = after.mounts().iter().any(|mount| !sandbox.mounts().contains(mount));
            if others || sandbox.mounts().len() != after.mounts().len() {
                let (one, other) = (&args.id, printable(other));
                return Err(Usage(format!(
                    "cannot compare {one} and {other}: they have different mounts (`belljar sandbox show` \
                     lists them)"
                ))
                .into());
            }
            let compared = compare(&mut sandbox, &mut after);
            let (entries, changes) = compared.map_err(|error| {
                let is_after = matches!(
                    error.downcast_ref(),
                    Some(CompareError::Unshown { is_after: true, .. })
                );
                let id = if is_after { other } else { &args.id };
                let hint = format!(
                    "run `belljar sandbox refresh {id}`, which takes in what is on the disk now, and compare \
                     again"
                );
                let is_unshown =
                    matches!(error.downcast_ref(), Some(CompareError::Unshown { .. }));
                if is_unshown { Hinted { error, hint }.into() } else { error }
            })?;
            tell_all(&mut sandbox, &args.id);
            (entries, changes, after)
        }
    };
    let id = args.other.as_ref().unwrap_or(&args.id);
    changes::warn_of_sensitive(&changes, args.json);
    if args.json {
        say!("{}", json!({ "changes": changes }));
    } else {
        let text = render_reported_diff(shown.files(), &entries).context("--diff");
        let text = text.map_err(|error| with_drifts(error, &mut shown, id))?;
        sink::print(text.as_bytes());
        changes::tell_left_out_of_diff(&entries);
    }
    tell_all(&mut shown, id);
    Ok(0)
}

/// The diff from `before` to `after`, and the changes.
fn compare(before: &mut Sandbox, after: &mut Sandbox) -> Result<(Vec<DiffEntry>, Vec<Change>)> {
    let times = before.files().changed_times();
    let entries = diff_overlays(before.files(), after.files())?;
    let changes = reported_changes_since(&times, after.files(), &entries);
    Ok((entries, changes))
}

/// A session or snapshot to read, with belljar's temporaries hidden.
fn resumed(id: &str) -> Result<Sandbox> {
    let mut sandbox = or_explain(home()?.resume(id), id)?;
    sandbox.files().hide_temporaries(&journals_dir()?);
    Ok(sandbox)
}
