//! Traces on their way to a server: in the background, and bounded.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::super::action::{Action, Place};
use super::super::trace::{Answer, Compared, Trace};
use super::REMOTE_TRACE_BYTES_MAX;
use super::keys::Named;
use super::run_list::RunList;
use super::tree::{Stored, Tree, packed};
use crate::base::digest::Digest;

/// Most bytes of traces that wait to be uploaded.
const WAITING_BYTES_MAX: u64 = 256 << 20;

/// How many traces are uploaded at the same time: each takes several requests, which wait for the way there and back.
const THREADS: usize = 8;

/// A trace that waits.
struct Waiting {
    module: Digest,
    /// Where the answers of its process led here.
    place: Place,
    trace: Trace,
    bytes: u64,
}

/// Queues of traces, and the threads that upload them.
pub(super) struct Uploads {
    tree: Arc<Tree>,
    /// Those of one action are uploaded one after the other, so that the second one finds the first.
    queues: Vec<Sender<Waiting>>,
    left: Arc<Left>,
}

#[derive(Default)]
struct Left {
    bytes: AtomicU64,
    traces: Mutex<Traces>,
    ended: Condvar,
}

#[derive(Default)]
struct Traces {
    left: u64,
    /// Nothing is waited for any more: those that were left are counted as lost.
    is_over: bool,
}

impl Uploads {
    pub(super) fn new(tree: &Arc<Tree>, list: Option<&Arc<RunList>>) -> Self {
        let left = Arc::<Left>::default();
        let queue = |_| {
            let (queue, traces) = channel();
            let (on, in_list, of) = (tree.clone(), list.cloned(), left.clone());
            // Without the thread nothing is uploaded, which `finish` tells.
            let _ = thread::Builder::new()
                .name("remote cache".to_owned())
                .spawn(move || upload_all(&on, in_list.as_deref(), &traces, &of));
            queue
        };
        let queues = (0..THREADS).map(queue).collect();
        Self { tree: tree.clone(), queues, left }
    }

    /// Uploads `trace`, of a process of the module with the digest `module` whose answers led to `place`, later.
    pub(super) fn add(&self, module: Digest, place: Place, trace: &Trace) {
        let bytes = trace.bytes();
        let before = self.left.bytes.fetch_add(bytes, Ordering::Relaxed);
        if bytes > REMOTE_TRACE_BYTES_MAX || before + bytes > WAITING_BYTES_MAX {
            self.left.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.tree.statistics().lost += 1;
            return;
        }
        self.left.lock().left += 1;
        let queue = usize::from(trace.action.as_bytes()[0]) % THREADS;
        let waiting = Waiting { module, place, trace: trace.clone(), bytes };
        if self.queues[queue].send(waiting).is_err() {
            self.left.done(bytes, |_| self.tree.statistics().lost += 1);
        }
    }

    /// Waits until all traces are uploaded, at most for `timeout`; returns how many are not.
    pub(super) fn finish(&self, timeout: Duration) -> u64 {
        let waits = |traces: &mut Traces| traces.left > 0;
        let waited = self.left.ended.wait_timeout_while(self.left.lock(), timeout, waits);
        let mut traces = waited.unwrap_or_else(PoisonError::into_inner).0;
        traces.is_over = true;
        traces.left
    }
}

impl Left {
    fn lock(&self) -> MutexGuard<'_, Traces> {
        // A count is complete at any time.
        self.traces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A trace of so many `bytes` is not left any more. `count` counts it, and gets whether it was counted as lost already.
    fn done(&self, bytes: u64, count: impl FnOnce(bool)) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        // Both at once: who finds out what is left must not count it twice.
        let mut traces = self.lock();
        count(traces.is_over);
        traces.left -= 1;
        drop(traces);
        self.ended.notify_all();
    }
}

/// What became of a trace.
enum Uploaded {
    /// It is stored.
    Stored(Named),
    /// It was known.
    Known(Named),
    /// It is of no use: what is known leads in a circle, or contradicts it.
    Useless,
}

fn upload_all(tree: &Tree, list: Option<&RunList>, traces: &Receiver<Waiting>, left: &Left) {
    while let Ok(Waiting { module, place, trace, bytes }) = traces.recv() {
        let uploaded = upload(tree, module, &trace);
        if let (Some(list), Some(Uploaded::Stored(named) | Uploaded::Known(named))) =
            (list, &uploaded)
        {
            list.note(module, place, Some(named.clone()));
        }
        left.done(bytes, |is_over| {
            if !is_over {
                let mut statistics = tree.statistics();
                statistics.uploaded += u64::from(matches!(uploaded, Some(Uploaded::Stored(_))));
                statistics.lost += u64::from(uploaded.is_none());
            }
        });
    }
}

/// Uploads `trace` to its place in the tree of the server, unless it is known there; `None` if that fails.
fn upload(tree: &Tree, module: Digest, trace: &Trace) -> Option<Uploaded> {
    let action = Action::of_digest(trace.action);
    let mut place = action.start();
    let mut leads_on = None;
    loop {
        let known = tree.traces(place);
        let mut leads = None;
        for Stored { named, trace: known } in known.iter() {
            match known.compare(trace) {
                Compared::Same => return Some(Uploaded::Known(named.clone())),
                // One of them is made up.
                Compared::Differs { .. } => return Some(Uploaded::Useless),
                Compared::Leaves { answers } => leads = longer(leads, answers),
            }
        }
        let Some(answers) = leads else { break };
        // What does not lead on would lead in a circle.
        if leads_on.is_some_and(|before| answers.len() <= before) {
            return Some(Uploaded::Useless);
        }
        leads_on = Some(answers.len());
        place = action.after(&answers);
    }
    put(tree, module, place, trace).map(Uploaded::Stored)
}

fn longer(one: Option<Vec<Answer>>, other: Vec<Answer>) -> Option<Vec<Answer>> {
    one.filter(|one| one.len() >= other.len()).or(Some(other))
}

fn put(tree: &Tree, module: Digest, place: Place, trace: &Trace) -> Option<Named> {
    let (bytes, len) = packed(trace)?;
    let named = tree.ask(|server| server.add(place, bytes))?;
    let stored = Stored { named: named.clone(), trace: Arc::new(trace.clone()) };
    tree.remember(place, Arc::from([stored]), len);
    tree.add_module(module)?;
    Some(named)
}
