//! Host calls of a session.

use std::sync::Arc;

use serde_json::{Value, json};

use super::error::TestbenchError;
use super::session::TestbenchSession;
use crate::host::{
    HostBridge, HostError, HostHandle, HostMock, HostTool, Manifest, MockCall, NoMockScope,
};

impl TestbenchSession {
    /// All operations: built-in, of the bridge, and mocked.
    pub fn host_capabilities(&self) -> Manifest {
        self.host.capabilities()
    }

    /// Whether there is the capability, and the operation if one is given.
    pub fn host_has(&self, capability: &str, operation: Option<&str>) -> bool {
        self.host.has(capability, operation)
    }

    /// Makes the host call `name`, such as `process.exec`, as a guest of the session would, and
    /// records it. Commands are programs of the toolchain or built in, and work on the session's
    /// files; programs that both lack are the host's if
    /// [`OnMissing::Native`](crate::native::OnMissing) is set and subprocesses are neither recorded
    /// nor replayed.
    ///
    /// # Errors
    /// [`TestbenchError::Host`]. A command that fails or is blocked is no error.
    pub fn host_call(&mut self, name: &str, params: &Value) -> Result<Value, TestbenchError> {
        let called = self.host.call(&mut self.machine, name, params);
        self.settle()?;
        Ok(called?)
    }

    /// Answers calls of `capability.operation` with `mock`, unless a later mock matches.
    pub fn host_mock(&self, capability: &str, operation: &str, mock: HostMock) {
        self.host.mock(capability, operation, mock);
    }

    /// The calls that mocks answered since the innermost scope began: see
    /// [`HostHandle::mock_calls`].
    pub fn host_mock_calls(&self) -> Vec<MockCall> {
        self.host.mock_calls()
    }

    /// Begins a scope of mocks.
    pub fn host_mock_push(&self) {
        self.host.push_mocks();
    }

    /// Ends the innermost scope, with its mocks and calls.
    ///
    /// # Errors
    /// [`NoMockScope`] if none was begun.
    pub fn host_mock_pop(&self) -> Result<(), NoMockScope> {
        self.host.pop_mocks()
    }

    /// Sets the bridge, which is asked for calls that no mock answers.
    pub fn set_host_bridge(&self, bridge: Arc<dyn HostBridge>) {
        self.host.set_bridge(bridge);
    }

    /// Removes the bridge.
    pub fn clear_host_bridge(&self) {
        self.host.clear_bridge();
    }

    /// The tools of the bridge; none without a bridge.
    ///
    /// # Errors
    /// [`TestbenchError::Host`] if they cannot be listed.
    pub fn host_tool_list(&self) -> Result<Vec<HostTool>, TestbenchError> {
        Ok(self.host.tools()?)
    }

    /// Calls the tool `name` of the bridge. Recorded as `tool.call`.
    ///
    /// # Errors
    /// [`TestbenchError::Host`] if the tool does not exist or fails.
    pub fn host_tool_call(&mut self, name: &str, args: &Value) -> Result<Value, TestbenchError> {
        self.host_call("tool.call", &json!({ "name": name, "args": args }))
    }

    /// A handle of the host.
    pub fn host(&self) -> HostHandle {
        self.host.clone()
    }
}

impl From<HostError> for TestbenchError {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}
