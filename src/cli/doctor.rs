//! `belljar doctor`: tries everything that a run needs.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use super::args::installation::DoctorArgs;
use super::exit;
use super::home::{cache_dir, home_dir, journals_dir};
use super::setup::toolchains;
use super::text::{count, printable};
use crate::base::disk::{self, DiskError};
use crate::engine::CodeCache;
use crate::kernel::vfs::Journals;
use crate::net::EgressPolicy;
use crate::{Command, Engine, EngineConfig, HostDir, Machine, Module, Program, Toolchains};

/// One thing that was tried.
struct Check {
    name: &'static str,
    result: Result<String>,
    advice: &'static str,
}

pub fn run(args: &DoctorArgs) -> u8 {
    let checks = [
        Check {
            name: "engine",
            result: check_engine(),
            advice: "belljar needs a 64-bit processor and memory that may be made executable",
        },
        Check {
            name: "pool",
            result: check_pool(),
            advice: "programs start more slowly without one, and do all else the same: raise `ulimit -v`",
        },
        Check {
            name: "cache",
            result: check_cache(),
            advice: "set BELLJAR_CACHE_DIR to a folder that is yours alone; without, modules are compiled anew",
        },
        Check {
            name: "home",
            result: check_home(),
            advice: "set BELLJAR_HOME to a folder that is yours alone and that you can write to; without it there are no sandboxes, and nothing is applied",
        },
        Check {
            name: "journals",
            result: check_journals(),
            advice: "if no belljar runs, `belljar recover --all` takes back or finishes what was being written",
        },
        Check {
            name: "toolchains",
            result: check_toolchains(),
            advice: "check the folders in BELLJAR_TOOLCHAIN",
        },
        Check {
            name: "egress",
            result: check_egress(),
            advice: "set BELLJAR_EGRESS_DEFAULT to deny or allow, and BELLJAR_EGRESS_ALLOW and BELLJAR_EGRESS_DENY to rules with commas between them",
        },
        Check {
            name: "folder",
            result: check_folder(),
            advice: "go to a folder that you can read, or name one with --worktree",
        },
    ];
    let healthy = checks.iter().all(|check| check.result.is_ok());
    if args.json {
        let list: Vec<_> = checks.iter().map(to_json).collect();
        say!(
            "{}",
            json!({ "version": env!("CARGO_PKG_VERSION"), "healthy": healthy, "checks": list })
        );
    } else {
        for check in &checks {
            match &check.result {
                Ok(found) => say!("ok      {:10}  {found}", check.name),
                Err(error) => {
                    say!(
                        "FAILED  {:10}  {error:#}\n                    {}",
                        check.name,
                        check.advice
                    );
                }
            }
        }
    }
    if healthy { 0 } else { exit::FAILED }
}

fn to_json(check: &Check) -> serde_json::Value {
    match &check.result {
        Ok(found) => json!({ "name": check.name, "ok": true, "found": found }),
        Err(error) => {
            json!({ "name": check.name, "ok": false, "error": format!("{error:#}"), "advice": check.advice })
        }
    }
}

fn check_engine() -> Result<String> {
    let engine = Engine::new(EngineConfig { pool_slots: 0, ..EngineConfig::default() })?;
    let text = br#"(module (memory (export "memory") 1) (func (export "_start")))"#;
    let program = Program::new(&engine, &Module::from_bytes("check", text.to_vec())?)?;
    let output = Command::new(&program).output(&mut Machine::builder().build()?)?;
    anyhow::ensure!(output.status.success(), "an empty program failed: {:?}", output.status);
    Ok(format!("compiles and runs for {}-{}", std::env::consts::ARCH, std::env::consts::OS))
}

fn check_pool() -> Result<String> {
    let engine = Engine::new(EngineConfig::default())?;
    anyhow::ensure!(engine.config().pool_slots > 0, "too little address space for one");
    Ok("address space for 1000 processes".to_owned())
}

fn check_cache() -> Result<String> {
    let dir = cache_dir()?;
    let config =
        EngineConfig { pool_slots: 0, cache_dir: Some(dir.clone()), ..EngineConfig::default() };
    let engine = Engine::new(config)?;
    let module = Toolchains::default().resolve("cat")?.module()?;
    let unknown = crate::UnknownImports::Deny;
    let (_, used) = Program::compile(&engine, &module, unknown)?;
    if let crate::engine::CacheUse::Failed(error) = used {
        return Err(error.into());
    }
    Program::from_cache(&engine, &module, unknown)?.context("what was stored is not there")?;
    let info = CodeCache::new(&dir).info()?;
    Ok(format!("{} in {}", count(info.entries as usize, "module"), info.path.display()))
}

fn check_home() -> Result<String> {
    let dir = home_dir()?;
    disk::create_private_dir_all(&dir)?;
    let others_read = others_can_read(&dir)?;
    let probe = tempfile::Builder::new().prefix(".belljar-doctor-").tempfile_in(&dir);
    probe.map_err(DiskError::new("write to", &dir))?;
    let sessions = dir.join("sessions");
    let sessions =
        if disk::metadata(&sessions).is_ok() { disk::list(&sessions)? } else { Vec::new() };
    let is_session = |path: &&std::path::PathBuf| path.extension().is_some_and(|it| it == "json");
    let sessions = count(sessions.iter().filter(is_session).count(), "session");
    let path = printable(&dir.display().to_string());
    let open =
        if others_read { "; other users can read it (chmod go-rwx forbids that)" } else { "" };
    Ok(format!("{sessions} in {path}{open}"))
}

/// Whether others than its user can look into the folder `dir`.
///
/// # Errors
/// They can write there, or it is somebody else's.
#[cfg(unix)]
fn others_can_read(dir: &Path) -> Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let (metadata, shown) = (disk::metadata(dir)?, dir.display());
    let user = rustix::process::geteuid().as_raw();
    anyhow::ensure!(metadata.uid() == user, "{shown} belongs to another user");
    anyhow::ensure!(metadata.mode() & 0o022 == 0, "other users can write to {shown}");
    Ok(metadata.mode() & 0o055 != 0)
}

/// Access is not told by modes there.
#[cfg(not(unix))]
fn others_can_read(_dir: &Path) -> Result<bool> {
    Ok(false)
}

fn check_journals() -> Result<String> {
    let folders = match Journals::open_existing(&journals_dir()?)? {
        Some(journals) => journals.folders()?,
        None => Vec::new(),
    };
    if folders.is_empty() {
        return Ok("no folder is half written".to_owned());
    }
    let shown: Vec<String> =
        folders.iter().map(|folder| printable(&folder.display().to_string())).collect();
    anyhow::bail!("a belljar is writing to {}, or was when it was killed", shown.join(", "))
}

fn check_toolchains() -> Result<String> {
    let programs = toolchains(&[])?.names()?.len();
    Ok(format!("{}: see `belljar programs`", count(programs, "program")))
}

fn check_egress() -> Result<String> {
    Ok(match EgressPolicy::from_environment()? {
        None => {
            "BELLJAR_EGRESS_* are not set: programs that belljar runs reach nobody; testbench sessions \
             of the library reach the public internet"
        }
        Some(_) => "BELLJAR_EGRESS_* say whom programs and sessions without rules of their own reach",
    }
    .to_owned())
}

fn check_folder() -> Result<String> {
    let dir = HostDir::open(".".as_ref())?;
    let mut machine = Machine::builder().worktree(dir).build()?;
    let id = machine.vfs_mut().open_dir(crate::WORKTREE)?;
    let names = machine.vfs_mut().list(id)?.len();
    Ok(format!("{} in the current folder", count(names, "name")))
}
