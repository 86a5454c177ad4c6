//! `pipeline PROGRAM [ARG]... [, PROGRAM [ARG]...]...` connects programs by pipes, and ends as the last of them did:
//! `pipeline seq 100 , grep 7 , wc -l`.

use std::io;

use belljar_guest::process::{Child, Command, ExitStatus, Stdio, exit};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let commands: Vec<&[String]> = args.split(|arg| arg == ",").collect();
    if commands.iter().any(|command| command.is_empty()) {
        eprintln!("usage: pipeline PROGRAM [ARG]... [, PROGRAM [ARG]...]...");
        exit(2);
    }
    let mut children: Vec<Child> = Vec::new();
    for (index, words) in commands.iter().enumerate() {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        if let Some(stdout) = children.last_mut().and_then(|child| child.stdout.take()) {
            command.stdin(stdout);
        }
        if index + 1 < commands.len() {
            command.stdout(Stdio::piped());
        }
        match command.spawn() {
            Ok(child) => children.push(child),
            Err(error) => {
                eprintln!("pipeline: {}: {error}", words[0]);
                exit(127);
            }
        }
    }
    let ends: io::Result<Vec<ExitStatus>> = children.iter_mut().map(Child::wait).collect();
    match ends {
        // There is at least one.
        Ok(ends) => exit(ends.last().and_then(ExitStatus::code).unwrap_or(1)),
        Err(error) => {
            eprintln!("pipeline: {error}");
            exit(1);
        }
    }
}
