//! A random module with imports of belljar: it does no harm, and two runs of it are the same, also one that is answered
//! from the results of an earlier one.
#![no_main]

use std::sync::{Arc, LazyLock};

use belljar::kernel::vfs::{VPath, render_unified_diff};
use belljar::results::{ResultCache, Results};
use belljar::{Command, Module, Program};
use belljar_fuzz::{ENGINE, machine};
use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
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
        available_imports: Some(IMPORTS.clone()),
        exports: Some(EXPORTS.clone()),
        min_imports: 5,
        max_imports: 30,
        min_memories: 1,
        max_memories: 1,
        max_memory32_bytes: 4 << 20,
        memory64_enabled: false,
        threads_enabled: false,
        shared_everything_threads_enabled: false,
        max_table_elements: 1000,
        min_funcs: 1,
        max_funcs: 8,
        allow_start_export: true,
        ..Config::arbitrary(input)?
    };
    Ok(wasm_smith::Module::new(config, input)?.to_bytes())
}

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Ok(bytes) = module(&mut Unstructured::new(bytes)) else { return Corpus::Reject };
    let Ok(module) = Module::from_bytes("fuzz", bytes) else { return Corpus::Keep };
    let Ok(program) = Program::new(&ENGINE, &module) else { return Corpus::Keep };
    let run = |results: Option<&Arc<Results>>| {
        let mut machine = machine();
        machine.set_results(results.cloned());
        let output = Command::new(&program).output(&mut machine);
        let changes = machine.vfs_mut().diff();
        let changes = changes.and_then(|changes| render_unified_diff(&changes, &VPath::root()));
        let changes = changes.map_err(|error| error.to_string());
        let output = output.map_err(|error| error.to_string());
        (output.map(|it| (it.status.outcome().clone(), it.stdout, it.stderr)), changes)
    };
    let (first, second) = (run(None), run(None));
    assert!(first == second, "two runs differ: {first:?} {second:?}");
    RESULTS.cache().clear().expect("the cache can be cleared");
    for _ in 0..2 {
        let known = run(Some(&RESULTS));
        assert!(first == known, "a run with results differs: {first:?} {known:?}");
    }
    Corpus::Keep
});
