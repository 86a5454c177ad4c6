//! Stack for deep nesting.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Stack that must be free where nesting is checked, in bytes.
const STACK_NEEDED_BYTES: usize = 256 << 10;
const STACK_MORE_BYTES: usize = 4 << 20;

/// Does `work`, a recursive step, with enough stack.
pub fn with_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK_NEEDED_BYTES, STACK_MORE_BYTES, work)
}

/// A future of a recursive step, polled with enough stack.
pub struct DeepFuture<'a, T>(Pin<Box<dyn Future<Output = T> + 'a>>);

impl<'a, T> DeepFuture<'a, T> {
    /// Wraps `future`.
    pub fn new(future: impl Future<Output = T> + 'a) -> Self {
        Self(Box::pin(future))
    }
}

impl<T> Future for DeepFuture<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let inner = self.0.as_mut();
        with_stack(|| inner.poll(context))
    }
}
