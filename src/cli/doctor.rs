//! `belljar doctor`: tries everything that a run needs.

use anyhow::{Context, Result};
use belljar::engine::CodeCache;
use belljar::kernel::egress::EgressPolicy;
use belljar::{Command, Engine, EngineConfig, HostDir, Machine, Module, Program, Toolchains};
use serde_json::json;

use super::args::DoctorArgs;
use super::exit;
use super::report::count;
use super::setup::{cache_dir, toolchains};

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
            advice: "the library's pool reserves address space: raise `ulimit -v`; `belljar run` does without",
        },
        Check {
            name: "cache",
            result: check_cache(),
            advice: "set BELLJAR_CACHE_DIR to a folder that is yours alone; without, modules are compiled anew",
        },
        Check {
            name: "toolchains",
            result: check_toolchains(),
            advice: "check the folders in BELLJAR_TOOLCHAIN",
        },
        Check {
            name: "egress",
            result: check_egress(),
            advice: "set BELLJAR_EGRESS_DEFAULT to deny or allow, _ALLOW and _DENY to rules with commas between them",
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
    Engine::new(EngineConfig::default())?;
    Ok("address space for 1000 processes".to_owned())
}

fn check_cache() -> Result<String> {
    let dir = cache_dir()?;
    let config =
        EngineConfig { pool_slots: 0, cache_dir: Some(dir.clone()), ..EngineConfig::default() };
    let engine = Engine::new(config)?;
    let module = Toolchains::default().resolve("cat")?.module()?;
    let unknown = belljar::UnknownImports::Deny;
    let (_, used) = Program::compile(&engine, &module, unknown)?;
    if let belljar::engine::CacheUse::Failed(error) = used {
        return Err(error.into());
    }
    Program::from_cache(&engine, &module, unknown)?.context("what was stored is not there")?;
    let info = CodeCache::new(&dir).info()?;
    Ok(format!("{} in {}", count(info.entries as usize, "module"), info.path.display()))
}

fn check_toolchains() -> Result<String> {
    let programs = toolchains(&[])?.names()?.len();
    Ok(format!("{}: see `belljar programs`", count(programs, "program")))
}

fn check_egress() -> Result<String> {
    Ok(match EgressPolicy::from_environment()? {
        None => {
            "BELLJAR_EGRESS_* are not set: testbench sessions reach the public internet, programs of \
             this command nobody"
        }
        Some(_) => "BELLJAR_EGRESS_* say what sessions without rules of their own reach",
    }
    .to_owned())
}

fn check_folder() -> Result<String> {
    let dir = HostDir::open(".".as_ref())?;
    let mut machine = Machine::builder().worktree(dir).build()?;
    let id = machine.vfs_mut().open_dir(belljar::WORKTREE)?;
    let names = machine.vfs_mut().list(id)?.len();
    Ok(format!("{} in the current folder", count(names, "name")))
}
