//! The `belljar` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    belljar::cli::main()
}
