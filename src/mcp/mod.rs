//! Rank 10: an MCP server: sandboxes as tools for the agents of MCP clients.
//!
//! Sandboxes, tools and bounds know no protocol: a [`Client`] calls a tool by name with arguments in JSON. [`protocol`] is
//! the only file that knows the library of the protocol, and [`http`] the only one that listens.
//!
//! - A client gets what the [`Policy`] says, and nothing else: see `docs/mcp.md`.
//! - Every quantity that a client drives has a limit: [`Bounds`].
//! - A client that leaves takes its sandboxes with it, and ends what runs in them.
//! - A program that real time ends, or its client, leaves its sandbox as it was: so the tape of a server can be replayed.

mod bounds;
mod budget;
mod call;
mod client;
mod environment;
mod error;
pub mod http;
mod net;
mod outputs;
mod policy;
mod policy_file;
pub mod protocol;
mod replay;
mod secrets;
mod server;
mod tape;
mod text;
mod tools;

pub use bounds::Bounds;
pub use call::{Call, Consent};
pub use client::Client;
pub use environment::{Environment, Loaded, ProgramInfo};
pub use error::{ErrorKind, ToolError};
pub use policy::{Folder, Policy, PolicyError};
pub use replay::{CallDifference, CallReplayError, ReplayedCalls, has_calls, replay};
pub use server::{Server, ServerError};
pub use tape::CallTape;
pub use tools::{Hints, ToolInfo};
