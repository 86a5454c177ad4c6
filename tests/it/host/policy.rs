//! The command policy blocks a command however it is written, before anything is reached.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use belljar::host::{BridgeAnswer, CommandPolicy, HostBridge, HostMock, PreHook, Question};
use belljar::testbench::TestbenchSession;
use serde_json::{Value, json};

use super::{bench, error, exec, policy, shell};

const DENY_RM: &str = r#"{
    "version": 1,
    "deny": [
        {"match": "rm *", "reason": "files are kept"}
    ]
}"#;

fn scratch() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kept"), "kept\n").unwrap();
    std::fs::write(folder.path().join("list"), "kept\n").unwrap();
    std::fs::write(folder.path().join("script"), "#!/bin/sh\nrm kept\n").unwrap();
    std::fs::write(folder.path().join("plain"), "rm kept\n").unwrap();
    folder
}

fn under(folder: &tempfile::TempDir, policy: CommandPolicy) -> TestbenchSession {
    bench(folder.path()).host_policy(policy).build().activate().unwrap()
}

fn is_kept(session: &mut TestbenchSession) -> bool {
    session.overlay().unwrap().read("/worktree/kept").is_ok_and(|bytes| bytes == b"kept\n")
}

#[test]
fn a_denied_command_does_not_run_however_it_is_written() {
    let folder = scratch();
    for command in [
        "rm kept",
        "'rm' kept",
        "r\\m kept",
        "\"r\"'m' kept",
        "r\\\nm kept",
        "true\nrm kept",
        "true; rm kept",
        "true && rm kept || true",
        "! rm kept",
        "rm kept &\nwait",
        "/bin/rm kept",
        "/usr/bin/rm kept",
        "A=1 rm kept",
        "<list rm kept",
        "(rm kept)",
        "{ rm kept; }",
        "if true; then rm kept; fi",
        "for f in kept; do rm \"$f\"; done",
        "f() { rm kept; }; f",
        "echo \"$(rm kept)\"",
        "echo `rm kept`",
        "echo \"$(echo \"$(rm kept)\")\"",
        "x=$(rm kept)",
        "cat <<E\n$(rm kept)\nE",
        "sh -c 'rm kept'",
        "sh -ec 'rm kept'",
        "sh -c \"sh -c 'rm kept'\"",
        "/bin/sh -c 'rm kept'",
        "echo 'rm kept' | sh",
        "eval rm kept",
        "eval 'rm' 'kept'",
        "eval \"eval 'rm kept'\"",
        "command rm kept",
        "command -p rm kept",
        "command command rm kept",
        "exec rm kept",
        "trap 'rm kept' EXIT",
        "env rm kept",
        "env A=1 B=2 rm kept",
        "box rm kept",
        "xargs rm < list",
        "echo kept | xargs -n 1 rm",
        "env xargs rm < list",
        // Known only when the command runs.
        "x=rm; $x kept",
        "x=r; ${x}m kept",
        "x=r; \"${x}m\" kept",
        "set -- rm kept; \"$@\"",
        "x='rm kept'; $x",
        "x='rm kept'; eval \"$x\"",
        "x='rm kept'; sh -c \"$x\"",
        "$(echo rm) kept",
        "`echo rm` kept",
        "eval \"$(echo rm) kept\"",
        "x=rm; command $x kept",
        "x=rm; exec $x kept",
        "x=rm; box $x kept",
        "read -r x < plain; $x",
        ". ./plain",
        "sh plain",
        "./script",
        "./plain",
        "sh ./script",
        "printf 'rm kept' > made; sh made",
        "x=$(printf '\\162\\155'); $x kept",
        "cd sub 2>/dev/null; rm kept",
    ] {
        let mut session = under(&folder, policy(DENY_RM));
        let result = shell(&mut session, command);
        assert_eq!(result["status"], "blocked", "{command}: {result}");
        assert_eq!(result["success"], false);
        let blocked = &result["blocked_by"];
        assert_eq!(
            blocked,
            &json!({
                "rule": "deny", "pattern": "rm *", "file": "policy.json", "line": 4,
                "reason": "files are kept",
            }),
            "{command}"
        );
        assert!(is_kept(&mut session), "{command}");
    }
}

#[test]
fn policy_matches_arguments_as_well_as_commands() {
    let folder = scratch();
    for argv in [
        json!(["rm", "kept"]),
        json!(["/bin/rm", "kept"]),
        json!(["sh", "-c", "rm kept"]),
        json!(["env", "rm", "kept"]),
        json!(["box", "rm", "kept"]),
        json!(["xargs", "rm"]),
    ] {
        let mut session = under(&folder, policy(DENY_RM));
        let result = exec(&mut session, &json!({ "argv": argv, "stdin": "kept" }));
        assert_eq!(result["status"], "blocked", "{argv}");
        assert_eq!(result["pid"], json!(null), "{argv}");
        assert!(is_kept(&mut session), "{argv}");
    }
}

#[test]
fn commands_that_are_not_denied_run() {
    let folder = scratch();
    let mut session = under(&folder, policy(DENY_RM));
    for command in [
        "echo rm kept",
        "cat kept",
        "x=kept; cat \"$x\"",
        "x=cat; $x kept",
        "for f in *; do cat \"$f\"; done",
        "rmdir nothing; true",
        "sh -c 'cat kept'",
        "eval 'cat kept'",
        "mkdir rm",
    ] {
        let result = shell(&mut session, command);
        assert_eq!(result["status"], "completed", "{command}: {result}");
    }
}

#[test]
fn command_is_ended_when_it_starts_a_denied_program() {
    let folder = scratch();
    let mut session = under(&folder, policy(DENY_RM));
    let result = shell(&mut session, "echo before; x=rm; $x kept; echo after > after; sleep 9");
    assert_eq!((&result["status"], &result["stdout"]), (&json!("blocked"), &json!("before\n")));
    assert_eq!(result["duration_ms"], 0);
    assert!(session.overlay().unwrap().read("/worktree/after").is_err());
    let stderr = result["stderr"].as_str().unwrap();
    assert!(stderr.contains("deny `rm *` (policy.json, line 4): files are kept"), "{stderr}");
    // The next command is not affected.
    assert_eq!(shell(&mut session, "echo on")["status"], "completed");
}

#[derive(Default)]
struct Counting(AtomicU32);

impl HostBridge for Counting {
    fn dispatch(&self, _: &str, _: &str, _: &Value) -> BridgeAnswer {
        self.0.fetch_add(1, Ordering::Relaxed);
        BridgeAnswer::Value(json!("reached"))
    }
}

#[test]
fn a_blocked_command_reaches_neither_mock_nor_bridge() {
    let folder = scratch();
    let commands =
        ["rm kept", "sh -c 'rm kept'", "x=rm; $x kept", "eval \"$x\"", "sh -c \"$x\"", ". ./plain"];
    let mut session = under(&folder, policy(DENY_RM));
    session.host_mock("process", "exec", HostMock::result(json!("mocked")));
    for command in commands {
        assert_eq!(shell(&mut session, command)["status"], "blocked", "{command}");
    }
    assert_eq!(session.host_mock_calls(), []);
    assert_eq!(shell(&mut session, "echo x"), "mocked");

    let mut session = under(&folder, policy(DENY_RM));
    let bridge = Arc::new(Counting::default());
    session.set_host_bridge(bridge.clone());
    for command in commands {
        let result = shell(&mut session, command);
        assert_eq!(result["status"], "blocked", "{command}");
    }
    let unsure = shell(&mut session, "$x kept");
    let reason = unsure["blocked_by"]["reason"].as_str().unwrap();
    assert!(reason.contains("cannot tell before running"), "{reason}");
    assert_eq!(bridge.0.load(Ordering::Relaxed), 0);
    assert_eq!(shell(&mut session, "echo x"), "reached");
}

/// Otherwise a hook could turn an allowed command into a denied one.
#[test]
fn command_changed_by_a_hook_is_checked_before_mocks() {
    let folder = scratch();
    let changing = policy(DENY_RM).pre(|_| PreHook::Change(json!({ "argv": ["rm", "kept"] })));
    let mut session = under(&folder, changing);
    session.host_mock("process", "exec", HostMock::result(json!("mocked")));
    assert_eq!(shell(&mut session, "echo x")["status"], "blocked");
    assert_eq!(session.host_mock_calls(), []);
}

#[test]
fn programs_that_guests_spawn_are_checked() {
    let folder = scratch();
    std::fs::write(folder.path().join("Makefile"), "all:\n\trm kept\n").unwrap();
    let mut session = under(&folder, policy(DENY_RM));
    // The child is started by the session's own command, not by `process.exec`.
    let output = session.command("minimake").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && printed.contains("rm: Operation not permitted"),
        "{printed}"
    );
    assert!(is_kept(&mut session));
}

#[test]
fn copy_under_a_denied_name_is_blocked() {
    let folder = scratch();
    let mut session = under(&folder, policy(DENY_RM));
    // POSIX has no `exec -a`; a program that starts another gives both its path and its `argv[0]`.
    let result = shell(&mut session, "PATH=/tmp; cp script /tmp/rm; rm kept");
    assert_eq!(result["status"], "blocked");
    assert!(is_kept(&mut session));
}

/// Regression: of a chain of scripts, only the first and the last program were checked.
#[test]
fn interpreters_of_interpreters_are_checked() {
    let folder = scratch();
    for (name, text) in
        [("denied", "#!/bin/sh\necho ran\n"), ("one", "#!denied\n"), ("two", "#!one\n")]
    {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let deny = r#"{"version": 1, "deny": ["denied"]}"#;
    let mut session = under(&folder, policy(deny));
    for command in
        ["export PATH=/worktree; ./one", "export PATH=/worktree; one", "export PATH=/worktree; two"]
    {
        let result = shell(&mut session, command);
        assert_eq!(
            (&result["status"], &result["stdout"]),
            (&json!("blocked"), &json!("")),
            "{command}"
        );
    }
    let mut session = under(&folder, CommandPolicy::new());
    assert_eq!(shell(&mut session, "export PATH=/worktree; two")["stdout"], "ran\n");
}

#[test]
fn approval_is_asked_for_once() {
    let folder = scratch();
    let approve = r#"{"version": 1, "approve": ["touch"]}"#;
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let run = |answer: &'static str, commands: &[&str]| {
        let log = asked.clone();
        let answers = move |question: &Question| {
            log.lock().unwrap().push(question.question.clone());
            Ok(answer.to_owned())
        };
        let bench = bench(folder.path()).host_policy(policy(approve)).host_answers(answers);
        let mut session = bench.build().activate().unwrap();
        let statuses: Vec<Value> =
            commands.iter().map(|command| shell(&mut session, command)["status"].clone()).collect();
        (statuses, std::mem::take(&mut *asked.lock().unwrap()))
    };
    let (statuses, questions) = run("yes", &["touch a; touch b", "touch a; touch b", "cat kept"]);
    assert_eq!(statuses, ["completed"; 3]);
    assert_eq!(questions, ["Run `touch a; touch b`? (the policy requires approval for `touch`)"]);
    let (statuses, questions) = run("no", &["touch a", "touch a", "x=touch; $x a", "cat kept"]);
    assert_eq!(statuses, ["blocked", "blocked", "blocked", "completed"]);
    assert_eq!(questions.len(), 2, "{questions:?}");
    let (statuses, questions) = run("yes", &["x=touch; $x a; $x a"]);
    assert_eq!((statuses, questions.len()), (vec![json!("completed")], 1));

    let mut nobody = under(&folder, policy(approve));
    let result = shell(&mut nobody, "touch a");
    assert_eq!(result["blocked_by"]["rule"], "approve");
    assert!(result["blocked_by"]["reason"].as_str().unwrap().contains("no answers are configured"));
}

#[test]
fn commands_run_only_in_the_workspace_roots() {
    let folder = scratch();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    let roots = r#"{"version": 1, "workspace_roots": ["/worktree/sub"]}"#;
    let mut session = under(&folder, policy(roots));
    let mut status = |params: Value| exec(&mut session, &params);
    assert_eq!(status(json!({ "command": "pwd", "cwd": "sub" }))["stdout"], "/worktree/sub\n");
    for cwd in ["/tmp", ".", "/worktree/subway", "sub/..", "sub/../../tmp"] {
        let result = status(json!({ "command": "pwd", "cwd": cwd }));
        assert_eq!(result["blocked_by"]["rule"], "workspace_roots", "{cwd}: {result}");
    }
    // Through links, and through a command that changes its directory before it starts a program.
    let linked = "ln -s /tmp link";
    assert_eq!(status(json!({ "command": linked, "cwd": "sub" }))["status"], "completed");
    let result = status(json!({ "command": "pwd", "cwd": "sub/link" }));
    assert_eq!(result["blocked_by"]["reason"], "/tmp is not in /worktree/sub");
    let result = status(json!({ "command": "cd /tmp && ls", "cwd": "sub" }));
    assert_eq!(result["blocked_by"]["rule"], "workspace_roots");
}

#[test]
fn hooks_see_and_change_parameters_and_results() {
    let folder = scratch();
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let log = seen.clone();
    let hooks = policy(DENY_RM)
        .pre(move |params| {
            log.lock().unwrap().push(params.clone());
            match params["command"].as_str() {
                Some("refused") => PreHook::Deny("not today".into()),
                Some("replaced") => PreHook::Change(json!({ "command": "echo instead" })),
                Some("worse") => PreHook::Change(json!({ "command": "rm kept" })),
                _ => PreHook::Proceed,
            }
        })
        .post(|params, result| {
            result["asked"] = params["command"].clone();
        });
    let mut session = under(&folder, hooks);
    let result = shell(&mut session, "refused");
    assert_eq!(
        result["blocked_by"],
        json!({ "rule": "pre", "pattern": null, "file": null, "line": null, "reason": "not today" })
    );
    let result = shell(&mut session, "replaced");
    assert_eq!(
        (&result["stdout"], &result["asked"]),
        (&json!("instead\n"), &json!("echo instead"))
    );
    assert_eq!(shell(&mut session, "worse")["blocked_by"]["rule"], "deny");
    assert_eq!(seen.lock().unwrap().len(), 3);
    session.host_mock("process", "exec", HostMock::result(json!({})));
    assert_eq!(shell(&mut session, "mocked"), json!({ "asked": "mocked" }));
}

#[test]
fn hooks_of_a_policy_file_set_fields() {
    let folder = scratch();
    let hooks = r#"{
        "version": 1,
        "pre": [
            {"match": "env", "set": {"env": {"CI": "1"}, "timeout_ms": 5000}},
            {"match": "sleep", "deny": "nobody waits"}
        ],
        "post": [{"match": "cat", "set": {"stdout": "[withheld]"}}]
    }"#;
    let mut session = under(&folder, policy(hooks));
    let result = exec(&mut session, &json!({ "argv": ["env"] }));
    assert!(result["stdout"].as_str().unwrap().contains("CI=1"), "{result}");
    let result = shell(&mut session, "sleep 1");
    assert_eq!(
        result["blocked_by"],
        json!({ "rule": "pre", "pattern": "sleep", "file": "policy.json", "line": 5, "reason": "nobody waits" })
    );
    assert_eq!(exec(&mut session, &json!({ "argv": ["cat", "kept"] }))["stdout"], "[withheld]");
}

#[test]
fn nesting_of_commands_is_limited() {
    let folder = scratch();
    std::fs::write(
        folder.path().join("again"),
        "#!/bin/sh\nask process.exec '{\"argv\":[\"./again\"]}'\n",
    )
    .unwrap();
    let mut session = under(&folder, CommandPolicy::new().depth_max(3));
    let result = exec(&mut session, &json!({ "argv": ["./again"] }));
    let text = result.to_string();
    assert!(text.contains("depth_max") && text.contains("3 deep"), "{text}");
    assert_eq!(result["status"], "completed", "what is blocked is the innermost");
}

#[test]
fn without_a_policy_everything_runs() {
    let folder = scratch();
    let mut session = super::session(folder.path());
    assert_eq!(shell(&mut session, "rm kept")["status"], "completed");
    assert!(!is_kept(&mut session));
    assert!(error(&mut session, "process.start", &json!({})).contains("unsupported"));
}
