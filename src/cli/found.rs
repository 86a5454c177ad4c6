//! What PROGRAM names, and what its toolchain adds to it.

use std::ffi::OsStr;

use anyhow::Result;

use super::args::run::RunArgs;
use super::args::values::SHELL;
use super::exit::Usage;
use super::{hints, setup};
use crate::kernel::process::programs::NeededTree;
use crate::tape::Launch;
use crate::toolchain::MANIFEST;
use crate::{Code, Described, Module, Resolved, Toolchains};

/// The program that PROGRAM names.
pub enum Found {
    Module(Module),
    /// The shell, which is not a module; or a script of a toolchain, which it runs.
    Shell,
    /// A native program, if the host has one of that name.
    Native,
}

/// What the toolchain of a program adds to it.
#[derive(Default)]
pub struct Start {
    pub launch: Launch,
    pub trees: Vec<NeededTree>,
}

impl Start {
    fn of(described: Described) -> Result<Self> {
        let trees = described.trees().map_err(|error| {
            let path = described.toolchain.dir().join(MANIFEST);
            Usage::of(&format!("the toolchain of {} is incomplete", path.display()), error)
        })?;
        Ok(Self { launch: described.launch, trees })
    }
}

/// Finds `named`, which messages call `program`; a native one only if `may_be_native`.
pub fn find(
    args: &RunArgs,
    toolchains: &Toolchains,
    named: &OsStr,
    may_be_native: bool,
    program: &str,
) -> Result<(Found, Start)> {
    if (named == SHELL || may_be_native)
        && let Some(name) = named.to_str().filter(|_| !setup::is_path(named))
        && matches!(toolchains.find(name), Ok(None))
    {
        let found = if named == SHELL { Found::Shell } else { Found::Native };
        return Ok((found, Start::default()));
    }
    let resolved = setup::program(named, toolchains)
        .map_err(|error| hints::program_not_found(error, args, program))?;
    if let Resolved::Described(script @ Described { code: Code::Script, .. }) = resolved {
        return Ok((Found::Shell, Start::of(script)?));
    }
    let module = resolved.module_known(setup::file_digests(args)?.as_ref());
    let module = module.map_err(|error| hints::module_not_found(error, named.as_ref()))?;
    let start = match resolved {
        Resolved::Described(described) => Start::of(described)?,
        Resolved::File(_) | Resolved::BuiltIn { .. } => Start::default(),
    };
    Ok((Found::Module(module), start))
}
