//! Checks of a module before it is compiled.

use wasmparser::types::Types;
use wasmparser::{Parser, Payload, TypeRef, Validator, WasmFeatures};

use super::module::Encoding;
use super::{Module, ProgramError};

/// Checks that `bytes`, the binary form of `module`, can be compiled; `knows_all` knows all instructions.
///
/// # Errors
/// [`ProgramError`]: `SharedMemory`, `Invalid`.
pub(super) fn expect_valid(
    knows_all: &wasmtime::Engine,
    module: &Module,
    bytes: &[u8],
) -> Result<(), ProgramError> {
    let name = || module.name().to_owned();
    if has_shared_memory(bytes, module.encoding()) {
        return Err(ProgramError::SharedMemory { name: name() });
    }
    if module.encoding() == Encoding::Component {
        return component_types(module, bytes).map(drop);
    }
    let valid = wasmtime::Module::validate(knows_all, bytes);
    valid.map_err(|error| ProgramError::Invalid { name: name(), message: format!("{error:#}") })
}

/// The types of the component `module`, whose binary form is `bytes`.
///
/// # Errors
/// [`ProgramError::Invalid`].
pub(super) fn component_types(module: &Module, bytes: &[u8]) -> Result<Types, ProgramError> {
    let valid = Validator::new_with_features(WasmFeatures::all()).validate_all(bytes);
    valid.map_err(|error| ProgramError::Invalid {
        name: module.name().to_owned(),
        message: error.to_string(),
    })
}

/// Returns whether the binary `bytes`, or a module of a component, has or imports a shared memory. False if it cannot be
/// parsed: the compiler reports that.
fn has_shared_memory(bytes: &[u8], encoding: Encoding) -> bool {
    for payload in Parser::new(0).parse_all(bytes) {
        let found = match payload {
            Ok(Payload::ImportSection(imports)) => {
                imports.into_imports().any(|import| match import.map(|import| import.ty) {
                    Ok(TypeRef::Memory(memory)) => memory.shared,
                    _ => false,
                })
            }
            Ok(Payload::MemorySection(memories)) => {
                memories.into_iter().any(|memory| memory.is_ok_and(|memory| memory.shared))
            }
            // Memories of a module come before code, which is slow to parse.
            Ok(Payload::CodeSectionStart { .. }) if encoding == Encoding::Module => return false,
            Err(_) => return false,
            Ok(_) => false,
        };
        if found {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_is_detected() {
        let has = |text: &str| has_shared_memory(&wat::parse_str(text).unwrap(), Encoding::Module);
        assert!(has("(module (memory 1 1 shared) (func))"));
        assert!(has(r#"(module (import "env" "memory" (memory 1 1 shared)))"#));
        assert!(!has(r#"(module (import "a" "f" (func)) (memory 1) (func))"#));
        assert!(!has_shared_memory(b"\0asm\x01\0\0\0\xff", Encoding::Module));
    }
}
