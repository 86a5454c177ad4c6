//! The answers of every call on a descriptor, for every kind of descriptor.

use belljar::Errno::{self, Badf, Inval, Isdir, Notdir, Notsock, Notsup, Spipe};

use super::fd::world;
use super::flags::*;
use super::script::{Call, Script, Word, anywhere, gather};
use super::world::DIR;

/// Number of kinds of descriptors.
pub const KINDS: usize = 11;

/// One of each kind: stdin, stdout, stderr, a preopened directory, an opened directory, files
/// opened for reading, for writing, for both and for neither, a closed number, and a number that
/// was never open.
pub fn one_of_each(s: &mut Script) -> [Word; KINDS] {
    let dir = s.open("d", DIRECTORY, READ);
    let [read, write, both, none] = [READ, WRITE, BOTH, 0].map(|rights| s.open("f", 0, rights));
    let closed = s.open("f", 0, READ);
    s.fd_close(closed).ok();
    let never = u32::MAX.into();
    [0.into(), 1.into(), 2.into(), DIR.into(), dir, read, write, both, none, closed, never]
}

/// An answer; `None` for success.
type Answer = Option<Errno>;

const OK: Answer = None;
const BADF: Answer = Some(Badf);
const INVAL: Answer = Some(Inval);
const ISDIR: Answer = Some(Isdir);
const NOTDIR: Answer = Some(Notdir);
const SPIPE: Answer = Some(Spipe);

/// The answers for streams, directories, and files opened for reading, for writing, for both and
/// for neither.
const fn kinds(streams: Answer, dirs: Answer, files: [Answer; 4]) -> [Answer; KINDS] {
    let [read, write, both, none] = files;
    [streams, streams, streams, dirs, dirs, read, write, both, none, BADF, BADF]
}

const fn open(answer: Answer) -> [Answer; KINDS] {
    kinds(answer, answer, [answer; 4])
}

/// As `answers`, except for one kind.
const fn but(mut answers: [Answer; KINDS], index: usize, answer: Answer) -> [Answer; KINDS] {
    answers[index] = answer;
    answers
}

const WRITABLE: [Answer; KINDS] = kinds(BADF, BADF, [BADF, OK, OK, BADF]);
const READABLE: [Answer; KINDS] = kinds(BADF, ISDIR, [OK, BADF, OK, BADF]);
const NO_STREAMS: [Answer; KINDS] = kinds(BADF, OK, [OK; 4]);
const SEEKABLE: [Answer; KINDS] = kinds(SPIPE, BADF, [OK; 4]);
const DIRS: [Answer; KINDS] = kinds(BADF, OK, [NOTDIR; 4]);
const PREOPENED: [Answer; KINDS] = but(kinds(BADF, BADF, [BADF; 4]), 3, OK);
const READS: [Answer; KINDS] = but(READABLE, 0, OK);
const WRITES: [Answer; KINDS] = but(but(WRITABLE, 1, OK), 2, OK);
const PREADS: [Answer; KINDS] = kinds(SPIPE, ISDIR, [OK, BADF, OK, BADF]);
const PWRITES: [Answer; KINDS] = kinds(SPIPE, BADF, [BADF, OK, OK, BADF]);
const SIZES: [Answer; KINDS] = kinds(BADF, INVAL, [INVAL, OK, OK, INVAL]);

/// Addresses for the results of calls.
const OUT: u32 = 60_000;
const COUNT: u32 = 61_000;

type OnFd = fn(&mut Script, Word) -> Call<'_>;

const CALLS: &[(&str, OnFd, [Answer; KINDS])] = &[
    ("advise", |s, fd| s.fd_advise(fd, 0, 0, 0), NO_STREAMS),
    ("allocate", |s, fd| s.fd_allocate(fd, 0, 1), WRITABLE),
    ("datasync", |s, fd| s.fd_datasync(fd), NO_STREAMS),
    ("sync", |s, fd| s.fd_sync(fd), NO_STREAMS),
    ("fdstat_get", |s, fd| s.fd_fdstat_get(fd, OUT), open(OK)),
    ("fdstat_set_flags", |s, fd| s.fd_fdstat_set_flags(fd, 0), NO_STREAMS),
    ("fdstat_set_rights", |s, fd| s.fd_fdstat_set_rights(fd, 0, 0), open(Some(Notsup))),
    ("filestat_get", |s, fd| s.fd_filestat_get(fd, OUT), open(OK)),
    ("filestat_set_size", |s, fd| s.fd_filestat_set_size(fd, 7), SIZES),
    ("filestat_set_times", |s, fd| s.fd_filestat_set_times(fd, 0, 0, 0), NO_STREAMS),
    ("pread", |s, fd| s.fd_pread(fd, anywhere([(OUT, 64)]), 0, COUNT), PREADS),
    ("pwrite", |s, fd| s.fd_pwrite(fd, gather(["x"]), 0, COUNT), PWRITES),
    ("read", |s, fd| s.fd_read(fd, anywhere([(OUT, 64)]), COUNT), READS),
    ("write", |s, fd| s.fd_write(fd, gather(["x"]), COUNT), WRITES),
    ("seek", |s, fd| s.fd_seek(fd, 0, CUR, OUT), SEEKABLE),
    ("tell", |s, fd| s.fd_tell(fd, OUT), SEEKABLE),
    ("prestat_get", |s, fd| s.fd_prestat_get(fd, OUT), PREOPENED),
    ("prestat_dir_name", |s, fd| s.fd_prestat_dir_name(fd, (OUT, 64)), PREOPENED),
    ("readdir", |s, fd| s.fd_readdir(fd, (OUT, 64), 0, COUNT), DIRS),
    ("renumber", |s, fd| s.fd_renumber(fd, fd), open(OK)),
    ("sock_accept", |s, fd| s.sock_accept(fd, 0, 0), open(Some(Notsock))),
    ("sock_recv", |s, fd| s.sock_recv(fd, (0, 0), 0, 0, 0), open(Some(Notsock))),
    ("sock_send", |s, fd| s.sock_send(fd, (0, 0), 0, 0), open(Some(Notsock))),
    ("sock_shutdown", |s, fd| s.sock_shutdown(fd, 0), open(Some(Notsock))),
    ("path_filestat_get", |s, fd| s.path_filestat_get(fd, 0, ".", OUT), DIRS),
    ("path_filestat_set_times", |s, fd| s.path_filestat_set_times(fd, 0, ".", 0, 0, 0), DIRS),
    ("close", |s, fd| s.fd_close(fd), open(OK)),
];

#[test]
fn every_call_on_every_kind_of_descriptor() {
    for (name, call, answers) in CALLS {
        let mut s = Script::new();
        s.dump_to(1);
        let fds = one_of_each(&mut s);
        s.room_at(OUT, 64);
        s.room_at(COUNT, 8);
        for (index, (fd, answer)) in fds.into_iter().zip(answers).enumerate() {
            // The dump is written to descriptor 1.
            if *name != "close" || index != 1 {
                call(&mut s, fd).answers(*answer);
            }
        }
        println!("{name}");
        world().run(&s);
    }
}
