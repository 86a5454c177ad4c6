//! Prepared modules do what the original does, on each code generator.

use std::fmt::Write;

use wasmtime::{AsContextMut, Config, Engine, ExternType, Instance, OptLevel, Store, Trap, Val};

use super::random_modules::{Random, RandomModule, module};
use super::*;
use crate::base::ambient;
use crate::engine::generator::Generator;
use crate::engine::{Encoding, EngineConfig};

/// What the simplest code generator gets.
const SIMPLE: Target = Target { form: Form::Scalar, merges_loads: false };

/// Functions of a module.
const FUNCTIONS: usize = 40;

/// Calls of each function.
const CALLS: usize = 3;

/// Functions in all, unless `BELLJAR_TEST_FLOAT_FUNCTIONS` says otherwise.
const FUNCTIONS_TESTED: u64 = 1600;

/// A code generator, and whether it gets prepared modules.
struct Way {
    name: &'static str,
    engine: Engine,
    /// How modules are prepared; `None`: they are not.
    form: Option<Form>,
    merges_loads: bool,
}

impl Way {
    fn all() -> Vec<Self> {
        let mut own = Config::new();
        own.cranelift_opt_level(OptLevel::Speed)
            .cranelift_nan_canonicalization(true)
            .relaxed_simd_deterministic(true)
            .wasm_relaxed_simd(true);
        let mut ways = vec![Self {
            name: "Cranelift that replaces NaNs itself",
            engine: Engine::new(&own).unwrap(),
            form: None,
            merges_loads: true,
        }];
        for (name, generator, form) in [
            ("optimizing", Generator::Optimizing, Form::Vector),
            ("optimizing, scalar", Generator::Optimizing, Form::Scalar),
            ("Winch", Generator::Winch, Form::Scalar),
            ("single pass", Generator::SinglePass, Form::Scalar),
        ] {
            let engine =
                Engine::new(&generator.settings(&EngineConfig::default(), Encoding::Module, 0))
                    .unwrap();
            let merges_loads = generator == Generator::Optimizing;
            ways.push(Self { name, engine, form: Some(form), merges_loads });
        }
        ways
    }

    /// All that can be observed of calls of all functions; `None` if this generator does not take the module.
    fn observe(&self, original: &RandomModule, seed: u64) -> Option<Vec<String>> {
        let bytes = match self.form {
            Some(form) => {
                prepare(&original.bytes, Target { form, merges_loads: self.merges_loads }).unwrap()
            }
            None => Cow::Borrowed(&original.bytes[..]),
        };
        wasmparser::Validator::new_with_features(WasmFeatures::all()).validate_all(&bytes).unwrap();
        let module = match wasmtime::Module::new(&self.engine, &bytes) {
            Ok(module) => module,
            Err(error) if self.name == "Winch" => {
                let error = format!("{error:#}");
                assert!(error.contains("relaxed"), "Winch refuses: {error}");
                return None;
            }
            Err(error) => panic!("{}: {error:#}", self.name),
        };
        let mut store = Store::new(&self.engine, ());
        let instance = instantiate(&mut store, &module);
        let mut random = Random(seed);
        let mut observed = Vec::new();
        for (index, signature) in original.functions.iter().enumerate() {
            for _ in 0..CALLS {
                let args: Vec<Val> =
                    signature.params.iter().map(|ty| arg(&mut random, *ty)).collect();
                let function = instance.get_func(&mut store, &index.to_string()).unwrap();
                let mut results = vec![Val::I32(0); signature.results.len()];
                match call(&mut store, function, &args, &mut results) {
                    Ok(()) => observed.push(format!("{index}{args:?} = {results:?}")),
                    Err(error) => {
                        let trap = error.downcast_ref::<Trap>();
                        observed.push(format!("{index}{args:?} traps: {trap:?}"));
                    }
                }
            }
        }
        for index in 0..5 {
            let global = instance.get_global(&mut store, &format!("g{index}")).unwrap();
            observed.push(format!("{:?}", global.get(&mut store)));
        }
        let memory = instance.get_memory(&mut store, "memory").unwrap();
        observed.push(format!("{:?}", &memory.data(&store)[..512]));
        Some(observed)
    }
}

/// The engines of the program have asynchronous stacks.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn instantiate(store: &mut Store<()>, module: &wasmtime::Module) -> Instance {
    block_on(Instance::new_async(store, module, &[])).unwrap()
}

fn call(
    store: &mut Store<()>,
    function: wasmtime::Func,
    args: &[Val],
    results: &mut [Val],
) -> wasmtime::Result<()> {
    block_on(function.call_async(store.as_context_mut(), args, results))
}

fn arg(random: &mut Random, ty: wasm_encoder::ValType) -> Val {
    match ty {
        wasm_encoder::ValType::I32 => Val::I32(random.bits_32().cast_signed()),
        wasm_encoder::ValType::I64 => Val::I64(random.bits_64().cast_signed()),
        wasm_encoder::ValType::F32 => Val::F32(random.bits_32()),
        wasm_encoder::ValType::F64 => Val::F64(random.bits_64()),
        _ => {
            let (low, high) = (u128::from(random.bits_64()), u128::from(random.bits_64()));
            Val::V128((low | high << 64).into())
        }
    }
}

#[test]
fn float_programs_give_the_same_bits_on_each_code_generator() {
    let setting = |name: &str| {
        let text = ambient::setting(name)?.into_string().unwrap();
        Some(text.parse::<u64>().unwrap())
    };
    let count = setting("BELLJAR_TEST_FLOAT_FUNCTIONS").unwrap_or(FUNCTIONS_TESTED);
    let first = setting("BELLJAR_TEST_FLOAT_SEED").unwrap_or(1);
    let ways = Way::all();
    (0..count.div_ceil(FUNCTIONS as u64)).into_par_iter().for_each(|index| {
        let seed = first + index;
        let mut random = Random(seed);
        let relaxed = index % 8 == 0;
        let original = module(&mut random, FUNCTIONS, relaxed);
        let expected = ways[0].observe(&original, seed).unwrap();
        for way in &ways[1..] {
            let Some(found) = way.observe(&original, seed) else { continue };
            for (expected, found) in expected.iter().zip(&found) {
                assert_eq!(
                    found, expected,
                    "{}, BELLJAR_TEST_FLOAT_SEED={seed} BELLJAR_TEST_FLOAT_FUNCTIONS=1",
                    way.name
                );
            }
        }
    });
}

fn prepared(text: &str) -> String {
    let bytes = wat::parse_str(text).unwrap();
    let prepared = prepare(&bytes, SIMPLE).unwrap().into_owned();
    wasmparser::Validator::new_with_features(WasmFeatures::all()).validate_all(&prepared).unwrap();
    operators_of(&prepared)
}

/// The operators of all functions, one a line.
fn operators_of(bytes: &[u8]) -> String {
    let mut out = String::new();
    for payload in Parser::new(0).parse_all(bytes) {
        if let Payload::CodeSectionEntry(body) = payload.unwrap() {
            for operator in body.get_operators_reader().unwrap() {
                writeln!(out, "{:?}", operator.unwrap()).unwrap();
            }
        }
    }
    out
}

/// Regression: the low half of a number in a vector of doubles is a NaN of a vector of floats.
#[test]
fn numbers_in_one_kind_of_vector_are_not_replaced_as_the_other_kind() {
    let text = r#"(module (func (export "f") (result v128)
        (select (f64x2.convert_low_i32x4_s (v128.const i32x4 0x7fffffff 1 0 0))
            (f32x4.add (v128.const f32x4 1 1 1 1) (v128.const f32x4 1 1 1 1)) (i32.const 1))))"#;
    let original = wat::parse_str(text).unwrap();
    for way in Way::all() {
        let target = way.form.map(|form| Target { form, merges_loads: way.merges_loads });
        let bytes =
            target.map_or(Cow::Borrowed(&original[..]), |it| prepare(&original, it).unwrap());
        let module = wasmtime::Module::new(&way.engine, &bytes).unwrap();
        let mut store = Store::new(&way.engine, ());
        let instance = instantiate(&mut store, &module);
        let function = instance.get_func(&mut store, "f").unwrap();
        let mut results = [Val::I32(0)];
        call(&mut store, function, &[], &mut results).unwrap();
        let Val::V128(lanes) = results[0] else { panic!("no vector") };
        let expected = u128::from(2_147_483_647_f64.to_bits()) | u128::from(1_f64.to_bits()) << 64;
        assert_eq!(lanes.as_u128(), expected, "{}", way.name);
    }
}

/// The test above can fail: modules that are not prepared show other NaNs.
#[test]
fn float_programs_that_are_not_prepared_show_other_bits() {
    let mut ways = Way::all();
    let unprepared = Way { form: None, ..ways.remove(1) };
    let differs = |seed: u64| {
        let original = module(&mut Random(seed), FUNCTIONS, false);
        unprepared.observe(&original, seed) != ways[0].observe(&original, seed)
    };
    let count = (1..20).filter(|seed| differs(*seed)).count();
    assert!(count > 10, "only {count} of 19 modules show NaNs");
}

#[test]
fn code_without_loops_calls_and_floats_stays_as_it_is() {
    let bytes =
        wat::parse_str("(module (memory 1) (func (drop (i32.load (i32.const 0)))))").unwrap();
    assert!(matches!(prepare(&bytes, SIMPLE).unwrap(), Cow::Borrowed(_)));
}

#[test]
fn loops_and_functions_with_calls_load_from_the_stop_page() {
    let loads = |text: &str| prepared(text).matches("I32Load8U").count();
    assert_eq!(loads("(module (func (loop (br 0))))"), 1);
    assert_eq!(loads("(module (func (loop (loop (br 1)))))"), 2);
    assert_eq!(loads("(module (func $f (call $f)))"), 1);
    assert_eq!(loads("(module (func $f (loop (call $f))))"), 2);
    assert_eq!(loads("(module (func (block (br 0))))"), 0);
    // Loads that a compiler could merge are atomic.
    let bytes = wat::parse_str("(module (func (loop (br 0))))").unwrap();
    let merging = Target { form: Form::Vector, merges_loads: true };
    assert!(operators_of(&prepare(&bytes, merging).unwrap()).contains("I32AtomicLoad8U"));
    // Loops of float code, too.
    let float =
        "(module (func (param f32) (result f32) (loop) (f32.add (local.get 0) (local.get 0))))";
    assert_eq!(loads(float), 1);
}

#[test]
fn nans_are_replaced_only_where_their_bits_can_be_seen() {
    let replaces = |body: &str| {
        let text = format!("(module (memory 1) (func (param f64 f64) (local f64) {body}))");
        prepared(&text).matches("F64Eq").count()
    };
    let sum = "(f64.add (local.get 0) (local.get 1))";
    assert_eq!(replaces(&format!("(drop (f64.mul {sum} {sum}))")), 0);
    assert_eq!(replaces(&format!("(drop (f64.lt {sum} {sum}))")), 0);
    assert_eq!(replaces(&format!("(local.set 2 {sum}) (drop (f64.sqrt (local.get 2)))")), 0);
    assert_eq!(replaces(&format!("(f64.store (i32.const 0) (f64.mul {sum} {sum}))")), 1);
    assert_eq!(replaces(&format!("(drop (i64.reinterpret_f64 {sum}))")), 1);
    assert_eq!(replaces(&format!("(drop (f64.neg {sum}))")), 1);
    assert_eq!(replaces(&format!("(drop (f64.copysign {sum} {sum}))")), 2);
    // What was loaded keeps its bits.
    assert_eq!(replaces("(f64.store (i32.const 0) (f64.load (i32.const 8)))"), 0);
}

#[test]
fn reserved_exports_are_refused() {
    for name in [STOP_PAGE, START] {
        let text = format!("(module (func (export {name:?})))");
        let refused = prepare(&wat::parse_str(text).unwrap(), SIMPLE).unwrap_err();
        assert_eq!(refused.to_string(), format!("the name `{name}` of an export is reserved"));
    }
}

#[test]
fn what_is_added_is_last_and_the_start_function_becomes_an_export() {
    let text = r#"(module
        (memory (export "memory") 1)
        (global (mut i32) (i32.const 0))
        (func $init (loop (br_if 0 (i32.const 0))))
        (start $init)
        (data (i32.const 0) "x"))"#;
    let bytes = wat::parse_str(text).unwrap();
    let prepared = prepare(&bytes, SIMPLE).unwrap();
    let engine = Engine::default();
    let module = wasmtime::Module::new(&engine, &prepared).unwrap();
    let exports: Vec<_> = module.exports().map(|export| export.name().to_owned()).collect();
    assert_eq!(exports, ["memory", START, STOP_PAGE]);
    assert!(matches!(module.get_export(START), Some(ExternType::Func(_))));
    assert_eq!(module.resources_required().num_memories, 2);
    assert_eq!(added_bytes(&module), STOP_PAGE_BYTES);
}

#[test]
fn invalid_modules_are_refused() {
    let valid = wat::parse_str(
        "(module (memory 1) (func (result f32) (f32.add (f32.const 1) (f32.const 2))))",
    )
    .unwrap();
    for end in 8..valid.len() {
        let _ = prepare(&valid[..end], SIMPLE);
    }
    for at in 8..valid.len() {
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = valid.clone();
            damaged[at] = byte;
            let _ = prepare(&damaged, SIMPLE);
        }
    }
}
