//! The module that makes the calls of traces: an import for each function, and one that says which to call next.

use std::collections::HashMap;
use std::sync::LazyLock;

use wasm_encoder::{
    BlockType, CodeSection, EntityType, ExportKind, ExportSection, Function, FunctionSection,
    ImportSection, MemorySection, MemoryType, Module, TypeSection, ValType,
};

use crate::abi::{self, ARGS_MAX, NEXT, PLAYER_MODULE, Signature};
use crate::results;

/// The name of the module in messages.
pub(super) const NAME: &str = "player";

/// The import that each function is.
static NUMBERS: LazyLock<HashMap<results::Function, i32>> =
    LazyLock::new(|| abi::functions().into_iter().map(|(function, _)| function).zip(0..).collect());

/// The number that `next` returns for `function`; `None` if its calls cannot be made again.
pub(super) fn number_of(function: &results::Function) -> Option<i32> {
    NUMBERS.get(function).copied()
}

/// The module in binary form: it calls what `next` returns until that is negative.
pub(super) fn module() -> Vec<u8> {
    let functions = abi::functions();
    let count = functions.len() as u32;
    let (mut types, mut imports) = (TypeSection::new(), ImportSection::new());
    for (index, (function, signature)) in (0..).zip(&functions) {
        let params = signature.params.iter().map(|is_long| value_type(*is_long));
        let results = signature.returns.then_some(ValType::I32);
        types.ty().function(params, results);
        imports.import(&function.module, &function.name, EntityType::Function(index));
    }
    let mut next = vec![ValType::I32];
    next.resize(1 + ARGS_MAX, ValType::I64);
    types.ty().function([], next);
    imports.import(PLAYER_MODULE, NEXT, EntityType::Function(count));
    types.ty().function([], []);
    let mut declared = FunctionSection::new();
    declared.function(count + 1);
    let mut memories = MemorySection::new();
    memories.memory(MemoryType {
        minimum: 0,
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    });
    let mut exports = ExportSection::new();
    exports.export("memory", ExportKind::Memory, 0);
    exports.export("_start", ExportKind::Func, count + 1);
    let mut code = CodeSection::new();
    code.function(&start(&functions, count));
    let mut module = Module::new();
    module.section(&types).section(&imports).section(&declared).section(&memories);
    module.section(&exports).section(&code);
    module.finish()
}

fn value_type(is_long: bool) -> ValType {
    if is_long { ValType::I64 } else { ValType::I32 }
}

/// `_start`: a loop around a block for each function.
fn start(functions: &[(results::Function, Signature)], next: u32) -> Function {
    let (args, number) = (0..ARGS_MAX as u32, ARGS_MAX as u32);
    let mut start = Function::new([(ARGS_MAX as u32, ValType::I64), (1, ValType::I32)]);
    let mut code = start.instructions();
    code.loop_(BlockType::Empty);
    // One block for each function, and one for all other numbers: the end.
    for _ in 0..=functions.len() {
        code.block(BlockType::Empty);
    }
    code.call(next);
    for arg in args.rev() {
        code.local_set(arg);
    }
    code.local_set(number);
    code.local_get(number);
    code.br_table(0..functions.len() as u32, functions.len() as u32);
    code.end();
    for (index, (_, signature)) in (0..).zip(functions) {
        for (arg, is_long) in (0..).zip(&signature.params) {
            code.local_get(arg);
            if !is_long {
                code.i32_wrap_i64();
            }
        }
        code.call(index);
        if signature.returns {
            code.drop();
        }
        // Out of the blocks that are left, to the loop.
        code.br(functions.len() as u32 - index);
        code.end();
    }
    code.end();
    code.end();
    start
}
