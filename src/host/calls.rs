//! Host calls by guests and by host code.

use std::sync::Arc;

use serde_json::Value;

use super::call::CallImage;
use super::capability;
use super::error::HostError;
use super::reply::CallReply;
use super::session::{HostHandle, SessionHost};
use crate::kernel::host::{Host, HostCall, HostReply, Start};
use crate::kernel::machine::Machine;
use crate::kernel::process::Pid;
use crate::kernel::process::outcome::Outcome;
use crate::kernel::process::schedule::Image;
use crate::process::Command;

impl HostHandle {
    /// Makes the call `name` in `machine`, as a process of it would.
    ///
    /// # Errors
    /// [`HostError`]. A command that fails or is blocked is no error.
    pub fn call(
        &self,
        machine: &mut Machine,
        name: &str,
        params: &Value,
    ) -> Result<Value, HostError> {
        self.call_as(machine, name, params, |_| {})
    }

    /// Like [`HostHandle::call`]; `set_up` sets the directory and environment of the calling
    /// process.
    ///
    /// # Errors
    /// As [`HostHandle::call`].
    pub fn call_as(
        &self,
        machine: &mut Machine,
        name: &str,
        params: &Value,
        set_up: impl FnOnce(&mut Command),
    ) -> Result<Value, HostError> {
        let max = machine.limits().host_call_bytes_max;
        let params = params.to_string().into_bytes();
        if params.len() as u64 > max {
            let (name, what) = (name.to_owned(), "the parameters".to_owned());
            return Err(HostError::TooLong { name, what, limit_bytes: max });
        }
        let call = HostCall { name: name.to_owned(), params: params.into(), depth: 0 };
        let (mut command, reply) = self.command(call);
        set_up(&mut command);
        let output = command.output(machine)?;
        match (reply.take(), output.status.outcome()) {
            (Some(answer), Outcome::Exited(_)) => answer,
            (_, outcome) => {
                let message = format!("{name} was ended: {}", outcome.name());
                Err(HostError::Ended { message })
            }
        }
    }

    /// A process that makes `call`, and the slot for its answer.
    pub(super) fn command(&self, call: HostCall) -> (Command, CallReply) {
        let reply = CallReply::default();
        let (host, into, name) = (self.clone(), reply.clone(), call.name.clone());
        let make = move || -> Box<dyn Image> {
            let (host, call, reply) = (host.clone(), call.clone(), HostReply::default());
            Box::new(CallImage { host, call, reply, result: Some(into.clone()) })
        };
        (Command::of_image(Arc::new(make), name), reply)
    }

    /// A process that repeats a recorded call.
    pub fn taped_command(&self, name: &str, params: &[u8]) -> Command {
        let call = HostCall { name: name.to_owned(), params: params.into(), depth: 0 };
        self.command(call).0
    }
}

impl Host for SessionHost {
    fn has(&self, caller: Pid, name: &str) -> bool {
        match self.taped(caller, "host.has") {
            None => capability::has(&self.capabilities(), name),
            Some(call) => call.is_ok_and(|call| call.answer.contains("true")),
        }
    }

    fn call(&self, call: HostCall) -> (Box<dyn Image>, HostReply) {
        let reply = HostReply::default();
        let image = CallImage { host: self.handle(), call, reply: reply.clone(), result: None };
        (Box::new(image), reply)
    }

    fn checks_starts(&self) -> bool {
        self.looks_at_starts()
    }

    fn may_start(&self, start: &Start<'_>) -> Result<(), String> {
        if let Some(taped) = self.taped_start(start.pid, start.number) {
            return taped;
        }
        self.check_start(start).map_err(|blocked| {
            let why = blocked.to_string();
            if let Some(running) = self.state().running.get_mut(&start.group) {
                running.blocked.get_or_insert(blocked);
            }
            why
        })
    }

    #[cfg(feature = "http")]
    fn process_ended(&self, pid: Pid) {
        self.net().close_all_of(pid);
    }

    #[cfg(not(feature = "http"))]
    fn process_ended(&self, _: Pid) {}
}
