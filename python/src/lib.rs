//! The extension module `belljar._native`: the part of the Python package that is Rust.
//!
//! It has what the library does, with plain types; `python/belljar/` has the interface that users see. Rules:
//!
//! - Everything that runs guests or touches the disk is detached from the interpreter (`Python::detach`), so that other
//!   threads of Python go on.
//! - Guests run on threads of their own ([`job`]), so that the caller can be interrupted.
//! - Errors are classes of `belljar._errors`, which carry what they are about ([`errors`]).

mod changes;
mod engine;
mod errors;
mod host;
mod job;
mod json;
mod machine;
mod memory;
mod run_state;
mod sandbox;
mod session;
mod settings;
mod slot;
mod tape;

/// What the Python package imports.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::changes::Change;
    #[pymodule_export]
    use crate::engine::{forget_programs, program_names};
    #[pymodule_export]
    use crate::job::{Ended, Running};
    #[pymodule_export]
    use crate::machine::start_run;
    #[pymodule_export]
    use crate::sandbox::Sandbox;
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::tape::{compare, replay};

    /// The version of the package and of the library.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
