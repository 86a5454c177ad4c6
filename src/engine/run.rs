//! One process, from start to end.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use wasmtime::{Store, UpdateDeadline, WasmBacktrace};

use super::program::{Program, UnknownImportCalled};
use crate::abi::Process;
use crate::base::ambient;
use crate::base::errno::Errno;
use crate::kernel::guest::{BadPreopen, Guest, Startup};
use crate::kernel::limits::{Limit, Stop};
use crate::kernel::machine::Machine;
use crate::kernel::stdio::Stdio;

/// How a process ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It returned, or called `proc_exit`, with this code.
    Exited(u32),
    /// It reached a limit and was ended.
    Limit(Limit),
    /// It trapped.
    Trapped(Trap),
    /// Its machine's tape failed; see [`crate::tape::Recorder::finish`].
    Tape,
}

impl Outcome {
    /// Its name in reports and on tapes: `exited`, `trapped`, `tape`, or that of the limit.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Exited(_) => "exited",
            Self::Limit(limit) => limit.name(),
            Self::Trapped(_) => "trapped",
            Self::Tape => "tape",
        }
    }

    /// The exit code, if it exited.
    pub fn exit_code(&self) -> Option<u32> {
        match self {
            Self::Exited(code) => Some(*code),
            Self::Limit(_) | Self::Trapped(_) | Self::Tape => None,
        }
    }
}

/// A trap: the program did what the machine cannot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trap {
    /// What, in a few words.
    pub message: String,
    /// The functions that were active, the innermost first, as far as their names are known.
    pub backtrace: Vec<String>,
}

/// A program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It has no function to start with.
    #[error("{program} exports no function `_start`: it is a library, not a command")]
    NoStart {
        /// The program.
        program: String,
    },
    /// Its function to start with is no such function.
    #[error("{program} exports a `_start` that no command has: it must take and return nothing")]
    BadStart {
        /// The program.
        program: String,
    },
    /// A directory that it was to start with is not there.
    #[error("cannot open the directory {path} for {program}: {errno}")]
    Preopen {
        /// The program.
        program: String,
        /// The directory's path in the namespace.
        path: String,
        /// Why not.
        errno: Errno,
    },
    /// It needs more memory at the start than the limit allows.
    #[error("{program} needs more memory than its limit of {limit_bytes} bytes to start")]
    Memory {
        /// The program.
        program: String,
        /// The limit.
        limit_bytes: u64,
    },
    /// It cannot be instantiated.
    #[error("cannot start {program}: {message}")]
    Instantiate {
        /// The program.
        program: String,
        /// Why not.
        message: String,
    },
}

/// What a run leaves behind.
pub struct Finished<M = Machine> {
    /// The machine, with everything that the process did to it.
    pub machine: M,
    /// The process's streams.
    pub stdio: Stdio,
    /// How the process ended, or why it did not start.
    pub outcome: Result<Outcome, RunError>,
    /// Fuel that it used, if the engine counts it.
    pub fuel_used: Option<u64>,
}

/// Runs `program` in `machine` until it ends. Blocks the calling thread.
pub fn run(program: &Program, mut machine: Machine, startup: Startup) -> Finished {
    machine.start_run();
    let guest = match Guest::new(machine, startup) {
        Ok(guest) => guest,
        Err(bad) => {
            let BadPreopen { machine, preopen, errno } = *bad;
            let error =
                RunError::Preopen { program: program.name().into(), path: preopen.path, errno };
            let stdio = Stdio::default();
            return Finished { machine, stdio, outcome: Err(error), fuel_used: None };
        }
    };
    let engine = program.pre.module().engine();
    let limits = *guest.machine().limits();
    let deadline = guest.machine().deadline;
    let mut store = Store::new(engine, Process::new(guest));
    store.limiter(|process| process);
    store.set_epoch_deadline(1);
    let _watch = deadline.map(|deadline| {
        store.epoch_deadline_callback(move |mut store| {
            if ambient::instant_now() < deadline {
                return Ok(UpdateDeadline::Continue(1));
            }
            store.data_mut().guest.machine_mut().note_limit(Limit::Timeout);
            Err(wasmtime::Error::new(Stop::Limit(Limit::Timeout)))
        });
        program.engine.0.watchdog.watch(engine, deadline)
    });
    if deadline.is_none() {
        store.epoch_deadline_callback(|_| Ok(UpdateDeadline::Continue(1)));
    }
    // Asked for beforehand: a refusal of wasmtime's may cost a backtrace.
    let counted = program.engine.config().fuel.then(|| limits.fuel.unwrap_or(u64::MAX));
    let fuel = counted.filter(|fuel| store.set_fuel(*fuel).is_ok());
    let outcome = start(program, &mut store);
    let fuel_used = fuel.and_then(|fuel| Some(fuel - store.get_fuel().ok()?));
    let (mut machine, stdio) = store.into_data().guest.end();
    if let Ok(outcome) = &outcome {
        machine.tape_exit(outcome.name(), outcome.exit_code());
    }
    if outcome.as_ref().is_ok_and(|outcome| *outcome == Outcome::Limit(Limit::Fuel)) {
        machine.note_limit(Limit::Fuel);
    }
    Finished { machine, stdio, outcome, fuel_used }
}

fn start(program: &Program, store: &mut Store<Process>) -> Result<Outcome, RunError> {
    let instance = match block_on(program.pre.instantiate_async(&mut *store)) {
        Ok(instance) => instance,
        Err(error) => return instantiation_error(program, store, &error),
    };
    let name = || program.name().to_owned();
    let start = instance
        .get_func(&mut *store, "_start")
        .ok_or_else(|| RunError::NoStart { program: name() })?
        .typed::<(), ()>(&*store)
        .map_err(|_| RunError::BadStart { program: name() })?;
    Ok(match block_on(start.call_async(&mut *store, ())) {
        Ok(()) => Outcome::Exited(0),
        Err(error) => outcome_of(&error),
    })
}

/// A guest may have a start function, which ends like any other code.
fn instantiation_error(
    program: &Program,
    store: &Store<Process>,
    error: &wasmtime::Error,
) -> Result<Outcome, RunError> {
    let machine = store.data().guest.machine();
    let ran =
        error.is::<Stop>() || error.is::<wasmtime::Trap>() || error.is::<UnknownImportCalled>();
    if ran {
        return Ok(outcome_of(error));
    }
    let name = program.name().to_owned();
    if machine.limits_hit().contains(&Limit::Memory) {
        let limit_bytes = machine.limits().memory_bytes_max;
        return Err(RunError::Memory { program: name, limit_bytes });
    }
    Err(RunError::Instantiate { program: name, message: format!("{error:#}") })
}

fn outcome_of(error: &wasmtime::Error) -> Outcome {
    match error.downcast_ref::<Stop>() {
        Some(Stop::Exit(code)) => return Outcome::Exited(*code),
        Some(Stop::Limit(limit)) => return Outcome::Limit(*limit),
        Some(Stop::Tape) => return Outcome::Tape,
        None => {}
    }
    let message = match error.downcast_ref::<wasmtime::Trap>() {
        Some(wasmtime::Trap::OutOfFuel) => return Outcome::Limit(Limit::Fuel),
        Some(trap) => trap.to_string().trim_start_matches("wasm trap: ").to_owned(),
        None => error.root_cause().to_string(),
    };
    let frames = error.downcast_ref::<WasmBacktrace>().map_or(&[][..], |trace| trace.frames());
    let backtrace = frames
        .iter()
        .map(|frame| match frame.func_name() {
            Some(name) => name.to_owned(),
            None => format!("<function {}>", frame.func_index()),
        })
        .collect();
    Outcome::Trapped(Trap { message, backtrace })
}

/// Drives a future that never waits: no host function is asynchronous, so that the fiber which it
/// runs on is never suspended.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}
