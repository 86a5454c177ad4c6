//! How far a compilation is.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cranelift_codegen::timing::{self, Pass, Profiler};

/// How far a compilation is; clones show the same one. For [`super::Program::compile_watched`].
#[derive(Clone, Debug, Default)]
pub struct CompileProgress(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    functions: AtomicU64,
    compiled: AtomicU64,
}

impl CompileProgress {
    /// Functions of the module; 0 until they are counted.
    pub fn functions(&self) -> u64 {
        self.0.functions.load(Ordering::Relaxed)
    }

    /// Functions that are compiled.
    pub fn compiled(&self) -> u64 {
        self.0.compiled.load(Ordering::Relaxed).min(self.functions())
    }

    /// Begins to count again, for `functions`.
    pub(super) fn begin(&self, functions: u64) {
        self.0.compiled.store(0, Ordering::Relaxed);
        self.0.functions.store(functions, Ordering::Relaxed);
    }

    /// Counts the functions that this thread compiles.
    pub(super) fn count_on_this_thread(&self) {
        timing::set_thread_profiler(Box::new(self.clone()));
    }
}

impl Profiler for CompileProgress {
    /// Each function ends with this pass, in both code generators. So do a few trampolines.
    fn start_pass(&self, pass: Pass) -> Box<dyn Any> {
        if pass == Pass::vcode_emit_finish {
            self.0.compiled.fetch_add(1, Ordering::Relaxed);
        }
        Box::new(())
    }
}
