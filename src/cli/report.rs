//! The JSON report of a run.

use std::time::Duration;

use serde::Serialize;

use super::args::run::RunArgs;
use super::exit;
use super::loaded::{LoadedPrograms, Loads};
use crate::kernel::process::TrappedProcess;
pub use crate::kernel::vfs::ReportedChange as Change;
use crate::results::{Difference, NotKept, Statistics, WrongTrace};
use crate::{ExitStatus, Limit, Machine, Outcome};

/// How a run ended.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It did not start: `error` and the exit code say why.
    #[default]
    NotStarted,
    /// The program exited by itself.
    Exited,
    /// It trapped.
    Trapped,
    /// A signal ended it.
    Signalled,
    /// Every process waited for another one.
    Deadlock,
    /// It ran out of time: real, virtual, or fuel.
    TimedOut,
    /// Another limit ended it.
    Limit,
    /// It ended, and then its changes could not be determined or written.
    Failed,
    /// The native program of that name ran instead: its changes are real, and not known.
    Native,
}

/// The report of `--json`, filled in as things become known. Fields are added, never renamed.
#[derive(Serialize, Debug, Default)]
pub struct Report {
    /// How it ended.
    pub status: Status,
    /// The exit code of `belljar` itself.
    pub exit_code: u8,
    /// The guest's own exit code.
    pub guest_exit_code: Option<u32>,
    /// The error, if there was one.
    pub error: Option<String>,
    /// Why the run was made here, though `--remote-exec` names a server.
    pub remote_exec_error: Option<String>,
    /// The functions that were active at a trap.
    pub backtrace: Vec<String>,
    /// The processes that it started, or that these did, which trapped.
    pub trapped: Vec<Trapped>,
    /// Files of a session's directories that could not be shown as they were.
    #[serde(skip)]
    pub drifts: Vec<serde_json::Value>,
    /// The limits that the guest ran into, whether they ended it or not.
    pub limits_hit: Vec<&'static str>,
    /// The program.
    pub program: String,
    /// Functions that it imports and belljar does not define.
    pub unknown_imports: Vec<String>,
    /// Whether its compiled code came from the cache.
    pub cache_hit: bool,
    /// The tiers of compiled code in which each module ran, by its name.
    pub tiers: LoadedPrograms,
    /// Native programs that ran as processes.
    pub host_programs: Vec<String>,
    /// The virtual time that passed.
    pub virtual_time_ms: u64,
    /// Fuel that it used, where that is counted.
    pub fuel_used: Option<u64>,
    /// Bytes that it changed or created.
    pub upper_bytes: u64,
    /// What it set with `runtime.set_result`.
    pub host_result: Option<serde_json::Value>,
    /// What the call of `--invoke` returned.
    pub returned: Option<serde_json::Value>,
    /// The files that it changed.
    pub changes: Vec<Change>,
    /// Why the files of a session that it changed cannot be determined.
    #[serde(skip)]
    pub changes_error: Option<String>,
    /// Changed files that other tools may run or obey, by their path in the namespace.
    pub sensitive: Vec<String>,
    /// Changed files that not every system can have.
    pub not_portable: Vec<NotPortable>,
    /// Whether the changes were written to the disk.
    pub applied: bool,
    /// Whether the code of no process ran: all were answered from the results of earlier runs.
    pub cached: bool,
    /// What was found there, with `--cache-results`.
    pub results: Option<ResultsReport>,
    /// How long things took, in real time.
    pub timings: Timings,
}

/// A process that trapped.
#[derive(Serialize, Debug)]
pub struct Trapped {
    /// Its number.
    pub pid: u32,
    /// The program.
    pub program: String,
    /// The trap.
    pub error: String,
    /// The functions that were active.
    pub backtrace: Vec<String>,
}

impl Report {
    /// The exit code of a run that ended with `status`.
    pub fn exit_code_of(&self, args: &RunArgs, status: &ExitStatus) -> u8 {
        // A file that was written with the same content is not a change for `--check`.
        let is_change = |change: &Change| !change.is_of_times();
        let would_change = args.check && status.success() && self.changes.iter().any(is_change);
        if would_change { exit::WOULD_CHANGE } else { exit::of_outcome(status.outcome()) }
    }

    /// Notes the limits and the memory of `machine`, what a call returned, and the time `took` on its clock.
    pub fn spent(&mut self, machine: &Machine, took: Duration) {
        self.limits_hit = machine.limits_hit().into_iter().map(Limit::name).collect();
        self.virtual_time_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.upper_bytes = machine.vfs().upper_bytes();
        self.returned = machine.returned().cloned();
    }

    /// Notes how the program was loaded, if it was.
    pub fn loaded(&mut self, loads: &Loads) {
        if let Some(load) = loads.get() {
            (self.cache_hit, self.unknown_imports) = (load.is_cached, load.unknown_imports.clone());
        }
    }

    /// Notes what was found in the results of earlier runs.
    pub fn answered(&mut self, results: ResultsReport) {
        self.cached = results.is_all_known();
        self.results = Some(results);
    }

    /// Notes how the guest ended.
    pub fn ended(&mut self, status: &ExitStatus) {
        let outcome = status.outcome();
        self.guest_exit_code = status.code();
        self.fuel_used = status.fuel_used();
        let trapped = |casualty: &TrappedProcess| Trapped {
            pid: casualty.pid.0,
            program: casualty.name.clone(),
            error: casualty.trap.message.clone(),
            backtrace: casualty.trap.backtrace.clone(),
        };
        self.trapped = status.trapped().iter().map(trapped).collect();
        self.status = match outcome {
            Outcome::Exited(_) => Status::Exited,
            Outcome::Trapped(_) => Status::Trapped,
            outcome if outcome.is_of_time() => Status::TimedOut,
            Outcome::Limit(_) => Status::Limit,
            Outcome::Signalled(_) => Status::Signalled,
            Outcome::Deadlock(_) => Status::Deadlock,
            Outcome::Tape => Status::Failed,
        };
        match outcome {
            // The error of the tape is reported where that is finished.
            Outcome::Exited(_) | Outcome::Tape => {}
            Outcome::Limit(limit) => self.error = Some(limit.to_string()),
            Outcome::Signalled(signal) => self.error = Some(signal.to_string()),
            Outcome::Deadlock(waits) => self.error = Some(format!("deadlock: {waits}")),
            Outcome::Trapped(trap) => {
                self.error = Some(trap.message.clone());
                self.backtrace.clone_from(&trap.backtrace);
            }
        }
    }

    /// Notes belljar's own exit code, or error.
    pub fn concluded(&mut self, done: &anyhow::Result<u8>) {
        match done {
            Ok(code) => self.exit_code = *code,
            Err(error) => self.failed(exit::describe(error)),
        }
    }

    /// Notes that belljar exits with `code`, and why.
    pub fn failed(&mut self, (code, message): (u8, String)) {
        (self.exit_code, self.error) = (code, Some(message));
        if self.status != Status::NotStarted {
            self.status = Status::Failed;
        }
    }

    /// The report as a line of JSON.
    pub fn to_line(&self) -> String {
        // NaN becomes null, and all keys are strings.
        serde_json::to_string(self).expect("a report can be said in JSON") + "\n"
    }
}

/// What the processes of a run found in the cache of results.
#[derive(Serialize, Debug)]
pub struct ResultsReport {
    /// Processes whose code did not run.
    pub hits: u64,
    /// Processes whose code ran.
    pub misses: u64,
    /// Real time that the code of the hits took when it ran.
    pub saved_ms: f64,
    /// Processes that ran although they were known, and did what was known.
    pub rerun: u64,
    /// Processes that ran although they were known, and did something else.
    pub wrong: u64,
    /// Processes whose results were not kept, because they hold secrets.
    pub withheld: u64,
    /// How these contradict what is known.
    pub contradictions: Vec<ContradictionReport>,
    /// Why code ran, for the first 1,000 processes.
    pub differences: Vec<DifferenceReport>,
    /// Why results are not kept, for the first 1,000 processes.
    pub not_kept: Vec<NotKeptReport>,
    /// Why the cache was not used.
    pub not_used: Option<String>,
    /// What the server was used for, with `--remote-cache`.
    pub remote: Option<RemoteReport>,
}

/// What a server was used for.
#[derive(Serialize, Debug)]
pub struct RemoteReport {
    /// Traces that were there, and not here.
    pub fetched: u64,
    /// Traces that were uploaded.
    pub uploaded: u64,
    /// Traces that were to be uploaded, and are not.
    pub lost: u64,
    /// Traces that were there, and not taken: no trusted key had signed them.
    pub untrusted: u64,
    /// The first failure.
    pub error: Option<String>,
}

impl ResultsReport {
    /// The report of `statistics`; `not_used` says why the cache was not used.
    pub fn of(statistics: Statistics, not_used: Option<&'static str>) -> Self {
        let Statistics { hits, misses, rerun, withheld, .. } = statistics;
        let difference =
            |it: Difference| DifferenceReport { program: it.program, difference: it.call };
        let not_kept = |it: NotKept| NotKeptReport { program: it.program, why: it.why.to_string() };
        let wrong = statistics.wrong.len() as u64;
        let contradiction = |it: WrongTrace| ContradictionReport {
            program: it.program,
            call: it.call as u64,
            how: it.how,
        };
        Self {
            hits,
            misses,
            saved_ms: ms(statistics.saved),
            rerun,
            wrong,
            withheld,
            contradictions: statistics.wrong.into_iter().map(contradiction).collect(),
            differences: statistics.differences.into_iter().map(difference).collect(),
            not_kept: statistics.not_kept.into_iter().map(not_kept).collect(),
            not_used: not_used.map(str::to_owned).or(statistics.error),
            remote: None,
        }
    }

    /// Whether the code of no process ran, and there was one.
    pub fn is_all_known(&self) -> bool {
        self.hits > 0 && self.misses == 0 && self.rerun == 0 && self.wrong == 0
    }
}

/// Why the code of a process ran.
#[derive(Serialize, Debug)]
pub struct DifferenceReport {
    /// The program.
    pub program: String,
    /// What differs from an earlier run; `null` if there was none with its arguments.
    pub difference: Option<String>,
}

/// Why the results of a process are not kept.
#[derive(Serialize, Debug)]
pub struct NotKeptReport {
    /// The program.
    pub program: String,
    /// Why, as a sentence without a full stop.
    pub why: String,
}

/// How a process that ran again contradicts what is known of it.
#[derive(Serialize, Debug)]
pub struct ContradictionReport {
    /// The program.
    pub program: String,
    /// The number of its first call that is another one, from 0.
    pub call: u64,
    /// What it did, and what is known.
    pub how: String,
}

/// A path that the program left, and that some systems cannot have.
#[derive(Serialize, Debug)]
pub struct NotPortable {
    /// Relative to the worktree, or absolute in the namespace if it is elsewhere.
    pub path: String,
    /// Why, as a sentence without a full stop.
    pub why: String,
}

/// Real time in milliseconds.
#[derive(Serialize, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "the names of the report carry their unit")]
pub struct Timings {
    /// Reading the module and loading or compiling its code.
    pub load_ms: f64,
    /// Running the guest.
    pub run_ms: f64,
    /// Determining the changes, and writing them.
    pub changes_ms: f64,
}

/// A duration in milliseconds.
pub fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

/// The end of a message about a limit: how to raise it, if that is possible.
pub fn raised_with(limit: Limit) -> String {
    let option = match limit {
        Limit::Memory => "--max-memory",
        Limit::Fuel => "--fuel",
        Limit::Timeout => "--timeout",
        Limit::VirtualTimeout => "--virtual-timeout",
        Limit::OpenFiles => "--max-files",
        Limit::Processes => "--max-processes",
        Limit::Output => "--max-output",
        Limit::Upper => "--max-upper",
        Limit::HostCall => "--max-host-call",
        // It is the host's.
        Limit::Modules => return String::new(),
        Limit::Host => {
            return " (it has too many processes or open files, or too little memory)".to_owned();
        }
        _ => "the library's limits",
    };
    format!(" (raise it with {option})")
}
