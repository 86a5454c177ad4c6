//! What an embedder does for its guests.

use serde::Serialize;
use serde_json::Value;

/// The embedder's side: asked for every call that no mock answers, before what is built in.
///
/// It is asked for one call at a time, on the thread on which the machine runs. It must not run the
/// machine itself.
///
/// ```
/// use belljar::host::{BridgeAnswer, HostBridge};
/// use serde_json::{Value, json};
///
/// struct Clockwork;
///
/// impl HostBridge for Clockwork {
///     fn dispatch(&self, capability: &str, operation: &str, params: &Value) -> BridgeAnswer {
///         match (capability, operation) {
///             ("memory", "embed") => BridgeAnswer::Value(json!([params["text"].as_str().map_or(0, str::len)])),
///             _ => BridgeAnswer::NotMine,
///         }
///     }
/// }
/// ```
pub trait HostBridge: Send + Sync {
    /// Answers the call `capability.operation`, or leaves it to what is built in.
    fn dispatch(&self, capability: &str, operation: &str, params: &Value) -> BridgeAnswer;

    /// The operations that it answers, `CAPABILITY.OPERATION` each: for the manifest.
    fn operations(&self) -> Vec<String> {
        Vec::new()
    }

    /// Its tools.
    ///
    /// # Errors
    /// Why they cannot be listed.
    fn list_tools(&self) -> Result<Vec<HostTool>, String> {
        Ok(Vec::new())
    }

    /// Calls the tool `name`.
    ///
    /// # Errors
    /// What the caller is told: that there is no such tool, or what went wrong.
    fn call_tool(&self, name: &str, args: &Value) -> Result<Value, String> {
        let _ = args;
        Err(format!("there is no tool {name:?}"))
    }
}

/// What a bridge says of a call.
#[derive(Clone, PartialEq, Debug)]
pub enum BridgeAnswer {
    /// Somebody else has to answer it.
    NotMine,
    /// The result.
    Value(Value),
    /// It failed: what the caller is told.
    Error(String),
}

/// A tool of a bridge.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct HostTool {
    /// The name that it is called by.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What it takes, as a JSON schema; `null` if nobody says.
    pub input_schema: Value,
}
