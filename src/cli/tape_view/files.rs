//! The files of a tape for a page: paths, contents, and changes as diffs.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::{Map, Value};

use super::shorten;
use crate::base::digest::Digest;
use crate::tape::{ContentDiff, ContentDiffs, Kind, TapeStore};

/// Paths that a page lists.
const PATHS_MAX: usize = 200_000;

/// Bytes of all paths.
const PATHS_BYTES_MAX: usize = 16 << 20;

/// Bytes of a path. Longer ones are cut.
const PATH_BYTES_MAX: usize = 4096;

/// Changes that a page lists, and bytes of their fields.
const CHANGES_MAX: usize = 20_000;
const CHANGES_BYTES_MAX: usize = 16 << 20;

/// Bytes of the name of a rule.
const RULE_BYTES_MAX: usize = 200;

/// Bytes of the text of one diff, and of all.
const DIFF_BYTES_MAX: usize = 256 << 10;
const DIFFS_BYTES_MAX: usize = 4 << 20;

/// Bytes of the beginning of one content that are shown, and of all.
const CONTENT_BYTES_MAX: usize = 8 << 10;
const CONTENTS_BYTES_MAX: usize = 8 << 20;

/// Contents whose beginning is shown.
const CONTENTS_MAX: usize = 20_000;

/// Bytes of a content that is read, and of all.
const READ_BYTES_MAX: u64 = 8 << 20;
const ALL_READ_BYTES_MAX: u64 = 256 << 20;

/// Bytes of a content that is not text that are shown.
const HEX_BYTES_MAX: usize = 256;

/// The beginning of a content.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Beginning {
    /// Of text.
    Text(String),
    /// Of other bytes, as hex digits.
    Hex(String),
    /// Why it is not shown.
    Missing(String),
}

/// A content.
#[derive(Serialize)]
struct Content {
    len_bytes: u64,
    #[serde(flatten)]
    beginning: Beginning,
}

/// A path that differs from its state before the run.
#[derive(Serialize)]
struct Change {
    /// The record.
    at: usize,
    path: String,
    #[serde(rename = "change")]
    how: String,
    #[serde(flatten)]
    detail: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<ContentDiff>,
    /// Why there is no diff, or not all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// A content that a record names.
#[derive(Clone)]
struct Named {
    digest: Digest,
    len_bytes: u64,
    withheld_by: Option<String>,
}

/// The files of a tape.
#[derive(Default)]
pub struct Files {
    paths: Vec<String>,
    places: HashMap<String, usize>,
    paths_bytes: usize,
    changes: Vec<(usize, String, String, Map<String, Value>)>,
    changes_bytes: usize,
    changes_left_out: u64,
    /// In the order in which they are shown if there are too many: of changes, of writes, of reads.
    named: [Vec<Named>; 3],
}

/// The files, as the page has them.
#[derive(Serialize)]
pub struct Shown {
    paths: Vec<String>,
    paths_are_cut: bool,
    changes: Vec<Change>,
    changes_left_out: u64,
    contents: BTreeMap<String, Content>,
}

impl Files {
    /// Takes note of record number `at`; returns the place of its path, if it has one.
    pub fn note(&mut self, at: usize, kind: &Kind) -> Option<usize> {
        match kind {
            Kind::FileStat { path, .. }
            | Kind::DirList { path, .. }
            | Kind::LinkRead { path, .. }
            | Kind::FileError { path, .. }
            | Kind::FileDelete { path, .. }
            | Kind::FileRename { to: path, .. } => self.place_of(path),
            Kind::FileRead { path, content_hash, len_bytes, withheld_by } => {
                self.name(2, *content_hash, *len_bytes, withheld_by.as_deref());
                self.place_of(path)
            }
            Kind::FileWrite { path, content_hash, len_bytes, withheld_by } => {
                self.name(1, *content_hash, *len_bytes, withheld_by.as_deref());
                self.place_of(path)
            }
            Kind::Change { path, change, detail } => {
                self.note_change(at, path, change, detail);
                self.place_of(path)
            }
            _ => None,
        }
    }

    fn note_change(&mut self, at: usize, path: &str, change: &str, detail: &Map<String, Value>) {
        if self.changes.len() >= CHANGES_MAX || self.changes_bytes >= CHANGES_BYTES_MAX {
            self.changes_left_out += 1;
            return;
        }
        for named in ["before_", ""].into_iter().filter_map(|which| named_in(detail, which)) {
            self.name(0, named.digest, named.len_bytes, named.withheld_by.as_deref());
        }
        let path = shorten::text(path, PATH_BYTES_MAX);
        let change = shorten::text(change, shorten::TEXT_BYTES_MAX);
        let detail = shorten::fields(detail.clone());
        self.changes_bytes += path.len() + change.len() + shorten::len_bytes(&detail);
        self.changes.push((at, path, change, detail));
    }

    fn name(&mut self, class: usize, digest: Digest, len_bytes: u64, withheld_by: Option<&str>) {
        if self.named[class].len() < CONTENTS_MAX {
            let withheld_by = withheld_by.map(|rule| shorten::text(rule, RULE_BYTES_MAX));
            self.named[class].push(Named { digest, len_bytes, withheld_by });
        }
    }

    fn place_of(&mut self, path: &str) -> Option<usize> {
        let path = shorten::text(path, PATH_BYTES_MAX);
        if let Some(place) = self.places.get(&path) {
            return Some(*place);
        }
        if self.paths.len() >= PATHS_MAX || self.paths_bytes + path.len() > PATHS_BYTES_MAX {
            return None;
        }
        self.paths_bytes += path.len();
        self.paths.push(path.clone());
        self.places.insert(path, self.paths.len() - 1);
        Some(self.paths.len() - 1)
    }

    /// The files with their contents, which are in `store`.
    pub fn show(self, store: &TapeStore) -> Shown {
        let mut reader = Reader { store, left: ALL_READ_BYTES_MAX, kept: None };
        let mut diffs = Diffs { all: ContentDiffs::default(), left: DIFFS_BYTES_MAX };
        let mut changes = Vec::new();
        for (at, path, how, detail) in self.changes {
            let (diff, note) = diffs.of(&detail, &mut reader);
            changes.push(Change { at, path, how, detail, diff, note });
        }
        let mut contents = BTreeMap::new();
        let mut left = CONTENTS_BYTES_MAX;
        for named in self.named.into_iter().flatten() {
            let name = named.digest.to_string();
            if contents.len() >= CONTENTS_MAX || contents.contains_key(&name) {
                continue;
            }
            let beginning = beginning_of(&named, &mut reader, &mut left);
            contents.insert(name, Content { len_bytes: named.len_bytes, beginning });
        }
        let paths_are_cut =
            self.paths.len() >= PATHS_MAX || self.paths_bytes + PATH_BYTES_MAX > PATHS_BYTES_MAX;
        let changes_left_out = self.changes_left_out;
        Shown { paths: self.paths, paths_are_cut, changes, changes_left_out, contents }
    }
}

/// The content that the fields of a change name, now or before.
fn named_in(detail: &Map<String, Value>, which: &str) -> Option<Named> {
    let field = |name: &str| detail.get(&format!("{which}{name}"));
    Some(Named {
        digest: Digest::from_hex(field("content_hash")?.as_str()?)?,
        len_bytes: field("len_bytes")?.as_u64()?,
        withheld_by: field("withheld_by").and_then(Value::as_str).map(str::to_owned),
    })
}

fn beginning_of(named: &Named, reader: &mut Reader<'_>, left: &mut usize) -> Beginning {
    if *left < CONTENT_BYTES_MAX {
        return Beginning::Missing("the page shows no more contents".to_owned());
    }
    let bytes = match reader.read(named) {
        Ok(bytes) => bytes,
        Err(why) => return Beginning::Missing(why),
    };
    let beginning = &bytes[..bytes.len().min(CONTENT_BYTES_MAX)];
    let text = match std::str::from_utf8(beginning) {
        Ok(text) => Some(text),
        // The last character may be cut in two.
        Err(error) if error.error_len().is_none() && beginning.len() < bytes.len() => {
            std::str::from_utf8(&beginning[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    };
    if let Some(text) = text.filter(|text| !text.contains('\0')) {
        *left -= text.len();
        return Beginning::Text(text.to_owned());
    }
    let shown = beginning.iter().take(HEX_BYTES_MAX);
    let hex = shown.map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    *left -= hex.len();
    Beginning::Hex(hex)
}

/// Reads contents, as many as a page may take time for.
struct Reader<'a> {
    store: &'a TapeStore,
    left: u64,
    /// The content that was read last: changes and writes name the same ones.
    kept: Option<(Digest, Vec<u8>)>,
}

impl Reader<'_> {
    /// The content, or why it cannot be shown.
    fn read(&mut self, named: &Named) -> Result<Vec<u8>, String> {
        if let Some(rule) = &named.withheld_by {
            return Err(format!("not on the tape: the rule {rule} found a secret in it"));
        }
        if let Some((digest, bytes)) = &self.kept
            && *digest == named.digest
        {
            return Ok(bytes.clone());
        }
        if named.len_bytes > READ_BYTES_MAX {
            return Err(format!("longer than {READ_BYTES_MAX} bytes"));
        }
        self.left = match self.left.checked_sub(named.len_bytes) {
            Some(left) => left,
            None => return Err("the page shows no more contents".to_owned()),
        };
        let bytes = self.store.get(named.digest, named.len_bytes);
        let bytes = bytes.map_err(|error| shorten::text(&error.to_string(), 500))?;
        self.kept = Some((named.digest, bytes.clone()));
        Ok(bytes)
    }
}

/// Diffs of changes.
struct Diffs {
    all: ContentDiffs,
    /// Bytes left for further diffs.
    left: usize,
}

impl Diffs {
    fn of(
        &mut self,
        detail: &Map<String, Value>,
        reader: &mut Reader<'_>,
    ) -> (Option<ContentDiff>, Option<String>) {
        let (before, after) = (named_in(detail, "before_"), named_in(detail, ""));
        let is_same = match (&before, &after) {
            (None, None) => true,
            (Some(before), Some(after)) => before.digest == after.digest,
            _ => false,
        };
        if is_same {
            return (None, None);
        }
        if self.left == 0 {
            return (None, Some("the page shows no more diffs".to_owned()));
        }
        let mut read = |named: Option<Named>| named.map_or(Ok(Vec::new()), |it| reader.read(&it));
        let (before, after) = match (read(before), read(after)) {
            (Ok(before), Ok(after)) => (before, after),
            (Err(why), _) | (_, Err(why)) => return (None, Some(why)),
        };
        let mut diff = self.all.between(&before, &after);
        let whole = diff.text.len();
        let kept = diff.text.floor_char_boundary(DIFF_BYTES_MAX.min(self.left));
        self.left -= kept;
        diff.text.truncate(kept);
        let note = (kept < whole).then(|| format!("{} more bytes are left out", whole - kept));
        (Some(diff), note)
    }
}
