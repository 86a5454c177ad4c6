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

/// Defines the function `name` of the import module `module` in `linker`; returns whether a snapshot has it.
///
/// # Errors
/// The name is already defined.
pub fn define(linker: &mut Linker<Process>, module: &str, name: &str) -> wasmtime::Result<bool> {
    let is_unstable = module == MODULE_UNSTABLE;
    if !is_unstable && module != MODULE {
        return Ok(false);
    }
    match name {
        "args_get" => linker.func_wrap(module, name, args::args_get)?,
        "args_sizes_get" => linker.func_wrap(module, name, args::args_sizes_get)?,
        "clock_res_get" => linker.func_wrap(module, name, clock::clock_res_get)?,
        "clock_time_get" => linker.func_wrap(module, name, clock::clock_time_get)?,
        "environ_get" => linker.func_wrap(module, name, environ::environ_get)?,
        "environ_sizes_get" => linker.func_wrap(module, name, environ::environ_sizes_get)?,
        "fd_advise" => linker.func_wrap(module, name, fd::fd_advise)?,
        "fd_allocate" => linker.func_wrap(module, name, fd::fd_allocate)?,
        "fd_close" => linker.func_wrap(module, name, fd::fd_close)?,
        "fd_datasync" => linker.func_wrap(module, name, fd::fd_datasync)?,
        "fd_fdstat_get" => linker.func_wrap(module, name, fd::fd_fdstat_get)?,
        "fd_fdstat_set_flags" => linker.func_wrap(module, name, fd::fd_fdstat_set_flags)?,
        "fd_fdstat_set_rights" => linker.func_wrap(module, name, fd::fd_fdstat_set_rights)?,
        "fd_filestat_get" if is_unstable => {
            linker.func_wrap(module, name, fd::fd_filestat_get::<true>)?
        }
        "fd_filestat_get" => linker.func_wrap(module, name, fd::fd_filestat_get::<false>)?,
        "fd_filestat_set_size" => linker.func_wrap(module, name, fd::fd_filestat_set_size)?,
        "fd_filestat_set_times" => linker.func_wrap(module, name, fd::fd_filestat_set_times)?,
        "fd_pread" => linker.func_wrap(module, name, fd_io::fd_pread)?,
        "fd_prestat_dir_name" => linker.func_wrap(module, name, fd::fd_prestat_dir_name)?,
        "fd_prestat_get" => linker.func_wrap(module, name, fd::fd_prestat_get)?,
        "fd_pwrite" => linker.func_wrap(module, name, fd_io::fd_pwrite)?,
        "fd_read" => linker.func_wrap_async(module, name, fd_io::fd_read)?,
        "fd_readdir" => linker.func_wrap(module, name, fd::fd_readdir)?,
        "fd_renumber" => linker.func_wrap(module, name, fd::fd_renumber)?,
        "fd_seek" if is_unstable => linker.func_wrap(module, name, fd_io::fd_seek::<true>)?,
        "fd_seek" => linker.func_wrap(module, name, fd_io::fd_seek::<false>)?,
        "fd_sync" => linker.func_wrap(module, name, fd::fd_sync)?,
        "fd_tell" => linker.func_wrap(module, name, fd_io::fd_tell)?,
        "fd_write" => linker.func_wrap_async(module, name, fd_io::fd_write)?,
        "path_create_directory" => linker.func_wrap(module, name, path::path_create_directory)?,
        "path_filestat_get" if is_unstable => {
            linker.func_wrap(module, name, path::path_filestat_get::<true>)?
        }
        "path_filestat_get" => linker.func_wrap(module, name, path::path_filestat_get::<false>)?,
        "path_filestat_set_times" => {
            linker.func_wrap(module, name, path::path_filestat_set_times)?
        }
        "path_link" => linker.func_wrap(module, name, path::path_link)?,
        "path_open" => linker.func_wrap(module, name, path::path_open)?,
        "path_readlink" => linker.func_wrap(module, name, path::path_readlink)?,
        "path_remove_directory" => linker.func_wrap(module, name, path::path_remove_directory)?,
        "path_rename" => linker.func_wrap(module, name, path::path_rename)?,
        "path_symlink" => linker.func_wrap(module, name, path::path_symlink)?,
        "path_unlink_file" => linker.func_wrap(module, name, path::path_unlink_file)?,
        "poll_oneoff" if is_unstable => {
            linker.func_wrap_async(module, name, poll::poll_oneoff::<true>)?
        }
        "poll_oneoff" => linker.func_wrap_async(module, name, poll::poll_oneoff::<false>)?,
        "proc_exit" => linker.func_wrap(module, name, proc::proc_exit)?,
        "proc_raise" => linker.func_wrap(module, name, proc::proc_raise)?,
        "random_get" => linker.func_wrap(module, name, random::random_get)?,
        "sched_yield" => linker.func_wrap_async(module, name, sched::sched_yield)?,
        "sock_accept" => linker.func_wrap(module, name, sock::sock_accept)?,
        "sock_recv" => linker.func_wrap(module, name, sock::sock_recv)?,
        "sock_send" => linker.func_wrap(module, name, sock::sock_send)?,
        "sock_shutdown" => linker.func_wrap(module, name, sock::sock_shutdown)?,
        _ => return Ok(false),
    };
    Ok(true)
}
