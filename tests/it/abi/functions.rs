//! The functions of preview1: the interpreter imports them from this list, and a script has a
//! method for each.

use super::script::{Arg, Call, Kind, Long, Operand, Pair, Script, Word};

macro_rules! functions {
    ($($name:ident($($param:ident: $kind:ident),*);)*) => {
        /// Name and parameters of every function. A script calls them by their index here.
        pub const FUNCTIONS: &[(&str, &[(&str, Kind)])] =
            &[$((stringify!($name), &[$((stringify!($param), <$kind as Operand>::KIND)),*])),*];

        #[allow(clippy::too_many_arguments, reason = "the signatures of the imports")]
        impl Script {
            $(pub fn $name(&mut self $(, $param: impl Into<$kind>)*) -> Call<'_> {
                let operands: Vec<Vec<Arg>> = vec![$(Operand::words(Into::<$kind>::into($param), self)),*];
                self.call(stringify!($name), &operands.concat())
            })*
        }
    };
}

functions! {
    args_get(argv: Word, buf: Word);
    args_sizes_get(strings: Word, bytes: Word);
    clock_res_get(id: Word, resolution: Word);
    clock_time_get(id: Word, precision: Long, time: Word);
    environ_get(environ: Word, buf: Word);
    environ_sizes_get(strings: Word, bytes: Word);
    fd_advise(fd: Word, offset: Long, len: Long, advice: Word);
    fd_allocate(fd: Word, offset: Long, len: Long);
    fd_close(fd: Word);
    fd_datasync(fd: Word);
    fd_fdstat_get(fd: Word, stat: Word);
    fd_fdstat_set_flags(fd: Word, flags: Word);
    fd_fdstat_set_rights(fd: Word, base: Long, inheriting: Long);
    fd_filestat_get(fd: Word, stat: Word);
    fd_filestat_set_size(fd: Word, size: Long);
    fd_filestat_set_times(fd: Word, atim: Long, mtim: Long, flags: Word);
    fd_pread(fd: Word, iovs: Pair, offset: Long, nread: Word);
    fd_prestat_dir_name(fd: Word, name: Pair);
    fd_prestat_get(fd: Word, stat: Word);
    fd_pwrite(fd: Word, iovs: Pair, offset: Long, nwritten: Word);
    fd_read(fd: Word, iovs: Pair, nread: Word);
    fd_readdir(fd: Word, buf: Pair, cookie: Long, used: Word);
    fd_renumber(from: Word, to: Word);
    fd_seek(fd: Word, delta: Long, whence: Word, offset: Word);
    fd_sync(fd: Word);
    fd_tell(fd: Word, offset: Word);
    fd_write(fd: Word, iovs: Pair, nwritten: Word);
    path_create_directory(dir: Word, path: Pair);
    path_filestat_get(dir: Word, flags: Word, path: Pair, stat: Word);
    path_filestat_set_times(
        dir: Word, flags: Word, path: Pair, atim: Long, mtim: Long, fst_flags: Word
    );
    path_link(dir: Word, flags: Word, path: Pair, new_dir: Word, new_path: Pair);
    path_open(
        dir: Word, flags: Word, path: Pair, oflags: Word, rights: Long, inheriting: Long,
        fd_flags: Word, opened: Word
    );
    path_readlink(dir: Word, path: Pair, buf: Pair, size: Word);
    path_remove_directory(dir: Word, path: Pair);
    path_rename(dir: Word, path: Pair, new_dir: Word, new_path: Pair);
    path_symlink(text: Pair, dir: Word, path: Pair);
    path_unlink_file(dir: Word, path: Pair);
    poll_oneoff(subscriptions: Word, events: Word, count: Word, happened: Word);
    proc_exit(code: Word);
    proc_raise(signal: Word);
    random_get(buf: Pair);
    sched_yield();
    sock_accept(fd: Word, flags: Word, accepted: Word);
    sock_recv(fd: Word, iovs: Pair, flags: Word, size: Word, out_flags: Word);
    sock_send(fd: Word, iovs: Pair, flags: Word, size: Word);
    sock_shutdown(fd: Word, how: Word);
}
