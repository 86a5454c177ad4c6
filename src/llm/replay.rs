//! Answers from a fixture.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::fixture::{self, Entry, FixtureError};
use super::miss::{Difference, Miss, Nearest};
use super::provider::{LlmDelta, LlmError, LlmProvider, LlmRequest, LlmResponse, OnDelta};
use super::secrets;
use crate::base::digest::Digest;
use crate::tape::Redaction;

/// Limit of differences shown for a miss.
const DIFFERENCES_MAX: usize = 8;

/// Characters shown of a value.
const SHOWN_CHARS: usize = 60;

/// Answers calls from a fixture only.
///
/// A call gets the first unused answer to a request with its digest, whether it was streamed or
/// not.
pub struct Replay {
    path: PathBuf,
    /// Each with its line, and whether it is used.
    entries: Vec<(usize, Entry, bool)>,
    by_digest: HashMap<Digest, VecDeque<usize>>,
}

/// A recorded call that was not made again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unused {
    /// Its line in the fixture.
    pub line: usize,
    /// The model.
    pub model: String,
    /// The digest of the request.
    pub request_hash: Digest,
}

impl Replay {
    /// Answers from the fixture `path`.
    ///
    /// # Errors
    /// [`FixtureError`]: `Disk`, `TooLong`, `Line` or `Version`.
    pub fn open(path: &Path) -> Result<Self, FixtureError> {
        let mut by_digest: HashMap<_, VecDeque<_>> = HashMap::new();
        let mut entries = Vec::new();
        for (index, (line, entry)) in fixture::load(path)?.into_iter().enumerate() {
            by_digest.entry(entry.digest()).or_default().push_back(index);
            entries.push((line, entry, false));
        }
        Ok(Self { path: path.to_owned(), entries, by_digest })
    }

    /// Ends the replay; returns the unused calls.
    pub fn finish(self) -> Vec<Unused> {
        let unused = self.entries.iter().filter(|(_, _, used)| !used);
        unused
            .map(|(line, entry, _)| Unused {
                line: *line,
                model: entry.request["model"].as_str().unwrap_or_default().to_owned(),
                request_hash: entry.digest(),
            })
            .collect()
    }

    fn next(&mut self, request: &LlmRequest) -> Result<&Entry, LlmError> {
        let digest = request.digest();
        let index = self.by_digest.get_mut(&digest).and_then(VecDeque::pop_front);
        let Some(index) = index else {
            let nearest = self.nearest(request, digest);
            let fixture = self.path.clone();
            return Err(Box::new(Miss { fixture, request_hash: digest, nearest }).into());
        };
        let (_, entry, used) = &mut self.entries[index];
        *used = true;
        Ok(entry)
    }

    fn nearest(&self, request: &LlmRequest, digest: Digest) -> Option<Nearest> {
        if self.by_digest.contains_key(&digest) {
            let same = self.entries.iter().rev().find(|(_, entry, _)| entry.digest() == digest);
            return same.map(|(line, ..)| Nearest {
                line: *line,
                differing: 0,
                differences: Vec::new(),
            });
        }
        // Recorded requests have no secrets; the new one must not show its own.
        let mut asked = request.to_json();
        secrets::redact(&mut asked, &Redaction::default());
        let asked = fields(&asked);
        let differing = |entry: &Entry| differing(&fields(&entry.request), &asked);
        let (line, entry, count) = self
            .entries
            .iter()
            .map(|(line, entry, _)| (*line, entry, differing(entry).len()))
            .min_by_key(|(_, _, count)| *count)?;
        let recorded = fields(&entry.request);
        let differences = self::differing(&recorded, &asked)
            .into_iter()
            .take(DIFFERENCES_MAX)
            .map(|field| {
                let (recorded, asked) = shortened(recorded.get(&field), asked.get(&field));
                Difference { field, recorded, asked }
            })
            .collect();
        // If only secrets differ, no difference is left.
        Some(Nearest { line, differing: count.max(1), differences })
    }
}

/// All leaf values in `value`, as JSON, by JSON pointer.
fn fields(value: &Value) -> BTreeMap<String, String> {
    fn walk(at: String, value: &Value, found: &mut BTreeMap<String, String>) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                for (name, value) in map {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    walk(format!("{at}/{name}"), value, found);
                }
            }
            Value::Array(items) if !items.is_empty() => {
                for (index, value) in items.iter().enumerate() {
                    walk(format!("{at}/{index}"), value, found);
                }
            }
            leaf => {
                found.insert(at, leaf.to_string());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(String::new(), value, &mut found);
    found
}

/// The fields that differ.
fn differing(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> Vec<String> {
    let only_b = b.keys().filter(|field| !a.contains_key(*field));
    let mut names: Vec<String> =
        a.keys().filter(|field| a.get(*field) != b.get(*field)).chain(only_b).cloned().collect();
    names.sort_unstable();
    names
}

/// Both values shortened to the part that differs.
fn shortened(a: Option<&String>, b: Option<&String>) -> (Option<String>, Option<String>) {
    let same = match (a, b) {
        (Some(a), Some(b)) => a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count(),
        _ => 0,
    };
    let skip = if same > SHOWN_CHARS / 2 { same - SHOWN_CHARS / 4 } else { 0 };
    let cut = |text: &String| {
        let mut shown = String::from(if skip > 0 { "…" } else { "" });
        shown.extend(text.chars().skip(skip).take(SHOWN_CHARS));
        if text.chars().count() > skip + SHOWN_CHARS {
            shown.push('…');
        }
        shown
    };
    (a.map(cut), b.map(cut))
}

impl LlmProvider for Replay {
    fn stream(
        &mut self,
        request: &LlmRequest,
        on_delta: OnDelta<'_>,
    ) -> Result<LlmResponse, LlmError> {
        let entry = self.next(request)?;
        let response: Option<&[LlmDelta]> = entry.response.as_ref().map(std::slice::from_ref);
        let mut whole = LlmResponse::default();
        for delta in entry.deltas.as_deref().or(response).unwrap_or_default() {
            whole.append(delta);
            if on_delta(delta).is_break() {
                return Ok(whole);
            }
        }
        entry.error.clone().map_or(Ok(whole), |failure| Err(failure.into()))
    }
}
