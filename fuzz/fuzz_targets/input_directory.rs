//! A directory of the inputs of an action: nothing panics, and names that are taken are names.
#![no_main]

use std::path::{Component, Path};

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(names) = belljar::cli::names_in_input_directory(bytes) else { return };
    for pair in names.windows(2) {
        assert!(pair[0] < pair[1], "{pair:?}");
    }
    for name in names {
        let mut components = Path::new(&name).components();
        assert!(matches!(components.next(), Some(Component::Normal(first)) if first == &*name), "{name:?}");
        assert!(components.next().is_none() && !name.contains('\0'), "{name:?}");
    }
});
