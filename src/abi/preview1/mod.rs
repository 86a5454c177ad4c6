//! WASI preview1 (`wasi_snapshot_preview1`), and its predecessor `wasi_unstable`, which differs in the
//! layout of two structures and the numbers of `whence`.
//!
//! Source: the witx documents of both snapshots.

mod args;
mod clock;
mod environ;
mod fd;
mod fd_io;
pub(super) mod path;
mod poll;
mod proc;
mod random;
mod sched;
mod sock;

use wasmtime::Linker;

use super::Process;

/// The name of the import module of preview1.
pub const MODULE: &str = "wasi_snapshot_preview1";

/// The name of the import module of its predecessor.
pub const MODULE_UNSTABLE: &str = "wasi_unstable";

/// The import module of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Snapshot {
    Preview1,
    Unstable,
}

impl Snapshot {
    fn of(unstable: bool) -> Self {
        if unstable { Self::Unstable } else { Self::Preview1 }
    }
}

/// Defines all functions of both snapshots in `linker`.
///
/// # Errors
/// A name is already defined.
pub fn add_to_linker(linker: &mut Linker<Process>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "args_get", args::args_get)?;
    linker.func_wrap(MODULE, "args_sizes_get", args::args_sizes_get)?;
    linker.func_wrap(MODULE, "clock_res_get", clock::clock_res_get)?;
    linker.func_wrap(MODULE, "clock_time_get", clock::clock_time_get)?;
    linker.func_wrap(MODULE, "environ_get", environ::environ_get)?;
    linker.func_wrap(MODULE, "environ_sizes_get", environ::environ_sizes_get)?;
    linker.func_wrap(MODULE, "fd_advise", fd::fd_advise)?;
    linker.func_wrap(MODULE, "fd_allocate", fd::fd_allocate)?;
    linker.func_wrap(MODULE, "fd_close", fd::fd_close)?;
    linker.func_wrap(MODULE, "fd_datasync", fd::fd_datasync)?;
    linker.func_wrap(MODULE, "fd_fdstat_get", fd::fd_fdstat_get)?;
    linker.func_wrap(MODULE, "fd_fdstat_set_flags", fd::fd_fdstat_set_flags)?;
    linker.func_wrap(MODULE, "fd_fdstat_set_rights", fd::fd_fdstat_set_rights)?;
    linker.func_wrap(MODULE, "fd_filestat_set_size", fd::fd_filestat_set_size)?;
    linker.func_wrap(MODULE, "fd_filestat_set_times", fd::fd_filestat_set_times)?;
    linker.func_wrap(MODULE, "fd_pread", fd_io::fd_pread)?;
    linker.func_wrap(MODULE, "fd_prestat_dir_name", fd::fd_prestat_dir_name)?;
    linker.func_wrap(MODULE, "fd_prestat_get", fd::fd_prestat_get)?;
    linker.func_wrap(MODULE, "fd_pwrite", fd_io::fd_pwrite)?;
    linker.func_wrap_async(MODULE, "fd_read", fd_io::fd_read)?;
    linker.func_wrap(MODULE, "fd_readdir", fd::fd_readdir)?;
    linker.func_wrap(MODULE, "fd_renumber", fd::fd_renumber)?;
    linker.func_wrap(MODULE, "fd_sync", fd::fd_sync)?;
    linker.func_wrap(MODULE, "fd_tell", fd_io::fd_tell)?;
    linker.func_wrap_async(MODULE, "fd_write", fd_io::fd_write)?;
    linker.func_wrap(MODULE, "path_create_directory", path::path_create_directory)?;
    linker.func_wrap(MODULE, "path_filestat_set_times", path::path_filestat_set_times)?;
    linker.func_wrap(MODULE, "path_link", path::path_link)?;
    linker.func_wrap(MODULE, "path_open", path::path_open)?;
    linker.func_wrap(MODULE, "path_readlink", path::path_readlink)?;
    linker.func_wrap(MODULE, "path_remove_directory", path::path_remove_directory)?;
    linker.func_wrap(MODULE, "path_rename", path::path_rename)?;
    linker.func_wrap(MODULE, "path_symlink", path::path_symlink)?;
    linker.func_wrap(MODULE, "path_unlink_file", path::path_unlink_file)?;
    linker.func_wrap(MODULE, "proc_exit", proc::proc_exit)?;
    linker.func_wrap(MODULE, "proc_raise", proc::proc_raise)?;
    linker.func_wrap(MODULE, "random_get", random::random_get)?;
    linker.func_wrap_async(MODULE, "sched_yield", sched::sched_yield)?;
    linker.func_wrap(MODULE, "sock_accept", sock::sock_accept)?;
    linker.func_wrap(MODULE, "sock_recv", sock::sock_recv)?;
    linker.func_wrap(MODULE, "sock_send", sock::sock_send)?;
    linker.func_wrap(MODULE, "sock_shutdown", sock::sock_shutdown)?;
    // An alias costs much less than a second function. The functions below differ.
    linker.alias_module(MODULE, MODULE_UNSTABLE)?;
    linker.func_wrap(MODULE, "fd_filestat_get", fd::fd_filestat_get::<false>)?;
    linker.func_wrap(MODULE, "fd_seek", fd_io::fd_seek::<false>)?;
    linker.func_wrap(MODULE, "path_filestat_get", path::path_filestat_get::<false>)?;
    linker.func_wrap_async(MODULE, "poll_oneoff", poll::poll_oneoff::<false>)?;
    linker.func_wrap(MODULE_UNSTABLE, "fd_filestat_get", fd::fd_filestat_get::<true>)?;
    linker.func_wrap(MODULE_UNSTABLE, "fd_seek", fd_io::fd_seek::<true>)?;
    linker.func_wrap(MODULE_UNSTABLE, "path_filestat_get", path::path_filestat_get::<true>)?;
    linker.func_wrap_async(MODULE_UNSTABLE, "poll_oneoff", poll::poll_oneoff::<true>)?;
    Ok(())
}
