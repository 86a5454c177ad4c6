//! How much a replay is like what was recorded.
//!
//! Records are first put in pairs, then compared: what was inserted early does not make everything
//! after it differ. Tapes are read twice and never held: what stays in memory for each record is a
//! number for what happened, one for its kind, and its times.

mod align;
mod fields;
mod outcome;
mod walk;

use std::fmt::{self, Write};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use self::fields::FieldDifference;
use self::outcome::Outcome;
use super::file::{Tape, TapeReader};
use super::header::Header;
use super::record::Record;
use super::recorder::TapeError;

/// Divergences that a report describes; beyond, they are counted.
const DESCRIBED_MAX: usize = 1000;

/// Divergences that are shown to people.
const SHOWN_MAX: usize = 20;

/// What must be the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FidelityMode {
    /// Every record, with its stamps: `seq`, `phase`, `virtual_time_ms`, `monotonic_ms`.
    ByteIdentical,
    /// Every record, without its stamps.
    Semantic,
    /// What is left at the end: which files were changed and to what, how the first process ended,
    /// how many language models were asked.
    Outcome,
}

impl FidelityMode {
    /// All of them, from the strictest.
    pub const ALL: [Self; 3] = [Self::ByteIdentical, Self::Semantic, Self::Outcome];

    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::ByteIdentical => "byte-identical",
            Self::Semantic => "semantic",
            Self::Outcome => "outcome",
        }
    }
}

impl fmt::Display for FidelityMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for FidelityMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|mode| mode.name() == text);
        known.ok_or_else(|| {
            format!("{text:?} is no mode: expected byte-identical, semantic or outcome")
        })
    }
}

/// A tape that can be read more than once.
pub trait TapeSource {
    /// Its records, from the first.
    ///
    /// # Errors
    /// [`TapeError`] if it cannot be opened.
    fn records(&self) -> Result<impl Iterator<Item = Result<Record, TapeError>>, TapeError>;

    /// Its header, if it has one.
    ///
    /// # Errors
    /// [`TapeError`] if it cannot be opened.
    fn header(&self) -> Result<Option<Header>, TapeError> {
        Ok(None)
    }
}

/// The tape at that path, a line at a time.
impl TapeSource for Path {
    fn records(&self) -> Result<impl Iterator<Item = Result<Record, TapeError>>, TapeError> {
        TapeReader::open(self)
    }

    fn header(&self) -> Result<Option<Header>, TapeError> {
        Ok(Some(TapeReader::open(self)?.header().clone()))
    }
}

impl TapeSource for Tape {
    fn records(&self) -> Result<impl Iterator<Item = Result<Record, TapeError>>, TapeError> {
        self.records.as_slice().records()
    }

    fn header(&self) -> Result<Option<Header>, TapeError> {
        Ok(Some(self.header.clone()))
    }
}

impl TapeSource for [Record] {
    fn records(&self) -> Result<impl Iterator<Item = Result<Record, TapeError>>, TapeError> {
        Ok(self.iter().cloned().map(Ok))
    }
}

/// Two tapes could not be compared.
#[derive(thiserror::Error)]
pub enum CompareError {
    /// One of them cannot be read.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// One of them had other records when it was read again.
    #[error(
        "a tape has changed while it was compared: compare again when it is no longer written to"
    )]
    Changed,
    /// One of them is too long.
    #[error("a tape has more than {records_max} records, which is as many as can be compared")]
    TooLong {
        /// How many records can be compared.
        records_max: u32,
    },
}

crate::base::readable::readable!(CompareError);

/// A place where two tapes differ.
///
/// All text from the tapes is cut to a few hundred characters and holds no control characters.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Divergence {
    /// The `seq` of the record on the recorded tape, or, if that has none, on the replay's; 0 for
    /// what no one record stands for.
    pub seq: u64,
    /// What differs and how. Of records: the kind, then `.changed`, `.missing` (the replay has
    /// none) or `.extra` (the recorded tape has none), such as `file_read.changed`. Of stamps:
    /// `stamps.shifted`. Of outcomes: `files.changed`, `files.missing`, `files.extra`,
    /// `exit.changed`, `llm_calls.changed`.
    pub category: String,
    /// The same in a sentence.
    pub message: String,
    /// The record on the recorded tape, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// The record on the replay's tape, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<String>,
    /// The fields that differ, at most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldDifference>,
    /// The records before it on the recorded tape, as JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// The records after it on the recorded tape, as JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

/// What [`compare`] found. As text it is for people, and shows the first 20 divergences.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FidelityReport {
    /// What had to be the same.
    pub mode: FidelityMode,
    /// How many records the recorded tape has.
    pub recorded_records: u64,
    /// How many records the replay's tape has.
    pub replay_records: u64,
    /// How many divergences there are.
    pub divergence_count: u64,
    /// The first 1000 of them.
    pub divergences: Vec<Divergence>,
    /// In what the headers differ: versions, start, script, command line. These are notes: they say
    /// who recorded a tape and when, not what happened, and are divergences in no mode.
    #[serde(default)]
    pub header_differences: Vec<FieldDifference>,
    /// From 0 to 1: 1 less the divergences for each record of the longer tape; by outcome, 1 if
    /// there is no divergence, else 0.
    pub score: f64,
}

impl FidelityReport {
    fn new(mode: FidelityMode) -> Self {
        Self {
            mode,
            recorded_records: 0,
            replay_records: 0,
            divergence_count: 0,
            divergences: Vec::new(),
            header_differences: Vec::new(),
            score: 1.0,
        }
    }

    /// Whether there is no divergence.
    pub fn is_faithful(&self) -> bool {
        self.divergence_count == 0
    }

    /// The text for people.
    pub fn render(&self) -> String {
        self.to_string()
    }

    /// Counts a divergence; answers where to describe it, if there is room.
    fn count(&mut self) -> Option<&mut Vec<Divergence>> {
        self.divergence_count += 1;
        (self.divergences.len() < DESCRIBED_MAX).then_some(&mut self.divergences)
    }

    #[expect(clippy::cast_precision_loss, reason = "a score has few digits")]
    fn scored(mut self) -> Self {
        let records = self.recorded_records.max(self.replay_records);
        self.score = match self.divergence_count {
            0 => 1.0,
            _ if self.mode == FidelityMode::Outcome => 0.0,
            // Without records there is nothing to diverge.
            count => (1.0 - count as f64 / records.max(1) as f64).max(0.0),
        };
        self
    }
}

/// Compares the tape of a replay with the one that was recorded.
///
/// Records are paired if they say the same, whatever their stamps; then, in the stretches between,
/// if they are of one kind. A pair that differs is one divergence, and so is a record that has no
/// partner. Which of several equal records is missing is told by the stamps, if they matter.
///
/// Stamps are compared pair by pair, `seq` relative to the place on the tape. As long as all pairs
/// are equally far apart, that is one divergence, which names the first of them: a sleep that takes
/// longer is one for the sleep, and one for all that comes later. What is back in step is none.
///
/// By outcome: for each path the last `file_write` or `file_delete` and the `change` records (which
/// also tell of renames); the last `process_exit` of the lowest `pid`; the number of `llm_call`.
///
/// In what headers differ is noted, and is no divergence. A tape whose last line is cut off ends
/// before it.
///
/// # Errors
/// [`CompareError`].
pub fn compare<A, B>(
    recorded: &A,
    replay: &B,
    mode: FidelityMode,
) -> Result<FidelityReport, CompareError>
where
    A: TapeSource + ?Sized,
    B: TapeSource + ?Sized,
{
    let mut report = FidelityReport::new(mode);
    if let (Some(recorded), Some(replay)) = (recorded.header()?, replay.header()?) {
        report.header_differences = fields::header_differences(&recorded, &replay);
    }
    if mode == FidelityMode::Outcome {
        let (recorded, replay) = (Outcome::of(recorded)?, Outcome::of(replay)?);
        (report.recorded_records, report.replay_records) = (recorded.records, replay.records);
        recorded.compare(&replay, &mut |divergence| {
            if let Some(described) = report.count() {
                described.push(divergence);
            }
        });
    } else {
        walk::compare(recorded, replay, &mut report)?;
    }
    Ok(report.scored())
}

impl fmt::Display for FidelityReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mode, recorded_records, replay_records, divergence_count, score, .. } = self;
        let plural = if *divergence_count == 1 { "" } else { "s" };
        writeln!(
            f,
            "{mode}: {divergence_count} divergence{plural}, score {score:.4} \
             ({recorded_records} records, replay {replay_records})"
        )?;
        for FieldDifference { field, recorded, replay } in &self.header_differences {
            writeln!(f, "  note: header {field}: recorded {recorded}, replay {replay}")?;
        }
        let shown = &self.divergences[..self.divergences.len().min(SHOWN_MAX)];
        for divergence in shown {
            f.write_char('\n')?;
            divergence.fmt(f)?;
        }
        match divergence_count.saturating_sub(shown.len() as u64) {
            0 => Ok(()),
            more => writeln!(f, "\nand {more} more"),
        }
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "record {}, {}: {}", self.seq, self.category, self.message)?;
        for FieldDifference { field, recorded, replay } in &self.fields {
            writeln!(f, "    {field}: recorded {recorded}, replay {replay}")?;
        }
        let lines = (self.before.iter().map(|line| (' ', line)))
            .chain(self.recorded.iter().map(|line| ('-', line)))
            .chain(self.replay.iter().map(|line| ('+', line)))
            .chain(self.after.iter().map(|line| (' ', line)));
        for (mark, line) in lines {
            writeln!(f, "  {mark} {line}")?;
        }
        Ok(())
    }
}
