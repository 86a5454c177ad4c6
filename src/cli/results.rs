//! `--cache-results`, and `belljar cache results`.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use bytesize::ByteSize;
use indexmap::IndexMap;
use serde_json::json;

use super::args::groups::ResultArgs;
use super::args::installation::ResultsAction;
use super::exit::{Hinted, Usage};
use super::home::cache_dir;
use super::remote_results::Remote;
use super::report::{NotKeptReport, ResultsReport, ms};
use super::result_secrets;
use super::text::{count, printable};
use crate::base::digest::Digest;
use crate::results::{NotKept, ResultCache, Results, ResultsInfo, Trace, TraceInfo};

/// Digits of an action that are shown.
const SHORT: usize = 12;

/// The cache of results of one run.
pub struct Caching {
    results: Arc<Results>,
    remote: Remote,
    not_used: Option<&'static str>,
    explains: bool,
}

impl Caching {
    /// The cache that `args` ask for, if they do, for `command`, whose programs have the variables `env` and the host's
    /// `credentials`; `not_used` says why the run cannot use it.
    ///
    /// # Errors
    /// The directory of the cache is not known; a variable has no name; a credential is not valid.
    pub fn of_args(
        args: &ResultArgs,
        command: &[OsString],
        env: &[OsString],
        credentials: &[String],
        not_used: Option<&'static str>,
    ) -> Result<Option<Self>> {
        let remote = Remote::of_args(args, command)?;
        if !args.cache_results && !remote.is_used() {
            let needs = |given: bool, name: &str| {
                given.then(|| Usage(format!("{name} needs --cache-results")))
            };
            let alone = needs(args.explain, "--explain");
            return match alone.or_else(|| needs(args.cache_secrets, "--cache-secrets")) {
                Some(usage) => Err(usage.into()),
                None => Ok(None),
            };
        }
        let results = Results::new(cache()?)
            .without_secrets(result_secrets::of(env, credentials)?)
            .keeping_secrets(args.cache_secrets)
            .rerun(args.rerun);
        let results = Arc::new(remote.share(results));
        Ok(Some(Self { results, remote, not_used, explains: args.explain }))
    }

    /// What answers the processes of the run, if it can be answered.
    pub fn results(&self) -> Option<Arc<Results>> {
        self.not_used.is_none().then(|| self.results.clone())
    }

    /// Checks that no process that was run again contradicts its results.
    ///
    /// # Errors
    /// A process that was run again did something else than what is known of it.
    pub fn expect_right(&self) -> Result<()> {
        let statistics = self.results.statistics();
        if statistics.wrong.is_empty() {
            return Ok(());
        }
        let wrong = statistics.wrong.iter().map(|wrong| {
            let (program, how) = (printable(&wrong.program), printable(&wrong.how));
            format!("{program} (its call {}: {how})", wrong.call)
        });
        let hint = "`belljar cache results clear` removes them; whoever can write to the cache can make such results";
        let error = WrongResults(wrong.collect()).into();
        Err(Hinted { error, hint: hint.to_owned() }.into())
    }

    /// What the cache was used for; says so if asked to.
    pub fn tell(&self, quiet: bool) -> ResultsReport {
        let statistics = self.results.statistics();
        if let Some(why) = self.not_used.filter(|_| self.explains) {
            note!("belljar: note: results are not cached: {why}");
        }
        if let Some(error) = statistics.error.as_ref().filter(|_| !quiet) {
            note!("belljar: warning: the cache of results cannot be used: {}", printable(error));
        }
        if statistics.withheld > 0 && !quiet {
            let processes = processes(statistics.withheld);
            note!(
                "belljar: note: results of {processes} are not kept, because they hold secrets (--cache-secrets keeps them)"
            );
        }
        if self.explains {
            for difference in &statistics.differences {
                note!("belljar: ran {}", printable(&difference.to_string()));
            }
            for NotKept { program, why } in &statistics.not_kept {
                let (program, why) = (printable(program), why.to_string());
                note!("belljar: results of {program} are not kept: {}", printable(&why));
            }
            let saved = Duration::from_millis(statistics.saved.as_millis() as u64);
            note!(
                "belljar: {} answered from the cache, {} ran, {} ran again; {saved:?} saved",
                processes(statistics.hits),
                statistics.misses,
                statistics.rerun,
            );
        }
        if self.remote.is_used() && self.not_used.is_none() {
            self.results.share_known();
        }
        let remote = self.remote.tell(statistics.fetched, quiet, self.explains);
        ResultsReport { remote, ..ResultsReport::of(statistics, self.not_used) }
    }

    /// Notes in `report` that the programs `names` of the host ran; says so if asked to.
    pub fn tell_natives(&self, names: &[String], report: &mut ResultsReport) {
        for name in names {
            if self.explains {
                note!("belljar: ran {}: {OF_HOST}", printable(name));
            }
            report.not_kept.push(NotKeptReport { program: name.clone(), why: OF_HOST.to_owned() });
        }
    }
}

/// Why programs of the host always run.
pub const OF_HOST: &str = "it is a program of the host";

/// `number` processes, in words.
pub fn processes(number: u64) -> String {
    format!("{number} process{}", if number == 1 { "" } else { "es" })
}

/// Results of the cache are wrong.
#[derive(thiserror::Error, Debug)]
#[error("the cache has wrong results of {}", .0.join(", "))]
pub struct WrongResults(Vec<String>);

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
        let (path, traces, bytes) = (info.path.to_string_lossy(), info.traces, info.bytes);
        say!("{}", json!({ "path": path, "traces": traces, "bytes": bytes }));
        return;
    }
    let (traces, bytes) =
        (count(info.traces as usize, "trace"), ByteSize(info.bytes).display().iec());
    say!("{verb} {traces}, {bytes}, in {}", info.path.display());
}

/// The traces of one action.
struct OfAction {
    last: Trace,
    used_at: SystemTime,
    traces: usize,
    bytes: u64,
}

/// Lists the actions, the last one used first.
fn list(cache: &ResultCache, json: bool) -> Result<()> {
    let mut actions: IndexMap<Digest, OfAction> = IndexMap::new();
    for info in cache.all()? {
        let Some(trace) = cache.read(&info) else { continue };
        let action = actions.entry(trace.action).or_insert_with(|| OfAction {
            last: trace,
            used_at: info.used_at,
            traces: 0,
            bytes: 0,
        });
        action.traces += 1;
        action.bytes += info.bytes;
    }
    for (digest, OfAction { last, used_at, traces, bytes }) in actions {
        if json {
            say!(
                "{}",
                json!({
                    "action": digest, "command": last.command, "traces": traces, "bytes": bytes,
                    "used_at_unix_s": unix_s(used_at), "took_ms": ms(last.took()),
                })
            );
        } else {
            let (size, short) = (ByteSize(bytes).display().iec(), &digest.to_string()[..SHORT]);
            let (took, command) = (last.took().as_secs_f64(), printable(&last.command.join(" ")));
            say!("{short}  {size:>10}  {traces:>4}  {took:>8.3} s  {command}");
        }
    }
    Ok(())
}

fn unix_s(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Shows the calls of the traces of the action whose digest begins with `begin`.
fn show(cache: &ResultCache, begin: &str, json: bool) -> Result<()> {
    let is_meant = |trace: &Trace| trace.action.to_string().starts_with(begin);
    let read = |info: TraceInfo| cache.read(&info).filter(is_meant).map(|trace| (info, trace));
    let traces: Vec<_> = cache.all()?.into_iter().filter_map(read).collect();
    let is_one = traces.windows(2).all(|pair| pair[0].1.action == pair[1].1.action);
    if traces.is_empty() || !is_one {
        let how_many = if is_one { "no action" } else { "more than one action" };
        let message = format!(
            "{how_many} of the cache begins with {}: `belljar cache results list` lists them",
            printable(begin)
        );
        return Err(Usage(message).into());
    }
    for (info, trace) in traces {
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
