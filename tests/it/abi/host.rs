//! Host calls from guests: every errno, and the memory that a call writes, byte for byte.

use std::fmt::Write;

use belljar::Errno;
use belljar::host::{HostMock, SessionHost};
use belljar::{Command, Limits, Machine, Module, Program};
use serde_json::json;

use crate::support::engine;

/// The value of memory that a test does not set.
const MASK: u8 = 0xa5;

/// Number of bytes of memory that are compared.
const MEMORY_BYTES: u32 = 1 << 16;

const NAME: u32 = 0x100;
const PARAMS: u32 = 0x200;
const BUF: u32 = 0x1000;
const OUT: u32 = 0x800;

/// The errnos of a guest's calls, and its memory after them.
struct Seen {
    answers: Vec<u32>,
    memory: Vec<u8>,
}

impl Seen {
    /// The errnos must be these; `None` for success.
    fn answers(&self, expected: &[Option<Errno>]) -> &Self {
        let code = |errno: &Option<Errno>| errno.map_or(0, |errno| errno.code().into());
        let codes: Vec<u32> = expected.iter().map(code).collect();
        assert_eq!(self.answers, codes);
        self
    }

    /// Only `pieces`, addresses and bytes, were written.
    fn wrote(&self, pieces: &[(u32, &[u8])]) {
        let mut expected = vec![MASK; MEMORY_BYTES as usize];
        let given: [(u32, &[u8]); 2] = [(NAME, b"db.query"), (PARAMS, b"{\"a\":1}")];
        for (at, bytes) in given.iter().chain(pieces) {
            expected[*at as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        let differs = self.memory.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(differs, None, "the first address that differs");
    }
}

fn machine(limits: Limits) -> Machine {
    let host = SessionHost::default();
    host.mock("db", "query", HostMock::result(json!("0123456789")).params(json!({ "a": 1 })));
    Machine::builder().host(host).limits(limits).build().unwrap()
}

/// Makes `calls`, each of which is an expression with an i32.
fn calls(machine: &mut Machine, calls: &[String]) -> Seen {
    let mut body = String::new();
    for (index, call) in calls.iter().enumerate() {
        let at = MEMORY_BYTES as usize + index * 4;
        write!(body, "(i32.store (i32.const {at}) {call})").unwrap();
    }
    let (iov, len) = (MEMORY_BYTES * 2, MEMORY_BYTES as usize + calls.len() * 4);
    let text = format!(
        r#"(module
            (import "belljar" "host_has" (func $has (param i32 i32 i32) (result i32)))
            (import "belljar" "host_call"
                (func $call (param i32 i32 i32 i32 i32 i32 i32) (result i32)))
            (import "belljar" "host_reply" (func $reply (param i32 i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_write"
                (func $write (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 3)
            (data $name "db.query") (data $params "{{\"a\":1}}")
            (func (export "_start")
                (memory.fill (i32.const 0) (i32.const {MASK}) (i32.const {MEMORY_BYTES}))
                (memory.init $name (i32.const {NAME}) (i32.const 0) (i32.const 8))
                (memory.init $params (i32.const {PARAMS}) (i32.const 0) (i32.const 7))
                {body}
                (i32.store (i32.const {iov}) (i32.const 0))
                (i32.store (i32.const {}) (i32.const {len}))
                (drop (call $write (i32.const 1) (i32.const {iov}) (i32.const 1) (i32.const {})))))"#,
        iov + 4,
        iov + 8,
    );
    let module = Module::from_bytes("asks", text.into_bytes()).unwrap();
    let program = Program::new(engine(), &module).unwrap();
    let output = Command::new(&program).output(machine).unwrap();
    assert_eq!(output.stdout.len(), len, "{:?}", output.status);
    let (memory, answers) = output.stdout.split_at(MEMORY_BYTES as usize);
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    Seen { answers: answers.chunks(4).map(word).collect(), memory: memory.to_vec() }
}

fn expression(name: &str, words: &[u32]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("(i32.const {word})")).collect();
    format!("(call ${name} {})", words.join(" "))
}

fn call(name: (u32, u32), params: (u32, u32), buf: (u32, u32), out: u32) -> String {
    expression("call", &[name.0, name.1, params.0, params.1, buf.0, buf.1, out])
}

fn good(buf_len: u32) -> String {
    call((NAME, 8), (PARAMS, 7), (BUF, buf_len), OUT)
}

const ANSWER: &[u8] = b"{\"ok\":\"0123456789\"}";

#[test]
fn host_call_result_is_truncated_to_the_buffer() {
    let size = (ANSWER.len() as u32).to_le_bytes();
    let mut machine = machine(Limits::default());
    let seen = calls(&mut machine, &[good(100)]);
    seen.answers(&[None]).wrote(&[(OUT, &size), (BUF, ANSWER)]);
    let seen = calls(&mut machine, &[good(5)]);
    seen.answers(&[None]).wrote(&[(OUT, &size), (BUF, &ANSWER[..5])]);
    let seen = calls(&mut machine, &[good(0)]);
    seen.answers(&[None]).wrote(&[(OUT, &size)]);
}

#[test]
fn rest_of_a_host_call_result_can_be_read_until_the_next_call() {
    let reply = |offset, len| expression("reply", &[offset, BUF, len, OUT]);
    let mut machine = machine(Limits::default());
    let none = calls(&mut machine, &[reply(0, 100)]);
    none.answers(&[None]).wrote(&[(OUT, &[0; 4])]);
    let rest = calls(&mut machine, &[good(0), reply(4, 6)]);
    rest.answers(&[None; 2]).wrote(&[(OUT, &6_u32.to_le_bytes()), (BUF, &ANSWER[4..10])]);
    let size = (ANSWER.len() as u32 - 4).to_le_bytes();
    let rest = calls(&mut machine, &[good(0), reply(4, 100)]);
    rest.answers(&[None; 2]).wrote(&[(OUT, &size), (BUF, &ANSWER[4..])]);
    for offset in [ANSWER.len() as u32, u32::MAX] {
        let end = calls(&mut machine, &[good(0), reply(offset, 100)]);
        end.answers(&[None; 2]).wrote(&[(OUT, &[0; 4])]);
    }
    let failed = call((NAME, 8), (PARAMS, 7), (u32::MAX, 1), OUT);
    let kept = calls(&mut machine, &[good(0), failed, reply(0, 2)]);
    kept.answers(&[None, Some(Errno::Fault), None]);
}

#[test]
fn pointers_are_checked_before_the_host_is_called() {
    let host = SessionHost::default();
    host.mock("db", "query", HostMock::result(1));
    let handle = host.handle();
    let mut machine = Machine::builder().host(host).build().unwrap();
    let (name, params, buf) = ((NAME, 8), (PARAMS, 7), (BUF, 100));
    let end = 3 * MEMORY_BYTES;
    for (bad, errno) in [
        (call((end, 1), params, buf, OUT), Errno::Fault),
        (call((u32::MAX, u32::MAX), params, buf, OUT), Errno::Fault),
        (call((0, 8), params, buf, OUT), Errno::Ilseq),
        (call((0, 257), params, buf, OUT), Errno::Nametoolong),
        (call(name, (end - 1, 2), buf, OUT), Errno::Fault),
        (call(name, params, (end - 99, 100), OUT), Errno::Fault),
        (call(name, params, (0, u32::MAX), OUT), Errno::Fault),
        (call(name, params, buf, OUT + 1), Errno::Inval),
        (call(name, params, buf, end), Errno::Fault),
        (expression("has", &[end, 1, OUT]), Errno::Fault),
        (expression("has", &[0, 1, OUT]), Errno::Ilseq),
        (expression("has", &[NAME, 8, OUT + 2]), Errno::Inval),
        (expression("has", &[NAME, 8, end]), Errno::Fault),
        (expression("reply", &[0, end, 1, OUT]), Errno::Fault),
        (expression("reply", &[0, BUF, 1, end - 2]), Errno::Inval),
    ] {
        calls(&mut machine, &[bad]).answers(&[Some(errno)]).wrote(&[]);
    }
    assert_eq!(handle.mock_calls(), []);
}

#[test]
fn has_returns_1_for_known_operations_and_0_for_others() {
    let has = |len| expression("has", &[NAME, len, OUT]);
    let mut machine = machine(Limits::default());
    for (len, expected) in [(8, 1_u32), (2, 1), (7, 0), (0, 0)] {
        let seen = calls(&mut machine, &[has(len)]);
        seen.answers(&[None]).wrote(&[(OUT, &expected.to_le_bytes())]);
    }
}

#[test]
fn host_calls_are_limited() {
    let limits = |host_call_bytes_max, processes_max| Limits {
        host_call_bytes_max,
        processes_max,
        ..Limits::default()
    };
    let mut small = machine(limits(6, 500));
    calls(&mut small, &[good(100)]).answers(&[Some(Errno::Toobig)]).wrote(&[]);
    assert_eq!(small.limits_hit(), [belljar::Limit::HostCall]);
    let seen = calls(&mut machine(limits(8, 500)), &[good(200)]);
    let text = String::from_utf8_lossy(&seen.memory[BUF as usize..][..200]).into_owned();
    assert!(text.contains("too_long") && text.contains("exceeds 8 bytes"), "{text}");
    let pages = 3 * u64::from(MEMORY_BYTES);
    let mut full = machine(Limits { memory_bytes_max: pages + 10, ..Limits::default() });
    calls(&mut full, &[good(100)]).answers(&[Some(Errno::Nomem)]).wrote(&[]);
    calls(&mut machine(limits(100, 1)), &[good(100)]).answers(&[Some(Errno::Again)]).wrote(&[]);
}

#[test]
fn a_machine_without_a_host_answers_that_there_is_none() {
    let mut machine = Machine::builder().build().unwrap();
    let has = expression("has", &[NAME, 8, OUT]);
    calls(&mut machine, &[has, good(100)]).answers(&[Some(Errno::Nosys); 2]).wrote(&[]);
}
