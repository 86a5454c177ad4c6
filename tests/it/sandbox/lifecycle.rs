//! Requests that backends refuse, each with its own error.

use std::collections::BTreeMap;

use belljar::net::EgressPolicy;
use belljar::sandbox::{
    ExecRequest, FilesystemAccess, LocalBackend, MountSource, SandboxBackend, SandboxError,
    SandboxMount, SandboxSpec, SessionState,
};

use super::{backend, sandbox, sh};

fn memory(target: &str) -> SandboxMount {
    let access = FilesystemAccess::ReadWrite;
    SandboxMount { target: target.into(), source: MountSource::Memory, access }
}

/// The WASI backend, and the local backend under each profile that this machine can enforce.
fn backends() -> Vec<(Box<dyn SandboxBackend>, SandboxSpec)> {
    let mut backends: Vec<(Box<dyn SandboxBackend>, _)> =
        vec![(Box::new(backend()), SandboxSpec::default())];
    let policies = [
        (EgressPolicy::default(), belljar::native::SandboxProfile::OsHardened),
        (LocalBackend::everybody(), belljar::native::SandboxProfile::Worktree),
    ];
    for (network_policy, profile) in policies {
        if profile.check().is_ok() {
            let spec = SandboxSpec { network_policy, ..SandboxSpec::default() };
            backends.push((Box::new(LocalBackend::new()), spec));
        }
    }
    backends
}

#[tokio::test]
async fn backends_report_their_capabilities() {
    for (backend, spec) in backends() {
        let can = backend.capabilities();
        let is_local = backend.name() == "local";
        assert_eq!((can.local_process_sandbox, can.network_policy), (is_local, !is_local));
        assert_eq!(
            (can.snapshot, can.resume, can.suspend_on_idle),
            (!is_local, !is_local, !is_local)
        );
        let metadata = BTreeMap::from([("task".to_owned(), "7".to_owned())]);
        let mounts = vec![memory("/work/")];
        let spec = SandboxSpec { metadata: metadata.clone(), mounts, ..spec };
        let session = backend.provision(spec).await.unwrap();
        assert_eq!(
            (session.backend.as_str(), session.state),
            (backend.name(), SessionState::Ready)
        );
        assert_eq!((session.metadata, session.id.as_str()), (metadata, "session-1"));
        assert_eq!(session.mounts.last(), Some(&memory("/work")));
    }
}

#[tokio::test]
async fn network_policy_can_be_changed() {
    let backend = backend();
    let id = backend.provision(SandboxSpec::default()).await.unwrap().id;
    let policy = EgressPolicy::default().allow("example.com".parse().unwrap());
    backend.apply_network_policy(&id, policy.clone()).await.unwrap();
    let fork = backend.resume(&backend.snapshot(&id).await.unwrap()).await.unwrap().id;
    backend.apply_network_policy(&id, EgressPolicy::default()).await.unwrap();
    for (id, expected) in [(id, EgressPolicy::default()), (fork, policy)] {
        let is = backend.with_session(&id, |sandbox| sandbox.network_policy().clone()).await;
        assert_eq!(is.unwrap(), expected);
    }
}

#[tokio::test]
async fn snapshot_moves_between_backends() {
    let (one, two, folder) = (backend(), backend(), tempfile::tempdir().unwrap());
    let id = one.provision(SandboxSpec::default()).await.unwrap().id;
    one.exec(&id, ExecRequest::shell("echo kept > /tmp/note")).await.unwrap();
    let snapshot = one.snapshot(&id).await.unwrap();
    let digest = one.export_snapshot(&snapshot, folder.path()).unwrap();
    let imported = two.import_snapshot(folder.path(), digest).unwrap();
    let resumed = two.resume(&imported).await.unwrap().id;
    let shown = two.exec(&resumed, ExecRequest::new("cat", ["/tmp/note"])).await.unwrap();
    assert_eq!(shown.stdout, b"kept\n");
    std::fs::remove_file(folder.path().join(digest.to_string())).unwrap();
    let error = two.import_snapshot(folder.path(), digest).unwrap_err();
    assert!(matches!(error, SandboxError::Io { .. }), "{error}");
    let error = one.export_snapshot("snapshot-9", folder.path()).unwrap_err();
    assert!(matches!(error, SandboxError::SessionNotFound { .. }), "{error}");
}

#[tokio::test]
async fn a_session_that_was_terminated_does_nothing_more() {
    for (backend, spec) in backends() {
        let name = backend.name().to_owned();
        let id = backend.provision(spec.clone()).await.unwrap().id;
        backend.terminate(&id).await.unwrap();
        let lifecycle = |error: SandboxError, what: &str| {
            assert!(matches!(error, SandboxError::Lifecycle { .. }), "{name}: {what}: {error}");
            assert!(error.to_string().contains(&id), "{error}");
        };
        lifecycle(backend.terminate(&id).await.unwrap_err(), "terminate");
        lifecycle(backend.exec(&id, ExecRequest::shell(":")).await.unwrap_err(), "exec");
        lifecycle(backend.snapshot(&id).await.unwrap_err(), "snapshot");
        lifecycle(backend.attach_filesystem(&id, memory("/x")).await.unwrap_err(), "attach");
        let policy = backend.apply_network_policy(&id, EgressPolicy::default()).await;
        lifecycle(policy.unwrap_err(), "policy");
        let again = SandboxSpec { session_id: id.clone(), ..spec };
        lifecycle(backend.provision(again).await.unwrap_err(), "provision");
    }
}

#[tokio::test]
async fn unknown_session_is_not_found() {
    for (backend, _) in backends() {
        for id in ["session-1", "nobody", "", "../x"] {
            let missing = |error: SandboxError| {
                assert!(matches!(error, SandboxError::SessionNotFound { .. }), "{id}: {error}");
            };
            missing(backend.terminate(id).await.unwrap_err());
            missing(backend.exec(id, ExecRequest::shell(":")).await.unwrap_err());
            missing(backend.snapshot(id).await.unwrap_err());
            missing(backend.attach_filesystem(id, memory("/x")).await.unwrap_err());
            let policy = backend.apply_network_policy(id, EgressPolicy::default()).await;
            missing(policy.unwrap_err());
            if backend.capabilities().resume {
                missing(backend.resume(id).await.unwrap_err());
            }
        }
    }
}

#[tokio::test]
async fn invalid_requests_are_refused() {
    for (backend, spec) in backends() {
        let invalid = |error: SandboxError, field: &str| {
            let is_it =
                matches!(&error, SandboxError::InvalidRequest { field: is, .. } if is == field);
            assert!(is_it, "{field}: {error:?}");
        };
        let env = |key: &str| BTreeMap::from([(key.to_owned(), "x".to_owned())]);
        let id = backend.provision(spec.clone()).await.unwrap().id;
        for key in ["", "1A", "A=B", "A B", "A\0"] {
            let request = ExecRequest { env: env(key), ..ExecRequest::shell(":") };
            invalid(backend.exec(&id, request).await.unwrap_err(), "env");
            let spec = SandboxSpec { env: env(key), ..spec.clone() };
            invalid(backend.provision(spec).await.unwrap_err(), "env");
        }
        for target in ["work", "", "/../x", "/a\0"] {
            let mounts = vec![memory(target)];
            let spec = SandboxSpec { mounts, ..spec.clone() };
            invalid(backend.provision(spec).await.unwrap_err(), "mounts");
            let attached = backend.attach_filesystem(&id, memory(target)).await;
            invalid(attached.unwrap_err(), "mounts");
        }
        for session_id in ["../x", ".x", "a b"] {
            let spec = SandboxSpec { session_id: session_id.into(), ..spec.clone() };
            invalid(backend.provision(spec).await.unwrap_err(), "session_id");
        }
        let with_nul = ExecRequest::new("echo", ["\0"]);
        invalid(backend.exec(&id, with_nul).await.unwrap_err(), "args");
        invalid(backend.exec(&id, ExecRequest::new("", [""; 0])).await.unwrap_err(), "command");
        let nowhere = ExecRequest { cwd: Some("/nowhere".into()), ..ExecRequest::shell(":") };
        invalid(backend.exec(&id, nowhere).await.unwrap_err(), "cwd");
        let gone = MountSource::Host("/no/such/folder".into());
        let mounts = vec![SandboxMount { source: gone, ..memory("/work") }];
        let error = backend.provision(SandboxSpec { mounts, ..spec.clone() }).await.unwrap_err();
        assert!(matches!(error, SandboxError::Io { .. }), "{error:?}");
        assert!(error.to_string().contains("/no/such/folder"), "{error}");
        let taken = backend.attach_filesystem(&id, memory("/mnt/memory")).await.unwrap_err();
        assert!(matches!(taken, SandboxError::Lifecycle { .. }), "{taken}");
    }
}

#[test]
fn last_mount_wins_and_memory_and_outputs_always_exist() {
    let host = tempfile::tempdir().unwrap();
    std::fs::write(host.path().join("note"), "host\n").unwrap();
    let of_host = |target: &str| SandboxMount {
        source: MountSource::Host(host.path().into()),
        ..memory(target)
    };
    let show = |mounts: Vec<SandboxMount>, script: &str| {
        sh(&mut sandbox(SandboxSpec { mounts, ..SandboxSpec::default() }), script)
    };
    assert_eq!(show(vec![memory("/w"), of_host("/w")], "cat /w/note"), "host\n");
    assert_eq!(show(vec![of_host("/w"), memory("/w/")], "ls /w"), "");
    assert_eq!(show(vec![of_host("/w/sub"), memory("/w")], "ls /w"), "", "an outer one hides");
    assert_eq!(show(vec![memory("/w"), of_host("/w/sub")], "ls /w/sub"), "note\n");
    assert_eq!(show(vec![of_host("/tmp")], "ls /tmp"), "note\n");
    let both = "echo x > $BELLJAR_MEMORY_DIR/x; echo y > $BELLJAR_OUTPUTS_DIR/y; \
                cat /mnt/memory/x /mnt/session/outputs/y";
    let read_only = SandboxMount { access: FilesystemAccess::ReadOnly, ..of_host("/mnt") };
    for mounts in [vec![], vec![of_host("/mnt")], vec![read_only], vec![of_host("/")]] {
        assert_eq!(show(mounts.clone(), both), "x\ny\n", "{mounts:?}");
    }
    let given = vec![of_host("/mnt/memory"), memory("/x")];
    assert_eq!(show(given, "cat /mnt/memory/note"), "host\n");
    let hidden = vec![of_host("/mnt/memory"), memory("/mnt")];
    assert_eq!(show(hidden, "ls /mnt/memory"), "", "it is there, and is another");
}
