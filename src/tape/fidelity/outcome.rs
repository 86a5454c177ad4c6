//! The outcome of a recorded session.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::contents::{Contents, Named};
use super::fields::name;
use super::{CompareError, Divergence, TapeSource};
use crate::base::digest::Digest;
use crate::tape::record::Kind;

/// The final state of a path, and the `seq` of its last record.
#[derive(Default)]
struct FileState {
    seq: u64,
    /// The content written last; `None` if the path was deleted afterwards, or never written.
    content: Option<Named>,
    /// Whether a path that the session did not create was deleted.
    is_deleted: bool,
    /// The `change` records.
    changes: Vec<(String, Map<String, Value>)>,
}

impl FileState {
    fn is_untouched(&self) -> bool {
        self.content.is_none() && !self.is_deleted && self.changes.is_empty()
    }

    fn is_like(&self, other: &Self) -> bool {
        let state = |file: &Self| (file.digest(), file.is_deleted);
        state(self) == state(other) && self.changes == other.changes
    }

    /// The content that is left, if there is one.
    fn named(&self) -> Option<Named> {
        let mut changed =
            self.changes.iter().filter_map(|(_, detail)| Named::in_fields(detail, ""));
        changed.next_back().or_else(|| self.content.clone())
    }

    /// The digest of the content written last.
    fn digest(&self) -> Option<Digest> {
        match &self.content {
            Some(Named::Stored { digest, .. }) => Some(*digest),
            _ => None,
        }
    }

    fn text(&self) -> String {
        let changes = self.changes.iter().map(|(change, detail)| {
            let detail = (!detail.is_empty()).then(|| format!(" {}", Value::from(detail.clone())));
            format!("{change}{}", detail.unwrap_or_default())
        });
        let content = self.digest().map(|digest| format!("content {digest}"));
        let deleted = self.is_deleted.then(|| "deleted".to_owned());
        let parts: Vec<String> = content.into_iter().chain(deleted).chain(changes).collect();
        if parts.is_empty() { "untouched".to_owned() } else { name(&parts.join(", ")) }
    }
}

/// The end of the process with the lowest process ID.
struct Exit {
    seq: u64,
    pid: u32,
    status: String,
    code: Option<u32>,
}

impl Exit {
    fn text(&self) -> String {
        match self.code {
            Some(code) => format!("{} with code {code}", name(&self.status)),
            None => name(&self.status),
        }
    }
}

#[derive(Default)]
pub(super) struct Outcome {
    pub records: u64,
    files: BTreeMap<String, FileState>,
    exit: Option<Exit>,
    llm_calls: u64,
}

impl Outcome {
    pub fn of(source: &(impl TapeSource + ?Sized)) -> Result<Self, CompareError> {
        let mut outcome = Self::default();
        for record in source.records()? {
            let record = record?;
            outcome.records += 1;
            outcome.take(record.seq, record.kind);
        }
        outcome.files.retain(|_, file| {
            // It was created again.
            file.is_deleted &= file.content.is_none();
            !file.is_untouched()
        });
        Ok(outcome)
    }

    fn take(&mut self, seq: u64, kind: Kind) {
        match kind {
            Kind::FileWrite { path, content_hash: digest, len_bytes, withheld_by } => {
                self.file(path, seq).content =
                    Some(Named::Stored { digest, len_bytes, withheld_by });
            }
            Kind::FileDelete { path, .. } => {
                let file = self.file(path, seq);
                // A deleted file that the session created counts as never made.
                file.is_deleted |= file.content.take().is_none();
            }
            Kind::Change { path, change, detail } => {
                self.file(path, seq).changes.push((change, detail));
            }
            Kind::ProcessExit { pid, status, exit_code, .. }
                if self.exit.as_ref().is_none_or(|exit| pid <= exit.pid) =>
            {
                self.exit = Some(Exit { seq, pid, status, code: exit_code });
            }
            Kind::LlmCall { .. } => self.llm_calls += 1,
            _ => {}
        }
    }

    fn file(&mut self, path: String, seq: u64) -> &mut FileState {
        let file = self.files.entry(path).or_default();
        file.seq = seq;
        file
    }

    /// Reports differences between the replay's outcome and this one.
    pub fn compare(
        &self,
        replay: &Self,
        contents: &mut Contents,
        found: &mut impl FnMut(Divergence),
    ) {
        let mut differ = |seq, category: &str, message, contents| {
            let category = category.to_owned();
            found(Divergence { seq, category, message, contents, ..Divergence::default() });
        };
        let untouched = FileState::default();
        let paths: BTreeSet<&String> = self.files.keys().chain(replay.files.keys()).collect();
        for at in paths {
            let (a, b) = (self.files.get(at), replay.files.get(at));
            let seq = a.or(b).map_or(0, |file| file.seq);
            let category = match (a, b) {
                (Some(a), Some(b)) if a.is_like(b) => continue,
                (Some(_), Some(_)) => "files.changed",
                (_, None) => "files.missing",
                (None, _) => "files.extra",
            };
            let [a, b] = [a, b].map(|file| file.unwrap_or(&untouched));
            let differences = match (a.named(), b.named()) {
                (Some(a), Some(b)) => contents.between("content_hash", &a, &b),
                _ => None,
            };
            let message = format!("{}: recorded {}, replay {}", name(at), a.text(), b.text());
            differ(seq, category, message, differences.into_iter().collect());
        }
        let state =
            |exit: &Option<Exit>| exit.as_ref().map(|exit| (exit.status.clone(), exit.code));
        if state(&self.exit) != state(&replay.exit) {
            let seq = self.exit.as_ref().or(replay.exit.as_ref()).map_or(0, |exit| exit.seq);
            let [a, b] = [&self.exit, &replay.exit].map(|exit| {
                exit.as_ref().map_or_else(|| "no process ended".to_owned(), Exit::text)
            });
            differ(seq, "exit.changed", format!("recorded {a}, replay {b}"), Vec::new());
        }
        if self.llm_calls != replay.llm_calls {
            let message = format!("recorded {}, replay {}", self.llm_calls, replay.llm_calls);
            differ(0, "llm_calls.changed", message, Vec::new());
        }
    }
}
