//! The backend that runs programs of the host, attacked by such programs.
//!
//! Where the kernel cannot enforce a profile, its tests say so and check that the profile is
//! refused.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use belljar::native::SandboxProfile;
use belljar::net::EgressPolicy;
use belljar::sandbox::{
    ExecRequest, ExecResult, FilesystemAccess, LocalBackend, MountSource, SandboxBackend,
    SandboxError, SandboxMount, SandboxSpec,
};
use belljar::{Limits, OutputStream};

/// The policies, and the profile that enforces each.
fn policies() -> [(EgressPolicy, SandboxProfile); 2] {
    let nobody = (EgressPolicy::default(), SandboxProfile::OsHardened);
    [nobody, (LocalBackend::everybody(), SandboxProfile::Worktree)]
}

/// The [`policies`] that this machine can enforce; the others are refused.
async fn given() -> Vec<EgressPolicy> {
    let mut given = Vec::new();
    for (network_policy, profile) in policies() {
        match profile.check() {
            Ok(()) => given.push(network_policy),
            Err(error) => {
                eprintln!("skipped: {error}");
                let spec = SandboxSpec { network_policy, ..SandboxSpec::default() };
                let refused = LocalBackend::new().provision(spec).await.unwrap_err();
                assert!(matches!(refused, SandboxError::Unsupported { .. }), "{refused}");
            }
        }
    }
    given
}

fn mount(target: &str, host: &Path, access: FilesystemAccess) -> SandboxMount {
    SandboxMount { target: target.into(), source: MountSource::Host(host.into()), access }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A folder to work in, one to read, and one to which programs have no access.
struct Folders {
    root: tempfile::TempDir,
    shown: tempfile::TempDir,
    outside: tempfile::TempDir,
}

impl Folders {
    fn new() -> Self {
        let folder = || tempfile::tempdir().unwrap();
        let folders = Self { root: folder(), shown: folder(), outside: folder() };
        fs::write(folders.secret(), "hunter2").unwrap();
        fs::write(folders.shown.path().join("shown"), "shown").unwrap();
        fs::write(folders.root.path().join("mine"), "mine").unwrap();
        folders
    }

    fn secret(&self) -> PathBuf {
        self.outside.path().join("secret")
    }

    fn spec(&self, network_policy: EgressPolicy) -> SandboxSpec {
        let variable = |name: &str, dir: &tempfile::TempDir| {
            (name.to_owned(), dir.path().to_str().unwrap().to_owned())
        };
        SandboxSpec {
            mounts: vec![
                mount("/work", self.root.path(), FilesystemAccess::ReadWrite),
                mount("/shown", self.shown.path(), FilesystemAccess::ReadOnly),
            ],
            network_policy,
            env: [variable("OUTSIDE", &self.outside), variable("SHOWN", &self.shown)].into(),
            ..SandboxSpec::default()
        }
    }

    async fn sh(&self, policy: &EgressPolicy, script: &str) -> ExecResult {
        let backend = LocalBackend::new();
        let id = backend.provision(self.spec(policy.clone())).await.unwrap().id;
        let request = ExecRequest { timeout: minute(), ..ExecRequest::shell(script) };
        let result = backend.exec(&id, request).await.unwrap();
        backend.terminate(&id).await.unwrap();
        result
    }

    /// Whether the attack succeeds without a sandbox.
    fn is_done_unprotected(&self, script: &str) -> bool {
        let mut sh = Command::new("sh");
        sh.args(["-c", script]).current_dir(self.root.path());
        sh.env("OUTSIDE", self.outside.path()).env("SHOWN", self.shown.path());
        sh.stdin(Stdio::null()).output().unwrap().status.success()
    }

    fn assert_untouched(&self, after: &str) {
        for (folder, name, content) in
            [(&self.outside, "secret", "hunter2"), (&self.shown, "shown", "shown")]
        {
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{after}");
            assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), content, "{after}");
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it is the field of a request")]
fn minute() -> Option<Duration> {
    Some(Duration::from_mins(1))
}

#[tokio::test]
async fn output_of_a_local_program_is_streamed() {
    for policy in given().await {
        let folders = Folders::new();
        let backend = LocalBackend::new();
        let id = backend.provision(folders.spec(policy)).await.unwrap().id;
        let script = "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; echo three >&2";
        let request = ExecRequest { timeout: minute(), ..ExecRequest::shell(script) };
        let (stdout, pieces) = super::pieces();
        let stderr = OutputStream::Capture(Vec::new());
        let mut exec = Box::pin(backend.exec_streaming(&id, request, stdout, stderr));
        super::begin(exec.as_mut());
        assert_eq!(pieces.recv().unwrap(), b"one\n");
        super::begin(exec.as_mut());
        fs::write(folders.root.path().join("go"), "").unwrap();
        assert_eq!(pieces.recv().unwrap(), b"two\n");
        let result = exec.await.unwrap();
        assert_eq!((result.stdout, result.stderr), (Vec::new(), b"three\n".to_vec()));
        backend.terminate(&id).await.unwrap();
    }
}

#[tokio::test]
async fn local_programs_run_in_the_directories_of_their_session() {
    for policy in given().await {
        let folders = Folders::new();
        let backend = LocalBackend::new();
        let session = backend.provision(folders.spec(policy)).await.unwrap();
        assert_eq!((session.id.as_str(), session.backend.as_str()), ("session-1", "local"));
        let id = session.id.as_str();
        let script = "cat mine; cat \"$SHOWN/shown\"; echo new > made; cat; pwd; exit 3";
        let request = ExecRequest { stdin: b"input\n".into(), ..ExecRequest::shell(script) };
        let result = backend.exec(id, request).await.unwrap();
        let root = folders.root.path().canonicalize().unwrap();
        assert_eq!(text(&result.stdout), format!("mineshowninput\n{}\n", root.display()));
        assert_eq!((result.exit_code, result.timed_out, result.message), (3, false, None));
        assert_eq!(fs::read(root.join("made")).unwrap(), b"new\n", "what is done is real");

        let keep = "echo kept > $BELLJAR_MEMORY_DIR/a; echo out > $BELLJAR_OUTPUTS_DIR/b";
        assert_eq!(backend.exec(id, ExecRequest::shell(keep)).await.unwrap().exit_code, 0);
        let seen = "cat $BELLJAR_MEMORY_DIR/a $BELLJAR_OUTPUTS_DIR/b; echo $BELLJAR_MEMORY_DIR";
        let result = backend.exec(id, ExecRequest::shell(seen)).await.unwrap();
        let lines: Vec<&str> = text(&result.stdout).lines().collect();
        assert_eq!(lines[..2], ["kept", "out"]);
        let own = PathBuf::from(lines[2]);
        assert!(own.is_dir());
        backend.terminate(id).await.unwrap();
        assert!(!own.exists() && !own.parent().unwrap().exists(), "it goes with the session");
    }
}

#[tokio::test]
async fn local_exec_reports_its_outcome() {
    let Some(network_policy) = given().await.pop() else { return };
    let folders = Folders::new();
    let backend = LocalBackend::new();
    let limits = Limits { output_bytes_max: 1000, ..Limits::default() };
    let spec = SandboxSpec { limits, ..folders.spec(network_policy) };
    let id = backend.provision(spec).await.unwrap().id;
    let exec = |request: ExecRequest| backend.exec(&id, request);
    let killed = exec(ExecRequest::shell("kill -9 $$")).await.unwrap();
    assert_eq!((killed.exit_code, killed.timed_out), (137, false));
    let timeout = Some(Duration::from_millis(300));
    let slow = ExecRequest { timeout, ..ExecRequest::shell("echo begun; sleep 60") };
    let slow = exec(slow).await.unwrap();
    assert_eq!((slow.exit_code, slow.timed_out, text(&slow.stdout)), (124, true, "begun\n"));
    let loud = exec(ExecRequest::shell("echo begun; yes")).await.unwrap();
    assert_eq!((loud.exit_code, loud.timed_out), (134, false));
    assert!(loud.stdout.len() <= 1000 && loud.message.unwrap().contains("output"));
    let missing = exec(ExecRequest::new("nothing-of-that-name", [""; 0])).await.unwrap_err();
    assert!(matches!(missing, SandboxError::Exec { is_found: false, .. }), "{missing}");
    let refused = exec(ExecRequest::new("./mine", [""; 0])).await.unwrap_err();
    assert!(matches!(refused, SandboxError::Exec { is_found: true, .. }), "{refused}");
}

/// The environment of the process that starts a sandbox often holds keys.
#[tokio::test]
async fn local_program_has_only_the_variables_of_its_session() {
    for policy in given().await {
        let folders = Folders::new();
        let result = folders.sh(&policy, "env | sed 's/=.*//' | sort").await;
        let known = [
            "BELLJAR_MEMORY_DIR",
            "BELLJAR_OUTPUTS_DIR",
            "OLDPWD",
            "OUTSIDE",
            "PATH",
            "PWD",
            "SHLVL",
            "SHOWN",
            "TEMP",
            "TMP",
            "TMPDIR",
            "_",
        ];
        let others: Vec<&str> =
            text(&result.stdout).lines().filter(|name| !known.contains(name)).collect();
        assert_eq!(others, [""; 0]);
    }
}

#[tokio::test]
async fn local_program_can_write_only_to_its_directories() {
    let attacks = [
        "echo x > \"$OUTSIDE/new\"",
        "echo x >> \"$OUTSIDE/secret\"",
        "rm \"$OUTSIDE/secret\"",
        "mv mine \"$OUTSIDE/given\"",
        "ln -s \"$OUTSIDE/secret\" link && echo x > link",
        "echo x > \"../${OUTSIDE##*/}/new\"",
        "(setsid sh -c 'echo x > \"$OUTSIDE/new\"')",
        "echo x > \"$SHOWN/new\"",
        "echo x > \"$SHOWN/shown\"",
        "rm \"$SHOWN/shown\"",
        "mv mine \"$SHOWN/given\"",
        "ln -s \"$SHOWN\" dir && echo x > dir/new",
    ];
    for attack in attacks {
        assert!(Folders::new().is_done_unprotected(attack), "without a sandbox: {attack}");
    }
    for policy in given().await {
        for attack in attacks {
            let folders = Folders::new();
            let result = folders.sh(&policy, attack).await;
            assert_ne!(result.exit_code, 0, "{attack}: {result:?}");
            folders.assert_untouched(attack);
        }
    }
}

#[tokio::test]
async fn local_program_without_network_cannot_read_secrets() {
    let nobody = EgressPolicy::default();
    let given = given().await;
    let attacks = ["cat \"$OUTSIDE/secret\"", "ls \"$OUTSIDE\"", "cat /etc/passwd", "ls /"];
    for attack in attacks {
        assert!(Folders::new().is_done_unprotected(attack), "without a sandbox: {attack}");
        if given.contains(&nobody) {
            let result = Folders::new().sh(&nobody, attack).await;
            assert!(result.exit_code != 0 && result.stdout.is_empty(), "{attack}: {result:?}");
        }
    }
    if given.contains(&LocalBackend::everybody()) {
        let result = Folders::new().sh(&LocalBackend::everybody(), attacks[0]).await;
        assert_eq!(text(&result.stdout), "hunter2", "whoever may send may read");
    }
}

#[tokio::test]
async fn local_program_without_network_cannot_connect() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}", listener.local_addr().unwrap().port());
    let Ok(unconfined) = Command::new("bash").args(["-c", &script]).status() else {
        eprintln!("skipped: no bash");
        return;
    };
    assert!(unconfined.success(), "without a sandbox it connects");
    listener.accept().unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut stranger = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    for policy in given().await {
        let may = policy == LocalBackend::everybody();
        let folders = Folders::new();
        let result = folders.sh(&policy, &format!("bash -c '{script}'")).await;
        assert_eq!((result.exit_code == 0, listener.accept().is_ok()), (may, may), "{result:?}");
        let result = folders.sh(&policy, &format!("kill -0 {}", stranger.id())).await;
        assert_eq!(result.exit_code == 0, may, "a stranger is signalled: {result:?}");
        if !may {
            folders.sh(&policy, &format!("kill -9 {}", stranger.id())).await;
        }
        assert!(stranger.try_wait().unwrap().is_none());
    }
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[tokio::test]
async fn local_session_refuses_rules_that_it_cannot_enforce() {
    let backend = LocalBackend::new();
    let refused = |error: SandboxError| {
        assert!(matches!(&error, SandboxError::Unsupported { backend, .. } if backend == "local"));
        error.to_string()
    };
    let rule = || "example.com".parse().unwrap();
    for network_policy in [
        EgressPolicy::default().allow(rule()),
        EgressPolicy::default().deny(rule()),
        EgressPolicy::allow_by_default(),
        EgressPolicy::allow_by_default().deny(rule()),
    ] {
        let spec = SandboxSpec { network_policy, ..SandboxSpec::default() };
        let why = refused(backend.provision(spec).await.unwrap_err());
        assert!(why.contains("LocalBackend::everybody"), "{why}");
    }
    let limits = Limits { memory_bytes_max: 1 << 20, ..Limits::default() };
    let spec = SandboxSpec { limits, ..SandboxSpec::default() };
    assert!(refused(backend.provision(spec).await.unwrap_err()).contains("output_bytes_max"));
    refused(backend.resume("snapshot-1").await.unwrap_err());
    assert_eq!(backend.session_ids(), [""; 0]);
    for policy in given().await {
        let folders = Folders::new();
        let id = backend.provision(folders.spec(policy)).await.unwrap().id;
        refused(backend.snapshot(&id).await.unwrap_err());
        let policy = EgressPolicy::default().allow(rule());
        refused(backend.apply_network_policy(&id, policy).await.unwrap_err());
        assert_eq!(
            backend.exec(&id, ExecRequest::shell("cat mine")).await.unwrap().stdout,
            b"mine"
        );
        backend.terminate(&id).await.unwrap();
    }
}

#[tokio::test]
async fn nested_writable_mounts_of_a_local_session_are_refused() {
    use FilesystemAccess::{ReadOnly, ReadWrite};
    let Some(policy) = given().await.pop() else { return };
    let backend = LocalBackend::new();
    let outer = tempfile::tempdir().unwrap();
    let inner = outer.path().join("inner");
    fs::create_dir(&inner).unwrap();
    for (first, second, is_refused) in [
        (ReadWrite, ReadWrite, true),
        (ReadWrite, ReadOnly, true),
        (ReadOnly, ReadWrite, true),
        (ReadOnly, ReadOnly, false),
    ] {
        let mounts = vec![mount("/a", outer.path(), first), mount("/b", &inner, second)];
        let network_policy = policy.clone();
        let spec = SandboxSpec { mounts, network_policy, ..SandboxSpec::default() };
        let made = backend.provision(spec).await;
        let is_unsupported = matches!(&made, Err(SandboxError::Unsupported { .. }));
        assert_eq!(is_unsupported, is_refused, "{made:?}");
    }
    let mounts = vec![mount("/a", &std::env::temp_dir(), ReadWrite)];
    let spec = SandboxSpec { mounts, network_policy: policy, ..SandboxSpec::default() };
    let holds_its_own = backend.provision(spec).await;
    assert!(matches!(holds_its_own, Err(SandboxError::Unsupported { .. })), "{holds_its_own:?}");
}

#[tokio::test]
async fn mount_targets_of_a_local_session_name_host_directories() {
    for policy in given().await {
        let (folders, more) = (Folders::new(), tempfile::tempdir().unwrap());
        fs::create_dir(folders.root.path().join("sub")).unwrap();
        let backend = LocalBackend::new();
        let mut spec = folders.spec(policy);
        spec.mounts.insert(0, mount("/work", &folders.secret(), FilesystemAccess::ReadWrite));
        let session = backend.provision(spec).await.unwrap();
        let targets: Vec<&str> = session.mounts.iter().map(|mount| &*mount.target).collect();
        assert_eq!(targets, ["/mnt/memory", "/mnt/session/outputs", "/work", "/shown"]);
        let id = session.id.as_str();
        let pwd = async |cwd: &str| {
            let cwd = Some(cwd.to_owned());
            let result = backend.exec(id, ExecRequest { cwd, ..ExecRequest::shell("pwd") }).await;
            result.map(|result| PathBuf::from(text(&result.stdout).trim()))
        };
        let root = folders.root.path().canonicalize().unwrap();
        assert_eq!(pwd("/work/sub").await.unwrap(), root.join("sub"), "the last one wins");
        assert_eq!(pwd("/work/./sub/..").await.unwrap(), root);
        for nowhere in ["/", "/working", "/work/nothing", "/../work", "/etc"] {
            let error = pwd(nowhere).await.unwrap_err();
            assert!(matches!(error, SandboxError::InvalidRequest { .. }), "{nowhere}: {error}");
        }
        let over = mount("/work", more.path(), FilesystemAccess::ReadWrite);
        let error = backend.attach_filesystem(id, over).await.unwrap_err();
        assert!(matches!(error, SandboxError::Lifecycle { .. }), "{error}");
        let script = ExecRequest::shell(format!("echo x > {}/new", more.path().display()));
        assert_ne!(backend.exec(id, script.clone()).await.unwrap().exit_code, 0);
        let beside = mount("/more", more.path(), FilesystemAccess::ReadWrite);
        backend.attach_filesystem(id, beside).await.unwrap();
        assert_eq!(backend.exec(id, script).await.unwrap().exit_code, 0);
        assert_eq!(pwd("/more").await.unwrap(), more.path().canonicalize().unwrap());
        assert_eq!(pwd("/work").await.unwrap(), root);
    }
}
