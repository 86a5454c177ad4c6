//! Processes whose results are known from earlier runs.
//!
//! A process that has traces first makes their calls, in a player. Where an answer is on none of them, the program runs:
//! the calls that were made are not made again, it gets their answers. See [`crate::results`].

use std::sync::Arc;
use std::time::Duration;

#[cfg(all(feature = "cli", feature = "remote"))]
use super::link::UNDEFINED_CALLED;
use super::module::Encoding;
use super::program::Program;
use super::run::{message_of, run_calling};
use super::{Engine, player};
use crate::abi::{Calls, Follower, contradiction};
use crate::base::ambient;
use crate::base::digest::Digest;
use crate::kernel::guest::Guest;
use crate::kernel::machine::limits::Limit;
use crate::kernel::process::outcome::{Outcome, RunError, Trap};
use crate::kernel::process::schedule::Ended;
use crate::results::{
    Abandoned, Action, Answer, Compared, Difference, End, Results, Trace, Unkept, WrongTrace,
};

/// A program whose code may not have to run.
pub(super) trait Knowable {
    /// The name for messages.
    fn name(&self) -> &str;

    /// The digest of the module.
    fn digest(&self) -> Digest;

    /// What its binary is.
    fn encoding(&self) -> Encoding;

    /// The engine that runs it.
    fn engine(&self) -> &Engine;

    /// Loads it.
    ///
    /// # Errors
    /// It cannot be loaded.
    fn load(&self) -> Result<Program, RunError>;
}

impl Knowable for Program {
    fn name(&self) -> &str {
        self.name()
    }

    fn digest(&self) -> Digest {
        self.digest()
    }

    fn encoding(&self) -> Encoding {
        self.encoding()
    }

    fn engine(&self) -> &Engine {
        self.engine()
    }

    fn load(&self) -> Result<Program, RunError> {
        Ok(self.clone())
    }
}

/// The results that `guest`, a process of `program`, may be answered from, and is added to. That it cannot be is noted
/// in the results of its machine.
pub(super) fn results_for(program: &impl Knowable, guest: &Guest) -> Option<Arc<Results>> {
    let machine = guest.machine();
    let results = machine.results.as_ref()?;
    let why = if machine.tape.is_some() || guest.is_traced() {
        Unkept::Shown
    } else if guest.invoke().is_some() {
        Unkept::Invoked
    } else if program.engine().config().fuel {
        Unkept::Fuel
    } else if program.encoding() == Encoding::Component {
        Unkept::Component
    } else {
        return Some(results.clone());
    };
    let program = name(guest, program);
    results.note_miss(Difference { program: program.clone(), call: Some(why.to_string()) });
    results.note_not_kept(program, why);
    None
}

/// Runs `program` as `guest`, as far as its results are not known.
pub(super) async fn process(
    results: &Arc<Results>,
    program: &impl Knowable,
    guest: Guest,
) -> Ended {
    let machine = guest.machine();
    let (version, memory) = (machine.kernel_version(), machine.limits().memory_bytes_max);
    let action = Action::new(program.digest(), guest.args(), version, memory);
    if results.reruns_next() {
        return rerun(results, action, program, guest).await;
    }
    let (guest, follower) = match follow(results, action, program, guest).await {
        Followed::ToTheEnd(ended) => return ended,
        Followed::NotToTheEnd(guest, follower) => (guest, follower),
    };
    results.note_miss(Difference {
        program: name(&guest, program),
        call: follower.as_deref().map(Follower::difference),
    });
    let (answers, calls) = match follower {
        None => (Vec::new(), Calls::from_start(results.secrets())),
        Some(follower) => (follower.answers().to_vec(), Calls::after(*follower)),
    };
    let (ended, trace) = run_taken_down(results, action, program, guest, calls).await;
    if let Some(trace) = &trace {
        add(results, program, action, &answers, trace);
    }
    ended
}

/// The name under which `guest` was started, as a module may have many programs.
fn name(guest: &Guest, program: &impl Knowable) -> String {
    let argv0 = guest.args().first().map(|argv0| String::from_utf8_lossy(argv0).into_owned());
    argv0.unwrap_or_else(|| program.name().to_owned())
}

/// How following traces ended.
enum Followed {
    /// The process has ended, as one of the traces or for another reason.
    ToTheEnd(Ended),
    /// The program has to run.
    NotToTheEnd(Guest, Option<Box<Follower>>),
}

/// Makes the calls of the traces of `action` as `guest`.
async fn follow(
    results: &Arc<Results>,
    action: Action,
    program: &impl Knowable,
    guest: Guest,
) -> Followed {
    let Some(player) = player_of(program.engine(), results) else {
        return Followed::NotToTheEnd(guest, None);
    };
    let source = {
        let results = results.clone();
        let module = program.digest();
        move |answers: &[Answer]| results.trace_after(module, action, answers)
    };
    let Some(follower) = Follower::new(source, player::number_of, results.secrets()) else {
        return Followed::NotToTheEnd(guest, None);
    };
    let (mut ended, calls) = run_calling(player, guest, Some(Calls::following(follower))).await;
    let Some(follower) = calls.and_then(Calls::into_follower) else {
        return Followed::ToTheEnd(ended);
    };
    if follower.is_at_end() {
        if let (End::Trapped { message, backtrace }, Ok(Outcome::Exited(_))) =
            (&follower.trace().end, &ended.outcome)
        {
            let trap = Trap { message: message.clone(), backtrace: backtrace.clone() };
            ended.outcome = Ok(Outcome::Trapped(trap));
        }
        results.note_hit(follower.trace().took());
        return Followed::ToTheEnd(ended);
    }
    match ended.outcome {
        // The player returned, or could not begin.
        Ok(Outcome::Exited(0)) => Followed::NotToTheEnd(ended.guest, Some(follower)),
        Err(_) if follower.calls_made() == 0 => Followed::NotToTheEnd(ended.guest, None),
        // A signal or a limit ended the process, as it would have ended the program.
        _ => Followed::ToTheEnd(ended),
    }
}

fn player_of<'e>(engine: &'e Engine, results: &Results) -> Option<&'e Program> {
    let player = engine.0.player.get_or_init(|| Program::player(engine));
    player.as_ref().map_err(|error| results.note_error(error)).ok()
}

/// Runs `program` as `guest`; returns its trace, too, if that can be kept.
async fn run_taken_down(
    results: &Results,
    action: Action,
    program: &impl Knowable,
    guest: Guest,
    calls: Calls,
) -> (Ended, Option<Trace>) {
    let name = name(&guest, program);
    let program = match program.load() {
        Ok(program) => program,
        Err(error) => {
            results.note_not_kept(name, Unkept::NotEnded(error.to_string()));
            return (Ended { guest, outcome: Err(error) }, None);
        }
    };
    let begun = ambient::instant_now();
    let (ended, calls) = run_calling(&program, guest, Some(calls)).await;
    let took = ambient::elapsed_since(begun);
    match kept(action, &ended, calls, took) {
        Ok(trace) => (ended, Some(trace)),
        Err(why) => {
            results.note_not_kept(name, why);
            (ended, None)
        }
    }
}

/// The trace of a process of `action`, which ended after it had run for `took`.
///
/// # Errors
/// Why it cannot be kept.
fn kept(
    action: Action,
    ended: &Ended,
    calls: Option<Calls>,
    took: Duration,
) -> Result<Trace, Unkept> {
    if ended.guest.machine().limits_hit().contains(&Limit::Memory) {
        return Err(Unkept::Memory);
    }
    let end = match &ended.outcome {
        Ok(Outcome::Exited(_) | Outcome::Signalled(_)) => End::Exited,
        Ok(Outcome::Trapped(trap)) if is_of_code(trap) => {
            let Trap { message, backtrace } = trap.clone();
            End::Trapped { message, backtrace }
        }
        Ok(Outcome::Trapped(trap)) => return Err(Unkept::Trapped(trap.message.clone())),
        Ok(Outcome::Limit(limit)) => return Err(Unkept::Limit(limit.name())),
        Ok(outcome @ (Outcome::Deadlock(_) | Outcome::Tape)) => {
            return Err(Unkept::NotEnded(outcome.name().to_owned()));
        }
        Err(error) => return Err(Unkept::NotEnded(error.to_string())),
    };
    let not_ended = || Unkept::NotEnded("its calls are not known".to_owned());
    let trace = calls.ok_or_else(not_ended)?.into_trace(action, ended.guest.args(), end, took);
    let trace = match trace {
        Ok(trace) => trace.ok_or_else(not_ended)?,
        Err(Abandoned::TooLarge) => return Err(Unkept::TooLarge),
        Err(Abandoned::Torn) => return Err(Unkept::HostFailed),
    };
    // A signal that its own last call brought about, such as SIGPIPE, comes again when that is made again.
    let ended_by_call = trace.calls.last().is_some_and(|call| call.answer.is_none());
    if matches!(ended.outcome, Ok(Outcome::Signalled(_))) && !ended_by_call {
        return Err(Unkept::Signalled);
    }
    Ok(trace)
}

/// Whether a process that makes the same calls, and gets the same answers, traps in the same way on any machine. When a
/// stack overflows depends on the compiler of the code, and so does what a module may not allocate.
fn is_of_code(trap: &Trap) -> bool {
    use wasmtime::Trap::{
        BadConversionToInteger, BadSignature, HeapMisaligned, IndirectCallToNull,
        IntegerDivisionByZero, IntegerOverflow, MemoryOutOfBounds, TableOutOfBounds,
        UnreachableCodeReached,
    };

    let of_code = [
        BadConversionToInteger,
        BadSignature,
        HeapMisaligned,
        IndirectCallToNull,
        IntegerDivisionByZero,
        IntegerOverflow,
        MemoryOutOfBounds,
        TableOutOfBounds,
        UnreachableCodeReached,
    ];
    of_code.into_iter().any(|known| message_of(known) == trap.message)
        || wasmtime::ThrownException.to_string() == trap.message
}

/// As [`is_of_code`], or it called a function that belljar does not define.
#[cfg(all(feature = "cli", feature = "remote"))]
pub fn is_of_code_and_imports(trap: &Trap) -> bool {
    is_of_code(trap) || trap.message.starts_with(UNDEFINED_CALLED)
}

fn add(
    results: &Results,
    program: &impl Knowable,
    action: Action,
    answers: &[Answer],
    trace: &Trace,
) {
    if results.keeps(trace) {
        results.add(program.digest(), action, answers, trace);
    } else {
        let program = trace.command.first().cloned().unwrap_or_default();
        results.note_not_kept(program, Unkept::Secret);
    }
}

/// Runs `program` as `guest`, and compares its calls with those of the traces that it would have followed.
async fn rerun(results: &Results, action: Action, program: &impl Knowable, guest: Guest) -> Ended {
    let name = name(&guest, program);
    let calls = Calls::from_start(results.secrets());
    let (ended, trace) = run_taken_down(results, action, program, guest, calls).await;
    let Some(made) = trace else {
        results.note_miss(Difference { program: name, call: None });
        return ended;
    };
    let mut answers = Vec::new();
    while let Some(known) = results.trace_after(program.digest(), action, &answers) {
        match known.compare(&made) {
            Compared::Same => {
                results.note_rerun();
                return ended;
            }
            Compared::Differs { call } => {
                let how = contradiction(&known, &made, call);
                results.note_wrong(WrongTrace { program: name, call, how });
                return ended;
            }
            Compared::Leaves { answers: others } => answers = others,
        }
    }
    results.note_miss(Difference { program: name, call: None });
    add(results, program, action, &answers, &made);
    ended
}
