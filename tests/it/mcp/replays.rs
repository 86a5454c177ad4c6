//! Replays of calls: what a tape must not have, and answers that depend on more than the call.

use std::path::Path;

use serde_json::{Value, json};

use super::Scene;
use super::wire::Wire;

const AWS_KEY: &str = "AKIAIOSFODNN7EXAMPLE";
const GITHUB_TOKEN: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
const SLACK_TOKEN: &str = "xoxb-123456789012-abcdefghijkl";

fn recorded(scene: &Scene) -> Wire {
    Wire::connected(scene, &["--tape", "calls.tape"], &json!({ "elicitation": {} }))
}

fn exec(id: &str, command: &str) -> Value {
    json!({ "sandbox": id, "command": command })
}

fn with_folder(id: &str, path: &str) -> Value {
    json!({ "id": id, "folders": [{ "folder": "project", "path": path }] })
}

fn text_of(answer: &Value) -> String {
    answer["stdout"]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Writes the changes of the sandbox `id` to the folder, with the consent of the user.
fn apply(wire: &mut Wire, id: &str) {
    let request = wire.begin_call("sandbox_apply", &json!({ "sandbox": id }));
    let question = wire.receive(|message| message["method"] == "elicitation/create");
    let agreed = json!({ "action": "accept", "content": { "write": true } });
    wire.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": agreed }));
    assert_eq!(wire.answer(request)["result"]["isError"], false);
}

/// Expects that no file of the tape has one of `secrets`.
fn expect_without(scene: &Scene, secrets: &[&str]) {
    fn look(path: &Path, secrets: &[&str]) {
        if path.is_dir() {
            for entry in std::fs::read_dir(path).unwrap() {
                look(&entry.unwrap().path(), secrets);
            }
            return;
        }
        let bytes = std::fs::read(path).unwrap();
        for secret in secrets {
            let is_here = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!is_here, "{secret} is in {}", path.display());
        }
    }
    look(&scene.path("calls.tape"), secrets);
    let store = belljar::tape::cas_dir(&scene.path("calls.tape"));
    if store.exists() {
        look(&store, secrets);
    }
}

/// Regression: in JSON text the letter of `\n` hid the start of a secret on a line of its own, so that it was on the tape.
#[test]
fn secrets_after_newlines_and_tabs_stay_off_the_tape() {
    let scene = Scene::new(&json!({}));
    let lines = format!("[default]\n{AWS_KEY}\n\t{GITHUB_TOKEN}\n{SLACK_TOKEN}\n");
    scene.write("project/cred", &lines);
    let mut wire = recorded(&scene);
    wire.call("sandbox_create", &with_folder("box", ""));
    let read = wire.call("sandbox_read", &json!({ "sandbox": "box", "path": "cred" }));
    assert_eq!(read["text"], *lines, "the client gets it");
    wire.call("sandbox_create", &json!({ "id": "memory" }));
    // Too long for a record, with the other calls short enough.
    let long = format!("{}{lines}", "a line\n".repeat(1000));
    for text in [&lines, &long] {
        let written = json!({ "sandbox": "memory", "path": "cred", "text": text });
        wire.call("sandbox_write", &written);
        let seen = wire.call("sandbox_exec", &exec("memory", "cat cred"));
        assert_eq!(text_of(&seen), **text);
    }
    // An escape in a program.
    let printed = wire.call("sandbox_exec", &exec("memory", &format!(r"printf 'a\n{AWS_KEY}\t'")));
    assert_eq!(text_of(&printed), format!("a\n{AWS_KEY}\t"));
    assert!(wire.leave().success());

    expect_without(&scene, &[AWS_KEY, GITHUB_TOKEN, SLACK_TOKEN]);
    assert!(scene.read("calls.tape").contains("[default]"), "the rest is there");
    std::fs::remove_dir_all(scene.path("project")).unwrap();
    assert_eq!(scene.replayed(), (2, 6));
}

/// Regression: variables of `sandbox_create` and `sandbox_exec` were on the tape whatever their names are.
#[test]
fn values_of_variables_with_secret_names_stay_off_the_tape() {
    const KEY: &str = "correct-horse-battery";
    const TOKEN: &str = "another-long-value";
    let scene = Scene::new(&json!({}));
    let mut wire = recorded(&scene);
    let env = json!({ "API_KEY": KEY, "GREETING": "good morning" });
    wire.call("sandbox_create", &json!({ "id": "box", "env": env }));
    let seen = wire.call("sandbox_exec", &exec("box", r#"echo "$API_KEY, $GREETING""#));
    assert_eq!(text_of(&seen), format!("{KEY}, good morning\n"), "the client gets it");
    wire.call("sandbox_fork", &json!({ "sandbox": "box", "id": "fork" }));
    wire.call("sandbox_exec", &exec("fork", r#"printf %s "$API_KEY" | wc -c"#));
    wire.call("sandbox_create", &json!({ "id": "other" }));
    let mut with_token = exec("other", r#"printf %s "$GITHUB_TOKEN" | tee f"#);
    with_token["env"] = json!({ "GITHUB_TOKEN": TOKEN, "HOME": "/tmp" });
    wire.call("sandbox_exec", &with_token);
    wire.call("sandbox_exec", &exec("other", "wc -c < f"));
    // The client repeats a value that it gave to another sandbox.
    wire.call("sandbox_create", &json!({ "id": "third" }));
    let written =
        json!({ "sandbox": "third", "path": "f", "text": format!("key\t{KEY}\n{TOKEN}") });
    wire.call("sandbox_write", &written);
    wire.call("sandbox_exec", &exec("third", "wc -c < f"));
    wire.call("sandbox_create", &json!({ "id": "clean" }));
    wire.call("sandbox_exec", &exec("clean", "echo fine"));
    assert!(wire.leave().success());

    expect_without(&scene, &[KEY, TOKEN]);
    let tape = scene.read("calls.tape");
    for kept in ["good morning", r#"\"API_KEY\":\"[redacted]\""#, r#"\"HOME\":\"/tmp\""#] {
        assert!(tape.contains(kept), "{kept}: {tape}");
    }
    // Compared are the new sandboxes but the first, and what the last one ran.
    assert_eq!(scene.replayed(), (4, 8));
}

/// Regression: in a replay all folders were one directory without identity, so that sandboxes which had mounted folders on
/// their own differed in other ways.
#[test]
fn sandboxes_with_folders_of_their_own_are_not_compared_in_a_replay() {
    let scene = Scene::new(&json!({}));
    let mut wire = recorded(&scene);
    let compare = |before: &str, after: &str| json!({ "before": before, "after": after });
    wire.call("sandbox_create", &with_folder("one", ""));
    wire.call("sandbox_exec", &exec("one", "cat a.txt"));
    wire.call("sandbox_fork", &json!({ "sandbox": "one", "id": "fork" }));
    wire.call("sandbox_exec", &exec("fork", "echo new > new"));
    let found = wire.call("sandbox_compare", &compare("one", "fork"));
    assert_eq!(found["total_changes"], 1, "{found}");
    scene.write("project/a.txt", "changed on the host\n");
    wire.call("sandbox_create", &with_folder("other", ""));
    wire.call("sandbox_exec", &exec("other", "cat a.txt"));
    let found = wire.call("sandbox_compare", &compare("one", "other"));
    assert_eq!(found["total_changes"], 1, "{found}");
    wire.call("sandbox_create", &with_folder("below", "sub"));
    let (kind, message) = wire.refused("sandbox_compare", &compare("one", "below"));
    assert!(kind == "arguments" && message.contains("different mounts"), "{kind}: {message}");
    // Those in memory are the same in a replay.
    wire.call("sandbox_create", &json!({ "id": "memory" }));
    wire.call("sandbox_create", &json!({ "id": "memory-2" }));
    wire.call("sandbox_exec", &exec("memory-2", "echo new > new"));
    let found = wire.call("sandbox_compare", &compare("memory", "memory-2"));
    assert_eq!(found["total_changes"], 1, "{found}");
    assert!(wire.leave().success());

    std::fs::remove_dir_all(scene.path("project")).unwrap();
    assert_eq!(scene.replayed(), (12, 2));
}

/// Regression: a sandbox with the id of one that was dropped saw in a replay what that one had seen, and was taken for one
/// that had seen its secrets or was applied.
#[test]
fn a_sandbox_with_the_id_of_a_dropped_one_is_replayed() {
    let scene = Scene::new(&json!({}));
    let mut wire = recorded(&scene);
    let work = || json!({ "sandbox": "work" });
    wire.call("sandbox_create", &with_folder("work", ""));
    let seen = wire.call("sandbox_exec", &exec("work", "cat a.txt; ls"));
    assert_eq!(text_of(&seen), "of the host\na.txt\nsub\n");
    wire.call("sandbox_fork", &json!({ "sandbox": "work", "id": "kept" }));
    wire.call("sandbox_drop", &work());
    scene.write("project/a.txt", "changed on the host\n");
    scene.write("project/b.txt", "new\n");
    wire.call("sandbox_create", &with_folder("work", ""));
    let seen = wire.call("sandbox_exec", &exec("work", "cat a.txt; ls; echo mine > c.txt"));
    assert_eq!(text_of(&seen), "changed on the host\na.txt\nb.txt\nsub\n");
    // A fork of the first one has its directories.
    let seen = wire.call("sandbox_exec", &exec("kept", "ls"));
    assert_eq!(text_of(&seen), "a.txt\nsub\n");
    apply(&mut wire, "work");
    wire.call("sandbox_drop", &work());
    // Of the next one, what it saw of the folder is withheld.
    scene.write("project/key", AWS_KEY);
    wire.call("sandbox_create", &with_folder("work", ""));
    wire.call("sandbox_exec", &exec("work", "cat key | wc -c"));
    wire.call("sandbox_drop", &work());
    std::fs::remove_file(scene.path("project/key")).unwrap();
    wire.call("sandbox_create", &with_folder("work", ""));
    let seen = wire.call("sandbox_exec", &exec("work", "ls; rm a.txt"));
    assert_eq!(text_of(&seen), "a.txt\nb.txt\nc.txt\nsub\n");
    let diff = wire.call("sandbox_diff", &work());
    assert_eq!(diff["total_changes"], 1, "{diff}");
    assert!(wire.leave().success());

    std::fs::remove_dir_all(scene.path("project")).unwrap();
    // Left out are the two calls of the apply, and those of the third one from the secret on.
    assert_eq!(scene.replayed(), (12, 4));
}

/// Regression: the room of changes that were written to the disk was not free in a replay, so that later writes failed.
#[test]
fn changes_that_were_written_leave_their_room_in_a_replay() {
    // Together there is room for one program that runs, and for 1.5 MB besides.
    let limits = json!({
        "upper_bytes_max": 1_000_000, "memory_bytes_max": 100_000_000, "output_bytes_max": 1_000_000,
        "total_bytes_max": 103_500_000,
    });
    let scene = Scene::new(&json!({ "limits": limits }));
    let mut wire = recorded(&scene);
    let fill = |name: &str| exec("box", &format!("head -c 900000 /dev/zero > {name}; echo $?"));
    wire.call("sandbox_create", &with_folder("box", ""));
    for name in ["big", "big2", "big3"] {
        assert_eq!(text_of(&wire.call("sandbox_exec", &fill(name))), "0\n");
        apply(&mut wire, "box");
    }
    let small = json!({ "sandbox": "box", "path": "small", "text": "x".repeat(50_000) });
    wire.call("sandbox_write", &small);
    // Where a program reaches the limit is not compared, as a replay has another one, and neither is what follows.
    assert_eq!(text_of(&wire.call("sandbox_exec", &fill("big4"))), "0\n");
    assert_eq!(text_of(&wire.call("sandbox_exec", &fill("big5"))), "1\n");
    wire.call("sandbox_exec", &exec("box", "wc -c big5"));
    wire.call("sandbox_create", &json!({ "id": "other" }));
    wire.call("sandbox_exec", &exec("other", "echo fine"));
    assert!(wire.leave().success());

    // Left out are the two calls of each apply, the one at the limit and the next one.
    assert_eq!(scene.replayed(), (8, 8));
}
