//! The body of one function: a walk over its instructions that copies them and inserts what is needed.

use std::ops::Range;

use wasm_encoder::{Encode, Instruction, MemArg};
use wasmparser::{
    FuncToValidate, FuncValidator, FuncValidatorAllocations, FunctionBody, Operator, ValType,
    ValidatorResources,
};

use super::nan::{self, Value};
use super::{PrepareError, Target};

/// Most walks over a function to find out what its locals hold; after them, they all hold exact values.
const WALKS_MAX: usize = 6;

/// The body of a function, prepared.
pub(super) struct Prepared<'a> {
    /// The original body: declarations of locals, instructions.
    original: &'a [u8],
    /// The new one, if it differs.
    changed: Option<Vec<u8>>,
    /// Whether it loads from the stop page.
    pub loads_stop_page: bool,
}

impl<'a> Prepared<'a> {
    /// Prepares `body` of `function`, in a module whose stop page is the memory `stop_memory`.
    pub fn of(
        function: &FuncToValidate<ValidatorResources>,
        body: &FunctionBody<'a>,
        stop_memory: u32,
        target: Target,
        allocations: &mut FuncValidatorAllocations,
    ) -> Result<Self, PrepareError> {
        let outline = Outline::of(body)?;
        let original = body.as_bytes();
        let loads_stop_page = outline.calls || outline.loops;
        if !loads_stop_page && !outline.computes_floats {
            return Ok(Self { original, changed: None, loads_stop_page });
        }
        let inserted = Inserted { stop_memory, at_entry: outline.calls, target };
        let changed = if outline.computes_floats {
            with_floats(function, body, &inserted, allocations)?
        } else {
            without_floats(body, &inserted)?
        };
        Ok(Self { original, changed: Some(changed), loads_stop_page })
    }

    pub fn is_unchanged(&self) -> bool {
        self.changed.is_none()
    }

    /// Bytes of the body.
    pub fn len(&self) -> usize {
        self.changed.as_deref().unwrap_or(self.original).len()
    }

    /// Appends the body with its length.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.changed.as_deref().unwrap_or(self.original).encode(out);
    }
}

/// What a function has, found without types.
#[derive(Default)]
struct Outline {
    calls: bool,
    loops: bool,
    computes_floats: bool,
}

impl Outline {
    fn of(body: &FunctionBody<'_>) -> Result<Self, PrepareError> {
        let mut outline = Self::default();
        for operator in body.get_operators_reader()? {
            match operator? {
                Operator::Loop { .. } => outline.loops = true,
                Operator::Call { .. }
                | Operator::CallIndirect { .. }
                | Operator::CallRef { .. }
                | Operator::ReturnCall { .. }
                | Operator::ReturnCallIndirect { .. }
                | Operator::ReturnCallRef { .. } => outline.calls = true,
                operator => {
                    let result = nan::arithmetic(&operator).map(|arithmetic| arithmetic.result);
                    outline.computes_floats |= matches!(result, Some(Value::Computed(_)));
                }
            }
        }
        Ok(outline)
    }
}

/// What is inserted into a function.
struct Inserted {
    /// The stop page.
    stop_memory: u32,
    /// Whether the function begins with a load from it.
    at_entry: bool,
    target: Target,
}

impl Inserted {
    fn begin(&self, out: &mut Vec<u8>) {
        if self.at_entry {
            self.load(out);
        }
    }

    fn load(&self, out: &mut Vec<u8>) {
        let at = MemArg { offset: 0, align: 0, memory_index: self.stop_memory };
        Instruction::I32Const(0).encode(out);
        if self.target.merges_loads {
            Instruction::I32AtomicLoad8U(at).encode(out);
        } else {
            Instruction::I32Load8U(at).encode(out);
        }
        Instruction::Drop.encode(out);
    }
}

/// Inserts loads from the stop page alone.
fn without_floats(body: &FunctionBody<'_>, inserted: &Inserted) -> Result<Vec<u8>, PrepareError> {
    let (bytes, start) = (body.as_bytes(), body.range().start);
    let mut operators = body.get_operators_reader()?;
    let mut copied = operators.original_position() - start;
    let mut out = Vec::with_capacity(bytes.len() + 64);
    out.extend_from_slice(&bytes[..copied]);
    inserted.begin(&mut out);
    while !operators.eof() {
        let is_loop = matches!(operators.read()?, Operator::Loop { .. });
        if is_loop {
            let end = operators.original_position() - start;
            out.extend_from_slice(&bytes[copied..end]);
            copied = end;
            inserted.load(&mut out);
        }
    }
    out.extend_from_slice(&bytes[copied..]);
    Ok(out)
}

/// Inserts loads from the stop page, and replaces NaNs.
fn with_floats(
    function: &FuncToValidate<ValidatorResources>,
    body: &FunctionBody<'_>,
    inserted: &Inserted,
    allocations: &mut FuncValidatorAllocations,
) -> Result<Vec<u8>, PrepareError> {
    let mut locals = None;
    let mut is_eager = false;
    for walk in 1.. {
        let fresh = FuncToValidate { resources: function.resources.clone(), ..*function };
        let validator = fresh.into_validator(std::mem::take(allocations));
        let mut walker = Walker::new(validator, body, locals.take(), inserted, is_eager)?;
        walker.run()?;
        let Walker { validator, held, learned, code, temporaries, needs_eager, .. } = walker;
        *allocations = validator.into_allocations();
        if held == learned && !needs_eager {
            return with_locals(body, &code, &temporaries);
        }
        is_eager |= needs_eager;
        locals =
            Some(if walk < WALKS_MAX { learned } else { vec![Some(Value::Exact); held.len()] });
    }
    unreachable!("locals that are all exact stay so")
}

/// A body of `code` with the locals of `body` and `temporaries`.
fn with_locals(
    body: &FunctionBody<'_>,
    code: &[u8],
    temporaries: &[ValType],
) -> Result<Vec<u8>, PrepareError> {
    let locals = body.get_locals_reader()?;
    let declarations = locals.original_position()..body.get_operators_reader()?.original_position();
    let start = body.range().start;
    let mut out = Vec::with_capacity(code.len() + 32);
    (locals.get_count() + temporaries.len() as u32).encode(&mut out);
    out.extend_from_slice(&body.as_bytes()[declarations.start - start..declarations.end - start]);
    for ty in temporaries {
        1_u32.encode(&mut out);
        type_of_temporary(*ty).encode(&mut out);
    }
    out.extend_from_slice(code);
    Ok(out)
}

fn type_of_temporary(ty: ValType) -> wasm_encoder::ValType {
    match ty {
        ValType::I32 => wasm_encoder::ValType::I32,
        ValType::I64 => wasm_encoder::ValType::I64,
        ValType::F32 => wasm_encoder::ValType::F32,
        ValType::F64 => wasm_encoder::ValType::F64,
        ValType::V128 => wasm_encoder::ValType::V128,
        ValType::Ref(_) => unreachable!("references get no temporaries"),
    }
}

/// One walk over a function.
struct Walker<'f, 'a> {
    validator: FuncValidator<ValidatorResources>,
    body: &'f FunctionBody<'a>,
    inserted: &'f Inserted,
    code: Vec<u8>,
    stack: Vec<Value>,
    /// What each local holds, as far as it was known before this walk; `None`: zero.
    held: Vec<Option<Value>>,
    /// The same after this walk.
    learned: Vec<Option<Value>>,
    /// Parameters and locals of the original.
    locals: u32,
    temporaries: Vec<ValType>,
    /// Results of arithmetic are made exact at once.
    is_eager: bool,
    /// A value would have to move that cannot: the next walk is eager.
    needs_eager: bool,
}

impl<'f, 'a> Walker<'f, 'a> {
    fn new(
        mut validator: FuncValidator<ValidatorResources>,
        body: &'f FunctionBody<'a>,
        held: Option<Vec<Option<Value>>>,
        inserted: &'f Inserted,
        is_eager: bool,
    ) -> Result<Self, PrepareError> {
        let parameters = validator.len_locals();
        let mut declarations = body.get_locals_reader()?;
        for _ in 0..declarations.get_count() {
            let offset = declarations.original_position();
            let (count, ty) = declarations.read()?;
            validator.define_locals(offset, count, ty)?;
        }
        let locals = validator.len_locals();
        let held = held.unwrap_or_else(|| {
            (0..locals).map(|local| (local < parameters).then_some(Value::Exact)).collect()
        });
        Ok(Self {
            validator,
            body,
            inserted,
            code: Vec::with_capacity(body.as_bytes().len() * 2),
            stack: Vec::new(),
            learned: held.clone(),
            held,
            locals,
            temporaries: Vec::new(),
            is_eager,
            needs_eager: false,
        })
    }

    fn run(&mut self) -> Result<(), PrepareError> {
        let start = self.body.range().start;
        let mut operators = self.body.get_operators_reader()?;
        self.inserted.begin(&mut self.code);
        while !operators.eof() {
            let at = operators.original_position();
            let operator = operators.read()?;
            let bytes = at - start..operators.original_position() - start;
            self.step(&operator, at, bytes)?;
        }
        Ok(())
    }

    /// Copies one instruction, which is the `bytes` of the body at `offset` of the module.
    fn step(
        &mut self,
        operator: &Operator<'_>,
        offset: usize,
        bytes: Range<usize>,
    ) -> Result<(), PrepareError> {
        let was_reachable = self.is_reachable();
        if was_reachable {
            self.take_operands(operator, offset)?;
        }
        self.code.extend_from_slice(&self.body.as_bytes()[bytes]);
        self.validator.op(offset, operator)?;
        if matches!(operator, Operator::Loop { .. }) {
            self.inserted.load(&mut self.code);
        }
        let height = self.validator.operand_stack_height() as usize;
        debug_assert!(
            !(was_reachable && self.is_reachable()) || height == self.stack.len(),
            "{operator:?} leaves {height} values, not {}",
            self.stack.len()
        );
        // What code does that is never reached does not matter.
        self.stack.resize(height, Value::Exact);
        if self.is_eager
            && let Some(Value::Computed(_)) = self.stack.last()
        {
            self.make_exact(1);
        }
        Ok(())
    }

    fn is_reachable(&self) -> bool {
        self.validator.get_control_frame(0).is_some_and(|frame| !frame.unreachable)
    }

    /// Makes the operands of `operator` exact, as far as it needs them so, and replaces them by its results.
    fn take_operands(
        &mut self,
        operator: &Operator<'_>,
        offset: usize,
    ) -> Result<(), PrepareError> {
        if let Some(arithmetic) = nan::arithmetic(operator) {
            let operands = self.top(arithmetic.operands);
            let takes = Value::Computed(arithmetic.takes);
            if operands.iter().any(|value| value.is_computed() && *value != takes) {
                self.make_exact(arithmetic.operands);
            }
            self.replace(arithmetic.operands, 1, arithmetic.result);
            return Ok(());
        }
        match operator {
            Operator::LocalGet { local_index } => {
                let value = self.held[*local_index as usize].unwrap_or(Value::Number);
                self.stack.push(value);
            }
            Operator::LocalSet { local_index } => {
                self.set_local(*local_index);
                self.stack.pop();
            }
            Operator::LocalTee { local_index } => self.set_local(*local_index),
            Operator::Drop => {
                self.stack.pop();
            }
            Operator::Select | Operator::TypedSelect { .. } => {
                let [a, b, _] = *self.top(3) else { return Err(PrepareError::Operands { offset }) };
                let mut result = a.or(b);
                if !result.is_computed() && (a.is_computed() || b.is_computed()) {
                    self.make_exact(3);
                    result = Value::Exact;
                }
                self.replace(3, 1, result);
            }
            _ => {
                let arity = operator.operator_arity(&self.validator);
                let (operands, results) = arity.ok_or(PrepareError::Operands { offset })?;
                self.make_exact(operands);
                let result = if nan::is_number(operator) { Value::Number } else { Value::Exact };
                self.replace(operands, results, result);
            }
        }
        Ok(())
    }

    /// The top `count` values, as far as there are so many.
    fn top(&self, count: u32) -> &[Value] {
        &self.stack[self.stack.len().saturating_sub(count as usize)..]
    }

    fn replace(&mut self, operands: u32, results: u32, result: Value) {
        let below = self.stack.len().saturating_sub(operands as usize);
        self.stack.truncate(below);
        self.stack.resize(below + results as usize, result);
    }

    /// The top value is about to be set to the local `local`.
    fn set_local(&mut self, local: u32) {
        let local = local as usize;
        let value = self.stack.last().copied().unwrap_or(Value::Exact);
        let learned = &mut self.learned[local];
        *learned = Some(learned.map_or(value, |known| known.or(value)));
        if value.is_computed() && self.held[local] != Some(value) {
            self.make_exact(1);
        }
    }

    /// Inserts instructions that make the top `count` values exact.
    fn make_exact(&mut self, count: u32) {
        let len = self.stack.len();
        let at = len.saturating_sub(count as usize);
        let Some(first) = self.stack[at..].iter().position(|value| value.is_computed()) else {
            return;
        };
        let first = at + first;
        // Those above it make room.
        let mut above = Vec::new();
        for depth in 0..len - 1 - first {
            let ty = self.validator.get_operand_type(depth).flatten();
            let Some(ty) = ty.filter(|ty| !matches!(ty, ValType::Ref(_))) else {
                self.needs_eager = true;
                return;
            };
            let local = self.temporary(ty, &above);
            Instruction::LocalSet(local).encode(&mut self.code);
            above.push(local);
        }
        if let Value::Computed(kind) = self.stack[first] {
            let local = self.temporary(kind.ty(), &above);
            Instruction::LocalTee(local).encode(&mut self.code);
            kind.replace_nan(local, self.inserted.target.form, &mut self.code);
        }
        for (value, local) in self.stack[first + 1..].iter().zip(above.into_iter().rev()) {
            Instruction::LocalGet(local).encode(&mut self.code);
            if let Value::Computed(kind) = value {
                kind.replace_nan(local, self.inserted.target.form, &mut self.code);
            }
        }
        self.stack[first..].fill(Value::Exact);
    }

    /// A local for a value of the type `ty` that is none of `taken`.
    fn temporary(&mut self, ty: ValType, taken: &[u32]) -> u32 {
        let mut known = (self.locals..).zip(&self.temporaries);
        let free = known.find(|(local, known)| **known == ty && !taken.contains(local));
        if let Some((local, _)) = free {
            return local;
        }
        self.temporaries.push(ty);
        self.locals + self.temporaries.len() as u32 - 1
    }
}
