//! Whose turn it is: the processes of a machine share it by handing it on.
//!
//! A process has its machine from the moment it is resumed until it waits. So calls need no lock,
//! and nothing of a machine can change between two lines of one.

use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use crate::kernel::machine::Machine;

/// Where a machine is between two turns.
#[derive(Clone, Default)]
pub(in crate::kernel) struct Turnstile(Arc<Mutex<Option<Box<Machine>>>>);

impl Turnstile {
    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Box<Machine>>> {
        // The slot is whole whatever happened to whoever held it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the machine out.
    pub fn take(&self) -> Box<Machine> {
        self.slot().take().expect("whoever had the machine has handed it on")
    }

    /// Whether the machine is in it.
    pub fn has_machine(&self) -> bool {
        self.slot().is_some()
    }

    /// Puts the machine in.
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
    /// One that has the machine.
    pub fn with(machine: Box<Machine>) -> Self {
        Self { machine: Some(machine), turnstile: Turnstile::default() }
    }

    /// One that comes later, of the same machine.
    pub fn later(&self) -> Self {
        Self { machine: None, turnstile: self.turnstile.clone() }
    }

    /// Where the machine is between turns.
    pub fn turnstile(&self) -> &Turnstile {
        &self.turnstile
    }

    /// Begins a turn, unless it has begun.
    pub fn begin(&mut self) {
        if self.machine.is_none() {
            self.machine = Some(self.turnstile.take());
        }
    }

    /// Ends the turn, if it goes on.
    pub fn end(&mut self) {
        if let Some(machine) = self.machine.take() {
            self.turnstile.put(machine);
        }
    }

    /// Lets `child` act in this turn.
    pub fn lend(&mut self, child: &mut Self) {
        child.machine = self.machine.take();
    }

    /// Ends what [`Turn::lend`] began.
    pub fn take_back(&mut self, child: &mut Self) {
        self.machine = child.machine.take();
    }

    /// The machine, which no other process has or will have.
    pub fn into_machine(mut self) -> Machine {
        self.begin();
        *self.machine.expect("the turn has begun")
    }

    /// Lets the others have their turns.
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

/// Ends a turn, and is there again with the next.
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
