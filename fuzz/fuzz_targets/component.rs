//! A random component over the interfaces that belljar has: it does no harm, and two runs of it are the same.
//!
//! Its world is that of a component of the tests; its code, which calls what that imports with random values, is random.
#![no_main]

use std::sync::LazyLock;

use belljar::kernel::vfs::{VPath, render_unified_diff};
use belljar::{Command, Module, Program};
use belljar_fuzz::{ENGINE, machine};
use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
use libfuzzer_sys::{Corpus, fuzz_target};
use wasm_smith::Config;
use wit_component::{
    ComponentEncoder, DecodedWasm, StringEncoding, decode, dummy_module, embed_component_metadata,
};
use wit_parser::{LiftLowerAbi, ManglingAndAbi, Resolve, WorldId};

/// The worlds, and a core module for each that has all its imports and exports.
static WORLDS: LazyLock<Vec<(Resolve, WorldId, Vec<u8>)>> = LazyLock::new(|| {
    let components: [&[u8]; 3] = [
        include_bytes!("../../tests/guests/preview2_calls.wasm"),
        include_bytes!("../../tests/guests/http_calls.wasm"),
        include_bytes!("../../tests/guests/process_calls.wasm"),
    ];
    let world = |bytes: &&[u8]| {
        let decoded = decode(bytes).expect("it is a component");
        let DecodedWasm::Component(resolve, world) = decoded else { panic!("it has a world") };
        let abi = ManglingAndAbi::Legacy(LiftLowerAbi::Sync);
        let dummy = dummy_module(&resolve, world, abi);
        (resolve, world, dummy)
    };
    components.iter().map(world).collect()
});

fn component(input: &mut Unstructured<'_>) -> arbitrary::Result<Option<Vec<u8>>> {
    let (resolve, world, dummy) = input.choose(&WORLDS)?;
    let config = Config {
        available_imports: Some(dummy.clone()),
        exports: Some(dummy.clone()),
        min_imports: 5,
        max_imports: 60,
        min_memories: 1,
        max_memories: 1,
        max_memory32_bytes: 4 << 20,
        memory64_enabled: false,
        threads_enabled: false,
        shared_everything_threads_enabled: false,
        max_table_elements: 1000,
        min_funcs: 1,
        max_funcs: 8,
        allow_start_export: false,
        ..Config::arbitrary(input)?
    };
    let mut core = wasm_smith::Module::new(config, input)?.to_bytes();
    if embed_component_metadata(&mut core, resolve, *world, StringEncoding::UTF8).is_err() {
        return Ok(None);
    }
    let encoder = ComponentEncoder::default().module(&core);
    Ok(encoder.and_then(|mut encoder| encoder.encode()).ok())
}

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Ok(Some(bytes)) = component(&mut Unstructured::new(bytes)) else { return Corpus::Reject };
    let Ok(module) = Module::from_bytes("fuzz", bytes) else { return Corpus::Keep };
    let Ok(program) = Program::new(&ENGINE, &module) else { return Corpus::Keep };
    let run = || {
        let mut machine = machine();
        let output = Command::new(&program).output(&mut machine);
        let changes = machine.vfs_mut().diff();
        let changes = changes.and_then(|changes| render_unified_diff(&changes, &VPath::root()));
        let changes = changes.map_err(|error| error.to_string());
        let output = output.map_err(|error| error.to_string());
        (output.map(|it| (it.status.outcome().clone(), it.stdout, it.stderr)), changes)
    };
    let (first, second) = (run(), run());
    assert!(first == second, "two runs differ: {first:?} {second:?}");
    Corpus::Keep
});
