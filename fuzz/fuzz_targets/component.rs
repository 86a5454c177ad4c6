//! A random component over the interfaces that belljar has: it does no harm, and two runs of it are the same.
//!
//! Its world is that of a component of the tests; its code, which calls what that imports with random values, is random.
#![no_main]

use std::sync::LazyLock;

use belljar::{Module, Program};
use belljar_fuzz::{ENGINE, core_config, run};
use libfuzzer_sys::arbitrary::{self, Unstructured};
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
    let config =
        Config { max_imports: 60, allow_start_export: false, ..core_config(input, dummy, dummy)? };
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
    let (first, second) = (run(&program, None), run(&program, None));
    assert!(first == second, "two runs differ: {first:?} {second:?}");
    Corpus::Keep
});
