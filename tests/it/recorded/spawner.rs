//! Modules that start programs through the guest ABI, with random descriptors, folders and arguments.

use std::fmt::Write as _;

use crate::support::plans::Chance;

/// Addresses in the memory of a module: results of calls, the line to print, and the first text.
const PID: usize = 0;
const RESULT: usize = 16;
const LINE: usize = 48;
const IOV: usize = 64;
const TEXTS: usize = 256;

/// The address and length of a text of 1 MiB at the end of the memory, and the pages of the memory.
const LONG_AT: usize = 1 << 20;
const LONG_BYTES: usize = 1 << 20;
const PAGES: usize = 32;

/// Programs of all origins, and programs that do not exist.
pub const PROGRAMS: [&str; 28] = [
    "wc",
    "cat",
    "tool",
    "sh",
    "env",
    "/bin/echo",
    "/usr/bin/wc",
    "/usr/local/bin/tool",
    "./w.wasm",
    "sub/w.wasm",
    "/worktree/w.wasm",
    "./text.wat",
    "./script.sh",
    "./orphan.sh",
    "./loop.sh",
    "./note.txt",
    "./empty",
    "./cut.wasm",
    "./reactor.wasm",
    "./import.wasm",
    "./trap.wasm",
    "sub",
    "nothing",
    "./nothing",
    "/bin/nothing",
    "damaged",
    "found",
    "",
];

/// The data of a module, in which each text and structure has an address.
struct Data(Vec<u8>);

impl Data {
    fn put(&mut self, bytes: &[u8]) -> usize {
        while !(TEXTS + self.0.len()).is_multiple_of(4) {
            self.0.push(0);
        }
        let at = TEXTS + self.0.len();
        self.0.extend_from_slice(bytes);
        at
    }

    fn words(&mut self, words: &[usize]) -> usize {
        let bytes: Vec<u8> =
            words.iter().flat_map(|word| u32::try_from(*word).unwrap().to_le_bytes()).collect();
        self.put(&bytes)
    }

    /// An array of texts.
    fn texts(&mut self, texts: &[&str]) -> usize {
        let placed: Vec<usize> =
            texts.iter().flat_map(|text| [self.put(text.as_bytes()), text.len()]).collect();
        self.words(&placed)
    }
}

/// The text of a module that makes up to six random calls, and prints their results.
pub fn spawner(chance: &mut Chance) -> String {
    let (mut data, mut code) = (Data(Vec::new()), String::new());
    for _ in 0..=chance.below(6) {
        match chance.below(8) {
            0 => {
                let fd = chance.below(6);
                let _ = writeln!(code, "(call $say (call $close (i32.const {fd})))");
            }
            1 => code += "(call $say (call $pipe (i32.const 0) (i32.const 16)))\n",
            2 => {
                let dir = ["sub", "/", "/tmp", "nothing", "note.txt"][chance.below(5)];
                let (at, len) = (data.put(dir.as_bytes()), dir.len());
                let _ =
                    writeln!(code, "(call $say (call $chdir (i32.const {at}) (i32.const {len})))");
            }
            _ => {
                let request = request(chance, &mut data);
                let _ = writeln!(code, "(call $start (i32.const {request}))");
                if chance.below(3) > 0 {
                    code += "(call $wait)\n";
                }
            }
        }
    }
    module(&data, &code)
}

/// The module with the data `data` and the code `code`.
fn module(data: &Data, code: &str) -> String {
    let mut bytes = String::new();
    for byte in &data.0 {
        let _ = write!(bytes, "\\{byte:02x}");
    }
    format!(
        r#"(module
  (import "belljar" "proc_spawn" (func $spawn (param i32 i32) (result i32)))
  (import "belljar" "proc_wait" (func $proc_wait (param i32 i32 i32) (result i32)))
  (import "belljar" "proc_chdir" (func $chdir (param i32 i32) (result i32)))
  (import "belljar" "pipe" (func $pipe (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") {PAGES})
  (data (i32.const {TEXTS}) "{bytes}")
  (func $say (param $number i32)
    (i32.store8 (i32.const {LINE}) (i32.add (i32.const 48) (i32.div_u (local.get $number) (i32.const 10))))
    (i32.store8 offset=1 (i32.const {LINE}) (i32.add (i32.const 48) (i32.rem_u (local.get $number) (i32.const 10))))
    (i32.store8 offset=2 (i32.const {LINE}) (i32.const 10))
    (i32.store (i32.const {IOV}) (i32.const {LINE}))
    (i32.store offset=4 (i32.const {IOV}) (i32.const 3))
    (drop (call $write (i32.const 1) (i32.const {IOV}) (i32.const 1) (i32.const {RESULT}))))
  (func $start (param $request i32)
    (i32.store (i32.const {PID}) (i32.const 0))
    (call $say (call $spawn (local.get $request) (i32.const {PID})))
    (call $say (i32.load (i32.const {PID}))))
  (func $wait
    (if (i32.load (i32.const {PID})) (then
      (call $say (call $proc_wait (i32.load (i32.const {PID})) (i32.const 0) (i32.const {RESULT})))
      (call $say (i32.and (i32.load offset=8 (i32.const {RESULT})) (i32.const 63))))))
  (func (export "_start")
    (memory.fill (i32.const {LONG_AT}) (i32.const 120) (i32.const {LONG_BYTES}))
    {code}))"#
    )
}

/// A random request to start a process; returns its address.
fn request(chance: &mut Chance, data: &mut Data) -> usize {
    let program = PROGRAMS[chance.below(PROGRAMS.len())];
    let (args_at, args_count) = match chance.below(8) {
        0 => (0, 0),
        // More bytes of arguments than the limit; more arguments than can be passed.
        1 => (data.words(&[LONG_AT, LONG_BYTES].repeat(9)), 9),
        2 => (LONG_AT, 100_000),
        3 | 4 => (data.texts(&[program, "-c", "echo $0 $#; cat note.txt; exit 3"]), 3),
        _ => (data.texts(&[program, "note.txt", "one"]), 3),
    };
    let environ = [&["PATH=/nowhere:sub", "A=1"][..], &["PATH=sub"], &[]][chance.below(3)];
    let (environ_at, environ_count) = (data.texts(environ), environ.len());
    let dir = ["", "", "", "sub", "/tmp", "nothing", "note.txt"][chance.below(7)];
    let dir_at = if dir.is_empty() { 0 } else { data.put(dir.as_bytes()) };
    let mut actions = Vec::new();
    for _ in 0..chance.below(3) {
        // Open descriptors, the process's own folders, and numbers that are not open.
        let fd = |chance: &mut Chance| [0, 1, 2, 2, 3, 4, 5, 6, 99, 100_000][chance.below(10)];
        actions.extend([chance.below(3), fd(chance), fd(chance)]);
    }
    let actions_count = actions.len() / 3;
    let actions_at = data.words(&actions);
    let flags = usize::from(chance.below(5) > 0);
    let (program_at, program_len) = (data.put(program.as_bytes()), program.len());
    data.words(&[
        48,
        program_at,
        program_len,
        args_at,
        args_count,
        environ_at,
        environ_count,
        dir_at,
        dir.len(),
        actions_at,
        actions_count,
        flags,
    ])
}

/// The text of a module that starts `program` with the current directory `dir` and the descriptor action `action`, then
/// starts it without both, and waits for the second process.
pub fn start_twice(program: &str, dir: &str, action: [usize; 3]) -> String {
    let mut data = Data(Vec::new());
    let (program_at, program_len) = (data.put(program.as_bytes()), program.len());
    let args_at = data.texts(&[program, "note.txt"]);
    let actions_at = data.words(&action);
    let dir_at = if dir.is_empty() { 0 } else { data.put(dir.as_bytes()) };
    let asked = [48, program_at, program_len, args_at, 2, 0, 0];
    let first = data.words(&[&asked[..], &[dir_at, dir.len(), actions_at, 1, 1]].concat());
    let second = data.words(&[&asked[..], &[0, 0, 0, 0, 1]].concat());
    let code = format!(
        "(call $start (i32.const {first})) (call $start (i32.const {second})) (call $wait)"
    );
    module(&data, &code)
}
