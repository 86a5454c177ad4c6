//! The processes of a tape, as a table for a page.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::shorten;
use crate::tape::{Kind, Phase, Record};

/// Processes that a page lists.
const PROCESSES_MAX: usize = 50_000;

/// Arguments of a process that are kept.
const ARGS_MAX: usize = 60;

/// Bytes of an argument that are kept.
const ARG_BYTES_MAX: usize = 300;

/// Bytes of all texts of all processes that are kept.
const ALL_BYTES_MAX: usize = 16 << 20;

/// A process.
#[derive(Serialize, Default)]
pub struct Process {
    pid: u32,
    /// The place of its parent in the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<usize>,
    program: String,
    args: Vec<String>,
    mode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
    /// The record of its start.
    start: usize,
    start_ms: u64,
    /// The record of its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u32>,
}

/// All processes. A tape can have several runs, each of which numbers its processes from 1.
#[derive(Default)]
pub struct Processes {
    all: Vec<Process>,
    /// The last process with each number.
    by_pid: HashMap<u32, usize>,
    alive: HashSet<usize>,
    bytes: usize,
    /// Processes that are not in the table.
    pub left_out: u64,
}

impl Processes {
    /// Takes note of record number `at`; returns the process that it belongs to, if that is known.
    pub fn note(&mut self, at: usize, record: &Record) -> Option<usize> {
        let now = record.monotonic_ms;
        match &record.kind {
            kind @ Kind::ProcessSpawn { .. } => self.start(at, now, kind),
            Kind::ProcessExit { pid, status, exit_code, .. } => {
                let place = *self.by_pid.get(pid)?;
                self.alive.remove(&place);
                let process = &mut self.all[place];
                (process.end, process.end_ms) = (Some(at), Some(now));
                process.status = Some(shorten::text(status, ARG_BYTES_MAX));
                process.exit_code = *exit_code;
                Some(place)
            }
            kind => match kind.pid().or(record.turn) {
                Some(pid) => self.by_pid.get(&pid).copied(),
                // Older tapes do not tell whose it is, unless there is one alone.
                None if record.phase == Phase::Run && self.alive.len() == 1 => {
                    self.alive.iter().next().copied()
                }
                None => None,
            },
        }
    }

    fn start(&mut self, at: usize, now: u64, kind: &Kind) -> Option<usize> {
        let Kind::ProcessSpawn { pid, parent, program, args, mode, profile, .. } = kind else {
            return None;
        };
        if parent.is_none() {
            self.alive.clear();
        }
        if self.all.len() >= PROCESSES_MAX || self.bytes >= ALL_BYTES_MAX {
            self.left_out += 1;
            self.by_pid.remove(pid);
            return None;
        }
        let place = self.all.len();
        let mut kept = Vec::new();
        for arg in args.iter().take(ARGS_MAX) {
            let arg = shorten::text(arg, ARG_BYTES_MAX);
            self.bytes += arg.len();
            kept.push(arg);
        }
        if kept.len() < args.len() {
            kept.push(format!("… ({} more)", args.len() - kept.len()));
        }
        self.all.push(Process {
            pid: *pid,
            parent: parent.and_then(|parent| self.by_pid.get(&parent).copied()),
            program: shorten::text(program, ARG_BYTES_MAX),
            args: kept,
            mode: shorten::text(mode, ARG_BYTES_MAX),
            profile: profile.as_deref().map(|profile| shorten::text(profile, ARG_BYTES_MAX)),
            start: at,
            start_ms: now,
            ..Process::default()
        });
        let started = &self.all[place];
        self.bytes += started.program.len() + started.mode.len() + ARG_BYTES_MAX;
        self.by_pid.insert(*pid, place);
        self.alive.insert(place);
        Some(place)
    }

    /// The table.
    pub fn into_table(self) -> Vec<Process> {
        self.all
    }
}
