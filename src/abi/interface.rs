//! Interfaces that components import.

use wasmtime::component::LinkerInstance;

use super::preview2::call::Functions;
use super::{Process, preview2, preview3};

/// The exports that are programs, best first: instances with the function `run`. The names go on with a version.
pub const RUNS: [&str; 2] = [preview3::RUN, preview2::RUN];

/// An interface that guests have, by its name without the version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interface<'n> {
    /// Of WASI 0.2, or of the packages of belljar.
    Preview2(&'n str),
    /// Of WASI 0.3.
    Preview3(&'n str),
}

impl<'n> Interface<'n> {
    /// The interface that is imported as `import`; `None` if guests do not have it.
    pub fn of(import: &'n str) -> Option<Self> {
        let preview2 = preview2::name(import).map(Self::Preview2);
        preview2.or_else(|| preview3::name(import).map(Self::Preview3))
    }

    /// Defines its function `name` in `instance`, with the type of an asynchronous function if it `is_async`; returns whether
    /// guests have it.
    ///
    /// # Errors
    /// The name is already defined.
    pub fn define_function(
        self,
        instance: &mut LinkerInstance<'_, Process>,
        name: &str,
        is_async: bool,
    ) -> wasmtime::Result<bool> {
        let functions = &mut Functions::new(instance, name, is_async);
        match self {
            Self::Preview2(interface) => preview2::define_function(functions, interface),
            Self::Preview3(interface) => preview3::define_function(functions, interface),
        }
    }

    /// Defines its resource `name` in `instance`; returns whether guests have it.
    ///
    /// # Errors
    /// The name is already defined.
    pub fn define_resource(
        self,
        instance: &mut LinkerInstance<'_, Process>,
        name: &str,
    ) -> wasmtime::Result<bool> {
        match self {
            Self::Preview2(_) => preview2::define_resource(instance, name),
            Self::Preview3(_) => preview3::define_resource(instance, name),
        }
    }
}
