//! Which values may be a NaN whose bits depend on the processor.
//!
//! By the specification, arithmetic that makes a NaN may give it any sign and payload. So such a value is replaced by
//! the canonical NaN, but only where its bits could be seen: where it is stored, reinterpreted, passed, returned, or
//! given to an instruction on bits. Arithmetic and comparisons take it as it is. Values from elsewhere (loaded,
//! passed, returned by a call, constants) keep their bits, because programs keep other values in NaNs.

use wasm_encoder::{Encode, Ieee32, Ieee64, Instruction};
use wasmparser::{Operator, ValType};

/// The canonical NaNs of the specification that have no sign.
const NAN_32: u32 = 0x7fc0_0000;
const NAN_64: u64 = 0x7ff8_0000_0000_0000;

/// A kind of float.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Float {
    F32,
    F64,
    F32x4,
    F64x2,
}

impl Float {
    pub fn ty(self) -> ValType {
        match self {
            Self::F32 => ValType::F32,
            Self::F64 => ValType::F64,
            Self::F32x4 | Self::F64x2 => ValType::V128,
        }
    }

    /// Appends instructions that replace the value on the stack, which the local `local` has, too, by the canonical
    /// NaN if it is a NaN.
    pub fn replace_nan(self, local: u32, form: Form, code: &mut Vec<u8>) {
        let get = Instruction::LocalGet(local);
        let splat = |splat: Instruction<'static>| vec![get.clone(), splat];
        let nan_32 = || Instruction::V128Const(lanes(&[NAN_32.to_le_bytes(); 4].concat()));
        let nan_64 = || Instruction::V128Const(lanes(&[NAN_64.to_le_bytes(); 2].concat()));
        // A NaN does not equal itself.
        let instructions = match (self, form) {
            (Self::F32, Form::Scalar) => {
                let nan = Instruction::F32Const(Ieee32::new(NAN_32));
                vec![nan, get.clone(), get, Instruction::F32Eq, Instruction::Select]
            }
            (Self::F64, Form::Scalar) => {
                let nan = Instruction::F64Const(Ieee64::new(NAN_64));
                vec![nan, get.clone(), get, Instruction::F64Eq, Instruction::Select]
            }
            (Self::F32, Form::Vector) => {
                let x = splat(Instruction::F32x4Splat);
                let select = [Instruction::F32x4Eq, Instruction::V128Bitselect];
                let select = [select.as_slice(), &[Instruction::F32x4ExtractLane(0)]].concat();
                [vec![Instruction::F32x4Splat, nan_32()], x.clone(), x, select].concat()
            }
            (Self::F64, Form::Vector) => {
                let x = splat(Instruction::F64x2Splat);
                let select = [Instruction::F64x2Eq, Instruction::V128Bitselect];
                let select = [select.as_slice(), &[Instruction::F64x2ExtractLane(0)]].concat();
                [vec![Instruction::F64x2Splat, nan_64()], x.clone(), x, select].concat()
            }
            (Self::F32x4, _) => {
                vec![nan_32(), get.clone(), get, Instruction::F32x4Eq, Instruction::V128Bitselect]
            }
            (Self::F64x2, _) => {
                vec![nan_64(), get.clone(), get, Instruction::F64x2Eq, Instruction::V128Bitselect]
            }
        };
        for instruction in instructions {
            instruction.encode(code);
        }
    }
}

/// How a single float is replaced; the result is the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum Form {
    /// By instructions that every code generator knows.
    Scalar,
    /// By those on vectors, for which Cranelift needs no branch. The code is longer.
    Vector,
}

fn lanes(bytes: &[u8]) -> i128 {
    i128::from_le_bytes(bytes.try_into().expect("the lanes have 16 bytes"))
}

/// What is known of a value on the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value {
    /// Its bits are the same on every processor, and stay as they are.
    Exact,
    /// As `Exact`; it is no NaN.
    Number,
    /// A result of arithmetic: a NaN may have any bits.
    Computed(Float),
}

impl Value {
    pub fn is_computed(self) -> bool {
        matches!(self, Self::Computed(_))
    }

    /// What a place holds that gets both `self` and `other`. Where that is `Exact`, computed values are made so
    /// before.
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Number, value) | (value, Self::Number) => value,
            (Self::Computed(a), Self::Computed(b)) if a == b => self,
            _ => Self::Exact,
        }
    }
}

/// How an instruction treats floats, if its operands need not be exact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Arithmetic {
    pub operands: u32,
    /// The kind of its operands.
    pub takes: Float,
    pub result: Value,
}

/// Arithmetic, comparisons and conversions; `None` for all other instructions.
pub(super) fn arithmetic(operator: &Operator<'_>) -> Option<Arithmetic> {
    use Float::{F32, F32x4, F64, F64x2};
    use Operator as O;
    let of = |operands, takes, result| Some(Arithmetic { operands, takes, result });
    let computes = |operands, kind| of(operands, kind, Value::Computed(kind));
    match operator {
        O::F32Add | O::F32Sub | O::F32Mul | O::F32Div | O::F32Min | O::F32Max => computes(2, F32),
        O::F64Add | O::F64Sub | O::F64Mul | O::F64Div | O::F64Min | O::F64Max => computes(2, F64),
        O::F32Ceil | O::F32Floor | O::F32Trunc | O::F32Nearest | O::F32Sqrt => computes(1, F32),
        O::F64Ceil | O::F64Floor | O::F64Trunc | O::F64Nearest | O::F64Sqrt => computes(1, F64),
        O::F32DemoteF64 => of(1, F64, Value::Computed(F32)),
        O::F64PromoteF32 => of(1, F32, Value::Computed(F64)),
        O::F32Eq | O::F32Ne | O::F32Lt | O::F32Gt | O::F32Le | O::F32Ge => of(2, F32, Value::Exact),
        O::F64Eq | O::F64Ne | O::F64Lt | O::F64Gt | O::F64Le | O::F64Ge => of(2, F64, Value::Exact),
        O::I32TruncF32S
        | O::I32TruncF32U
        | O::I64TruncF32S
        | O::I64TruncF32U
        | O::I32TruncSatF32S
        | O::I32TruncSatF32U
        | O::I64TruncSatF32S
        | O::I64TruncSatF32U => of(1, F32, Value::Exact),
        O::I32TruncF64S
        | O::I32TruncF64U
        | O::I64TruncF64S
        | O::I64TruncF64U
        | O::I32TruncSatF64S
        | O::I32TruncSatF64U
        | O::I64TruncSatF64S
        | O::I64TruncSatF64U => of(1, F64, Value::Exact),
        O::F32x4Add | O::F32x4Sub | O::F32x4Mul | O::F32x4Div | O::F32x4Min | O::F32x4Max => {
            computes(2, F32x4)
        }
        O::F64x2Add | O::F64x2Sub | O::F64x2Mul | O::F64x2Div | O::F64x2Min | O::F64x2Max => {
            computes(2, F64x2)
        }
        O::F32x4RelaxedMin | O::F32x4RelaxedMax => computes(2, F32x4),
        O::F64x2RelaxedMin | O::F64x2RelaxedMax => computes(2, F64x2),
        O::F32x4RelaxedMadd | O::F32x4RelaxedNmadd => computes(3, F32x4),
        O::F64x2RelaxedMadd | O::F64x2RelaxedNmadd => computes(3, F64x2),
        O::F32x4Ceil | O::F32x4Floor | O::F32x4Trunc | O::F32x4Nearest | O::F32x4Sqrt => {
            computes(1, F32x4)
        }
        O::F64x2Ceil | O::F64x2Floor | O::F64x2Trunc | O::F64x2Nearest | O::F64x2Sqrt => {
            computes(1, F64x2)
        }
        O::F32x4DemoteF64x2Zero => of(1, F64x2, Value::Computed(F32x4)),
        O::F64x2PromoteLowF32x4 => of(1, F32x4, Value::Computed(F64x2)),
        O::F32x4Eq | O::F32x4Ne | O::F32x4Lt | O::F32x4Gt | O::F32x4Le | O::F32x4Ge => {
            of(2, F32x4, Value::Exact)
        }
        O::F64x2Eq | O::F64x2Ne | O::F64x2Lt | O::F64x2Gt | O::F64x2Le | O::F64x2Ge => {
            of(2, F64x2, Value::Exact)
        }
        O::I32x4TruncSatF32x4S | O::I32x4TruncSatF32x4U => of(1, F32x4, Value::Exact),
        O::I32x4TruncSatF64x2SZero | O::I32x4TruncSatF64x2UZero => of(1, F64x2, Value::Exact),
        _ => None,
    }
}

/// Whether the result of `operator` is a number by its nature. A vector is none: half a lane of numbers can be a NaN.
pub(super) fn is_number(operator: &Operator<'_>) -> bool {
    use Operator as O;
    match operator {
        O::F32Const { value } => !f32::from_bits(value.bits()).is_nan(),
        O::F64Const { value } => !f64::from_bits(value.bits()).is_nan(),
        _ => matches!(
            operator,
            O::F32ConvertI32S
                | O::F32ConvertI32U
                | O::F32ConvertI64S
                | O::F32ConvertI64U
                | O::F64ConvertI32S
                | O::F64ConvertI32U
                | O::F64ConvertI64S
                | O::F64ConvertI64U
        ),
    }
}
