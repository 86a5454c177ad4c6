//! Programs by name, found as the machine finds them for processes that start others.

use crate::base::errno::Errno;
use crate::kernel::guest::{Guest, SpawnError, SpawnRequest};
use crate::kernel::machine::Machine;
use crate::kernel::machine::limits::Stop;
use crate::kernel::process::outcome::RunError;
use crate::kernel::process::programs::Found;
use crate::kernel::process::schedule::{Ended, Image, Mode, Running};
use crate::kernel::process::{Signal, WaitStatus};

/// Returns `program` as the first process of a run: its image, if a toolchain has it, or else a process that
/// looks it up in the namespace, starts it and has its outcome.
///
/// # Errors
/// [`RunError::Spawn`] if a toolchain has it and it cannot run.
pub(super) fn find(machine: &Machine, program: &str) -> Result<Found, RunError> {
    let named = machine.programs.as_ref().map(|programs| programs.named(program));
    match named.transpose() {
        Ok(Some(Some(found))) => Ok(found),
        Ok(_) => Ok(Found::built_in(image(program))),
        Err(why) => Err(RunError::Spawn(SpawnError {
            program: program.to_owned(),
            errno: Errno::Noexec,
            reason: why.to_string(),
        })),
    }
}

/// A process that looks up `program`, starts it and has its outcome.
pub(super) fn image(program: &str) -> Box<dyn Image> {
    Box::new(Named(program.to_owned()))
}

struct Named(String);

impl Image for Named {
    fn name(&self) -> &str {
        &self.0
    }

    fn mode(&self) -> Mode {
        Mode::Named
    }

    fn start(self: Box<Self>, guest: Guest) -> Running {
        Box::pin(process(self.0, guest))
    }
}

async fn process(program: String, mut guest: Guest) -> Ended {
    let outcome = match run(program, &mut guest).await {
        Ok(WaitStatus::Exited(code)) => Ok(Stop::Exit(code).into()),
        Ok(WaitStatus::Signalled(signal)) => Ok(Stop::Signalled(signal).into()),
        Err(End::Stopped(stop)) => Ok(stop.into()),
        Err(End::NotStarted(error)) => Err(RunError::Spawn(error)),
    };
    Ended { guest, outcome }
}

enum End {
    Stopped(Stop),
    NotStarted(SpawnError),
}

async fn run(program: String, guest: &mut Guest) -> Result<WaitStatus, End> {
    guest.begin().map_err(End::Stopped)?;
    guest.begin_call("proc_spawn");
    let request = SpawnRequest {
        program,
        args: guest.args().to_vec(),
        environ: guest.environ().to_vec(),
        inherit: true,
        ..SpawnRequest::default()
    };
    let child = guest.proc_spawn(request).map_err(End::NotStarted)?;
    let waited = guest.call("proc_wait", |guest| guest.proc_wait(Some(child), true)).await;
    let status = waited.map_err(End::Stopped)?.ok().flatten().map(|(_, status)| status);
    // Only this process waits for it.
    Ok(status.unwrap_or(WaitStatus::Signalled(Signal::KILL)))
}
