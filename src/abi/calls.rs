//! The calls of a process: taken down, made again, and given the answers of earlier ones.
//!
//! A process whose calls are taken down has a [`TraceBuilder`]. A process that follows traces makes their calls, while
//! its answers are theirs ([`Follower`]). Where an answer differs, the code of the program runs: it makes the same calls
//! first, and gets the answers that were given already, without any effect.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::follower::Follower;
use crate::kernel::guest::Range;
use crate::results::{
    Abandoned, Action, Bytes, End, Function, Known, Secrets, Span, Trace, TraceBuilder,
};

/// What a call read and wrote in the memory of its process.
#[derive(Default)]
pub(super) struct Touched {
    pub inputs: Vec<Span>,
    pub outputs: SmallVec<[Range; 4]>,
    /// It failed after it had written an unknown part of its answer.
    pub is_torn: bool,
}

impl Touched {
    pub fn read(&mut self, memory: &[u8], range: Range) {
        let bytes = &memory[range.start..range.start + range.len];
        if let Some(last) = self.inputs.last_mut()
            && last.at as usize + last.bytes.0.len() == range.start
        {
            last.bytes.0.extend_from_slice(bytes);
            return;
        }
        // Offsets in the memory of a module of 32 bits.
        self.inputs.push(Span { at: range.start as u32, bytes: Bytes(bytes.to_vec()) });
    }

    pub fn wrote(&mut self, range: Range) {
        if let Some(last) = self.outputs.last_mut()
            && last.start + last.len == range.start
        {
            last.len += range.len;
        } else if range.len > 0 {
            self.outputs.push(range);
        }
    }
}

/// The calls of a process.
pub struct Calls {
    pub(super) touched: RefCell<Touched>,
    /// The function that is being called, with its arguments.
    current: Option<(Arc<Function>, SmallVec<[u64; 10]>)>,
    way: Way,
}

enum Way {
    TakenDown {
        builder: TraceBuilder,
        /// The answers to give first, from calls that were made already.
        given: VecDeque<Known>,
        /// How many were given.
        given_count: usize,
    },
    Following(Box<Follower>),
}

/// The program makes other calls than the trace that was followed.
#[derive(thiserror::Error)]
#[error(
    "its results in the cache are not its own: remove them with `belljar cache results clear`, and run it again"
)]
pub struct NotOfTrace;

crate::base::readable::readable!(NotOfTrace);

impl Calls {
    /// The calls of a process that runs from its beginning; `secrets` cannot be read in their answers.
    pub fn from_start(secrets: Arc<Secrets>) -> Self {
        let builder = TraceBuilder::new(secrets);
        Self::new(Way::TakenDown { builder, given: VecDeque::new(), given_count: 0 })
    }

    fn new(way: Way) -> Self {
        Self { touched: RefCell::default(), current: None, way }
    }

    /// The calls of a process that follows traces.
    pub fn following(follower: Follower) -> Self {
        Self::new(Way::Following(Box::new(follower)))
    }

    /// The calls of a process that runs because an answer differed from those of the traces that `follower` followed.
    pub fn after(follower: Follower) -> Self {
        let (builder, given) = follower.into_beginning();
        Self::new(Way::TakenDown { builder, given: given.into(), given_count: 0 })
    }

    /// Ends following; `None` if it did not follow.
    pub fn into_follower(self) -> Option<Box<Follower>> {
        match self.way {
            Way::Following(follower) => Some(follower),
            Way::TakenDown { .. } => None,
        }
    }

    /// As [`TraceBuilder::finish`]; `None` if it followed a trace to another end than the program's.
    ///
    /// # Errors
    /// As [`TraceBuilder::finish`].
    pub fn into_trace(
        self,
        action: Action,
        command: &[Vec<u8>],
        end: End,
        took: Duration,
    ) -> Result<Option<Trace>, Abandoned> {
        match self.way {
            // Answers that were not asked for again: the program is not the one of the trace.
            Way::TakenDown { given, .. } if !given.is_empty() => Ok(None),
            Way::TakenDown { builder, .. } => {
                builder.finish(action.digest(), command, end, took).map(Some)
            }
            Way::Following(_) => Ok(None),
        }
    }

    pub(super) fn follower(&mut self) -> Option<&mut Follower> {
        match &mut self.way {
            Way::Following(follower) => Some(follower),
            Way::TakenDown { .. } => None,
        }
    }

    /// A call of `function` begins. Apart from what calls it, which is a part of every import.
    #[cold]
    #[inline(never)]
    pub(super) fn begin(&mut self, function: &Arc<Function>, args: &[u64]) {
        self.current = Some((function.clone(), SmallVec::from_slice(args)));
    }

    /// The answer that the call was given when it was made already.
    ///
    /// # Errors
    /// [`NotOfTrace`] if it is not that call.
    pub(super) fn given(&mut self) -> Result<Option<Known>, NotOfTrace> {
        let Way::TakenDown { builder, given, given_count } = &mut self.way else { return Ok(None) };
        let Some(known) = given.pop_front() else { return Ok(None) };
        let (index, current) = (*given_count, self.current.take());
        *given_count += 1;
        match current {
            Some((function, args)) if builder.has(index, &function, &args) => Ok(Some(known)),
            _ => Err(NotOfTrace),
        }
    }

    /// What the call has touched so far is forgotten: it is made again.
    pub(super) fn begin_attempt(&mut self) {
        *self.touched.get_mut() = Touched::default();
    }

    /// The call returned `code`, or ended the process.
    pub(super) fn end(&mut self, memory: &[u8], code: Option<u32>) {
        let Touched { inputs, outputs, is_torn } = std::mem::take(self.touched.get_mut());
        let span = |range: &Range| Span {
            at: range.start as u32,
            bytes: Bytes(memory[range.start..range.start + range.len].to_vec()),
        };
        let known = code.map(|code| Known { code, outputs: outputs.iter().map(span).collect() });
        let current = self.current.take();
        match &mut self.way {
            Way::TakenDown { builder, .. } => match current {
                Some((function, args)) if !is_torn => {
                    let memory_bytes = memory.len() as u64;
                    builder.push(&function, memory_bytes, &args, inputs, known.as_ref());
                }
                _ => builder.abandon(Abandoned::Torn),
            },
            Way::Following(follower) => follower.answered(known),
        }
    }
}
