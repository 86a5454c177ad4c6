//! Compares what happens with what a tape says.

use std::collections::VecDeque;
use std::fmt;

use serde_json::Value;

use super::record::Record;
use super::recorder::{TapeError, TapeSink};

/// Records before a mismatch that it is shown with.
const CONTEXT: usize = 3;

/// A record that had lost a secret before it came on a tape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Withheld {
    /// Its place on the tape.
    pub seq: u64,
    /// Its kind.
    pub kind: String,
}

/// A run did something else than its tape says.
#[derive(Clone, PartialEq, Debug)]
pub struct Desync {
    /// The records that came before, which were the same.
    pub before: Vec<Record>,
    /// What the tape says; `None` at its end.
    pub expected: Option<Record>,
    /// What happened; `None` if the run ended.
    pub found: Option<Record>,
    /// The last thing that the program was told, up to here, and that had lost a secret: the run
    /// cannot have had it, and may differ for that alone.
    pub withheld: Option<Withheld>,
}

impl Desync {
    /// The place on the tape.
    pub fn seq(&self) -> u64 {
        let records = [&self.expected, &self.found];
        records.into_iter().flatten().map(|record| record.seq).next().unwrap_or_default()
    }

    /// The fields in which the two differ: name, what the tape says, what was found.
    pub fn differences(&self) -> Vec<(String, Value, Value)> {
        let as_map = |record: &Option<Record>| match record.as_ref().map(serde_json::to_value) {
            Some(Ok(Value::Object(map))) => map,
            _ => serde_json::Map::new(),
        };
        let (expected, found) = (as_map(&self.expected), as_map(&self.found));
        let mut names: Vec<&String> = expected.keys().chain(found.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let value = |map: &serde_json::Map<String, Value>, name: &String| {
            map.get(name).cloned().unwrap_or(Value::Null)
        };
        names
            .into_iter()
            .map(|name| (name.clone(), value(&expected, name), value(&found, name)))
            .filter(|(_, expected, found)| expected != found)
            .collect()
    }
}

impl fmt::Display for Desync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = |record: &Option<Record>, none: &'static str| match record {
            Some(record) => record.kind.name().to_owned(),
            None => none.to_owned(),
        };
        if let Some(Withheld { seq, kind }) = &self.withheld {
            write!(
                f,
                "the tape has no secrets: that of record {seq} ({kind}) was withheld, and a run \
                 that depends on it cannot be repeated; "
            )?;
        }
        write!(
            f,
            "the run leaves its tape at record {}: the tape has {}, the run has {}",
            self.seq(),
            kind(&self.expected, "no more records"),
            kind(&self.found, "ended"),
        )?;
        if let (Some(_), Some(_)) = (&self.expected, &self.found) {
            for (name, expected, found) in self.differences() {
                write!(f, "\n  {name}: tape {expected}, run {found}")?;
            }
        }
        for record in &self.before {
            let line = serde_json::to_string(record).map_err(|_| fmt::Error)?;
            write!(f, "\n  before it: {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Desync {}

/// A sink that writes nothing: it takes records from an older tape and compares.
pub struct Player<I> {
    expected: I,
    before: VecDeque<Record>,
}

impl<I: Iterator<Item = Result<Record, TapeError>> + Send> Player<I> {
    /// Compares with `expected`.
    pub fn new(expected: I) -> Self {
        Self { expected, before: VecDeque::with_capacity(CONTEXT) }
    }

    fn desync(&mut self, expected: Option<Record>, found: Option<Record>) -> TapeError {
        let before = self.before.drain(..).collect();
        TapeError::Desync(Box::new(Desync { before, expected, found, withheld: None }))
    }
}

impl<I: Iterator<Item = Result<Record, TapeError>> + Send> TapeSink for Player<I> {
    fn push(&mut self, record: Record) -> Result<(), TapeError> {
        let expected = self.expected.next().transpose()?;
        if expected.as_ref() != Some(&record) {
            return Err(self.desync(expected, Some(record)));
        }
        if self.before.len() == CONTEXT {
            self.before.pop_front();
        }
        self.before.push_back(record);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), TapeError> {
        match self.expected.next().transpose()? {
            None => Ok(()),
            expected => Err(self.desync(expected, None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tape::{Kind, MemoryTape, Recorder, Redaction};

    fn record(sink: impl TapeSink + 'static, sleeps: &[u64]) -> Result<u64, TapeError> {
        let recorder = Recorder::new(sink, Redaction::default());
        for duration_ns in sleeps {
            recorder.push(Kind::ClockSleep { duration_ns: *duration_ns });
        }
        recorder.finish()
    }

    fn replay(tape: &[u64], run: &[u64]) -> Result<u64, TapeError> {
        let memory = MemoryTape::default();
        record(memory.clone(), tape).unwrap();
        record(Player::new(memory.records().into_iter().map(Ok)), run)
    }

    fn desync(tape: &[u64], run: &[u64]) -> Desync {
        match replay(tape, run) {
            Err(TapeError::Desync(desync)) => *desync,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_same_run_is_in_step() {
        assert_eq!(replay(&[1, 2, 3], &[1, 2, 3]).unwrap(), 3);
    }

    #[test]
    fn the_first_mismatch_is_named_with_its_neighbours() {
        let found = desync(&[1, 2, 3, 4, 5, 6], &[1, 2, 3, 4, 9, 6]);
        assert_eq!(found.seq(), 4);
        assert_eq!(found.before.len(), CONTEXT);
        assert_eq!(found.differences(), [("duration_ns".into(), 5.into(), 9.into())]);
        let text = found.to_string();
        assert!(text.contains("record 4") && text.contains("duration_ns: tape 5, run 9"), "{text}");
    }

    #[test]
    fn a_run_that_ends_early_or_late_is_noticed() {
        assert_eq!(desync(&[1, 2], &[1]).found, None);
        assert_eq!(desync(&[1], &[1, 2]).expected, None);
    }
}
