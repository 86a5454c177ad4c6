//! Actions that a server executes.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;
use bazel_remote_apis::google::longrunning::operations_client::OperationsClient;
use bazel_remote_apis::google::longrunning::{CancelOperationRequest, Operation, operation};
use prost::Message as _;
use tonic::{Code, Status, Streaming};

use super::connection::{Connection, Transport, is_broken, short};
use super::{RemoteError, SHA256};

/// How often a request is made again that a server could not take or answer.
const AGAIN_MAX: u32 = 4;

/// Real time until the first request is made again; each later one waits twice as long.
const WAIT: Duration = Duration::from_millis(500);

/// How often it is looked whether the run is stopped.
const LOOK: Duration = Duration::from_millis(100);

/// How long a server may tell nothing before it is asked whether it is there.
const SILENT_MAX: Duration = Duration::from_secs(20);

/// Most time for the request to cancel an action.
const CANCEL_MAX: Duration = Duration::from_secs(2);

const OPERATION: &str = "Execute";

/// Where an action is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The server has taken it. Some tell no more.
    Taken,
    /// It waits for a worker.
    Queued,
    /// A worker executes it.
    Executing,
}

enum Event {
    /// Whether the server, when it was asked, said anything in time.
    Answered(bool),
    /// The server's name for the execution.
    Named(String),
    Stage(Stage),
    Ended(Box<Result<api::ExecuteResponse, Status>>),
}

impl Connection {
    /// Has the action with the digest `action` executed, and waits for its result, as long as the server answers; `told` gets
    /// what becomes of it. What it needs must be on the server. With `anew`, it is executed although its result is known.
    /// Once `stopped` says so, the server is asked to cancel it.
    ///
    /// # Errors
    /// [`RemoteError`]: `Refused` if it cannot be executed; `Cancelled`; others if the server fails, or does not answer any
    /// more.
    pub fn execute(
        &self,
        action: api::Digest,
        anew: bool,
        stopped: &dyn Fn() -> bool,
        mut told: impl FnMut(Stage),
    ) -> Result<api::ExecuteResponse, RemoteError> {
        let (sender, events) = mpsc::channel();
        let asked = sender.clone();
        let request = api::ExecuteRequest {
            instance_name: self.instance(),
            action_digest: Some(action),
            skip_cache_lookup: anew,
            digest_function: SHA256,
            ..api::ExecuteRequest::default()
        };
        let transport = self.transport();
        self.start(OPERATION, async move {
            let ended = follow(transport, request, &sender).await;
            // It fails if the caller has stopped waiting.
            let _ = sender.send(Event::Ended(Box::new(ended)));
        })?;
        let (mut name, mut silent, mut is_asked) = (None, Duration::ZERO, false);
        loop {
            let event = events.recv_timeout(LOOK);
            if stopped() {
                if let Some(name) = name {
                    self.cancel(name);
                }
                return Err(RemoteError::Cancelled { address: self.address() });
            }
            if event.is_ok() {
                silent = Duration::ZERO;
            }
            match event {
                Ok(Event::Named(named)) => {
                    if name.replace(named).is_none() {
                        told(Stage::Taken);
                    }
                }
                Ok(Event::Stage(stage)) => told(stage),
                Err(RecvTimeoutError::Timeout) => {
                    silent += LOOK;
                    if silent >= SILENT_MAX && !is_asked {
                        // An action may take its time, and its server must still answer.
                        self.ask_whether_it_is_there(asked.clone())?;
                        is_asked = true;
                    }
                }
                Ok(Event::Answered(true)) => is_asked = false,
                Ok(Event::Answered(false)) => return Err(self.timed_out(OPERATION)),
                Ok(Event::Ended(ended)) => {
                    return match *ended {
                        Ok(response) => self.expect_executed(response),
                        Err(status) => Err(self.failed_with(OPERATION, &status)),
                    };
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.failed(OPERATION, "the thread of requests has ended".into()));
                }
            }
        }
    }

    /// Asks the server something small. That it cannot be reached is told by the stream of operations.
    fn ask_whether_it_is_there(&self, events: mpsc::Sender<Event>) -> Result<(), RemoteError> {
        let (request, timeout) = (self.capabilities_request(), self.timeout());
        self.start(OPERATION, async move {
            let answered = tokio::time::timeout(timeout, request).await.is_ok();
            let _ = events.send(Event::Answered(answered));
        })
    }

    /// Asks the server to cancel the execution `name`, and waits a moment for its answer: without one, nothing is lost but
    /// the worker's time.
    fn cancel(&self, name: String) {
        let mut client = OperationsClient::new(self.transport());
        let (sender, done) = mpsc::channel();
        let started = self.start("CancelOperation", async move {
            let _ = client.cancel_operation(CancelOperationRequest { name }).await;
            let _ = sender.send(());
        });
        if started.is_ok() {
            let _ = done.recv_timeout(CANCEL_MAX);
        }
    }

    fn expect_executed(
        &self,
        response: api::ExecuteResponse,
    ) -> Result<api::ExecuteResponse, RemoteError> {
        match response.status.as_ref().filter(|status| status.code != 0) {
            None => Ok(response),
            Some(status) => Err(RemoteError::Refused {
                address: self.address(),
                code: status.code,
                what: Code::from_i32(status.code).description().to_owned(),
                message: short(&status.message),
            }),
        }
    }
}

/// Follows the execution that `request` asks for to its end.
async fn follow(
    transport: Transport,
    request: api::ExecuteRequest,
    events: &mpsc::Sender<Event>,
) -> Result<api::ExecuteResponse, Status> {
    let mut client = api::execution_client::ExecutionClient::new(transport);
    let mut name: Option<String> = None;
    // Since the server last told something.
    let mut failures = 0;
    loop {
        let operations = match &name {
            None => client.execute(request.clone()).await,
            Some(name) => {
                let request = api::WaitExecutionRequest { name: name.clone() };
                client.wait_execution(request).await
            }
        };
        let failure = match operations {
            Ok(operations) => {
                match read(operations.into_inner(), &mut name, &mut failures, events).await {
                    Ok(answer) => return answer,
                    Err(failure) => failure,
                }
            }
            Err(failure) => failure,
        };
        failures += 1;
        if failures > AGAIN_MAX {
            return Err(failure);
        }
        match failure.code() {
            // The server has lost it, as after a new start.
            Code::NotFound if name.is_some() => name = None,
            Code::Unavailable | Code::Aborted | Code::Cancelled | Code::ResourceExhausted => {}
            _ if is_broken(&failure) => {}
            // A stream that ends before its time.
            Code::Unknown | Code::Internal if name.is_some() => {}
            _ => return Err(failure),
        }
        tokio::time::sleep(WAIT * 2_u32.pow(failures - 1)).await;
    }
}

/// Reads `operations` to the last one, whose answer it returns.
///
/// # Errors
/// The stream broke.
async fn read(
    mut operations: Streaming<Operation>,
    name: &mut Option<String>,
    failures: &mut u32,
    events: &mpsc::Sender<Event>,
) -> Result<Result<api::ExecuteResponse, Status>, Status> {
    while let Some(operation) = operations.message().await? {
        *failures = 0;
        if !operation.name.is_empty() && name.as_ref() != Some(&operation.name) {
            let _ = events.send(Event::Named(operation.name.clone()));
            *name = Some(operation.name);
        }
        if let Some(metadata) = operation.metadata
            && let Ok(metadata) = api::ExecuteOperationMetadata::decode(&*metadata.value)
        {
            use api::execution_stage::Value;
            let stage = match Value::try_from(metadata.stage) {
                Ok(Value::Queued | Value::CacheCheck) => Some(Stage::Queued),
                Ok(Value::Executing) => Some(Stage::Executing),
                _ => None,
            };
            if let Some(stage) = stage {
                let _ = events.send(Event::Stage(stage));
            }
        }
        if operation.done {
            return Ok(match operation.result {
                Some(operation::Result::Response(any)) => api::ExecuteResponse::decode(&*any.value)
                    .map_err(|error| Status::data_loss(error.to_string())),
                Some(operation::Result::Error(status)) => {
                    Err(Status::new(Code::from_i32(status.code), status.message))
                }
                None => Err(Status::data_loss("the operation is done, and has no result")),
            });
        }
    }
    Err(Status::unavailable("the server stopped telling of the action"))
}
