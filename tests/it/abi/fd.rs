//! `fd_*`, except reading, writing and listing.

use belljar::Errno::{self, Badf, Inval};
use belljar::kernel::clock::DEFAULT_START_NS;
use belljar::kernel::guest::rights;
use belljar::{Preopen, Reach};

use super::fd_kinds::{KINDS, one_of_each};
use super::flags::*;
use super::interpreter::MASK;
use super::script::{Script, Slot, scatter};
use super::world::{DIR, Run, World, builder};

pub fn world() -> World {
    let mut world = World::new();
    world.file("f", b"content");
    world.dir("d");
    world.stdin = b"input".to_vec();
    world
}

#[test]
fn numbers_far_beyond_the_table_are_not_open() {
    let mut s = Script::new();
    for fd in [4, 1023, 1024, 65536, 1 << 31, u32::MAX - 1, u32::MAX] {
        s.fd_close(fd).fails(Badf);
        s.fd_renumber(fd, 1).fails(Badf);
        s.fd_renumber(1, fd).fails(Badf);
        let out = s.u32();
        s.path_open(fd, 0, "f", CREAT, 0, 0, 0, out).fails(Badf);
    }
    World::new().run(&s);
}

/// The standard streams are descriptors like any other.
#[test]
fn streams_can_be_closed_and_their_numbers_taken() {
    let mut s = Script::new();
    s.dump_to(1);
    for fd in [0, 2] {
        s.fd_close(fd).ok();
        s.fd_close(fd).fails(Badf);
    }
    let numbers = [(); 3].map(|()| s.u32());
    for number in numbers {
        s.path_open(DIR, 0, "f", CREAT, BOTH, 0, 0, number).ok();
    }
    s.write(2, "to a file, by the number of standard error");
    let mut world = World::new();
    let run = world.run(&s);
    assert_eq!(numbers.map(|number| run.u32(number)), [0, 2, 4]);
    assert_eq!(world.read("f"), b"to a file, by the number of standard error");
}

#[test]
fn renumbering_moves_and_closes() {
    let mut world = world();
    let mut s = Script::new();
    let (a, b) = (s.open("f", 0, READ), s.open("g", CREAT, BOTH));
    s.fd_renumber(a, b).ok();
    s.fd_close(a).fails(Badf);
    let (buf, n) = (s.room(16), s.u32());
    s.fd_read(b, scatter([buf]), n).ok();
    // A number that a renumbering has freed can be opened, but not be renumbered onto.
    s.fd_renumber(b, a).fails(Badf);
    let again = s.u32();
    s.path_open(DIR, 0, "g", 0, READ, 0, 0, again).ok();
    s.fd_renumber(b, again.load()).ok();
    s.fd_renumber(again.load(), again.load()).ok();
    s.fd_close(b).fails(Badf);
    let run = world.run(&s);
    assert_eq!(run.u32(again), 4);
    assert_eq!((&run.bytes(buf)[..7], run.u32(n)), (&b"content"[..], 7));
}

#[test]
fn any_descriptor_can_be_renumbered_onto_a_stream() {
    let mut s = Script::new();
    let file = s.open("log", CREAT, WRITE);
    // As a program that redirects standard output to a file.
    s.fd_close(1).ok();
    s.fd_renumber(file, 1).ok();
    s.write(1, "redirected");
    // A stream's number can be a directory, too.
    s.fd_renumber(DIR, 0).ok();
    let out = s.u32();
    s.path_open(DIR, 0, "log", 0, READ, 0, 0, out).fails(Badf);
    s.path_open(0, 0, "log", 0, READ, 0, 0, out).ok();
    let mut world = World::new();
    let run = world.run(&s);
    assert_eq!(run.stdout, b"");
    assert_eq!(world.read("log"), b"redirected");
}

#[test]
fn a_file_without_a_name_lives_until_it_is_closed() {
    let mut world = world();
    let mut s = Script::new();
    let fd = s.open("f", 0, BOTH);
    s.path_unlink_file(DIR, "f").ok();
    let stat = s.room(64);
    s.fd_filestat_get(fd, stat).ok();
    let (buf, n) = (s.room(7), s.u32());
    s.fd_read(fd, scatter([buf]), n).ok();
    s.write(fd, "more");
    s.fd_close(fd).ok();
    let missing = s.room(64);
    s.path_filestat_get(DIR, 0, "f", missing).fails(Errno::Noent);
    let run = world.run(&s);
    assert_eq!((run.stat(stat).nlink, run.stat(stat).size), (0, 7));
    assert_eq!(run.bytes(buf), b"content");
}

/// File type, flags, rights, inherited rights.
fn fdstat(run: &Run, slot: Slot) -> (u8, u16, u64, u64) {
    let bytes = run.bytes(slot);
    assert_eq!((bytes[1], &bytes[4..8]), (0, &[0; 4][..]), "what pads the structure");
    let flags = u16::from_le_bytes([bytes[2], bytes[3]]);
    (bytes[0], flags, run.u64(slot.part(8, 8)), run.u64(slot.part(16, 8)))
}

#[test]
fn fdstat_has_type_flags_and_rights() {
    let mut s = Script::new();
    let fds = one_of_each(&mut s);
    let stats = [(); KINDS - 2].map(|()| s.room(24));
    for (fd, stat) in fds.into_iter().zip(stats) {
        s.fd_fdstat_get(fd, stat).ok();
    }
    let run = world().run(&s);
    let all = (1_u64 << 30) - 1;
    let (read, write, readdir) = (READ, WRITE, 1 << 14);
    let absent = 1 << 2 | 1 << 22 | 1 << 19 | write;
    let neither = all & !(read | readdir | write);
    let expected = [
        (0, 0, read, read),
        (0, 0, write, write),
        (0, 0, write, write),
        (DIRECTORY_TYPE, 0, rights::PREOPEN, rights::PREOPEN_INHERITING),
        (DIRECTORY_TYPE, 0, all & !absent, all),
        (FILE_TYPE, 0, all & !write, all & !write),
        (FILE_TYPE, 0, all & !(read | readdir), all & !(read | readdir)),
        (FILE_TYPE, 0, all, all),
        (FILE_TYPE, 0, neither, neither),
    ];
    assert_eq!(stats.map(|stat| fdstat(&run, stat)), expected);
    // C libraries check these rights before they make a call.
    assert_eq!(rights::PREOPEN & (1 << 13 | 1 << 14), 1 << 13 | 1 << 14, "open, list");
    assert_eq!(rights::PREOPEN_INHERITING & (read | write), read | write);
}

#[test]
fn fdstat_flags_read_back_as_set() {
    let mut world = world();
    let mut s = Script::new();
    let all = APPEND | DSYNC | NONBLOCK | RSYNC | SYNC;
    let fd = s.u32();
    s.path_open(DIR, 0, "f", 0, BOTH, 0, all, fd).ok();
    let stats = [(); 4].map(|()| s.room(24));
    s.fd_fdstat_get(fd.load(), stats[0]).ok();
    for (flags, stat) in [APPEND, NONBLOCK, 0].into_iter().zip(&stats[1..]) {
        s.fd_fdstat_set_flags(fd.load(), flags).ok();
        s.fd_fdstat_get(fd.load(), *stat).ok();
    }
    for flags in [DSYNC, RSYNC, SYNC, APPEND | SYNC, 32, 1 << 16, u32::MAX] {
        s.fd_fdstat_set_flags(fd.load(), flags).fails(Inval);
        // An unknown flag is refused before the descriptor is looked up.
        s.fd_fdstat_set_flags(99, flags | 1 << 16).fails(Inval);
    }
    let (same, other) = (s.room(24), s.u32());
    s.fd_fdstat_get(fd.load(), same).ok();
    for flags in [32, 1 << 16, 1 << 31] {
        s.path_open(DIR, 0, "f", 0, BOTH, 0, flags, other).fails(Inval);
    }
    let run = world.run(&s);
    let seen = stats.map(|stat| u32::from(fdstat(&run, stat).1));
    assert_eq!(seen, [all, APPEND, NONBLOCK, 0]);
    assert_eq!(fdstat(&run, same).1, 0, "a refused change changes nothing");
}

#[test]
fn filestat_of_files_directories_and_streams() {
    let mut world = world();
    let mut s = Script::new();
    let (file, dir) = (s.open("f", 0, READ), s.open("d", DIRECTORY, READ));
    let fds = [0.into(), 1.into(), 2.into(), file, dir, DIR.into()];
    let stats = fds.map(|fd| {
        let stat = s.room(64);
        s.fd_filestat_get(fd, stat).ok();
        stat
    });
    let by_path = s.room(64);
    s.path_filestat_get(DIR, 0, "f", by_path).ok();
    let run = world.run(&s);
    let [stdin, stdout, stderr, file, dir, preopen] = stats.map(|stat| run.stat(stat));
    for (stream, ino) in [(stdin, 4), (stdout, 5), (stderr, 5)] {
        assert_eq!((stream.dev, stream.file_type, stream.nlink, stream.size), (0, 0, 0, 0));
        assert_eq!((stream.ino, stream.atim, stream.mtim, stream.ctim), (ino, 0, 0, 0));
    }
    assert_eq!(run.stat(by_path), file);
    assert_eq!((file.dev, file.file_type, file.nlink, file.size), (1, FILE_TYPE, 1, 7));
    let start = DEFAULT_START_NS;
    // The test made the file before the program started, so its times are slightly later than the
    // start.
    assert!(
        [file.atim, file.mtim, file.ctim]
            .iter()
            .all(|time| (start..start + 1_000_000).contains(time))
    );
    for dir in [dir, preopen] {
        assert_eq!((dir.dev, dir.file_type, dir.nlink, dir.size), (1, DIRECTORY_TYPE, 1, 0));
    }
    assert!(file.ino != dir.ino && dir.ino != preopen.ino && preopen.ino != file.ino);
}

#[test]
fn set_size_extends_with_zeros_and_truncates() {
    let mut world = world();
    let mut s = Script::new();
    let fd = s.open("f", 0, BOTH);
    let sizes: Vec<Slot> = [3, 6, 0, 2]
        .into_iter()
        .map(|size| {
            s.fd_filestat_set_size(fd, size).ok();
            let stat = s.room(64);
            s.fd_filestat_get(fd, stat).ok();
            if size == 6 {
                let (buf, n) = (s.room(8), s.u32());
                s.fd_pread(fd, scatter([buf]), 0, n).ok();
                return buf;
            }
            stat
        })
        .collect();
    let run = world.run(&s);
    assert_eq!(run.bytes(sizes[1]), b"con\0\0\0\xa5\xa5");
    assert_eq!([0, 2, 3].map(|i| run.stat(sizes[i]).size), [3, 0, 2]);
    assert_eq!(world.read("f"), [0, 0]);
}

#[test]
fn allocating_extends_and_never_shrinks() {
    let mut world = world();
    let mut s = Script::new();
    let fd = s.open("f", 0, WRITE);
    s.fd_allocate(fd, 0, 0).fails(Inval);
    s.fd_allocate(fd, 100, 0).fails(Inval);
    s.fd_allocate(fd, 0, 2).ok();
    let (before, after) = (s.room(64), s.room(64));
    s.fd_filestat_get(fd, before).ok();
    s.fd_allocate(fd, 5, 5).ok();
    s.fd_filestat_get(fd, after).ok();
    s.fd_allocate(fd, u64::MAX, 1).fails(Errno::Fbig);
    s.fd_allocate(fd, 1, u64::MAX).fails(Errno::Fbig);
    s.fd_allocate(fd, 1_u64 << 60, 1).fails(Errno::Fbig);
    let run = world.run(&s);
    assert_eq!((run.stat(before).size, run.stat(after).size), (7, 10));
    assert_eq!(world.read("f"), b"content\0\0\0");
}

#[test]
fn fd_advise_accepts_six_values() {
    let mut world = world();
    let mut s = Script::new();
    let fd = s.open("f", 0, READ);
    for advice in 0..=5 {
        s.fd_advise(fd, u64::MAX, u64::MAX, advice).ok();
    }
    for advice in [6, 255, 256, u32::MAX] {
        s.fd_advise(fd, 0, 0, advice).fails(Inval);
    }
    world.run(&s);
}

#[test]
fn set_times_keeps_sets_or_uses_now() {
    let (now, a, m) = (DEFAULT_START_NS + 5_000_000_000, 111, u64::MAX);
    let mut world = world();
    world.machine.advance(std::time::Duration::from_secs(5));
    let mut s = Script::new();
    let fd = s.open("f", 0, READ);
    let old = DEFAULT_START_NS;
    let mut expected = Vec::new();
    let mut stats = Vec::new();
    for (atim_flags, atim) in [(0, old), (ATIM, a), (ATIM_NOW, now)] {
        for (mtim_flags, mtim) in [(0, old), (MTIM, m), (MTIM_NOW, now)] {
            for by_path in [false, true] {
                let flags = atim_flags | mtim_flags;
                s.fd_filestat_set_times(fd, old, old, ATIM | MTIM).ok();
                if by_path {
                    s.path_filestat_set_times(DIR, 0, "f", a, m, flags).ok();
                } else {
                    s.fd_filestat_set_times(fd, a, m, flags).ok();
                }
                let stat = s.room(64);
                s.fd_filestat_get(fd, stat).ok();
                stats.push(stat);
                expected.push((atim, mtim));
            }
        }
    }
    let run = world.run(&s);
    // The times of writes differ by less than a millisecond.
    let whole = |time: u64| time - time % 1_000_000;
    let seen: Vec<(u64, u64)> = stats
        .iter()
        .map(|stat| (run.stat(*stat).atim, run.stat(*stat).mtim))
        .map(|(a, m)| {
            (if a == 111 { a } else { whole(a) }, if m == u64::MAX { m } else { whole(m) })
        })
        .collect();
    assert_eq!(seen, expected);
    assert_eq!(whole(run.stat(stats[0]).ctim), now, "a change of times is a change");
}

#[test]
fn setting_a_time_to_a_value_and_to_now_is_invalid() {
    let mut world = world();
    let mut s = Script::new();
    let fd = s.open("f", 0, READ);
    for flags in [ATIM | ATIM_NOW, MTIM | MTIM_NOW, 15, 16, 1 << 16, u32::MAX] {
        s.fd_filestat_set_times(fd, 1, 1, flags).fails(Inval);
        s.path_filestat_set_times(DIR, 0, "f", 1, 1, flags).fails(Inval);
    }
    let stat = s.room(64);
    s.fd_filestat_get(fd, stat).ok();
    let before = world.written("f");
    let run = world.run(&s);
    assert_eq!(run.stat(stat).mtim, before);
}

/// As on Linux, where `utimensat` that omits both times changes nothing.
#[test]
fn keeping_both_times_changes_nothing() {
    let mut world = world();
    world.machine.advance(std::time::Duration::from_secs(5));
    let mut s = Script::new();
    let fd = s.open("f", 0, READ);
    let stat = s.room(64);
    s.fd_filestat_set_times(fd, 1, 1, 0).ok();
    s.fd_filestat_get(fd, stat).ok();
    let before = world.written("f");
    let run = world.run(&s);
    assert_eq!(run.stat(stat).ctim, before);
}

#[test]
fn preopened_directories_have_names() {
    let mut world = World::confined(builder());
    let preopen = |name: &str| Preopen {
        path: "/w".to_owned(),
        name: name.to_owned(),
        reach: Reach::Namespace,
    };
    world.preopens = Some(vec![preopen("."), preopen(""), preopen("a longer name/é")]);
    let mut s = Script::new();
    let lens = [(); 3].map(|()| s.room(8));
    for (fd, len) in (DIR..).zip(lens) {
        s.fd_prestat_get(fd, len).ok();
    }
    s.fd_prestat_get(6, 0).fails(Badf);
    let names = [1, 0, 16].map(|len| s.room(len));
    for (fd, name) in (DIR..).zip(names) {
        s.fd_prestat_dir_name(fd, name).ok();
    }
    // A longer buffer is filled up to the length of the name; a shorter one is not changed.
    let (long, short) = (s.room(20), s.room(15));
    s.fd_prestat_dir_name(5, long).ok();
    s.fd_prestat_dir_name(5, short).fails(Errno::Nametoolong);
    s.fd_prestat_dir_name(3, (short.addr, 0)).fails(Errno::Nametoolong);
    let run = world.run(&s);
    assert_eq!(lens.map(|len| run.u64(len)), [1, 0, 16].map(|len: u64| len << 32));
    assert_eq!(
        names.map(|name| run.bytes(name)),
        [b".".as_slice(), b"", "a longer name/é".as_bytes()]
    );
    assert_eq!(run.bytes(long), ["a longer name/é".as_bytes(), &[MASK; 4]].concat());
}
