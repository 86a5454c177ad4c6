//! What of a host program goes on the tape of the machine beside which it runs.

use std::ffi::OsStr;

use super::{SubprocessError, SubprocessOutput, SubprocessRequest, SubprocessStatus};
use crate::kernel::clock::{Clock, ClockId};
use crate::kernel::machine::Machine;
use crate::tape::{Kind, Payload, Phase, Recorder, TapeError};

/// A run, and how long it took on the machine's clock.
pub(super) struct Timed {
    pub(super) output: SubprocessOutput,
    pub(super) duration_ms: u64,
}

/// Runs `request` as `run` does, and notes it on the tape of `machine`, if it has one. What is
/// replayed leaves the records that the run itself left: its tape can be compared with the first.
///
/// # Errors
/// As `run`; [`SubprocessError::MachineTape`], before it if possible, if the tape cannot take it.
pub(super) fn on_tape(
    call: u64,
    request: &SubprocessRequest,
    machine: &mut Machine,
    run: impl FnOnce(&mut dyn Clock) -> Result<SubprocessOutput, SubprocessError>,
) -> Result<Timed, SubprocessError> {
    let Machine { clock, tape, .. } = machine;
    let tape = tape.as_ref();
    let pid = u32::try_from(call).unwrap_or(u32::MAX);
    let note = |clock: &mut dyn Clock, kinds: &dyn Fn(&Recorder)| match tape {
        None => Ok(()),
        Some(tape) => {
            tape.set_time(clock.now(ClockId::Realtime), clock.now(ClockId::Monotonic));
            kinds(tape);
            let failed = SubprocessError::MachineTape { call, program: request.name() };
            if tape.failed() { Err(failed) } else { Ok(()) }
        }
    };
    note(clock.as_mut(), &|tape| spawn(tape, pid, request))?;
    let started_ns = clock.now(ClockId::Monotonic);
    let done = run(clock.as_mut());
    let duration_ms = clock.now(ClockId::Monotonic).saturating_sub(started_ns) / 1_000_000;
    note(clock.as_mut(), &|tape| exit(tape, pid, done.as_ref().ok(), duration_ms))?;
    Ok(Timed { output: done?, duration_ms })
}

fn spawn(tape: &Recorder, pid: u32, request: &SubprocessRequest) {
    tape.set_phase(Phase::Run);
    match spawn_record(tape, pid, request) {
        Some(kind) => tape.push(kind),
        None => tape.fail(TapeError::NotText { what: "an argument or a variable" }),
    }
}

fn spawn_record(tape: &Recorder, pid: u32, request: &SubprocessRequest) -> Option<Kind> {
    let variable = |(key, value): (&OsStr, &OsStr)| {
        Some(tape.redact_variable(&format!("{}={}", key.to_str()?, value.to_str()?)))
    };
    let (stdin, stdin_bytes): (_, Option<Payload>) = match request.stdin.as_slice() {
        [] => ("empty", None),
        bytes => ("bytes", Some(tape.payload(bytes))),
    };
    Some(Kind::ProcessSpawn {
        pid,
        parent: None,
        program: tape.redact(request.program.to_str()?),
        args: request
            .args
            .iter()
            .map(|arg| Some(tape.redact_variable(arg.to_str()?)))
            .collect::<Option<_>>()?,
        env: request.variables().map(variable).collect::<Option<_>>()?,
        mode: "native".to_owned(),
        preopens: Vec::new(),
        stdin: stdin.to_owned(),
        stdin_bytes,
        module_hash: None,
    })
}

fn exit(tape: &Recorder, pid: u32, output: Option<&SubprocessOutput>, duration_ms: u64) {
    for (fd, bytes) in output.iter().flat_map(|o| [(1, &o.stdout), (2, &o.stderr)]) {
        if !bytes.is_empty() {
            tape.push(Kind::StreamWrite { pid, fd, bytes: tape.payload(bytes) });
        }
    }
    let status = match output.map(|output| &output.status) {
        None => "failed".to_owned(),
        Some(SubprocessStatus::Exited(_)) => "exited".to_owned(),
        Some(SubprocessStatus::Signalled(signal)) => format!("signal_{signal}"),
        Some(SubprocessStatus::Stopped(outcome)) => outcome.name().to_owned(),
    };
    let exit_code = output.and_then(|output| output.status.code()).map(i32::cast_unsigned);
    tape.push(Kind::ProcessExit { pid, status, exit_code, duration_ms });
}
