//! Processes whose results are known from earlier runs.
//!
//! A process that has traces first makes their calls, in a player. Where an answer is on none of them, the program runs:
//! the calls that were made are not made again, it gets their answers. See [`crate::results`].

use std::sync::Arc;

use super::module::Encoding;
use super::program::Program;
use super::run::run_calling;
use super::{Engine, player};
use crate::abi::{Calls, Follower};
use crate::base::ambient;
use crate::base::digest::Digest;
use crate::kernel::guest::Guest;
use crate::kernel::machine::limits::Limit;
use crate::kernel::process::outcome::{Outcome, RunError};
use crate::kernel::process::schedule::Ended;
use crate::results::{Action, Answer, Compared, Difference, Results, Trace, WrongTrace};

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

/// The results that `guest`, a process of `program`, may be answered from, and is added to.
pub(super) fn results_for(program: &impl Knowable, guest: &Guest) -> Option<Arc<Results>> {
    let machine = guest.machine();
    // A recorded or traced run runs, fuel is counted by running, and a trace has calls of modules.
    let runs = machine.tape.is_some()
        || guest.is_traced()
        || guest.invoke().is_some()
        || program.engine().config().fuel
        || program.encoding() == Encoding::Component;
    machine.results.as_ref().filter(|_| !runs).cloned()
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
        call: follower.as_ref().map(Follower::difference),
    });
    let place = follower.as_ref().map_or(action, |follower| action.after(follower.answers()));
    let calls = follower.map_or_else(Calls::default, Calls::after);
    run(results, (action, place), program, guest, calls).await
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
    NotToTheEnd(Guest, Option<Follower>),
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
        move |answers: &[Answer]| {
            let place = if answers.is_empty() { action } else { action.after(answers) };
            trace_at(&results, place)
        }
    };
    let Some(follower) = Follower::new(source, player::number_of) else {
        return Followed::NotToTheEnd(guest, None);
    };
    let (ended, calls) = run_calling(player, guest, Some(Calls::following(follower))).await;
    let Some(follower) = calls.and_then(Calls::into_follower) else {
        return Followed::ToTheEnd(ended);
    };
    if follower.is_at_end() {
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

/// The trace at `place`.
fn trace_at(results: &Results, place: Action) -> Option<Trace> {
    let cache = results.cache();
    let traces = cache.traces(place).map_err(|error| results.note_error(error)).ok()?;
    traces.iter().find_map(|info| {
        let trace = cache.read(info)?;
        cache.note_use(info);
        Some(trace)
    })
}

fn player_of<'e>(engine: &'e Engine, results: &Results) -> Option<&'e Program> {
    let player = engine.0.player.get_or_init(|| Program::player(engine));
    player.as_ref().map_err(|error| results.note_error(error)).ok()
}

/// Runs `program` as `guest`, and stores its trace of `action` at `place`.
async fn run(
    results: &Results,
    (action, place): (Action, Action),
    program: &impl Knowable,
    guest: Guest,
    calls: Calls,
) -> Ended {
    let (ended, trace) = run_taken_down(action, program, guest, calls).await;
    if let Some(trace) = &trace {
        store(results, program, place, trace);
    }
    ended
}

/// Runs `program` as `guest`; returns its trace, too, if it exited.
async fn run_taken_down(
    action: Action,
    program: &impl Knowable,
    guest: Guest,
    calls: Calls,
) -> (Ended, Option<Trace>) {
    let program = match program.load() {
        Ok(program) => program,
        Err(error) => return (Ended { guest, outcome: Err(error) }, None),
    };
    let begun = ambient::instant_now();
    let (ended, calls) = run_calling(&program, guest, Some(calls)).await;
    let took = ambient::elapsed_since(begun);
    let calls = calls.filter(|_| exited(&ended));
    let trace = calls.and_then(|calls| calls.into_trace(action, ended.guest.args(), took));
    (ended, trace)
}

fn store(results: &Results, program: &impl Knowable, place: Action, trace: &Trace) {
    if !results.keeps(trace) {
        results.note_withheld();
    } else if let Err(error) = results.cache().store(program.digest(), place, trace) {
        results.note_error(error);
    }
}

/// Runs `program` as `guest`, and compares its calls with those of the traces that it would have followed.
async fn rerun(results: &Results, action: Action, program: &impl Knowable, guest: Guest) -> Ended {
    let name = name(&guest, program);
    let (ended, trace) = run_taken_down(action, program, guest, Calls::default()).await;
    let Some(made) = trace else { return ended };
    let mut place = action;
    while let Some(known) = trace_at(results, place) {
        match known.compare(&made) {
            Compared::Same => {
                results.note_rerun();
                return ended;
            }
            Compared::Differs { call } => {
                results.note_wrong(WrongTrace { program: name, call });
                return ended;
            }
            Compared::Leaves { answers } => place = action.after(&answers),
        }
    }
    results.note_miss(Difference { program: name, call: None });
    store(results, program, place, &made);
    ended
}

/// Whether a process ended by itself, and not for a lack of memory.
fn exited(ended: &Ended) -> bool {
    let hit_memory = ended.guest.machine().limits_hit().contains(&Limit::Memory);
    matches!(ended.outcome, Ok(Outcome::Exited(_))) && !hit_memory
}
