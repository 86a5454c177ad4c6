//! What a shell remembers counts as memory, as that of a module does.

use std::ops::{Deref, DerefMut, Range};

use super::context::{Leave, Run, Shell};
use super::fields::Field;
use super::lexer::SyntaxError;
use super::pattern::{PART_BYTES, Pattern, Steps};
use super::{grammar, tree::List};
use crate::kernel::machine::limits::Stop;
use crate::kernel::machine::memory::{Charge, Memory, OutOfMemory};

/// What an element of a list, or a variable, takes besides its bytes.
pub const ENTRY_BYTES: u64 = 64;

/// A value, and the memory that it takes for as long as it is there.
#[derive(Debug)]
pub struct Held<T> {
    value: T,
    charge: Charge,
}

/// Words that have been expanded.
pub type Words = Held<Vec<Vec<u8>>>;

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Held<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Held<Vec<T>> {
    /// Nothing yet.
    pub fn none(memory: &Memory) -> Self {
        Self { value: Vec::new(), charge: memory.charge() }
    }
}

impl Words {
    /// Those of `words`.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn of(words: &[Vec<u8>], memory: &Memory) -> Result<Self, OutOfMemory> {
        let mut all = Self::none(memory);
        for word in words {
            all.add(word.clone())?;
        }
        Ok(all)
    }

    /// Adds `word`.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn add(&mut self, word: Vec<u8>) -> Result<(), OutOfMemory> {
        self.charge.grow(word.len() as u64 + ENTRY_BYTES)?;
        self.value.push(word);
        Ok(())
    }

    /// Adds those of `others`.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn append(&mut self, others: Self) -> Result<(), OutOfMemory> {
        others.value.into_iter().try_for_each(|word| self.add(word))
    }
}

impl Held<Vec<u8>> {
    /// Adds `bytes`.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn extend(&mut self, bytes: &[u8]) -> Result<(), OutOfMemory> {
        self.charge.grow(bytes.len() as u64)?;
        self.value.extend_from_slice(bytes);
        Ok(())
    }
}

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
        grammar::parse(source, 1, self.memory().charge())
    }
}
