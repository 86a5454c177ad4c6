//! `--cache-results`, and `belljar cache results`.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use bytesize::ByteSize;
use serde::Serialize;
use serde_json::json;

use super::args::groups::ResultArgs;
use super::args::installation::ResultsAction;
use super::exit::Usage;
use super::home::cache_dir;
use super::report::ms;
use super::text::{count, printable};
use crate::results::{Action, ActionInfo, ResultCache, Results, ResultsInfo, Trace};

/// What the processes of a run found in the cache of results.
#[derive(Serialize, Debug)]
pub struct ResultsReport {
    /// Processes whose code did not run.
    pub hits: u64,
    /// Processes whose code ran.
    pub misses: u64,
    /// Real time that the code of the hits took when it ran.
    pub saved_ms: f64,
    /// Why code ran, for the first 1,000 processes.
    pub differences: Vec<DifferenceReport>,
    /// Why the cache was not used.
    pub not_used: Option<&'static str>,
}

/// Why the code of a process ran.
#[derive(Serialize, Debug)]
pub struct DifferenceReport {
    /// The program.
    pub program: String,
    /// What differs from an earlier run; `null` if there was none with its arguments.
    pub difference: Option<String>,
}

/// The cache of results of one run.
pub struct Caching {
    results: Arc<Results>,
    not_used: Option<&'static str>,
    explains: bool,
}

impl Caching {
    /// The cache that `args` ask for, if they do; `not_used` says why the run cannot use it.
    ///
    /// # Errors
    /// The directory of the cache is not known.
    pub fn of_args(args: &ResultArgs, not_used: Option<&'static str>) -> Result<Option<Self>> {
        if !args.cache_results {
            return Ok(None);
        }
        let results = Arc::new(Results::new(cache()?));
        Ok(Some(Self { results, not_used, explains: args.explain }))
    }

    /// What answers the processes of the run, if it can be answered.
    pub fn results(&self) -> Option<Arc<Results>> {
        self.not_used.is_none().then(|| self.results.clone())
    }

    /// What the cache was used for; says so if asked to.
    pub fn tell(&self, quiet: bool) -> ResultsReport {
        let statistics = self.results.statistics();
        if let Some(why) = self.not_used.filter(|_| !quiet) {
            note!("belljar: note: results are not cached: {why}");
        }
        if let Some(error) = statistics.error.filter(|_| !quiet) {
            note!("belljar: warning: the cache of results cannot be used: {}", printable(&error));
        }
        if self.explains {
            for difference in &statistics.differences {
                note!("belljar: ran {}", printable(&difference.to_string()));
            }
            let saved = Duration::from_millis(statistics.saved.as_millis() as u64);
            note!(
                "belljar: {} answered from the cache, {} ran; {saved:?} saved",
                count(statistics.hits as usize, "process"),
                statistics.misses,
            );
        }
        let differences = statistics
            .differences
            .into_iter()
            .map(|it| DifferenceReport { program: it.program, difference: it.call });
        ResultsReport {
            hits: statistics.hits,
            misses: statistics.misses,
            saved_ms: ms(statistics.saved),
            differences: differences.collect(),
            not_used: self.not_used,
        }
    }
}

/// The cache of results of this user.
fn cache() -> Result<ResultCache> {
    Ok(ResultCache::new(&cache_dir()?))
}

/// `belljar cache results`.
pub fn run(action: &ResultsAction) -> Result<u8> {
    let cache = cache()?;
    match action {
        ResultsAction::Info { json } => told("results of", &cache.info()?, *json),
        ResultsAction::List { json } => list(&cache, *json)?,
        ResultsAction::Show { action, json } => show(&cache, action, *json)?,
        ResultsAction::Gc { max_size, json } => {
            told("removed results of", &cache.trim(*max_size)?, *json);
        }
        ResultsAction::Clear { json } => told("removed results of", &cache.clear()?, *json),
    }
    Ok(0)
}

fn told(verb: &str, info: &ResultsInfo, json: bool) {
    if json {
        let path = info.path.to_string_lossy();
        let (actions, traces, bytes) = (info.actions, info.traces, info.bytes);
        say!("{}", json!({ "path": path, "actions": actions, "traces": traces, "bytes": bytes }));
        return;
    }
    let (actions, traces) =
        (count(info.actions as usize, "action"), count(info.traces as usize, "trace"));
    let bytes = ByteSize(info.bytes).display().iec();
    say!("{verb} {actions}, {traces}, {bytes}, in {}", info.path.display());
}

/// The arguments of an action, from its last trace.
fn command(trace: Option<&Trace>) -> Vec<String> {
    trace.map_or_else(Vec::new, |trace| trace.command.clone())
}

fn list(cache: &ResultCache, json: bool) -> Result<()> {
    let mut actions = cache.actions()?;
    actions.retain(|action| !action.traces.is_empty());
    actions.sort_by_key(|action| std::cmp::Reverse(action.traces[0].used_at));
    for ActionInfo { action, traces } in actions {
        let Some(last) = cache.read(&traces[0]) else { continue };
        let (digest, bytes) = (action.digest(), traces.iter().map(|it| it.bytes).sum::<u64>());
        let command = command(Some(&last));
        if json {
            say!(
                "{}",
                json!({
                    "action": digest, "command": command, "traces": traces.len(), "bytes": bytes,
                    "used_at_unix_s": unix_s(traces[0].used_at), "took_ms": ms(last.took()),
                })
            );
        } else {
            let size = ByteSize(bytes).display().iec();
            let short = &digest.to_string()[..12];
            let took = last.took().as_secs_f64();
            let command = printable(&command.join(" "));
            say!("{short}  {size:>10}  {took:>8.3} s  {command}");
        }
    }
    Ok(())
}

fn unix_s(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Shows the calls of the traces of the action whose digest begins with `begin`.
fn show(cache: &ResultCache, begin: &str, json: bool) -> Result<()> {
    let actions = cache.actions()?;
    let is_meant = |it: &&ActionInfo| it.action.digest().to_string().starts_with(begin);
    let found: Vec<Action> = actions.iter().filter(is_meant).map(|it| it.action).collect();
    let [action] = found[..] else {
        let how_many = if found.is_empty() { "no action" } else { "more than one action" };
        let message = format!(
            "{how_many} of the cache begins with {}: `belljar cache results list` lists them",
            printable(begin)
        );
        return Err(Usage(message).into());
    };
    for info in cache.traces(action)? {
        let Some(trace) = cache.read(&info) else { continue };
        let name = info.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if json {
            let calls: Vec<_> = trace.calls.iter().map(|call| call_json(&trace, call)).collect();
            say!(
                "{}",
                json!({ "trace": name, "command": trace.command, "took_ms": ms(trace.took()), "calls": calls })
            );
            continue;
        }
        say!(
            "trace {name}: {}, {:.3} s",
            count(trace.calls.len(), "call"),
            trace.took().as_secs_f64()
        );
        for call in &trace.calls {
            let function = trace.function(call).map_or("?", |function| &function.name);
            let path = call.inputs.first().filter(|_| function.starts_with("path_"));
            let path = path.map_or_else(String::new, |path| {
                format!(" {}", printable(&String::from_utf8_lossy(&path.bytes.0)))
            });
            let code = match &call.answer {
                None => String::new(),
                Some(answer) => format!(" = {}", answer.code),
            };
            say!("  {function}{path}{code}");
        }
    }
    Ok(())
}

fn call_json(trace: &Trace, call: &crate::results::Call) -> serde_json::Value {
    let bytes: u64 = call.inputs.iter().map(|span| span.bytes.0.len() as u64).sum();
    json!({
        "function": trace.function(call).map(|function| &function.name),
        "args": call.args,
        "input_bytes": bytes,
        "code": call.answer.as_ref().map(|answer| answer.code),
    })
}
