//! Subprocesses on the tape of a machine.

use std::ffi::OsStr;

use super::child::Call;
use super::{
    SandboxProfile, SubprocessError, SubprocessOutput, SubprocessRequest, SubprocessStatus,
};
use crate::kernel::machine::Machine;
use crate::kernel::machine::clock::ClockId;
use crate::tape::{Kind, Payload, Phase, Recorder, TapeError};

/// Records on the tape of `machine`, if it has one, that call number `call` begins; returns the
/// machine's monotonic time in nanoseconds. A replayed call leaves the same records, so that tapes
/// can be compared.
///
/// # Errors
/// [`SubprocessError::MachineTape`] if it cannot be recorded: then it must not run.
pub(super) fn begin(
    call: u64,
    request: &SubprocessRequest,
    profile: SandboxProfile,
    machine: &mut Machine,
) -> Result<u64, SubprocessError> {
    note(call, &request.name(), machine, |tape, pid| {
        tape.set_phase(Phase::Run);
        match spawn_record(tape, pid, request, profile) {
            Some(kind) => tape.push(kind),
            None => tape.fail(TapeError::NotText { what: "an argument or a variable" }),
        }
    })?;
    Ok(machine.clock.now(ClockId::Monotonic))
}

/// Records the end of the call: `stdin`, which it was given through a pipe, and `output`, `None` if
/// it failed. Returns its duration on the machine's clock, in milliseconds.
///
/// # Errors
/// [`SubprocessError::MachineTape`] if it cannot be recorded.
pub(super) fn end(
    call: &Call,
    stdin: Option<&[u8]>,
    output: Option<&SubprocessOutput>,
    machine: &mut Machine,
) -> Result<u64, SubprocessError> {
    let now_ns = machine.clock.now(ClockId::Monotonic);
    let duration_ms = now_ns.saturating_sub(call.started_ns) / 1_000_000;
    note(call.number, &call.program, machine, |tape, pid| {
        if let Some(bytes) = stdin.filter(|bytes| !bytes.is_empty()) {
            tape.push(Kind::StreamRead { pid, bytes: tape.payload(bytes) });
        }
        exit(tape, pid, output, duration_ms);
    })?;
    Ok(duration_ms)
}

fn note(
    call: u64,
    program: &str,
    machine: &mut Machine,
    record: impl FnOnce(&Recorder, u32),
) -> Result<(), SubprocessError> {
    let Machine { clock, tape: Some(tape), .. } = machine else { return Ok(()) };
    tape.set_time(clock.now(ClockId::Realtime), clock.now(ClockId::Monotonic));
    record(tape, u32::try_from(call).unwrap_or(u32::MAX));
    let failed = || SubprocessError::MachineTape { call, program: program.to_owned() };
    if tape.failed() { Err(failed()) } else { Ok(()) }
}

fn spawn_record(
    tape: &Recorder,
    pid: u32,
    request: &SubprocessRequest,
    profile: SandboxProfile,
) -> Option<Kind> {
    let variable =
        |(key, value): (&OsStr, &OsStr)| Some(format!("{}={}", key.to_str()?, value.to_str()?));
    let (stdin, stdin_bytes): (_, Option<Payload>) = match request.stdin.bytes() {
        None => ("stream", None),
        Some([]) => ("empty", None),
        Some(bytes) => ("bytes", Some(tape.payload(bytes))),
    };
    let confined = profile != SandboxProfile::Unrestricted;
    Some(Kind::ProcessSpawn {
        pid,
        parent: None,
        program: request.program.to_str()?.to_owned(),
        argv0: None,
        path: None,
        args: request
            .args
            .iter()
            .map(|arg| Some(arg.to_str()?.to_owned()))
            .collect::<Option<_>>()?,
        env: request.variables().map(variable).collect::<Option<_>>()?,
        mode: "native".to_owned(),
        profile: confined.then(|| profile.name().to_owned()),
        preopens: Vec::new(),
        stdin: stdin.to_owned(),
        stdin_bytes,
        module_hash: None,
        trees: Vec::new(),
        invoke: None,
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
