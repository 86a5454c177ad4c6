//! The hosts of sessions: which rules apply in a session and in its forks.

use std::sync::Arc;

use belljar::host::{BridgeAnswer, CommandPolicy, HostBridge, SessionHost, SessionHostBuilder};
use belljar::sandbox::{ExecRequest, Sandbox, SandboxBackend, SandboxSpec};
use serde_json::{Value, json};

use super::{backend, sandbox};

struct Answering;

impl HostBridge for Answering {
    fn dispatch(&self, capability: &str, operation: &str, params: &Value) -> BridgeAnswer {
        match (capability, operation) {
            ("db", "query") => BridgeAnswer::Value(json!([params["table"]])),
            _ => BridgeAnswer::NotMine,
        }
    }
}

/// A host with the policy that the session's metadata names.
fn host(spec: &SandboxSpec) -> SessionHostBuilder {
    let denied = spec.metadata.get("denied").map_or("nothing", String::as_str);
    let policy = CommandPolicy::new().deny(denied).unwrap();
    SessionHost::builder().policy(policy).bridge(Arc::new(Answering)).task("tidy up")
}

fn denying(denied: &str) -> SandboxSpec {
    let metadata = [("denied".to_owned(), denied.to_owned())].into();
    SandboxSpec { metadata, ..SandboxSpec::default() }
}

/// The standard error of `script`.
fn says(sandbox: &mut Sandbox, script: &str) -> String {
    let result = sandbox.exec(&ExecRequest::shell(script)).unwrap();
    String::from_utf8(result.stderr).unwrap()
}

#[tokio::test]
async fn sessions_of_a_backend_have_the_hosts_that_it_makes() {
    let folder = tempfile::tempdir().unwrap();
    let backend = backend().host(host);
    let one = backend.provision(denying("rm *")).await.unwrap().id;
    let other = backend.provision(denying("cat")).await.unwrap().id;
    let snapshot = backend.snapshot(&one).await.unwrap();
    let fork = backend.resume(&snapshot).await.unwrap().id;
    let digest = backend.export_snapshot(&snapshot, folder.path()).unwrap();
    let imported = backend.import_snapshot(folder.path(), digest).unwrap();
    let imported = backend.resume(&imported).await.unwrap().id;
    for (id, blocks_rm) in [(one, true), (other, false), (fork, true), (imported, true)] {
        let script = ExecRequest::shell("echo x > /tmp/x; rm /tmp/x");
        let blocked = String::from_utf8(backend.exec(&id, script).await.unwrap().stderr).unwrap();
        assert_eq!(blocked.contains("deny `rm *`"), blocks_rm, "{id}: {blocked}");
        let query = backend.host_call(&id, "db.query", json!({ "table": "a" })).await.unwrap();
        assert_eq!(query.unwrap(), json!(["a"]));
        let task = backend.host_call(&id, "runtime.task", json!({})).await.unwrap();
        assert_eq!(task.unwrap(), "tidy up");
    }
}

#[test]
fn host_of_a_session_is_inherited_by_forks() {
    let mut origin = sandbox(denying("rm *"));
    assert_eq!(says(&mut origin, "echo x > /tmp/x; rm /tmp/x"), "");
    origin.set_host(Arc::new(host));
    let mut fork = origin.fork().unwrap();
    for sandbox in [&mut origin, &mut fork] {
        assert!(says(sandbox, "echo x > /tmp/x; rm /tmp/x").contains("deny `rm *`"));
    }
}

/// Regression: a sandbox could not be given a command policy.
#[test]
fn a_command_policy_holds_for_programs_and_for_calls() {
    let mut sandbox = sandbox(denying("rm *"));
    sandbox.set_host(Arc::new(host));
    let remove = ExecRequest::shell("x=rm; echo kept > /tmp/a; $x /tmp/a; cat /tmp/a");
    assert_eq!(sandbox.exec(&remove).unwrap().stdout, b"kept\n");
    let asked = sandbox.host_call("process.exec", &json!({ "argv": ["rm", "/tmp/a"] })).unwrap();
    assert_eq!(asked["status"], "blocked");
}

#[cfg(feature = "http")]
#[test]
fn credentials_stay_when_the_network_policy_changes_and_are_in_no_snapshot() {
    use belljar::net::EgressPolicy;
    use belljar::net::{Credential, Credentials, HttpClient};
    use belljar::sandbox::SnapshotStore;

    use super::PROGRAMS;

    const SECRET: &str = "correct-horse-battery";
    let echo = format!("HTTP/1.1 200 OK\r\ncontent-length: 23\r\n\r\n<{SECRET}>");
    let server = crate::http::Server::saying(&[&echo]);
    let make_host = |_: &SandboxSpec| {
        let value = format!("Bearer {SECRET}");
        let host = "127.0.0.1".parse().unwrap();
        let mut credentials = Credentials::default();
        credentials.push(Credential::new("token", host, "Authorization", value).unwrap());
        // The session's policy applies, not this client's.
        let client = HttpClient::new(EgressPolicy::allow_by_default());
        SessionHost::builder().http(client.credentials(credentials))
    };
    let spec = SandboxSpec::default();
    let mut origin = Sandbox::provision_with(PROGRAMS.clone(), spec, Arc::new(make_host)).unwrap();
    let params = json!({ "url": server.url("/") });
    let blocked = origin.host_call("net.http", &params);
    assert!(blocked.is_err(), "the policy of the session counts: {blocked:?}");
    origin.apply_network_policy(server.policy());
    let answer = origin.fork().unwrap().host_call("net.http", &params).unwrap();
    assert_eq!(answer["body"], "<[redacted]>");
    assert!(server.request().contains(&format!("authorization: Bearer {SECRET}")));

    let folder = tempfile::tempdir().unwrap();
    SnapshotStore::new(folder.path()).save(&mut origin).unwrap();
    for (path, bytes) in crate::support::tree(folder.path()) {
        assert!(!String::from_utf8_lossy(&bytes).contains(SECRET), "{path}");
    }
}
