//! Operations that programs ask of their host: in sessions, from guests, on tapes, and blocked by the command policy.

mod calls;
mod exec;
#[cfg(feature = "http")]
mod net;
mod policy;
mod taped;

use std::path::Path;

use belljar::host::CommandPolicy;
use belljar::native::OnMissing;
use belljar::testbench::{Testbench, TestbenchBuilder, TestbenchSession};
use serde_json::{Value, json};

use crate::support::{engine, package};

/// A session on a paused clock, over `folder`, with the example programs and no programs of the host.
fn bench(folder: &Path) -> TestbenchBuilder {
    Testbench::builder()
        .paused_clock_at_ms(0)
        .fs_overlay(folder)
        .wasi_toolchain(package().join("guest-examples"))
        .on_missing(OnMissing::Deny)
        .engine(engine())
}

fn session(folder: &Path) -> TestbenchSession {
    bench(folder).build().activate().unwrap()
}

fn exec(session: &mut TestbenchSession, params: &Value) -> Value {
    session.host_call("process.exec", params).unwrap()
}

/// The result of `command` in a shell.
fn shell(session: &mut TestbenchSession, command: &str) -> Value {
    exec(session, &json!({ "command": command }))
}

fn error(session: &mut TestbenchSession, name: &str, params: &Value) -> String {
    session.host_call(name, params).unwrap_err().to_string()
}

fn policy(text: &str) -> CommandPolicy {
    CommandPolicy::from_json("policy.json", text).unwrap()
}
