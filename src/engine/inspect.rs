//! What a module is and needs, for people to see.

use std::collections::BTreeSet;

use wasm_encoder::RawSection;
use wasmparser::component_types::ComponentEntityType;
use wasmparser::{
    BinaryReaderError, CompositeInnerType, ExternalKind, Operator, Parser, Payload, TypeRef,
};
use wasmtime::component;

use super::generator::Generator;
use super::module::Encoding;
use super::validate::{component_types, expect_valid};
use super::{Engine, Module, Program, ProgramError};
use crate::abi::belljar;
use crate::abi::interface::{Interface, RUNS};

/// The proposal that components are.
const COMPONENT_MODEL: &str = "component-model";

/// What a module needs and is, by its sections and instructions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModuleInfo {
    /// It exports the function `_start`, or the interface `wasi:cli/run`: it is a program, not a library.
    pub is_command: bool,
    /// The functions that it exports, in their order; all exports of a component.
    pub exports: Vec<String>,
    /// What it imports, as pairs of module, or interface, and name.
    pub imports: BTreeSet<(String, String)>,
    /// Those of them that belljar does not define, as `module.name`. A call of such a function is a trap.
    pub unknown_imports: Vec<String>,
    /// The proposals that were added to WebAssembly since its first version, and that it uses.
    pub proposals: BTreeSet<String>,
}

impl ModuleInfo {
    /// Parses `module`. `engine` links what it imports; it needs no cache.
    ///
    /// # Errors
    /// [`ProgramError`]: `Invalid`, `SharedMemory`, `Import` and `Mismatch`, as for [`Program::new`].
    pub fn of(engine: &Engine, module: &Module) -> Result<Self, ProgramError> {
        if module.encoding() == Encoding::Component {
            return Self::of_component(engine, module);
        }
        let bytes = module.bytes()?;
        let knows_all =
            engine.0.backends.first(engine.config(), Generator::Optimizing, module.encoding())?;
        expect_valid(&knows_all.engine, module, &bytes)?;
        let mut found = Found::default();
        found.parse(&bytes).map_err(|error| ProgramError::Invalid {
            name: module.name().to_owned(),
            message: error.to_string(),
        })?;
        // A module of the imports alone compiles at once, and is linked as the whole one would be.
        let stub = Module::from_bytes(module.name(), found.imports_only.finish())?;
        let unknown_imports = Program::new(engine, &stub)?.unknown_imports().to_vec();
        let Found { exports, imports, proposals, .. } = found;
        let is_command = exports.iter().any(|name| name == "_start");
        let proposals = proposals.into_iter().map(usual_name).collect();
        Ok(Self { is_command, exports, imports, unknown_imports, proposals })
    }

    /// As [`ModuleInfo::of`]: the interfaces stand for modules, and the exports are all that it exports.
    fn of_component(engine: &Engine, component: &Module) -> Result<Self, ProgramError> {
        let invalid =
            |message: String| ProgramError::Invalid { name: component.name().to_owned(), message };
        let bytes = component.bytes()?;
        let types = component_types(component, &bytes)?;
        let types = types.as_ref();
        let names = outer_names(&bytes).map_err(|error| invalid(error.to_string()))?;
        let backends = &engine.0.backends;
        let backend =
            backends.first(engine.config(), Generator::Optimizing, Encoding::Component)?;
        let mut linker = component::Linker::new(&backend.engine);
        let (mut imports, mut unknown_imports) = (BTreeSet::new(), Vec::new());
        for interface in &names.imports {
            let item = types.component_item_for_import(interface).map(|item| item.ty);
            let Some(ComponentEntityType::Instance(instance)) = item else {
                imports.insert((interface.to_owned(), String::new()));
                unknown_imports.push(interface.to_owned());
                continue;
            };
            let mut defined = linker.instance(interface).map_err(|it| invalid(it.to_string()))?;
            for (name, item) in &types[instance].exports {
                let ComponentEntityType::Func(function) = item.ty else { continue };
                let is_async = types[function].async_;
                imports.insert((interface.to_owned(), name.clone()));
                let is_known = Interface::of(interface).is_some_and(|known| {
                    known.define_function(&mut defined, name, is_async).unwrap_or(false)
                });
                if !is_known {
                    unknown_imports.push(format!("{interface}#{name}"));
                }
            }
        }
        let exports = names.exports;
        let is_command = exports.iter().any(|name| RUNS.iter().any(|run| name.starts_with(run)));
        let proposals = BTreeSet::from([COMPONENT_MODEL.to_owned()]);
        Ok(Self { is_command, exports, imports, unknown_imports, proposals })
    }

    /// Whether it is a component, not a module.
    pub fn is_component(&self) -> bool {
        self.proposals.contains(COMPONENT_MODEL)
    }

    /// Whether it can ask its host for operations by name. What it does depends on the answers, too, where a run has any.
    pub fn asks_host(&self) -> bool {
        let asks = |(module, name): &(String, String)| match Interface::of(module) {
            Some(Interface::Preview2("belljar:host/calls")) => name == "call",
            Some(Interface::Preview2("wasi:http/outgoing-handler")) => true,
            Some(_) => false,
            None => module == belljar::MODULE && name == "host_call",
        };
        self.imports.iter().any(asks)
    }
}

/// The names of what a component itself imports and exports, in their order.
#[derive(Default)]
struct OuterNames {
    imports: Vec<String>,
    exports: Vec<String>,
}

/// Those of the valid component `bytes`.
fn outer_names(bytes: &[u8]) -> Result<OuterNames, BinaryReaderError> {
    let (mut names, mut depth) = (OuterNames::default(), 0_u32);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(imports) if depth == 0 => {
                for import in imports {
                    names.imports.push(import?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(exports) if depth == 0 => {
                for export in exports {
                    names.exports.push(export?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(names)
}

#[derive(Default)]
struct Found {
    exports: Vec<String>,
    imports: BTreeSet<(String, String)>,
    /// As wasmparser calls them.
    proposals: BTreeSet<&'static str>,
    memories: usize,
    /// Its types and imports.
    imports_only: wasm_encoder::Module,
}

impl Found {
    fn parse(&mut self, bytes: &[u8]) -> Result<(), BinaryReaderError> {
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::TypeSection(types) => {
                    self.keep(1, bytes, types.range());
                    for group in types {
                        for ty in group?.types() {
                            match &ty.composite_type.inner {
                                CompositeInnerType::Func(ty) if ty.results().len() > 1 => {
                                    self.proposals.insert("multi_value");
                                }
                                CompositeInnerType::Func(_) => {}
                                _ => drop(self.proposals.insert("gc")),
                            }
                        }
                    }
                }
                Payload::ImportSection(imports) => {
                    self.keep(2, bytes, imports.range());
                    for import in imports.into_imports() {
                        let import = import?;
                        if let TypeRef::Memory(memory) = import.ty {
                            self.memory(memory.memory64);
                        }
                        self.imports.insert((import.module.to_owned(), import.name.to_owned()));
                    }
                }
                Payload::MemorySection(section) => {
                    for memory in section {
                        self.memory(memory?.memory64);
                    }
                }
                Payload::TagSection(_) => drop(self.proposals.insert("exceptions")),
                Payload::ExportSection(exports) => {
                    for export in exports {
                        let export = export?;
                        if export.kind == ExternalKind::Func {
                            self.exports.push(export.name.to_owned());
                        }
                    }
                }
                Payload::CodeSectionEntry(body) => {
                    for operator in body.get_operators_reader()? {
                        self.proposals.extend(proposal(&operator?));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn memory(&mut self, is_64: bool) {
        self.memories += 1;
        if self.memories > 1 {
            self.proposals.insert("multi_memory");
        }
        if is_64 {
            self.proposals.insert("memory64");
        }
    }

    fn keep(&mut self, id: u8, bytes: &[u8], range: std::ops::Range<usize>) {
        self.imports_only.section(&RawSection { id, data: &bytes[range] });
    }
}

/// The proposal that `operator` comes from, as wasmparser calls it; `None` if it was always there.
fn proposal(operator: &Operator<'_>) -> Option<&'static str> {
    macro_rules! name_of {
        ($( @$proposal:ident $operator:ident $({ $($field:ident: $type:ty),* })? => $visit:ident ($($arity:tt)*) )*) => {
            match operator {
                $( Operator::$operator { .. } => stringify!($proposal), )*
                _ => "unknown",
            }
        };
    }
    let name = wasmparser::for_each_operator!(name_of);
    (name != "mvp").then_some(name)
}

/// The name that specifications give the proposal which wasmparser calls `name`.
fn usual_name(name: &str) -> String {
    match name {
        "saturating_float_to_int" => "nontrapping-float-to-int".to_owned(),
        name => name.replace('_', "-"),
    }
}
