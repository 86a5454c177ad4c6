//! The bridge: operations that an embedder implements.

use serde::Serialize;
use serde_json::Value;

/// Implements operations of an embedder. Asked for every call that no mock answers, before built-in
/// operations.
///
/// It is called on the thread that runs the machine, one call at a time. It must not run the
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
    /// Answers the call `capability.operation`, or returns [`BridgeAnswer::NotMine`].
    fn dispatch(&self, capability: &str, operation: &str, params: &Value) -> BridgeAnswer;

    /// The operations that it answers, as `CAPABILITY.OPERATION`, for the manifest.
    fn operations(&self) -> Vec<String> {
        Vec::new()
    }

    /// Lists its tools.
    ///
    /// # Errors
    /// Why they cannot be listed.
    fn list_tools(&self) -> Result<Vec<HostTool>, String> {
        Ok(Vec::new())
    }

    /// Calls the tool `name`.
    ///
    /// # Errors
    /// Why the call failed, for the caller.
    fn call_tool(&self, name: &str, args: &Value) -> Result<Value, String> {
        let _ = args;
        Err(format!("unknown tool {name:?}"))
    }
}

/// The answer of a bridge to a call.
#[derive(Clone, PartialEq, Debug)]
pub enum BridgeAnswer {
    /// The bridge does not implement the operation.
    NotMine,
    /// The result of the call.
    Value(Value),
    /// The call failed; the message is for the caller.
    Error(String),
}

/// A tool of a bridge.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct HostTool {
    /// The name.
    pub name: String,
    /// What the tool does.
    pub description: String,
    /// The JSON schema of its arguments; `null` if unknown.
    pub input_schema: Value,
}
