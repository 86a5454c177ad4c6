//! Defines imports, and takes down the arguments of their calls.

use std::sync::Arc;

use wasmtime::{Caller, Linker, WasmRet, WasmTy, WasmTyList};

use super::{Answering, Process};
use crate::results::Function;

/// An import that is being defined, or described.
pub(super) struct Binding<'l> {
    function: Arc<Function>,
    to: BindTo<'l>,
}

enum BindTo<'l> {
    Linker(&'l mut Linker<Process>),
    Signature(Option<Signature>),
}

/// The type of an import.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// For each parameter, whether it has 64 bits; otherwise it has 32.
    pub params: Vec<bool>,
    /// Whether it returns a number of 32 bits.
    pub returns: bool,
}

impl<'l> Binding<'l> {
    /// Defines the function `name` of the import module `module` in `linker`.
    pub fn in_linker(linker: &'l mut Linker<Process>, module: &str, name: &str) -> Self {
        let function = Function { module: module.into(), name: name.into() };
        Self { function: Arc::new(function), to: BindTo::Linker(linker) }
    }

    /// Describes the function `name` of the import module `module`.
    pub fn described(module: &str, name: &str) -> Self {
        let function = Function { module: module.into(), name: name.into() };
        Self { function: Arc::new(function), to: BindTo::Signature(None) }
    }

    /// The import module.
    pub fn module(&self) -> &str {
        &self.function.module
    }

    /// The name of the function.
    pub fn name(&self) -> &str {
        &self.function.name
    }

    /// The description.
    pub fn signature(self) -> Option<Signature> {
        match self.to {
            BindTo::Linker(_) => None,
            BindTo::Signature(signature) => signature,
        }
    }

    /// It is `import`.
    pub fn is<A>(&mut self, import: impl Import<A>) -> wasmtime::Result<()> {
        match &mut self.to {
            BindTo::Linker(linker) => import.define(linker, self.function.clone()),
            BindTo::Signature(signature) => {
                *signature = Some(import.signature());
                Ok(())
            }
        }
    }

    /// It is `import`, which may wait.
    pub fn waits<A>(&mut self, import: impl WaitingImport<A>) -> wasmtime::Result<()> {
        match &mut self.to {
            BindTo::Linker(linker) => import.define(linker, self.function.clone()),
            BindTo::Signature(signature) => {
                *signature = Some(import.signature());
                Ok(())
            }
        }
    }
}

/// A parameter.
trait Param: WasmTy + Copy {
    const IS_LONG: bool;

    fn raw(self) -> u64;
}

impl Param for u32 {
    const IS_LONG: bool = false;

    #[inline]
    fn raw(self) -> u64 {
        self.into()
    }
}

impl Param for u64 {
    const IS_LONG: bool = true;

    #[inline]
    fn raw(self) -> u64 {
        self
    }
}

impl Param for i64 {
    const IS_LONG: bool = true;

    #[inline]
    fn raw(self) -> u64 {
        self.cast_unsigned()
    }
}

/// What a function returns.
pub(super) trait Returned: WasmRet {
    /// Whether that is a number.
    const IS_NUMBER: bool;
}

impl Returned for wasmtime::Result<i32> {
    const IS_NUMBER: bool = true;
}

impl Returned for wasmtime::Result<u32> {
    const IS_NUMBER: bool = true;
}

impl Returned for wasmtime::Result<()> {
    const IS_NUMBER: bool = false;
}

/// A function with the parameters `A`.
pub(super) trait Import<A>: Sized {
    fn define(self, linker: &mut Linker<Process>, function: Arc<Function>) -> wasmtime::Result<()>;

    fn signature(&self) -> Signature;
}

/// A function with the parameters `A` that may wait.
pub(super) trait WaitingImport<A>: Sized {
    fn define(self, linker: &mut Linker<Process>, function: Arc<Function>) -> wasmtime::Result<()>;

    fn signature(&self) -> Signature;
}

macro_rules! import_with {
    ($($name:ident: $type:ident),*) => {
        impl<F, R, $($type: Param),*> Import<($($type,)*)> for F
        where
            F: Fn(Caller<'_, Process>, $($type),*) -> R + Send + Sync + 'static,
            R: Returned + 'static,
        {
            fn define(
                self,
                linker: &mut Linker<Process>,
                function: Arc<Function>,
            ) -> wasmtime::Result<()> {
                let taken_down = function.clone();
                let call = move |mut caller: Caller<'_, Process>, $($name: $type),*| {
                    caller.data_mut().note_call(&taken_down, &[$($name.raw()),*]);
                    self(caller, $($name),*)
                };
                linker.func_wrap(&function.module, &function.name, call).map(drop)
            }

            fn signature(&self) -> Signature {
                Signature { params: vec![$($type::IS_LONG),*], returns: R::IS_NUMBER }
            }
        }

        impl<F, $($type: Param + Send + 'static),*> WaitingImport<($($type,)*)> for F
        where
            F: for<'c> Fn(Caller<'c, Process>, ($($type,)*)) -> Answering<'c>
                + Send
                + Sync
                + 'static,
            ($($type,)*): WasmTyList,
        {
            fn define(
                self,
                linker: &mut Linker<Process>,
                function: Arc<Function>,
            ) -> wasmtime::Result<()> {
                let taken_down = function.clone();
                let (module, name) = (&*function.module, &*function.name);
                let defined = linker.func_wrap_async(module, name, move |mut caller, args| {
                    let ($($name,)*) = args;
                    caller.data_mut().note_call(&taken_down, &[$($name.raw()),*]);
                    self(caller, args)
                });
                defined.map(drop)
            }

            fn signature(&self) -> Signature {
                Signature { params: vec![$($type::IS_LONG),*], returns: true }
            }
        }
    };
}

import_with!();
import_with!(a: A);
import_with!(a: A, b: B);
import_with!(a: A, b: B, c: C);
import_with!(a: A, b: B, c: C, d: D);
import_with!(a: A, b: B, c: C, d: D, e: E);
import_with!(a: A, b: B, c: C, d: D, e: E, g: G);
import_with!(a: A, b: B, c: C, d: D, e: E, g: G, h: H);
import_with!(a: A, b: B, c: C, d: D, e: E, g: G, h: H, i: I);
import_with!(a: A, b: B, c: C, d: D, e: E, g: G, h: H, i: I, j: J);

/// Defines `NAMES`, the names of functions, and `bind`, which binds the function of a name.
macro_rules! imports {
    ($($name:literal => $how:ident($function:expr)),* $(,)?) => {
        /// The functions whose calls can be taken down.
        pub(in crate::abi) const NAMES: &[&str] = &[$($name),*];

        /// Binds the function that `binding` names; returns whether there is one.
        ///
        /// # Errors
        /// The name is already defined.
        pub(in crate::abi) fn bind(
            binding: &mut crate::abi::binding::Binding<'_>,
        ) -> wasmtime::Result<bool> {
            match binding.name() {
                $($name => binding.$how($function)?,)*
                _ => return Ok(false),
            }
            Ok(true)
        }
    };
}
pub(super) use imports;
