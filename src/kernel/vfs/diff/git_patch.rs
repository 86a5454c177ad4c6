//! Changes as a patch that `git apply` accepts and that gives the same tree.
//!
//! A file that is UTF-8 without NUL is text; others are a `GIT binary patch`. Git only looks for NUL in the first
//! 8000 bytes. The stricter rule keeps every patch valid UTF-8 without NUL, for terminals, editors, mail and
//! JSON; a file in another encoding is still patched exactly.

use std::collections::HashSet;
use std::fmt::{self, Write};

use sha1::{Digest, Sha1};

use super::file_version::FileVersion;
use super::git_binary;
use super::{DiffEntry, DiffError, DiffKind, failed};
use crate::base::digest::hex;
use crate::base::line_diff::Budget;
use crate::base::unified_diff::render_hunks;
use crate::kernel::vfs::overlay::node::MountId;
use crate::kernel::vfs::path::VPath;

/// Longer files are not compared line by line.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// `git apply` refuses patches of 1023 MiB and more; base 85 takes 5 bytes for 4.
const FILE_BYTES_MAX: u64 = 768 << 20;

/// Bytes of the files of one patch: `git apply` would refuse more, and removing a large tree must not exhaust
/// memory.
const PATCH_BYTES_MAX: u64 = 2 << 30;

const NO_OBJECT: &str = "0000000000000000000000000000000000000000";

/// Whether a patch can show `entry`.
///
/// Git has no directories, so empty ones are neither created nor removed; it has no sockets or pipes; and it refuses
/// paths into a `.git` directory, and a symbolic link named `.gitmodules`.
pub fn is_in_unified_diff(entry: &DiffEntry) -> bool {
    if entry.is_equal {
        return false;
    }
    let is_symlink = match entry.kind {
        DiffKind::DirAdded
        | DiffKind::DirDeleted
        | DiffKind::SpecialAdded { .. }
        | DiffKind::SpecialDeleted { .. } => return false,
        DiffKind::SymlinkAdded { .. }
        | DiffKind::SymlinkModified { .. }
        | DiffKind::SymlinkDeleted { .. } => true,
        DiffKind::Added { .. } | DiffKind::Modified { .. } | DiffKind::Deleted { .. } => false,
    };
    // Git also refuses what Windows would take for these names: `git~1` may be `.git`, dots and blanks at the
    // end are ignored, and a colon begins the name of a stream.
    let is_refused = |name: &str| {
        let name = name.split([':', '\\']).next().unwrap_or(name).trim_end_matches(['.', ' ']);
        let is = |other| name.eq_ignore_ascii_case(other);
        is(".git") || is("git~1") || (is_symlink && (is(".gitmodules") || is("gitmod~1")))
    };
    !entry.path.as_str().split('/').any(is_refused)
}

/// The `entries` that a patch of them all shows: those with [`is_in_unified_diff`], but for the removal of what was moved to
/// a path that is left out. It would be nowhere then.
pub fn shown_in_unified_diff<'a>(
    entries: impl IntoIterator<Item = &'a DiffEntry>,
) -> Vec<&'a DiffEntry> {
    fn origin(entry: &DiffEntry) -> Option<(MountId, &VPath)> {
        let elsewhere = entry.origin.as_ref().map(|(mount, path)| (*mount, path));
        elsewhere.or_else(|| Some((entry.mount, entry.renamed_from.as_ref()?)))
    }
    let (mut shown, left_out): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|entry| is_in_unified_diff(entry));
    let moved = left_out.into_iter().filter(|entry| !entry.is_equal);
    let mut lost: HashSet<_> = moved.filter_map(origin).collect();
    for kept in shown.iter().filter_map(|entry| origin(entry)) {
        lost.remove(&kept);
    }
    shown.retain(|entry| {
        let is_removal =
            matches!(entry.kind, DiffKind::Deleted { .. } | DiffKind::SymlinkDeleted { .. });
        !is_removal || !lost.contains(&(entry.mount, &entry.path))
    });
    shown
}

/// Returns the changes of one mount in git's patch format. Paths are relative to the mount's root, beneath
/// `prefix` if that is not the root. Only what [`shown_in_unified_diff`] has is in it. A text that takes too many
/// steps to compare with the old one is shown as replaced whole.
///
/// # Errors
/// [`DiffError`]: a content cannot be read, a file is too large for `git apply`, or all of them exceed 2 GiB.
pub fn render_unified_diff<'a>(
    entries: impl IntoIterator<Item = &'a DiffEntry>,
    prefix: &VPath,
) -> Result<String, DiffError> {
    let mut out = String::new();
    let entries = shown_in_unified_diff(entries);
    let mut total = 0;
    for DiffEntry { path, kind, .. } in &entries {
        total += content_bytes(kind);
        if total > PATCH_BYTES_MAX {
            return Err(DiffError::PatchTooLarge { path: path.clone(), max: PATCH_BYTES_MAX });
        }
    }
    let mut budget = Budget::default();
    for entry in entries {
        let path = &entry.path;
        let (before, after) = match &entry.kind {
            DiffKind::Added { content } => (None, Some(Side::file(content, path)?)),
            DiffKind::Modified { before, content } => {
                (Some(Side::file(before, path)?), Some(Side::file(content, path)?))
            }
            DiffKind::Deleted { before } => (Some(Side::file(before, path)?), None),
            DiffKind::SymlinkAdded { target } => (None, Some(Side::symlink(target))),
            DiffKind::SymlinkModified { before, target } => {
                (Some(Side::symlink(before)), Some(Side::symlink(target)))
            }
            DiffKind::SymlinkDeleted { before } => (Some(Side::symlink(before)), None),
            DiffKind::DirAdded
            | DiffKind::DirDeleted
            | DiffKind::SpecialAdded { .. }
            | DiffKind::SpecialDeleted { .. } => continue,
        };
        let path = match prefix.as_str() {
            "" => path.as_str().to_owned(),
            prefix => format!("{prefix}/{}", path.as_str()),
        };
        render(&mut out, &path, before.as_ref(), after.as_ref(), &mut budget);
    }
    Ok(out)
}

/// Bytes of the files on both sides of a change. A file past the limit counts just beyond it, so that it gets an
/// error of its own.
fn content_bytes(kind: &DiffKind) -> u64 {
    let len = |version: &FileVersion| version.len().min(FILE_BYTES_MAX + 1);
    match kind {
        DiffKind::Added { content } => len(content),
        DiffKind::Modified { before, content } => len(before) + len(content),
        DiffKind::Deleted { before } => len(before),
        _ => 0,
    }
}

/// A file or symbolic link as git sees it.
struct Side {
    mode: &'static str,
    bytes: Vec<u8>,
}

impl Side {
    fn file(version: &FileVersion, path: &VPath) -> Result<Self, DiffError> {
        if version.len() > FILE_BYTES_MAX {
            return Err(DiffError::TooLarge { path: path.clone(), len: version.len() });
        }
        let mode = if version.executable { "100755" } else { "100644" };
        Ok(Self { mode, bytes: version.read().map_err(failed("read", path))? })
    }

    fn symlink(target: &[u8]) -> Self {
        Self { mode: "120000", bytes: target.to_vec() }
    }

    /// Its name in git's object store.
    fn object(&self) -> String {
        let mut hash = Sha1::new();
        hash.update(format!("blob {}\0", self.bytes.len()));
        hash.update(&self.bytes);
        hex(&hash.finalize())
    }
}

fn render(
    out: &mut String,
    path: &str,
    before: Option<&Side>,
    after: Option<&Side>,
    budget: &mut Budget,
) {
    let (a, b) = (quoted("a/", path), quoted("b/", path));
    line(out, format_args!("diff --git {a} {b}"));
    let mut index_mode = String::new();
    match (before, after) {
        (Some(before), Some(after)) if before.mode != after.mode => {
            line(out, format_args!("old mode {}\nnew mode {}", before.mode, after.mode));
        }
        (Some(_), Some(after)) => index_mode = format!(" {}", after.mode),
        (None, Some(after)) => line(out, format_args!("new file mode {}", after.mode)),
        (Some(before), None) => line(out, format_args!("deleted file mode {}", before.mode)),
        (None, None) => {}
    }
    let object = |side: Option<&Side>| side.map_or_else(|| NO_OBJECT.to_owned(), Side::object);
    let (old, new) = (object(before), object(after));
    if old == new {
        return;
    }
    line(out, format_args!("index {old}..{new}{index_mode}"));
    let old_bytes = before.map_or(&[][..], |side| &side.bytes);
    let new_bytes = after.map_or(&[][..], |side| &side.bytes);
    if old_bytes.is_empty() && new_bytes.is_empty() {
        return;
    }
    let (Some(old_text), Some(new_text)) = (text(old_bytes), text(new_bytes)) else {
        git_binary::render(out, old_bytes, new_bytes);
        return;
    };
    // The tab ends a name that holds a blank.
    let end = if path.contains(' ') { "\t" } else { "" };
    let old_name = before.map_or_else(|| "/dev/null".to_owned(), |_| a + end);
    let new_name = after.map_or_else(|| "/dev/null".to_owned(), |_| b + end);
    line(out, format_args!("--- {old_name}\n+++ {new_name}"));
    render_hunks(out, old_text, new_text, budget);
}

fn text(bytes: &[u8]) -> Option<&str> {
    if bytes.len() > TEXT_BYTES_MAX || bytes.contains(&0) {
        return None;
    }
    std::str::from_utf8(bytes).ok()
}

fn line(out: &mut String, text: fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing to a String succeeds");
}

/// `side` and `path` as git writes a name: quoted in C style if it has quotes, backslashes or anything but printable
/// ASCII.
fn quoted(side: &str, path: &str) -> String {
    let is_plain = |b: u8| (b' '..0x7f).contains(&b) && b != b'"' && b != b'\\';
    let mut name = format!("{side}{path}");
    if name.bytes().all(is_plain) {
        return name;
    }
    let plain = std::mem::replace(&mut name, String::from('"'));
    for byte in plain.bytes() {
        match byte {
            b'"' => name.push_str("\\\""),
            b'\\' => name.push_str("\\\\"),
            0x07 => name.push_str("\\a"),
            0x08 => name.push_str("\\b"),
            b'\t' => name.push_str("\\t"),
            b'\n' => name.push_str("\\n"),
            0x0b => name.push_str("\\v"),
            0x0c => name.push_str("\\f"),
            b'\r' => name.push_str("\\r"),
            byte if is_plain(byte) => name.push(char::from(byte)),
            byte => write!(name, "\\{byte:03o}").expect("writing to a String succeeds"),
        }
    }
    name.push('"');
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_git_quotes_them() {
        let cases = [
            ("plain and spaced", "a/plain and spaced"),
            ("q\"b\\", "\"a/q\\\"b\\\\\""),
            ("\t\n\r\u{7}\u{8}\u{b}\u{c}", "\"a/\\t\\n\\r\\a\\b\\v\\f\""),
            ("\u{1}\u{7f}\u{e9}", "\"a/\\001\\177\\303\\251\""),
        ];
        for (path, expected) in cases {
            assert_eq!(quoted("a/", path), expected);
        }
    }
}
