//! `belljar sandbox`: sessions that outlive the command.

mod args;
mod copy;
mod create;
mod exec;
mod show;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use belljar::kernel::programs::Programs;
use belljar::process::ShellImage;
use belljar::sandbox::{SandboxError, SandboxHome, SandboxSpec};
use belljar::{EngineConfig, ToolchainPrograms, Toolchains};
use bytesize::ByteSize;
use serde_json::json;

pub use args::SandboxArgs;
use args::{ForkArgs, GcArgs, RmArgs, SandboxAction, SnapshotArgs};

use super::exit::describe;
use super::progress::Progress;
use super::report::count;
use super::setup::{self, POOL_SLOTS};

/// Under which name a session remembers the folders of its programs.
const TOOLCHAIN: &str = "belljar.toolchain";

/// Does what is asked of sandboxes.
pub fn run(args: &SandboxArgs) -> Result<u8> {
    match &args.action {
        SandboxAction::Create(args) => create::run(args),
        SandboxAction::Exec(args) => exec::run(args),
        SandboxAction::Cp(args) => copy::run(args),
        SandboxAction::Ls(args) => show::ls(args),
        SandboxAction::Diff(args) => show::diff(args),
        SandboxAction::Snapshot(args) => snapshot(args),
        SandboxAction::Fork(args) => fork(args, None),
        SandboxAction::Resume(args) => resume(args),
        SandboxAction::Rm(args) => rm(args),
        SandboxAction::Gc(args) => gc(args),
        SandboxAction::List(args) => show::list(args),
    }
}

/// The sessions of this user.
fn home() -> Result<SandboxHome> {
    let cache_dir = setup::cache_dir()?;
    let programs = move |spec: &SandboxSpec| {
        let dirs = spec.metadata.get(TOOLCHAIN).map_or("[]", String::as_str);
        programs(dirs, spec, cache_dir.clone())
            .map(|programs| Arc::new(programs) as Arc<dyn Programs>)
            .map_err(|error| SandboxError::InvalidRequest {
                field: "toolchain".to_owned(),
                message: format!("{error:#}"),
            })
    };
    Ok(SandboxHome::open(setup::home_dir()?, Box::new(programs))?)
}

fn programs(dirs: &str, spec: &SandboxSpec, cache_dir: PathBuf) -> Result<ToolchainPrograms> {
    let dirs: Vec<PathBuf> = serde_json::from_str(dirs)?;
    let engine = EngineConfig {
        pool_slots: POOL_SLOTS,
        fuel: spec.limits.fuel.is_some(),
        cache_dir: Some(cache_dir),
    };
    let programs = ToolchainPrograms::with_engine_config(engine, Toolchains::new(dirs)?);
    Ok(programs.with("sh", ShellImage::maker()))
}

/// Says that somebody else has the session `id`, until it is dropped.
fn waiting(id: &str) -> Progress {
    Progress::start(format!("waiting for what runs in {id}"), false)
}

fn say_id(id: &str, json: bool) {
    if json {
        say!("{}", json!({ "id": id }));
    } else {
        say!("{id}");
    }
}

fn snapshot(args: &SnapshotArgs) -> Result<u8> {
    let id = home()?.snapshot(&args.id)?;
    say_id(&id.to_string(), args.json);
    Ok(0)
}

fn fork(args: &ForkArgs, fallback: Option<&str>) -> Result<u8> {
    let id = args.id.as_deref().or(fallback);
    say_id(&home()?.fork(&args.from, id)?, args.json);
    Ok(0)
}

/// As a fork, but under the id that the session of the snapshot had.
fn resume(args: &ForkArgs) -> Result<u8> {
    let origin = home()?.origin_of(&args.from)?;
    fork(args, Some(&origin))
}

fn rm(args: &RmArgs) -> Result<u8> {
    let home = home()?;
    let (mut removed, mut failed) = (Vec::new(), None);
    for id in &args.ids {
        match home.remove(id, || waiting(id)) {
            Ok(()) => removed.push(id),
            Err(error) => {
                if let Some(earlier) = failed.replace(error.into()) {
                    note!("belljar: {}", describe(&earlier).1);
                }
            }
        }
    }
    if args.json {
        say!("{}", json!({ "removed": removed }));
    }
    failed.map_or(Ok(0), Err)
}

fn gc(args: &GcArgs) -> Result<u8> {
    let removed = home()?.collect_garbage()?;
    if args.json {
        say!("{}", json!({ "contents": removed.contents, "bytes": removed.bytes }));
    } else {
        let bytes = ByteSize(removed.bytes).display().iec();
        say!("removed {}, {bytes}", count(removed.contents, "content"));
    }
    Ok(0)
}
