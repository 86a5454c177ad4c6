//! Compares the pairs of records of two tapes.

use std::collections::VecDeque;

use imara_diff::Interner;

use super::align::{Alignment, Times, Tokens};
use super::contents::Contents;
use super::fields::{self, differences};
use super::{CompareError, Divergence, FidelityMode, FidelityReport, PairRun, Paired, TapeSource};
use crate::base::digest::Digest;
use crate::tape::record::{Kind, Phase, Record};
use crate::tape::recorder::TapeError;

/// Recorded records shown before a divergence.
const BEFORE: usize = 3;

/// Recorded records shown after a divergence.
const AFTER: usize = 2;

/// Indices are 32 bits, with room for a mark.
const RECORDS_MAX: u32 = u32::MAX >> 1;

/// Compares two tapes and fills in `report`.
pub(super) fn compare<A, B>(
    recorded: &A,
    replay: &B,
    report: &mut FidelityReport,
    contents: Contents,
) -> Result<Vec<PairRun>, CompareError>
where
    A: TapeSource + ?Sized,
    B: TapeSource + ?Sized,
{
    let mut interner = Interner::new(0);
    let a = tokens(recorded, report.mode, &mut interner)?;
    let b = tokens(replay, report.mode, &mut interner)?;
    drop(interner);
    (report.recorded_records, report.replay_records) = (a.keys.len() as u64, b.keys.len() as u64);
    let alignment = Alignment::new(&a, &b);

    let (mut recorded, mut replay) = (recorded.records()?, replay.records()?);
    let mut walk = Walk {
        report,
        contents,
        runs: Vec::new(),
        before: VecDeque::new(),
        run: Shift::default(),
        run_at: None,
        run_records: 0,
    };
    let (mut at_a, mut at_b) = (0, 0);
    while at_a < a.keys.len() || at_b < b.keys.len() {
        if alignment.is_missing(at_a) {
            walk.missing(next(&mut recorded)?);
            at_a += 1;
        } else if alignment.is_extra(at_b) {
            walk.extra(&next(&mut replay)?);
            at_b += 1;
        } else {
            walk.pair(next(&mut recorded)?, &next(&mut replay)?, (at_a as u64, at_b as u64));
            (at_a, at_b) = (at_a + 1, at_b + 1);
        }
    }
    walk.end_run();
    match (recorded.next().transpose()?, replay.next().transpose()?) {
        (None, None) => Ok(walk.runs),
        _ => Err(CompareError::Changed),
    }
}

/// The numbers and times needed for the alignment.
fn tokens<S: TapeSource + ?Sized>(
    source: &S,
    mode: FidelityMode,
    interner: &mut Interner<Digest>,
) -> Result<Tokens, CompareError> {
    let mut tokens = Tokens::default();
    for record in source.records()? {
        let Record { virtual_time_ms, monotonic_ms, kind, .. } = record?;
        if tokens.keys.len() as u64 >= u64::from(RECORDS_MAX) {
            return Err(CompareError::TooLong { records_max: RECORDS_MAX });
        }
        tokens.kinds.push(interner.intern(Digest::of(kind.name().as_bytes())));
        tokens.keys.push(interner.intern(key(kind)));
        if mode == FidelityMode::ByteIdentical {
            tokens.times.push(Times { virtual_time_ms, monotonic_ms });
        }
    }
    Ok(tokens)
}

/// The digest of a record without its stamps.
fn key(kind: Kind) -> Digest {
    let (seq, phase, turn) = (0, Phase::Run, None);
    let record = Record { seq, phase, virtual_time_ms: 0, monotonic_ms: 0, turn, kind };
    Digest::of(&serde_json::to_vec(&record).expect("records are JSON objects"))
}

fn next(
    records: &mut impl Iterator<Item = Result<Record, TapeError>>,
) -> Result<Record, CompareError> {
    Ok(records.next().ok_or(CompareError::Changed)??)
}

/// The difference of the stamps of a pair.
#[derive(Clone, PartialEq, Eq, Default)]
struct Shift {
    seq: i128,
    virtual_time_ms: i128,
    monotonic_ms: i128,
    phases: Option<(Phase, Phase)>,
    /// Tapes before version 1.13 do not tell whose turn it was.
    turns: Option<(u32, u32)>,
}

impl Shift {
    fn of(recorded: &Record, replay: &Record, at: (u64, u64)) -> Self {
        let off = |record: &Record, at: u64| i128::from(record.seq) - i128::from(at);
        Self {
            seq: off(replay, at.1) - off(recorded, at.0),
            virtual_time_ms: i128::from(replay.virtual_time_ms)
                - i128::from(recorded.virtual_time_ms),
            monotonic_ms: i128::from(replay.monotonic_ms) - i128::from(recorded.monotonic_ms),
            phases: (recorded.phase != replay.phase).then_some((recorded.phase, replay.phase)),
            turns: recorded.turn.zip(replay.turn).filter(|(recorded, replay)| recorded != replay),
        }
    }

    fn text(&self) -> String {
        let numbers = [
            ("virtual_time_ms", self.virtual_time_ms),
            ("monotonic_ms", self.monotonic_ms),
            ("seq, apart from insertions and omissions,", self.seq),
        ];
        let numbers = numbers.into_iter().filter(|(_, by)| *by != 0);
        let mut parts: Vec<String> =
            numbers.map(|(name, by)| format!("{name} by {by:+}")).collect();
        if let Some((recorded, replay)) = self.phases {
            parts.push(format!("phase from {recorded:?} to {replay:?}").to_lowercase());
        }
        if let Some((recorded, replay)) = self.turns {
            parts.push(format!("turn from process {recorded} to process {replay}"));
        }
        parts.join(", ")
    }
}

struct Walk<'a> {
    report: &'a mut FidelityReport,
    contents: Contents,
    runs: Vec<PairRun>,
    /// The last recorded records.
    before: VecDeque<Record>,
    /// The shift of the last pair.
    run: Shift,
    /// The index of the divergence of the current run of pairs with this shift.
    run_at: Option<usize>,
    /// Number of pairs in the run.
    run_records: u64,
}

impl Walk<'_> {
    fn note(&mut self, paired: Paired) {
        match self.runs.last_mut() {
            Some(run) if run.paired == paired => run.records += 1,
            _ => self.runs.push(PairRun { paired, records: 1 }),
        }
    }

    fn missing(&mut self, recorded: Record) {
        self.note(Paired::Missing);
        self.show_after(&recorded);
        self.describe("missing", Some(&recorded), None, |divergence, kind| {
            divergence.message = format!("the replay has no such {kind}");
        });
        self.remember(recorded);
    }

    fn extra(&mut self, replay: &Record) {
        self.note(Paired::Extra);
        self.describe("extra", None, Some(replay), |divergence, kind| {
            divergence.message = format!("the recorded tape has no such {kind}");
        });
    }

    fn pair(&mut self, recorded: Record, replay: &Record, at: (u64, u64)) {
        self.show_after(&recorded);
        let is_equal = recorded.kind == replay.kind;
        self.note(if is_equal { Paired::Equal } else { Paired::Changed });
        if !is_equal {
            let contents = if self.report.has_room() {
                self.contents.of_kinds(&recorded.kind, &replay.kind)
            } else {
                Vec::new()
            };
            self.describe("changed", Some(&recorded), Some(replay), |divergence, _| {
                let (fields, count) = differences(&recorded.kind, &replay.kind);
                let names: Vec<&str> = fields.iter().map(|found| found.field.as_str()).collect();
                let more = match count - fields.len() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                divergence.message = format!("differs in {}{more}", names.join(", "));
                divergence.fields = fields;
                divergence.contents = contents;
            });
        }
        if self.report.mode == FidelityMode::ByteIdentical {
            self.compare_stamps(&recorded, replay, Shift::of(&recorded, replay, at));
        }
        self.remember(recorded);
    }

    fn compare_stamps(&mut self, recorded: &Record, replay: &Record, shift: Shift) {
        if shift != self.run {
            self.end_run();
            self.run = shift;
            self.run_records = 0;
            if self.run != Shift::default() {
                let place = self.report.divergences.len();
                self.describe("shifted", Some(recorded), Some(replay), |divergence, _| {
                    "stamps.shifted".clone_into(&mut divergence.category);
                });
                self.run_at = (self.report.divergences.len() > place).then_some(place);
            }
        }
        self.run_records += 1;
    }

    /// Completes the divergence of the run that ends here.
    fn end_run(&mut self) {
        if let Some(place) = self.run_at.take() {
            let records = match self.run_records {
                1 => "in this record".to_owned(),
                count => format!("in this record and the next {} of both tapes", count - 1),
            };
            let divergence = &mut self.report.divergences[place];
            divergence.message = format!("{}, {records}", self.run.text());
        }
    }

    /// Counts a divergence; `fill` describes it, unless there are too many.
    fn describe(
        &mut self,
        how: &str,
        recorded: Option<&Record>,
        replay: Option<&Record>,
        fill: impl FnOnce(&mut Divergence, &str),
    ) {
        let Some(described) = self.report.count() else { return };
        let Some(record) = recorded.or(replay) else { return };
        let kind = fields::name(record.kind.name());
        let mut divergence = Divergence {
            seq: record.seq,
            category: format!("{kind}.{how}"),
            recorded: recorded.map(fields::line),
            replay: replay.map(fields::line),
            before: self.before.iter().map(fields::line).collect(),
            ..Divergence::default()
        };
        fill(&mut divergence, &kind);
        described.push(divergence);
    }

    /// Shows `record` after the divergences just before it.
    fn show_after(&mut self, record: &Record) {
        let recent = self.report.divergences.iter_mut().rev();
        for divergence in recent.take_while(|divergence| divergence.after.len() < AFTER) {
            divergence.after.push(fields::line(record));
        }
    }

    fn remember(&mut self, record: Record) {
        if self.before.len() == BEFORE {
            self.before.pop_front();
        }
        self.before.push_back(record);
    }
}
