//! Traces on their way to a server: in the background, and bounded.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::super::action::{Action, Place};
use super::super::trace::{Answer, Compared, Trace};
use super::{REMOTE_TRACE_BYTES_MAX, Tree};
use crate::base::digest::Digest;

/// Most bytes of traces that wait to be uploaded.
const WAITING_BYTES_MAX: u64 = 256 << 20;

/// A queue of traces, and the thread that uploads them.
pub(super) struct Uploads {
    tree: Arc<Tree>,
    queue: Sender<(Digest, Trace, u64)>,
    waiting: Arc<Waiting>,
}

#[derive(Default)]
struct Waiting {
    bytes: AtomicU64,
    traces: Mutex<u64>,
    ended: Condvar,
}

impl Uploads {
    pub(super) fn new(tree: Arc<Tree>) -> Self {
        let (queue, traces) = channel();
        let waiting = Arc::<Waiting>::default();
        let (on, of) = (tree.clone(), waiting.clone());
        // Without the thread nothing is uploaded, which `finish` tells.
        let _ = thread::Builder::new()
            .name("remote cache".to_owned())
            .spawn(move || upload_all(&on, &traces, &of));
        Self { tree, queue, waiting }
    }

    /// Uploads `trace`, of a process of the module with the digest `module`, later.
    pub(super) fn add(&self, module: Digest, trace: &Trace) {
        let bytes = trace.calls.iter().flat_map(|call| &call.inputs);
        let bytes = bytes.map(|span| span.bytes.0.len() as u64).sum::<u64>();
        let before = self.waiting.bytes.fetch_add(bytes, Ordering::Relaxed);
        if bytes > REMOTE_TRACE_BYTES_MAX || before + bytes > WAITING_BYTES_MAX {
            self.waiting.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.tree.statistics().lost += 1;
            return;
        }
        *self.waiting.lock() += 1;
        if self.queue.send((module, trace.clone(), bytes)).is_err() {
            self.waiting.done(bytes);
            self.tree.statistics().lost += 1;
        }
    }

    /// Waits until all traces are uploaded, at most for `timeout`; returns how many are not.
    pub(super) fn finish(&self, timeout: Duration) -> u64 {
        let waited =
            self.waiting.ended.wait_timeout_while(self.waiting.lock(), timeout, |left| *left > 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Waiting {
    fn lock(&self) -> std::sync::MutexGuard<'_, u64> {
        // A count is complete at any time.
        self.traces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        *self.lock() -= 1;
        self.ended.notify_all();
    }
}

fn upload_all(tree: &Tree, traces: &Receiver<(Digest, Trace, u64)>, waiting: &Waiting) {
    while let Ok((module, trace, bytes)) = traces.recv() {
        let uploaded = upload(tree, module, &trace);
        let mut statistics = tree.statistics();
        match uploaded {
            Some(true) => statistics.uploaded += 1,
            // Another one has uploaded it.
            Some(false) => {}
            None => statistics.lost += 1,
        }
        drop(statistics);
        waiting.done(bytes);
    }
}

/// Uploads `trace` to its place in the tree of the server, unless it is known there; `None` if that fails.
fn upload(tree: &Tree, module: Digest, trace: &Trace) -> Option<bool> {
    let action = Action::of_digest(trace.action);
    let mut place = action.start();
    let mut leads_on = None;
    loop {
        let known = tree.traces(place);
        let mut leads = None;
        for known in known.iter() {
            match known.compare(trace) {
                // It is known, or one of them is made up.
                Compared::Same | Compared::Differs { .. } => return Some(false),
                Compared::Leaves { answers } => leads = longer(leads, answers),
            }
        }
        let Some(answers) = leads else { break };
        // What does not lead on would lead in a circle.
        if leads_on.is_some_and(|before| answers.len() <= before) {
            return Some(false);
        }
        leads_on = Some(answers.len());
        place = action.after(&answers);
    }
    put(tree, module, place, trace)
}

fn longer(one: Option<Vec<Answer>>, other: Vec<Answer>) -> Option<Vec<Answer>> {
    one.filter(|one| one.len() >= other.len()).or(Some(other))
}

fn put(tree: &Tree, module: Digest, place: Place, trace: &Trace) -> Option<bool> {
    let bytes = trace.to_bytes();
    let len = bytes.len() as u64;
    if len > REMOTE_TRACE_BYTES_MAX {
        return None;
    }
    tree.ask(|server| server.add(place, bytes))?;
    tree.remember(place, Arc::from([trace.clone()]), len);
    if !tree.knows(module) {
        tree.ask(|server| server.add_module(module))?;
        tree.remembered().modules.insert(module, true);
    }
    Some(true)
}
