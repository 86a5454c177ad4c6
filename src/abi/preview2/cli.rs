//! `wasi:cli`.

use wasmtime::component::Resource;

use super::call::{Halt, interface};
use super::input::InputStream;
use super::output::OutputStream;
use crate::abi::{Process, trace};

interface! {
    /// `wasi:cli/environment`
    environment:
    "get-arguments" => answers(get_arguments),
    "get-environment" => answers(get_environment),
    "initial-cwd" => answers(initial_cwd),
}

interface! {
    /// `wasi:cli/exit`
    exit:
    "exit" => does(exit_as),
    "exit-with-code" => does(exit_with_code),
}

interface! {
    /// `wasi:cli/stdin`
    stdin:
    "get-stdin" => is(get_stdin),
}

interface! {
    /// `wasi:cli/stdout`
    stdout:
    "get-stdout" => is(get_stdout),
}

interface! {
    /// `wasi:cli/stderr`
    stderr:
    "get-stderr" => is(get_stderr),
}

interface! {
    /// `wasi:cli/terminal-stdin`
    terminal_stdin:
    "get-terminal-stdin" => answers(no_terminal::<TerminalInput>),
}

interface! {
    /// `wasi:cli/terminal-stdout`
    terminal_stdout:
    "get-terminal-stdout" => answers(no_terminal::<TerminalOutput>),
}

interface! {
    /// `wasi:cli/terminal-stderr`
    terminal_stderr:
    "get-terminal-stderr" => answers(no_terminal::<TerminalOutput>),
}

/// `terminal-input`
pub(in crate::abi) enum TerminalInput {}

/// `terminal-output`
pub(in crate::abi) enum TerminalOutput {}

/// Strings of components are UTF-8: other bytes are replaced.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(in crate::abi) fn get_arguments(process: &mut Process, (): ()) -> Vec<String> {
    trace!(process.guest, "");
    process.guest.args().iter().map(|arg| text(arg)).collect()
}

pub(in crate::abi) fn get_environment(process: &mut Process, (): ()) -> Vec<(String, String)> {
    trace!(process.guest, "");
    let variables = process.guest.environ().iter().map(|variable| {
        let variable = text(variable);
        match variable.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => (variable, String::new()),
        }
    });
    variables.collect()
}

/// None: the preopen `.` is the current directory.
pub(in crate::abi) fn initial_cwd(process: &mut Process, (): ()) -> Option<String> {
    trace!(process.guest, "");
    None
}

pub(in crate::abi) fn exit_as(
    process: &mut Process,
    (status,): (Result<(), ()>,),
) -> Result<(), Halt> {
    let code = u32::from(status.is_err());
    trace!(process.guest, "code={code}");
    Err(process.guest.proc_exit(code).into())
}

pub(in crate::abi) fn exit_with_code(process: &mut Process, (code,): (u8,)) -> Result<(), Halt> {
    trace!(process.guest, "code={code}");
    Err(process.guest.proc_exit(code.into()).into())
}

fn get_stdin(process: &mut Process, (): ()) -> Result<Resource<InputStream>, Halt> {
    trace!(process.guest, "");
    process.add(InputStream::standard())
}

fn get_stdout(process: &mut Process, (): ()) -> Result<Resource<OutputStream>, Halt> {
    trace!(process.guest, "");
    process.add(OutputStream::standard(1))
}

fn get_stderr(process: &mut Process, (): ()) -> Result<Resource<OutputStream>, Halt> {
    trace!(process.guest, "");
    process.add(OutputStream::standard(2))
}

pub(in crate::abi) fn no_terminal<T: 'static>(
    process: &mut Process,
    (): (),
) -> Option<Resource<T>> {
    trace!(process.guest, "");
    None
}
