//! The settings of a sandbox or a run, as Python passes them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use belljar::host::{CommandPolicy, SessionHost};
use belljar::net::{EgressPolicy, EgressRule};
use belljar::sandbox::{FilesystemAccess, MakeHost, MountSource, SandboxMount, SandboxSpec};
use belljar::{ClockConfig, Limits, Mtimes};
use pyo3::prelude::*;

use crate::errors;
use crate::host::{PythonBridge, Tool};

/// The settings of a sandbox. `Settings` of `_native.pyi` says what each is.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Settings {
    mounts: Vec<(String, Option<PathBuf>, bool)>,
    limits: BTreeMap<String, Py<PyAny>>,
    env: BTreeMap<String, String>,
    start_ns: Option<u64>,
    mtimes: String,
    seed: u64,
    allow_net: Option<Vec<String>>,
    deny_net: Vec<String>,
    /// The folders of its toolchains.
    pub toolchains: Vec<PathBuf>,
    policy: Option<String>,
    host: BTreeMap<String, Py<PyAny>>,
    tools: Vec<Tool>,
}

impl Settings {
    /// The specification of a sandbox.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn spec(&self, py: Python<'_>) -> PyResult<SandboxSpec> {
        let clock = self.clock();
        Ok(SandboxSpec {
            mounts: self.mounts(),
            network_policy: egress_policy(py, self.allow_net.as_deref(), &self.deny_net)?,
            limits: limits(py, &self.limits)?,
            clock,
            mtimes: mtimes(py, &self.mtimes, clock)?,
            seed: self.seed,
            env: self.env.clone(),
            ..SandboxSpec::default()
        })
    }

    /// The clock: the host's without a start.
    pub fn clock(&self) -> ClockConfig {
        self.start_ns.map_or(ClockConfig::Host, |start_ns| ClockConfig::Paused { start_ns })
    }

    fn mounts(&self) -> Vec<SandboxMount> {
        let mount = |(target, host, read_only): &(String, Option<PathBuf>, bool)| SandboxMount {
            target: target.clone(),
            source: host.clone().map_or(MountSource::Memory, MountSource::Host),
            access: if *read_only {
                FilesystemAccess::ReadOnly
            } else {
                FilesystemAccess::ReadWrite
            },
        };
        self.mounts.iter().map(mount).collect()
    }

    /// What makes the host of the sandbox and of its forks.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn into_host(self, py: Python<'_>) -> PyResult<MakeHost> {
        let policy = match &self.policy {
            None => CommandPolicy::new(),
            Some(text) => CommandPolicy::from_json("policy", text)
                .map_err(|error| errors::invalid(py, format!("{error:?}")))?,
        };
        let bridge = PythonBridge::new(self.host, self.tools)
            .map_err(|message| errors::invalid(py, message))?;
        Ok(Arc::new(move |_| {
            let builder = SessionHost::builder().policy(policy.clone());
            match &bridge {
                None => builder,
                Some(bridge) => builder.bridge(bridge.clone()),
            }
        }))
    }
}

fn mtimes(py: Python<'_>, name: &str, clock: ClockConfig) -> PyResult<Mtimes> {
    match (name, clock) {
        ("host", _) => Ok(Mtimes::Host),
        ("content", _) => Ok(Mtimes::Content),
        ("fixed", ClockConfig::Paused { start_ns }) => Ok(Mtimes::Fixed(start_ns)),
        ("fixed", ClockConfig::Host) => {
            Err(errors::invalid(py, "mtimes=\"fixed\" needs a virtual clock"))
        }
        (name, _) => Err(errors::invalid(
            py,
            format!("mtimes={name:?} is not one of \"host\", \"content\", \"fixed\""),
        )),
    }
}

/// The egress policy; without `allow`, all of the public internet may be reached.
///
/// # Errors
/// `InvalidArgument`.
pub fn egress_policy(
    py: Python<'_>,
    allow: Option<&[String]>,
    deny: &[String],
) -> PyResult<EgressPolicy> {
    let rule = |text: &String| -> PyResult<EgressRule> {
        text.parse().map_err(|error| errors::invalid(py, format!("{error:?}")))
    };
    let mut policy = match allow {
        None => EgressPolicy::allow_by_default(),
        Some(_) => EgressPolicy::default(),
    };
    for text in allow.unwrap_or_default() {
        policy = policy.allow(rule(text)?);
    }
    for text in deny {
        policy = policy.deny(rule(text)?);
    }
    Ok(policy)
}

/// A duration in seconds.
///
/// # Errors
/// `InvalidArgument`.
pub fn seconds(py: Python<'_>, name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| errors::invalid(py, format!("{name}={seconds} is not a number of seconds")))
}

/// The limits with these values; the others have their defaults.
///
/// # Errors
/// `InvalidArgument` for an unknown name or a value that is too large.
pub fn limits(py: Python<'_>, values: &BTreeMap<String, Py<PyAny>>) -> PyResult<Limits> {
    let mut limits = Limits::default();
    for (name, value) in values {
        let value = value.bind(py);
        let count = || -> PyResult<u64> {
            value.extract().map_err(|_| {
                errors::invalid(py, format!("limits: {name}={value} is not a count of 64 bits"))
            })
        };
        let small = || -> PyResult<u32> {
            u32::try_from(count()?).map_err(|_| {
                errors::invalid(py, format!("limits: {name}={value} exceeds {}", u32::MAX))
            })
        };
        match name.as_str() {
            "memory_bytes_max" => limits.memory_bytes_max = count()?,
            "fuel" => limits.fuel = Some(count()?),
            "timeout" => limits.timeout = Some(seconds(py, name, value.extract()?)?),
            "virtual_timeout" => {
                limits.virtual_timeout = Some(seconds(py, name, value.extract()?)?);
            }
            "open_files_max" => limits.open_files_max = small()?,
            "processes_max" => limits.processes_max = small()?,
            "pipes_max" => limits.pipes_max = small()?,
            "output_bytes_max" => limits.output_bytes_max = count()?,
            "host_call_bytes_max" => limits.host_call_bytes_max = count()?,
            "upper_bytes_max" => limits.vfs.upper_bytes_max = count()?,
            "file_bytes_max" => limits.vfs.file_bytes_max = count()?,
            "cache_bytes_max" => limits.vfs.cache_bytes_max = count()?,
            name => {
                return Err(errors::invalid(
                    py,
                    format!("limits: there is no limit {name:?}; class Limits has all of them"),
                ));
            }
        }
    }
    Ok(limits)
}
