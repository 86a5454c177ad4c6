//! `wasi:cli`, `wasi:clocks`, `wasi:random`, `wasi:sockets`.

use belljar::{Limit, Outcome};

use super::{answers, builder, command, expect, output_in};

#[test]
fn arguments_and_environment_are_those_of_the_command() {
    let mut command = command(&["args", "env", "cwd", "terminals"]);
    command.env("A", "b=c").env("E", "");
    let output = output_in(builder(), &command);
    assert_eq!(
        super::text(&output.stdout),
        "[\"preview2_calls\", \"args\", \"env\", \"cwd\", \"terminals\"]\n\
         [(\"A\", \"b=c\"), (\"E\", \"\")]\nNone\n(false, false)\n"
    );
}

#[test]
fn exit_status_is_that_of_the_call() {
    for (call, code) in [("exit ok", 0), ("exit no", 1), ("exit-with-code 42", 42)] {
        let output = output_in(builder(), &command(&[call]));
        assert_eq!(*output.status.outcome(), Outcome::Exited(code), "{call}");
    }
}

#[test]
fn clocks_are_those_of_the_machine() {
    expect(&[
        ("monotonic", "86400000000000"),
        ("wall", "Datetime { seconds: 2114380800, nanoseconds: 0 }"),
        ("resolutions", "(1, Datetime { seconds: 0, nanoseconds: 1 })"),
    ]);
}

#[test]
fn random_bytes_come_from_the_seed() {
    let calls =
        ["random 4", "random-u64", "insecure 3", "insecure-u64", "seed", "seed", "random 0"];
    let found = answers(&calls);
    assert_eq!(found, answers(&calls));
    assert_eq!(found[4], found[5], "the seed stays");
    assert_eq!(found[6], "[]");
    let other = super::answers_in(builder().seed(7), &calls);
    assert!(found[..5].iter().zip(&other).all(|(one, other)| one != other), "{found:?} {other:?}");
}

#[test]
fn more_random_bytes_than_its_memory_can_hold_end_the_component() {
    let output = output_in(builder(), &command(&["random 99999999999"]));
    assert_eq!(*output.status.outcome(), Outcome::Limit(Limit::Memory));
}

#[test]
fn there_are_no_sockets() {
    expect(&[
        ("tcp", "Some(\"access-denied\")"),
        ("udp", "Some(\"access-denied\")"),
        ("resolve localhost", "Some(\"permanent-resolver-failure\")"),
    ]);
}
