//! Random modules that compute with floats, for the tests of this directory.

use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, DataCountSection, ElementSection, Elements, ExportKind,
    ExportSection, Function, FunctionSection, GlobalSection, GlobalType, Ieee32, Ieee64,
    Instruction as I, MemArg, MemorySection, MemoryType, Module, RefType, TableSection, TableType,
    TypeSection, ValType,
};

const TYPES: [ValType; 5] = [ValType::I32, ValType::I64, ValType::F32, ValType::F64, ValType::V128];

/// Bit patterns that matter: zeros, infinities, numbers, and NaNs of both kinds and signs with payloads.
const BITS_32: [u32; 12] = [
    0,
    0x8000_0000,
    0x3f80_0000,
    0xc049_0fdb,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xffc0_0000,
    0x7fa0_0001,
    0xffa1_2345,
    0x7fff_ffff,
    0x0000_0001,
];
const BITS_64: [u64; 12] = [
    0,
    1 << 63,
    0x3ff0 << 48,
    0xc009_21fb_5444_2d18,
    0x7ff0 << 48,
    0xfff0 << 48,
    0x7ff8 << 48,
    0xfff8 << 48,
    0x7ff4_0000_0000_0001,
    0xfff4_1234_5678_9abc,
    u64::MAX >> 1,
    1,
];

/// Bytes of memory that functions load and store.
const MEMORY_BYTES: u32 = 256;

/// A generator of numbers that look random (SplitMix64).
pub(super) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    pub fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    pub fn bits_32(&mut self) -> u32 {
        if self.one_in(4) { self.next() as u32 } else { self.of(&BITS_32) }
    }

    pub fn bits_64(&mut self) -> u64 {
        if self.one_in(4) { self.next() } else { self.of(&BITS_64) }
    }
}

/// The type of a function.
#[derive(Clone)]
pub(super) struct Signature {
    pub params: Vec<ValType>,
    pub results: Vec<ValType>,
}

/// A module: its functions are exported by their numbers, its globals as `g0` and so on, its memory as `memory`.
pub(super) struct RandomModule {
    pub bytes: Vec<u8>,
    pub functions: Vec<Signature>,
}

/// A module of `count` functions. With `relaxed`, some are instructions of relaxed SIMD.
pub(super) fn module(random: &mut Random, count: usize, relaxed: bool) -> RandomModule {
    let mut list = |max: usize, min: usize| -> Vec<ValType> {
        (0..min + random.below(max)).map(|_| random.of(&TYPES)).collect()
    };
    let functions: Vec<Signature> =
        (0..count).map(|_| Signature { params: list(5, 0), results: list(3, 1) }).collect();
    let mut types = TypeSection::new();
    // What a block takes and gives: its type's number is that of the value type.
    for ty in TYPES {
        types.ty().function([ty], [ty]);
    }
    let (mut declared, mut exports) = (FunctionSection::new(), ExportSection::new());
    for (index, signature) in functions.iter().enumerate() {
        types.ty().function(signature.params.clone(), signature.results.clone());
        declared.function((TYPES.len() + index) as u32);
        exports.export(&index.to_string(), ExportKind::Func, index as u32);
    }
    exports.export("memory", ExportKind::Memory, 0);
    let mut globals = GlobalSection::new();
    for (index, ty) in TYPES.into_iter().enumerate() {
        let zero = match ty {
            ValType::I32 => ConstExpr::i32_const(0),
            ValType::I64 => ConstExpr::i64_const(0),
            ValType::F32 => ConstExpr::f32_const(Ieee32::new(0)),
            ValType::F64 => ConstExpr::f64_const(Ieee64::new(0)),
            _ => ConstExpr::v128_const(0),
        };
        globals.global(GlobalType { val_type: ty, mutable: true, shared: false }, &zero);
        exports.export(&format!("g{index}"), ExportKind::Global, index as u32);
    }
    let (mut memories, mut tables) = (MemorySection::new(), TableSection::new());
    memories.memory(MemoryType {
        minimum: 1,
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    });
    tables.table(TableType {
        element_type: RefType::FUNCREF,
        table64: false,
        minimum: count as u64,
        maximum: None,
        shared: false,
    });
    let mut elements = ElementSection::new();
    let indices: Vec<u32> = (0..count as u32).collect();
    elements.active(None, &ConstExpr::i32_const(0), Elements::Functions(indices.as_slice().into()));
    let mut code = CodeSection::new();
    for index in 0..count {
        code.function(&body(random, &functions, index, relaxed));
    }
    let mut module = Module::new();
    module.section(&types).section(&declared).section(&tables).section(&memories);
    module.section(&globals).section(&exports).section(&elements);
    module.section(&DataCountSection { count: 0 }).section(&code);
    RandomModule { bytes: module.finish(), functions }
}

/// Locals of each type that a function has beside its parameters.
const LOCALS_EACH: u32 = 3;
/// Further locals that count the rounds of loops.
const COUNTERS: u32 = 8;

struct Body<'r> {
    random: &'r mut Random,
    functions: &'r [Signature],
    /// Its own number: it calls only functions before it.
    index: usize,
    relaxed: bool,
    code: Vec<I<'static>>,
    counters: u32,
    /// Instructions that may still be made.
    budget: i32,
}

fn body(random: &mut Random, functions: &[Signature], index: usize, relaxed: bool) -> Function {
    let mut body =
        Body { random, functions, index, relaxed, code: Vec::new(), counters: 0, budget: 120 };
    for _ in 0..=body.random.below(6) {
        body.statement();
    }
    let results = functions[index].results.clone();
    for ty in results {
        body.value(ty, 4);
    }
    let mut locals: Vec<_> = TYPES.into_iter().map(|ty| (LOCALS_EACH, ty)).collect();
    locals.push((COUNTERS, ValType::I32));
    let mut function = Function::new(locals);
    for instruction in &body.code {
        function.instruction(instruction);
    }
    function.instruction(&I::End);
    function
}

fn place(ty: ValType) -> usize {
    TYPES.iter().position(|known| *known == ty).expect("all types are listed")
}

impl Body<'_> {
    fn add(&mut self, instruction: I<'static>) {
        self.budget -= 1;
        self.code.push(instruction);
    }

    fn local(&mut self, ty: ValType) -> u32 {
        let params = &self.functions[self.index].params;
        let first = params.len() + place(ty) * LOCALS_EACH as usize;
        let mut of_type: Vec<usize> = (first..first + LOCALS_EACH as usize).collect();
        of_type.extend((0..params.len()).filter(|at| params[*at] == ty));
        self.random.of(&of_type) as u32
    }

    fn at(&mut self, ty: ValType) -> MemArg {
        let bytes = match ty {
            ValType::I32 | ValType::F32 => 4,
            ValType::V128 => 16,
            _ => 8,
        };
        let offset = self.random.below((MEMORY_BYTES - bytes) as usize) as u64;
        MemArg { offset, align: 0, memory_index: 0 }
    }

    fn statement(&mut self) {
        let ty = self.random.of(&TYPES);
        match self.random.below(7) {
            0 | 1 => {
                self.value(ty, 4);
                let local = self.local(ty);
                self.add(I::LocalSet(local));
            }
            2 => {
                self.add(I::I32Const(0));
                self.value(ty, 4);
                let at = self.at(ty);
                self.add(match ty {
                    ValType::I32 => I::I32Store(at),
                    ValType::I64 => I::I64Store(at),
                    ValType::F32 => I::F32Store(at),
                    ValType::F64 => I::F64Store(at),
                    _ => I::V128Store(at),
                });
            }
            3 => {
                self.value(ty, 3);
                self.add(I::GlobalSet(place(ty) as u32));
            }
            4 => {
                self.value(ValType::I32, 2);
                self.add(I::If(BlockType::Empty));
                self.statement();
                if self.random.one_in(2) {
                    self.add(I::Else);
                    self.statement();
                }
                self.add(I::End);
            }
            5 => {
                // An early end.
                self.value(ValType::I32, 2);
                self.add(I::If(BlockType::Empty));
                for ty in self.functions[self.index].results.clone() {
                    self.value(ty, 2);
                }
                self.add(I::Return);
                self.add(I::End);
            }
            _ => {
                // Code that is never reached.
                self.add(I::Block(BlockType::Empty));
                self.add(I::Br(0));
                self.value(ty, 2);
                self.add(I::Drop);
                self.add(I::End);
            }
        }
    }

    fn value(&mut self, ty: ValType, depth: usize) {
        if depth == 0 || self.budget < 0 {
            return self.leaf(ty);
        }
        match self.random.below(14) {
            0 => self.leaf(ty),
            1 => {
                self.value(ty, depth - 1);
                let local = self.local(ty);
                self.add(I::LocalTee(local));
            }
            2 => {
                self.value(ty, depth - 1);
                self.value(ty, depth - 1);
                self.value(ValType::I32, depth - 1);
                let select = if self.random.one_in(2) { I::TypedSelect(ty) } else { I::Select };
                self.add(select);
            }
            3 => {
                self.value(ValType::I32, depth - 1);
                self.add(I::If(BlockType::Result(ty)));
                self.value(ty, depth - 1);
                self.add(I::Else);
                self.value(ty, depth - 1);
                self.add(I::End);
            }
            4 => {
                self.add(I::Block(BlockType::Result(ty)));
                self.value(ty, depth - 1);
                self.value(ValType::I32, depth - 1);
                self.add(I::BrIf(0));
                self.add(I::Drop);
                self.value(ty, depth - 1);
                self.add(I::End);
            }
            5 => {
                self.add(I::Block(BlockType::Result(ty)));
                self.add(I::Block(BlockType::Result(ty)));
                self.value(ty, depth - 1);
                self.value(ValType::I32, depth - 1);
                self.add(I::BrTable(vec![0, 1].into(), 0));
                self.add(I::End);
                self.operate(ty);
                self.add(I::End);
            }
            6 if self.counters < COUNTERS => self.rounds(ty, depth),
            7 if self.index > 0 => self.call(ty, depth),
            _ => self.operation(ty, depth),
        }
    }

    /// A loop that takes and gives a value.
    fn rounds(&mut self, ty: ValType, depth: usize) {
        let params = self.functions[self.index].params.len() as u32;
        let counter = params + TYPES.len() as u32 * LOCALS_EACH + self.counters;
        self.counters += 1;
        let rounds = self.random.of(&[1, 2, 3]);
        self.value(ty, depth - 1);
        self.add(I::I32Const(rounds));
        self.add(I::LocalSet(counter));
        self.add(I::Loop(BlockType::FunctionType(place(ty) as u32)));
        if self.random.one_in(2) {
            self.operate(ty);
        } else {
            let local = self.local(ty);
            self.add(I::LocalSet(local));
            self.value(ty, depth - 1);
        }
        for instruction in
            [I::LocalGet(counter), I::I32Const(1), I::I32Sub, I::LocalTee(counter), I::BrIf(0)]
        {
            self.add(instruction);
        }
        self.add(I::End);
    }

    fn call(&mut self, ty: ValType, depth: usize) {
        // Calls of calls would take long.
        let callee = self.random.below(self.index);
        let Signature { params, results } = self.functions[callee].clone();
        for param in params {
            self.value(param, depth.min(2) - 1);
        }
        if self.random.one_in(3) {
            self.add(I::I32Const((callee as u32).cast_signed()));
            let type_index = (TYPES.len() + callee) as u32;
            self.add(I::CallIndirect { type_index, table_index: 0 });
        } else {
            self.add(I::Call(callee as u32));
        }
        let is_last = results.last() == Some(&ty);
        let taken = results.len() - usize::from(is_last);
        if is_last && taken > 0 {
            let local = self.local(ty);
            self.add(I::LocalSet(local));
            for result in results[..taken].iter().rev() {
                let local = self.local(*result);
                self.add(I::LocalSet(local));
            }
            self.add(I::LocalGet(local));
        } else if !is_last {
            for result in results.iter().rev() {
                let local = self.local(*result);
                self.add(I::LocalSet(local));
            }
            self.leaf(ty);
        }
    }

    fn leaf(&mut self, ty: ValType) {
        let instruction = match self.random.below(4) {
            0 => {
                self.add(I::I32Const(0));
                let at = self.at(ty);
                match ty {
                    ValType::I32 => I::I32Load(at),
                    ValType::I64 => I::I64Load(at),
                    ValType::F32 => I::F32Load(at),
                    ValType::F64 => I::F64Load(at),
                    _ => I::V128Load(at),
                }
            }
            1 => match ty {
                ValType::I32 => I::I32Const(self.random.bits_32().cast_signed()),
                ValType::I64 => I::I64Const(self.random.bits_64().cast_signed()),
                ValType::F32 => I::F32Const(Ieee32::new(self.random.bits_32())),
                ValType::F64 => I::F64Const(Ieee64::new(self.random.bits_64())),
                _ => {
                    let wide = self.random.one_in(2);
                    let mut lane = |index: u32| {
                        if wide {
                            return u128::from(self.random.bits_64()) << (index / 2 * 64);
                        }
                        u128::from(self.random.bits_32()) << (index * 32)
                    };
                    let lanes = if wide { lane(0) | lane(2) } else { (0..4).map(lane).sum() };
                    I::V128Const(lanes.cast_signed())
                }
            },
            2 if self.random.one_in(3) => I::GlobalGet(place(ty) as u32),
            _ => I::LocalGet(self.local(ty)),
        };
        self.add(instruction);
    }

    /// An instruction that gives a value of the type `ty`, with its operands.
    fn operation(&mut self, ty: ValType, depth: usize) {
        let known = operations(ty);
        let (operands, instruction) = &known[self.random.below(known.len())];
        let is_relaxed = matches!(
            instruction,
            I::F32x4RelaxedMadd | I::F64x2RelaxedNmadd | I::F32x4RelaxedMin | I::F64x2RelaxedMax
        );
        if is_relaxed && !self.relaxed {
            return self.leaf(ty);
        }
        for operand in *operands {
            self.value(*operand, depth - 1);
        }
        self.add(instruction.clone());
    }

    /// Makes another one of the value of the type `ty` on the stack.
    fn operate(&mut self, ty: ValType) {
        let known = operations(ty);
        let unary: Vec<_> = known.iter().filter(|(operands, _)| *operands == [ty]).collect();
        let instruction = unary[self.random.below(unary.len())].1.clone();
        self.add(instruction);
    }
}

type Operation = (&'static [ValType], I<'static>);

/// Instructions by the type of their result.
fn operations(ty: ValType) -> Vec<Operation> {
    use ValType::{F32, F64, I32, I64, V128};
    match ty {
        I32 => vec![
            (&[I32], I::I32Eqz),
            (&[I32], I::I32Clz),
            (&[I32, I32], I::I32Add),
            (&[I32, I32], I::I32Xor),
            (&[F32], I::I32ReinterpretF32),
            (&[F32], I::I32TruncSatF32S),
            (&[F64], I::I32TruncSatF64U),
            (&[F32, F32], I::F32Eq),
            (&[F32, F32], I::F32Lt),
            (&[F64, F64], I::F64Ne),
            (&[F64, F64], I::F64Ge),
            (&[V128], I::I32x4ExtractLane(2)),
            (&[V128], I::V128AnyTrue),
            (&[V128], I::I32x4Bitmask),
        ],
        I64 => vec![
            (&[I64], I::I64Ctz),
            (&[I64, I64], I::I64Sub),
            (&[I32], I::I64ExtendI32S),
            (&[F64], I::I64ReinterpretF64),
            (&[F64], I::I64TruncSatF64S),
            (&[F32], I::I64TruncSatF32U),
            (&[V128], I::I64x2ExtractLane(1)),
        ],
        F32 => vec![
            (&[F32, F32], I::F32Add),
            (&[F32, F32], I::F32Sub),
            (&[F32, F32], I::F32Mul),
            (&[F32, F32], I::F32Div),
            (&[F32, F32], I::F32Min),
            (&[F32, F32], I::F32Max),
            (&[F32, F32], I::F32Copysign),
            (&[F32], I::F32Neg),
            (&[F32], I::F32Abs),
            (&[F32], I::F32Sqrt),
            (&[F32], I::F32Ceil),
            (&[F32], I::F32Floor),
            (&[F32], I::F32Trunc),
            (&[F32], I::F32Nearest),
            (&[F64], I::F32DemoteF64),
            (&[I32], I::F32ReinterpretI32),
            (&[I32], I::F32ConvertI32S),
            (&[I64], I::F32ConvertI64U),
            (&[V128], I::F32x4ExtractLane(3)),
        ],
        F64 => vec![
            (&[F64, F64], I::F64Add),
            (&[F64, F64], I::F64Sub),
            (&[F64, F64], I::F64Mul),
            (&[F64, F64], I::F64Div),
            (&[F64, F64], I::F64Min),
            (&[F64, F64], I::F64Max),
            (&[F64, F64], I::F64Copysign),
            (&[F64], I::F64Neg),
            (&[F64], I::F64Abs),
            (&[F64], I::F64Sqrt),
            (&[F64], I::F64Ceil),
            (&[F64], I::F64Floor),
            (&[F64], I::F64Trunc),
            (&[F64], I::F64Nearest),
            (&[F32], I::F64PromoteF32),
            (&[I64], I::F64ReinterpretI64),
            (&[I32], I::F64ConvertI32U),
            (&[I64], I::F64ConvertI64S),
            (&[V128], I::F64x2ExtractLane(0)),
        ],
        _ => vector_operations(),
    }
}

fn vector_operations() -> Vec<Operation> {
    use ValType::{F32, F64, V128};
    vec![
        (&[V128, V128], I::F32x4Add),
        (&[V128, V128], I::F32x4Mul),
        (&[V128, V128], I::F32x4Div),
        (&[V128, V128], I::F32x4Min),
        (&[V128, V128], I::F32x4PMin),
        (&[V128], I::F32x4Sqrt),
        (&[V128], I::F32x4Floor),
        (&[V128], I::F32x4Neg),
        (&[V128], I::F32x4Abs),
        (&[V128, V128], I::F32x4Lt),
        (&[V128, V128], I::F64x2Sub),
        (&[V128, V128], I::F64x2Div),
        (&[V128, V128], I::F64x2Max),
        (&[V128, V128], I::F64x2PMax),
        (&[V128], I::F64x2Sqrt),
        (&[V128], I::F64x2Nearest),
        (&[V128], I::F64x2Neg),
        (&[V128], I::F64x2Abs),
        (&[V128, V128], I::F64x2Ne),
        (&[V128], I::F32x4DemoteF64x2Zero),
        (&[V128], I::F64x2PromoteLowF32x4),
        (&[V128], I::F32x4ConvertI32x4S),
        (&[V128], I::F64x2ConvertLowI32x4U),
        (&[V128], I::I32x4TruncSatF32x4U),
        (&[V128], I::I32x4TruncSatF64x2SZero),
        (&[V128, V128], I::V128Xor),
        (&[V128, V128], I::V128And),
        (&[V128, V128, V128], I::V128Bitselect),
        (&[V128], I::V128Not),
        (&[V128, V128], I::I8x16Swizzle),
        (&[V128, V128], I::I32x4Add),
        (&[F32], I::F32x4Splat),
        (&[F64], I::F64x2Splat),
        (&[V128, F32], I::F32x4ReplaceLane(1)),
        (&[V128, F64], I::F64x2ReplaceLane(1)),
        (&[V128, V128, V128], I::F32x4RelaxedMadd),
        (&[V128, V128, V128], I::F64x2RelaxedNmadd),
        (&[V128, V128], I::F32x4RelaxedMin),
        (&[V128, V128], I::F64x2RelaxedMax),
    ]
}
