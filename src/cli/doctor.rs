//! `belljar doctor`: tries everything that a run needs.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use super::args::installation::DoctorArgs;
use super::exit;
use super::home::{cache_dir, home_dir, journals_dir};
use super::planted_links::check_here;
use super::self_test::{self, RowResult};
use super::setup::toolchains;
use super::text::{count, printable};
use crate::base::disk::{self, DiskError};
use crate::engine::CodeCache;
use crate::kernel::vfs::Journals;
use crate::net::EgressPolicy;
use crate::{Command, Engine, EngineConfig, HostDir, Machine, Module, Program, Toolchains};

/// One check and its result.
struct Check {
    name: &'static str,
    result: Result<String>,
    advice: &'static str,
}

pub fn run(args: &DoctorArgs) -> Result<u8> {
    if args.self_test {
        return self_test(args);
    }
    Ok(check_all(args))
}

/// Compares runs with those of other systems.
fn self_test(args: &DoctorArgs) -> Result<u8> {
    let tell = |row: &RowResult| {
        if !args.json {
            say!("{}", row.line());
        }
    };
    if let Some(keep) = &args.keep {
        check_here("--keep", keep)?;
    }
    let rows = self_test::run(&args.toolchain, args.keep.as_deref(), tell)?;
    let is_equal = rows.iter().all(RowResult::is_good);
    if args.json {
        let version = env!("CARGO_PKG_VERSION");
        let system = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
        let all = json!({ "version": version, "system": system, "equal": is_equal, "runs": rows });
        say!("{all}");
    } else if !is_equal {
        note!(
            "belljar: note: the same belljar gives other bytes on other systems; please report this with what \
             `belljar doctor --self-test --json --keep DIR` prints and writes"
        );
    }
    Ok(if is_equal { 0 } else { exit::DIFFERENT })
}

fn check_all(args: &DoctorArgs) -> u8 {
    let checks = [
        Check {
            name: "engine",
            result: check_engine(),
            advice: "belljar needs a 64-bit processor and memory that may be made executable",
        },
        Check {
            name: "pool",
            result: check_pool(),
            advice: "raise `ulimit -v`; without a pool programs start more slowly, and run the same otherwise",
        },
        Check {
            name: "cache",
            result: check_cache(),
            advice: "set BELLJAR_CACHE_DIR to a directory of your own; without it each run compiles its modules",
        },
        Check {
            name: "home",
            result: check_home(),
            advice: "set BELLJAR_HOME to a directory of your own that you can write to, for sandboxes and --apply",
        },
        Check {
            name: "journals",
            result: check_journals(),
            advice: "`belljar recover --all` completes or undoes what was being written",
        },
        Check {
            name: "toolchains",
            result: check_toolchains(),
            advice: "check the directories in BELLJAR_TOOLCHAIN",
        },
        Check {
            name: "egress",
            result: check_egress(),
            advice: "set BELLJAR_EGRESS_DEFAULT to deny or allow, and the others to rules separated by commas",
        },
        Check {
            name: "folder",
            result: check_folder(),
            advice: "change to a directory that you can read, or name one with --worktree",
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
    anyhow::ensure!(engine.config().pool_slots > 0, "not enough address space");
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
    Program::from_cache(&engine, &module, unknown)?
        .context("the stored code is not in the cache")?;
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
        if others_read { "; other users can read it (chmod go-rwx prevents that)" } else { "" };
    Ok(format!("{sessions} in {path}{open}"))
}

/// Whether other users can read the directory `dir`.
///
/// # Errors
/// They can write there, or it belongs to another user.
#[cfg(unix)]
fn others_can_read(dir: &Path) -> Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let (metadata, shown) = (disk::metadata(dir)?, dir.display());
    let user = rustix::process::geteuid().as_raw();
    anyhow::ensure!(metadata.uid() == user, "{shown} belongs to another user");
    anyhow::ensure!(metadata.mode() & 0o022 == 0, "other users can write to {shown}");
    Ok(metadata.mode() & 0o055 != 0)
}

/// Modes do not tell access there.
#[cfg(not(unix))]
fn others_can_read(_dir: &Path) -> Result<bool> {
    Ok(false)
}

fn check_journals() -> Result<String> {
    let folders = match Journals::open_existing(&journals_dir()?)? {
        Some(journals) => journals.interrupted()?,
        None => Vec::new(),
    };
    if folders.is_empty() {
        return Ok("no interrupted writes".to_owned());
    }
    let shown: Vec<String> =
        folders.iter().map(|folder| printable(&folder.display().to_string())).collect();
    anyhow::bail!("a belljar was killed while it wrote to {}", shown.join(", "))
}

fn check_toolchains() -> Result<String> {
    let programs = toolchains(&[])?.names()?.len();
    Ok(format!("{}: see `belljar programs`", count(programs, "program")))
}

fn check_egress() -> Result<String> {
    Ok(match EgressPolicy::from_environment()? {
        None => {
            "BELLJAR_EGRESS_* are not set: programs that belljar runs have no network; testbench sessions \
             of the library can reach the public internet"
        }
        Some(_) => "BELLJAR_EGRESS_* apply to programs and sessions without rules of their own",
    }
    .to_owned())
}

fn check_folder() -> Result<String> {
    let dir = HostDir::open(".".as_ref())?;
    let mut machine = Machine::builder().worktree(dir).build()?;
    let id = machine.vfs_mut().open_dir(crate::WORKTREE)?;
    let names = machine.vfs_mut().list(id)?.len();
    Ok(format!("{} in the current directory", count(names, "name")))
}
