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

use super::binding::Binding;

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

/// The functions of both snapshots.
pub(super) mod snapshot {
    use super::{args, clock, environ, fd, fd_io, path, poll, proc, random, sched, sock};

    crate::abi::binding::imports! {
        "args_get" => is(args::args_get),
        "args_sizes_get" => is(args::args_sizes_get),
        "clock_res_get" => is(clock::clock_res_get),
        "clock_time_get" => is(clock::clock_time_get),
        "environ_get" => is(environ::environ_get),
        "environ_sizes_get" => is(environ::environ_sizes_get),
        "fd_advise" => is(fd::fd_advise),
        "fd_allocate" => is(fd::fd_allocate),
        "fd_close" => is(fd::fd_close),
        "fd_datasync" => is(fd::fd_datasync),
        "fd_fdstat_get" => is(fd::fd_fdstat_get),
        "fd_fdstat_set_flags" => is(fd::fd_fdstat_set_flags),
        "fd_fdstat_set_rights" => is(fd::fd_fdstat_set_rights),
        "fd_filestat_get" => is(fd::fd_filestat_get::<false>),
        "fd_filestat_set_size" => is(fd::fd_filestat_set_size),
        "fd_filestat_set_times" => is(fd::fd_filestat_set_times),
        "fd_pread" => is(fd_io::fd_pread),
        "fd_prestat_dir_name" => is(fd::fd_prestat_dir_name),
        "fd_prestat_get" => is(fd::fd_prestat_get),
        "fd_pwrite" => is(fd_io::fd_pwrite),
        "fd_read" => waits(fd_io::fd_read),
        "fd_readdir" => is(fd::fd_readdir),
        "fd_renumber" => is(fd::fd_renumber),
        "fd_seek" => is(fd_io::fd_seek::<false>),
        "fd_sync" => is(fd::fd_sync),
        "fd_tell" => is(fd_io::fd_tell),
        "fd_write" => waits(fd_io::fd_write),
        "path_create_directory" => is(path::path_create_directory),
        "path_filestat_get" => is(path::path_filestat_get::<false>),
        "path_filestat_set_times" => is(path::path_filestat_set_times),
        "path_link" => is(path::path_link),
        "path_open" => is(path::path_open),
        "path_readlink" => is(path::path_readlink),
        "path_remove_directory" => is(path::path_remove_directory),
        "path_rename" => is(path::path_rename),
        "path_symlink" => is(path::path_symlink),
        "path_unlink_file" => is(path::path_unlink_file),
        "poll_oneoff" => waits(poll::poll_oneoff::<false>),
        "proc_exit" => is(proc::proc_exit),
        "proc_raise" => is(proc::proc_raise),
        "random_get" => is(random::random_get),
        "sched_yield" => waits(sched::sched_yield),
        "sock_accept" => is(sock::sock_accept),
        "sock_recv" => is(sock::sock_recv),
        "sock_send" => is(sock::sock_send),
        "sock_shutdown" => is(sock::sock_shutdown),
    }
}

/// Binds the function that `binding` names; returns whether a snapshot has it.
///
/// # Errors
/// The name is already defined.
pub(super) fn bind(binding: &mut Binding<'_>) -> wasmtime::Result<bool> {
    match (binding.module(), binding.name()) {
        (MODULE_UNSTABLE, "fd_filestat_get") => binding.is(fd::fd_filestat_get::<true>)?,
        (MODULE_UNSTABLE, "fd_seek") => binding.is(fd_io::fd_seek::<true>)?,
        (MODULE_UNSTABLE, "path_filestat_get") => binding.is(path::path_filestat_get::<true>)?,
        (MODULE_UNSTABLE, "poll_oneoff") => binding.waits(poll::poll_oneoff::<true>)?,
        (MODULE | MODULE_UNSTABLE, _) => return snapshot::bind(binding),
        _ => return Ok(false),
    }
    Ok(true)
}
