//! Records a built-in program over a folder on a tape, and runs it again from the tape alone.
//!
//! `cargo run --example record_replay -- FOLDER TAPE PROGRAM [ARGS]...`

use std::error::Error;
use std::path::Path;

use belljar::tape::{FileTape, Header, Recorder, Redaction};
use belljar::testbench::replay;
use belljar::{Command, Engine, EngineConfig, HostDir, Limits, Machine, Program, Toolchains};

/// Longest tape, contents included.
const TAPE_BYTES_MAX: u64 = 64 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(folder), Some(tape), Some(name)) = (args.next(), args.next(), args.next()) else {
        return Err("usage: record_replay FOLDER TAPE PROGRAM [ARGS]...".into());
    };
    let tape = Path::new(&tape);
    let engine = Engine::new(EngineConfig::default())?;
    let module = Toolchains::default().resolve(&name)?.module()?;
    let program = Program::new(&engine, &module)?;

    let file = FileTape::create(tape, &Header::new(0), TAPE_BYTES_MAX)?;
    let recorder = Recorder::new(file, Redaction::default());
    let worktree = HostDir::open(folder.as_ref())?;
    let mut machine = Machine::builder().worktree(worktree).tape(recorder.clone()).build()?;
    let first = Command::new(&program).args(args).output(&mut machine)?;
    drop(machine);
    recorder.finish()?;

    // The folder is not accessed any more: the tape has what the program has seen of it.
    let replayed = replay(&engine, tape, &Limits::default(), |_, _| Ok(module.clone()))?;
    let output = replayed.outputs.into_iter().next().ok_or("the tape has no process")??;
    assert_eq!((&output.stdout, output.status.code()), (&first.stdout, first.status.code()));
    print!("{}", String::from_utf8_lossy(&output.stdout));
    println!("the same in {} records", replayed.records);
    Ok(())
}
