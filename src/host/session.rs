//! A host: mocks, bridge, policy and what is built in, for one machine.

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

/// Answers calls by name: the command policy first, then mocks, then the bridge, then what is built in.
///
/// It belongs to one machine, to which [`crate::MachineBuilder::host`] moves it. A [`HostHandle`] of it
/// mocks operations and calls them.
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

/// A handle of a [`SessionHost`]. Clones are handles of the same host.
#[derive(Clone, Default)]
pub struct HostHandle(Arc<Shared>);

struct Shared {
    policy: CommandPolicy,
    profile: SandboxProfile,
    answers: Option<Box<dyn Answers>>,
    task: Value,
    checks_taped_starts: bool,
    state: Mutex<State>,
    /// Locked for as long as a request takes: processes of a machine take turns anyway.
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

/// What changes while calls are made.
#[derive(Default)]
pub(super) struct State {
    pub mocks: Mocks,
    pub bridge: Option<Arc<dyn HostBridge>>,
    /// The shell that was set.
    pub shell: Option<String>,
    /// What the program says that it has come to.
    pub result: Option<Value>,
    /// Commands so far.
    pub commands: u64,
    /// Commands that are going on, by the first process of each.
    pub running: HashMap<Pid, Running>,
    /// What was answered to questions of the policy: by rule and words.
    decisions: HashMap<(usize, Vec<Vec<u8>>), bool>,
    /// Answers that are played back.
    taped: Option<TapedCalls>,
}

/// A command that is going on.
#[derive(Default)]
pub(super) struct Running {
    /// Rules that want to be asked for, and were.
    pub approved: Vec<usize>,
    /// Why something that it wanted to start did not.
    pub blocked: Option<Blocked>,
}

/// Puts a [`SessionHost`] together.
#[must_use]
#[derive(Default)]
pub struct SessionHostBuilder(Shared);

impl SessionHostBuilder {
    /// Which commands may run. Default: all.
    pub fn policy(mut self, policy: CommandPolicy) -> Self {
        self.0.policy = policy;
        self
    }

    /// Who answers questions. Default: nobody.
    pub fn answers(mut self, answers: impl Answers + 'static) -> Self {
        self.0.answers = Some(Box::new(answers));
        self
    }

    /// What programs of the host are confined to, where the machine runs any. Default: none are run,
    /// no shell of the host either.
    pub fn sandbox_profile(mut self, profile: SandboxProfile) -> Self {
        self.0.profile = profile;
        self
    }

    /// What `runtime.task` answers. Default: `null`.
    pub fn task(mut self, task: impl Into<Value>) -> Self {
        self.0.task = task.into();
        self
    }

    /// Who makes requests for programs: under which policy, with which credentials, within which
    /// limits. Default: one that may reach nobody.
    #[cfg(feature = "http")]
    pub fn http(mut self, client: HttpClient) -> Self {
        self.0.net.get_mut().unwrap_or_else(PoisonError::into_inner).client = client;
        self
    }

    /// Whom programs may reach, in place of what the policy of [`SessionHostBuilder::http`] says.
    #[cfg(feature = "http")]
    pub fn network_policy(mut self, policy: EgressPolicy) -> Self {
        self.0.net.get_mut().unwrap_or_else(PoisonError::into_inner).set_policy(policy);
        self
    }

    /// Who is asked for calls that no mock answers. Default: nobody.
    pub fn bridge(mut self, bridge: Arc<dyn HostBridge>) -> Self {
        self.0.state.get_mut().unwrap_or_else(PoisonError::into_inner).bridge = Some(bridge);
        self
    }

    /// Answers from a tape: who answered then is not asked. `checks_starts` says whether a policy was
    /// asked at each start of a program.
    pub fn taped(mut self, calls: TapedCalls, checks_starts: bool) -> Self {
        self.0.state.get_mut().unwrap_or_else(PoisonError::into_inner).taped = Some(calls);
        self.0.checks_taped_starts = checks_starts;
        self
    }

    /// The host.
    pub fn build(self) -> SessionHost {
        SessionHost(HostHandle(Arc::new(self.0)))
    }
}

impl SessionHost {
    /// A builder of a host without policy, bridge and answers.
    pub fn builder() -> SessionHostBuilder {
        SessionHostBuilder::default()
    }

    /// A handle, to keep when the host moves to its machine.
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
        // It is whole between statements, whoever panicked.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(feature = "http")]
    pub(super) fn net(&self) -> MutexGuard<'_, Net> {
        self.0.net.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets whom programs may reach from now on.
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

    /// What the tool `tool` of the bridge answers to the operation `name`.
    pub(super) fn call_tool(
        &self,
        name: &str,
        tool: &str,
        args: &Value,
    ) -> Result<Value, HostError> {
        let bridge = self.bridge().ok_or_else(|| {
            HostError::failed(name, format!("there is no tool {tool:?}: no bridge is set"))
        })?;
        bridge.call_tool(tool, args).map_err(|message| HostError::bridge(name, message))
    }

    pub(super) fn bridge(&self) -> Option<Arc<dyn HostBridge>> {
        self.state().bridge.clone()
    }

    /// Everything that can be asked for.
    pub fn capabilities(&self) -> Manifest {
        // The bridge is asked without a lock: it may ask in turn.
        let bridge = self.bridge();
        let bridged = bridge.as_ref().map(|bridge| bridge.operations()).unwrap_or_default();
        capability::manifest(bridge.is_some(), &bridged, self.state().mocks.names())
    }

    /// Whether there is the capability, and the operation if one is named.
    pub fn has(&self, capability: &str, operation: Option<&str>) -> bool {
        let name = match operation {
            Some(operation) => format!("{capability}.{operation}"),
            None => capability.to_owned(),
        };
        capability::has(&self.capabilities(), &name)
    }

    /// Answers calls of `capability.operation` with `mock`, unless a later one is for them.
    pub fn mock(&self, capability: &str, operation: &str, mock: HostMock) {
        self.state().mocks.add(format!("{capability}.{operation}"), mock);
    }

    /// The calls that mocks have answered since the innermost scope began: the first 10,000 of them, as
    /// long as their parameters have 16 MiB together.
    pub fn mock_calls(&self) -> Vec<MockCall> {
        self.state().mocks.calls()
    }

    /// Begins a scope: what is mocked from now on is forgotten with it.
    pub fn push_mocks(&self) {
        self.state().mocks.push();
    }

    /// Ends the innermost scope.
    ///
    /// # Errors
    /// [`NoMockScope`]: none was begun.
    pub fn pop_mocks(&self) -> Result<(), NoMockScope> {
        self.state().mocks.pop()
    }

    /// Forgets all mocks, their calls and their scopes.
    pub fn clear_mocks(&self) {
        self.state().mocks.clear();
    }

    /// Sets who is asked for calls that no mock answers.
    pub fn set_bridge(&self, bridge: Arc<dyn HostBridge>) {
        self.state().bridge = Some(bridge);
    }

    /// Takes the bridge away.
    pub fn clear_bridge(&self) {
        self.state().bridge = None;
    }

    /// The tools of the bridge; none without one.
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

    /// What the program has set with `runtime.set_result`.
    pub fn result(&self) -> Option<Value> {
        self.state().result.clone()
    }

    /// Asks whoever answers questions.
    pub(super) fn ask(&self, name: &str, question: &Question) -> Result<String, HostError> {
        answers::ask(name, self.0.answers.as_deref(), question)
    }

    /// Whether answers are played back: who answered them knew what there was.
    pub(super) fn is_taped(&self) -> bool {
        self.state().taped.is_some()
    }

    /// What the tape says of the call `name` that `pid` makes; `None` if nothing is played back.
    pub(super) fn taped(&self, pid: Pid, name: &str) -> Option<Result<TapedCall, HostError>> {
        Some(self.state().taped.as_mut()?.next(pid, name))
    }

    /// Whether programs are asked about before they start something.
    pub(super) fn looks_at_starts(&self) -> bool {
        self.0.checks_taped_starts || self.policy().checks_starts()
    }

    /// What the tape says of a start, the `number`th of `pid`: why it was blocked, if it was; `None` if
    /// nothing is played back.
    pub(super) fn taped_start(&self, pid: Pid, number: u32) -> Option<Result<(), String>> {
        let mut state = self.state();
        let blocked = state.taped.as_mut()?.blocked_start(pid, number);
        Some(blocked.map_or(Ok(()), Err))
    }

    /// Asks whether a command with `words`, shown as `text`, may run although the rule `index` wants
    /// to be asked for. What was answered once holds for the same words.
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
    /// The policy does not let `start` happen.
    pub(super) fn check_start(&self, start: &Start<'_>) -> Result<(), Blocked> {
        let policy = self.policy();
        policy.check_dir(start.current_dir)?;
        if !policy.has_rules() {
            return Ok(());
        }
        // It is called what it says, whatever its arguments call it.
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

/// Answers to questions of the policy that are remembered.
const DECISIONS_MAX: usize = 1000;
