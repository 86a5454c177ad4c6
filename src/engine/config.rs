//! Configuration of an engine.

use std::path::PathBuf;

use wasmtime::{
    Config, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, RegallocAlgorithm,
    Strategy,
};

use super::backend::Generator;
use super::tier::{Tier, TierChoice};

/// Stack of a guest in bytes, the same on every host: guests do not run on the caller's stack.
pub const STACK_BYTES: usize = 8 << 20;

/// Stack of a guest whose code was compiled quickly, in bytes. Frames of such code have room for every local and
/// every operand, so that they are larger than those of optimized code.
pub const QUICK_STACK_BYTES: usize = 512 << 20;

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
            tier: TierChoice::Auto,
            optimize_in_background: true,
            compile_memory_bytes_max: 4 << 30,
        }
    }
}

impl EngineConfig {
    pub(super) fn to_wasmtime(&self, generator: Generator, pool_slots: u32) -> Config {
        let mut config = Config::new();
        let stack_bytes = match generator.tier() {
            Tier::Quick => QUICK_STACK_BYTES,
            Tier::Optimized => STACK_BYTES,
        };
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
            .shared_memory(false);
        match generator {
            Generator::Optimizing => {
                config.cranelift_opt_level(OptLevel::Speed);
            }
            Generator::SinglePass => {
                config
                    .cranelift_opt_level(OptLevel::None)
                    .cranelift_regalloc_algorithm(RegallocAlgorithm::SinglePass);
            }
            Generator::Winch => {
                config
                    .strategy(Strategy::Winch)
                    .wasm_relaxed_simd(false)
                    .wasm_function_references(false)
                    .wasm_gc(false)
                    .wasm_tail_call(false)
                    .wasm_exceptions(false)
                    .wasm_threads(!cfg!(target_arch = "aarch64"));
            }
        }
        // Other modules are prepared: their NaNs are replaced, and their stop page ends them.
        if self.fuel {
            config.epoch_interruption(true).consume_fuel(true).cranelift_nan_canonicalization(true);
        }
        config
            .max_wasm_stack(stack_bytes)
            .async_stack_size(stack_bytes + HOST_STACK_BYTES)
            // Traps name functions without either, and code loads faster.
            .native_unwind_info(cfg!(windows))
            .generate_address_map(false);
        if pool_slots > 0 {
            let mut pool = PoolingAllocationConfig::default();
            pool.total_core_instances(pool_slots)
                .total_memories(pool_slots.saturating_mul(2))
                // Its own, and the stop page.
                .max_memories_per_module(2)
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
