//! Compares a run with its tape.

use std::collections::VecDeque;

use super::desync::Desync;
use super::record::Record;
use super::recorder::{TapeError, TapeSink};

/// Records shown before a mismatch.
const CONTEXT: usize = 3;

/// A sink that compares records with those of an older tape.
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
        TapeError::Desync(Box::new(Desync {
            before,
            expected,
            found,
            withheld: None,
            lacks_memory: false,
        }))
    }
}

impl<I: Iterator<Item = Result<Record, TapeError>> + Send> TapeSink for Player<I> {
    fn push(&mut self, mut record: Record) -> Result<(), TapeError> {
        let expected = self.expected.next().transpose()?;
        // Older tapes do not tell whose turn it was.
        if expected.as_ref().is_some_and(|expected| expected.turn.is_none()) {
            record.turn = None;
        }
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
    fn equal_run_has_no_desync() {
        assert_eq!(replay(&[1, 2, 3], &[1, 2, 3]).unwrap(), 3);
    }

    #[test]
    fn first_mismatch_is_shown_with_records_before_it() {
        let found = desync(&[1, 2, 3, 4, 5, 6], &[1, 2, 3, 4, 9, 6]);
        assert_eq!(found.seq(), 4);
        assert_eq!(found.before.len(), CONTEXT);
        assert_eq!(found.differences(), [("duration_ns".into(), 5.into(), 9.into())]);
        let text = found.to_string();
        assert!(text.contains("record 4") && text.contains("duration_ns: tape 5, run 9"), "{text}");
    }

    #[test]
    fn early_or_late_end_is_a_desync() {
        assert_eq!(desync(&[1, 2], &[1]).found, None);
        assert_eq!(desync(&[1], &[1, 2]).expected, None);
    }
}
