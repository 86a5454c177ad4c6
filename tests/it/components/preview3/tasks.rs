//! Tasks that wait at once.

use std::time::Duration;

use belljar::{Limit, Limits, Outcome};

use super::{ended, expect, path};
use crate::support::{belljar, stderr, stdout};

#[test]
fn tasks_end_in_the_order_of_their_times() {
    let (outcome, lines) = ended(
        Limits::default(),
        &["together sleep 30 + sleep 10 + now + sleep 20 + sleep 10", "now"],
    );
    assert_eq!(outcome, Outcome::Exited(0));
    let uptime: u64 = lines[0].parse().unwrap();
    assert_eq!(lines[1..5], ["slept 10", "slept 10", "slept 20", "slept 30"]);
    assert_eq!(lines[5], (uptime + 30).to_string(), "they slept at once");
}

/// A call that need not wait has its answer at once, before any other task goes on.
#[test]
fn time_that_has_come_is_not_waited_for() {
    let (_, lines) = ended(Limits::default(), &["together sleep 1 + until 0 + sleep 0 + now"]);
    assert_eq!(lines[..2], ["it is 0", "slept 0"]);
    assert_eq!(lines[3], "slept 1");
}

#[test]
fn task_that_is_given_up_is_not_waited_for() {
    expect(&[
        ("first sleep 1000000000000 + sleep 2", "slept 2"),
        ("first never + sleep 3", "slept 3"),
        ("first stdin 9 9 + sleep 3", r#""" Ok(())"#),
    ]);
    let (_, lines) = ended(Limits::default(), &["now", "first sleep 1000 + sleep 2", "now"]);
    let [begun, end] = [&lines[0], &lines[2]].map(|line| line.parse::<u64>().unwrap());
    assert_eq!(end - begun, 2);
}

/// As in wasmtime's command line.
#[test]
fn program_ends_with_run_whatever_its_tasks_have_not_done() {
    let wanted = (Outcome::Exited(0), vec!["slept 5".to_owned(), "slept 9".to_owned()]);
    assert_eq!(ended(Limits::default(), &["spawn sleep 5", "sleep 9", "spawn sleep 5"]), wanted);
}

/// A task that never waits, but yields, lets the tasks beside it and other processes go on, and time pass.
#[test]
fn task_that_yields_lets_others_go_on() {
    let (outcome, lines) = ended(Limits::default(), &["together sleep 1000000000 + spin"]);
    assert_eq!(
        (outcome, lines),
        (Outcome::Exited(0), vec!["slept 1000000000".into(), "spun".into()])
    );
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(path(), folder.path().join("calls.wasm")).unwrap();
    let script = "(sleep 1; echo late) | ./calls.wasm 'together stdin 9 9 + spin'";
    let output = belljar(folder.path()).args(["sh", "-c", script]).output().unwrap();
    assert_eq!(stdout(&output), "\"late\\n\" Ok(())\nspun\n", "{}", stderr(&output));
}

#[test]
fn tasks_that_wait_for_each_other_are_a_trap() {
    for calls in
        [&["sleep 5", "never"][..], &["together never + sleep 5"], &["together never + never"]]
    {
        let Outcome::Trapped(trap) = ended(Limits::default(), calls).0 else {
            panic!("{calls:?} cannot end")
        };
        assert_eq!(trap.message, "its tasks wait for each other");
    }
}

#[test]
fn wait_ends_at_a_limit() {
    let limits = Limits { virtual_timeout: Some(Duration::from_secs(1)), ..Limits::default() };
    let (outcome, lines) = ended(limits, &["sleep 900000000", "sleep 900000000"]);
    assert_eq!(outcome, Outcome::Limit(Limit::VirtualTimeout));
    assert_eq!(lines, ["slept 900000000"]);
}

#[test]
fn many_tasks_wait_at_once() {
    let sleeps: Vec<String> = (1..=2000).rev().map(|ns| format!("sleep {ns}")).collect();
    let call = format!("together {}", sleeps.join(" + "));
    let (outcome, lines) = ended(Limits::default(), &[&call]);
    assert_eq!(outcome, Outcome::Exited(0));
    let wanted: Vec<String> = (1..=2000).map(|ns| format!("slept {ns}")).collect();
    assert_eq!(lines, wanted);
}

/// Which task runs next depends on nothing but what the tasks did.
#[test]
fn load_of_the_host_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let calls =
        "together sleep 30 + stdin 3 9 + sleep 10 + random 4 + out x + list d1 + out y + sleep 20";
    let mut verify = belljar(folder.path());
    verify.args(["verify", "--runs", "4", "--", &path(), calls, "now"]);
    let verified = verify.output().unwrap();
    assert!(verified.status.success(), "{}{}", stdout(&verified), stderr(&verified));
    assert!(stdout(&verified).contains("host load"), "{}", stdout(&verified));
}

#[test]
fn process_that_waits_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(path(), folder.path().join("calls.wasm")).unwrap();
    let script = "./calls.wasm 'together sleep 9000000000000 + never' & kill $!; wait $!; echo $?";
    let output = belljar(folder.path()).args(["sh", "-c", script]).output().unwrap();
    assert_eq!(stdout(&output), "143\n", "{}", stderr(&output));
}
