//! Configuration of an engine.

use std::path::PathBuf;

use wasmtime::{Config, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

/// Stack of a guest in bytes, the same on every host: guests do not run on the caller's stack.
pub const STACK_BYTES: usize = 8 << 20;

/// Additional stack for functions of the host, in bytes.
const HOST_STACK_BYTES: usize = 1 << 20;

/// Most modules alive at once in a machine. Beyond the pool each takes several memory mappings, of which
/// Linux allows 65530 per process; without them the host's own allocations fail.
pub const MODULES_MAX: u32 = 4000;

/// Memory of a finished process that is cleared and kept instead of returned to the system, in bytes: what
/// a small program touches.
const KEEP_RESIDENT_BYTES: usize = 256 << 10;

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
    /// Most memory for compiling a module, in bytes. It is compared with an upper bound from its code,
    /// often ten times what it takes: with a large one, fewer threads compile, and a module with a
    /// function beyond it is refused. Default: 4 GiB.
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
        // All features that are deterministic. Atomic instructions are, on memory that is not shared.
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
            // Traps name functions without either, and code loads faster.
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
