//! `proc_*`, `sched_yield` and `sock_*`.

use belljar::Errno::{Badf, Notsock, Notsup};
use belljar::tape::{Kind, MemoryTape, Recorder, Redaction};
use belljar::{Machine, Outcome, Source};

use super::flags::*;
use super::script::Script;
use super::world::{DIR, World};

#[test]
fn any_exit_code_passes_through() {
    for code in [0, 1, 2, 63, 124, 125, 255, 256, 1 << 31, u32::MAX] {
        let mut s = Script::new();
        s.write(1, "before");
        s.proc_exit(code).any();
        s.write(1, "after");
        let run = World::new().run_until(&s);
        assert_eq!(run.outcome, Outcome::Exited(code));
        assert_eq!(run.stdout, b"before");
    }
}

/// Descriptors that are open when the process exits are closed.
#[test]
fn a_process_that_exits_leaves_nothing_open() {
    let mut world = World::new();
    let before = world.machine.vfs().upper_bytes();
    let mut s = Script::new();
    let fd = s.open("f", CREAT, WRITE);
    s.write(fd, "gone when nobody has it open");
    s.path_unlink_file(DIR, "f").ok();
    s.path_create_directory(DIR, "d").ok();
    s.open("d", DIRECTORY, READ);
    s.path_remove_directory(DIR, "d").ok();
    s.proc_exit(3).any();
    assert_eq!(world.run_until(&s).outcome, Outcome::Exited(3));
    assert_eq!(world.machine.vfs().upper_bytes(), before);
}

#[test]
fn proc_raise_is_unsupported_and_sched_yield_succeeds() {
    let mut s = Script::new();
    for signal in [0, 1, 9, 15, 30, 31, 255, u32::MAX] {
        s.proc_raise(signal).fails(Notsup);
    }
    s.sched_yield().ok();
    let mut world = World::new();
    world.run(&s);
    assert!(world.machine.elapsed().is_zero());
}

/// No descriptor is a socket, which is answered before any other fault of a call.
#[test]
fn socket_calls_fail_with_notsock() {
    let mut world = World::new();
    world.file("f", b"");
    let mut s = Script::new();
    let file = s.open("f", 0, BOTH);
    for (ptr, rest) in [(0, 0), (1, 7), (u32::MAX, u32::MAX)] {
        for (fd, errno) in
            [(0.into(), Notsock), (DIR.into(), Notsock), (file, Notsock), (9.into(), Badf)]
        {
            s.sock_accept(fd, rest, ptr).fails(errno);
            s.sock_recv(fd, (ptr, rest), rest, ptr, ptr).fails(errno);
            s.sock_send(fd, (ptr, rest), rest, ptr).fails(errno);
            s.sock_shutdown(fd, rest).fails(errno);
        }
    }
    world.run(&s);
}

#[test]
fn every_call_on_a_socket_is_recorded() {
    let tape = MemoryTape::default();
    let recorder = Recorder::new(tape.clone(), Redaction::default());
    let mut world = World::confined(Machine::builder().mount("/w", Source::Memory).tape(recorder));
    let mut s = Script::new();
    s.sock_send(DIR, (0, 0), 0, 0).fails(Notsock);
    s.sock_accept(9, 0, 0).fails(Badf);
    world.run(&s);
    let reasons: Vec<String> = tape
        .records()
        .into_iter()
        .filter_map(|record| match record.kind {
            Kind::Egress { surface, allowed: false, reason, .. } if surface == "sock" => {
                Some(reason)
            }
            _ => None,
        })
        .collect();
    let no_sockets = |call: &str| format!("{call}: guests have no sockets");
    assert_eq!(reasons, [no_sockets("sock_send"), no_sockets("sock_accept")]);
}
