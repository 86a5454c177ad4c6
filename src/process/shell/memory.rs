//! Memory and instructions of a shell, charged like those of a module.

use std::ops::Range;

use super::context::{Leave, Run, Shell};
use super::fields::Field;
use super::held::Held;
use super::lexer::SyntaxError;
use super::pattern::{PART_BYTES, Pattern, Steps};
use super::{parser, tree::List};
use crate::kernel::machine::limits::Stop;
use crate::kernel::machine::memory::{Charge, Memory, OutOfMemory};

impl Shell {
    /// The memory counter.
    pub fn memory(&self) -> &Memory {
        &self.guest.machine().run.memory
    }

    /// Returns the value, or reports that no memory is left.
    pub async fn check_memory<T>(&mut self, held: Result<T, OutOfMemory>) -> Run<T> {
        match held {
            Ok(held) => Ok(held),
            Err(error) => self.fail(&error.to_string()).await,
        }
    }

    /// Charges `bytes` of memory until the result is dropped.
    pub async fn take_memory(&mut self, bytes: usize) -> Run<Charge> {
        let mut charge = self.memory().charge();
        let taken = charge.grow(bytes as u64).map(|()| charge);
        self.check_memory(taken).await
    }

    /// Returns the pattern in `range` of `field`.
    pub async fn pattern(&mut self, field: &Field, range: Range<usize>) -> Run<Held<Pattern>> {
        let charge = self.take_memory(range.len() * PART_BYTES).await?;
        let value = self.stepwise(|steps| field.pattern(range, steps))?;
        Ok(Held { value, charge })
    }

    /// Does `work`, whose steps count as instructions.
    pub fn stepwise<T>(&mut self, work: impl FnOnce(&mut Steps<'_>) -> Result<T, Stop>) -> Run<T> {
        let mut spend = |steps| self.guest.spend(steps);
        work(&mut Steps::new(&mut spend)).map_err(Leave::Stop)
    }

    /// Parses `source`; returns its memory charge, too.
    pub fn parse(&self, source: &[u8]) -> Result<(List, Charge), SyntaxError> {
        parser::parse(source, 1, self.memory().charge())
    }
}
