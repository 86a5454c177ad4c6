//! Streams between a component and the kernel, and between processes.

use super::{builder, command, lines_of, output_in, path, text};
use crate::support::{belljar, stderr, stdout};

/// What `belljar sh` prints for `script`, in which `calls` is the program.
fn shell(script: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(path(), folder.path().join("calls.wasm")).unwrap();
    let script = format!("calls() {{ ./calls.wasm \"$@\"; }}\n{script}");
    let output = belljar(folder.path()).args(["sh", "-c", &script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", stderr(&output));
    stdout(&output)
}

#[test]
fn standard_input_is_read_in_pieces_and_by_several_streams() {
    let mut command = command(&["stdin 2 5", "stdin 1 2", "stdin 100 100", "stdin 1 1"]);
    command.stdin(b"0123456789".as_slice());
    let output = output_in(builder(), &command);
    let wanted = [r#""01234" Ok(())"#, r#""56" Ok(())"#, r#""789" Ok(())"#, r#""" Ok(())"#];
    assert_eq!(lines_of(&output), wanted);
}

/// The component connects two streams of the host, and sees no byte.
#[test]
fn standard_input_is_connected_with_standard_output() {
    let text_of = "line\n".repeat(50_000);
    let mut command = command(&["copy"]);
    command.stdin(text_of.as_bytes());
    let output = output_in(builder(), &command);
    assert_eq!(text(&output.stdout), format!("{text_of}Ok(()) Ok(())\n"));
}

/// A pipe that is full stops the task that writes, and no other one.
#[test]
fn pipe_that_is_full_is_waited_for() {
    assert_eq!(shell("calls 'much 200000' | (sleep 1; wc -c)"), "200008\n");
    // The second task ends before the pipe is read.
    let both = "calls 'together much 200000 + err %' 2>&1 >f | cat; wc -c <f";
    assert_eq!(shell(&both.replace('%', "there")), "there\n200015\n");
}

#[test]
fn pipe_without_readers_ends_the_program_as_natively() {
    assert_eq!(shell("calls 'much 1000000' 'much 1000000' | head -c 3; echo"), "xxx\n");
}

#[test]
fn pipe_is_read_as_it_comes() {
    assert_eq!(
        shell("(sleep 1; printf a; sleep 1; printf b) | calls 'stdin 9 9'"),
        "\"ab\" Ok(())\n"
    );
    assert_eq!(
        shell(
            "(sleep 1; echo late) | calls 'together stdin 9 9 + sleep 500000000 + sleep 2000000000'"
        ),
        "slept 500000000\n\"late\\n\" Ok(())\nslept 2000000000\n"
    );
    assert_eq!(shell("calls 'sleep 5' | calls copy"), "slept 5\nOk(()) Ok(())\n");
}

/// Programs of WASI 0.1, 0.2 and 0.3 are one tree.
#[test]
fn components_and_modules_are_connected_by_pipes() {
    assert_eq!(
        shell("calls 'out abc' | tr a-z A-Z | calls 'stdin 99 99'"),
        "\"ABC\\nOK(())\\n\" Ok(())\n"
    );
}
