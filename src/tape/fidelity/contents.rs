//! What differs between the contents that two records name.

use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::base::digest::Digest;
use crate::tape::content_diff::{ContentDiff, ContentDiffs};
use crate::tape::record::Kind;
use crate::tape::store::TapeStore;

/// Bytes of a content that is compared.
const CONTENT_BYTES_MAX: u64 = 8 << 20;

/// Bytes of all contents that are read for a report.
const READ_BYTES_MAX: u64 = 512 << 20;

/// Lines of a difference in a report, and bytes.
const LINES_MAX: usize = 400;
const TEXT_BYTES_MAX: usize = 32 << 10;

/// Bytes of all differences in a report.
const ALL_TEXT_BYTES_MAX: usize = 2 << 20;

/// Lines of a difference that the text of a report shows.
const SHOWN_LINES_MAX: usize = 40;

/// The difference of two contents that a field names by digest.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ContentDifference {
    /// The field: `content_hash`, `before_content_hash`, or one that has a payload, such as `bytes`.
    pub field: String,
    /// What differs; cut to 400 lines.
    #[serde(flatten)]
    pub diff: ContentDiff,
}

impl fmt::Display for ContentDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.diff.text.lines();
        for line in lines.clone().take(SHOWN_LINES_MAX) {
            f.write_str("    | ")?;
            // Text of a tape must not steer a terminal.
            for c in line.chars() {
                if c.is_control() && c != '\t' {
                    write!(f, "{}", c.escape_default())?;
                } else {
                    f.write_char(c)?;
                }
            }
            f.write_char('\n')?;
        }
        match lines.count().saturating_sub(SHOWN_LINES_MAX) {
            0 => Ok(()),
            more => writeln!(f, "    | … {more} more lines"),
        }
    }
}

/// A content as a tape names it.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Named {
    Inline(String),
    Stored { digest: Digest, len_bytes: u64, withheld_by: Option<String> },
}

impl Named {
    /// The content that `fields` name, in the fields that begin with `which`.
    pub fn in_fields(fields: &Map<String, Value>, which: &str) -> Option<Self> {
        let field = |name: &str| fields.get(&format!("{which}{name}"));
        Some(Self::Stored {
            digest: Digest::from_hex(field("content_hash")?.as_str()?)?,
            len_bytes: field("len_bytes")?.as_u64()?,
            withheld_by: field("withheld_by").and_then(Value::as_str).map(str::to_owned),
        })
    }

    /// The bytes of a payload.
    fn in_payload(value: &Value) -> Option<Self> {
        let fields = value.as_object()?;
        match fields.get("text") {
            Some(Value::String(text)) if fields.len() == 1 => Some(Self::Inline(text.clone())),
            _ => Self::in_fields(fields, ""),
        }
    }
}

/// Compares the contents of two tapes, as many as a report has room and time for.
pub(super) struct Contents {
    stores: [Option<TapeStore>; 2],
    diffs: ContentDiffs,
    bytes_left: u64,
    text_left: usize,
}

impl Contents {
    /// Contents in these stores.
    pub fn new(recorded: Option<TapeStore>, replay: Option<TapeStore>) -> Self {
        Self {
            stores: [recorded, replay],
            diffs: ContentDiffs::default(),
            bytes_left: READ_BYTES_MAX,
            text_left: ALL_TEXT_BYTES_MAX,
        }
    }

    /// What differs between the contents that two records of one kind name.
    pub fn of_kinds(&mut self, recorded: &Kind, replay: &Kind) -> Vec<ContentDifference> {
        let is_file = |kind: &Kind| {
            matches!(kind, Kind::FileRead { .. } | Kind::FileWrite { .. } | Kind::Change { .. })
        };
        let (a, b) = (recorded.fields(), replay.fields());
        let mut found = Vec::new();
        for which in ["before_", ""].into_iter().filter(|_| is_file(recorded) && is_file(replay)) {
            if let (Some(a), Some(b)) = (Named::in_fields(&a, which), Named::in_fields(&b, which)) {
                found.extend(self.between(&format!("{which}content_hash"), &a, &b));
            }
        }
        for (field, value) in &a {
            let both = (Named::in_payload(value), b.get(field).and_then(Named::in_payload));
            let (Some(a), Some(b)) = both else { continue };
            let is_short = |named: &Named| matches!(named, Named::Inline(text) if !text.trim_end().contains('\n'));
            // The fields show short texts whole.
            if !is_short(&a) || !is_short(&b) {
                found.extend(self.between(field, &a, &b));
            }
        }
        found
    }

    /// What differs between two contents; `None` if nothing does, or there is no store.
    pub fn between(&mut self, field: &str, a: &Named, b: &Named) -> Option<ContentDifference> {
        if a == b || self.text_left == 0 {
            return None;
        }
        let [recorded, replay] = self.stores.clone();
        let diff = match (self.read(a, &recorded?), self.read(b, &replay?)) {
            (Ok(a), Ok(b)) => cut(self.diffs.between(&a, &b), self.text_left),
            (Err(why), _) => message("recorded", &why),
            (_, Err(why)) => message("replayed", &why),
        };
        self.text_left = self.text_left.saturating_sub(diff.text.len());
        (!diff.text.is_empty()).then(|| ContentDifference { field: field.to_owned(), diff })
    }

    fn read(&mut self, named: &Named, store: &TapeStore) -> Result<Vec<u8>, String> {
        let (digest, len_bytes) = match named {
            Named::Inline(text) => return Ok(text.clone().into_bytes()),
            Named::Stored { withheld_by: Some(rule), .. } => {
                return Err(format!("is withheld by the rule {rule}"));
            }
            Named::Stored { digest, len_bytes, .. } => (*digest, *len_bytes),
        };
        if len_bytes > CONTENT_BYTES_MAX {
            return Err(format!("is longer than {CONTENT_BYTES_MAX} bytes"));
        }
        self.bytes_left = self
            .bytes_left
            .checked_sub(len_bytes)
            .ok_or_else(|| format!("is left out: {READ_BYTES_MAX} bytes were compared before"))?;
        store.get(digest, len_bytes).map_err(|error| format!("cannot be read: {error}"))
    }
}

fn message(which: &str, why: &str) -> ContentDiff {
    ContentDiff { is_text: false, text: format!("not compared: the {which} content {why}") }
}

fn cut(mut diff: ContentDiff, text_left: usize) -> ContentDiff {
    let after_lines = diff.text.match_indices('\n').nth(LINES_MAX - 1).map(|(at, _)| at + 1);
    let bytes_max = TEXT_BYTES_MAX.min(text_left).min(after_lines.unwrap_or(usize::MAX));
    if diff.text.len() > bytes_max {
        let more = diff.text.len() - diff.text.floor_char_boundary(bytes_max);
        diff.text.truncate(diff.text.len() - more);
        writeln!(diff.text, "\\ {more} more bytes of the difference are left out")
            .expect("writing to a String succeeds");
    }
    diff
}
