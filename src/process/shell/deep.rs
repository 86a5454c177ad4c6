//! Stack for what is nested deeply.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Stack that a part of a script may need until the next place that looks, in bytes.
const STACK_NEEDED_BYTES: usize = 256 << 10;
const STACK_MORE_BYTES: usize = 4 << 20;

/// Does `work`, which is part of something that calls itself, with as much stack as it takes.
pub fn with_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK_NEEDED_BYTES, STACK_MORE_BYTES, work)
}

/// A part of a run that may be deep within others: it is given stack when that runs out.
pub struct Deep<'a, T>(Pin<Box<dyn Future<Output = T> + 'a>>);

impl<'a, T> Deep<'a, T> {
    /// `future`, wherever it is polled.
    pub fn new(future: impl Future<Output = T> + 'a) -> Self {
        Self(Box::pin(future))
    }
}

impl<T> Future for Deep<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let inner = self.0.as_mut();
        with_stack(|| inner.poll(context))
    }
}
