//! Code generators, and their settings.

use wasmtime::{
    Config, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, RegallocAlgorithm,
    Strategy,
};

use super::config::{EngineConfig, QUICK_STACK_BYTES, STACK_BYTES};
use super::module::Encoding;
use super::prepare::Form;
use super::tier::Tier;

/// Additional stack for functions of the host, in bytes.
const HOST_STACK_BYTES: usize = 1 << 20;

/// Memory of a finished process that is cleared and kept instead of returned to the system, in bytes: what
/// a small program touches.
const KEEP_RESIDENT_BYTES: usize = 256 << 10;

/// Whether code of `encoding` is changed before it is compiled: see [`super::prepare`]. Fuel counts instructions, so they
/// stay as they are; nothing outside of a component can reach a memory that is added to one of its modules.
pub(super) fn is_prepared(config: &EngineConfig, encoding: Encoding) -> bool {
    !config.fuel && encoding == Encoding::Module
}

/// What makes machine code of a module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Generator {
    /// Cranelift, optimizing.
    Optimizing,
    /// Winch, in one pass over the code. It does not know every instruction, nor every processor.
    Winch,
    /// Cranelift, without optimization: for what Winch does not take.
    SinglePass,
}

impl Generator {
    /// All, in the order in which their code is preferred.
    pub const ALL: [Self; 3] = [Self::Optimizing, Self::Winch, Self::SinglePass];

    pub fn tier(self) -> Tier {
        match self {
            Self::Optimizing => Tier::Optimized,
            Self::Winch | Self::SinglePass => Tier::Quick,
        }
    }

    /// Those of `tier` for code of `encoding` and an engine of `config`, in the order in which they are tried.
    pub fn of(tier: Tier, config: &EngineConfig, encoding: Encoding) -> &'static [Self] {
        match tier {
            Tier::Optimized => &[Self::Optimizing],
            // It is compiled as it is, and Winch does not replace NaNs.
            Tier::Quick if !is_prepared(config, encoding) => &[Self::SinglePass],
            Tier::Quick => &[Self::Winch, Self::SinglePass],
        }
    }

    /// How the NaNs of modules for it are replaced, in the order in which it is tried. What is not prepared needs one
    /// try.
    pub fn forms(self, config: &EngineConfig, encoding: Encoding) -> &'static [Form] {
        match self {
            Self::Optimizing if is_prepared(config, encoding) => &[Form::Vector, Form::Scalar],
            Self::Optimizing | Self::Winch | Self::SinglePass => &[Form::Scalar],
        }
    }

    /// The settings of wasmtime for code of `encoding` of this generator, with a pool of `pool_slots`.
    pub fn settings(self, engine: &EngineConfig, encoding: Encoding, pool_slots: u32) -> Config {
        let mut config = Config::new();
        let stack_bytes = match self.tier() {
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
        match self {
            Self::Optimizing => {
                config.cranelift_opt_level(OptLevel::Speed);
            }
            Self::SinglePass => {
                config
                    .cranelift_opt_level(OptLevel::None)
                    .cranelift_regalloc_algorithm(RegallocAlgorithm::SinglePass);
            }
            Self::Winch => {
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
        // What is prepared has its NaNs replaced, and a stop page ends it.
        if !is_prepared(engine, encoding) {
            config.epoch_interruption(true).cranelift_nan_canonicalization(true);
        }
        config.consume_fuel(engine.fuel).wasm_component_model(encoding == Encoding::Component);
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
