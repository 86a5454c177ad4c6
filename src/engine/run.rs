//! A program as a process.

use wasmtime::{Store, UpdateDeadline, WasmBacktrace};

use super::program::{Program, UnknownImportCalled};
use crate::abi::Process;
use crate::base::ambient;
use crate::kernel::guest::{Guest, Startup};
use crate::kernel::limits::{Limit, Stop};
use crate::kernel::machine::Machine;
use crate::kernel::outcome::{Outcome, RunError, Trap};
use crate::kernel::schedule::{self, Ended, Finished, Image, Mode, Running};

/// Runs `program` in `machine`, and what it starts, until it ends. Blocks the calling thread.
pub fn run(program: &Program, machine: Machine, startup: Startup) -> Finished {
    schedule::run(Box::new(program.clone()), machine, startup)
}

impl Image for Program {
    fn name(&self) -> &str {
        Program::name(self)
    }

    fn mode(&self) -> Mode {
        Mode::Module
    }

    fn start(self: Box<Self>, guest: Guest) -> Running {
        Box::pin(process(*self, guest))
    }
}

async fn process(program: Program, mut guest: Guest) -> Ended {
    if let Err(stop) = guest.begin() {
        return Ended { guest, outcome: Ok(stop.into()) };
    }
    let engine = program.pre.module().engine();
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
    if program.engine.config().fuel {
        let machine = store.data_mut().guest.machine_mut();
        let fuel = machine.fuel();
        let left = *machine.fuel_left.get_or_insert(fuel);
        store.set_fuel(left).expect("the engine counts fuel");
    }
    let outcome = start(&program, &mut store).await;
    let fuel_left = program.engine.config().fuel.then(|| store.get_fuel().unwrap_or(0));
    let mut process = store.into_data();
    process.free_memory();
    let mut guest = process.guest;
    let machine = guest.machine_mut();
    if fuel_left.is_some() {
        machine.fuel_left = fuel_left;
    }
    if outcome.as_ref().is_ok_and(|outcome| *outcome == Outcome::Limit(Limit::Fuel)) {
        machine.note_limit(Limit::Fuel);
    }
    Ended { guest, outcome }
}

async fn start(program: &Program, store: &mut Store<Process>) -> Result<Outcome, RunError> {
    let instance = match program.pre.instantiate_async(&mut *store).await {
        Ok(instance) => instance,
        Err(error) => return instantiation_error(program, store, &error),
    };
    let name = || program.name().to_owned();
    let start = instance
        .get_func(&mut *store, "_start")
        .ok_or_else(|| RunError::NoStart { program: name() })?
        .typed::<(), ()>(&*store)
        .map_err(|_| RunError::BadStart { program: name() })?;
    Ok(match start.call_async(&mut *store, ()).await {
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
    if let Some(stop) = error.downcast_ref::<Stop>() {
        return (*stop).into();
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
