//! The content of a trace in a cache of results, with the digest that it must have: nothing panics, and what can be read
//! is written as it was read. And contents that a server says are a trace: nothing panics, and memory is bounded.
#![no_main]

use belljar::Digest;
use belljar::results::{Compared, Trace, trace_of_contents};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let _ = trace_of_contents(body);
    let digest = Digest::of(body);
    let Some(trace) = Trace::from_bytes(&[&digest.as_bytes()[..], body].concat()) else { return };
    assert_eq!(trace.compare(&trace), Compared::Same);
    assert_eq!(Trace::from_bytes(&trace.to_bytes()).as_ref(), Some(&trace));
});
