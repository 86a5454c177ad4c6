//! `belljar mcp`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::groups::CompileArgs;
use super::values::size;

/// The port of `--http` without an address.
const DEFAULT_HTTP: &str = "127.0.0.1:8377";

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar mcp
      serves the client that started it, on standard input and output
  belljar mcp --policy policy.json --tape agent.tape
      lets the client have what policy.json says, and records each call
  belljar mcp --http --token-file token
      serves clients of this machine that send the token, at http://127.0.0.1:8377/mcp
  belljar replay agent.tape
      makes the recorded calls again, and stops at the first answer that differs

The configuration of a client that starts it:
  {\"mcpServers\": {\"belljar\": {\"command\": \"belljar\", \"args\": [\"mcp\"]}}}

A policy that lets a client work on a folder, and write to it once the user has agreed:
  {\"version\": 1, \"folders\": [{\"name\": \"a\", \"path\": \".\", \"apply\": true}]}

Without a policy, a client gets the programs of the installed toolchains, in sandboxes in memory: no folder of this machine, \
no network, no programs of this machine. docs/mcp.md describes tools, policies and limits.")]
pub struct McpArgs {
    /// What clients get: folders, toolchains, hosts, limits
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,

    /// Serve over HTTP at this address of this machine, in place of standard input and output; port 0 is any free one
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = DEFAULT_HTTP, requires = "token_file", help_heading = "HTTP")]
    pub http: Option<SocketAddr>,

    /// The file with the token that clients must send; it is made, with a new token, if it is not there
    #[arg(long, value_name = "FILE", requires = "http", help_heading = "HTTP")]
    pub token_file: Option<PathBuf>,

    /// Record each call on a tape, which is complete when the server ends
    #[arg(long, value_name = "FILE", help_heading = "Tape")]
    pub tape: Option<PathBuf>,

    /// Bytes of the tape and its contents together
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size, help_heading = "Tape")]
    pub max_tape: u64,

    /// A directory in which NAME.wasm is the program NAME; may be repeated
    #[arg(long, value_name = "DIR")]
    pub toolchain: Vec<PathBuf>,

    #[command(flatten)]
    pub compile: CompileArgs,
}
