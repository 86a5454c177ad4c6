//! The results of actions that a server keeps.

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;

use super::connection::Connection;
use super::{RemoteError, SHA256};

impl Connection {
    /// The result of the action with the digest `action`; `None` if the server has none.
    ///
    /// # Errors
    /// [`RemoteError`] if the server fails.
    pub fn action_result(
        &self,
        action: &api::Digest,
    ) -> Result<Option<api::ActionResult>, RemoteError> {
        self.abilities()?;
        let mut client = api::action_cache_client::ActionCacheClient::new(self.transport());
        let request = api::GetActionResultRequest {
            instance_name: self.instance(),
            action_digest: Some(action.clone()),
            digest_function: SHA256,
            ..api::GetActionResultRequest::default()
        };
        let answer =
            self.ask("GetActionResult", 0, async move { client.get_action_result(request).await })?;
        Ok(answer.map(tonic::Response::into_inner))
    }

    /// Fails if the server takes no results from clients.
    ///
    /// # Errors
    /// [`RemoteError::Wrong`]; others if the server fails.
    pub fn expect_updates(&self) -> Result<(), RemoteError> {
        if self.abilities()?.updates {
            return Ok(());
        }
        Err(self.wrong("UpdateActionResult", "this server takes no results from clients"))
    }

    /// Stores `result` of the action with the digest `action`. The contents that it needs must be there.
    ///
    /// # Errors
    /// [`RemoteError`] if the server fails, or has lost the contents.
    pub fn update_action_result(
        &self,
        action: api::Digest,
        result: api::ActionResult,
    ) -> Result<(), RemoteError> {
        const OPERATION: &str = "UpdateActionResult";
        let mut client = api::action_cache_client::ActionCacheClient::new(self.transport());
        let request = api::UpdateActionResultRequest {
            instance_name: self.instance(),
            action_digest: Some(action),
            action_result: Some(result),
            digest_function: SHA256,
            ..api::UpdateActionResultRequest::default()
        };
        let answer =
            self.ask(OPERATION, 0, async move { client.update_action_result(request).await })?;
        answer.map(|_| ()).ok_or_else(|| self.wrong(OPERATION, "it has lost what was uploaded"))
    }
}
