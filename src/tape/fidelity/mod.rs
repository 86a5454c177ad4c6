//! Compares the tape of a replay with the recorded tape.
//!
//! Records are paired first, so that an early insertion does not make all later records differ.
//! Tapes are read twice and never held; per record, memory holds a number for its content, one for
//! its kind, and its times.

mod align;
mod contents;
mod fields;
mod outcome;
mod walk;

use std::fmt::{self, Write};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use self::contents::ContentDifference;
use self::contents::Contents;
pub use self::fields::FieldDifference;
use self::outcome::Outcome;
use super::file::{Tape, TapeReader};
use super::header::Header;
use super::record::Record;
use super::recorder::TapeError;
use super::store::TapeStore;

/// Limit of described divergences; more are only counted.
const DESCRIBED_MAX: usize = 1000;

/// Limit of divergences in the text.
const SHOWN_MAX: usize = 20;

/// What must be equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FidelityMode {
    /// All records with their stamps: `seq`, `phase`, `virtual_time_ms`, `monotonic_ms`.
    ByteIdentical,
    /// All records without their stamps.
    Semantic,
    /// The results: final contents of changed files, the end of the first process, the number of
    /// calls of language models.
    Outcome,
}

impl FidelityMode {
    /// All modes, the strictest first.
    pub const ALL: [Self; 3] = [Self::ByteIdentical, Self::Semantic, Self::Outcome];

    /// The name on the command line and in JSON.
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
            format!("unknown mode {text:?}; expected byte-identical, semantic or outcome")
        })
    }
}

/// A tape that can be read several times.
pub trait TapeSource {
    /// Its records from the first on.
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

    /// Where its contents are, if they can be read. Without it, contents are compared by their digests alone.
    fn store(&self) -> Option<TapeStore> {
        None
    }
}

/// Reads the tape at this path line by line.
impl TapeSource for Path {
    fn records(&self) -> Result<impl Iterator<Item = Result<Record, TapeError>>, TapeError> {
        TapeReader::open(self)
    }

    fn header(&self) -> Result<Option<Header>, TapeError> {
        Ok(Some(TapeReader::open(self)?.header().clone()))
    }

    fn store(&self) -> Option<TapeStore> {
        Some(TapeStore::of(self))
    }
}

impl TapeSource for Tape {
    fn records(&self) -> Result<impl Iterator<Item = Result<Record, TapeError>>, TapeError> {
        self.records.as_slice().records()
    }

    fn header(&self) -> Result<Option<Header>, TapeError> {
        Ok(Some(self.header.clone()))
    }

    fn store(&self) -> Option<TapeStore> {
        Some(Self::store(self).clone())
    }
}

impl TapeSource for [Record] {
    fn records(&self) -> Result<impl Iterator<Item = Result<Record, TapeError>>, TapeError> {
        Ok(self.iter().cloned().map(Ok))
    }
}

/// Two tapes cannot be compared.
#[derive(thiserror::Error)]
pub enum CompareError {
    /// A tape cannot be read.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// A tape had other records in the second reading.
    #[error("a tape changed during the comparison; compare again when it is complete")]
    Changed,
    /// A tape is too long.
    #[error("a tape exceeds the limit of {records_max} records for a comparison")]
    TooLong {
        /// The limit.
        records_max: u32,
    },
}

crate::base::readable::readable!(CompareError);

/// A difference between two tapes.
///
/// Text from the tapes is shortened to a few hundred characters, without control characters.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Divergence {
    /// The `seq` of the record on the recorded tape, or else on the replay's; 0 if no single record
    /// differs.
    pub seq: u64,
    /// What differs. For records the kind and `.changed`, `.missing` (not in the replay) or
    /// `.extra` (not in the recording), such as `file_read.changed`. For stamps `stamps.shifted`.
    /// For outcomes `files.changed`, `files.missing`, `files.extra`, `exit.changed`,
    /// `llm_calls.changed`.
    pub category: String,
    /// The category in words.
    pub message: String,
    /// The recorded record, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// The record of the replay, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<String>,
    /// The fields that differ, at most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldDifference>,
    /// What differs in the contents that the records name by digest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contents: Vec<ContentDifference>,
    /// The recorded records before it, as JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// The recorded records after it, as JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

/// How the records of two tapes stand to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Paired {
    /// Pairs of equal records. Their stamps may differ.
    Equal,
    /// Pairs that differ.
    Changed,
    /// Records of the recorded tape that the replay's tape lacks.
    Missing,
    /// Records of the replay's tape that the recorded one lacks.
    Extra,
}

/// A run of records, or of pairs of records, of both tapes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PairRun {
    /// How they stand to each other.
    pub paired: Paired,
    /// Number of records or pairs.
    pub records: u64,
}

/// The result of [`compare`]. As text, it shows the first 20 divergences.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FidelityReport {
    /// What was compared.
    pub mode: FidelityMode,
    /// Number of records of the recorded tape.
    pub recorded_records: u64,
    /// Number of records of the replay's tape.
    pub replay_records: u64,
    /// Number of divergences.
    pub divergence_count: u64,
    /// The first 1000 divergences.
    pub divergences: Vec<Divergence>,
    /// Differences of the headers: versions, start, script, command line. They are notes, and no
    /// divergences in any mode.
    #[serde(default)]
    pub header_differences: Vec<FieldDifference>,
    /// From 0 to 1: 1 minus the divergences per record of the longer tape. By outcome, 1 without
    /// divergences, else 0.
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

    /// Whether there are no divergences.
    pub fn is_faithful(&self) -> bool {
        self.divergence_count == 0
    }

    /// The report as text.
    pub fn render(&self) -> String {
        self.to_string()
    }

    /// Whether a further divergence is described.
    fn has_room(&self) -> bool {
        self.divergences.len() < DESCRIBED_MAX
    }

    /// Counts a divergence; returns the list to describe it in, unless that is full.
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
            // Without records there are no divergences.
            count => (1.0 - count as f64 / records.max(1) as f64).max(0.0),
        };
        self
    }
}

/// Compares the tape of a replay with the recorded tape.
///
/// Records are paired if they are equal apart from their stamps; then, between these pairs, if they
/// are of one kind. A pair that differs is one divergence, and so is a record without a partner. If
/// stamps are compared, they tell which of several equal records is missing.
///
/// Stamps are compared pair by pair, `seq` relative to the position on the tape. A run of pairs
/// with the same shift is one divergence, at the first of them: a longer sleep is one for the sleep
/// and one for everything later. A return to no shift is none.
///
/// By outcome: for each path the last `file_write` or `file_delete` and the `change` records (which
/// include renames); the last `process_exit` of the lowest `pid`; the number of `llm_call`.
///
/// Differences of headers are notes, and no divergences. An incomplete last line of a tape is
/// skipped.
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
    compare_paired(recorded, replay, mode).map(|(report, _)| report)
}

/// As [`compare`]; and the runs of pairs, from the first record of both tapes to the last. By outcome there are none.
///
/// # Errors
/// [`CompareError`].
pub fn compare_paired<A, B>(
    recorded: &A,
    replay: &B,
    mode: FidelityMode,
) -> Result<(FidelityReport, Vec<PairRun>), CompareError>
where
    A: TapeSource + ?Sized,
    B: TapeSource + ?Sized,
{
    let mut report = FidelityReport::new(mode);
    let mut runs = Vec::new();
    let mut contents = Contents::new(recorded.store(), replay.store());
    if let (Some(recorded), Some(replay)) = (recorded.header()?, replay.header()?) {
        report.header_differences = fields::header_differences(&recorded, &replay);
    }
    if mode == FidelityMode::Outcome {
        let (recorded, replay) = (Outcome::of(recorded)?, Outcome::of(replay)?);
        (report.recorded_records, report.replay_records) = (recorded.records, replay.records);
        recorded.compare(&replay, &mut contents, &mut |divergence| {
            if let Some(described) = report.count() {
                described.push(divergence);
            }
        });
    } else {
        runs = walk::compare(recorded, replay, &mut report, contents)?;
    }
    Ok((report.scored(), runs))
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
        for difference in &self.contents {
            difference.fmt(f)?;
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
