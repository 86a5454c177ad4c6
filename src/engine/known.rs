//! Processes whose results are known from earlier runs.
//!
//! A process that has traces first makes their calls, in a player. Where an answer is on none of them, the program runs:
//! the calls that were made are not made again, it gets their answers. See [`crate::results`].

use std::collections::VecDeque;
use std::sync::Arc;

use super::program::Program;
use super::run::run_calling;
use super::{Engine, player};
use crate::abi::{Calls, Follower};
use crate::base::ambient;
use crate::kernel::guest::Guest;
use crate::kernel::machine::limits::Limit;
use crate::kernel::process::outcome::Outcome;
use crate::kernel::process::schedule::Ended;
use crate::results::{Action, Difference, Results, Trace, TraceInfo, WrongTrace};

/// The results that `guest`, a process of `program`, may be answered from, and is added to.
pub(super) fn results_for(program: &Program, guest: &Guest) -> Option<Arc<Results>> {
    let machine = guest.machine();
    // A recorded or traced run runs, and fuel is counted by running.
    let runs = machine.tape.is_some() || guest.is_traced() || program.engine().config().fuel;
    machine.results.as_ref().filter(|_| !runs).cloned()
}

/// Runs `program` as `guest`, as far as its results are not known.
pub(super) async fn process(results: &Arc<Results>, program: &Program, guest: Guest) -> Ended {
    let machine = guest.machine();
    let (version, memory) = (machine.kernel_version(), machine.limits().memory_bytes_max);
    let action = Action::new(program.digest(), guest.args(), version, memory);
    let infos = results.cache().traces(action).unwrap_or_else(|error| {
        results.note_error(error);
        Vec::new()
    });
    if results.is_verified() {
        return verified(results, action, &infos, program, guest).await;
    }
    let (guest, follower) = match follow(results, program, &infos, guest).await {
        Followed::ToTheEnd(ended) => return ended,
        Followed::NotToTheEnd(guest, follower) => (guest, follower),
    };
    results.note_miss(Difference {
        program: name(&guest, program),
        call: follower.as_ref().map(Follower::difference),
    });
    run(results, action, program, guest, follower.map_or_else(Calls::default, Calls::after)).await.0
}

/// The name under which `guest` was started, as a module may have many programs.
fn name(guest: &Guest, program: &Program) -> String {
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

/// Makes the calls of the traces `infos` as `guest`.
async fn follow(
    results: &Arc<Results>,
    program: &Program,
    infos: &[TraceInfo],
    guest: Guest,
) -> Followed {
    let Some(player) = player_of(program.engine(), results) else {
        return Followed::NotToTheEnd(guest, None);
    };
    let source = source(results, infos);
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

/// The traces `infos`, read one after the other.
fn source(
    results: &Arc<Results>,
    infos: &[TraceInfo],
) -> impl FnMut() -> Option<Trace> + Send + use<> {
    let (results, mut infos) = (results.clone(), VecDeque::from(infos.to_vec()));
    move || {
        loop {
            let info = infos.pop_front()?;
            if let Some(trace) = results.cache().read(&info) {
                results.cache().note_use(&info);
                return Some(trace);
            }
        }
    }
}

fn player_of<'e>(engine: &'e Engine, results: &Results) -> Option<&'e Program> {
    let player = engine.0.player.get_or_init(|| Program::player(engine));
    player.as_ref().map_err(|error| results.note_error(error)).ok()
}

/// Runs `program` as `guest`, and stores its trace.
async fn run(
    results: &Results,
    action: Action,
    program: &Program,
    guest: Guest,
    calls: Calls,
) -> (Ended, Option<Trace>) {
    let begun = ambient::instant_now();
    let (ended, calls) = run_calling(program, guest, Some(calls)).await;
    let took = ambient::elapsed_since(begun);
    let hit_memory = ended.guest.machine().limits_hit().contains(&Limit::Memory);
    let exited = matches!(ended.outcome, Ok(Outcome::Exited(_))) && !hit_memory;
    let trace =
        calls.filter(|_| exited).and_then(|calls| calls.into_trace(ended.guest.args(), took));
    if let Some(trace) = &trace
        && let Err(error) = results.cache().store(action, trace)
    {
        results.note_error(error);
    }
    (ended, trace)
}

/// Runs `program` as `guest`, and compares its calls with those of its traces.
async fn verified(
    results: &Arc<Results>,
    action: Action,
    infos: &[TraceInfo],
    program: &Program,
    guest: Guest,
) -> Ended {
    let program_name = name(&guest, program);
    let (ended, trace) = run(results, action, program, guest, Calls::default()).await;
    let Some(made) = trace else { return ended };
    let mut source = source(results, infos);
    let mut is_known = false;
    while let Some(known) = source() {
        if let Some(call) = known.contradicted_by(&made) {
            results.note_wrong(WrongTrace { program: program_name.clone(), call });
        } else {
            is_known |= known.calls == made.calls;
        }
    }
    if is_known {
        results.note_hit(std::time::Duration::ZERO);
    } else {
        results.note_miss(Difference { program: program_name, call: None });
    }
    ended
}
