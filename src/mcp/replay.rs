//! Makes the calls on a tape again, and compares the answers.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::call::{Call, Notes};
use super::client::{Client, NO_SANDBOX};
use super::environment::{Environment, Loaded};
use super::net::{TapedRequest, TapedRequests, Waiting};
use super::policy::{Policy, PolicyError};
use super::server::{Server, ServerError, Taped};
use super::tape::{
    CAPABILITY, DROP, DROPPED, Params, Request, START, Start, root_of_path, root_on_tape,
};
use crate::Overlay;
use crate::kernel::vfs::{Applied, TapedTree, TapedTreeError};
use crate::store::StoreError;
use crate::tape::{Kind, Payload, REDACTED, Record, TapeError, TapeReader, TapeStore};

/// Real time of a program in a replay, in milliseconds: where real time ended one, the call is left out.
const TIMEOUT_MS: u64 = 3_600_000;

/// Bytes of all sandboxes in a replay: calls for which too few were left are left out, and changes that were written to the
/// disk still take some.
const TOTAL_BYTES: u64 = u64::MAX / 2;

/// A replay that reached the end of its tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReplayedCalls {
    /// Calls whose answers are equal.
    pub equal: u64,
    /// Calls that were not compared: they were cancelled or timed out, installed something, or depend on the disk after
    /// changes were written to it, on other calls of the same moment, on what the tape withholds, or on whether folders of
    /// two sandboxes are the same.
    pub left_out: u64,
}

/// A call whose answer differs from that on the tape.
#[derive(Clone, PartialEq, Debug)]
pub struct CallDifference {
    /// The number of the record.
    pub seq: u64,
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Value,
    /// The answer on the tape.
    pub expected: Value,
    /// The answer now.
    pub found: Value,
}

/// The calls on a tape cannot be replayed, or one differs.
#[derive(thiserror::Error)]
pub enum CallReplayError {
    /// The tape cannot be read.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// A record is not one of a server.
    #[error("record {seq}: {message}")]
    Record {
        /// Its number.
        seq: u64,
        /// What is wrong.
        message: String,
    },
    /// The policy on the tape is not valid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The directories on the tape are damaged.
    #[error(transparent)]
    Tree(#[from] TapedTreeError),
    /// The server cannot begin.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A call has another answer.
    #[error("record {}: {} has another answer", .0.seq, .0.tool)]
    Different(Box<CallDifference>),
}

crate::base::readable::readable!(CallReplayError);

/// Whether the tape at `path` has the calls of a server.
///
/// # Errors
/// It cannot be read.
pub fn has_calls(path: &Path) -> Result<bool, TapeError> {
    let first = TapeReader::open(path)?.next().transpose()?;
    Ok(first.is_some_and(|record| {
        matches!(record.kind, Kind::HostCall { capability, operation, .. } if capability == CAPABILITY && operation == START)
    }))
}

/// Makes the calls on the tape at `path` again, one after another, with the programs of `environment` and the directories
/// that the tape has. Nothing is written to the disk, and nothing is installed.
///
/// # Errors
/// [`CallReplayError`]: `Different` at the first call that has another answer.
pub async fn replay(
    path: &Path,
    environment: Box<dyn Environment>,
) -> Result<ReplayedCalls, CallReplayError> {
    let mut tree = TapedTree::new(TapeStore::of(path));
    for record in TapeReader::open(path)? {
        let record = record?;
        match tree.learn(&record) {
            // What depends on it is not compared.
            Err(_) if record.seems_withheld() => {}
            learned => learned?,
        }
    }
    // A directory does not change for its sandboxes until their changes are written to it, which is left out.
    tree.keep_first_answers();
    let (tree, store) = (Arc::new(tree), TapeStore::of(path));
    let mut replay: Option<Replay> = None;
    let mut environment = Some(environment);
    for record in TapeReader::open(path)? {
        let record = record?;
        let Kind::HostCall { capability, operation, params, result, .. } = &record.kind else {
            if let Some(replay) = &mut replay {
                replay.note_withheld_file(&record);
            }
            continue;
        };
        if capability != CAPABILITY {
            continue;
        }
        let wrong = |message: String| CallReplayError::Record { seq: record.seq, message };
        // `None` if it is withheld as a whole.
        let text = |payload: &Payload| match payload.bytes(&store) {
            Err(StoreError::Withheld { .. }) => Ok(None),
            Err(error) => Err(wrong(error.to_string())),
            Ok(bytes) => {
                String::from_utf8(bytes).map(Some).map_err(|error| wrong(error.to_string()))
            }
        };
        let (params, result) = (text(params)?, text(result)?);
        let Some(params) = params else {
            if let Some(replay) = &mut replay {
                replay.leave_out_withheld();
            }
            continue;
        };
        // A client can call tools of any names.
        if operation == START
            && let Some(environment) = environment.take()
        {
            let start: Start = parsed(&params).map_err(wrong)?;
            let mut policy = Policy::of_texts(path, &start.texts)?;
            policy.bounds.timeout_ms_max = TIMEOUT_MS;
            policy.bounds.total_bytes_max = TOTAL_BYTES;
            let requests = TapedRequests::default();
            let (tree, exact_names) = (tree.clone(), start.exact_names);
            let taped = Taped { tree, exact_names, requests: requests.clone() };
            let environment = Box::new(WritesNothing(environment));
            replay = Some(Replay::new(Server::replaying(policy, environment, taped)?, requests));
            continue;
        }
        let params: Params = parsed(&params).map_err(wrong)?;
        let replay = replay.as_mut().ok_or_else(|| wrong("a call before the start".to_owned()))?;
        if let Some(Request { sandbox, pid, params: asked }) = params.request {
            let name = operation.clone();
            let answer = result.unwrap_or_else(|| REDACTED.to_owned());
            let request = TapedRequest { name, pid, params: asked, answer };
            replay.waiting.entry((params.client, sandbox)).or_default().push(request);
            continue;
        }
        let result = result.map(|result| parsed(&result)).transpose().map_err(wrong)?;
        replay.make(record.seq, operation, params, result).await?;
    }
    Ok(replay.map(|replay| replay.done).unwrap_or_default())
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// A replay under way.
struct Replay {
    server: Arc<Server>,
    clients: HashMap<u64, Arc<Client>>,
    /// Sandboxes, by client, whose changes were written to the disk, and forks of them.
    applied: BTreeSet<(u64, String)>,
    /// Sandboxes, by client, that have seen what the tape withholds, and forks of them.
    withheld: BTreeSet<(u64, String)>,
    /// Roots on the tape below which it withholds something.
    withheld_files: BTreeSet<String>,
    /// The root on the tape of the directories of a sandbox, by client. Forks share it.
    roots: HashMap<(u64, String), String>,
    /// Roots of sandboxes that mount folders.
    with_folders: BTreeSet<String>,
    /// Whether a call is withheld as a whole: any sandbox may have seen it.
    all_withheld: bool,
    /// Outputs that real time ended, by client and sandbox.
    cut: BTreeSet<(u64, String, u64)>,
    /// What programs requested from the network, until the call that ran them.
    waiting: Waiting,
    requests: TapedRequests,
    done: ReplayedCalls,
}

/// What to do with a call.
#[derive(PartialEq, Eq)]
enum Plan {
    Compare,
    /// Make it, as later calls depend on it, and accept any answer.
    Make,
    LeaveOut,
}

impl Replay {
    fn new(server: Arc<Server>, requests: TapedRequests) -> Self {
        Self {
            server,
            requests,
            waiting: Waiting::default(),
            clients: HashMap::new(),
            applied: BTreeSet::new(),
            withheld: BTreeSet::new(),
            withheld_files: BTreeSet::new(),
            roots: HashMap::new(),
            with_folders: BTreeSet::new(),
            all_withheld: false,
            cut: BTreeSet::new(),
            done: ReplayedCalls::default(),
        }
    }

    async fn make(
        &mut self,
        seq: u64,
        tool: &str,
        params: Params,
        expected: Option<Value>,
    ) -> Result<(), CallReplayError> {
        let Params { client: number, arguments, consent, notes, .. } = params;
        let server = self.server.clone();
        let client = self.clients.entry(number).or_insert_with(|| server.connect_as(number));
        let client = client.clone();
        let Value::Object(mut words) = arguments.clone() else {
            self.leave_out_withheld();
            return Ok(());
        };
        if tool == DROP && expected == Some(DROPPED) {
            // It may have been dropped by a call as well.
            let _ = client.call("sandbox_drop", words, &Call::new()).await;
            return Ok(());
        }
        let id = arguments.get("sandbox").and_then(Value::as_str).unwrap_or_default();
        let requests = self.waiting.remove(&(number, id.to_owned())).unwrap_or_default();
        self.note_root(number, tool, notes, expected.as_ref());
        let is_withheld = self.note_withheld(number, &arguments, &requests, expected.as_ref());
        let expected = expected.unwrap_or_default();
        let mut plan = self.plan(number, tool, &arguments, &expected);
        if plan == Plan::Compare && is_withheld {
            plan = Plan::Make;
        }
        let sandbox = (number, id.to_owned());
        if plan == Plan::Compare && notes.is_full && self.applied.contains(&sandbox) {
            // What was written to the disk takes room here, so the limit is another one from now on.
            self.withheld.insert(sandbox);
            plan = Plan::Make;
        }
        self.requests.begin(requests);
        if plan == Plan::LeaveOut {
            if expected.get("undone") == Some(&Value::Bool(true)) {
                self.leave_out_output(number, &client, &arguments, &expected).await;
            }
            if tool == "sandbox_apply" && expected.get("error").is_none() {
                client.make_room(id).await;
            }
            self.done.left_out += 1;
            return Ok(());
        }
        keep_id(&mut words, &expected);
        words.remove("timeout_ms");
        let call = consent.map_or_else(Call::new, Call::consented);
        *call.notes() = notes;
        let found = match client.call(tool, words, &call).await {
            Ok(answer) => answer,
            Err(error) => error.to_json(),
        };
        if plan == Plan::Make {
            self.done.left_out += 1;
            return Ok(());
        }
        if found != expected {
            let tool = tool.to_owned();
            let difference = CallDifference { seq, tool, arguments, expected, found };
            return Err(CallReplayError::Different(Box::new(difference)));
        }
        self.done.equal += 1;
        Ok(())
    }

    /// A call is withheld as a whole.
    fn leave_out_withheld(&mut self) {
        self.all_withheld = true;
        self.done.left_out += 1;
    }

    /// Notes that `record` withholds what a sandbox, or a fork of it, sees of a directory: its name, its listing or its content.
    fn note_withheld_file(&mut self, record: &Record) {
        let (Kind::FileStat { path, .. }
        | Kind::DirList { path, .. }
        | Kind::LinkRead { path, .. }
        | Kind::FileRead { path, .. }) = &record.kind
        else {
            return;
        };
        if let Some(root) = root_of_path(path).filter(|_| record.seems_withheld()) {
            self.withheld_files.insert(root.to_owned());
        }
    }

    /// Notes whose directories a new sandbox has, and forgets an earlier one that had its id.
    fn note_root(&mut self, client: u64, tool: &str, notes: Notes, expected: Option<&Value>) {
        let named = |field: &str| {
            let id = expected.and_then(|expected| expected.get(field)).and_then(Value::as_str);
            id.map(|id| (client, id.to_owned()))
        };
        let (made, root) = match (tool, named("sandbox"), named("origin")) {
            ("sandbox_create", Some(made), _) => {
                let root = root_on_tape(client, &made.1, notes.dropped_before);
                let mounts = expected.and_then(|expected| expected.get("mounts")?.as_array());
                if mounts.is_some_and(|all| all.iter().any(|it| it.get("folder").is_some())) {
                    self.with_folders.insert(root.clone());
                }
                (made, root)
            }
            ("sandbox_fork", Some(made), Some(origin)) => {
                let root = self.root_of(&origin);
                (made, root)
            }
            _ => return,
        };
        self.applied.remove(&made);
        self.withheld.remove(&made);
        self.cut.retain(|(client, id, _)| (*client, id) != (made.0, &made.1));
        self.roots.insert(made, root);
    }

    /// The root on the tape of the directories of a sandbox.
    fn root_of(&self, sandbox: &(u64, String)) -> String {
        let none = || root_on_tape(sandbox.0, &sandbox.1, 0);
        self.roots.get(sandbox).cloned().unwrap_or_else(none)
    }

    /// Whether the tape withholds something that the sandbox `id` may have seen.
    fn has_seen_withheld(&self, id: &(u64, String)) -> bool {
        self.withheld.contains(id) || self.withheld_files.contains(&self.root_of(id))
    }

    /// Whether two sandboxes mounted folders of the host on their own. The tape does not say which of these are the same,
    /// nor what changed in them in between.
    fn have_other_folders(&self, one: &(u64, String), other: &(u64, String)) -> bool {
        let roots = [self.root_of(one), self.root_of(other)];
        roots[0] != roots[1] && roots.iter().any(|root| self.with_folders.contains(root))
    }

    /// Returns whether a call depends on what the tape withholds, and notes that later ones of its sandboxes do, too.
    fn note_withheld(
        &mut self,
        client: u64,
        arguments: &Value,
        requests: &[TapedRequest],
        expected: Option<&Value>,
    ) -> bool {
        let ids = ["sandbox", "before", "after"].into_iter().filter_map(|it| arguments.get(it));
        let made = expected.and_then(|expected| expected.get("sandbox"));
        let ids: Vec<(u64, String)> =
            ids.chain(made).filter_map(|id| Some((client, id.as_str()?.to_owned()))).collect();
        let has_secret = |value: &Value| value.to_string().contains(REDACTED);
        let is_withheld = self.all_withheld
            || has_secret(arguments)
            || expected.is_none_or(has_secret)
            || requests.iter().any(TapedRequest::is_withheld)
            || ids.iter().any(|id| self.has_seen_withheld(id));
        if is_withheld {
            // The answer may have named a new sandbox.
            self.all_withheld |= expected.is_none() && ids.is_empty();
            self.withheld.extend(ids);
        }
        is_withheld
    }

    fn plan(&mut self, client: u64, tool: &str, arguments: &Value, expected: &Value) -> Plan {
        let named = |field: &str| {
            let id = arguments.get(field).and_then(Value::as_str).unwrap_or_default();
            (client, id.to_owned())
        };
        let error = expected.pointer("/error/kind").and_then(Value::as_str);
        match (tool, error) {
            // What these answer depends on the host, or on what happens at the same moment.
            ("sandbox_list" | "program_list" | "toolchain_install", _)
            | ("sandbox_create" | "sandbox_fork" | "sandbox_apply", Some(_))
            | (_, Some("cancelled" | "limit" | "consent")) => Plan::LeaveOut,
            // The message names those that there are.
            (_, Some("not_found")) if expected.to_string().contains(NO_SANDBOX) => Plan::LeaveOut,
            ("sandbox_apply", None) => {
                self.applied.insert(named("sandbox"));
                Plan::LeaveOut
            }
            ("sandbox_diff", _) if self.applied.contains(&named("sandbox")) => Plan::LeaveOut,
            ("sandbox_compare", _)
                if ["before", "after"].iter().any(|id| self.applied.contains(&named(id)))
                    || self.have_other_folders(&named("before"), &named("after")) =>
            {
                Plan::LeaveOut
            }
            ("sandbox_fork", None) => {
                if self.applied.contains(&named("sandbox")) {
                    let id = expected.get("sandbox").and_then(Value::as_str).unwrap_or_default();
                    self.applied.insert((client, id.to_owned()));
                }
                Plan::Compare
            }
            ("sandbox_output", _) => {
                let (client, id) = named("sandbox");
                let output = arguments.get("output").and_then(Value::as_u64).unwrap_or_default();
                if self.cut.contains(&(client, id, output)) {
                    Plan::LeaveOut
                } else {
                    Plan::Compare
                }
            }
            _ if expected.get("undone") == Some(&Value::Bool(true)) => Plan::LeaveOut,
            _ => Plan::Compare,
        }
    }

    /// Counts the output of a program that real time ended, so that later ones have the same numbers.
    async fn leave_out_output(
        &mut self,
        number: u64,
        client: &Arc<Client>,
        arguments: &Value,
        expected: &Value,
    ) {
        let id = arguments.get("sandbox").and_then(Value::as_str).unwrap_or_default();
        let output = expected.get("output").and_then(Value::as_u64).unwrap_or_default();
        self.cut.insert((number, id.to_owned(), output));
        client.skip_output(id).await;
    }
}

/// Gives a new sandbox the id that it had.
fn keep_id(words: &mut Map<String, Value>, expected: &Value) {
    if let Some(id) = expected.get("sandbox").filter(|_| !words.contains_key("sandbox")) {
        words.entry("id").or_insert_with(|| id.clone());
    }
    if let (Some(id), Some(_)) = (expected.get("sandbox"), expected.get("origin")) {
        words.entry("id").or_insert_with(|| id.clone());
    }
}

/// The environment of a replay.
struct WritesNothing(Box<dyn Environment>);

impl Environment for WritesNothing {
    fn load(&self, toolchains: Option<&[String]>) -> Result<Loaded, String> {
        self.0.load(toolchains)
    }

    fn apply(&self, _: &mut Overlay) -> Result<Applied, String> {
        Err("a replay writes nothing to the disk".to_owned())
    }
}
