//! Prepares a module before it is compiled, in the same way for every code generator, so that its results and its
//! interruption do not depend on which of them compiled it:
//!
//! - a NaN that arithmetic made has the same bits wherever the program could see them ([`nan`]);
//! - each loop, and each function that calls another, loads from the *stop page*, a memory that is added to the
//!   module. While the page cannot be read, the load is a trap. So a program that makes no system calls can be ended,
//!   and one that is not ended pays one load for that;
//! - the start function becomes an export, which is called when the stop page is known.
//!
//! Instructions are inserted into the bodies of functions; locals and the memory are added at the end of their index
//! spaces. So no index changes, and everything else is copied byte for byte.

mod function;
mod nan;
#[cfg(test)]
mod random_modules;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use rayon::prelude::*;
use wasm_encoder::{Encode, ExportKind, MemoryType};
use wasmparser::{
    FuncToValidate, FunctionBody, Parser, Payload, TypeRef, ValidPayload, Validator,
    ValidatorResources, WasmFeatures,
};

use function::Prepared;
pub(super) use nan::Form;

/// Version of what is inserted; part of the key of compiled code.
pub(super) const VERSION: u32 = 3;

/// Name of the export of the stop page.
pub(super) const STOP_PAGE: &str = "belljar:stop-page";

/// Name of the export of the start function.
pub(super) const START: &str = "belljar:start";

/// Size of the stop page in bytes: one page of WebAssembly.
const STOP_PAGE_BYTES: u64 = 64 << 10;

/// Ids of sections, in the order in which a module has them.
const SECTION_ORDER: [u8; 13] = [1, 2, 3, 4, 5, 13, 6, 7, 8, 9, 12, 10, 11];
const MEMORIES: u8 = 5;
const EXPORTS: u8 = 7;
const CODE: u8 = 10;

/// Custom sections with offsets into bodies of functions begin with this name.
const CODE_METADATA: &str = "metadata.code.";

/// What a module is prepared for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Target {
    pub form: Form,
    /// Whether the code generator merges loads from one address, so that the load in a loop would vanish behind one
    /// before it. Atomic ones stay.
    pub merges_loads: bool,
}

/// A module could not be prepared.
#[derive(thiserror::Error)]
pub(super) enum PrepareError {
    /// It is not valid.
    #[error(transparent)]
    Invalid(#[from] wasmparser::BinaryReaderError),
    /// It has an export of a name that is added.
    #[error("the name `{0}` of an export is reserved")]
    Reserved(&'static str),
    /// An instruction takes more operands than there are, which validation should have found.
    #[error("an instruction lacks operands (at offset {offset:#x})")]
    Operands {
        /// The instruction, in bytes from the start of the module.
        offset: usize,
    },
}

crate::base::readable::readable!(PrepareError);

/// A part of a module: a section, or the functions of the code section.
enum Part<'a> {
    Section { id: u8, content: &'a [u8] },
    Functions(Vec<(FuncToValidate<ValidatorResources>, FunctionBody<'a>)>),
}

/// Bytes of memory that were added to the prepared module `module`.
pub(super) fn added_bytes(module: &wasmtime::Module) -> u64 {
    if module.get_export(STOP_PAGE).is_some() { STOP_PAGE_BYTES } else { 0 }
}

/// Returns `bytes`, a valid module, prepared for `target`.
///
/// # Errors
/// The module is not valid, or exports [`STOP_PAGE`] or [`START`].
pub(in crate::engine) fn prepare(
    bytes: &[u8],
    target: Target,
) -> Result<Cow<'_, [u8]>, PrepareError> {
    let Module { parts, memories, start } = Module::read(bytes)?;
    let mut bodies = Vec::new();
    let mut has_stop_page = false;
    for part in &parts {
        let Part::Functions(functions) = part else { continue };
        let prepared =
            functions.par_iter().map_init(Default::default, |allocations, (function, body)| {
                Prepared::of(function, body, memories, target, allocations)
            });
        bodies = prepared.collect::<Result<Vec<_>, PrepareError>>()?;
        has_stop_page = bodies.iter().any(|body| body.loads_stop_page);
    }
    if start.is_none() && bodies.iter().all(Prepared::is_unchanged) {
        return Ok(Cow::Borrowed(bytes));
    }
    let added = Added { stop_memory: has_stop_page.then_some(memories), start };
    Ok(Cow::Owned(write(bytes.len(), &parts, &bodies, &added)))
}

struct Module<'a> {
    parts: Vec<Part<'a>>,
    /// Memories, with imported ones: the index of the next.
    memories: u32,
    /// The start function, whose section is not among the parts.
    start: Option<u32>,
}

impl<'a> Module<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, PrepareError> {
        let mut validator = Validator::new_with_features(WasmFeatures::all());
        let mut module = Self { parts: Vec::new(), memories: 0, start: None };
        let mut functions = Vec::new();
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload?;
            if let ValidPayload::Func(function, body) = validator.payload(&payload)? {
                functions.push((function, body));
                continue;
            }
            let section = payload.as_section();
            match payload {
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        module.memories += u32::from(matches!(import?.ty, TypeRef::Memory(_)));
                    }
                }
                Payload::MemorySection(defined) => module.memories += defined.count(),
                Payload::ExportSection(exports) => {
                    for export in exports {
                        let name = export?.name;
                        if let Some(reserved) =
                            [STOP_PAGE, START].into_iter().find(|it| *it == name)
                        {
                            return Err(PrepareError::Reserved(reserved));
                        }
                    }
                }
                Payload::StartSection { func, .. } => {
                    module.start = Some(func);
                    continue;
                }
                Payload::CustomSection(custom) if custom.name().starts_with(CODE_METADATA) => {
                    continue;
                }
                _ => {}
            }
            if !functions.is_empty() {
                module.parts.push(Part::Functions(std::mem::take(&mut functions)));
            }
            if let Some((id, range)) = section.filter(|(id, _)| *id != CODE) {
                module.parts.push(Part::Section { id, content: &bytes[range] });
            }
        }
        if !functions.is_empty() {
            module.parts.push(Part::Functions(functions));
        }
        Ok(module)
    }
}

/// What is added beside the bodies of functions.
struct Added {
    /// Index of the memory that is the stop page.
    stop_memory: Option<u32>,
    start: Option<u32>,
}

impl Added {
    /// The sections that get entries, last first: id, number of entries, entries.
    fn sections(&self) -> Vec<(u8, u32, Vec<u8>)> {
        let (mut exports, mut memories) = (Vec::new(), Vec::new());
        let mut count = 0;
        let mut export = |name: &str, kind: ExportKind, index: u32| {
            name.encode(&mut exports);
            kind.encode(&mut exports);
            index.encode(&mut exports);
            count += 1;
        };
        if let Some(start) = self.start {
            export(START, ExportKind::Func, start);
        }
        if let Some(index) = self.stop_memory {
            export(STOP_PAGE, ExportKind::Memory, index);
            let page = MemoryType {
                minimum: 1,
                maximum: Some(1),
                memory64: false,
                shared: false,
                page_size_log2: None,
            };
            page.encode(&mut memories);
        }
        let mut sections = vec![(EXPORTS, count, exports)];
        if !memories.is_empty() {
            sections.push((MEMORIES, 1, memories));
        }
        sections.retain(|(_, count, _)| *count > 0);
        sections
    }
}

/// Writes a module of `parts` with `bodies` and what is `added`.
fn write(len: usize, parts: &[Part<'_>], bodies: &[Prepared<'_>], added: &Added) -> Vec<u8> {
    let mut out = Vec::with_capacity(len + len / 8);
    out.extend_from_slice(b"\0asm\x01\0\0\0");
    let mut added = added.sections();
    for part in parts {
        let id = match part {
            Part::Section { id, .. } => *id,
            Part::Functions(_) => CODE,
        };
        while let Some((next, count, entries)) = added.pop_if(|(next, ..)| is_before(*next, id)) {
            new_section(&mut out, next, count, &entries);
        }
        match part {
            Part::Functions(_) => code_section(&mut out, bodies),
            Part::Section { content, .. } => match added.pop_if(|(next, ..)| *next == id) {
                None => section(&mut out, id, &[content]),
                Some((_, more, new)) => {
                    let (count, entries) = count_of(content);
                    let mut new_count = Vec::new();
                    (count + more).encode(&mut new_count);
                    section(&mut out, id, &[&new_count, entries, &new]);
                }
            },
        }
    }
    for (id, count, entries) in added.into_iter().rev() {
        new_section(&mut out, id, count, &entries);
    }
    out
}

/// Whether a section `added` comes before the section `id`, which may be a custom one.
fn is_before(added: u8, id: u8) -> bool {
    let place = |id| SECTION_ORDER.iter().position(|known| *known == id);
    place(id).is_some_and(|at| place(added).is_some_and(|added| added < at))
}

fn section(out: &mut Vec<u8>, id: u8, content: &[&[u8]]) {
    out.push(id);
    content.iter().map(|part| part.len()).sum::<usize>().encode(out);
    for part in content {
        out.extend_from_slice(part);
    }
}

fn new_section(out: &mut Vec<u8>, id: u8, count: u32, entries: &[u8]) {
    let mut new_count = Vec::new();
    count.encode(&mut new_count);
    section(out, id, &[&new_count, entries]);
}

fn code_section(out: &mut Vec<u8>, bodies: &[Prepared<'_>]) {
    let mut content = Vec::with_capacity(bodies.iter().map(|body| body.len() + 5).sum());
    bodies.len().encode(&mut content);
    for body in bodies {
        body.encode(&mut content);
    }
    section(out, CODE, &[&content]);
}

/// The count that a valid section begins with, and its entries.
fn count_of(content: &[u8]) -> (u32, &[u8]) {
    let mut reader = wasmparser::BinaryReader::new(content, 0);
    let count = reader.read_var_u32().unwrap_or_default();
    (count, &content[reader.original_position()..])
}
