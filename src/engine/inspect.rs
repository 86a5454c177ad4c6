//! What can be told of a module before it is compiled.

use wasmparser::{Parser, Payload, TypeRef};

/// Whether a memory of the binary module `bytes` is shared, its own or an imported one. What cannot
/// be read is left to the compiler, which says what is wrong.
pub(super) fn has_shared_memory(bytes: &[u8]) -> bool {
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
            // Memories come before code, which takes long to walk.
            Ok(Payload::CodeSectionStart { .. }) | Err(_) => return false,
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
    fn shared_memories_are_seen() {
        let has = |text: &str| has_shared_memory(&wat::parse_str(text).unwrap());
        assert!(has("(module (memory 1 1 shared) (func))"));
        assert!(has(r#"(module (import "env" "memory" (memory 1 1 shared)))"#));
        assert!(!has(r#"(module (import "a" "f" (func)) (memory 1) (func))"#));
        assert!(!has_shared_memory(b"\0asm\x01\0\0\0\xff"));
    }
}
