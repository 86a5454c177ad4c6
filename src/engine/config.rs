//! How programs are compiled and where their memory comes from.

use std::path::PathBuf;

use wasmtime::{Config, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

/// Stack of a guest's calls in bytes, the same on every host: the guest runs on a stack of its
/// own, not on the caller's.
pub const STACK_BYTES: usize = 8 << 20;

/// What the host's own functions need on the same stack.
const HOST_STACK_BYTES: usize = 1 << 20;

/// Modules that can live at once in a machine. Beyond the pool each takes several mappings of the
/// host's address space, of which Linux allows 65530; when they are used up, the host's own
/// allocations fail.
pub const MODULES_MAX: u32 = 4000;

/// Memory of a finished process that is cleared in place instead of given back to the system: what
/// a small program touches. The next one finds it mapped.
const KEEP_RESIDENT_BYTES: usize = 256 << 10;

/// How to make an [`crate::engine::Engine`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineConfig {
    /// Keep memories and stacks ready for so many processes, so that starting one costs
    /// microseconds. Those beyond get theirs from the system. To make a pool takes time: about two
    /// milliseconds for 1000, and gigabytes of address space for each; where the host has less, there is none. 0
    /// makes none. Default: 1000.
    pub pool_slots: u32,
    /// Compile programs so that they count what they execute, for [`crate::Limits::fuel`]. They run
    /// slower. Default: no.
    pub fuel: bool,
    /// Where to keep compiled code; `None` compiles every module anew. Default: none.
    pub cache_dir: Option<PathBuf>,
    /// Memory that compiling a module may take, in bytes. What it takes at most is told from its code,
    /// and is often ten times what it takes. A module whose largest functions may take more together is
    /// compiled on fewer threads, and one with a function that may take more is refused. Default: 4 GiB.
    pub compile_memory_bytes_max: u64,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self { pool_slots: 1000, fuel: false, cache_dir: None, compile_memory_bytes_max: 4 << 30 }
    }
}

impl EngineConfig {
    pub(super) fn to_wasmtime(&self, pool_slots: u32) -> Config {
        let mut config = Config::new();
        // Everything deterministic that wasmtime has. Atomic instructions are, on a memory that is
        // not shared.
        config
            .wasm_simd(true)
            .wasm_relaxed_simd(true)
            .relaxed_simd_deterministic(true)
            .wasm_bulk_memory(true)
            .wasm_multi_value(true)
            .wasm_reference_types(true)
            .wasm_function_references(true)
            .wasm_gc(true)
            .wasm_tail_call(true)
            .wasm_exceptions(true)
            .wasm_multi_memory(true)
            .wasm_memory64(true)
            .wasm_extended_const(true)
            .wasm_wide_arithmetic(true)
            .wasm_custom_page_sizes(true)
            .wasm_threads(true)
            .shared_memory(false)
            .cranelift_nan_canonicalization(true);
        config
            .cranelift_opt_level(OptLevel::Speed)
            .epoch_interruption(true)
            .consume_fuel(self.fuel)
            .max_wasm_stack(STACK_BYTES)
            .async_stack_size(STACK_BYTES + HOST_STACK_BYTES)
            // Traps name functions without either of these, and code loads faster.
            .native_unwind_info(cfg!(windows))
            .generate_address_map(false);
        if pool_slots > 0 {
            let mut pool = PoolingAllocationConfig::default();
            pool.total_core_instances(pool_slots)
                .total_memories(pool_slots)
                .total_tables(pool_slots)
                .total_stacks(pool_slots)
                .table_elements(100_000)
                .max_unused_warm_slots(pool_slots)
                .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
                .table_keep_resident(KEEP_RESIDENT_BYTES);
            config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        } else {
            config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
        }
        config
    }
}
