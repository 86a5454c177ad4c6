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

/// Defines the function `name` of the import module `module` in `linker`; returns whether it is one of this module.
///
/// # Errors
/// The name is already defined.
pub fn define(linker: &mut Linker<Process>, module: &str, name: &str) -> Result<bool> {
    if module != MODULE {
        return Ok(false);
    }
    match name {
        "abi_version" => linker.func_wrap(module, name, || VERSION)?,
        "fd_cloexec_get" => linker.func_wrap(module, name, process::fd_cloexec_get)?,
        "fd_cloexec_set" => linker.func_wrap(module, name, process::fd_cloexec_set)?,
        "fd_close_from" => linker.func_wrap(module, name, process::fd_close_from)?,
        "fd_dup" => linker.func_wrap(module, name, process::fd_dup)?,
        "fd_dup2" => linker.func_wrap(module, name, process::fd_dup2)?,
        "fd_executable_set" => linker.func_wrap(module, name, executable::fd_executable_set)?,
        "host_call" => linker.func_wrap_async(module, name, host::host_call)?,
        "host_has" => linker.func_wrap(module, name, host::host_has)?,
        "host_reply" => linker.func_wrap(module, name, host::host_reply)?,
        "path_executable_get" => linker.func_wrap(module, name, executable::path_executable_get)?,
        "path_executable_set" => linker.func_wrap(module, name, executable::path_executable_set)?,
        "paths_exact" => linker.func_wrap(module, name, process::paths_exact)?,
        "pipe" => linker.func_wrap(module, name, process::pipe)?,
        "proc_become" => linker.func_wrap(module, name, process::proc_become)?,
        "proc_chdir" => linker.func_wrap(module, name, process::proc_chdir)?,
        "proc_getcwd" => linker.func_wrap(module, name, process::proc_getcwd)?,
        "proc_id" => linker.func_wrap(module, name, process::proc_id)?,
        "proc_kill" => linker.func_wrap(module, name, process::proc_kill)?,
        "proc_parent" => linker.func_wrap(module, name, process::proc_parent)?,
        "proc_spawn" => linker.func_wrap(module, name, process::proc_spawn)?,
        "proc_wait" => linker.func_wrap_async(module, name, process::proc_wait)?,
        "sigpipe_ignore" => linker.func_wrap(module, name, process::sigpipe_ignore)?,
        _ => return Ok(false),
    };
    Ok(true)
}
