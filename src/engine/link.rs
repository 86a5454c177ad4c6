//! Loads compiled code, and links what it imports.

use std::collections::HashSet;

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{self, Component, LinkerInstance, ResourceType};
use wasmtime::{Caller, ExternType, InstancePre, Linker, Val};

use super::backend::Backend;
use super::code_cache::{self, Code, CodeCache};
use super::generator::Generator;
use super::module::{Encoding, UNKNOWN_IMPORTS_MAX};
use super::{Engine, Module, ProgramError};
use crate::abi::interface::Interface;
use crate::abi::{Process, preview2};
use crate::base::digest::Digest;

/// Loaded code, to be linked.
pub(super) struct Loaded<'e> {
    pub backend: &'e Backend,
    pub generator: Generator,
    pub code: Code,
}

/// Code with its imports, ready to run.
pub(super) enum Linked {
    Module(InstancePre<Process>),
    Component(component::InstancePre<Process>),
}

impl Linked {
    pub fn encoding(&self) -> Encoding {
        match self {
            Self::Module(_) => Encoding::Module,
            Self::Component(_) => Encoding::Component,
        }
    }

    /// The wasmtime engine that runs it.
    pub fn engine(&self) -> &wasmtime::Engine {
        match self {
            Self::Module(pre) => pre.module().engine(),
            Self::Component(pre) => pre.engine(),
        }
    }
}

/// Returns the code of `generator` in the cache for the binary of `encoding` with the digest `module`.
pub(super) fn find(
    engine: &Engine,
    module: Digest,
    encoding: Encoding,
    generator: Generator,
) -> Option<Loaded<'_>> {
    find_in(engine.cache()?, engine, module, encoding, generator)
}

/// As [`find`], in `cache`.
pub(super) fn find_in<'e>(
    cache: &CodeCache,
    engine: &'e Engine,
    module: Digest,
    encoding: Encoding,
    generator: Generator,
) -> Option<Loaded<'e>> {
    let config = engine.config();
    let first = engine.0.backends.first(config, generator, encoding).ok()?;
    // A cache that cannot be read is reported when code is to be stored.
    let code = cache.find(first.key(config, module)).ok()??;
    on_fitting_backend(engine, generator, encoding, |engine| code.load(engine, encoding)).ok()
}

/// Loads `image`, which `generator` has just made of `module`.
pub(super) fn load<'e>(
    engine: &'e Engine,
    module: &Module,
    generator: Generator,
    image: &[u8],
) -> Result<Loaded<'e>, ProgramError> {
    let encoding = module.encoding();
    let load = |engine: &wasmtime::Engine| code_cache::load_compiled(engine, encoding, image);
    on_fitting_backend(engine, generator, encoding, load).map_err(|error| ProgramError::Invalid {
        name: module.name().to_owned(),
        message: format!("{error:#}"),
    })
}

/// Loads code for the pool, or without it if it does not fit.
fn on_fitting_backend(
    engine: &Engine,
    generator: Generator,
    encoding: Encoding,
    load: impl Fn(&wasmtime::Engine) -> wasmtime::Result<Code>,
) -> wasmtime::Result<Loaded<'_>> {
    let (config, backends) = (engine.config(), &engine.0.backends);
    let backend = backends.first(config, generator, encoding).map_err(wasmtime::Error::new)?;
    if let Ok(code) = load(&backend.engine) {
        return Ok(Loaded { backend, generator, code });
    }
    let backend = backends.plain(config, generator, encoding).map_err(wasmtime::Error::new)?;
    let code = load(&backend.engine)?;
    Ok(Loaded { backend, generator, code })
}

/// What to do about imported functions that are not defined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UnknownImports {
    /// Run the module; a call of such a function is a trap that names it.
    #[default]
    Trap,
    /// Refuse the module.
    Deny,
}

/// Defines a function that a module imports: see [`crate::abi::define`].
pub(super) type Define = fn(&mut Linker<Process>, &str, &str) -> wasmtime::Result<bool>;

/// Links `loaded`; returns the imports that are not defined, too.
///
/// # Errors
/// [`ProgramError`]: `Import`, `Mismatch`, `TooManyUnknownImports`.
pub(super) fn link(
    loaded: &Loaded<'_>,
    name: &str,
    unknown: UnknownImports,
    define: Define,
) -> Result<(Linked, Vec<String>), ProgramError> {
    let mut unknown = Unknown { name, choice: unknown, imports: Vec::new() };
    let engine = &loaded.backend.engine;
    let linked = match &loaded.code {
        Code::Module(module) => Linked::Module(link_module(engine, module, &mut unknown, define)?),
        Code::Component(component) => {
            Linked::Component(link_component(engine, component, &mut unknown)?)
        }
    };
    Ok((linked, unknown.imports))
}

/// The imports of a program that are not defined.
struct Unknown<'n> {
    /// The program.
    name: &'n str,
    choice: UnknownImports,
    imports: Vec<String>,
}

impl Unknown<'_> {
    fn mismatch(&self, error: &wasmtime::Error) -> ProgramError {
        ProgramError::Mismatch { name: self.name.to_owned(), message: format!("{error:#}") }
    }

    /// The error for `import`, a `kind` of thing for which there can be no stub.
    fn import(&self, kind: &str, import: &str) -> ProgramError {
        ProgramError::Import { name: self.name.to_owned(), import: format!("the {kind} {import}") }
    }

    /// Notes the function `import`; returns what its stub answers.
    ///
    /// # Errors
    /// [`ProgramError`]: `Import` if unknown functions are denied; `TooManyUnknownImports`.
    fn function(&mut self, import: String) -> Result<UnknownImportCalled, ProgramError> {
        if self.choice == UnknownImports::Deny {
            return Err(self.import("function", &import));
        }
        if self.imports.len() == UNKNOWN_IMPORTS_MAX {
            return Err(ProgramError::TooManyUnknownImports { name: self.name.to_owned() });
        }
        self.imports.push(import.clone());
        Ok(UnknownImportCalled(import))
    }
}

fn link_module(
    engine: &wasmtime::Engine,
    module: &wasmtime::Module,
    unknown: &mut Unknown<'_>,
    define: Define,
) -> Result<InstancePre<Process>, ProgramError> {
    let mut linker = Linker::new(engine);
    let mut seen = HashSet::new();
    for import in module.imports() {
        // A module may import a function twice.
        if !seen.insert((import.module(), import.name())) {
            continue;
        }
        let defined = define(&mut linker, import.module(), import.name());
        if defined.map_err(|error| unknown.mismatch(&error))? {
            continue;
        }
        let spelled = format!("{}.{}", import.module(), import.name());
        let kind = match import.ty() {
            ExternType::Func(ty) => {
                let call = unknown.function(spelled)?;
                let stub = move |_: Caller<'_, Process>, _: &[Val], _: &mut [Val]| {
                    Err(wasmtime::Error::new(call.clone()))
                };
                let defined = linker.func_new(import.module(), import.name(), ty, stub);
                defined.map_err(|error| unknown.mismatch(&error))?;
                continue;
            }
            ExternType::Memory(_) => "memory",
            ExternType::Global(_) => "global",
            ExternType::Table(_) => "table",
            ExternType::Tag(_) => "tag",
        };
        return Err(unknown.import(kind, &spelled));
    }
    linker.instantiate_pre(module).map_err(|error| unknown.mismatch(&error))
}

fn link_component(
    engine: &wasmtime::Engine,
    component: &Component,
    unknown: &mut Unknown<'_>,
) -> Result<component::InstancePre<Process>, ProgramError> {
    let mut linker = component::Linker::new(engine);
    let ty = component.component_type();
    let mut resources = Vec::new();
    for (name, import) in ty.imports(engine) {
        let ComponentItem::ComponentInstance(interface) = import.ty else {
            define_item(&mut linker.root(), None, name, &import.ty, &mut resources, unknown)?;
            continue;
        };
        let instance = linker.instance(name);
        let mut instance = instance.map_err(|error| unknown.mismatch(&error))?;
        for (item, export) in interface.exports(engine) {
            define_item(&mut instance, Some(name), item, &export.ty, &mut resources, unknown)?;
        }
    }
    linker.instantiate_pre(component).map_err(|error| unknown.mismatch(&error))
}

/// Defines `item`, of the imported `interface` or of none, in `instance`. `resources` are those that were defined: what
/// names one of them again is the same one, and needs no definition.
fn define_item(
    instance: &mut LinkerInstance<'_, Process>,
    interface: Option<&str>,
    item: &str,
    ty: &ComponentItem,
    resources: &mut Vec<ResourceType>,
    unknown: &mut Unknown<'_>,
) -> Result<(), ProgramError> {
    let spelled = || match interface {
        Some(interface) => format!("{interface}#{item}"),
        None => item.to_owned(),
    };
    if let ComponentItem::Resource(ty) = ty {
        if resources.contains(ty) {
            return Ok(());
        }
        resources.push(*ty);
    }
    let known = interface.and_then(Interface::of);
    let defined = match (ty, known) {
        (ComponentItem::ComponentFunc(function), Some(known)) => {
            known.define_function(instance, item, function.async_())
        }
        (ComponentItem::Resource(_), Some(known)) => known.define_resource(instance, item),
        _ => Ok(false),
    };
    if defined.map_err(|error| unknown.mismatch(&error))? {
        return Ok(());
    }
    let defined = match ty {
        // Types are described by what uses them.
        ComponentItem::Type(_) => Ok(()),
        ComponentItem::Resource(_) => preview2::none::<UnknownImportCalled>(instance, item),
        ComponentItem::ComponentFunc(function) => {
            preview2::define_trap(instance, item, function.async_(), unknown.function(spelled())?)
        }
        ComponentItem::CoreFunc(_) => return Err(unknown.import("core function", &spelled())),
        ComponentItem::Module(_) => return Err(unknown.import("module", &spelled())),
        ComponentItem::Component(_) => return Err(unknown.import("component", &spelled())),
        ComponentItem::ComponentInstance(_) => {
            return Err(unknown.import("instance", &spelled()));
        }
    };
    defined.map_err(|error| unknown.mismatch(&error))
}

/// What the message of a call of an import that is not defined begins with.
pub(super) const UNDEFINED_CALLED: &str = "it called import ";

/// A stub for an import that is not defined was called.
#[derive(Clone, thiserror::Error)]
#[error("{UNDEFINED_CALLED}{0}, which is not defined")]
pub(super) struct UnknownImportCalled(String);

crate::base::readable::readable!(UnknownImportCalled);
