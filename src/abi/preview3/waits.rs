//! What the tasks of a component wait for: one process has many, which wait for different things at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use wasmtime::component::Resource;

use crate::abi::Process;
use crate::abi::preview2::call::Halt;
use crate::abi::preview2::filesystem::DirectoryEntryStream;
use crate::abi::preview2::input::InputStream;
use crate::abi::preview2::output::OutputStream;
use crate::abi::preview2::poll::Condition;

/// The waits of the tasks of a process, in the order in which they began.
#[derive(Clone, Default)]
pub(in crate::abi) struct Waits(Arc<Mutex<List>>);

#[derive(Default)]
struct List {
    next: u64,
    waiting: BTreeMap<u64, (Condition, Waker)>,
    gone: Vec<Gone>,
}

/// A stream that nobody uses any more. Whoever drops it has no access to the process.
pub(super) enum Gone {
    Input(Resource<InputStream>),
    Output(Resource<OutputStream>),
    Listing(Resource<DirectoryEntryStream>),
}

impl Waits {
    /// A wait that has not begun.
    pub fn wait(&self) -> Wait {
        Wait { waits: self.clone(), id: None }
    }

    /// Closes `stream` with the next call.
    pub(super) fn leave(&self, stream: Gone) {
        self.list().gone.push(stream);
    }

    /// The conditions, by the numbers of the waits.
    pub(super) fn conditions(&self) -> Vec<(u64, Condition)> {
        self.list().waiting.iter().map(|(id, (condition, _))| (*id, *condition)).collect()
    }

    /// Ends the wait `id`: its condition is met.
    pub(super) fn end(&self, id: u64) {
        let ended = self.list().waiting.remove(&id);
        if let Some((_, waker)) = ended {
            waker.wake();
        }
    }

    fn list(&self) -> MutexGuard<'_, List> {
        // Each access is a single step, so a panic leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Process {
    /// Closes the streams that nobody uses any more.
    ///
    /// # Errors
    /// Those of closing a descriptor.
    pub(super) fn close_gone(&mut self) -> Result<(), Halt> {
        let gone = std::mem::take(&mut self.waits.list().gone);
        for stream in gone {
            match stream {
                Gone::Input(stream) => self.take(&stream).map(|_| ())?,
                Gone::Output(stream) => self.take(&stream).map(|_| ())?,
                Gone::Listing(stream) => self.take(&stream).map(|_| ())?,
            }
        }
        Ok(())
    }
}

/// The wait of one task.
pub(in crate::abi) struct Wait {
    waits: Waits,
    /// Its number, while it waits.
    id: Option<u64>,
}

impl Wait {
    /// Begins the wait for `condition`, or goes on with it: ready once the condition was met. The next call begins another
    /// wait.
    pub fn poll(&mut self, condition: Condition, cx: &mut Context<'_>) -> Poll<()> {
        let mut list = self.waits.list();
        let Some(id) = self.id else {
            let id = list.next;
            list.next += 1;
            list.waiting.insert(id, (condition, cx.waker().clone()));
            self.id = Some(id);
            return Poll::Pending;
        };
        if let Some((_, waker)) = list.waiting.get_mut(&id) {
            waker.clone_from(cx.waker());
            return Poll::Pending;
        }
        self.id = None;
        Poll::Ready(())
    }

    /// Gives up.
    pub fn give_up(&mut self) {
        if let Some(id) = self.id.take() {
            self.waits.list().waiting.remove(&id);
        }
    }

    /// The waits that it is one of.
    pub(super) fn waits(&self) -> &Waits {
        &self.waits
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.give_up();
    }
}
