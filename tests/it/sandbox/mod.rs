//! Sandboxes: their results, forks and ends.

mod copies;
mod forks;
pub mod home;
mod hostile;
mod hosts;
mod kills;
mod lifecycle;
mod living;
mod living_model;
mod local;
mod model;
#[cfg(target_os = "linux")]
mod moment;
mod parts;
mod rebased;
mod refreshed;

use std::io::Read;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use belljar::kernel::vfs::{VPath, render_unified_diff};
use belljar::process::ShellImage;
use belljar::sandbox::{
    ExecRequest, ExecResult, FilesystemAccess, MountSource, Sandbox, SandboxBackend, SandboxError,
    SandboxMount, SandboxSpec, SnapshotStore, WasiBackend,
};
use belljar::{Digest, OutputStream, ToolchainPrograms, Toolchains};

use crate::support::engine;

static PROGRAMS: LazyLock<Arc<ToolchainPrograms>> = LazyLock::new(|| {
    let programs = ToolchainPrograms::new(engine(), Toolchains::default());
    Arc::new(programs.with("sh", ShellImage::maker()))
});

fn sandbox(spec: SandboxSpec) -> Sandbox {
    Sandbox::provision(PROGRAMS.clone(), spec).unwrap()
}

fn backend() -> WasiBackend {
    WasiBackend::new(PROGRAMS.clone())
}

/// Stores `bytes` under `digest`, even if it is not their digest.
fn keep(store: &SnapshotStore, digest: Digest, bytes: &[u8]) {
    let mut read = |offset: u64, buf: &mut [u8]| (&bytes[offset as usize..]).read(buf);
    store.cas().put(digest, &mut read).unwrap();
}

fn sh(sandbox: &mut Sandbox, script: &str) -> String {
    let result = sandbox.exec(&ExecRequest::shell(script)).unwrap();
    assert_eq!(result.exit_code, 0, "{script}: {}", String::from_utf8_lossy(&result.stderr));
    String::from_utf8(result.stdout).unwrap()
}

/// All changes of a session, if they can be determined.
fn told(mut sandbox: Sandbox) -> Option<String> {
    render_unified_diff(&sandbox.diff().ok()?, &VPath::root()).ok()
}

#[test]
fn files_clock_and_random_stream_persist_in_a_session() {
    let mut sandbox = sandbox(SandboxSpec::default());
    assert_eq!(sh(&mut sandbox, "echo kept > /mnt/memory/note; sleep 5; date +%s"), "2114380805\n");
    assert_eq!(sh(&mut sandbox, "cat $BELLJAR_MEMORY_DIR/note; date +%s"), "kept\n2114380805\n");
    assert_eq!(sh(&mut sandbox, "cd $BELLJAR_OUTPUTS_DIR && pwd"), "/mnt/session/outputs\n");
}

/// Regression: the output was shown as a list of numbers.
#[test]
fn debug_output_of_a_result_shows_text() {
    let mut sandbox = sandbox(SandboxSpec::default());
    let result = sandbox.exec(&ExecRequest::shell("echo out; echo err >&2")).unwrap();
    let shown = format!("{result:?}");
    assert!(shown.contains(r#"stdout: "out\n", stderr: "err\n", exit_code: 0"#), "{shown}");
}

#[test]
fn a_fork_and_its_origin_go_on_by_themselves() {
    let mut origin = sandbox(SandboxSpec::default());
    sh(&mut origin, "mkdir /tmp/d; echo one > /tmp/d/a; ln /tmp/d/a /tmp/b; sleep 1");
    let mut fork = origin.fork().unwrap();
    sh(&mut fork, "echo two >> /tmp/b; rm -r /tmp/d; sleep 10");
    sh(&mut origin, "echo three > /tmp/c");
    assert_eq!(sh(&mut fork, "cat /tmp/b; ls /tmp; date +%s"), "one\ntwo\nb\n2114380811\n");
    assert_eq!(sh(&mut origin, "cat /tmp/b; ls /tmp; date +%s"), "one\nb\nc\nd\n2114380802\n");
}

#[test]
fn snapshot_is_resumed_from_a_directory() {
    let (folder, host) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(host.path().join("kept"), "host\n").unwrap();
    let mount = SandboxMount {
        target: "/work".into(),
        source: MountSource::Host(host.path().into()),
        access: FilesystemAccess::ReadWrite,
    };
    let mut origin = sandbox(SandboxSpec { mounts: vec![mount], ..SandboxSpec::default() });
    sh(&mut origin, "cat /work/kept > /work/copy; rm /work/kept; seq 100000 > /work/long; sleep 3");
    let store = SnapshotStore::new(folder.path());
    let id = store.save(&mut origin).unwrap();
    assert_eq!(store.save(&mut origin).unwrap(), id, "the same state has the same id");
    sh(&mut origin, "echo later > /work/copy");
    for _ in 0..2 {
        let mut resumed = store.resume(id, PROGRAMS.clone()).unwrap();
        let shown = sh(&mut resumed, "ls /work; cat /work/copy; tail -n 1 /work/long; date +%s");
        assert_eq!(shown, "copy\nlong\nhost\n100000\n2114380803\n");
    }
    let parts = store.parts_of(id).unwrap();
    assert!(parts.len() >= 2, "the long file stands by itself");
    let right = told(store.resume(id, PROGRAMS.clone()).unwrap());
    assert!(right.is_some());
    for part in parts {
        let path = store.cas().path_of(part);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&bytes[..], b"x"].concat()).unwrap();
        let resumed = store.resume(id, PROGRAMS.clone());
        // What was only read may still be on the disk.
        let told = resumed.ok().and_then(told);
        assert!(told.is_none() || told == right, "{}", path.display());
        std::fs::write(&path, bytes).unwrap();
    }
    store.resume(id, PROGRAMS.clone()).unwrap();
}

#[test]
fn exec_reports_its_outcome() {
    let mut sandbox = sandbox(SandboxSpec::default());
    let mut exec = |request: ExecRequest| sandbox.exec(&request);
    let run = |result: Result<ExecResult, _>| {
        let result = result.unwrap();
        (result.exit_code, result.timed_out)
    };
    assert_eq!(run(exec(ExecRequest::shell("exit 3"))), (3, false));
    assert_eq!(run(exec(ExecRequest::shell("kill -9 $$"))), (137, false));
    let timeout = Some(Duration::from_secs(5));
    let slow = ExecRequest { timeout, ..ExecRequest::new("sleep", ["60"]) };
    assert_eq!(run(exec(slow)), (124, true));
    let quick = ExecRequest { timeout, ..ExecRequest::new("sleep", ["4"]) };
    assert_eq!(run(exec(quick)), (0, false), "time that has passed before does not count");
    let error = exec(ExecRequest::new("nothing-of-that-name", [""; 0])).unwrap_err();
    assert!(matches!(error, SandboxError::Exec { .. }), "{error}");
    let nowhere = ExecRequest { cwd: Some("/nowhere".into()), ..ExecRequest::shell(":") };
    assert!(matches!(exec(nowhere), Err(SandboxError::InvalidRequest { .. })));
}

#[tokio::test]
async fn ids_are_given_once() {
    let backend = backend();
    let spec = |id: &str| SandboxSpec { session_id: id.into(), ..SandboxSpec::default() };
    let made = backend.provision(spec("")).await.unwrap();
    let chosen = backend.provision(spec("mine")).await.unwrap();
    assert_eq!((made.id.as_str(), chosen.id.as_str()), ("session-1", "mine"));
    for id in ["session-1", "mine"] {
        let lifecycle = |error: &SandboxError| matches!(error, SandboxError::Lifecycle { .. });
        assert!(lifecycle(&backend.provision(spec(id)).await.unwrap_err()), "{id} is there");
        backend.terminate(id).await.unwrap();
        assert!(lifecycle(&backend.terminate(id).await.unwrap_err()), "{id} was terminated");
        assert!(lifecycle(&backend.exec(id, ExecRequest::shell(":")).await.unwrap_err()));
        assert!(lifecycle(&backend.snapshot(id).await.unwrap_err()));
        assert!(lifecycle(&backend.provision(spec(id)).await.unwrap_err()), "{id} was given");
    }
    let unknown = backend.exec("session-2", ExecRequest::shell(":")).await.unwrap_err();
    assert!(matches!(unknown, SandboxError::SessionNotFound { .. }));
    assert_eq!(backend.session_ids(), [""; 0]);
}

/// A writer that blocks each write until it receives a message.
struct Gate(std::sync::mpsc::Receiver<()>);

impl std::io::Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.recv().map_err(std::io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Polls a future, which must be pending.
fn begin(future: Pin<&mut (impl Future + ?Sized)>) {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(future.poll(&mut context).is_pending());
}

#[tokio::test]
async fn execs_of_a_session_run_in_the_order_of_their_requests() {
    let backend = backend();
    let id = backend.provision(SandboxSpec::default()).await.unwrap().id;
    let run = |number: usize| {
        backend.exec(&id, ExecRequest::shell(format!("sleep 1; echo {number} >> /tmp/order")))
    };
    let (open, gate) = std::sync::mpsc::channel();
    let gate = OutputStream::Writer(Box::new(Gate(gate)));
    let hello = ExecRequest::shell("echo hello");
    let mut first = Box::pin(backend.exec_streaming(&id, hello, gate, OutputStream::Discard));
    begin(first.as_mut());
    let (mut a, mut b, mut c) = (run(1), run(2), run(3));
    // The execs run in the order in which they are first polled.
    for future in [&mut b, &mut c, &mut a] {
        begin(future.as_mut());
    }
    open.send(()).unwrap();
    let (first, a, b, c) = tokio::join!(first, a, b, c);
    for result in [first, a, b, c] {
        assert_eq!(result.unwrap().exit_code, 0);
    }
    let order = backend.with_session(&id, |sandbox| sandbox.files().read("/tmp/order")).await;
    assert_eq!(order.unwrap().unwrap(), b"2\n3\n1\n");
}

/// A writer that sends each piece over a channel, and blocks until it is received.
struct Pieces(std::sync::mpsc::SyncSender<Vec<u8>>);

impl std::io::Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.send(bytes.to_vec()).map_err(std::io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn pieces() -> (OutputStream, std::sync::mpsc::Receiver<Vec<u8>>) {
    let (sender, pieces) = std::sync::mpsc::sync_channel(0);
    (OutputStream::Writer(Box::new(Pieces(sender))), pieces)
}

#[tokio::test]
async fn output_is_streamed() {
    let backend = backend();
    let id = backend.provision(SandboxSpec::default()).await.unwrap().id;
    let (stdout, pieces) = pieces();
    let script = ExecRequest::shell("echo one; echo two; echo three >&2");
    let stderr = OutputStream::Capture(Vec::new());
    let mut exec = Box::pin(backend.exec_streaming(&id, script, stdout, stderr));
    begin(exec.as_mut());
    assert_eq!(pieces.recv().unwrap(), b"one\n");
    begin(exec.as_mut());
    assert_eq!(pieces.recv().unwrap(), b"two\n");
    let result = exec.await.unwrap();
    assert_eq!((result.stdout, result.stderr), (Vec::new(), b"three\n".to_vec()));
}

#[tokio::test]
async fn started_exec_runs_to_its_end_when_its_future_is_dropped() {
    let backend = backend();
    let id = backend.provision(SandboxSpec::default()).await.unwrap().id;
    let (open, gate) = std::sync::mpsc::channel();
    let gate = OutputStream::Writer(Box::new(Gate(gate)));
    let slow = ExecRequest::shell("echo hello; sleep 9; echo 1 >> /tmp/n");
    let mut first = Box::pin(backend.exec_streaming(&id, slow, gate, OutputStream::Discard));
    let mut second = backend.exec(&id, ExecRequest::shell("echo 2 >> /tmp/n"));
    begin(first.as_mut());
    begin(second.as_mut());
    drop((first, second));
    open.send(()).unwrap();
    let after = backend.exec(&id, ExecRequest::shell("cat /tmp/n; date +%s")).await;
    assert_eq!(after.unwrap().stdout, b"1\n2114380810\n");
}

#[tokio::test]
async fn a_snapshot_is_resumed_any_number_of_times() {
    let backend = backend();
    let origin = backend.provision(SandboxSpec::default()).await.unwrap().id;
    backend.exec(&origin, ExecRequest::shell("echo 0 > /tmp/n")).await.unwrap();
    let snapshot = backend.snapshot(&origin).await.unwrap();
    backend.terminate(&origin).await.unwrap();
    for attempt in 1..4 {
        let fork = backend.resume(&snapshot).await.unwrap().id;
        let script = format!("cat /tmp/n; echo {attempt} > /tmp/n; cat /tmp/n");
        let result = backend.exec(&fork, ExecRequest::shell(script)).await.unwrap();
        assert_eq!(String::from_utf8(result.stdout).unwrap(), format!("0\n{attempt}\n"));
    }
    backend.drop_snapshot(&snapshot).unwrap();
    assert!(backend.resume(&snapshot).await.is_err());
}

/// Each session has its own rules, which can change at any time; forks copy them.
#[cfg(feature = "http")]
#[test]
fn session_reaches_only_hosts_that_its_policy_allows() {
    use belljar::host::HostError;
    use belljar::net::EgressPolicy;
    use serde_json::json;

    const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    let server = crate::http::Server::saying(&[HELLO, HELLO]);
    let params = json!({ "url": server.url("/") });
    let ask = |sandbox: &mut Sandbox| sandbox.host_call("net.http", &params);
    let mut closed = sandbox(SandboxSpec::default());
    assert!(matches!(ask(&mut closed), Err(HostError::EgressBlocked { .. })));
    let network_policy = server.policy();
    let mut open = sandbox(SandboxSpec { network_policy, ..SandboxSpec::default() });
    assert_eq!(ask(&mut open).unwrap()["body"], "hello");
    let mut fork = open.fork().unwrap();
    open.apply_network_policy(EgressPolicy::default());
    assert!(matches!(ask(&mut open), Err(HostError::EgressBlocked { .. })));
    assert_eq!(ask(&mut fork).unwrap()["body"], "hello");
}
