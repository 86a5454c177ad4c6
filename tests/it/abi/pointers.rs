//! Every pointer of every function: at 0, at the end of memory, past it, not aligned. A call with a bad pointer fails
//! with the errno for it, and has no effect.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use belljar::Errno::{self, Fault, Inval, Notsock};
use belljar::{Command, Module, Outcome, Program};

use super::flags::*;
use super::functions::FUNCTIONS;
use super::interpreter::MEMORY_BYTES as END;
use super::poll::{after, encode};
use super::script::{Arg, Kind, Script, Slot, Snapshot, scatter};
use super::world::{DIR, World};
use crate::support;

/// A parameter of a call.
#[derive(Clone, Copy)]
enum Param {
    /// No pointer.
    Is(u64),
    /// A pointer to room of this size and alignment.
    Out(u32, u32),
    /// A pointer to subscriptions.
    Subscription,
    /// A pointer and a length: a path.
    Text(&'static str),
    /// A pointer and a length: room for bytes.
    Room(u32),
    /// A pointer and a length: a list of two buffers with bytes, or to fill.
    Buffers,
}

use Param::{Buffers, Is, Out, Room, Subscription, Text};

/// A call that succeeds if all of its pointers are good.
struct Case {
    name: &'static str,
    params: Vec<Param>,
}

/// The descriptor of a file that is open in every case.
const FILE: Param = Is(4);
const IN_DIR: Param = Is(DIR as u64);
const COUNT: Param = Out(4, 4);
const OFFSET: Param = Out(8, 8);

fn cases(snapshot: Snapshot) -> Vec<Case> {
    let case = |name, params: &[Param]| Case { name, params: params.to_vec() };
    let filestat = if snapshot == Snapshot::Preview1 { Out(64, 8) } else { Out(56, 8) };
    let (rights, created) = (Is(BOTH), Is(u64::from(CREAT)));
    let both_times = Is(u64::from(ATIM | MTIM));
    vec![
        case("args_get", &[Out(8, 4), Out(10, 1)]),
        case("args_sizes_get", &[COUNT, COUNT]),
        case("clock_res_get", &[Is(0), Out(8, 8)]),
        case("clock_time_get", &[Is(0), Is(0), Out(8, 8)]),
        case("environ_get", &[Out(4, 4), Out(4, 1)]),
        case("environ_sizes_get", &[COUNT, COUNT]),
        case("fd_fdstat_get", &[FILE, Out(24, 8)]),
        case("fd_filestat_get", &[FILE, filestat]),
        case("fd_pread", &[FILE, Buffers, Is(0), COUNT]),
        case("fd_prestat_dir_name", &[IN_DIR, Room(2)]),
        case("fd_prestat_get", &[IN_DIR, Out(8, 4)]),
        case("fd_pwrite", &[FILE, Buffers, Is(0), COUNT]),
        case("fd_read", &[FILE, Buffers, COUNT]),
        case("fd_read", &[Is(0), Buffers, COUNT]),
        case("fd_readdir", &[IN_DIR, Room(64), Is(0), COUNT]),
        case("fd_seek", &[FILE, Is(1), Is(0), OFFSET]),
        case("fd_tell", &[FILE, OFFSET]),
        case("fd_write", &[FILE, Buffers, COUNT]),
        case("fd_write", &[Is(1), Buffers, COUNT]),
        case("path_create_directory", &[IN_DIR, Text("new")]),
        case("path_filestat_get", &[IN_DIR, Is(0), Text("f"), filestat]),
        case("path_filestat_set_times", &[IN_DIR, Is(0), Text("f"), Is(1), Is(1), both_times]),
        case("path_link", &[IN_DIR, Is(0), Text("f"), IN_DIR, Text("new")]),
        case("path_open", &[IN_DIR, Is(0), Text("new"), created, rights, Is(0), Is(0), COUNT]),
        case("path_readlink", &[IN_DIR, Text("l"), Room(8), COUNT]),
        case("path_remove_directory", &[IN_DIR, Text("d")]),
        case("path_rename", &[IN_DIR, Text("f"), IN_DIR, Text("new")]),
        case("path_symlink", &[Text("text"), IN_DIR, Text("new")]),
        case("path_unlink_file", &[IN_DIR, Text("f")]),
        case("poll_oneoff", &[Subscription, Out(32, 8), Is(1), COUNT]),
        case("random_get", &[Room(8)]),
        case("sock_accept", &[FILE, Is(0), COUNT]),
        case("sock_recv", &[FILE, Buffers, Is(0), COUNT, COUNT]),
        case("sock_send", &[FILE, Buffers, Is(0), COUNT]),
    ]
}

/// The functions without pointers.
const WITHOUT_POINTERS: &[&str] = &[
    "fd_advise",
    "fd_allocate",
    "fd_close",
    "fd_datasync",
    "fd_fdstat_set_flags",
    "fd_fdstat_set_rights",
    "fd_filestat_set_size",
    "fd_filestat_set_times",
    "fd_renumber",
    "fd_sync",
    "proc_exit",
    "proc_raise",
    "sched_yield",
    "sock_shutdown",
];

#[test]
fn no_function_with_pointers_is_left_out() {
    let cases = cases(Snapshot::Preview1);
    for case in &cases {
        let (_, kinds) = FUNCTIONS.iter().find(|(name, _)| *name == case.name).unwrap();
        assert_eq!(kinds.len(), case.params.len(), "{}", case.name);
    }
    let known: BTreeSet<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
    let with = cases.iter().map(|case| case.name);
    let all: BTreeSet<&str> = with.chain(WITHOUT_POINTERS.iter().copied()).collect();
    assert_eq!(all, known);
}

impl Case {
    /// The answer of a call whose pointers would give `errno`, or success for `None`.
    fn answer(&self, errno: Option<Errno>) -> Option<Errno> {
        // No descriptor is a socket, which is answered before any pointer is checked.
        if self.name.starts_with("sock_") { Some(Notsock) } else { errno }
    }

    /// Makes the call with `words` in place of its parameter `replaced`.
    fn make(&self, s: &mut Script, replaced: usize, words: &[Arg], answer: Option<Errno>) {
        let mut all = Vec::new();
        for (index, param) in self.params.iter().enumerate() {
            if index == replaced {
                all.extend(words);
            } else {
                all.extend(param.good(s));
            }
        }
        s.call(self.name, &all).answers(self.answer(answer));
    }
}

fn word(value: u32) -> Arg {
    Arg::Const(value.into())
}

/// Writes a list of buffers to `at`.
fn put_list(s: &mut Script, at: u32, buffers: &[(u32, u32)]) {
    let list: Vec<u8> = buffers
        .iter()
        .flat_map(|(ptr, len)| [ptr.to_le_bytes(), len.to_le_bytes()].concat())
        .collect();
    s.bytes_at(at, &list);
}

fn subscription(s: &Script) -> Vec<u8> {
    encode(s.snapshot, 1, after(5))
}

impl Param {
    /// Valid words.
    fn good(self, s: &mut Script) -> Vec<Arg> {
        match self {
            Is(value) => vec![Arg::Const(value)],
            Out(len, _) => vec![word(s.room(len).addr)],
            Subscription => {
                let bytes = subscription(s);
                vec![word(s.bytes(&bytes).addr)]
            }
            Text(text) => {
                let placed = s.bytes(text.as_bytes());
                vec![word(placed.addr), word(placed.len)]
            }
            Room(len) => vec![word(s.room(len).addr), word(len)],
            Buffers => {
                let (a, b, list) = (s.room(2), s.room(3), s.bytes(&[0; 16]));
                put_list(s, list.addr, &[(a.addr, a.len), (b.addr, b.len)]);
                vec![word(list.addr), word(2)]
            }
        }
    }

    /// Valid words, whose pointers lead to `at`.
    fn good_at(self, s: &mut Script, at: fn(u32) -> u32) -> Vec<Vec<Arg>> {
        match self {
            Is(_) => Vec::new(),
            Out(len, _) => vec![vec![word(s.room_at(at(len), len).addr)]],
            Subscription => {
                let bytes = subscription(s);
                let len = u32::try_from(bytes.len()).unwrap();
                vec![vec![word(s.bytes_at(at(len), &bytes).addr)]]
            }
            Text(text) => {
                let len = u32::try_from(text.len()).unwrap();
                let placed = s.bytes_at(at(len), text.as_bytes());
                vec![vec![word(placed.addr), word(placed.len)]]
            }
            Room(len) => vec![vec![word(s.room_at(at(len), len).addr), word(len)]],
            Buffers => {
                let buffer = s.room(3);
                put_list(s, at(8), &[(buffer.addr, buffer.len)]);
                vec![vec![word(at(8)), word(1)]]
            }
        }
    }

    /// Invalid words, with the errno of each.
    fn bad(self, s: &mut Script) -> Vec<(Vec<Arg>, Errno)> {
        let good = self.good(s);
        let Arg::Const(start) = good[0] else { unreachable!() };
        let start = u32::try_from(start).unwrap_or(0);
        match self {
            Is(_) => Vec::new(),
            Out(len, align) => bad_places(start, len, align),
            Subscription => {
                let len = u32::try_from(subscription(s).len()).unwrap();
                bad_places(start, len, 8)
            }
            Text(_) | Room(_) => {
                let ranges = [
                    (END, 1),
                    (END - 1, 2),
                    (END + 1, 0),
                    (1, END),
                    (0, END + 1),
                    (u32::MAX, 0),
                    (u32::MAX, 1),
                    (start, u32::MAX),
                    (u32::MAX, u32::MAX),
                    (0, u32::MAX),
                ];
                ranges.map(|(ptr, len)| (vec![word(ptr), word(len)], Fault)).to_vec()
            }
            Buffers => {
                let mut bad = vec![
                    (vec![word(start + 1), word(1)], Inval),
                    (vec![word(start + 2), word(1)], Inval),
                    (vec![word(u32::MAX), word(0)], Inval),
                    (vec![word(END), word(1)], Fault),
                    (vec![word(END - 4), word(1)], Fault),
                    (vec![word(END + 4), word(0)], Fault),
                    (vec![word(u32::MAX - 3), word(2)], Fault),
                    (vec![word(start), word(1025)], Inval),
                    (vec![word(start), word(u32::MAX)], Inval),
                ];
                let room = s.room(2);
                let spoilt = [
                    (END, 1),
                    (END - 1, 2),
                    (END + 1, 0),
                    (u32::MAX, 1),
                    (0, u32::MAX),
                    (u32::MAX, u32::MAX),
                ];
                for buffer in spoilt {
                    for list in [[(room.addr, 2), buffer], [buffer, (room.addr, 2)]] {
                        let at = s.bytes(&[0; 16]).addr;
                        put_list(s, at, &list);
                        bad.push((vec![word(at), word(2)], Fault));
                    }
                }
                bad
            }
        }
    }
}

/// Pointers at which a value of `len` bytes cannot be, although `start` would be valid.
fn bad_places(start: u32, len: u32, align: u32) -> Vec<(Vec<Arg>, Errno)> {
    let mut bad = vec![(END, Fault), (u32::MAX - (align - 1), Fault)];
    if len > align {
        bad.push(((END - len).next_multiple_of(align) + align, Fault));
    }
    if align > 1 {
        // Alignment is checked first, at every address.
        let places = [1, start + 1, start + align / 2, END - 1, END + 1, u32::MAX];
        bad.extend(places.map(|place| (place, Inval)));
    }
    bad.into_iter().map(|(ptr, errno)| (vec![word(ptr)], errno)).collect()
}

fn world() -> World {
    let mut world = World::new();
    world.file("f", b"content");
    world.dir("d");
    world.link("l", "f");
    world.args = vec![b"one".to_vec()];
    world.env = vec![("K".to_owned(), "v".to_owned())];
    world.stdin = b"input".to_vec();
    world
}

fn start(snapshot: Snapshot) -> Script {
    let mut s = Script::of(snapshot);
    s.open("f", 0, BOTH);
    s
}

/// Reads everything that a call could have changed.
fn probe(s: &mut Script) -> Vec<Slot> {
    let mut seen = Vec::new();
    let mut room = |s: &mut Script, len| {
        let room = s.room(len);
        seen.push(room);
        room
    };
    let filestat = if s.snapshot == Snapshot::Preview1 { 64 } else { 56 };
    for id in [REALTIME, MONOTONIC] {
        let time = room(s, 8);
        s.clock_time_get(id, 0, time).ok();
    }
    for path in [".", "f", "d", "l"] {
        let stat = room(s, filestat);
        s.path_filestat_get(DIR, 0, path, stat).ok();
    }
    let (offset, flags, dirents) = (room(s, 8), room(s, 24), room(s, 256));
    s.fd_tell(4, offset).ok();
    s.fd_fdstat_get(4, flags).ok();
    let used = room(s, 4);
    s.fd_readdir(DIR, dirents, 0, used).ok();
    let (chance, stdin, n) = (room(s, 16), room(s, 8), room(s, 4));
    s.random_get(chance).ok();
    s.fd_read(0, scatter([stdin]), n).ok();
    let next = room(s, 4);
    s.path_open(DIR, 0, "f", 0, READ, 0, 0, next).ok();
    seen
}

/// The results of [`probe`], standard output, the files and the clock after `s`.
fn seen(s: &mut Script) -> (Vec<Vec<u8>>, Vec<u8>, Vec<String>, Duration) {
    let slots = probe(s);
    let mut world = world();
    let run = world.run(s);
    let seen = slots.iter().map(|slot| run.bytes(*slot).to_vec()).collect();
    (seen, run.stdout, world.tree(), world.machine.elapsed())
}

#[test]
fn a_call_with_a_bad_pointer_does_nothing() {
    for snapshot in [Snapshot::Preview1, Snapshot::Unstable] {
        let untouched = seen(&mut start(snapshot));
        let mut made = 0;
        for case in cases(snapshot) {
            for (index, param) in case.params.iter().enumerate() {
                let mut s = start(snapshot);
                for (words, errno) in param.bad(&mut s) {
                    case.make(&mut s, index, &words, Some(errno));
                    made += 1;
                }
                println!("{snapshot:?} {} parameter {index}", case.name);
                assert!(seen(&mut s) == untouched, "it had an effect");
            }
        }
        println!("{made} calls");
        assert!(made > 300, "{made}");
    }
}

/// Address 0 is valid memory, and so is the last byte.
#[test]
fn a_call_may_point_to_the_first_and_the_last_byte() {
    let places: [fn(u32) -> u32; 2] = [|_| 0, |len| END - len];
    for snapshot in [Snapshot::Preview1, Snapshot::Unstable] {
        for case in cases(snapshot) {
            for (index, param) in case.params.iter().enumerate() {
                for at in places {
                    let mut s = start(snapshot);
                    for words in param.good_at(&mut s, at) {
                        case.make(&mut s, index, &words, None);
                        println!("{snapshot:?} {} parameter {index}", case.name);
                        world().run(&s);
                    }
                }
            }
        }
    }
}

/// This holds for modules that export no memory, and for those whose export `memory` is something else.
#[test]
fn without_memory_every_pointer_is_bad() {
    let exports = ["", r#"(global (export "memory") i32 (i32.const 0))"#];
    for (export, snapshot) in exports.into_iter().zip([Snapshot::Preview1, Snapshot::Unstable]) {
        let module = match snapshot {
            Snapshot::Preview1 => "wasi_snapshot_preview1",
            Snapshot::Unstable => "wasi_unstable",
        };
        let (mut imports, mut calls) = (String::new(), String::new());
        for (index, case) in cases(snapshot).iter().enumerate() {
            let (mut types, mut args) = (String::new(), String::new());
            let (_, kinds) = FUNCTIONS.iter().find(|(name, _)| *name == case.name).unwrap();
            for ((_, kind), param) in kinds.iter().zip(&case.params) {
                let value = if let Is(value) = param { *value } else { 0 };
                let wasm = if *kind == Kind::Long { "i64" } else { "i32" };
                write!(types, " {wasm}").unwrap();
                write!(args, " ({wasm}.const {value})").unwrap();
                if *kind == Kind::Pair {
                    types += " i32";
                    args += " (i32.const 1)";
                }
            }
            let name = format!("{}_{index}", case.name);
            writeln!(
                imports,
                "(import {module:?} {:?} (func ${name} (param{types}) (result i32)))",
                case.name
            )
            .unwrap();
            let errno = case.answer(Some(Fault)).map_or(0, Errno::code);
            writeln!(
                calls,
                "(if (i32.ne (call ${name}{args}) (i32.const {errno}))
                   (then (call $proc_exit (i32.const {}))))",
                index + 1
            )
            .unwrap();
        }
        let text = format!(
            r#"(module {imports}
                (import "{module}" "proc_exit" (func $proc_exit (param i32)))
                (memory (export "mem") 1) {export}
                (func (export "_start") {calls}))"#
        );
        let module = Module::from_bytes("memoryless", text.into_bytes()).unwrap();
        let program = Program::new(support::engine(), &module).unwrap();
        let output = Command::new(&program).env("K", "v").output(&mut world().machine).unwrap();
        assert_eq!(*output.status.outcome(), Outcome::Exited(0), "the code is the case from 1 on");
    }
}
