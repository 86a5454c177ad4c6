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

/// Defines all functions of the module in `linker`.
///
/// # Errors
/// A name is already defined.
pub fn add_to_linker(linker: &mut Linker<Process>) -> Result<()> {
    linker.func_wrap(MODULE, "abi_version", || VERSION)?;
    linker.func_wrap(MODULE, "fd_cloexec_get", process::fd_cloexec_get)?;
    linker.func_wrap(MODULE, "fd_cloexec_set", process::fd_cloexec_set)?;
    linker.func_wrap(MODULE, "fd_close_from", process::fd_close_from)?;
    linker.func_wrap(MODULE, "fd_dup", process::fd_dup)?;
    linker.func_wrap(MODULE, "fd_dup2", process::fd_dup2)?;
    linker.func_wrap(MODULE, "fd_executable_set", executable::fd_executable_set)?;
    linker.func_wrap_async(MODULE, "host_call", host::host_call)?;
    linker.func_wrap(MODULE, "host_has", host::host_has)?;
    linker.func_wrap(MODULE, "host_reply", host::host_reply)?;
    linker.func_wrap(MODULE, "path_executable_get", executable::path_executable_get)?;
    linker.func_wrap(MODULE, "path_executable_set", executable::path_executable_set)?;
    linker.func_wrap(MODULE, "paths_exact", process::paths_exact)?;
    linker.func_wrap(MODULE, "pipe", process::pipe)?;
    linker.func_wrap(MODULE, "proc_chdir", process::proc_chdir)?;
    linker.func_wrap(MODULE, "proc_getcwd", process::proc_getcwd)?;
    linker.func_wrap(MODULE, "proc_id", process::proc_id)?;
    linker.func_wrap(MODULE, "proc_kill", process::proc_kill)?;
    linker.func_wrap(MODULE, "proc_parent", process::proc_parent)?;
    linker.func_wrap(MODULE, "proc_spawn", process::proc_spawn)?;
    linker.func_wrap_async(MODULE, "proc_wait", process::proc_wait)?;
    linker.func_wrap(MODULE, "sigpipe_ignore", process::sigpipe_ignore)?;
    Ok(())
}
