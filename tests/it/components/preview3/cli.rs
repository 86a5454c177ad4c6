//! `wasi:cli`, `wasi:clocks`, `wasi:random`, `wasi:sockets`.

use std::time::Duration;

use belljar::{ClockConfig, Limits, Outcome};

use super::{answers, answers_in, builder, command, ended, expect, lines_of, output_in, text};

#[test]
fn program_gets_arguments_variables_and_directories() {
    let mut command = command(&["args", "env", "cwd", "dirs"]);
    command.env("NAME", "value=x");
    let output = output_in(builder(), &command);
    let lines = lines_of(&output);
    assert_eq!(lines[0], r#"["preview3_calls", "args", "env", "cwd", "dirs"]"#);
    assert!(lines[1].contains(r#"("NAME", "value=x")"#), "{}", lines[1]);
    assert_eq!(lines[2..], ["None", r#"["/", "."]"#]);
}

#[test]
fn program_ends_with_its_code() {
    assert_eq!(ended(Limits::default(), &["exit 7", "now"]), (Outcome::Exited(7), Vec::new()));
    assert_eq!(ended(Limits::default(), &["fail"]), (Outcome::Exited(1), Vec::new()));
}

#[test]
fn outputs_go_to_their_streams() {
    let output = output_in(builder(), &command(&["out one", "err two"]));
    assert_eq!(text(&output.stdout), "one\nOk(())\nOk(())\n");
    assert_eq!(text(&output.stderr), "two\n");
}

#[test]
fn clocks_show_the_time_of_the_machine() {
    let start = answers(&["now", "wall", "resolution"]);
    assert_eq!(start[1..], ["Instant { seconds: 2114380800, nanoseconds: 0 }", "1 1"]);
    let uptime: u64 = start[0].parse().unwrap();
    let until = format!("until {}", uptime + 5);
    let past = format!("until {}", uptime - 5);
    expect(&[
        ("sleep 7", "slept 7"),
        ("now", &(uptime + 7).to_string()),
        ("sleep 0", "slept 0"),
        (&past, &format!("it is {}", uptime - 5)),
        ("now", &(uptime + 7).to_string()),
    ]);
    expect(&[
        (&until, &format!("it is {}", uptime + 5)),
        ("now", &(uptime + 5).to_string()),
        ("wall", "Instant { seconds: 2114380800, nanoseconds: 5 }"),
    ]);
}

/// The wait of a task takes real time where the clock is real.
#[test]
fn task_waits_on_the_real_clock() {
    let begun = std::time::Instant::now();
    let answers = answers_in(builder().clock(ClockConfig::Host), &["sleep 20000000"]);
    assert_eq!(answers, ["slept 20000000"]);
    assert!(begun.elapsed() >= Duration::from_millis(20));
}

#[test]
fn chance_is_the_seeded_stream() {
    let calls = ["random 4", "number", "insecure 2", "seed", "seed"];
    let first = answers(&calls);
    assert_eq!(first, answers(&calls));
    assert_eq!(first[3], first[4], "a process has one seed");
    let other = answers_in(builder().seed(7), &calls);
    for (index, (one, other)) in first.iter().zip(&other).enumerate() {
        assert_ne!(one, other, "{}", calls[index]);
    }
}

#[test]
fn sockets_are_denied() {
    expect(&[
        ("tcp", "Err(ErrorCode::AccessDenied)"),
        ("udp", "Err(ErrorCode::AccessDenied)"),
        ("resolve example.org", "Err(ErrorCode::PermanentResolverFailure)"),
    ]);
}
