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

/// The worlds, and a core module for each that has all its imports and exports. Those of WASI 0.3 are there once for each way
/// in which a core module calls asynchronous functions.
static WORLDS: LazyLock<Vec<(Resolve, WorldId, Vec<u8>)>> = LazyLock::new(|| {
    use LiftLowerAbi::{AsyncCallback, Sync};
    let components: [(&[u8], &[LiftLowerAbi]); 4] = [
        (include_bytes!("../../tests/guests/preview2_calls.wasm"), &[Sync]),
        (include_bytes!("../../tests/guests/http_calls.wasm"), &[Sync]),
        (include_bytes!("../../tests/guests/process_calls.wasm"), &[Sync]),
        (include_bytes!("../../tests/guests/preview3_calls.wasm"), &[Sync, AsyncCallback]),
    ];
    let world = |(bytes, abi): (&[u8], LiftLowerAbi)| {
        let decoded = decode(bytes).expect("it is a component");
        let DecodedWasm::Component(resolve, world) = decoded else { panic!("it has a world") };
        let dummy = dummy_module(&resolve, world, ManglingAndAbi::Legacy(abi));
        (resolve, world, dummy)
    };
    let of = |(bytes, abis): (&'static [u8], &'static [LiftLowerAbi])| {
        abis.iter().map(move |abi| (bytes, *abi))
    };
    components.into_iter().flat_map(of).map(world).collect()
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
