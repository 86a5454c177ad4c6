//! `ask OPERATION [PARAMETERS]` calls the host, and prints the result: `ask process.exec '{"command": "echo hi"}'`.

use std::process::ExitCode;

use belljar_guest::host;
use serde_json::{Value, json};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (operation, parameters) = match &*args {
        [operation] => (operation, Ok(json!({}))),
        [operation, parameters] => (operation, serde_json::from_str::<Value>(parameters)),
        _ => {
            eprintln!("usage: ask OPERATION [PARAMETERS]");
            return ExitCode::from(2);
        }
    };
    let answer = match parameters {
        Ok(parameters) => host::call(operation, &parameters).map_err(|error| error.to_string()),
        Err(error) => Err(format!("the parameters are no JSON: {error}")),
    };
    match answer {
        Ok(result) => {
            println!("{result}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("ask: {message}");
            ExitCode::FAILURE
        }
    }
}
