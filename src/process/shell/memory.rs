//! What a shell remembers counts as memory, as that of a module does.

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
    /// What the shell takes its memory from.
    pub fn memory(&self) -> &Memory {
        &self.guest.machine().run.memory
    }

    /// What was to be held, or a message that there is no memory for it.
    pub async fn check_memory<T>(&mut self, held: Result<T, OutOfMemory>) -> Run<T> {
        match held {
            Ok(held) => Ok(held),
            Err(error) => self.fail(&error.to_string()).await,
        }
    }

    /// Takes `bytes` of memory, which are given back when the answer is dropped.
    pub async fn take_memory(&mut self, bytes: usize) -> Run<Charge> {
        let mut charge = self.memory().charge();
        let taken = charge.grow(bytes as u64).map(|()| charge);
        self.check_memory(taken).await
    }

    /// What the part of `field` at these positions matches.
    pub async fn pattern(&mut self, field: &Field, range: Range<usize>) -> Run<Held<Pattern>> {
        let charge = self.take_memory(range.len() * PART_BYTES).await?;
        let value = self.stepwise(|steps| field.pattern(range, steps))?;
        Ok(Held { value, charge })
    }

    /// What `work` answers, whose steps count as instructions.
    pub fn stepwise<T>(&mut self, work: impl FnOnce(&mut Steps<'_>) -> Result<T, Stop>) -> Run<T> {
        let mut spend = |steps| self.guest.spend(steps);
        work(&mut Steps::new(&mut spend)).map_err(Leave::Stop)
    }

    /// The commands of `source`, and the memory that they take.
    pub fn parse(&self, source: &[u8]) -> Result<(List, Charge), SyntaxError> {
        parser::parse(source, 1, self.memory().charge())
    }
}
