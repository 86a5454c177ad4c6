//! The event loop of a process whose program is a component.
//!
//! The engine runs the tasks of the component until all of them wait. Then the process waits in the kernel, for whatever
//! happens first, as `poll_oneoff` does with several subscriptions; other processes have the turn meanwhile. Which task
//! runs next depends on nothing but what the tasks did, and on the answer of the kernel, in the order of the waits.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tokio::sync::oneshot;
use wasmtime::component::{Accessor, AccessorTask};
use wasmtime::{AsContextMut, Store};

use crate::abi::preview2::call::{Halt, call};
use crate::abi::preview2::poll::Condition;
use crate::abi::{Process, pause, trace};
use crate::kernel::guest::Guest;

/// No task can go on, and none waits for the kernel.
#[derive(thiserror::Error)]
#[error("its tasks wait for each other")]
struct Deadlock;

crate::base::readable::readable!(Deadlock);

/// What the first task does.
pub type Main<R> = Box<
    dyn for<'a> FnOnce(
            &'a Accessor<Process>,
        ) -> Pin<Box<dyn Future<Output = wasmtime::Result<R>> + Send + 'a>>
        + Send,
>;

/// The first task, which tells its result.
struct First<R> {
    main: Main<R>,
    ended: oneshot::Sender<wasmtime::Result<R>>,
}

impl<R: Send + 'static> AccessorTask<Process> for First<R> {
    async fn run(self, tasks: &Accessor<Process>) -> wasmtime::Result<()> {
        let result = (self.main)(tasks).await;
        // The loop that started it waits for that.
        let _ = self.ended.send(result);
        Ok(())
    }
}

/// Tells whether a task can go on.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Why the engine has stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopped {
    /// The first task has ended.
    AtEnd,
    /// A task lets others go on, and can go on itself.
    AtYield,
    /// No task can go on.
    Idle,
}

/// Runs `main` and all that it starts in `store`, until `main` has ended.
///
/// # Errors
/// Those of `main`; [`crate::kernel::machine::limits::Stop`], if it ends the process; a trap if all tasks wait for each other.
pub async fn run<R: Send + 'static>(
    store: &mut Store<Process>,
    main: Main<R>,
) -> wasmtime::Result<R> {
    let (ended, mut end) = oneshot::channel();
    store.spawn(First { main, ended })?;
    loop {
        match tasks_stop(store, &mut end).await? {
            (_, Some(result)) => return result,
            (Stopped::AtYield, None) => {
                act(store, "yield", Guest::begin_clock_call, Process::yield_turn).await?;
            }
            (Stopped::AtEnd | Stopped::Idle, None) => {
                if store.data().waits.conditions().is_empty() {
                    return Err(wasmtime::Error::new(Deadlock));
                }
                act(store, "wait", Guest::begin_call, |process| process.wake_tasks(true)).await?;
            }
        }
    }
}

/// Runs the tasks until they stop; returns the result of the first one, too, if it is known by `end`.
async fn tasks_stop<R: Send + 'static>(
    store: &mut Store<Process>,
    end: &mut oneshot::Receiver<wasmtime::Result<R>>,
) -> wasmtime::Result<(Stopped, Option<wasmtime::Result<R>>)> {
    let woken = Arc::new(Woken::default());
    let (waker, gave_up_turn) = (Waker::from(woken.clone()), store.data().guest.watch_turn());
    let (stop, stopped) = (AtomicBool::new(false), Cell::new(Stopped::AtEnd));
    let mut result = None;
    let run = store.run_concurrent(async |_| {
        poll_fn(|_| {
            result = end.try_recv().ok();
            if result.is_some() || stop.load(Ordering::Relaxed) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    });
    {
        let mut run = pin!(run);
        poll_fn(|_| {
            loop {
                woken.0.store(false, Ordering::Relaxed);
                match run.as_mut().poll(&mut Context::from_waker(&waker)) {
                    Poll::Ready(ran) => return Poll::Ready(ran),
                    // A call of WASI 0.2 waits, and with it the whole process.
                    Poll::Pending if gave_up_turn() => return Poll::Pending,
                    Poll::Pending => {
                        // The engine pauses, woken, before a task goes on that has yielded.
                        let is_yield = woken.0.load(Ordering::Relaxed);
                        stopped.set(if is_yield { Stopped::AtYield } else { Stopped::Idle });
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            }
        })
        .await?;
    }
    Ok((stopped.get(), result))
}

/// Does `act`, which may wait, as the call `name`, which begins by `begin`.
async fn act<T: 'static>(
    store: &mut Store<Process>,
    name: &'static str,
    begin: fn(&mut Guest, &'static str),
    mut act: impl FnMut(&mut Process) -> Result<T, Halt>,
) -> wasmtime::Result<()> {
    begin(&mut store.data_mut().guest, name);
    loop {
        match act(store.data_mut()) {
            Err(Halt::Wait) => pause(store).await?,
            acted => {
                let has_begun = |_: &mut Guest, _: &'static str| ();
                return call(store.as_context_mut(), name, has_begun, |_| acted).map(|_| ());
            }
        }
    }
}

impl Process {
    /// Lets other processes go on, and wakes the tasks whose conditions are met by now; returns how many there are. Whoever asks
    /// again and again lets time go on.
    fn yield_turn(&mut self) -> Result<u64, Halt> {
        self.guest.sched_yield()?;
        let woken = self.wake_tasks(false)?;
        if woken == 0 {
            self.let_time_go_on()?;
        }
        Ok(woken)
    }

    /// Wakes the tasks whose conditions are met; returns how many there are. Waits for one if it `waits`.
    fn wake_tasks(&mut self, waits: bool) -> Result<u64, Halt> {
        let conditions = self.waits.conditions();
        trace!(self.guest, "ntasks={}", conditions.len());
        let mut subscriptions = Vec::with_capacity(conditions.len() + 1);
        for (index, (_, condition)) in conditions.iter().enumerate() {
            subscriptions.push(condition.subscription(self, index)?);
        }
        if !waits {
            subscriptions.push(Condition::Met.subscription(self, conditions.len())?);
        }
        let events = self.guest.poll_oneoff(&subscriptions)?;
        // Each is the index of a wait, or the one after all.
        let met = events.iter().filter_map(|event| conditions.get(event.userdata as usize));
        Ok(met.map(|(id, _)| self.waits.end(*id)).count() as u64)
    }
}
