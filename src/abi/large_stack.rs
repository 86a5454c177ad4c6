//! The stack of a process whose code has large frames.
#![cfg_attr(target_os = "linux", allow(unsafe_code, reason = "unused pages are given back"))]

/// Bytes below the stack pointer that are not given back: frames of the host's functions.
#[cfg(target_os = "linux")]
const HOST_BYTES: usize = 256 << 10;

/// Where a stack begins, which grows downwards, and how long it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct LargeStack {
    begin: usize,
    bytes: usize,
    /// Whether the process has no other one.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "only there are unused pages given back")
    )]
    is_only: bool,
}

impl LargeStack {
    /// The stack of this thread of control, of which at least `bytes` from here on belong to it. The tasks of a component may
    /// have others, for which memory can be anywhere: then it is not the `is_only` one.
    pub fn begin(bytes: usize, is_only: bool) -> Self {
        Self { begin: stack_pointer(), bytes, is_only }
    }

    /// Bytes that are used by now; 0 on another stack.
    pub fn used_bytes(&self) -> u64 {
        match self.begin.checked_sub(stack_pointer()) {
            Some(used) if used <= self.bytes => used as u64,
            _ => 0,
        }
    }

    /// Gives the pages back that an earlier recursion used.
    pub fn release_unused(&self) {
        #[cfg(target_os = "linux")]
        {
            use rustix::mm::{Advice, madvise};

            const PAGE: usize = 4096;
            let (here, end) = (stack_pointer(), self.begin - self.bytes);
            if !self.is_only || here > self.begin || here < end + HOST_BYTES {
                return;
            }
            let end = end.next_multiple_of(PAGE);
            let len = (here - HOST_BYTES).saturating_sub(end) / PAGE * PAGE;
            // SAFETY: the stack pointer is in this stack, which is one mapping, and nothing uses what is below it but
            // frames of functions that this one calls, which have less than `HOST_BYTES`.
            let _ = unsafe { madvise(end as *mut std::ffi::c_void, len, Advice::LinuxDontNeed) };
        }
    }
}

/// An address in the frame of the calling function, nearly.
#[inline(never)]
fn stack_pointer() -> usize {
    let here = 0_u8;
    std::hint::black_box(&raw const here).addr()
}
