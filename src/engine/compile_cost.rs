//! Estimates the memory that compiling a module takes, from its code.
//!
//! The memory of a code generator grows with the size of a function, and for some code quadratically: a
//! variable that is live across many blocks has a value in each. The constants are upper bounds, measured
//! with modules made for it (`tests/it/cli/compiling.rs`); ordinary code takes a tenth.

use std::collections::HashMap;

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use wasmparser::{
    BinaryReaderError, BlockType, CompositeInnerType, FunctionBody, Operator, Parser, Payload,
    TypeRef, ValType,
};

/// Bytes of memory for each byte of a function's code.
const CODE_BYTES: u64 = 1200;
/// Bytes for each loop.
const LOOP_BYTES: u64 = 12 << 10;
/// Bytes for each parameter and result of a block.
const BLOCK_VALUE_BYTES: u64 = 16 << 10;
/// Bytes for each parameter and result of a call.
const CALL_VALUE_BYTES: u64 = 700;
/// Bytes for each block that a variable is live across.
const LIVE_BYTES: u64 = 32;
/// Bytes for each byte of the module, until it is compiled: the machine code of its functions.
const MODULE_BYTES: u64 = 24;

/// Bytes of the largest variable, a vector.
const VARIABLE_BYTES_MAX: u64 = 16;

/// Most parameters and locals of a valid function: 1,000 and 50,000. The module may be invalid.
const VARIABLES_MAX: u32 = 51_000;

/// Upper bounds of the memory for compiling a module, in bytes.
#[derive(Debug)]
pub(super) struct CompileCost {
    /// For the whole module.
    module_bytes: u64,
    /// For each function of its modules, if it is a component; largest first.
    function_bytes: Vec<u64>,
    /// Bytes of the parameters, results and locals of the function that has most.
    variable_bytes_max: u64,
}

impl CompileCost {
    /// Computes the bounds for the binary module `bytes`, which may be invalid.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut types = Types::default();
        // Those of one module, which is all that a function needs.
        let mut bodies = Vec::new();
        let mut function_bytes = Vec::new();
        let mut local_bytes_max = 0;
        for payload in Parser::new(0).parse_all(bytes) {
            // The compiler refuses what cannot be parsed.
            let Ok(payload) = payload else { break };
            match payload {
                Payload::CodeSectionEntry(body) => {
                    local_bytes_max = local_bytes_max.max(local_bytes(&body).unwrap_or(u64::MAX));
                    bodies.push(body);
                }
                // Another module of a component.
                Payload::Version { .. } => {
                    function_bytes.extend(types.bytes_of(&std::mem::take(&mut bodies)));
                    types.forget();
                }
                payload => drop(types.learn(payload)),
            }
        }
        function_bytes.extend(types.bytes_of(&bodies));
        let values_max = types.values_max;
        function_bytes.sort_unstable_by(|a, b| b.cmp(a));
        Self {
            module_bytes: (bytes.len() as u64).saturating_mul(MODULE_BYTES),
            function_bytes,
            variable_bytes_max: local_bytes_max.saturating_add(values_max * VARIABLE_BYTES_MAX),
        }
    }

    /// Upper bound of the bytes of the parameters, results and locals of each function.
    pub(super) fn variable_bytes_max(&self) -> u64 {
        self.variable_bytes_max
    }

    /// Functions of the module.
    pub(super) fn functions(&self) -> u64 {
        self.function_bytes.len() as u64
    }

    /// The bound with `threads` threads, each of which compiles one function at a time.
    pub(super) fn on_threads(&self, threads: usize) -> u64 {
        let largest = self.function_bytes.iter().take(threads);
        largest.fold(self.module_bytes, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Returns the largest number of threads, up to `threads_max`, within `bytes_max`; `None` if one thread
    /// exceeds it.
    pub(super) fn threads_within(&self, bytes_max: u64, threads_max: usize) -> Option<usize> {
        (1..=threads_max.max(1)).rev().find(|threads| self.on_threads(*threads) <= bytes_max)
    }
}

/// Bytes of the locals of a function.
fn local_bytes(body: &FunctionBody<'_>) -> Result<u64, BinaryReaderError> {
    let mut bytes = 0_u64;
    for locals in body.get_locals_reader()? {
        let (count, ty) = locals?;
        let each = if ty == ValType::V128 { VARIABLE_BYTES_MAX } else { 8 };
        bytes = bytes.saturating_add(u64::from(count).saturating_mul(each));
    }
    Ok(bytes)
}

/// The number of parameters and results.
fn arity(params: &[wasmparser::ValType], results: &[wasmparser::ValType]) -> u64 {
    (params.len() + results.len()) as u64
}

/// An open block, loop or branch.
struct Frame {
    id: u64,
    is_loop: bool,
}

/// A variable of the current function.
#[derive(Clone, Copy, Default)]
struct Variable {
    /// The function; the rest is void for another one.
    function: u64,
    /// The first block in which it is live.
    first: u64,
    last: u64,
    /// Number of frames open at its first write, and the innermost of them.
    written_in: Option<(usize, u64)>,
    /// The first block of a loop to whose end it is live.
    lives_through: Option<u64>,
}

/// The types of a module, by the number of their values.
#[derive(Default)]
struct Types {
    /// Parameters and results of each type; 0 if it is not a function.
    values: Vec<u64>,
    /// The same of each function.
    functions: Vec<u64>,
    /// Most parameters and results of any type of any module so far.
    values_max: u64,
}

/// Computes the bounds of functions, one after the other.
struct Counter<'t> {
    types: &'t Types,
    variables: Vec<Variable>,
    /// Variables used in the current function.
    used: Vec<u32>,
    function: u64,
    frames: Vec<Frame>,
    /// The first blocks of the open loops.
    open_loops: Vec<u64>,
    /// Blocks of the function so far.
    block: u64,
    /// The last block of each ended loop, by its first one.
    loop_ends: HashMap<u64, u64>,
}

impl Types {
    /// Another module begins.
    fn forget(&mut self) {
        self.values.clear();
        self.functions.clear();
    }

    /// The bounds for the functions `bodies`. A large module has a hundred thousand of them: all processors count.
    fn bytes_of(&self, bodies: &[FunctionBody<'_>]) -> Vec<u64> {
        let of = |counter: &mut Counter<'_>, body| counter.function(body).unwrap_or(0);
        bodies.par_iter().map_init(|| Counter::new(self), of).collect()
    }

    fn learn(&mut self, payload: Payload<'_>) -> Result<(), BinaryReaderError> {
        match payload {
            Payload::TypeSection(types) => {
                for group in types {
                    for ty in group?.into_types() {
                        let values = match &ty.composite_type.inner {
                            CompositeInnerType::Func(ty) => arity(ty.params(), ty.results()),
                            _ => 0,
                        };
                        self.values_max = self.values_max.max(values);
                        self.values.push(values);
                    }
                }
            }
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    if let TypeRef::Func(ty) | TypeRef::FuncExact(ty) = import?.ty {
                        self.functions.push(self.values_of(ty));
                    }
                }
            }
            Payload::FunctionSection(functions) => {
                for ty in functions {
                    self.functions.push(self.values_of(ty?));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn values_of(&self, ty: u32) -> u64 {
        self.values.get(ty as usize).copied().unwrap_or(0)
    }

    fn values_of_block(&self, ty: BlockType) -> u64 {
        match ty {
            BlockType::Empty => 0,
            BlockType::Type(_) => 1,
            BlockType::FuncType(ty) => self.values_of(ty),
        }
    }
}

impl<'t> Counter<'t> {
    fn new(types: &'t Types) -> Self {
        Self {
            types,
            variables: Vec::new(),
            used: Vec::new(),
            function: 0,
            frames: Vec::new(),
            open_loops: Vec::new(),
            block: 0,
            loop_ends: HashMap::new(),
        }
    }

    /// The bound for the function `body`.
    fn function(&mut self, body: &FunctionBody<'_>) -> Result<u64, BinaryReaderError> {
        self.function += 1;
        self.block = 0;
        self.used.clear();
        self.loop_ends.clear();
        self.open_loops.clear();
        self.frames.clear();
        self.frames.push(Frame { id: 0, is_loop: false });
        let (mut frames, mut bytes) = (0, 0_u64);
        let range = body.range();
        let mut add =
            |count: u64, each: u64| bytes = bytes.saturating_add(count.saturating_mul(each));
        add((range.end - range.start) as u64, CODE_BYTES);
        for operator in body.get_operators_reader()? {
            match operator? {
                Operator::LocalGet { local_index } => self.read(local_index),
                Operator::LocalSet { local_index } | Operator::LocalTee { local_index } => {
                    self.write(local_index);
                }
                Operator::Call { function_index } | Operator::ReturnCall { function_index } => {
                    let values = self.types.functions.get(function_index as usize);
                    add(values.copied().unwrap_or(0), CALL_VALUE_BYTES);
                }
                Operator::CallIndirect { type_index, .. }
                | Operator::ReturnCallIndirect { type_index, .. }
                | Operator::CallRef { type_index }
                | Operator::ReturnCallRef { type_index } => {
                    add(self.types.values_of(type_index), CALL_VALUE_BYTES);
                }
                operator @ (Operator::Block { blockty }
                | Operator::Loop { blockty }
                | Operator::If { blockty }) => {
                    let is_loop = matches!(operator, Operator::Loop { .. });
                    add(u64::from(is_loop), LOOP_BYTES);
                    add(self.types.values_of_block(blockty), BLOCK_VALUE_BYTES);
                    frames += 1;
                    self.open(frames, is_loop);
                }
                Operator::TryTable { try_table } => {
                    add(self.types.values_of_block(try_table.ty), BLOCK_VALUE_BYTES);
                    frames += 1;
                    self.open(frames, false);
                }
                Operator::Else => {
                    frames += 1;
                    self.close();
                    self.open(frames, false);
                }
                Operator::End => self.close(),
                Operator::BrIf { .. }
                | Operator::BrTable { .. }
                | Operator::BrOnNull { .. }
                | Operator::BrOnNonNull { .. }
                | Operator::BrOnCast { .. }
                | Operator::BrOnCastFail { .. } => self.block += 1,
                _ => {}
            }
        }
        add(self.blocks_lived_across(), LIVE_BYTES);
        Ok(bytes)
    }

    fn open(&mut self, id: u64, is_loop: bool) {
        self.block += 1;
        self.frames.push(Frame { id, is_loop });
        if is_loop {
            self.open_loops.push(self.block);
        }
    }

    fn close(&mut self) {
        self.block += 1;
        if self.frames.pop().is_some_and(|frame| frame.is_loop)
            && let Some(start) = self.open_loops.pop()
        {
            self.loop_ends.insert(start, self.block);
        }
    }

    /// The variable `index`, which is used here.
    fn variable(&mut self, index: u32) -> &mut Variable {
        if self.variables.len() <= index as usize {
            self.variables.resize(index as usize + 1, Variable::default());
        }
        let variable = &mut self.variables[index as usize];
        if variable.function != self.function {
            let (function, first) = (self.function, self.block);
            *variable = Variable { function, first, ..Variable::default() };
            self.used.push(index);
        }
        variable.last = self.block;
        variable
    }

    fn write(&mut self, index: u32) {
        if index >= VARIABLES_MAX {
            return;
        }
        let innermost = self.frames.last().map_or(0, |frame| frame.id);
        let place = (self.frames.len(), innermost);
        self.variable(index).written_in.get_or_insert(place);
        self.live_through_loops(index);
    }

    /// A value that need not come from the first write has been live since the start of the function.
    fn read(&mut self, index: u32) {
        if index >= VARIABLES_MAX {
            return;
        }
        let written_in = self.variable(index).written_in;
        let is_open = |(depth, id): (usize, u64)| {
            depth.checked_sub(1).and_then(|at| self.frames.get(at)).is_some_and(|it| it.id == id)
        };
        if !written_in.is_some_and(is_open) {
            self.variables[index as usize].first = 0;
        }
        self.live_through_loops(index);
    }

    /// A variable that is live where a loop begins, and used in it, is live to its end.
    fn live_through_loops(&mut self, index: u32) {
        let variable = &mut self.variables[index as usize];
        let outermost = self.open_loops.partition_point(|start| *start <= variable.first);
        if let Some(start) = self.open_loops.get(outermost) {
            variable.lives_through = Some(*start);
        }
    }

    fn blocks_lived_across(&self) -> u64 {
        let lengths = self.used.iter().map(|index| {
            let variable = &self.variables[*index as usize];
            let end = variable.lives_through.and_then(|start| self.loop_ends.get(&start).copied());
            end.map_or(variable.last, |end| end.max(variable.last)).saturating_sub(variable.first)
        });
        lengths.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn cost(text: &str) -> u64 {
        CompileCost::of(&wat::parse_str(text).unwrap()).on_threads(1)
    }

    /// A function with `loops` loops, each between `before` and `after`.
    fn loops(loops: usize, locals: usize, before: &str, after: &str) -> String {
        let locals = "i32 ".repeat(locals);
        let body = format!("{before} (loop (br_if 0 (local.get 0))) {after}").repeat(loops);
        format!("(module (func (param i32) (local {locals}) {body}))")
    }

    #[test]
    fn variables_live_across_blocks_count_in_each_block() {
        let uses = |local: &str| -> String {
            (1..200).map(|index| local.replace('#', &index.to_string())).collect()
        };
        let get = uses("(drop (local.get #))");
        let around = |body: &str| {
            let set = uses("(local.set # (i32.const 1))");
            format!("(module (func (param i32) (local {}) {set} {body} {get}))", "i32 ".repeat(200))
        };
        let blocks = "(block (br_if 0 (local.get 0)))".repeat(1000);
        // 2000 blocks, 200 variables.
        let across = cost(&around(&blocks));
        let none = cost(&around(""));
        let alone = cost(&format!("(module (func (param i32) {blocks}))"));
        assert!(across > none + alone + 2000 * 190 * LIVE_BYTES, "{across} {none} {alone}");
        // Variables written and read in one block are live only there.
        let temporary = "(local.set 1 (local.get 0)) (drop (local.get 1))";
        let within = cost(&loops(1000, 1, temporary, ""));
        let beside = cost(&loops(1000, 1, "", ""));
        assert!(within < beside + 20 * MIB, "{within} {beside}");
    }

    /// Blocks that the variables of a function with `body` are live across.
    fn lived_across(body: &str) -> u64 {
        let text = format!("(module (func (param i32) (local i32) {body}))");
        let bytes = wat::parse_str(text).unwrap();
        let types = Types::default();
        let mut counter = Counter::new(&types);
        for payload in Parser::new(0).parse_all(&bytes) {
            if let Payload::CodeSectionEntry(body) = payload.unwrap() {
                counter.function(&body).unwrap();
            }
        }
        counter.blocks_lived_across()
    }

    #[test]
    fn variable_live_at_loop_start_is_live_to_loop_end() {
        let blocks = "(block (br_if 0 (i32.const 0)))".repeat(100);
        let read = "(drop (local.get 1))";
        let write = "(local.set 1 (i32.const 1))";
        let ended = lived_across(&format!("{write} (loop {read}) {blocks}"));
        for body in [
            format!("{write} (loop {read} {blocks})"),
            // It may not have been written.
            format!("(loop {blocks} (if (i32.const 0) (then {write})) {read})"),
            format!("(loop {read} {blocks})"),
        ] {
            let lives = lived_across(&body);
            assert!(lives >= ended + 150, "{body}: {lives} {ended}");
        }
        let dominated = lived_across(&format!("(loop {write} {read} {blocks})"));
        assert!(dominated < 10, "{dominated}");
    }

    #[test]
    fn values_of_blocks_and_calls_count() {
        let many = "i32 ".repeat(500);
        let types = format!("(type $t (func (param {many}) (result {many})))");
        let consts = "(i32.const 0)".repeat(500);
        let block =
            cost(&format!("(module {types} (func {consts} (block (type $t)) (unreachable)))"));
        assert!(block > 1000 * BLOCK_VALUE_BYTES, "{block}");
        let call = cost(&format!(
            "(module {types} (func $f (type $t) (unreachable)) (func {consts} (call $f) (unreachable)))"
        ));
        assert!(call > 1000 * CALL_VALUE_BYTES && call < 100 * MIB, "{call}");
    }

    /// Regression: the number of a variable in an invalid module of 1.4 KiB took 16 GB.
    #[test]
    fn invalid_variable_numbers_take_no_memory() {
        let valid = wat::parse_str("(module (func (local i32) (drop (local.get 0))))").unwrap();
        let (number, largest) = ([0x20, 0x00, 0x1a], [0x20, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x1a]);
        let at = valid.windows(3).position(|bytes| bytes == number).unwrap();
        let mut invalid = [&valid[..at], &largest, &valid[at + 3..]].concat();
        // The lengths of the body and of its section.
        invalid[at - 3] += 4;
        invalid[at - 5] += 4;
        assert!(CompileCost::of(&invalid).on_threads(1) < MIB);
    }

    #[test]
    fn fewer_threads_need_less_memory() {
        let function = "(func (block))".repeat(4);
        let cost = CompileCost::of(&wat::parse_str(format!("(module {function})")).unwrap());
        let one = cost.on_threads(1);
        assert!(cost.on_threads(4) > one && cost.on_threads(9) == cost.on_threads(4));
        assert_eq!(cost.threads_within(u64::MAX, 8), Some(8));
        assert_eq!(cost.threads_within(one, 8), Some(1));
        assert_eq!(cost.threads_within(one - 1, 8), None);
        assert!(CompileCost::of(b"\0asm nonsense").on_threads(1) < MIB);
    }
}
