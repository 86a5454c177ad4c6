//! Reading, writing and seeking in files.

use belljar::Errno::{Badf, Fault, Fbig, Inval, Nospc};
use belljar::kernel::clock::DEFAULT_START_NS;
use belljar::{Limit, Limits};

use super::flags::*;
use super::interpreter::{MASK, MEMORY_BYTES};
use super::script::{Pair, Script, Slot, anywhere, gather, scatter};
use super::world::{DIR, World};

fn world() -> World {
    let mut world = World::new();
    world.file("f", b"0123456789");
    world
}

#[test]
fn buffers_are_filled_one_after_the_other() {
    let mut s = Script::new();
    let fd = s.open("f", 0, READ);
    let (a, b, rest, none) = (s.room(3), s.room(4), s.room(5), s.room(9));
    let counts = [(); 3].map(|()| s.u32());
    s.fd_read(fd, scatter([a, a.part(3, 0), b]), counts[0]).ok();
    s.fd_read(fd, scatter([rest]), counts[1]).ok();
    s.fd_read(fd, scatter([none]), counts[2]).ok();
    let run = world().run(&s);
    assert_eq!((run.bytes(a), run.bytes(b)), (&b"012"[..], &b"3456"[..]));
    assert_eq!(run.bytes(rest), b"789\xa5\xa5");
    assert_eq!(run.bytes(none), [MASK; 9], "there was nothing left to read");
    assert_eq!(counts.map(|count| run.u32(count)), [7, 3, 0]);
}

/// WASI does not require the memory ranges of one call to be disjoint.
#[test]
fn buffers_may_overlap_each_other_and_the_result() {
    let mut s = Script::new();
    let fd = s.open("f", 0, BOTH);
    let (twice, n) = (s.room(4), s.u32());
    s.fd_read(fd, scatter([twice, twice]), n).ok();
    // The count is written into the buffer after the bytes; the list is in the buffer that is
    // filled.
    let counted = s.room(8);
    s.fd_pread(fd, scatter([counted]), 0, counted).ok();
    let list = s.room(16);
    s.bytes_at(list.addr, &[list.addr.to_le_bytes(), 16_u32.to_le_bytes()].concat());
    s.fd_pread(fd, (list.addr, 1), 0, n).ok();
    let run = world().run(&s);
    assert_eq!(run.bytes(twice), b"4567");
    assert_eq!(run.bytes(counted), b"\x08\0\0\x004567");
    assert_eq!(run.bytes(list.part(0, 10)), b"0123456789");
}

#[test]
fn empty_buffer_lists_move_no_bytes() {
    let mut s = Script::new();
    let fd = s.open("f", 0, BOTH);
    let n = [(); 6].map(|()| s.u32());
    let none = || Pair::from((MEMORY_BYTES, 0));
    s.fd_read(fd, none(), n[0]).ok();
    s.fd_pread(fd, none(), u64::MAX, n[1]).ok();
    s.fd_write(fd, none(), n[2]).ok();
    s.fd_pwrite(fd, none(), u64::MAX, n[3]).ok();
    s.fd_write(1, none(), n[4]).ok();
    s.fd_read(0, none(), n[5]).ok();
    // The maximum number of empty buffers, at the end of memory.
    let (empty, m) = (MEMORY_BYTES, s.u32());
    s.fd_read(fd, anywhere([(empty, 0); 1024]), m).ok();
    s.fd_write(fd, anywhere([(empty, 0); 1024]), m).ok();
    s.fd_write(fd, anywhere([(empty, 0); 1025]), m).fails(Inval);
    let mut world = world();
    let run = world.run(&s);
    assert_eq!(n.map(|n| run.u32(n)), [0; 6]);
    assert_eq!(world.read("f"), b"0123456789");
}

#[test]
fn pread_and_pwrite_do_not_move_the_offset() {
    let mut s = Script::new();
    let fd = s.open("f", 0, BOTH);
    let n = s.u32();
    s.fd_write(fd, gather(["ab", "", "c"]), n).ok();
    let offsets = [(); 4].map(|()| s.u64());
    s.fd_tell(fd, offsets[0]).ok();
    let (a, b, past) = (s.room(2), s.room(4), s.room(4));
    let counts = [(); 5].map(|()| s.u32());
    s.fd_pread(fd, scatter([a, b]), 1, counts[0]).ok();
    s.fd_pwrite(fd, gather(["XY", "Z"]), 12, counts[1]).ok();
    s.fd_pread(fd, scatter([past]), 15, counts[2]).ok();
    s.fd_pread(fd, scatter([past]), u64::MAX, counts[3]).ok();
    s.fd_tell(fd, offsets[1]).ok();
    s.fd_read(fd, scatter([past.part(0, 1)]), counts[4]).ok();
    s.fd_tell(fd, offsets[2]).ok();
    s.fd_pwrite(fd, gather(["x"]), u64::MAX, n).fails(Fbig);
    s.fd_pwrite(fd, gather(["x"]), 1_u64 << 62, n).fails(Fbig);
    s.fd_tell(fd, offsets[3]).ok();
    let mut world = world();
    let run = world.run(&s);
    assert_eq!(offsets.map(|offset| run.u64(offset)), [3, 3, 4, 4]);
    assert_eq!((run.bytes(a), run.bytes(b)), (&b"bc"[..], &b"3456"[..]));
    assert_eq!(counts.map(|count| run.u32(count)), [6, 3, 0, 0, 1]);
    assert_eq!(run.bytes(past), [b'3', MASK, MASK, MASK]);
    assert_eq!(world.read("f"), b"abc3456789\0\0XYZ", "the gap reads as zeros");
}

#[test]
fn append_writes_at_the_current_end() {
    let mut s = Script::new();
    let (append, other) = (s.u32(), s.open("f", 0, WRITE));
    s.path_open(DIR, 0, "f", 0, BOTH, 0, APPEND, append).ok();
    let append = append.load();
    let offsets = [(); 5].map(|()| s.u64());
    let n = s.u32();
    s.fd_tell(append, offsets[0]).ok();
    // An empty write does not move the offset.
    s.write(append, "");
    s.fd_tell(append, offsets[4]).ok();
    s.write(append, "A");
    s.fd_tell(append, offsets[1]).ok();
    s.fd_pwrite(other, gather(["BC"]), 11, n).ok();
    s.write(append, "D");
    s.fd_tell(append, offsets[2]).ok();
    // As on Linux, the bytes are appended.
    s.fd_pwrite(append, gather(["E"]), 0, n).ok();
    s.fd_tell(append, offsets[3]).ok();
    // The flag can be cleared and set.
    s.fd_fdstat_set_flags(append, 0).ok();
    let at = s.u64();
    s.fd_seek(append, 0, SET, at).ok();
    s.write(append, "f");
    s.fd_fdstat_set_flags(other, APPEND).ok();
    s.write(other, "G");
    let mut world = world();
    let run = world.run(&s);
    assert_eq!(offsets.map(|offset| run.u64(offset)), [0, 11, 14, 14, 0]);
    assert_eq!(world.read("f"), b"f123456789ABCDEG");
}

#[test]
fn seek_is_relative_to_start_offset_or_end() {
    let mut s = Script::new();
    let fd = s.open("f", 0, BOTH);
    let steps: &[(i64, u32, u64)] = &[
        (4, SET, 4),
        (3, CUR, 7),
        (-7, CUR, 0),
        (0, END, 10),
        (-10, END, 0),
        (5, END, 15),
        (0, CUR, 15),
        (i64::MAX, SET, i64::MAX as u64),
        (0, CUR, i64::MAX as u64),
        (i64::MIN + 1, CUR, 0),
        (2, SET, 2),
    ];
    let offsets: Vec<(Slot, Slot)> = steps
        .iter()
        .map(|(delta, whence, _)| {
            let (answer, told) = (s.u64(), s.u64());
            s.fd_seek(fd, *delta, *whence, answer).ok();
            s.fd_tell(fd, told).ok();
            (answer, told)
        })
        .collect();
    let run = world().run(&s);
    for ((delta, whence, expected), (answer, told)) in steps.iter().zip(offsets) {
        assert_eq!((run.u64(answer), run.u64(told)), (*expected, *expected), "{delta} {whence}");
    }
}

#[test]
fn offsets_outside_the_signed_range_are_refused() {
    let mut s = Script::new();
    let fd = s.open("f", 0, BOTH);
    let out = s.u64();
    s.fd_seek(fd, 4, SET, out).ok();
    let (bad, told) = (s.u64(), s.u64());
    for (delta, whence) in [
        (-1, SET),
        (i64::MIN, SET),
        (-5, CUR),
        (i64::MIN, CUR),
        (-11, END),
        (i64::MIN, END),
        (i64::MAX, CUR),
        (i64::MAX, END),
    ] {
        s.fd_seek(fd, delta, whence, bad).fails(Inval);
    }
    // An unknown `whence` is refused before the descriptor is looked up.
    for whence in [3, 255, 256, u32::MAX] {
        s.fd_seek(fd, 0, whence, bad).fails(Inval);
        s.fd_seek(99, 0, whence, bad).fails(Inval);
    }
    s.fd_seek(99, 0, SET, bad).fails(Badf);
    s.fd_tell(fd, told).ok();
    let run = world().run(&s);
    assert_eq!(run.u64(told), 4, "a refused seek moves nothing");
}

#[test]
fn at_the_maximum_offset_reads_are_empty_and_writes_fail_with_fbig() {
    let mut s = Script::new();
    let fd = s.open("f", 0, BOTH);
    let (out, n, buf) = (s.u64(), s.u32(), s.room(4));
    s.fd_seek(fd, i64::MAX, SET, out).ok();
    s.fd_read(fd, scatter([buf]), n).ok();
    let m = s.u32();
    s.fd_write(fd, gather(["x"]), m).fails(Fbig);
    s.fd_write(fd, gather([""]), m).ok();
    s.fd_seek(fd, 12, SET, out).ok();
    s.write(fd, "x");
    let mut world = world();
    let run = world.run(&s);
    assert_eq!((run.u32(n), run.u32(m)), (0, 0));
    assert_eq!(run.bytes(buf), [MASK; 4]);
    assert_eq!(world.read("f"), b"0123456789\0\0x");
}

#[test]
fn a_file_is_no_longer_than_the_limit() {
    let mut limits = Limits::default();
    limits.vfs.file_bytes_max = 10;
    let mut world = World::with(limits);
    let mut s = Script::new();
    let fd = s.open("f", CREAT, BOTH);
    s.write(fd, "12345678");
    let n = s.u32();
    s.fd_write(fd, gather(["abc"]), n).fails(Fbig);
    s.fd_pwrite(fd, gather(["abc"]), 8, n).fails(Fbig);
    s.fd_filestat_set_size(fd, 11).fails(Fbig);
    s.fd_filestat_set_size(fd, u64::MAX).fails(Fbig);
    s.fd_allocate(fd, 10, 1).fails(Fbig);
    // The buffers that fit completely are written; the count is their length.
    s.fd_write(fd, gather(["a", "bc"]), n).ok();
    let tail = s.u32();
    s.fd_write(fd, gather(["", "b"]), tail).ok();
    s.fd_write(fd, gather(["", "c"]), tail).fails(Fbig);
    let run = world.run(&s);
    assert_eq!((run.u32(n), run.u32(tail)), (1, 1));
    assert_eq!(world.read("f"), b"12345678ab");
    assert_eq!(world.machine.limits_hit(), [Limit::FileSize]);
}

#[test]
fn written_bytes_are_limited() {
    const LIMIT: u64 = 4 << 10;
    let mut limits = Limits::default();
    limits.vfs.upper_bytes_max = LIMIT;
    let mut world = World::with(limits);
    let mut s = Script::new();
    let fd = s.open("f", CREAT, BOTH);
    let (n, other) = (s.u32(), s.u32());
    let block = s.bytes(&[b'x'; 64]);
    let list = s.bytes(&[block.addr.to_le_bytes(), block.len.to_le_bytes()].concat()).addr;
    let writes: Vec<usize> = (0..=LIMIT / 64).map(|_| s.fd_write(fd, (list, 1), n).any()).collect();
    s.fd_pwrite(fd, (list, 1), 1 << 20, n).fails(Nospc);
    s.fd_pwrite(fd, (list, 1), 0, n).ok();
    s.fd_allocate(fd, 0, LIMIT + 1).fails(Nospc);
    s.path_open(DIR, 0, "g", CREAT, BOTH, 0, 0, other).fails(Nospc);
    s.path_create_directory(DIR, "d").fails(Nospc);
    s.path_symlink("f", DIR, "l").fails(Nospc);
    s.path_link(DIR, 0, "f", DIR, "k").fails(Nospc);
    // Bytes that are freed can be used again.
    s.fd_filestat_set_size(fd, 0).ok();
    s.fd_pwrite(fd, (list, 1), 1 << 10, n).ok();
    let run = world.run(&s);
    let written: Vec<u32> = writes.iter().map(|index| run.errno(*index)).collect();
    let fit = written.iter().take_while(|errno| **errno == 0).count();
    assert!(fit > 0 && written[fit..].iter().all(|errno| *errno == u32::from(Nospc.code())));
    assert!(!["g", "d", "l", "k"].iter().any(|name| world.has(name)));
    assert_eq!(world.read("f").len(), (1 << 10) + 64);
    assert_eq!(world.machine.limits_hit(), [Limit::Upper]);
}

/// A hole takes no memory, so it does not count towards the limit.
#[test]
fn holes_are_free() {
    let mut limits = Limits::default();
    limits.vfs.upper_bytes_max = 1 << 10;
    let mut world = World::with(limits);
    let mut s = Script::new();
    let fd = s.open("f", CREAT, BOTH);
    s.fd_filestat_set_size(fd, 1_u64 << 33).ok();
    let (buf, n, stat) = (s.room(4), s.u32(), s.room(64));
    s.fd_pread(fd, scatter([buf]), (1_u64 << 33) - 2, n).ok();
    s.fd_filestat_get(fd, stat).ok();
    let run = world.run(&s);
    assert_eq!((run.bytes(buf), run.u32(n)), (&[0, 0, MASK, MASK][..], 2));
    assert_eq!(run.stat(stat).size, 1 << 33);
}

/// All buffers are checked before any of them is used.
#[test]
fn bad_buffer_fails_the_whole_call() {
    let mut s = Script::new();
    let fd = s.open("f", 0, BOTH);
    let (good, n) = (s.room(4), s.u32());
    let good = (good.addr, good.len);
    let bad = [(MEMORY_BYTES, 1), (MEMORY_BYTES - 1, 2), (u32::MAX, 1), (0, u32::MAX)];
    for bad in bad {
        let list = || anywhere([good, bad]);
        s.fd_read(fd, list(), n).fails(Fault);
        s.fd_pread(fd, list(), 0, n).fails(Fault);
        s.fd_write(fd, list(), n).fails(Fault);
        s.fd_pwrite(fd, list(), 0, n).fails(Fault);
        s.fd_read(0, list(), n).fails(Fault);
        s.fd_write(1, list(), n).fails(Fault);
    }
    let told = s.u64();
    s.fd_tell(fd, told).ok();
    let (rest, stdin) = (s.u32(), s.room(8));
    s.fd_read(0, scatter([stdin]), rest).ok();
    let mut world = world();
    world.stdin = b"input".to_vec();
    let run = world.run(&s);
    assert_eq!((run.u64(told), run.u32(rest)), (0, 5));
    assert_eq!(world.read("f"), b"0123456789");
    assert_eq!(run.stdout, b"");
}

/// The byte count is returned as a u32, so a call that could move more is refused.
#[test]
fn buffer_lists_beyond_u32_bytes_are_invalid() {
    let mut limits = Limits::default();
    limits.vfs.upper_bytes_max = 1 << 20;
    let mut world = World::with(limits);
    let mut s = Script::new();
    s.grow(80);
    let fd = s.open("f", CREAT, BOTH);
    s.fd_filestat_set_size(fd, 8_u64 << 30).ok();
    let (n, offset) = (s.u32(), s.u64());
    let list = || anywhere([(MEMORY_BYTES, 80 << 16); 1024]);
    s.fd_read(fd, list(), n).fails(Inval);
    s.fd_pread(fd, list(), 0, n).fails(Inval);
    s.fd_write(fd, list(), n).fails(Inval);
    s.fd_pwrite(fd, list(), 0, n).fails(Inval);
    s.fd_tell(fd, offset).ok();
    let run = world.run(&s);
    assert_eq!(run.u64(offset), 0);
}

/// Growing memory may move it: calls use the current address.
#[test]
fn calls_reach_memory_that_was_grown() {
    let mut s = Script::new();
    let fd = s.open("f", 0, BOTH);
    let n = s.u32();
    let last = MEMORY_BYTES - 4;
    s.fd_pread(fd, anywhere([(last, 8)]), 0, n).fails(Fault);
    s.grow(1);
    let across = s.room_at(last, 8);
    s.fd_pread(fd, scatter([across]), 0, n).ok();
    let end = s.room_at(2 * MEMORY_BYTES - 3, 3);
    s.random_get((end.addr, 4)).fails(Fault);
    s.random_get(end).ok();
    let run = world().run(&s);
    assert_eq!(run.bytes(across), b"01234567");
}

#[test]
fn writes_set_the_modification_time_and_reads_do_not() {
    let mut world = world();
    world.machine.advance(std::time::Duration::from_secs(9));
    let mut s = Script::new();
    let fd = s.open("f", 0, BOTH);
    let stats = [(); 3].map(|()| s.room(64));
    let (buf, n) = (s.room(4), s.u32());
    s.fd_read(fd, scatter([buf]), n).ok();
    s.fd_write(fd, gather([""]), n).ok();
    s.fd_filestat_get(fd, stats[0]).ok();
    s.write(fd, "x");
    s.fd_filestat_get(fd, stats[1]).ok();
    s.path_filestat_set_times(DIR, 0, "f", 0, 7, MTIM).ok();
    s.fd_filestat_set_size(fd, 3).ok();
    s.fd_filestat_get(fd, stats[2]).ok();
    let run = world.run(&s);
    let times = stats.map(|stat| {
        let stat = run.stat(stat);
        [stat.atim, stat.mtim, stat.ctim].map(|time| (time - DEFAULT_START_NS) / 1_000_000_000)
    });
    assert_eq!(times, [[0, 0, 0], [0, 9, 9], [0, 9, 9]]);
}
