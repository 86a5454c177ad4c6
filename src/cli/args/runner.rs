//! `belljar runner`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::groups::{CompileArgs, LimitArgs};
use super::values::duration;

#[derive(Args, Debug)]
#[command(
    after_help = "A worker calls it for each action, as it calls the runners of BuildBox. Give the worker a script, as it has \
no place for a command:

  #!/bin/sh
  exec belljar runner \"$@\"

Limits and toolchains are those of the worker: `buildbox-casd --buildbox-run=/usr/local/bin/belljar-runner \
--runner-arg=--max-memory=2GiB ...`. The action names its program by a path with a slash, which is a module among its inputs, \
or by the name of a program that `belljar install` has put on the worker; the platform property belljar-toolchain names the \
toolchains that it may use.

--remote, --action and --action-result are needed. Options of other runners of BuildBox that have no meaning here are \
taken and ignored.

Exit codes: 0 if there is a result, whatever its own exit code is; otherwise 2 or 125, and FILE.error-status says why. \
See docs/cluster.md."
)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub struct RunnerArgs {
    /// The server with the contents of the action: http://HOST:PORT, https:// for TLS, or unix:PATH
    #[arg(long, value_name = "URL")]
    pub remote: Option<String>,

    /// The instance of the server
    #[arg(long, value_name = "NAME", default_value = "")]
    pub instance: String,

    /// The file with the action, an encoded `Action`
    #[arg(long, value_name = "FILE")]
    pub action: Option<PathBuf>,

    /// The file for its result, an encoded `ActionResult`; FILE.error-status gets an encoded `Status` if there is none
    #[arg(long, value_name = "FILE")]
    pub action_result: Option<PathBuf>,

    /// A file that gets standard output, too
    #[arg(long, value_name = "FILE")]
    pub stdout_file: Option<PathBuf>,

    /// A file that gets standard error, too
    #[arg(long, value_name = "FILE")]
    pub stderr_file: Option<PathBuf>,

    /// The function of all digests
    #[arg(long, value_name = "NAME", default_value = "SHA256")]
    pub digest_function: String,

    /// Leave standard output and error out of the result
    #[arg(long)]
    pub no_logs_capture: bool,

    /// Only check the options
    #[arg(long)]
    pub validate_parameters: bool,

    /// A file of certificates, in PEM, that are trusted for the server besides those of this system
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub server_cert: Option<PathBuf>,

    /// A file with a token for the server
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub access_token: Option<PathBuf>,

    /// Most real time for one request
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    pub remote_timeout: Duration,

    /// How much to say on standard error: from `info` on, a line for each action
    #[arg(long, value_name = "LEVEL", value_enum, ignore_case = true, default_value_t = LogLevel::Error)]
    pub log_level: LogLevel,

    /// As --log-level debug
    #[arg(long)]
    pub verbose: bool,

    /// Answer processes from the results that the server has for --remote-cache, and add those of processes that ran
    #[arg(long)]
    pub cache_results: bool,

    /// The directory of another toolchain; may be repeated
    #[arg(long, value_name = "DIR")]
    pub toolchain: Vec<PathBuf>,

    #[command(flatten)]
    pub limits: LimitArgs,

    #[command(flatten)]
    pub compile: CompileArgs,

    #[command(flatten)]
    pub unused: UnusedArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub enum LogLevel {
    Error,
    Warning,
    Info,
    Debug,
    Trace,
}

impl UnusedArgs {
    /// Whether the worker wants the runner to show a certificate.
    pub fn has_client_certificate(&self) -> bool {
        let is_given = |path: &Option<String>| path.as_ref().is_some_and(|path| !path.is_empty());
        is_given(&self.client_key) || is_given(&self.client_cert)
    }
}

/// What workers give to all runners, and this one has no use for.
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are options of others")]
pub struct UnusedArgs {
    #[arg(long, hide = true)]
    client_key: Option<String>,
    #[arg(long, hide = true)]
    client_cert: Option<String>,
    #[arg(long, hide = true)]
    googleapi_auth: bool,
    #[arg(long, hide = true)]
    metrics_mode: Option<String>,
    #[arg(long, hide = true)]
    metrics_publish_interval: Option<String>,
    #[arg(long, hide = true)]
    log_file: Option<String>,
    #[arg(long, hide = true)]
    ra_client_key: Option<String>,
    #[arg(long, hide = true)]
    ra_client_cert: Option<String>,
    #[arg(long, hide = true)]
    ra_googleapi_auth: bool,
    #[arg(long, hide = true)]
    retry_limit: Option<String>,
    #[arg(long, hide = true)]
    retry_delay: Option<String>,
    #[arg(long, hide = true)]
    retry_on_code: Vec<String>,
    #[arg(long, hide = true)]
    request_timeout: Option<String>,
    #[arg(long, hide = true)]
    min_throughput: Option<String>,
    #[arg(long, hide = true)]
    keepalive_time: Option<String>,
    #[arg(long, hide = true)]
    load_balancing_policy: Option<String>,
    #[arg(long, hide = true)]
    token_reload_interval: Option<String>,
    #[arg(long, hide = true)]
    partial_execution_metadata_file: Option<String>,
    #[arg(long, hide = true)]
    log_directory: Option<String>,
    #[arg(long, hide = true)]
    workspace_path: Option<String>,
    #[arg(long, hide = true)]
    staging_mode: Option<String>,
    #[arg(long, hide = true)]
    graceful_shutdown_seconds: Option<String>,
    #[arg(long, hide = true)]
    use_localcas: bool,
    #[arg(long, hide = true)]
    disable_localcas: bool,
    #[arg(long, hide = true)]
    output_bypass_local_cache: bool,
    #[arg(long, hide = true)]
    collect_execution_stats: bool,
    #[arg(long, hide = true)]
    ra_remote: Option<String>,
    #[arg(long, hide = true)]
    ra_instance: Option<String>,
    #[arg(long, hide = true)]
    ra_server_cert: Option<String>,
    #[arg(long, hide = true)]
    ra_access_token: Option<String>,
    #[arg(long, hide = true)]
    ra_token_reload_interval: Option<String>,
    #[arg(long, hide = true)]
    ra_retry_limit: Option<String>,
    #[arg(long, hide = true)]
    ra_retry_delay: Option<String>,
    #[arg(long, hide = true)]
    ra_retry_on_code: Vec<String>,
    #[arg(long, hide = true)]
    ra_request_timeout: Option<String>,
    #[arg(long, hide = true)]
    ra_min_throughput: Option<String>,
    #[arg(long, hide = true)]
    ra_keepalive_time: Option<String>,
    #[arg(long, hide = true)]
    ra_load_balancing_policy: Option<String>,
}
