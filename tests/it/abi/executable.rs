//! The execute permission, which the module `belljar` has functions for: every errno, and the memory that a call
//! writes, byte for byte.

use std::fmt::Write;

use belljar::Errno::{
    self, Badf, Fault, Ilseq, Inval, Loop, Nametoolong, Noent, Notdir, Notsup, Rofs,
};
use belljar::kernel::vfs::Follow;
use belljar::{Command, Machine, Module, Program};

use super::tree::{Item, Tree};
use super::world::{World, builder};
use crate::support::engine;

/// The value of memory that a test does not set.
const MASK: u8 = 0xa5;

/// Number of bytes of memory that are compared.
const MEMORY_BYTES: u32 = 1 << 16;

const PATH: u32 = 0x100;
const OUT: u32 = 0x800;

/// The end of memory.
const END: u32 = 3 * MEMORY_BYTES;

/// The root, the preopened directory of every module.
const ROOT: u32 = 3;

const FOLLOW: u32 = 1;

/// The errno of a guest's call, and its memory after it.
struct Seen {
    answer: u32,
    memory: Vec<u8>,
    path: Vec<u8>,
}

impl Seen {
    /// The errno must be this, `None` for success, and only `pieces`, addresses and bytes, were written.
    #[track_caller]
    fn is(&self, errno: Option<Errno>, pieces: &[(u32, &[u8])]) {
        assert_eq!(self.answer, errno.map_or(0, |errno| errno.code().into()), "{errno:?}");
        let mut expected = vec![MASK; MEMORY_BYTES as usize];
        for (at, bytes) in [(PATH, &*self.path)].iter().chain(pieces) {
            expected[*at as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        let differs = self.memory.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(differs, None, "the first address that differs");
    }

    /// The call succeeded and wrote `executable`.
    #[track_caller]
    fn told(&self, executable: bool) {
        self.is(None, &[(OUT, &u32::from(executable).to_le_bytes())]);
    }
}

/// Calls `name` with `words`, with `path` in memory at [`PATH`].
fn call(machine: &mut Machine, path: &str, name: &str, words: &[u32]) -> Seen {
    let data: String = path.bytes().fold(String::new(), |mut text, byte| {
        write!(text, "\\{byte:02x}").unwrap();
        text
    });
    let words: Vec<String> = words.iter().map(|word| format!("(i32.const {word})")).collect();
    let words = words.concat();
    let (len, iov) = (path.len(), MEMORY_BYTES * 2);
    let text = format!(
        r#"(module
            (import "belljar" "path_executable_get"
                (func $path_get (param i32 i32 i32 i32 i32) (result i32)))
            (import "belljar" "path_executable_set"
                (func $path_set (param i32 i32 i32 i32 i32) (result i32)))
            (import "belljar" "fd_executable_set" (func $fd_set (param i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_write"
                (func $write (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 3)
            (data $path "{data}")
            (func (export "_start")
                (memory.fill (i32.const 0) (i32.const {MASK}) (i32.const {MEMORY_BYTES}))
                (memory.init $path (i32.const {PATH}) (i32.const 0) (i32.const {len}))
                (i32.store (i32.const {MEMORY_BYTES}) (call ${name} {words}))
                (i32.store (i32.const {iov}) (i32.const 0))
                (i32.store (i32.const {}) (i32.const {}))
                (drop (call $write (i32.const 1) (i32.const {iov}) (i32.const 1) (i32.const {})))))"#,
        iov + 4,
        MEMORY_BYTES + 4,
        iov + 8,
    );
    let module = Module::from_bytes("sets", text.into_bytes()).unwrap();
    let program = Program::new(engine(), &module).unwrap();
    let output = Command::new(&program).output(machine).unwrap();
    assert_eq!(output.stdout.len(), MEMORY_BYTES as usize + 4, "{:?}", output.status);
    let (memory, answer) = output.stdout.split_at(MEMORY_BYTES as usize);
    let answer = u32::from_le_bytes(answer.try_into().unwrap());
    Seen { answer, memory: memory.to_vec(), path: path.into() }
}

/// `path_executable_get`, with the path in place.
fn get(machine: &mut Machine, flags: u32, path: &str) -> Seen {
    call(machine, path, "path_get", &[ROOT, flags, PATH, path.len() as u32, OUT])
}

/// `path_executable_set`, with the path in place.
fn set(machine: &mut Machine, flags: u32, path: &str, executable: u32) -> Seen {
    call(machine, path, "path_set", &[ROOT, flags, PATH, path.len() as u32, executable])
}

/// Files, a directory, links and a read-only mount.
fn machine() -> Machine {
    let read_only =
        Tree::source([("f", Item::File(b"read only")), ("d", Item::Dir), ("l", Item::Link(b"f"))]);
    let mut world = World::namespace(builder().mount_read_only("/w/ro", read_only));
    world.file("f", b"content");
    world.dir("d");
    for (link, text) in [("l", "f"), ("dangling", "gone"), ("loop", "loop")] {
        world.link(link, text);
    }
    world.machine
}

fn is_executable(machine: &mut Machine, path: &str) -> bool {
    let vfs = machine.vfs_mut();
    vfs.is_executable_at(vfs.host_base(), path, Follow::Yes).unwrap()
}

#[test]
fn permission_that_is_set_is_told() {
    let mut machine = machine();
    get(&mut machine, 0, "w/f").told(false);
    set(&mut machine, 0, "w/f", 1).is(None, &[]);
    get(&mut machine, 0, "w/f").told(true);
    get(&mut machine, FOLLOW, "w/l").told(true);
    set(&mut machine, FOLLOW, "w/l", 0).is(None, &[]);
    get(&mut machine, 0, "w/f").told(false);
    assert!(!is_executable(&mut machine, "w/f"));
}

#[test]
fn directories_links_and_devices_answer_as_documented() {
    let mut machine = machine();
    for path in ["w/d", "w", ".", "w/d/", "w/ro/d"] {
        get(&mut machine, FOLLOW, path).told(true);
    }
    for executable in [0, 1] {
        set(&mut machine, FOLLOW, "w/d", executable).is(None, &[]);
        set(&mut machine, 0, "w/l", executable).is(Some(Notsup), &[]);
    }
    get(&mut machine, FOLLOW, "w/d").told(true);
    get(&mut machine, 0, "w/l").told(true);
    get(&mut machine, 0, "w/dangling").told(true);
    get(&mut machine, FOLLOW, "dev/null").told(false);
    get(&mut machine, FOLLOW, "dev/stdout").told(false);
    set(&mut machine, FOLLOW, "dev/null", 1).is(Some(Noent), &[]);
}

#[test]
fn lookups_fail_as_those_of_preview1() {
    let mut machine = machine();
    for (path, errno) in [
        ("w/gone", Noent),
        ("", Noent),
        ("w/dangling", Noent),
        ("w/loop", Loop),
        ("w/f/x", Notdir),
        ("w/f/", Notdir),
        ("../w/f", Errno::Perm),
    ] {
        get(&mut machine, FOLLOW, path).is(Some(errno), &[]);
        set(&mut machine, FOLLOW, path, 1).is(Some(errno), &[]);
    }
    for fd in [99, 1] {
        call(&mut machine, "w/f", "path_get", &[fd, 0, PATH, 3, OUT]).is(Some(Badf), &[]);
        call(&mut machine, "w/f", "path_set", &[fd, 0, PATH, 3, 1]).is(Some(Badf), &[]);
    }
    for path in ["w/ro/f", "w/ro/d"] {
        set(&mut machine, 0, path, 1).is(Some(Rofs), &[]);
    }
    set(&mut machine, 0, "w/ro/l", 1).is(Some(Rofs), &[]);
    assert!(!is_executable(&mut machine, "w/ro/f"));
}

#[test]
fn unknown_flags_and_values_are_refused() {
    let mut machine = machine();
    for flags in [2, 3, u32::MAX] {
        get(&mut machine, flags, "w/f").is(Some(Inval), &[]);
        set(&mut machine, flags, "w/f", 1).is(Some(Inval), &[]);
    }
    for executable in [2, 3, u32::MAX] {
        set(&mut machine, 0, "w/f", executable).is(Some(Inval), &[]);
        call(&mut machine, "", "fd_set", &[ROOT, executable]).is(Some(Inval), &[]);
    }
    assert!(!is_executable(&mut machine, "w/f"));
}

#[test]
fn pointers_are_checked_first() {
    let mut machine = machine();
    for ((path, len), out, errno) in [
        ((END, 1), OUT, Fault),
        ((END - 1, 2), OUT, Fault),
        ((u32::MAX, u32::MAX), OUT, Fault),
        ((PATH, 5000), OUT, Nametoolong),
        ((0, 3), OUT, Ilseq),
        ((PATH, 3), OUT + 1, Inval),
        ((PATH, 3), END, Fault),
        ((PATH, 3), END - 2, Inval),
        ((PATH, 3), u32::MAX - 3, Fault),
    ] {
        call(&mut machine, "w/f", "path_get", &[ROOT, 0, path, len, out]).is(Some(errno), &[]);
        if out == OUT {
            let set = call(&mut machine, "w/f", "path_set", &[ROOT, 0, path, len, 1]);
            set.is(Some(errno), &[]);
        }
    }
    assert!(!is_executable(&mut machine, "w/f"));
}

/// The path through a descriptor is in `tests/guests/chmod.c`.
#[test]
fn descriptors_that_are_no_file_or_directory_have_no_permission() {
    let mut machine = machine();
    call(&mut machine, "", "fd_set", &[ROOT, 1]).is(None, &[]);
    for fd in [0, 1, 2, 99, u32::MAX] {
        call(&mut machine, "", "fd_set", &[fd, 1]).is(Some(Badf), &[]);
    }
}
