//! Makes the calls of earlier processes again.

use std::sync::Arc;

use wasmtime::Caller;

use super::difference::difference;
use super::{Process, find_memory};
use crate::results::{Answer, Function, Known, Secrets, Trace, TraceBuilder};

/// Numbers that the function `next` returns: the import to call, and its arguments.
pub const ARGS_MAX: usize = 9;

/// The import module of [`next`], which only players have.
pub const MODULE: &str = "belljar:player";

/// The name of [`next`].
pub const NEXT: &str = "next";

/// Most bytes of answers that are kept to be given again.
const KEPT_BYTES_MAX: u64 = 256 << 20;

type Source = Box<dyn Fn(&[Answer]) -> Option<Arc<Trace>> + Send>;

type Next = (i32, u64, u64, u64, u64, u64, u64, u64, u64, u64);

/// Follows the traces of an action: as long as answers are as on one of them, its next call is the next call of the
/// program, which is a function of these answers.
pub struct Follower {
    /// The trace that goes on after these answers; the first one after none.
    source: Source,
    secrets: Arc<Secrets>,
    trace: Arc<Trace>,
    /// The number of each function of the trace among the imports of the player.
    numbers: Vec<i32>,
    /// The numbers of all functions.
    number_of: fn(&Function) -> Option<i32>,
    made: Vec<Known>,
    made_bytes: u64,
    answers: Vec<Answer>,
    /// An answer is on none of the traces.
    has_left: bool,
    /// The process ended with the last call of its trace.
    has_ended: bool,
}

impl Follower {
    /// Follows the traces that `source` yields: the first one after no answers, if there is any, and others after the
    /// answers that lead away from the one before, in whose answers `secrets` cannot be read. `number_of` numbers the imports
    /// of the player.
    pub fn new(
        source: impl Fn(&[Answer]) -> Option<Arc<Trace>> + Send + 'static,
        number_of: fn(&Function) -> Option<i32>,
        secrets: Arc<Secrets>,
    ) -> Option<Self> {
        let trace = source(&[])?;
        Some(Self {
            source: Box::new(source),
            secrets,
            numbers: numbers_of(&trace, number_of)?,
            trace,
            number_of,
            made: Vec::new(),
            made_bytes: 0,
            answers: Vec::new(),
            has_left: false,
            has_ended: false,
        })
    }

    /// The answers so far, the last of which is on no trace.
    pub fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// The trace that it follows, or left last.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Whether the process has made all calls of its trace.
    pub fn is_at_end(&self) -> bool {
        self.has_ended || !self.has_left && self.made.len() == self.trace.calls.len()
    }

    /// The number of calls that were made.
    pub fn calls_made(&self) -> usize {
        self.made.len()
    }

    /// What differs from the trace that it left, for people.
    pub fn difference(&self) -> String {
        difference(&self.trace, &self.made)
    }

    /// The calls made so far, as the beginning of a new trace, and their answers.
    pub(super) fn into_beginning(self) -> (TraceBuilder, Vec<Known>) {
        let builder = TraceBuilder::after(&self.trace, self.answers, self.made_bytes, self.secrets);
        (builder, self.made)
    }

    /// The call that is made has the answer `known`; `None` if it ended the process.
    pub(super) fn answered(&mut self, known: Option<Known>) {
        let index = self.made.len();
        let expected = self.trace.calls.get(index).map(|call| &call.answer);
        let Some(known) = known else {
            self.has_ended = expected == Some(&None);
            return;
        };
        let expected = expected.and_then(Option::as_ref);
        let expected = expected.filter(|expected| known.is(expected, &self.secrets));
        let is_same = expected.is_some();
        let answer = expected.map_or_else(|| known.to_answer(&self.secrets), Answer::clone);
        self.made_bytes += known.bytes();
        self.made.push(known);
        self.answers.push(answer);
        let goes_on = is_same && self.made_bytes <= KEPT_BYTES_MAX || self.change_trace();
        self.has_left = !goes_on;
    }

    /// Goes on with another trace that has the same answers so far.
    fn change_trace(&mut self) -> bool {
        let Some(trace) = (self.source)(&self.answers) else { return false };
        // It may end here, without another call.
        let goes_on = trace.calls.len() >= self.answers.len();
        let mut pairs = trace.calls.iter().zip(&self.answers);
        let is_same = pairs.all(|(call, answer)| call.answer.as_ref() == Some(answer));
        match numbers_of(&trace, self.number_of) {
            Some(numbers) if goes_on && is_same => {
                (self.trace, self.numbers) = (trace, numbers);
                true
            }
            _ => false,
        }
    }
}

fn numbers_of(trace: &Trace, number_of: fn(&Function) -> Option<i32>) -> Option<Vec<i32>> {
    let are_few = trace.calls.iter().all(|call| call.args.len() <= ARGS_MAX);
    are_few.then(|| trace.functions.iter().map(number_of).collect()).flatten()
}

/// `next() -> (import, args…)`: the next call to make, with what it reads in place; the import is -1 after the last one.
pub fn next(mut caller: Caller<'_, Process>) -> Next {
    const END: Next = (-1, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    find_memory(&mut caller);
    let (Some(memory), Some(mut calls)) = (caller.data().memory, caller.data_mut().calls.take())
    else {
        return END;
    };
    let prepared = calls.follower().and_then(|follower| {
        if follower.has_left {
            return None;
        }
        let call = follower.trace.calls.get(follower.made.len())?;
        let missing = call.memory_bytes.saturating_sub(memory.data_size(&caller) as u64);
        let pages = missing.div_ceil(memory.page_size(&caller));
        if pages > 0 && memory.grow(&mut caller, pages).is_err() {
            // The limit of memory is another one, or other processes take more of it.
            follower.has_left = true;
            return None;
        }
        let data = memory.data_mut(&mut caller);
        for span in &call.inputs {
            let place = data.get_mut(span.at as usize..)?.get_mut(..span.bytes.0.len())?;
            place.copy_from_slice(&span.bytes.0);
        }
        let arg = |index: usize| call.args.get(index).copied().unwrap_or_default();
        let number = *follower.numbers.get(usize::from(call.function))?;
        Some((number, arg(0), arg(1), arg(2), arg(3), arg(4), arg(5), arg(6), arg(7), arg(8)))
    });
    caller.data_mut().calls = Some(calls);
    prepared.unwrap_or(END)
}
