//! Configuration of an engine.

use std::path::PathBuf;

use super::tier::TierChoice;

/// Stack of a guest in bytes, the same on every host: guests do not run on the caller's stack.
pub const STACK_BYTES: usize = 8 << 20;

/// Stack of a guest whose code was compiled quickly, in bytes. Frames of such code have room for every local and
/// every operand, so that they are larger than those of optimized code.
pub const QUICK_STACK_BYTES: usize = 512 << 20;

/// Most modules alive at once in a machine. Beyond the pool each takes several memory mappings, of which
/// Linux allows 65530 per process; without them the host's own allocations fail.
pub const MODULES_MAX: u32 = 4000;

/// Bytes of code that a cache keeps by default: optimized code of twenty large compilers.
pub const CACHE_BYTES_MAX: u64 = 4 << 30;

/// Configuration of an [`crate::engine::Engine`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineConfig {
    /// Processes whose memories and stacks are kept ready in a pool, so that a start takes microseconds;
    /// further ones get theirs from the system. A pool of 1000 takes about 2 ms to make, and gigabytes of
    /// address space per slot; if the host has less, there is no pool. 0: none. Default: 1000.
    pub pool_slots: u32,
    /// Whether code counts instructions, for [`crate::Limits::fuel`]. It is then slower. Default: false.
    pub fuel: bool,
    /// Directory for compiled code; `None`: modules are compiled each time. Default: none.
    pub cache_dir: Option<PathBuf>,
    /// Bytes of compiled code that are kept in `cache_dir`: beyond them, what was used least recently is removed. Default:
    /// [`CACHE_BYTES_MAX`].
    pub cache_bytes_max: u64,
    /// Which tiers of compiled code programs run in. Default: [`TierChoice::Auto`].
    pub tier: TierChoice,
    /// Whether threads of low priority optimize modules whose programs began with quick code, with
    /// [`TierChoice::Auto`]. Processes that start later run the optimized code. Default: true.
    pub optimize_in_background: bool,
    /// Most memory for compiling a module, in bytes. It is compared with an upper bound from its code,
    /// often ten times what it takes: with a large one, fewer threads compile, and a module with a
    /// function beyond it is refused. Default: 4 GiB.
    pub compile_memory_bytes_max: u64,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            pool_slots: 1000,
            fuel: false,
            cache_dir: None,
            cache_bytes_max: CACHE_BYTES_MAX,
            tier: TierChoice::Auto,
            optimize_in_background: true,
            compile_memory_bytes_max: 4 << 30,
        }
    }
}
