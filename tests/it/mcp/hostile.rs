//! Hostile clients: each request is answered with an error, and no sandbox is left behind.

use serde_json::{Value, json};

use super::Scene;
use super::wire::{Wire, refusal};

/// A scene whose limits are small.
fn small() -> Scene {
    Scene::new(&json!({ "limits": {
        "sandboxes_max": 3, "calls_max": 4, "running_max": 1, "timeout_ms_max": 20_000, "output_bytes_max": 65_536,
        "upper_bytes_max": 1 << 20, "memory_bytes_max": 64 << 20, "total_bytes_max": 100 << 20, "answer_bytes_max": 1024,
    } }))
}

/// A tool, its arguments, and the kind and a part of the message of the error.
#[cfg(unix)]
type Case = (&'static str, Value, &'static str, &'static str);

/// Paths that no client should have.
#[cfg(unix)]
fn paths() -> Vec<Case> {
    let folder = |path: &str| json!({ "folders": [{ "folder": "project", "path": path }] });
    let at = |at: &str| json!({ "folders": [{ "folder": "project", "at": at }] });
    vec![
        // Paths on the host.
        ("sandbox_create", folder("../other"), "denied", "is not in folder"),
        ("sandbox_create", folder("sub/../../other"), "denied", "is not in folder"),
        ("sandbox_create", folder("/etc"), "denied", "cannot open"),
        ("sandbox_create", folder("out"), "denied", "cannot open"),
        ("sandbox_create", folder("a.txt"), "denied", "cannot open"),
        ("sandbox_create", folder(&"x/".repeat(3000)), "arguments", "longer than 4096 bytes"),
        (
            "sandbox_create",
            json!({ "folders": [{ "folder": "/etc" }] }),
            "denied",
            "the policy has",
        ),
        // Mount points.
        ("sandbox_create", at("/"), "arguments", "absolute path"),
        ("sandbox_create", at("relative"), "arguments", "absolute path"),
        ("sandbox_create", at("/.belljar/x"), "arguments", "toolchains"),
        (
            "sandbox_create",
            json!({ "folders": [{ "folder": "project" }, { "folder": "docs", "at": "/worktree/sub" }] }),
            "arguments",
            "another folder",
        ),
        // Paths in the sandbox.
        (
            "sandbox_read",
            json!({ "sandbox": "box", "path": "../../other/secret.txt" }),
            "denied",
            "leads out",
        ),
        (
            "sandbox_read",
            json!({ "sandbox": "box", "path": "out/secret.txt" }),
            "not_found",
            "cannot read",
        ),
        ("sandbox_read", json!({ "sandbox": "box", "path": "a\u{0}b" }), "arguments", "NUL"),
        ("sandbox_read", json!({ "sandbox": "box", "path": "." }), "failed", "cannot read"),
        (
            "sandbox_write",
            json!({ "sandbox": "box", "path": "/docs/b.txt", "text": "x" }),
            "denied",
            "read-only",
        ),
        (
            "sandbox_write",
            json!({ "sandbox": "box", "path": "out/x", "text": "x" }),
            "failed",
            "cannot write",
        ),
    ]
}

/// Sizes, and arguments that do not fit together.
#[cfg(unix)]
fn sizes() -> Vec<Case> {
    vec![
        (
            "sandbox_write",
            json!({ "sandbox": "box", "path": "big", "text": "x".repeat(2 << 20) }),
            "limit",
            "limit",
        ),
        (
            "sandbox_write",
            json!({ "sandbox": "box", "path": "big", "text_base64": "A".repeat(6 << 20) }),
            "limit",
            "4194304 bytes",
        ),
        (
            "sandbox_exec",
            json!({ "sandbox": "box", "argv": vec!["x"; 5000] }),
            "limit",
            "4096 words",
        ),
        ("sandbox_exec", json!({ "sandbox": "box", "argv": [] }), "arguments", "command"),
        (
            "sandbox_exec",
            json!({ "sandbox": "box", "argv": ["a"], "command": "b" }),
            "arguments",
            "not both",
        ),
        (
            "sandbox_exec",
            json!({ "sandbox": "box", "argv": ["true"], "timeout_ms": -1 }),
            "arguments",
            "timeout_ms",
        ),
        (
            "sandbox_exec",
            json!({ "sandbox": "box", "argv": ["true"], "env": { "A=B": "c" } }),
            "arguments",
            "A=B",
        ),
    ]
}

/// Ids and names that do not exist, and other shapes.
#[cfg(unix)]
fn names() -> Vec<Case> {
    vec![
        (
            "sandbox_exec",
            json!({ "sandbox": "nobody", "argv": ["true"] }),
            "not_found",
            "there are: box",
        ),
        ("sandbox_read", json!({ "sandbox": "../box", "path": "x" }), "not_found", "no sandbox"),
        ("sandbox_create", json!({ "id": "../../x" }), "arguments", "invalid id"),
        ("sandbox_create", json!({ "id": "box" }), "arguments", "exists"),
        ("sandbox_compare", json!({ "before": "box", "after": "box" }), "arguments", "the same"),
        ("sandbox_output", json!({ "sandbox": "box", "output": 99 }), "not_found", "not kept"),
        (
            "sandbox_exec",
            json!({ "sandbox": "box", "argv": ["/bin/none"] }),
            "not_found",
            "sandbox_ls",
        ),
        (
            "sandbox_exec",
            json!({ "sandbox": "box", "argv": ["gerp"] }),
            "not_found",
            "did you mean grep",
        ),
        (
            "sandbox_exec",
            json!({ "sandbox": "box", "argv": ["true"], "cwd": "/nowhere" }),
            "arguments",
            "cwd",
        ),
        // Other shapes.
        ("sandbox_create", json!({ "privileged": true }), "arguments", "unknown field"),
        ("sandbox_list", json!({ "x": 1 }), "arguments", "unknown field"),
        ("sandbox_delete", json!({ "sandbox": "box" }), "not_found", "no tool"),
        ("toolchain_install", json!({ "toolchain": "python" }), "denied", "policy"),
        // This client cannot ask its user.
        ("sandbox_apply", json!({ "sandbox": "box" }), "consent", "agree"),
    ]
}

#[cfg(unix)]
#[test]
fn hostile_requests_are_answered_with_errors_and_change_nothing() {
    let scene = small();
    std::os::unix::fs::symlink(scene.path("other"), scene.path("project/out")).unwrap();
    let mut wire = Wire::connected(&scene, &[], &json!({}));
    let mounts = json!([{ "folder": "project" }, { "folder": "docs", "at": "/docs" }]);
    wire.call("sandbox_create", &json!({ "id": "box", "folders": mounts }));
    wire.call("sandbox_write", &json!({ "sandbox": "box", "path": "new.txt", "text": "new" }));
    let cases = [paths(), sizes(), names()].concat();
    assert!(cases.len() >= 20);
    let mut wrong = Vec::new();
    for (tool, arguments, kind, message) in cases {
        let refused = wire.refused(tool, &arguments);
        if refused.0 != kind || !refused.1.contains(message) || refused.1.len() > 8192 {
            let shown: String = arguments.to_string().chars().take(200).collect();
            let said: String = refused.1.chars().take(400).collect();
            wrong.push(format!("{tool} {shown}: {} in place of {kind}: {said}", refused.0));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let left = wire.call("sandbox_list", &json!({}));
    assert_eq!(left["sandboxes"].as_array().unwrap().len(), 1, "{left}");
    assert_eq!(scene.read("other/secret.txt"), "secret\n");
    assert!(!scene.path("project/new.txt").exists());
    assert!(wire.leave().success());
}

#[test]
fn what_is_no_request_of_the_protocol_is_answered_or_skipped() {
    let scene = small();
    let mut wire = Wire::connected(&scene, &[], &json!({}));
    wire.send_bytes(b"\n\n{\"jsonrpc\":\"2.0\"}\nnot json\n[1,2]\n\xff\xfe\n{\"id\":\n");
    wire.send_bytes(format!("{}\n", "{\"a\":".repeat(2000)).as_bytes());
    // Longer than any request may be.
    wire.send_bytes(&vec![b'x'; 17 << 20]);
    wire.send_bytes(b"\n");
    let answer = wire.request("tools/call", &json!({ "name": "sandbox_list" }));
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    for (method, params) in [
        ("tools/call", json!({})),
        ("tools/call", json!({ "name": 7 })),
        ("tools/call", json!({ "name": "sandbox_list", "arguments": [] })),
        ("resources/read", json!({ "uri": "file:///etc/passwd" })),
        ("no/such", json!({})),
    ] {
        let answer = wire.request(method, &params);
        assert!(answer["error"]["message"].is_string(), "{method} {params}: {answer}");
    }
    assert!(wire.leave().success());
}

#[test]
fn calls_and_sandboxes_are_bounded() {
    let scene = small();
    let mut wire = Wire::connected(&scene, &[], &json!({}));
    for _ in 0..3 {
        wire.call("sandbox_create", &json!({}));
    }
    let (kind, message) = wire.refused("sandbox_create", &json!({}));
    assert_eq!(kind, "limit", "{message}");
    let (kind, message) = wire.refused("sandbox_fork", &json!({ "sandbox": "sandbox-1" }));
    assert_eq!(kind, "limit", "{message}");
    // One runs, three wait, and the others are refused.
    let busy = json!({ "sandbox": "sandbox-1", "command": "while :; do :; done" });
    let ids: Vec<u64> = (0..12).map(|_| wire.begin_call("sandbox_exec", &busy)).collect();
    let refused: Vec<Value> =
        (0..8).map(|_| wire.receive(|message| ids.iter().any(|id| message["id"] == *id))).collect();
    for answer in refused {
        let (kind, message) = refusal(&answer);
        assert_eq!(kind, "limit", "{message}");
    }
    for id in ids {
        wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }));
    }
    // All are free again.
    let ran = wire.call("sandbox_exec", &json!({ "sandbox": "sandbox-1", "argv": ["true"] }));
    assert_eq!(ran["exit_code"], 0, "{ran}");
    assert!(wire.leave().success());
}

#[test]
fn a_program_that_takes_too_much_is_ended_and_its_sandbox_stays() {
    let scene = small();
    let mut wire = Wire::connected(&scene, &[], &json!({}));
    wire.call("sandbox_create", &json!({ "id": "box" }));
    for (command, ended_by) in [
        ("yes", "output"),
        ("seq 200000 > big; seq 200000 >> big", "exit"),
        ("sleep 100000", "exit"),
    ] {
        let ran = wire.call("sandbox_exec", &json!({ "sandbox": "box", "command": command }));
        assert_eq!(ran["ended_by"], ended_by, "{command}: {ran}");
        assert!(ran["stdout"]["text"].as_str().unwrap().len() <= 1024, "{command}");
    }
    let late = json!({ "sandbox": "box", "command": "sleep 100", "virtual_timeout_ms": 50 });
    assert_eq!(wire.call("sandbox_exec", &late)["ended_by"], "virtual_timeout");
    let ran =
        wire.call("sandbox_exec", &json!({ "sandbox": "box", "command": "rm big; echo alive" }));
    assert_eq!(ran["stdout"]["text"], "alive\n", "{ran}");
}

#[test]
fn a_client_that_leaves_ends_what_it_runs() {
    let scene = small();
    let mut wire = Wire::connected(&scene, &["--tape", "calls.tape"], &json!({}));
    wire.call("sandbox_create", &json!({ "id": "box" }));
    let busy = json!({ "sandbox": "box", "command": "while :; do :; done", "timeout_ms": 20_000 });
    wire.begin_call("sandbox_exec", &busy);
    wire.begin_call("sandbox_exec", &busy);
    // A call that is answered while the first one runs.
    wire.call("sandbox_list", &json!({}));
    assert!(wire.leave().success());
    let shown = scene.belljar().args(["tape", "show", "calls.tape"]).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("operation=drop"), "{shown}");
}

#[test]
fn a_client_cannot_reach_the_sandboxes_of_another_one() {
    let scene = Scene::new(&json!({ "limits": { "idle_ms_max": 400 } }));
    let mut one = Wire::connected(&scene, &[], &json!({}));
    one.call("sandbox_create", &json!({ "id": "box" }));
    let mut other = Wire::connected(&scene, &[], &json!({}));
    assert_eq!(other.refused("sandbox_ls", &json!({ "sandbox": "box" })).0, "not_found");
    // An unused sandbox goes by itself.
    loop {
        let listed = one.call("sandbox_list", &json!({}));
        if listed["sandboxes"].as_array().unwrap().is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(one.refused("sandbox_ls", &json!({ "sandbox": "box" })).0, "not_found");
}
