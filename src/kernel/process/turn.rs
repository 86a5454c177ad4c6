//! Turns: the processes of a machine share it by handing it on.
//!
//! A process owns the machine from the moment it resumes until it waits. So calls need no lock, and
//! nothing changes in the middle of one.

use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use crate::kernel::machine::Machine;

/// Holds the machine between two turns.
#[derive(Clone, Default)]
pub(in crate::kernel) struct Turnstile(Arc<Mutex<Option<Box<Machine>>>>);

impl Turnstile {
    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Box<Machine>>> {
        // Each access is a single step, so a panic leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the machine.
    pub fn take(&self) -> Box<Machine> {
        self.slot().take().expect("the last turn has ended")
    }

    /// Returns whether it has the machine.
    pub fn has_machine(&self) -> bool {
        self.slot().is_some()
    }

    /// Puts the machine back.
    pub fn put(&self, machine: Box<Machine>) {
        *self.slot() = Some(machine);
    }
}

/// A process's hold on its machine.
pub(in crate::kernel) struct Turn {
    machine: Option<Box<Machine>>,
    turnstile: Turnstile,
}

impl Turn {
    /// A turn that has begun.
    pub fn with(machine: Box<Machine>) -> Self {
        Self { machine: Some(machine), turnstile: Turnstile::default() }
    }

    /// A turn of the same machine that has not begun.
    pub fn later(&self) -> Self {
        Self { machine: None, turnstile: self.turnstile.clone() }
    }

    /// Where the machine is between turns.
    pub fn turnstile(&self) -> &Turnstile {
        &self.turnstile
    }

    /// Begins the turn, unless it has begun.
    pub fn begin(&mut self) {
        if self.machine.is_none() {
            self.machine = Some(self.turnstile.take());
        }
    }

    /// Ends the turn, if it has begun.
    pub fn end(&mut self) {
        if let Some(machine) = self.machine.take() {
            self.turnstile.put(machine);
        }
    }

    /// Lends the turn to `child`.
    pub fn lend(&mut self, child: &mut Self) {
        child.machine = self.machine.take();
    }

    /// Undoes [`Turn::lend`].
    pub fn take_back(&mut self, child: &mut Self) {
        self.machine = child.machine.take();
    }

    /// Returns the machine, after the last turn.
    pub fn into_machine(mut self) -> Machine {
        self.begin();
        *self.machine.expect("the turn has begun")
    }

    /// Lets the other processes run.
    pub fn pause(&mut self) -> Pause<'_> {
        Pause { turn: self, ended: false }
    }
}

impl Deref for Turn {
    type Target = Machine;

    #[inline]
    fn deref(&self) -> &Machine {
        self.machine.as_deref().expect("a process acts only in its turn")
    }
}

impl DerefMut for Turn {
    #[inline]
    fn deref_mut(&mut self) -> &mut Machine {
        self.machine.as_deref_mut().expect("a process acts only in its turn")
    }
}

/// Ends a turn; ready in the next one.
pub(in crate::kernel) struct Pause<'t> {
    turn: &'t mut Turn,
    ended: bool,
}

impl Future for Pause<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.ended {
            self.turn.begin();
            return Poll::Ready(());
        }
        self.ended = true;
        self.turn.end();
        Poll::Pending
    }
}
