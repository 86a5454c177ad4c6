//! The host of one machine: mocks, bridge, policy and built-in operations.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::answers::{self, Answers, Question};
use super::bridge::{HostBridge, HostTool};
use super::capability::{self, Manifest};
use super::error::HostError;
use super::mock::{HostMock, MockCall, Mocks, NoMockScope};
#[cfg(feature = "http")]
use super::net::Net;
use super::net_calls::{NetCalls, is_net_call};
use super::pattern::Commands;
use super::policy::{Blocked, CommandPolicy};
use super::taped::{TapedCall, TapedCalls};
use crate::kernel::host::Start;
use crate::kernel::process::Pid;
use crate::native::SandboxProfile;
#[cfg(feature = "http")]
use crate::net::EgressPolicy;
#[cfg(feature = "http")]
use crate::net::HttpClient;

/// Answers host calls: by the command policy first, then mocks, then the bridge, then built-in
/// operations.
///
/// It belongs to one machine, to which [`crate::MachineBuilder::host`] moves it. Use a
/// [`HostHandle`] to mock and call operations afterwards.
///
/// ```
/// use belljar::Machine;
/// use belljar::host::{HostMock, SessionHost};
/// use serde_json::json;
///
/// let host = SessionHost::default();
/// host.mock("db", "query", HostMock::result(json!([1, 2])).params(json!({ "table": "a" })));
/// let handle = host.handle();
/// let mut machine = Machine::builder().host(host).build()?;
/// assert_eq!(handle.call(&mut machine, "db.query", &json!({ "table": "a", "limit": 2 }))?, json!([1, 2]));
/// assert!(handle.call(&mut machine, "db.query", &json!({ "table": "b" })).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct SessionHost(HostHandle);

/// A handle of a [`SessionHost`]. Clones refer to the same host.
#[derive(Clone, Default)]
pub struct HostHandle(Arc<Shared>);

struct Shared {
    policy: CommandPolicy,
    profile: SandboxProfile,
    answers: Option<Box<dyn Answers>>,
    task: Value,
    checks_taped_starts: bool,
    state: Mutex<State>,
    /// Held for a whole request: processes of a machine take turns anyway.
    #[cfg(feature = "http")]
    net: Mutex<Net>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            policy: CommandPolicy::default(),
            profile: SandboxProfile::Wasi,
            answers: None,
            task: Value::Null,
            checks_taped_starts: false,
            state: Mutex::default(),
            #[cfg(feature = "http")]
            net: Mutex::default(),
        }
    }
}

/// State that calls change.
#[derive(Default)]
pub(super) struct State {
    pub mocks: Mocks,
    pub bridge: Option<Arc<dyn HostBridge>>,
    /// The default shell, if it was set.
    pub shell: Option<String>,
    /// The value of `runtime.set_result`.
    pub result: Option<Value>,
    /// Number of commands so far.
    pub commands: u64,
    /// Running commands, by the first process of each.
    pub running: HashMap<Pid, Running>,
    /// Answers to questions of the policy, by rule and words.
    decisions: HashMap<(usize, Vec<Vec<u8>>), bool>,
    /// Answers to replay.
    taped: Option<TapedCalls>,
    net_calls: Option<Arc<dyn NetCalls>>,
}

/// A running command.
#[derive(Default)]
pub(super) struct Running {
    /// Indices of the approved rules.
    pub approved: Vec<usize>,
    /// Why a start was blocked.
    pub blocked: Option<Blocked>,
}

/// Builds a [`SessionHost`].
#[must_use]
#[derive(Default)]
pub struct SessionHostBuilder(Shared);

impl SessionHostBuilder {
    /// Sets which commands may run. Default: all.
    pub fn policy(mut self, policy: CommandPolicy) -> Self {
        self.0.policy = policy;
        self
    }

    /// Sets what answers questions. Default: nothing, and questions fail.
    pub fn answers(mut self, answers: impl Answers + 'static) -> Self {
        self.0.answers = Some(Box::new(answers));
        self
    }

    /// Sets the confinement of native programs. Default: `wasi`, which allows none, including
    /// native shells.
    pub fn sandbox_profile(mut self, profile: SandboxProfile) -> Self {
        self.0.profile = profile;
        self
    }

    /// Sets the answer of `runtime.task`. Default: `null`.
    pub fn task(mut self, task: impl Into<Value>) -> Self {
        self.0.task = task.into();
        self
    }

    /// Sets the HTTP client for requests of programs: its policy, credentials and limits. Default:
    /// one that allows no host.
    #[cfg(feature = "http")]
    pub fn http(mut self, client: HttpClient) -> Self {
        self.0.net.get_mut().unwrap_or_else(PoisonError::into_inner).client = client;
        self
    }

    /// Sets the egress policy, in place of that of [`SessionHostBuilder::http`].
    #[cfg(feature = "http")]
    pub fn network_policy(mut self, policy: EgressPolicy) -> Self {
        self.0.net.get_mut().unwrap_or_else(PoisonError::into_inner).set_policy(policy);
        self
    }

    /// Sets the bridge, which is asked for calls that no mock answers. Default: none.
    pub fn bridge(mut self, bridge: Arc<dyn HostBridge>) -> Self {
        self.0.state.get_mut().unwrap_or_else(PoisonError::into_inner).bridge = Some(bridge);
        self
    }

    /// Replays answers from a tape. `checks_starts` says whether the recorded run had a policy that
    /// checked starts.
    pub fn taped(mut self, calls: TapedCalls, checks_starts: bool) -> Self {
        self.0.state.get_mut().unwrap_or_else(PoisonError::into_inner).taped = Some(calls);
        self.0.checks_taped_starts = checks_starts;
        self
    }

    /// Builds the host.
    pub fn build(self) -> SessionHost {
        SessionHost(HostHandle(Arc::new(self.0)))
    }
}

impl SessionHost {
    /// A builder of a host without policy, bridge and answers.
    pub fn builder() -> SessionHostBuilder {
        SessionHostBuilder::default()
    }

    /// A handle to keep when the host moves to its machine.
    pub fn handle(&self) -> HostHandle {
        self.0.clone()
    }
}

impl Deref for SessionHost {
    type Target = HostHandle;

    fn deref(&self) -> &HostHandle {
        &self.0
    }
}

impl HostHandle {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // State is consistent between statements, also after a panic.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(feature = "http")]
    pub(super) fn net(&self) -> MutexGuard<'_, Net> {
        self.0.net.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the egress policy of later requests.
    #[cfg(feature = "http")]
    pub fn set_network_policy(&self, policy: EgressPolicy) {
        self.net().set_policy(policy);
    }

    pub(super) fn policy(&self) -> &CommandPolicy {
        &self.0.policy
    }

    pub(super) fn profile(&self) -> SandboxProfile {
        self.0.profile
    }

    pub(super) fn task(&self) -> &Value {
        &self.0.task
    }

    /// Calls the bridge's `tool` for the operation `name`.
    pub(super) fn call_tool(
        &self,
        name: &str,
        tool: &str,
        args: &Value,
    ) -> Result<Value, HostError> {
        let bridge = self.bridge().ok_or_else(|| {
            HostError::failed(name, format!("unknown tool {tool:?}: no bridge is set"))
        })?;
        bridge.call_tool(tool, args).map_err(|message| HostError::bridge(name, message))
    }

    pub(super) fn bridge(&self) -> Option<Arc<dyn HostBridge>> {
        self.state().bridge.clone()
    }

    /// All operations, by capability.
    pub fn capabilities(&self) -> Manifest {
        // Without holding the lock: the bridge may use the host.
        let bridge = self.bridge();
        let bridged = bridge.as_ref().map(|bridge| bridge.operations()).unwrap_or_default();
        capability::manifest(bridge.is_some(), &bridged, self.state().mocks.names())
    }

    /// Whether there is the capability, and the operation if one is given.
    pub fn has(&self, capability: &str, operation: Option<&str>) -> bool {
        let name = match operation {
            Some(operation) => format!("{capability}.{operation}"),
            None => capability.to_owned(),
        };
        capability::has(&self.capabilities(), &name)
    }

    /// Answers calls of `capability.operation` with `mock`, unless a later mock matches.
    pub fn mock(&self, capability: &str, operation: &str, mock: HostMock) {
        self.state().mocks.add(format!("{capability}.{operation}"), mock);
    }

    /// The calls that mocks answered since the innermost scope began: the first 10,000, with at
    /// most 16 MiB of parameters.
    pub fn mock_calls(&self) -> Vec<MockCall> {
        self.state().mocks.calls()
    }

    /// Begins a scope: mocks added from now on are removed at its end.
    pub fn push_mocks(&self) {
        self.state().mocks.push();
    }

    /// Ends the innermost scope.
    ///
    /// # Errors
    /// [`NoMockScope`] if none was begun.
    pub fn pop_mocks(&self) -> Result<(), NoMockScope> {
        self.state().mocks.pop()
    }

    /// Sets the bridge, which is asked for calls that no mock answers.
    pub fn set_bridge(&self, bridge: Arc<dyn HostBridge>) {
        self.state().bridge = Some(bridge);
    }

    /// Removes the bridge.
    pub fn clear_bridge(&self) {
        self.state().bridge = None;
    }

    /// The tools of the bridge; none without a bridge.
    ///
    /// # Errors
    /// [`HostError::Bridge`].
    pub fn tools(&self) -> Result<Vec<HostTool>, HostError> {
        match self.bridge() {
            None => Ok(Vec::new()),
            Some(bridge) => {
                bridge.list_tools().map_err(|message| HostError::bridge("tool.list", message))
            }
        }
    }

    /// Sets what keeps the calls of `net.http`, `net.read` and `net.close` that programs make, or answers them.
    pub fn set_net_calls(&self, calls: Arc<dyn NetCalls>) {
        self.state().net_calls = Some(calls);
    }

    /// What keeps calls of the operation `name`, or answers them.
    pub(super) fn net_calls(&self, name: &str) -> Option<Arc<dyn NetCalls>> {
        if is_net_call(name) { self.state().net_calls.clone() } else { None }
    }

    /// The value that the program set with `runtime.set_result`.
    pub fn result(&self) -> Option<Value> {
        self.state().result.clone()
    }

    /// Asks a question.
    pub(super) fn ask(&self, name: &str, question: &Question) -> Result<String, HostError> {
        answers::ask(name, self.0.answers.as_deref(), question)
    }

    /// Whether answers are replayed.
    pub(super) fn is_taped(&self) -> bool {
        self.state().taped.is_some()
    }

    /// The next recorded call `name` of `pid`; `None` if nothing is replayed.
    pub(super) fn taped(&self, pid: Pid, name: &str) -> Option<Result<TapedCall, HostError>> {
        Some(self.state().taped.as_mut()?.next(pid, name))
    }

    /// Whether starts of programs are checked.
    pub(super) fn looks_at_starts(&self) -> bool {
        self.0.checks_taped_starts || self.policy().checks_starts()
    }

    /// The recorded decision on start `number` of `pid`; `None` if nothing is replayed.
    pub(super) fn taped_start(&self, pid: Pid, number: u32) -> Option<Result<(), String>> {
        let mut state = self.state();
        let blocked = state.taped.as_mut()?.blocked_start(pid, number);
        Some(blocked.map_or(Ok(()), Err))
    }

    /// Asks whether a command with `words`, shown as `text`, may run under rule `index`. An answer
    /// holds for later commands of the same words.
    ///
    /// # Errors
    /// It may not.
    pub(super) fn approve(
        &self,
        index: usize,
        words: Vec<Vec<u8>>,
        text: &str,
    ) -> Result<(), Blocked> {
        let decided = self.state().decisions.get(&(index, words.clone())).copied();
        let mut why = "the answer was not `yes`".to_owned();
        let approved = decided.unwrap_or_else(|| {
            let question = Question {
                question: self.policy().question(index, text),
                choices: vec!["yes".to_owned(), "no".to_owned()],
                default: Some("no".to_owned()),
            };
            let answer = self.ask("process.exec", &question);
            let approved = match &answer {
                Ok(answer) => answer == "yes",
                Err(error) => {
                    why = error.to_string();
                    false
                }
            };
            let mut state = self.state();
            if state.decisions.len() >= DECISIONS_MAX {
                state.decisions.clear();
            }
            state.decisions.insert((index, words), approved);
            approved
        });
        if approved { Ok(()) } else { Err(self.policy().not_approved(index, &why)) }
    }

    /// # Errors
    /// The policy does not allow `start`.
    pub(super) fn check_start(&self, start: &Start<'_>) -> Result<(), Blocked> {
        let policy = self.policy();
        policy.check_dir(start.current_dir)?;
        if !policy.has_rules() {
            return Ok(());
        }
        // Patterns match the program's name, even if `argv[0]` differs.
        let args = start.args.iter().skip(1).map(Vec::as_slice);
        let program = start.program.as_bytes();
        let mut commands = Commands::of_words(std::iter::once(program).chain(args));
        if start.args.first().is_some_and(|name| name != program) {
            commands.extend(Commands::of_words(start.args.iter().map(Vec::as_slice)));
        }
        let verdict = policy.judge(&commands);
        if let Some(blocked) = verdict.blocked {
            return Err(blocked);
        }
        if let Some(unsure) = verdict.unsure.filter(|_| !start.is_watched) {
            return Err(unsure);
        }
        let running = self.state().running.get(&start.group).map(|one| one.approved.clone());
        let approved = running.unwrap_or_default();
        for index in verdict.approvals.into_iter().filter(|index| !approved.contains(index)) {
            let mut words = vec![program.to_vec()];
            words.extend(start.args.iter().cloned());
            let shown: Vec<_> = start.args.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
            self.approve(index, words, &shown.join(" "))?;
        }
        Ok(())
    }
}

/// Limit of remembered answers to questions of the policy.
const DECISIONS_MAX: usize = 1000;
