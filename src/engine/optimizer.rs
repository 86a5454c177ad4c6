//! Optimizes modules while programs run their quick code.

use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};

use crate::base::priority;

/// Work that can wait.
type Job = Box<dyn FnOnce() + Send>;

/// Has a thread of the lowest priority do `job`, after those before it. Without a thread it is not done.
pub(super) fn later(job: Job) {
    if let Some(jobs) = jobs() {
        let _ = jobs.send(job);
    }
}

/// Takes jobs to the thread. It belongs to the process: however many engines that has, it has one set of processors.
fn jobs() -> Option<&'static Sender<Job>> {
    static JOBS: OnceLock<Option<Sender<Job>>> = OnceLock::new();
    let start = || {
        let (jobs, waiting) = mpsc::channel::<Job>();
        let work = move || {
            // Threads that compile get the priority of this one.
            priority::give_way();
            for job in waiting {
                job();
            }
        };
        let name = "belljar-optimizer".to_owned();
        std::thread::Builder::new().name(name).spawn(work).ok().map(|_| jobs)
    };
    JOBS.get_or_init(start).as_ref()
}
