//! Runs the code of a program.

use std::io;

use wasmtime::{
    Caller, Func, Instance, PoolConcurrencyLimitError, Store, UpdateDeadline, WasmBacktrace,
    component,
};

use super::config::QUICK_STACK_BYTES;
use super::deadline::StopAtDeadline;
use super::generator::is_prepared;
use super::invoke::{Refusal, invoke_component, invoke_module};
use super::link::{Linked, UnknownImportCalled};
use super::module::Encoding;
use super::prepare;
use super::program::{Program, Runnable};
use super::tier::Tier;
use super::watchdog::Target;
use crate::abi::interface::RUNS;
use crate::abi::preview3::event_loop;
use crate::abi::{Calls, Process};
use crate::base::exhausted::is_exhausted;
use crate::kernel::guest::{Guest, Startup};
use crate::kernel::machine::Machine;
use crate::kernel::machine::limits::{Limit, Stop};
use crate::kernel::process::outcome::{Outcome, RunError, Trap};
use crate::kernel::process::schedule::{self, Ended, Finished};

/// Bytes that the engine needs for a handle of a component: 170 for each of the two that a stream has.
const HANDLE_BYTES: u64 = 256;

/// Runs `program` and all that it starts, in `machine`, until it ends. Blocks the calling thread.
pub fn run(program: &Program, machine: Machine, startup: Startup) -> Finished {
    schedule::run(Box::new(program.clone()), machine, startup)
}

/// Runs `program` as `guest`, and does `calls` with its calls, which come back.
pub(super) async fn run_calling(
    program: &Program,
    guest: Guest,
    calls: Option<Calls>,
) -> (Ended, Option<Calls>) {
    let runnable = program.best();
    let full = match run_as(runnable, program, guest, calls).await {
        Ok(ended) => return ended,
        Err(full) => full,
    };
    let PoolFull { guest, calls, message } = match program.beyond_pool(runnable) {
        None => full,
        Some(Err(message)) => PoolFull { message: message.to_owned(), ..full },
        Some(Ok(runnable)) => match run_as(runnable, program, full.guest, full.calls).await {
            Ok(ended) => return ended,
            Err(full) => full,
        },
    };
    let program = program.name().to_owned();
    (Ended { guest, outcome: Err(RunError::Instantiate { program, message }) }, calls)
}

/// The pool has no room for this process, which has not begun.
struct PoolFull {
    guest: Guest,
    calls: Option<Calls>,
    message: String,
}

/// Runs `runnable`, code of `program`, as `guest`.
async fn run_as(
    runnable: Runnable<'_>,
    program: &Program,
    mut guest: Guest,
    calls: Option<Calls>,
) -> Result<(Ended, Option<Calls>), PoolFull> {
    if let Some(outcome) = guest.repeat_lack() {
        return Ok((Ended { guest, outcome: Ok(outcome) }, calls));
    }
    let counts_fuel = program.engine().config().fuel;
    let mut store = Store::new(runnable.pre.engine(), Process::new(guest, calls));
    store.limiter(|process| process);
    if !is_prepared(program.engine().config(), runnable.pre.encoding())
        && let Err(error) = interrupt_by_epoch(program, &mut store)
    {
        let (mut guest, calls) = store.into_data().into_parts();
        let outcome = Ok(lacks_thread(program, &mut guest, &error));
        return Ok((Ended { guest, outcome }, calls));
    }
    if counts_fuel {
        // Checked first: a refusal of wasmtime's may collect a backtrace.
        let machine = store.data_mut().guest.machine_mut();
        let fuel = machine.fuel();
        let left = *machine.run.fuel_left.get_or_insert(fuel);
        store.set_fuel(left).expect("the engine counts fuel");
    }
    let (outcome, full) = match runnable.pre {
        Linked::Module(pre) => {
            if !counts_fuel {
                store.data_mut().add_free_memory(prepare::added_bytes(pre.module()));
            }
            let instance = pre.instantiate_async(&mut store).await;
            let is_full = |error: &&wasmtime::Error| error.is::<PoolConcurrencyLimitError>();
            let full = instance.as_ref().err().filter(is_full).map(|error| format!("{error:#}"));
            let outcome = match instance {
                Ok(instance) => start(program, runnable.tier, &mut store, instance).await,
                Err(error) => instantiation_error(program, &mut store, &error),
            };
            (outcome, full)
        }
        Linked::Component(pre) => {
            (run_component(program, runnable.tier, &mut store, pre).await, None)
        }
    };
    let fuel_left = counts_fuel.then(|| store.get_fuel().unwrap_or(0));
    // It opens the stop page before that is freed.
    store.data_mut().interruption = None;
    let (mut guest, calls) = store.into_data().into_parts();
    if let Some(message) = full {
        return Err(PoolFull { guest, calls, message });
    }
    let machine = guest.machine_mut();
    if fuel_left.is_some() {
        machine.run.fuel_left = fuel_left;
    }
    if outcome.as_ref().is_ok_and(|outcome| *outcome == Outcome::Limit(Limit::Fuel)) {
        machine.note_limit(Limit::Fuel);
    }
    Ok((Ended { guest, outcome }, calls))
}

/// Code that is not prepared looks at the engine's epoch, which the watchdog raises.
///
/// # Errors
/// The host cannot start a thread.
fn interrupt_by_epoch(program: &Program, store: &mut Store<Process>) -> io::Result<()> {
    let machine = store.data().guest.machine();
    let ends_at_once = machine.is_at_taped_timeout() || machine.has_timed_out();
    let (deadline, interrupter) = (machine.deadline(), machine.interrupter().cloned());
    store.set_epoch_deadline(u64::from(!ends_at_once));
    let (owner, engine) = (program.engine().clone(), store.engine().weak());
    let watch = move |deadline| {
        let watch = owner.0.watchdog.watch(Target::Engine(engine.clone()), deadline);
        watch.map(|watch| (deadline, watch))
    };
    let mut watched = deadline.map(&watch).transpose()?;
    let weak = store.engine().weak();
    let raise = move || {
        if let Some(engine) = weak.upgrade() {
            engine.increment_epoch();
        }
        true
    };
    let interruption = interrupter.map(|interrupter| interrupter.on_use(raise));
    store.epoch_deadline_callback(move |mut store| {
        // It lives as long as the store.
        let _ = &interruption;
        let machine = store.data_mut().guest.machine_mut();
        if machine.is_out_of_time() {
            machine.note_limit(Limit::Timeout);
            return Err(wasmtime::Error::new(Stop::Limit(Limit::Timeout)));
        }
        // Uncounted time may have moved it.
        let deadline = machine.deadline();
        if deadline != watched.as_ref().map(|(deadline, _)| *deadline) {
            watched = deadline.and_then(|deadline| watch(deadline).ok());
        }
        Ok(UpdateDeadline::Continue(1))
    });
    Ok(())
}

/// The outcome of a process without the thread that would interrupt it.
fn lacks_thread(program: &Program, guest: &mut Guest, error: &io::Error) -> Outcome {
    let message = format!("cannot start the thread for its timeout: {error}");
    guest.end_for_lack(&RunError::Instantiate { program: program.name().to_owned(), message })
}

async fn start(
    program: &Program,
    tier: Tier,
    store: &mut Store<Process>,
    instance: Instance,
) -> Result<Outcome, RunError> {
    if !program.engine().config().fuel
        && let Err(error) = StopAtDeadline::begin(program.engine(), store, instance)
    {
        return Ok(lacks_thread(program, &mut store.data_mut().guest, &error));
    }
    if let Some(outcome) = begin(tier, Encoding::Module, store).await {
        return Ok(outcome);
    }
    if !program.engine().config().fuel
        && let Some(function) = instance.get_func(&mut *store, prepare::START)
    {
        let function = function.typed::<(), ()>(&*store).expect("validation checked its type");
        if let Err(error) = function.call_async(&mut *store, ()).await {
            return Ok(outcome_of(store, &error));
        }
    }
    if let Some(call) = store.data().guest.invoke().map(str::to_owned) {
        let called = invoke_module(store, instance, &call).await;
        return invoked(program, store, &call, called);
    }
    let main =
        ["", "_start"].into_iter().find(|name| instance.get_func(&mut *store, name).is_some());
    let Some(main) = main else {
        let functions = instance.exports(&mut *store).filter(|it| it.clone().into_func().is_some());
        let exports = functions.map(|function| function.name().to_owned());
        let exports = exports.filter(|name| name != prepare::START).collect();
        let (program, wanted) = (program.name().to_owned(), "function \"_start\" or \"\"");
        return Err(RunError::NoStart { program, wanted, exports });
    };
    // As in wasmtime's command line, a library is initialized before its empty-named export is called.
    for name in ["_initialize", main] {
        let Some(function) = instance.get_func(&mut *store, name) else { continue };
        let function = function.typed::<(), ()>(&*store).map_err(|_| RunError::BadStart {
            program: program.name().to_owned(),
            export: name.to_owned(),
        })?;
        if let Err(error) = function.call_async(&mut *store, ()).await {
            return Ok(outcome_of(store, &error));
        }
    }
    Ok(Outcome::Exited(0))
}

/// The outcome of a process that makes a `call` of an export.
fn invoked(
    program: &Program,
    store: &mut Store<Process>,
    call: &str,
    called: Result<Outcome, Refusal>,
) -> Result<Outcome, RunError> {
    match called {
        Ok(outcome) => Ok(outcome),
        Err(Refusal::Ended(error)) => Ok(outcome_of(store, &error)),
        Err(Refusal::Problem(problem)) => Err(RunError::Invoke {
            program: program.name().to_owned(),
            call: call.to_owned(),
            problem,
        }),
    }
}

/// Begins a process whose code is of `tier`; returns the outcome if it ends here.
async fn begin(tier: Tier, encoding: Encoding, store: &mut Store<Process>) -> Option<Outcome> {
    if tier == Tier::Quick {
        // It has the stack that the program will have, which the store keeps.
        let is_only = encoding == Encoding::Module;
        let begin = Func::wrap(&mut *store, move |mut caller: Caller<'_, Process>| {
            caller.data_mut().begin_large_stack(QUICK_STACK_BYTES, is_only);
        });
        let begin = begin.typed::<(), ()>(&*store).expect("it has this type");
        if let Err(error) = begin.call_async(&mut *store, ()).await {
            return Some(outcome_of(store, &error));
        }
    }
    let machine = store.data_mut().guest.machine_mut();
    if machine.is_at_taped_timeout() || machine.has_timed_out() {
        machine.note_limit(Limit::Timeout);
        return Some(Outcome::Limit(Limit::Timeout));
    }
    None
}

/// Runs the component `pre`: its export `run` of `wasi:cli/run`.
async fn run_component(
    program: &Program,
    tier: Tier,
    store: &mut Store<Process>,
    pre: &component::InstancePre<Process>,
) -> Result<Outcome, RunError> {
    if let Some(outcome) = begin(tier, Encoding::Component, store).await {
        return Ok(outcome);
    }
    let memory_bytes = store.data().guest.machine().limits().memory_bytes_max;
    let handles = usize::try_from(memory_bytes / HANDLE_BYTES).unwrap_or(usize::MAX);
    store.set_max_component_handles(store.max_component_handles().min(handles));
    let name = || program.name().to_owned();
    if let Some(call) = store.data().guest.invoke().map(str::to_owned) {
        let called = match pre.instantiate_async(&mut *store).await {
            Ok(instance) => invoke_component(store, pre.component(), instance, &call).await,
            Err(error) => return instantiation_error(program, store, &error),
        };
        return invoked(program, store, &call, called);
    }
    let ty = pre.component().component_type();
    let exports = || ty.exports(pre.engine()).map(|(name, _)| name);
    let run_of = |version: &str| exports().find(|name| name.starts_with(version));
    let Some(interface) = RUNS.into_iter().find_map(run_of) else {
        let exports = exports().map(str::to_owned).collect();
        let wanted = "interface \"wasi:cli/run\" of WASI 0.2 or 0.3";
        return Err(RunError::NoStart { program: name(), wanted, exports });
    };
    let run = pre.component().get_export_index(None, interface);
    let run = run.and_then(|it| pre.component().get_export_index(Some(&it), "run"));
    let instance = match pre.instantiate_async(&mut *store).await {
        Ok(instance) => instance,
        Err(error) => return instantiation_error(program, store, &error),
    };
    let run =
        run.and_then(|run| instance.get_typed_func::<(), (Result<(), ()>,)>(&mut *store, run).ok());
    let Some(run) = run else {
        return Err(RunError::BadStart { program: name(), export: interface.to_owned() });
    };
    // The process ends with it, whatever other tasks have not done yet, as in wasmtime's command line.
    let main: event_loop::Main<_> =
        Box::new(move |tasks| Box::pin(async move { run.call_concurrent(tasks, ()).await }));
    Ok(match event_loop::run(store, main).await {
        Ok((Ok(()),)) => Outcome::Exited(0),
        Ok((Err(()),)) => Outcome::Exited(1),
        Err(error) => outcome_of(store, &error),
    })
}

/// The outcome of a start function that ends the process, or the error.
fn instantiation_error(
    program: &Program,
    store: &mut Store<Process>,
    error: &wasmtime::Error,
) -> Result<Outcome, RunError> {
    let machine = store.data().guest.machine();
    let ran = error.is::<Stop>()
        || error.is::<wasmtime::Trap>()
        || error.is::<wasmtime::ThrownException>()
        || error.is::<UnknownImportCalled>();
    if ran {
        return Ok(outcome_of(store, error));
    }
    let name = program.name().to_owned();
    if machine.limits_hit().contains(&Limit::Memory) {
        let limit_bytes = machine.limits().memory_bytes_max;
        return Err(RunError::Memory { program: name, limit_bytes });
    }
    let is_of_host = error.chain().any(is_exhausted);
    let error = RunError::Instantiate { program: name, message: format!("{error:#}") };
    if is_of_host {
        return Ok(store.data_mut().guest.end_for_lack(&error));
    }
    Err(error)
}

/// The message of `trap`.
pub(super) fn message_of(trap: wasmtime::Trap) -> String {
    trap.to_string().trim_start_matches("wasm trap: ").to_owned()
}

fn outcome_of(store: &mut Store<Process>, error: &wasmtime::Error) -> Outcome {
    let process = store.data_mut();
    let is_interrupted = process.interruption.as_ref().is_some_and(|it| it.is_interrupted());
    // The load from the stop page is out of bounds while that is closed.
    if is_interrupted
        && error.downcast_ref::<wasmtime::Trap>() == Some(&wasmtime::Trap::MemoryOutOfBounds)
    {
        process.guest.machine_mut().note_limit(Limit::Timeout);
        return Outcome::Limit(Limit::Timeout);
    }
    if let Some(stop) = error.downcast_ref::<Stop>() {
        return (*stop).into();
    }
    let message = match error.downcast_ref::<wasmtime::Trap>() {
        Some(wasmtime::Trap::OutOfFuel) => return Outcome::Limit(Limit::Fuel),
        Some(trap) => message_of(*trap),
        None => error.root_cause().to_string(),
    };
    let frames = error.downcast_ref::<WasmBacktrace>().map_or(&[][..], |trace| trace.frames());
    let backtrace = frames
        .iter()
        .map(|frame| match frame.func_name() {
            // Names of other languages stay as they are.
            Some(name) => format!("{:#}", rustc_demangle::demangle(name)),
            None => format!("<function {}>", frame.func_index()),
        })
        .collect();
    Outcome::Trapped(Trap { message, backtrace })
}
