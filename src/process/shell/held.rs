//! Values with a memory charge.

use std::ops::{Deref, DerefMut};

use crate::kernel::machine::memory::{Charge, Memory, OutOfMemory};

/// Bytes charged for an element of a list, or a variable, besides its text.
pub const ENTRY_BYTES: u64 = 64;

/// A value with its memory charge.
#[derive(Debug)]
pub struct Held<T> {
    pub(super) value: T,
    pub(super) charge: Charge,
}

/// Expanded words.
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
    /// Creates an empty value.
    pub fn none(memory: &Memory) -> Self {
        Self { value: Vec::new(), charge: memory.charge() }
    }
}

impl Words {
    /// Copies `words`.
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

    /// Appends `others`.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn append(&mut self, others: Self) -> Result<(), OutOfMemory> {
        others.value.into_iter().try_for_each(|word| self.add(word))
    }
}

impl Held<Vec<u8>> {
    /// Appends `bytes`.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn extend(&mut self, bytes: &[u8]) -> Result<(), OutOfMemory> {
        self.charge.grow(bytes.len() as u64)?;
        self.value.extend_from_slice(bytes);
        Ok(())
    }
}
