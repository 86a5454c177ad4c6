//! The import module `belljar`, for what preview1 lacks; see `docs/guest-abi.md`.

mod executable;
mod host;
mod process;

use wasmtime::{Linker, Result};

use super::Process;

/// The name of the import module.
pub const MODULE: &str = "belljar";

/// The answer of `abi_version`. Functions may be added without a new version.
pub const VERSION: u32 = 1;

crate::abi::binding::imports! {
    "fd_cloexec_get" => is(process::fd_cloexec_get),
    "fd_cloexec_set" => is(process::fd_cloexec_set),
    "fd_close_from" => is(process::fd_close_from),
    "fd_dup" => is(process::fd_dup),
    "fd_dup2" => is(process::fd_dup2),
    "fd_executable_set" => is(executable::fd_executable_set),
    "host_call" => waits(host::host_call),
    "host_has" => is(host::host_has),
    "host_reply" => is(host::host_reply),
    "path_executable_get" => is(executable::path_executable_get),
    "path_executable_set" => is(executable::path_executable_set),
    "paths_exact" => is(process::paths_exact),
    "pipe" => is(process::pipe),
    "proc_become" => is(process::proc_become),
    "proc_chdir" => is(process::proc_chdir),
    "proc_getcwd" => is(process::proc_getcwd),
    "proc_id" => is(process::proc_id),
    "proc_kill" => is(process::proc_kill),
    "proc_parent" => is(process::proc_parent),
    "proc_spawn" => is(process::proc_spawn),
    "proc_wait" => waits(process::proc_wait),
    "sigpipe_ignore" => is(process::sigpipe_ignore),
}

/// Defines the function of `binding` in `linker` that has the same answer in all processes, if it names that one.
///
/// # Errors
/// The name is already defined.
pub(super) fn define_constant(
    linker: &mut Linker<Process>,
    module: &str,
    name: &str,
) -> Result<bool> {
    if (module, name) != (MODULE, "abi_version") {
        return Ok(false);
    }
    linker.func_wrap(module, name, || VERSION)?;
    Ok(true)
}
