//! The shell: snippets with their output and status, which `dash` confirms where it is installed.

mod configure;
mod executable;
mod memory;
mod process;
mod snippets;
mod trees;

use std::sync::{Arc, OnceLock};

use belljar::process::ShellImage;
use belljar::{
    Command, EngineConfig, HostDir, Limits, Machine, MachineBuilder, Output, ToolchainPrograms,
    Toolchains,
};

use crate::support::replays;

/// A machine whose processes may start the shell and the built-in programs.
fn machine() -> MachineBuilder {
    static PROGRAMS: OnceLock<Arc<ToolchainPrograms>> = OnceLock::new();
    let programs = PROGRAMS.get_or_init(|| {
        let config = EngineConfig { pool_slots: 0, ..EngineConfig::default() };
        let engine = belljar::Engine::new(config).unwrap();
        let programs = ToolchainPrograms::new(&engine, Toolchains::default());
        Arc::new(programs.with("sh", ShellImage::maker()))
    });
    Machine::builder().programs(programs.clone())
}

/// The result of `script` in an empty folder.
fn run(script: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let machine = machine().worktree(HostDir::open(folder.path()).unwrap());
    replays::output(machine, &Command::shell(script)).1
}

/// As [`run`], within `limits`.
fn run_within(script: &str, limits: Limits) -> Output {
    replays::output(machine().limits(limits), &Command::shell(script)).1
}

/// What `script` prints.
fn printed(script: &str) -> String {
    String::from_utf8(run(script).stdout).unwrap()
}

/// The standard error of `script`.
fn said(script: &str) -> String {
    String::from_utf8(run(script).stderr).unwrap()
}
