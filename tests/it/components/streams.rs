//! `wasi:io`: streams and pollables.

use belljar::Outcome;

use super::{answers, builder, command, expect, output_in, text, trap};

#[test]
fn streams_of_a_file_have_places_of_their_own() {
    expect(&[
        ("open d1 no f c rw", "d2"),
        ("write-via-stream d2 3", "o0"),
        ("out-check o0", "1048576"),
        ("out-write o0 abc", "done"),
        ("out-flush o0", "done"),
        ("out-blocking-flush o0", "done"),
        ("out-blocking-write o0 def", "done"),
        ("out-check o0", "1048576"),
        ("out-zeroes o0 2", "done"),
        ("out-blocking-zeroes o0 1", "done"),
        ("append-via-stream d2", "o1"),
        ("out-blocking-write o1 END", "done"),
        ("pread d2 99 0", r"\x00\x00\x00abcdef\x00\x00\x00END false"),
        ("read-via-stream d2 4", "i0"),
        ("read i0 2", "bc"),
        ("blocking-read i0 1", "d"),
        ("skip i0 1", "1"),
        ("blocking-skip i0 100", "7"),
        ("read i0 1", "closed"),
        ("blocking-read i0 1", "closed"),
        ("skip i0 1", "closed"),
    ]);
}

#[test]
fn write_that_fails_closes_its_stream() {
    let limits = belljar::Limits {
        vfs: belljar::VfsLimits { file_bytes_max: 10, ..belljar::VfsLimits::default() },
        ..belljar::Limits::default()
    };
    let calls = [
        "open d1 no f c rw",
        "write-via-stream d2 8",
        "out-blocking-write o0 abc",
        "out-check o0",
        "out-blocking-write o0 a",
        "out-flush o0",
        "read-via-stream d2 0",
        "read i0 99",
    ];
    let found = super::answers_in(builder().limits(limits), &calls);
    assert_eq!(found[2], "File too large (EFBIG), code Some(\"file-too-large\")");
    assert_eq!(found[3..6], ["closed"; 3]);
}

#[test]
fn standard_input_is_read_and_spliced() {
    let mut command = command(&[
        "stdin",
        "read i0 5",
        "stdout",
        "out-check o0",
        "out-splice o0 i0 3",
        "out-blocking-splice o0 i0 100",
        "out-blocking-splice o0 i0 100",
        "skip i0 1",
    ]);
    command.stdin("hello there");
    let output = output_in(builder(), &command);
    assert_eq!(
        text(&output.stdout),
        "i0\nhello\no0\n1048576\n th3\nere3\nclosed\nclosed\n",
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn pollables_wait_for_the_clock_of_the_machine() {
    expect(&[
        ("in 1000", "p0"),
        ("in 0", "p1"),
        ("at 0", "p2"),
        ("at 18446744073709551615", "p3"),
        ("ready p0", "false"),
        ("ready p1", "true"),
        ("ready p2", "true"),
        ("ready p3", "false"),
        ("poll p0 p1 p2 p3", "[1, 2]"),
        ("poll p0 p3", "[0]"),
        ("monotonic", "86400000001000"),
        ("poll p3 p0", "[1]"),
        ("block p0", ""),
        ("in 3600000000000", "p4"),
        ("block p4", ""),
        ("monotonic", "90000000001000"),
    ]);
}

#[test]
fn waiting_for_the_largest_time_alone_is_a_deadlock() {
    let calls = ["at 18446744073709551615", "block p0"];
    let output = output_in(builder(), &command(&calls));
    let Outcome::Deadlock(waits) = output.status.outcome() else { panic!("{output:?}") };
    assert!(waits.contains("polls what never comes"), "{waits}");
}

/// A loop of `ready` lets the clock go on, as a loop that reads the clock does.
#[test]
fn loop_of_ready_ends() {
    let found = answers(&["in 50000000", "wait-ready p0", "monotonic"]);
    assert_eq!(found, ["p0", "ready", "86400050000000"]);
}

#[test]
fn pollables_of_streams_are_ready() {
    expect(&[
        ("stdin", "i0"),
        ("subscribe-input i0", "p0"),
        ("ready p0", "true"),
        ("block p0", ""),
        ("in 10", "p1"),
        ("poll p1 p0", "[1]"),
        ("open d1 no f c rw", "d2"),
        ("write-via-stream d2 0", "o0"),
        ("out-subscribe o0", "p2"),
        ("poll p1 p2 p2", "[1, 2]"),
    ]);
}

#[test]
fn misuse_is_a_trap_that_says_what_was_wrong() {
    let before = "a resource was dropped before its children";
    assert_eq!(trap(&["stdin", "subscribe-input i0", "drop i0"]), before);
    assert_eq!(trap(&["stdout", "out-subscribe o0", "drop o0"]), before);
    let permit = "more bytes are written than check-write allowed";
    assert_eq!(trap(&["stderr", "out-write o0 x"]), permit);
    assert_eq!(trap(&["stderr", "out-check o0", "out-zeroes o0 1048577"]), permit);
    let long = "a blocking write has more than 4096 bytes";
    assert_eq!(trap(&["stderr", "out-blocking-write-bytes o0 4097"]), long);
    assert_eq!(trap(&["stderr", "out-blocking-zeroes o0 4097"]), long);
    assert_eq!(trap(&["poll"]), "poll has no pollables");
}
