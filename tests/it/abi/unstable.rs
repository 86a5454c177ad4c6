//! `wasi_unstable`, the predecessor of preview1: four functions have other layouts, all others are
//! the same.

use belljar::Errno::{Badf, Inval, Noent, Notsock, Notsup, Spipe};
use belljar::kernel::clock::UPTIME_NS;

use super::flags::*;
use super::interpreter::MEMORY_BYTES;
use super::poll::{Wait, after, events, poll};
use super::script::{Script, Slot, Snapshot, gather, scatter};
use super::world::{DIR, Run, World};

/// `whence` has other numbers.
const CUR_HERE: u32 = 0;
const END_HERE: u32 = 1;
const SET_HERE: u32 = 2;

fn script() -> Script {
    Script::of(Snapshot::Unstable)
}

fn world() -> World {
    let mut world = World::new();
    world.file("f", b"0123456789");
    world.link("l", "f");
    world.stdin = b"in".to_vec();
    world
}

#[test]
fn unstable_seek_uses_its_own_whence_numbers() {
    let mut s = script();
    let fd = s.open("f", 0, BOTH);
    let steps: &[(i64, u32, u64)] =
        &[(4, CUR_HERE, 4), (3, SET_HERE, 3), (2, CUR_HERE, 5), (-1, END_HERE, 9)];
    let offsets: Vec<Slot> = steps
        .iter()
        .map(|(delta, whence, _)| {
            let out = s.u64();
            s.fd_seek(fd, *delta, *whence, out).ok();
            out
        })
        .collect();
    let out = s.u64();
    for (delta, whence) in [(0, 3), (0, u32::MAX), (-1, SET_HERE), (-11, END_HERE)] {
        s.fd_seek(fd, delta, whence, out).fails(Inval);
    }
    s.fd_seek(DIR, 0, SET_HERE, out).fails(Badf);
    s.fd_seek(0, 0, SET_HERE, out).fails(Spipe);
    s.fd_seek(99, 0, SET_HERE, out).fails(Badf);
    let run = world().run(&s);
    for ((.., expected), offset) in steps.iter().zip(offsets) {
        assert_eq!(run.u64(offset), *expected);
    }
}

/// The 56 bytes of a `filestat` of `wasi_unstable`, as the 64 bytes of preview1.
fn widened(run: &Run, slot: Slot) -> Vec<u8> {
    let bytes = run.bytes(slot);
    assert_eq!(bytes[17..20], [0; 3], "what pads the structure");
    let (head, links, rest) = (&bytes[..17], &bytes[20..24], &bytes[24..]);
    [head, &[0; 7], links, &[0; 4], rest].concat()
}

#[test]
fn unstable_filestat_has_a_32_bit_link_count() {
    let mut world = world();
    let ask = |s: &mut Script, len: u32| {
        let file = s.open("f", 0, READ);
        s.path_link(DIR, 0, "f", DIR, "g").any();
        let stats = [(); 6].map(|()| s.room(len));
        for (fd, stat) in [file, DIR.into(), 0.into()].into_iter().zip(stats) {
            s.fd_filestat_get(fd, stat).ok();
        }
        s.path_filestat_get(DIR, 0, "f", stats[3]).ok();
        s.path_filestat_get(DIR, 0, "l", stats[4]).ok();
        s.path_filestat_get(DIR, FOLLOW, "l", stats[5]).ok();
        let out = s.room(len);
        s.fd_filestat_get(99, out).fails(Badf);
        s.path_filestat_get(99, 0, "f", out).fails(Badf);
        s.path_filestat_get(DIR, 2, "f", out).fails(Inval);
        s.path_filestat_get(DIR, 0, "missing", out).fails(Noent);
        stats
    };
    let (mut old, mut new) = (script(), Script::new());
    let (old_stats, new_stats) = (ask(&mut old, 56), ask(&mut new, 64));
    let (old_run, new_run) = (world.run(&old), world.run(&new));
    for (old, new) in old_stats.into_iter().zip(new_stats) {
        assert_eq!(widened(&old_run, old), new_run.bytes(new));
    }
    let file = new_run.stat(new_stats[0]);
    assert_eq!((file.nlink, file.size, file.mtim), (2, 10, world.written("f")));
}

#[test]
fn unstable_clock_subscription_has_its_own_identifier() {
    let (mut s, mut world) = (script(), world());
    let now = world.machine.now_ns();
    let waits = [after(30), Wait::Clock(REALTIME, now + 20, 1), after(20)];
    let (clocks, call) = poll(&mut s, &waits);
    call.ok();
    let (ready, call) = poll(&mut s, &[after(9), Wait::Read(0), Wait::Write(1), Wait::Read(99)]);
    call.ok();
    for bad in [Wait::Other(3), Wait::Clock(4, 0, 0), Wait::Clock(0, 0, 2)] {
        poll(&mut s, &[after(1), bad]).1.fails(Inval);
    }
    poll(&mut s, &[]).1.fails(Inval);
    s.poll_oneoff(0, 0, 65_537, 0).fails(Inval);
    let time = s.u64();
    s.clock_time_get(MONOTONIC, 0, time).ok();
    let run = world.run(&s);
    assert_eq!(events(&run, clocks), [(101, 0, 0, 0, false), (102, 0, 0, 0, false)]);
    let badf = (103, Badf.code(), 1, 0, false);
    assert_eq!(events(&run, ready), [(101, 0, 1, 2, false), (102, 0, 2, 0, false), badf]);
    assert_eq!(run.u64(time), UPTIME_NS + 20);
}

/// Calls every function that is the same under both names.
fn tour(snapshot: Snapshot) -> Script {
    let mut s = Script::of(snapshot);
    let (n, m, long, stat) = (s.u32(), s.u32(), s.u64(), s.room(24));
    let (list, strings, buf) = (s.room(16), s.room(32), s.room(200));
    s.args_sizes_get(n, m).ok();
    s.args_get(list, strings).ok();
    s.environ_sizes_get(n, m).ok();
    s.environ_get(list, strings).ok();
    s.clock_res_get(0, long).ok();
    s.clock_time_get(0, 0, long).ok();
    let fd = s.u32();
    s.path_open(DIR, 0, "f", 0, BOTH, 0, 0, fd).ok();
    let fd = fd.load();
    s.fd_advise(fd, 0, 0, 5).ok();
    s.fd_allocate(fd, 0, 12).ok();
    s.fd_datasync(fd).ok();
    s.fd_sync(fd).ok();
    s.fd_fdstat_set_flags(fd, APPEND).ok();
    s.fd_fdstat_get(fd, stat).ok();
    s.fd_fdstat_set_rights(fd, 0, 0).fails(Notsup);
    s.fd_filestat_set_times(fd, 1, 2, 5).ok();
    s.fd_write(fd, gather(["end"]), n).ok();
    s.fd_filestat_set_size(fd, 14).ok();
    s.fd_pwrite(fd, gather(["x"]), 0, n).ok();
    s.fd_tell(fd, long).ok();
    s.fd_pread(fd, scatter([buf.part(0, 20)]), 0, n).ok();
    s.fd_read(0, scatter([buf.part(20, 5)]), m).ok();
    s.fd_prestat_get(DIR, list).ok();
    s.fd_prestat_dir_name(DIR, strings.part(8, 4)).ok();
    s.path_create_directory(DIR, "d").ok();
    s.path_symlink("text", DIR, "d/l").ok();
    s.path_readlink(DIR, "d/l", buf.part(30, 10), n).ok();
    s.path_filestat_set_times(DIR, 0, "d", 3, 4, 5).ok();
    s.path_link(DIR, 0, "f", DIR, "g").ok();
    s.path_rename(DIR, "g", DIR, "d/g").ok();
    s.fd_readdir(DIR, buf.part(40, 150), 0, m).ok();
    s.path_unlink_file(DIR, "d/g").ok();
    s.path_unlink_file(DIR, "d/l").ok();
    s.path_remove_directory(DIR, "d").ok();
    s.random_get(buf.part(190, 10)).ok();
    s.sched_yield().ok();
    s.proc_raise(9).fails(Notsup);
    s.sock_accept(fd, 0, 0).fails(Notsock);
    s.sock_recv(fd, (0, 0), 0, 0, 0).fails(Notsock);
    s.sock_send(fd, (0, 0), 0, 0).fails(Notsock);
    s.sock_shutdown(fd, 0).fails(Notsock);
    s.fd_renumber(fd, 0).ok();
    s.fd_close(0).ok();
    s.random_get((MEMORY_BYTES, 1)).fails(belljar::Errno::Fault);
    s.dump();
    s.proc_exit(42).any();
    s
}

#[test]
fn all_other_unstable_functions_equal_preview1() {
    let runs = [Snapshot::Preview1, Snapshot::Unstable].map(|snapshot| {
        let mut world = world();
        world.env.push(("K".to_owned(), "v".to_owned()));
        let s = tour(snapshot);
        let run = world.run_until(&s);
        assert_eq!(run.outcome, belljar::Outcome::Exited(42));
        let faults = s.faults(&run.answers, &run.memory);
        // The last call, which does not return, is not in the dump.
        assert_eq!(faults.len(), 1, "{}", faults.join("\n"));
        (run.answers, run.memory, world.tree())
    });
    assert!(runs[0] == runs[1]);
}
