//! The event loop of a process whose program is a component.
//!
//! The engine runs the tasks of the component until all of them wait. Then the process waits in the kernel, for whatever
//! happens first, as `poll_oneoff` does with several subscriptions; other processes have the turn meanwhile. Which task
//! runs next depends on nothing but what the tasks did, and on the answer of the kernel, in the order of the waits.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use wasmtime::component::Accessor;
use wasmtime::{AsContextMut, Store, StoreContextMut};

use crate::abi::preview2::call::{Halt, call};
use crate::abi::{Process, begin_turn, end_turn, trace};
use crate::kernel::guest::{Fault, Guest};

/// No task can go on, and none waits for the kernel.
#[derive(thiserror::Error)]
#[error("its tasks wait for each other")]
struct Deadlock;

crate::base::readable::readable!(Deadlock);

/// What the loop and the engine tell each other.
#[derive(Default)]
struct Signal {
    /// A task can go on.
    is_woken: AtomicBool,
    /// No task can go on.
    is_idle: AtomicBool,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Relaxed);
    }
}

/// Runs `main` and all that it starts in `store`, until `main` has ended.
///
/// # Errors
/// Those of `main`; [`crate::kernel::machine::limits::Stop`], if it ends the process; a trap if all tasks wait for each other.
pub async fn run<R>(
    store: &mut Store<Process>,
    main: impl AsyncFnOnce(&Accessor<Process>) -> wasmtime::Result<R>,
) -> wasmtime::Result<R> {
    let signal = Arc::new(Signal::default());
    let waker = Waker::from(signal.clone());
    let gave_up_turn = store.data().guest.watch_turn();
    let heard = signal.clone();
    let run = store.run_concurrent(async |tasks| {
        let mut main = pin!(main(tasks));
        let mut waiting = Waiting::No;
        poll_fn(|cx| {
            if waiting == Waiting::ForTurn {
                tasks.with(|mut store| begin_turn(&mut store.as_context_mut()))?;
            } else if let Poll::Ready(ended) = main.as_mut().poll(cx) {
                return Poll::Ready(ended);
            }
            if waiting == Waiting::ForTurn || heard.is_idle.swap(false, Ordering::Relaxed) {
                waiting = tasks.with(|mut store| wait(store.as_context_mut(), waiting))?;
            }
            Poll::Pending
        })
        .await
    });
    let mut run = pin!(run);
    poll_fn(|_| {
        loop {
            signal.is_woken.store(false, Ordering::Relaxed);
            match run.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(ended) => return Poll::Ready(ended?),
                Poll::Pending if gave_up_turn() => return Poll::Pending,
                Poll::Pending if signal.is_woken.load(Ordering::Relaxed) => {}
                Poll::Pending => signal.is_idle.store(true, Ordering::Relaxed),
            }
        }
    })
    .await
}

/// How a process waits for its tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    No,
    /// It has given up its turn, and asks again in the next one.
    ForTurn,
}

/// Wakes the tasks whose conditions are met, or gives up the turn until one is.
fn wait(mut store: StoreContextMut<'_, Process>, waiting: Waiting) -> wasmtime::Result<Waiting> {
    let process = store.data_mut();
    let conditions = process.waits.conditions();
    if conditions.is_empty() {
        return Err(wasmtime::Error::new(Deadlock));
    }
    if waiting == Waiting::No {
        process.guest.begin_call("wait");
    }
    trace!(process.guest, "ntasks={}", conditions.len());
    let mut subscriptions = Vec::with_capacity(conditions.len());
    for (index, (_, condition)) in conditions.iter().enumerate() {
        match condition.subscription(process, index) {
            Ok(subscription) => subscriptions.push(subscription),
            Err(halt) => return call(store, "wait", |_, _| (), |_| Err(halt)),
        }
    }
    match process.guest.poll_oneoff(&subscriptions) {
        Ok(events) => {
            // Each is the index of a wait.
            for event in &events {
                process.waits.end(conditions[event.userdata as usize].0);
            }
            let count = events.len();
            call(store, "wait", no_beginning, |_| Ok(count as u64))?;
            Ok(Waiting::No)
        }
        Err(Fault::Wait) => {
            end_turn(&mut store)?;
            Ok(Waiting::ForTurn)
        }
        Err(fault) => call(store, "wait", no_beginning, |_| Err(Halt::from(fault))),
    }
}

/// The call has begun.
fn no_beginning(_: &mut Guest, _: &'static str) {}
