//! Runs a built-in program over a folder, and prints what it would change as a patch that `git apply` takes. Nothing
//! is written to the folder.
//!
//! `cargo run --example run_tool -- FOLDER PROGRAM [ARGS]...`

use std::error::Error;
use std::io::Write;

use belljar::kernel::vfs::{VPath, render_unified_diff};
use belljar::{Command, Engine, EngineConfig, HostDir, Machine, Program, Toolchains};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(folder), Some(name)) = (args.next(), args.next()) else {
        return Err("usage: run_tool FOLDER PROGRAM [ARGS]...".into());
    };
    let engine = Engine::new(EngineConfig::default())?;
    let program = Program::new(&engine, &Toolchains::default().resolve(&name)?.module()?)?;

    let mut machine = Machine::builder().worktree(HostDir::open(folder.as_ref())?).build()?;
    let output = Command::new(&program).args(args).output(&mut machine)?;
    std::io::stderr().write_all(&output.stderr)?;
    if !output.status.success() {
        return Err(format!("{name} ended with {:?}", output.status.code()).into());
    }
    let changes = machine.vfs_mut().diff()?;
    print!("{}", render_unified_diff(&changes, &VPath::root())?);
    Ok(())
}
