//! The guest of these tests: a program that reads a script from standard input, makes its calls,
//! and writes their answers, and all of its memory, to a descriptor.
//!
//! One program serves every test, so that no test compiles one. It has two memories. The exported
//! one is used only by scripts, and holds [`MASK`] wherever they put nothing. The other holds the
//! script, the answers, and a copy of the first memory from before each call.

use std::fmt::Write;
use std::sync::OnceLock;

use belljar::{Module, Program};

use super::functions::FUNCTIONS;
use super::script::{Kind, Snapshot};
use crate::support;

/// The value of memory that a script does not set, which makes a stray write visible.
pub const MASK: u8 = 0xa5;

/// Size of the exported memory.
pub const MEMORY_BYTES: u32 = 1 << 16;

/// Set in an answer if the call failed but wrote to memory.
pub const WROTE: u32 = 1 << 31;

/// The operations of a script, by their first byte.
pub mod op {
    pub const END: u8 = 0;
    /// Function, number of words, words: kind and value of each.
    pub const CALL: u8 = 1;
    /// Address, length, bytes.
    pub const DATA: u8 = 2;
    /// No operands: writes the dump now; for scripts that do not reach their end.
    pub const DUMP: u8 = 3;
    /// Pages: grows the memory and fills the new part with the mask.
    pub const GROW: u8 = 4;
}

/// Kinds of a word.
pub mod word {
    pub const CONST: u32 = 0;
    /// The 4 bytes at the address given by the value.
    pub const LOAD32: u32 = 1;
}

/// Bytes before the first operation: length of what follows, descriptor of the dump, flags.
pub const HEADER_BYTES: usize = 12;

/// Flag of the header: an answer that no function may return traps.
pub const TRAP_ON_BAD_ANSWER: u32 = 1;

/// Flag of the header: there is no dump at the end.
pub const NO_DUMP: u32 = 2;

/// The end of a dump: number of bytes of answers, number of bytes of memory, this value.
pub const MAGIC: u32 = 0x2121_7a6a;

/// The program that imports `snapshot`.
pub fn program(snapshot: Snapshot) -> &'static Program {
    static PREVIEW1: OnceLock<Program> = OnceLock::new();
    static UNSTABLE: OnceLock<Program> = OnceLock::new();
    let (cell, module) = match snapshot {
        Snapshot::Preview1 => (&PREVIEW1, "wasi_snapshot_preview1"),
        Snapshot::Unstable => (&UNSTABLE, "wasi_unstable"),
    };
    cell.get_or_init(|| {
        let module = Module::from_bytes("interpreter", text(module).into_bytes()).unwrap();
        let program = Program::new(support::engine(), &module).unwrap();
        assert_eq!(program.unknown_imports(), [""; 0]);
        program
    })
}

fn text(module: &str) -> String {
    let mut imports = String::new();
    let mut wrappers = String::new();
    let mut table = String::new();
    for (name, params) in FUNCTIONS {
        let words: Vec<&str> = params
            .iter()
            .flat_map(|(_, kind)| match kind {
                Kind::Word => &["i32"][..],
                Kind::Long => &["i64"],
                Kind::Pair => &["i32", "i32"],
            })
            .copied()
            .collect();
        let returns = *name != "proc_exit";
        let result = if returns { "(result i32)" } else { "" };
        writeln!(
            imports,
            r#"(import "{module}" "{name}" (func ${name} (param {}) {result}))"#,
            words.join(" ")
        )
        .unwrap();
        let mut args = String::new();
        for (index, word) in words.iter().enumerate() {
            let arg = format!("(call $word (i32.const {index}))");
            let wrapped = format!("(i32.wrap_i64 {arg})");
            args.push_str(if *word == "i32" { &wrapped } else { &arg });
        }
        let code = if returns { "" } else { "(i32.const 0)" };
        writeln!(wrappers, "(func $do_{name} (result i32) (call ${name} {args}) {code})").unwrap();
        write!(table, " $do_{name}").unwrap();
    }
    format!("(module {imports} {wrappers} (table funcref (elem{table})) {INTERPRETER})")
}

const INTERPRETER: &str = r#"
(type $do (func (result i32)))
(memory $m (export "memory") 1)
(memory $s 256)
;; The second memory: the script from 0, the answers from 2 MiB, the end of a dump below the copy
;; of the first memory, which begins at 3 MiB.
(global $answers_start i32 (i32.const 0x200000))
(global $trailer i32 (i32.const 0x2ffff0))
(global $copy i32 (i32.const 0x300000))
(global $answers (mut i32) (i32.const 0x200000))
(global $pc (mut i32) (i32.const 12))

(func $size (result i32) (i32.shl (memory.size $m) (i32.const 16)))

(func $keep (memory.copy $s $m (global.get $copy) (i32.const 0) (call $size)))

(func $min (param $a i32) (param $b i32) (result i32)
  (select (local.get $a) (local.get $b) (i32.lt_u (local.get $a) (local.get $b))))

;; Reads $len bytes of standard input to $to in the second memory.
(func $pull (param $to i32) (param $len i32) (local $n i32)
  (loop $more
    (if (i32.eqz (local.get $len)) (then (return)))
    (i32.store $m (i32.const 0) (i32.const 16))
    (i32.store $m (i32.const 4) (call $min (local.get $len) (i32.const 32768)))
    (if (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8))
      (then (unreachable)))
    (local.set $n (i32.load $m (i32.const 8)))
    (if (i32.eqz (local.get $n)) (then (unreachable)))
    (memory.copy $s $m (local.get $to) (i32.const 16) (local.get $n))
    (local.set $to (i32.add (local.get $to) (local.get $n)))
    (local.set $len (i32.sub (local.get $len) (local.get $n)))
    (br $more)))

;; Writes $len bytes from $from on in the second memory to the descriptor of the dump.
(func $push (param $from i32) (param $len i32) (local $n i32)
  (loop $more
    (if (i32.eqz (local.get $len)) (then (return)))
    (local.set $n (call $min (local.get $len) (i32.const 32768)))
    (memory.copy $m $s (i32.const 16) (local.get $from) (local.get $n))
    (i32.store $m (i32.const 0) (i32.const 16))
    (i32.store $m (i32.const 4) (local.get $n))
    (if (call $fd_write (i32.load $s (i32.const 4)) (i32.const 0) (i32.const 1) (i32.const 8))
      (then (unreachable)))
    (local.set $n (i32.load $m (i32.const 8)))
    (local.set $from (i32.add (local.get $from) (local.get $n)))
    (local.set $len (i32.sub (local.get $len) (local.get $n)))
    (br $more)))

(func $dump (local $len i32)
  (call $keep)
  (local.set $len (i32.sub (global.get $answers) (global.get $answers_start)))
  (call $push (global.get $answers_start) (local.get $len))
  (call $push (global.get $copy) (call $size))
  (i32.store $s (global.get $trailer) (local.get $len))
  (i32.store $s offset=4 (global.get $trailer) (call $size))
  (i32.store $s offset=8 (global.get $trailer) (i32.const 0x21217a6a))
  (call $push (global.get $trailer) (i32.const 12))
  (memory.copy $m $s (i32.const 0) (global.get $copy) (call $size)))

;; Word $k of the call at $pc.
(func $word (param $k i32) (result i64) (local $at i32) (local $value i64)
  (local.set $at (i32.add (global.get $pc) (i32.mul (local.get $k) (i32.const 12))))
  (local.set $value (i64.load $s offset=4 (local.get $at)))
  (if (result i64) (i32.load $s (local.get $at))
    (then (i64.load32_u $m (i32.wrap_i64 (local.get $value))))
    (else (local.get $value))))

;; Whether the first memory is not as it was kept.
(func $differs (result i32) (local $at i32) (local $end i32)
  (local.set $end (call $size))
  (loop $more
    (if (i64.ne (i64.load $m (local.get $at))
                (i64.load $s (i32.add (global.get $copy) (local.get $at))))
      (then (return (i32.const 1))))
    (local.set $at (i32.add (local.get $at) (i32.const 8)))
    (br_if $more (i32.lt_u (local.get $at) (local.get $end))))
  (i32.const 0))

(func $answer (param $answer i32)
  (i32.store $s (global.get $answers) (local.get $answer))
  (global.set $answers (i32.add (global.get $answers) (i32.const 4))))

(func $make_call (local $errno i32) (local $function i32) (local $words i32)
  (local.set $function (i32.load8_u $s offset=1 (global.get $pc)))
  (local.set $words (i32.load8_u $s offset=2 (global.get $pc)))
  (global.set $pc (i32.add (global.get $pc) (i32.const 3)))
  (call $keep)
  (local.set $errno (call_indirect (type $do) (local.get $function)))
  (global.set $pc
    (i32.add (global.get $pc) (i32.mul (local.get $words) (i32.const 12))))
  (if (local.get $errno)
    (then
      (if (call $differs)
        (then (local.set $errno (i32.or (local.get $errno) (i32.const 0x80000000)))))))
  ;; 76 is the last errno of preview1.
  (if (i32.and
        (i32.and (i32.load $s (i32.const 8)) (i32.const 1))
        (i32.gt_u (local.get $errno) (i32.const 76)))
    (then (unreachable)))
  (call $answer (local.get $errno)))

(func $put_data (local $len i32)
  (local.set $len (i32.load $s offset=5 (global.get $pc)))
  (memory.copy $m $s
    (i32.load $s offset=1 (global.get $pc))
    (i32.add (global.get $pc) (i32.const 9))
    (local.get $len))
  (global.set $pc (i32.add (global.get $pc) (i32.add (local.get $len) (i32.const 9)))))

(func $grow (local $old i32)
  (local.set $old (call $size))
  (if (i32.eq (memory.grow $m (i32.load $s offset=1 (global.get $pc))) (i32.const -1))
    (then (unreachable)))
  (memory.fill $m (local.get $old) (i32.const 0xa5) (i32.sub (call $size) (local.get $old)))
  (global.set $pc (i32.add (global.get $pc) (i32.const 5))))

(func (export "_start") (local $op i32)
  (call $pull (i32.const 0) (i32.const 12))
  (call $pull (i32.const 12) (i32.load $s (i32.const 0)))
  (memory.fill $m (i32.const 0) (i32.const 0xa5) (call $size))
  (loop $next
    (local.set $op (i32.load8_u $s (global.get $pc)))
    (if (i32.eq (local.get $op) (i32.const 1)) (then (call $make_call) (br $next)))
    (if (i32.eq (local.get $op) (i32.const 2)) (then (call $put_data) (br $next)))
    (if (i32.eq (local.get $op) (i32.const 4)) (then (call $grow) (br $next)))
    (if (i32.and (i32.load $s (i32.const 8)) (i32.const 2)) (then (return)))
    (call $dump)
    (global.set $pc (i32.add (global.get $pc) (i32.const 1)))
    (br_if $next (i32.eq (local.get $op) (i32.const 3)))))
"#;
