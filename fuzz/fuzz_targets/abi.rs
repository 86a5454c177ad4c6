//! A random module with imports of belljar: it does no harm, and two runs of it are the same, also one that is answered
//! from the results of an earlier one.
#![no_main]

use std::sync::{Arc, LazyLock};

use belljar::results::{ResultCache, Results};
use belljar::{Module, Program};
use belljar_fuzz::{ENGINE, core_config, run};
use libfuzzer_sys::arbitrary::{self, Unstructured};
use libfuzzer_sys::{Corpus, fuzz_target};
use wasm_smith::Config;

static IMPORTS: LazyLock<Vec<u8>> =
    LazyLock::new(|| wat::parse_str(include_str!("imports.wat")).expect("it is a module"));

static EXPORTS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    wat::parse_str(r#"(module (func (export "_start")) (memory (export "memory") 1))"#)
        .expect("it is a module")
});

static RESULTS: LazyLock<Arc<Results>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("there is room for results").keep();
    Arc::new(Results::new(ResultCache::new(&folder)))
});

fn module(input: &mut Unstructured<'_>) -> arbitrary::Result<Vec<u8>> {
    let config = Config {
        max_imports: 30,
        allow_start_export: true,
        ..core_config(input, &IMPORTS, &EXPORTS)?
    };
    Ok(wasm_smith::Module::new(config, input)?.to_bytes())
}

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Ok(bytes) = module(&mut Unstructured::new(bytes)) else { return Corpus::Reject };
    let Ok(module) = Module::from_bytes("fuzz", bytes) else { return Corpus::Keep };
    let Ok(program) = Program::new(&ENGINE, &module) else { return Corpus::Keep };
    let (first, second) = (run(&program, None), run(&program, None));
    assert!(first == second, "two runs differ: {first:?} {second:?}");
    RESULTS.cache().clear().expect("the cache can be cleared");
    for _ in 0..2 {
        let known = run(&program, Some(&RESULTS));
        assert!(first == known, "a run with results differs: {first:?} {known:?}");
    }
    Corpus::Keep
});
