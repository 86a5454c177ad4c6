//! A host call as a process: finds who answers it, and records the answer.

use serde::Deserialize;
use serde_json::{Value, json};

use super::answers;
use super::bridge::BridgeAnswer;
use super::caller::{Begun, Caller};
use super::error::{HostError, answer, parse_answer};
use super::exec::{Approval, EXEC, Exec};
use super::exec_result;
use super::io::{self, Done, Halt};
use super::json;
#[cfg(feature = "http")]
use super::net::Asked;
use super::net_calls::NetCall;
use super::policy::Blocked;
use super::reply::CallReply;
use super::session::HostHandle;
use super::shells::no_params;
use super::taped::TapedCall;
#[cfg(feature = "templates")]
use super::template;
use crate::kernel::guest::{Guest, HostRecord};
use crate::kernel::host::{HostCall, HostReply};
use crate::kernel::machine::clock::ClockId;
use crate::kernel::machine::limits::Stop;
use crate::kernel::process::schedule::{Ended, Image, Mode, Running};

/// The process that makes a call.
pub(super) struct CallImage {
    pub host: HostHandle,
    pub call: HostCall,
    /// Where a guest gets the answer.
    pub reply: HostReply,
    /// Where host code gets the answer.
    pub result: Option<CallReply>,
}

impl Image for CallImage {
    fn name(&self) -> &str {
        &self.call.name
    }

    fn mode(&self) -> Mode {
        Mode::Host
    }

    fn start(self: Box<Self>, guest: Guest) -> Running {
        Box::pin(self.process(guest))
    }
}

/// Who answered a call, as named on tapes.
const BY_POLICY: &str = "policy";
const BY_MOCK: &str = "mock";
const BY_BRIDGE: &str = "bridge";
/// Something outside of the machine.
const BY_HOST: &str = "host";
/// A built-in operation that depends on the machine only.
const BY_BUILTIN: &str = "builtin";

/// Built-in operations whose answers depend on something outside of the machine.
const ASK_OUTSIDE: [&str; 11] = [
    "host.capabilities",
    "interaction.ask",
    "net.close",
    "net.http",
    "net.read",
    "process.list_shells",
    SET_SHELL,
    "process.shell_invocation",
    "runtime.task",
    "tool.call",
    "tool.list",
];

/// Changes the default shell.
const SET_SHELL: &str = "process.set_default_shell";

/// An answer and its origin.
struct Answered {
    result: Result<Value, HostError>,
    by: &'static str,
    done_as: Option<Value>,
    amended: bool,
    /// The recorded answer, if it replaces the repeated one.
    taped: Option<TapedCall>,
}

impl Answered {
    fn by(by: &'static str, result: Result<Value, HostError>) -> Self {
        Self { result, by, done_as: None, amended: false, taped: None }
    }

    /// What [`NetCalls::answer`](super::NetCalls::answer) answers to the operation `name`.
    fn kept(name: &str, kept: Result<String, String>) -> Self {
        match kept {
            Err(why) => Self::by(BY_HOST, Err(HostError::failed(name, why))),
            Ok(answer) => {
                let answered_by = BY_HOST.to_owned();
                let taped = TapedCall { answer, answered_by, ..TapedCall::default() };
                Self { taped: Some(taped), ..Self::by(BY_HOST, Ok(Value::Null)) }
            }
        }
    }
}

impl CallImage {
    async fn process(self: Box<Self>, mut guest: Guest) -> Ended {
        if let Err(stop) = guest.begin() {
            return Ended { guest, outcome: Ok(stop.into()) };
        }
        let Self { host, call, reply, result } = *self;
        let mut caller = Caller { host, guest, depth: call.depth, begun: None };
        let stop = match caller.answer(&call).await {
            Err(stop) => {
                caller.record_ended(&call);
                stop
            }
            Ok(answered) => {
                let json = caller.record(&call, &answered);
                if let Some(result) = result {
                    let Answered { taped, result: anew, .. } = answered;
                    let taped = taped.map(|taped| parse_answer(&call.name, &taped.answer));
                    result.put(taped.unwrap_or(anew));
                }
                reply.put(json);
                Stop::Exit(0)
            }
        };
        Ended { guest: caller.guest, outcome: Ok(stop.into()) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolParams {
    name: String,
    #[serde(default)]
    args: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResultParams {
    value: Value,
}

impl Caller {
    /// Records the answer; returns it as JSON.
    fn record(&self, call: &HostCall, answered: &Answered) -> String {
        let done_as = answered.done_as.as_ref().map(|params| params.to_string().into_bytes());
        let mut json = answer(&answered.result);
        let mut record = HostRecord {
            name: &call.name,
            params: &call.params,
            done_as: done_as.as_deref(),
            answer: &json,
            answered_by: answered.by,
            amended: answered.amended,
        };
        if let Some(taped) = &answered.taped {
            record.done_as = taped.done_as.as_deref();
            record.answered_by = &taped.answered_by;
            record.amended = taped.amended;
            record.answer = &taped.answer;
        }
        self.guest.tape_host_call(&record);
        if let Some(taped) = &answered.taped {
            json.clone_from(&taped.answer);
        }
        json
    }

    /// Records that `call` ended without an answer, and how far it came: a replay repeats that
    /// part.
    fn record_ended(&self, call: &HostCall) {
        let Some(begun) = &self.begun else { return };
        let done_as = begun.done_as.as_ref().map(|params| params.to_string().into_bytes());
        let message = "the call was ended before it was answered";
        self.guest.tape_host_call(&HostRecord {
            name: &call.name,
            params: &call.params,
            done_as: done_as.as_deref(),
            answer: &json!({ "error": { "kind": "ended", "message": message } }).to_string(),
            answered_by: &begun.by,
            amended: false,
        });
    }

    fn begin(&mut self, by: &str, done_as: Option<&Value>) {
        self.begun = Some(Begun { by: by.to_owned(), done_as: done_as.cloned() });
    }

    /// Maximum length of an answer.
    pub(super) fn answer_bytes_max(&self) -> u64 {
        self.guest.machine().limits().host_call_bytes_max
    }

    /// The root directory of the project.
    pub(super) fn project_root(&self) -> &str {
        self.guest.machine().worktree().unwrap_or("/")
    }

    async fn answer(&mut self, call: &HostCall) -> Result<Answered, Stop> {
        let name = call.name.as_str();
        let pid = self.guest.pid();
        // What has wrong parameters does not reach the network.
        let net = self.host.net_calls(name);
        let net = net.and_then(|calls| Some((calls, parse(name, &call.params).ok()?)));
        let net = net.as_ref().map(|(calls, params)| (calls, NetCall { pid: pid.0, name, params }));
        let mut answered = if let Some(kept) = net.and_then(|(calls, call)| calls.answer(call)) {
            Answered::kept(name, kept)
        } else {
            match self.host.taped(pid, name) {
                None => self.answer_anew(name, &call.params).await?,
                Some(Err(error)) => Answered::by(BY_HOST, Err(error)),
                Some(Ok(taped)) => self.answer_again(name, taped).await?,
            }
        };
        let limit_bytes = self.answer_bytes_max();
        if answered.taped.is_none() && answer(&answered.result).len() as u64 > limit_bytes {
            let (name, what) = (name.to_owned(), "the answer".to_owned());
            answered.result = Err(HostError::TooLong { name, what, limit_bytes });
        }
        if let Some((calls, call)) = net
            && answered.taped.is_none()
        {
            calls.keep(call, &answer(&answered.result));
        }
        Ok(answered)
    }

    /// Replays an answer. Operations with effects in the machine are done again.
    async fn answer_again(&mut self, name: &str, taped: TapedCall) -> Result<Answered, Stop> {
        for decision in &taped.egress {
            self.guest.tape_again(decision);
        }
        let mut params = parse(name, &taped.params);
        let done_as = taped.done_as.as_ref().and_then(|it| serde_json::from_slice(it).ok());
        self.begin(&taped.answered_by, done_as.as_ref());
        let number = if name == EXEC && params.is_ok() { self.next_command() } else { 0 };
        if let Some(done_as) = &taped.done_as {
            // The recorded call resolved the directory of the original command, too.
            let _ = params.and_then(|params| self.exec(&params));
            params = parse(name, done_as);
        }
        if taped.answered_by != BY_BUILTIN {
            if name == EXEC {
                let _ = params.and_then(|params| self.exec(&params));
                if taped.answered_by == BY_POLICY {
                    io::now(&mut self.guest, ClockId::Realtime).await?;
                }
            }
            if name == SET_SHELL
                && let Ok(Value::String(id)) = parse_answer(name, &taped.answer)
            {
                self.host.state().shell = Some(id);
            }
            let outcome = Ok(Value::Null);
            return Ok(Answered { taped: Some(taped), ..Answered::by(BY_HOST, outcome) });
        }
        let result = match params {
            Err(error) => Err(error),
            Ok(params) => match self.builtin(name, &params, number, None).await {
                Ok(value) => Ok(value),
                Err(Halt::Failed(error)) => Err(error),
                Err(Halt::Stop(stop)) => return Err(stop),
            },
        };
        let by = Answered::by(BY_BUILTIN, result);
        // Changes by hooks, and a blocked program, are known from the tape only.
        let is_changed = taped.amended || taped.done_as.is_some();
        Ok(if is_changed { Answered { taped: Some(taped), ..by } } else { by })
    }

    async fn answer_anew(&mut self, name: &str, params: &[u8]) -> Result<Answered, Stop> {
        let params = match parse(name, params) {
            Ok(params) => params,
            Err(error) => return Ok(Answered::by(BY_BUILTIN, Err(error))),
        };
        if name == EXEC {
            return self.answer_exec(params).await;
        }
        self.ask_all(name, &params, 0, None, None).await
    }

    fn next_command(&self) -> u64 {
        let mut state = self.host.state();
        state.commands += 1;
        state.commands
    }

    async fn answer_exec(&mut self, params: Value) -> Result<Answered, Stop> {
        let number = self.next_command();
        // Whether a command can run depends on things outside of the machine.
        let failed = |error| Ok(Answered::by(BY_HOST, Err(error)));
        let exec = match self.exec(&params) {
            Ok(exec) => exec,
            Err(error) => return failed(error),
        };
        let mut changed = None;
        let judged = self.judge(&exec).and_then(|judged| {
            changed = self.host.policy().before(&params, &exec.commands)?;
            Ok(judged)
        });
        let (exec, judged) = match (judged, &changed) {
            (Ok(judged), None) => (exec, judged),
            (Ok(_), Some(changed)) => match self.exec(changed) {
                Err(error) => return failed(error),
                Ok(exec) => match self.judge(&exec) {
                    Ok(judged) => (exec, judged),
                    Err(blocked) => {
                        let answered = self.block(number, &blocked, Some(changed)).await?;
                        return Ok(Answered { done_as: Some(changed.clone()), ..answered });
                    }
                },
            },
            (Err(blocked), _) => return self.block(number, &blocked, None).await,
        };
        let effective = changed.as_ref().unwrap_or(&params).clone();
        let commands = exec.commands.clone();
        let command = Some((exec, judged));
        let done_as = changed.as_ref();
        let mut answered = self.ask_all(EXEC, &effective, number, command, done_as).await?;
        if let Ok(result) = &mut answered.result
            && answered.by != BY_POLICY
        {
            // That a start was blocked is not repeated by a replay either.
            answered.amended = result["status"] == "blocked";
            answered.amended |= self.host.policy().after(&effective, &commands, result);
        }
        answered.done_as = changed;
        Ok(answered)
    }

    async fn block(
        &mut self,
        number: u64,
        blocked: &Blocked,
        done_as: Option<&Value>,
    ) -> Result<Answered, Stop> {
        self.begin(BY_POLICY, done_as);
        let now_ns = io::now(&mut self.guest, ClockId::Realtime).await?;
        let result = exec_result::of_block(number, now_ns, blocked);
        Ok(Answered::by(BY_POLICY, Ok(result)))
    }

    /// Asks the mocks, then the bridge, then the built-in operations.
    async fn ask_all(
        &mut self,
        name: &str,
        params: &Value,
        number: u64,
        command: Option<(Exec, Approval)>,
        done_as: Option<&Value>,
    ) -> Result<Answered, Stop> {
        let (capability, operation) = name.split_once('.').unwrap_or((name, ""));
        let unwatched = command.as_ref().and_then(|(_, judged)| judged.unwatched().err());
        if let Some(blocked) = unwatched
            && (self.host.bridge().is_some()
                || self.host.state().mocks.find(name, params).is_some())
        {
            return self.block(number, &blocked, done_as).await;
        }
        let mocked = self.host.state().mocks.answer(capability, operation, params);
        if let Some(mocked) = mocked {
            let result = mocked.map_err(|message| HostError::Mock { message });
            return Ok(Answered::by(BY_MOCK, result));
        }
        if let Some(bridge) = self.host.bridge() {
            match bridge.dispatch(capability, operation, params) {
                BridgeAnswer::NotMine => {}
                BridgeAnswer::Value(value) => return Ok(Answered::by(BY_BRIDGE, Ok(value))),
                BridgeAnswer::Error(message) => {
                    return Ok(Answered::by(BY_BRIDGE, Err(HostError::bridge(name, message))));
                }
            }
        }
        let by = if ASK_OUTSIDE.contains(&name) { BY_HOST } else { BY_BUILTIN };
        self.begin(by, done_as);
        match self.builtin(name, params, number, command).await {
            Ok(value) => Ok(Answered::by(by, Ok(value))),
            Err(Halt::Failed(error)) => Ok(Answered::by(by, Err(error))),
            Err(Halt::Stop(stop)) => Err(stop),
        }
    }

    /// Performs a built-in operation.
    async fn builtin(
        &mut self,
        name: &str,
        params: &Value,
        number: u64,
        command: Option<(Exec, Approval)>,
    ) -> Done<Value> {
        let host = self.host.clone();
        let (guest, state) = (&mut self.guest, || host.state());
        Ok(match name {
            EXEC => {
                let (exec, judged) = match command {
                    Some((exec, judged)) => (exec, Some(judged)),
                    None => (self.exec(params)?, None),
                };
                return self.run_exec(number, exec, judged).await;
            }
            "process.list_shells" => host.list_shells(guest, name, params)?,
            "process.get_default_shell" => host.get_default_shell(name, params)?,
            SET_SHELL => host.set_default_shell(guest, name, params)?,
            "process.shell_invocation" => host.shell_invocation(guest, name, params)?,
            #[cfg(feature = "templates")]
            "template.render" => self.render(name, params)?,
            #[cfg(feature = "http")]
            "net.http" => {
                let asked = Asked::parse(name, params)?;
                let machine = guest.machine();
                let (tape, time_left) = (machine.tape.clone(), machine.time_left());
                let bytes_max = machine.limits().host_call_bytes_max;
                host.net().http(name, guest.proc_parent(), &asked, tape, time_left, bytes_max)?
            }
            #[cfg(feature = "http")]
            "net.read" => host.net().read(name, guest.proc_parent(), params)?,
            #[cfg(feature = "http")]
            "net.close" => host.net().close(name, guest.proc_parent(), params)?,
            "interaction.ask" => {
                let question = answers::question(name, params)?;
                json!({ "answer": host.ask(name, &question)? })
            }
            "runtime.task" => {
                no_params(name, params)?;
                host.task().clone()
            }
            "runtime.set_result" => {
                let ResultParams { value } = json::take(name, params)?;
                state().result = Some(value);
                Value::Null
            }
            "workspace.project_root" => {
                no_params(name, params)?;
                self.project_root().into()
            }
            "workspace.cwd" => {
                no_params(name, params)?;
                let dir = guest.current_dir().map_err(|errno| {
                    HostError::failed(name, format!("the current directory: {}", errno.meaning()))
                })?;
                json!(dir)
            }
            "host.capabilities" => {
                no_params(name, params)?;
                json!(host.capabilities())
            }
            "tool.list" => {
                no_params(name, params)?;
                json!(host.tools()?)
            }
            "tool.call" => {
                let ToolParams { name: tool, args } = json::take(name, params)?;
                host.call_tool(name, &tool, &args)?
            }
            _ => return Err(HostError::Unsupported { name: name.to_owned() }.into()),
        })
    }

    #[cfg(feature = "templates")]
    fn render(&mut self, name: &str, params: &Value) -> Result<Value, HostError> {
        let guest = &mut self.guest;
        let max = guest.machine().limits().host_call_bytes_max;
        let read = |path: &str| {
            guest.begin_call("path_open");
            let read = guest.read_file(path, template::TEMPLATE_BYTES_MAX).map(|(_, bytes)| bytes);
            read.map_err(|errno| errno.to_string())
        };
        template::render(name, params, max, read)
    }
}

/// Parses parameters, an object; no bytes are an empty one.
fn parse(name: &str, params: &[u8]) -> Result<Value, HostError> {
    if params.is_empty() {
        return Ok(json!({}));
    }
    let value = json::parse(params).map_err(|error| HostError::params(name, error.to_string()))?;
    if value.is_object() { Ok(value) } else { Err(HostError::params(name, "expected an object")) }
}
