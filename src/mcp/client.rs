//! A client and its sandboxes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokio::sync::{OwnedMutexGuard, Semaphore};

use super::bounds::TEXT_BYTES_MAX;
use super::budget::{Charge, Place};
use super::call::{Call, CancelOnDrop};
use super::error::{ErrorKind, ToolError};
use super::outputs::Outputs;
use super::secrets::Secrets;
use super::server::Server;
use super::tools::{self, Scene};
use crate::base::ambient;
use crate::base::printable::printable;
use crate::sandbox::{Sandbox, check_session_id};

/// A client of a [`Server`], with sandboxes that only it can use. They are dropped with it, and what runs in them is
/// ended.
pub struct Client {
    pub(super) server: Arc<Server>,
    number: u64,
    /// What its tape must not have.
    pub(super) secrets: Arc<Secrets>,
    table: Mutex<Table>,
    calls: Semaphore,
}

/// How the message begins that a sandbox is not there.
pub(super) const NO_SANDBOX: &str = "no sandbox";

/// Characters of the name of an unknown tool that a tape keeps.
const NAME_CHARS_MAX: usize = 64;

#[derive(Default)]
struct Table {
    slots: BTreeMap<String, Arc<Slot>>,
    made: u64,
    dropped: u64,
}

/// A sandbox under a fair lock.
pub(super) struct Slot {
    pub id: String,
    /// `None` once dropped.
    live: Arc<tokio::sync::Mutex<Option<Live>>>,
    /// The call that uses it.
    current: Mutex<Option<Call>>,
    used: Mutex<Instant>,
}

/// A sandbox.
pub(super) struct Live {
    pub sandbox: Sandbox,
    pub outputs: Outputs,
    /// What its files and outputs take.
    pub charge: Charge,
    /// Where folders of the policy are mounted.
    pub folders: Vec<Mounted>,
    /// What it was forked from.
    pub origin: Option<String>,
    pub _place: Place,
}

/// A folder of the policy in a sandbox.
#[derive(Clone)]
pub(super) struct Mounted {
    pub at: String,
    pub folder: String,
    pub path: String,
    pub is_writable: bool,
    pub may_apply: bool,
}

/// A sandbox that one call uses.
pub(super) struct Held {
    pub slot: Arc<Slot>,
    live: OwnedMutexGuard<Option<Live>>,
}

impl Held {
    pub(super) fn live(&mut self) -> &mut Live {
        self.live.as_mut().expect("it is held only while it is there")
    }

    pub(super) fn sandbox(&mut self) -> &mut Sandbox {
        &mut self.live().sandbox
    }

    /// Drops the sandbox.
    pub(super) fn end(&mut self) {
        *self.live = None;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        *locked(&self.slot.current) = None;
        *locked(&self.slot.used) = ambient::instant_now();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What it guards is whole between statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    pub(super) fn new(server: Arc<Server>, number: u64) -> Self {
        let calls = Semaphore::new(server.policy.bounds.calls_max as usize);
        Self { server, number, secrets: Arc::default(), table: Mutex::default(), calls }
    }

    /// Calls the tool `name` with `arguments`; returns its answer. Runs on blocking threads of tokio.
    ///
    /// Calls on one sandbox are served one after another. Dropping the future cancels the call.
    ///
    /// # Errors
    /// [`ToolError`]; with [`ToolError::consent`] set if the user has to agree: then call again with [`Call::consented`].
    pub async fn call(
        self: &Arc<Self>,
        name: &str,
        arguments: Map<String, Value>,
        call: &Call,
    ) -> Result<Value, ToolError> {
        let recorded = self.server.tape.as_ref().map(|tape| {
            let mut recorded = Value::Object(arguments.clone());
            self.secrets.learn(&mut recorded, &tape.recorder());
            recorded
        });
        let refused = |error: ToolError| {
            let name: String = name.chars().take(NAME_CHARS_MAX).collect();
            self.record(&name, call, recorded.clone(), &Err(error.clone()));
            error
        };
        let _place = self.calls.try_acquire().map_err(|_| {
            refused(ToolError::limit(format!(
                "{} calls are under way, which is the limit of one client: wait for their answers",
                self.server.policy.bounds.calls_max
            )))
        })?;
        let tool = tools::find(name, &self.server).map_err(refused)?;
        let mut dropped = CancelOnDrop::new(call);
        let done = self.perform(tool, arguments, call, recorded).await;
        dropped.disarm();
        done
    }

    async fn perform(
        self: &Arc<Self>,
        tool: &'static tools::Entry,
        arguments: Map<String, Value>,
        call: &Call,
        recorded: Option<Value>,
    ) -> Result<Value, ToolError> {
        let prepared = match tool.prepare(arguments) {
            Ok(prepared) => prepared,
            Err(error) => {
                self.record(tool.info().name, call, recorded, &Err(error.clone()));
                return Err(error);
            }
        };
        if let Some(id) = prepared.ends() {
            self.cancel_current(&id);
        }
        let mut held = Vec::new();
        let mut ids = prepared.sandboxes();
        // Always in one order, so that two calls do not wait for each other.
        ids.sort_unstable();
        ids.dedup();
        for id in &ids {
            match self.hold(id, call).await {
                Ok(sandbox) => held.push(sandbox),
                Err(error) => {
                    self.record(tool.info().name, call, recorded, &Err(error.clone()));
                    return Err(error);
                }
            }
        }
        let run = if prepared.runs_programs() {
            self.server.running.clone().acquire_owned().await.ok()
        } else {
            None
        };
        let (client, call) = (self.clone(), call.clone());
        let work = move || {
            let mut scene = Scene { client: &client, held, call: &call };
            let done =
                if call.is_cancelled() { Err(cancelled()) } else { prepared.run(&mut scene) };
            // While the sandboxes are held, so that the tape has the order of what happened to each.
            client.record(tool.info().name, &call, recorded, &done);
            drop((scene, run));
            done
        };
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
            Err(ToolError::failed(format!("the call did not end: {error}")))
        })
    }

    fn record(
        &self,
        tool: &str,
        call: &Call,
        arguments: Option<Value>,
        done: &Result<Value, ToolError>,
    ) {
        if let (Some(tape), Some(arguments)) = (&self.server.tape, arguments) {
            tape.record(self.number, &self.secrets, tool, call, arguments, done);
        }
    }

    /// Takes the sandbox `id` for one call, after earlier calls.
    async fn hold(&self, id: &str, call: &Call) -> Result<Held, ToolError> {
        let slot = locked(&self.table).slots.get(id).cloned();
        let slot = slot.ok_or_else(|| self.not_found(id))?;
        let live = slot.live.clone().lock_owned().await;
        if live.is_none() {
            return Err(self.not_found(id));
        }
        *locked(&slot.current) = Some(call.clone());
        Ok(Held { slot, live })
    }

    /// Counts an output of the sandbox `id`, for a replay that does not run its program.
    pub(super) async fn skip_output(&self, id: &str) {
        if let Ok(mut held) = self.hold(id, &Call::new()).await {
            held.live().outputs.keep(Vec::new(), Vec::new(), u64::MAX);
        }
    }

    /// Gives the sandbox `id` as much room for its files as it had when it was new, for a replay that leaves out that they
    /// were written to the disk.
    pub(super) async fn make_room(&self, id: &str) {
        if let Ok(mut held) = self.hold(id, &Call::new()).await {
            let files = held.sandbox().files();
            let bytes = self.server.policy.bounds.upper_bytes_max;
            files.set_upper_bytes_max(bytes.saturating_add(files.upper_bytes()));
        }
    }

    fn not_found(&self, id: &str) -> ToolError {
        let known: Vec<String> = locked(&self.table).slots.keys().cloned().collect();
        let id = printable(&id.chars().take(64).collect::<String>());
        let next = if known.is_empty() {
            "create one with sandbox_create".to_owned()
        } else {
            format!("there are: {}", known.join(", "))
        };
        ToolError::not_found(format!(
            "{NO_SANDBOX} {id:?}: it was never there, or dropped, also after {} s without use; {next}",
            self.server.policy.bounds.idle_ms_max / 1000
        ))
    }

    /// The id of a new sandbox: the one that was chosen, or a new one.
    pub(super) fn new_id(&self, chosen: Option<String>) -> String {
        let mut table = locked(&self.table);
        chosen.unwrap_or_else(|| {
            loop {
                table.made += 1;
                let id = format!("sandbox-{}", table.made);
                if !table.slots.contains_key(&id) {
                    break id;
                }
            }
        })
    }

    /// Its number at the server, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Adds `live` as the sandbox `id`. Until the call that made it is recorded, it holds it: calls of others come later on the
    /// tape, too.
    pub(super) fn admit(&self, id: String, live: Live) -> Result<Held, ToolError> {
        let mut table = locked(&self.table);
        if table.slots.contains_key(&id) {
            return Err(taken(&id));
        }
        let slot = Arc::new(Slot {
            id: id.clone(),
            live: Arc::new(tokio::sync::Mutex::new(Some(live))),
            current: Mutex::default(),
            used: Mutex::new(ambient::instant_now()),
        });
        let live = slot.live.clone().try_lock_owned().expect("nobody else has it yet");
        table.slots.insert(id, slot.clone());
        Ok(Held { slot, live })
    }

    /// Checks an id that a client chose for a new sandbox.
    ///
    /// # Errors
    /// It is not valid, or in use.
    pub(super) fn check_new_id(&self, id: Option<&str>) -> Result<(), ToolError> {
        let Some(id) = id else { return Ok(()) };
        if id.len() > TEXT_BYTES_MAX {
            return Err(ToolError::arguments("id: longer than 64 bytes"));
        }
        check_session_id(id)?;
        if locked(&self.table).slots.contains_key(id) {
            return Err(taken(id));
        }
        Ok(())
    }

    /// Forgets the sandbox `id`, which was dropped.
    pub(super) fn forget(&self, id: &str) {
        let mut table = locked(&self.table);
        table.slots.remove(id);
        table.dropped += 1;
    }

    /// How many of its sandboxes were dropped.
    pub(super) fn dropped(&self) -> u64 {
        locked(&self.table).dropped
    }

    /// Ends what runs in the sandbox `id`.
    fn cancel_current(&self, id: &str) {
        let slot = locked(&self.table).slots.get(id).cloned();
        if let Some(call) = slot.and_then(|slot| locked(&slot.current).clone()) {
            call.cancel();
        }
    }

    /// The sandboxes: each with the time since it was used, and `None` while a call uses it, or what `describe` returns.
    pub(super) fn each<T>(
        &self,
        describe: impl Fn(&mut Live) -> T,
    ) -> Vec<(String, Duration, Option<T>)> {
        let slots: Vec<Arc<Slot>> = locked(&self.table).slots.values().cloned().collect();
        let described = slots.into_iter().map(|slot| {
            let unused = ambient::elapsed_since(*locked(&slot.used));
            let live = slot.live.try_lock().ok();
            let described = live.and_then(|mut live| live.as_mut().map(&describe));
            (slot.id.clone(), unused, described)
        });
        described.collect()
    }

    /// Records that the sandbox `id` is dropped without a call for it.
    fn record_drop(&self, id: &str) {
        if let Some(tape) = &self.server.tape {
            tape.record_drop(self.number, id);
        }
    }

    pub(super) fn drop_idle(&self, idle: Duration) {
        let slots: Vec<Arc<Slot>> = locked(&self.table).slots.values().cloned().collect();
        for slot in slots {
            if ambient::elapsed_since(*locked(&slot.used)) < idle {
                continue;
            }
            // One that a call uses or waits for is not idle.
            if let Ok(mut live) = slot.live.try_lock() {
                *live = None;
                self.forget(&slot.id);
                self.record_drop(&slot.id);
            }
        }
    }

    /// Ends what runs in its sandboxes, and drops them. Calls that are under way end with errors.
    pub fn leave(&self) {
        let slots = std::mem::take(&mut locked(&self.table).slots);
        for slot in slots.into_values() {
            self.record_drop(&slot.id);
            if let Some(call) = locked(&slot.current).clone() {
                call.cancel();
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.leave();
    }
}

fn taken(id: &str) -> ToolError {
    ToolError::arguments(format!("id: a sandbox {id:?} exists; choose another one, or none"))
}

pub(super) fn cancelled() -> ToolError {
    ToolError::new(ErrorKind::Cancelled, "the call was cancelled; its sandbox is as it was before")
}
