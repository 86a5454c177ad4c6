//! `process.exec`: every field, in both modes, and the shells.

use std::path::Path;

use serde_json::{Value, json};

use super::{bench, error, exec, session, shell};

fn scratch() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("note.txt"), "one\ntwo\n").unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    folder
}

fn stdout(folder: &Path, params: &Value) -> String {
    let result = exec(&mut session(folder), params);
    assert_eq!(result["status"], "completed", "{result}");
    result["stdout"].as_str().unwrap().to_owned()
}

#[test]
fn the_result_of_a_command_is_the_same_every_time() {
    let folder = scratch();
    let run = || {
        let mut session = session(folder.path());
        exec(&mut session, &json!({ "argv": ["sleeper", "250"] }));
        shell(&mut session, "wc -l < note.txt; echo no >&2; sleep 2; exit 3")
    };
    let result = run();
    assert_eq!(result, run());
    assert_eq!(
        result,
        json!({
            "command_id": "command-2", "status": "completed", "pid": 2, "process_group_id": 2,
            "handle_id": "handle-2", "started_at": "1970-01-01T00:00:00.25Z",
            "ended_at": "1970-01-01T00:00:02.25Z", "duration_ms": 2000, "exit_code": 3,
            "signal": null, "timed_out": false, "stdout": "2\n", "stderr": "no\n",
            "combined": "2\nno\n", "exit_status": 3, "legacy_status": 3, "success": false,
            "truncated": false,
        })
    );
}

#[test]
fn argv_is_passed_unchanged_and_command_goes_to_a_shell() {
    let folder = scratch();
    let argv = json!({ "mode": "argv", "argv": ["env", "$x", "a b"] });
    let printed = stdout(folder.path(), &argv);
    assert!(printed.contains("argv[1]=$x\n") && printed.contains("argv[2]=a b\n"), "{printed}");
    let command = json!({ "mode": "shell", "command": "printf '%s-' a \"b c\" | tr a-z A-Z" });
    assert_eq!(stdout(folder.path(), &command), "A-B C-");
}

#[test]
fn relative_cwd_starts_at_the_project_root() {
    let folder = scratch();
    let pwd = |cwd: &str| stdout(folder.path(), &json!({ "command": "pwd", "cwd": cwd }));
    assert_eq!(
        (pwd("sub"), pwd("/tmp"), pwd(".")),
        ("/worktree/sub\n".into(), "/tmp\n".into(), "/worktree\n".into())
    );
    let missing = error(
        &mut session(folder.path()),
        "process.exec",
        &json!({ "command": "pwd", "cwd": "nowhere" }),
    );
    assert!(missing.contains("process.exec: sh: "), "{missing}");
}

#[test]
fn the_environment_is_replaced_or_merged_and_variables_are_removed() {
    let folder = scratch();
    let inner = |params: &str| format!("A=1 B=2 ask process.exec '{params}'");
    let mut session = session(folder.path());
    let mut seen = |params: &str| {
        let printed = shell(&mut session, &inner(params))["stdout"].as_str().unwrap().to_owned();
        let answer: Value = serde_json::from_str(&printed).unwrap();
        let printed = answer["ok"]["stdout"].as_str().unwrap().to_owned();
        let variables = printed.lines().filter_map(|line| line.split_once("]="));
        let mut variables: Vec<String> = variables
            .map(|(_, text)| text.to_owned())
            .filter(|text| text.starts_with(['A', 'B', 'C']))
            .collect();
        variables.sort();
        variables.join(" ")
    };
    assert_eq!(seen(r#"{"argv":["env"]}"#), "A=1 B=2");
    assert_eq!(seen(r#"{"argv":["env"],"env":{"C":"3","A":"x"}}"#), "A=x B=2 C=3");
    assert_eq!(seen(r#"{"argv":["env"],"env":{"C":"3"},"env_remove":["B"]}"#), "A=1 C=3");
    assert_eq!(seen(r#"{"argv":["env"],"env":{"C":"3"},"env_mode":"replace"}"#), "C=3");
}

#[test]
fn input_is_fed_and_need_not_be_read() {
    let folder = scratch();
    let long = "line\n".repeat(100_000);
    let count = json!({ "argv": ["wc", "-l"], "stdin": long });
    assert_eq!(stdout(folder.path(), &count), "100000\n");
    let unread = json!({ "command": "exit 0", "stdin": long });
    assert_eq!(stdout(folder.path(), &unread), "");
    let back = exec(&mut session(folder.path()), &json!({ "argv": ["cat"], "stdin": long }));
    assert_eq!(back["stdout"], long, "both ways at once");
    assert_eq!(stdout(folder.path(), &json!({ "argv": ["cat"] })), "", "none is its end");
}

#[test]
fn a_command_that_takes_too_long_is_ended_with_all_that_it_started() {
    let folder = scratch();
    let mut session = session(folder.path());
    let command = "echo begun; (sleep 100; echo late > late) & sleep 50; echo over";
    let result = exec(&mut session, &json!({ "command": command, "timeout_ms": 1500 }));
    assert_eq!((&result["status"], &result["timed_out"]), (&json!("timed_out"), &json!(true)));
    assert_eq!((&result["stdout"], &result["duration_ms"]), (&json!("begun\n"), &json!(1500)));
    assert_eq!((&result["signal"], &result["exit_code"]), (&json!("SIGKILL"), &json!(null)));
    assert!(session.overlay().unwrap().read("/worktree/late").is_err());
    // A command that closes its streams and goes on is ended, too.
    let result =
        exec(&mut session, &json!({ "command": "exec >&- 2>&-; sleep 50", "timeout_ms": 100 }));
    assert_eq!((&result["status"], &result["duration_ms"]), (&json!("timed_out"), &json!(100)));
    let result = exec(&mut session, &json!({ "argv": ["sleeper", "100"], "timeout_ms": 100 }));
    assert_eq!(result["duration_ms"], 100);
}

/// Regression: it went on until the run's own timeout.
#[test]
fn a_command_that_prints_without_an_end_is_ended_at_its_time() {
    let folder = scratch();
    let mut session = session(folder.path());
    for command in ["yes", "yes | cat", "while :; do echo; done"] {
        let result = exec(&mut session, &json!({ "command": command, "timeout_ms": 15 }));
        let told = (&result["status"], &result["duration_ms"], &result["exit_code"]);
        assert_eq!(told, (&json!("timed_out"), &json!(15), &json!(null)), "{command}");
    }
}

/// Regression: no other process had a turn to end it.
#[test]
fn a_module_that_reads_the_clock_without_an_end_is_ended_at_its_time() {
    let folder = scratch();
    let mut session = session(folder.path());
    for command in ["spin 5000", "spin 5000 | cat", "spin 5000 >/dev/null", "(spin 5000; echo no)"]
    {
        let result = exec(&mut session, &json!({ "command": command, "timeout_ms": 500 }));
        let told = (&result["status"], &result["duration_ms"], &result["stdout"]);
        assert_eq!(told, (&json!("timed_out"), &json!(500), &json!("")), "{command}");
    }
    let in_time = exec(&mut session, &json!({ "argv": ["spin", "300"], "timeout_ms": 500 }));
    assert_eq!((&in_time["status"], &in_time["duration_ms"]), (&json!("completed"), &json!(300)));
}

#[test]
fn background_processes_end_with_the_command() {
    let folder = scratch();
    let mut session = session(folder.path());
    let result = shell(&mut session, "(sleep 100; echo late > late) >/dev/null 2>&1 & echo over");
    assert_eq!((&result["stdout"], &result["duration_ms"]), (&json!("over\n"), &json!(0)));
    assert!(session.overlay().unwrap().read("/worktree/late").is_err());
}

#[test]
fn output_beyond_the_limit_is_cut_off_and_said_so() {
    let folder = scratch();
    let limits = belljar::Limits { host_call_bytes_max: 64 << 10, ..Default::default() };
    let mut session = bench(folder.path()).limits(limits).build().activate().unwrap();
    let result = exec(&mut session, &json!({ "argv": ["spew", "4"] }));
    assert_eq!((&result["truncated"], &result["exit_code"]), (&json!(true), &json!(0)));
    let kept = result["stdout"].as_str().unwrap().len();
    assert!((4 << 10..=16 << 10).contains(&kept), "{kept}");
    assert!(result.to_string().len() < 64 << 10);
    let bytes = exec(&mut session, &json!({ "command": "yes '\u{1}' | head -c 16000" }));
    assert_eq!(bytes["truncated"], true, "six bytes for each");
}

#[test]
fn missing_program_is_an_error_and_a_failing_one_is_not() {
    let folder = scratch();
    let mut session = session(folder.path());
    let missing = error(&mut session, "process.exec", &json!({ "argv": ["nothing"] }));
    assert!(missing.contains("process.exec: nothing: "), "{missing}");
    assert_eq!(shell(&mut session, "nothing")["exit_code"], 127);
    let trapped = exec(&mut session, &json!({ "argv": ["trap"] }));
    assert_eq!((&trapped["signal"], &trapped["exit_status"]), (&json!("SIGABRT"), &json!(134)));
}

#[test]
fn bad_parameters_are_named() {
    let folder = scratch();
    let mut session = session(folder.path());
    for (params, problem) in [
        (json!({}), "expected `argv`, or `command`"),
        (json!({ "argv": [] }), "must begin with the name of a program"),
        (json!({ "argv": ["a"], "command": "b" }), "mutually exclusive"),
        (json!({ "mode": "argv", "command": "b" }), "mode `argv` needs `argv`"),
        (json!({ "mode": "shell", "argv": ["b"] }), "mode `shell` needs `command`"),
        (json!({ "mode": "fork" }), "unknown variant `fork`, expected `argv` or `shell`"),
        (json!({ "argv": ["a"], "cmd": 1 }), "unknown field `cmd`, expected one of `mode`, `argv`"),
        (json!({ "argv": ["a", 1] }), "invalid type"),
        (json!({ "argv": ["a\u{0}"] }), "NUL"),
        (json!({ "argv": ["a"], "env": { "A=B": "" } }), "is not a valid variable name"),
        (json!({ "argv": ["a"], "timeout_ms": 0 }), "at least 1"),
        (json!({ "argv": ["a"], "timeout_ms": -1 }), "invalid value"),
        (json!({ "argv": ["a"], "sandbox_profile": "none" }), "unknown variant `none`"),
        (json!({ "argv": ["a"], "sandbox_profile": "unrestricted" }), "sandbox profile `wasi`"),
        (json!({ "command": "a", "shell": "bash" }), "unknown shell \"bash\"; available: sh"),
    ] {
        let error = error(&mut session, "process.exec", &params);
        assert!(error.contains(problem), "{params}: {error}");
    }
}

#[test]
fn shells_are_listed_and_one_is_the_default() {
    let folder = scratch();
    let mut session = session(folder.path());
    let mut ask = |name: &str, params: Value| session.host_call(name, &params);
    let shells = ask("process.list_shells", json!({})).unwrap();
    assert_eq!(shells, json!([{ "id": "sh", "hermetic": true, "is_default": true }]));
    assert_eq!(ask("process.get_default_shell", json!({})).unwrap(), "sh");
    assert_eq!(ask("process.set_default_shell", json!({ "id": "sh" })).unwrap(), "sh");
    let invocation = ask("process.shell_invocation", json!({ "command": "ls; pwd" })).unwrap();
    assert_eq!(invocation, json!({ "shell": "sh", "argv": ["sh", "-c", "ls; pwd"] }));
    let other = ask("process.set_default_shell", json!({ "id": "rm" })).unwrap_err().to_string();
    assert!(other.contains("unknown shell \"rm\""), "{other}");
}

#[test]
fn shell_of_a_toolchain_can_be_chosen() {
    let (folder, tools) = (scratch(), tempfile::tempdir().unwrap());
    // Another program under the name `bash`.
    std::fs::copy(crate::support::guest("env"), tools.path().join("bash.wasm")).unwrap();
    let bench = bench(folder.path()).wasi_toolchain(tools.path()).build();
    let mut session = bench.activate().unwrap();
    let shells = session.host_call("process.list_shells", &json!({})).unwrap();
    assert_eq!(shells[1], json!({ "id": "bash", "hermetic": true, "is_default": false }));
    session.host_call("process.set_default_shell", &json!({ "id": "bash" })).unwrap();
    let result = shell(&mut session, "a text");
    assert!(result["stdout"].as_str().unwrap().contains("argv[2]=a text"), "{result}");
}

#[test]
fn session_without_toolchain_has_the_built_in_programs() {
    let folder = scratch();
    let bench = belljar::Testbench::builder().fs_overlay(folder.path()).build();
    let mut session = bench.activate().unwrap();
    assert_eq!(shell(&mut session, "sort -r note.txt | head -n 1")["stdout"], "two\n");
    assert!(session.finalize().unwrap().fs_diff.is_empty());
}

#[test]
fn changes_of_commands_belong_to_the_session() {
    let folder = scratch();
    let mut session = session(folder.path());
    shell(&mut session, "echo three >> note.txt");
    assert_eq!(shell(&mut session, "wc -l < note.txt")["stdout"], "3\n");
    let changes = session.finalize().unwrap().fs_diff;
    assert_eq!(changes[0].path.as_str(), "note.txt");
    assert_eq!(std::fs::read_to_string(folder.path().join("note.txt")).unwrap(), "one\ntwo\n");
}

#[test]
fn process_of_a_host_call_is_not_waited_for_by_the_shell() {
    let folder = scratch();
    let mut session = session(folder.path());
    // The shell waits for all of its children; the processes of calls are not among them.
    let result = shell(&mut session, "ask workspace.cwd & ask runtime.task & wait; echo done");
    assert_eq!(result["stdout"], "{\"ok\":\"/worktree\"}\n{\"ok\":null}\ndone\n");
}

#[test]
fn interrupted_host_call_says_so() {
    let folder = scratch();
    let limits = belljar::Limits {
        virtual_timeout: Some(std::time::Duration::from_secs(1)),
        ..Default::default()
    };
    let mut short = bench(folder.path()).limits(limits).build().activate().unwrap();
    let ended = error(&mut short, "process.exec", &json!({ "argv": ["sleeper", "5000"] }));
    assert_eq!(ended, "process.exec was ended: virtual_timeout");

    // A guest can end any process of its machine, even one that it cannot see: 1, 2 and 3 run the
    // script, 4 sleeps, 5 is `ask`, and 6 makes its call.
    let mut session = session(folder.path());
    let call = r#"ask process.exec '{"argv":["sleeper","5000"]}'"#;
    let result = shell(&mut session, &format!("{call} & sleep 1; kill -9 6; wait; echo on"));
    let stdout = result["stdout"].as_str().unwrap();
    assert!(stdout.contains("\"kind\":\"ended\"") && stdout.contains("by SIGKILL"), "{result}");
    assert!(stdout.ends_with("on\n") && result["duration_ms"] == 1000, "{result}");
}

#[cfg(unix)]
mod native {
    use belljar::host::CommandPolicy;
    use belljar::native::{OnMissing, SandboxProfile};
    use belljar::testbench::TestbenchBuilder;

    use super::*;

    fn with_host(folder: &Path) -> TestbenchBuilder {
        bench(folder).on_missing(OnMissing::Native)
    }

    #[test]
    fn native_shell_runs_if_the_profile_allows_it() {
        let folder = scratch();
        let bash = json!({ "command": "[[ a < b ]] && echo $((2**10))", "shell": "bash" });
        let mut host = with_host(folder.path()).build().activate().unwrap();
        let shells = host.host_call("process.list_shells", &json!({})).unwrap();
        let is_bash = |shell: &&Value| shell["id"] == "bash";
        let found = shells.as_array().unwrap().iter().find(is_bash).unwrap();
        assert_eq!((&found["hermetic"], &found["is_default"]), (&json!(false), &json!(false)));
        assert_eq!(exec(&mut host, &bash)["stdout"], "1024\n");
        let profile =
            json!({ "argv": ["bash", "-c", "exit 3"], "sandbox_profile": "unrestricted" });
        assert_eq!(exec(&mut host, &profile)["exit_code"], 3);
        // The default shell is still belljar's own.
        assert_eq!(exec(&mut host, &json!({ "command": "[[ a ]]" }))["exit_code"], 2);

        let refused = with_host(folder.path()).sandbox_profile(SandboxProfile::Wasi);
        let mut refused = refused.build().activate().unwrap();
        let why = error(&mut refused, "process.exec", &bash);
        assert!(why.contains("unknown shell \"bash\"; available: sh"), "{why}");
    }

    /// Regression: the time until its next output was counted anew after each.
    #[test]
    fn native_program_that_prints_now_and_then_is_ended_at_its_time() {
        let folder = scratch();
        let mut session = with_host(folder.path()).build().activate().unwrap();
        for script in ["while :; do echo x; sleep 0.1; done", "while :; do echo x; done"] {
            let params = json!({ "argv": ["bash", "-c", script], "timeout_ms": 500 });
            let result = exec(&mut session, &params);
            assert_eq!(result["status"], "timed_out", "{script}");
        }
    }

    #[test]
    fn policy_blocks_native_programs_before_they_start() {
        let folder = scratch();
        let policy = CommandPolicy::new().deny("rm").unwrap();
        let bench = with_host(folder.path()).host_policy(policy);
        let mut session = bench.build().activate().unwrap();
        for command in ["rm note.txt", "x=rm; $x note.txt", "[[ a ]] && rm note.txt", "eval \"$x\""]
        {
            let params = json!({ "command": command, "shell": "bash" });
            assert_eq!(exec(&mut session, &params)["status"], "blocked", "{command}");
            let params = json!({ "argv": ["bash", "-c", command] });
            assert_eq!(exec(&mut session, &params)["status"], "blocked", "{command}");
        }
        let echo = json!({ "argv": ["bash", "-c", "echo kept"] });
        assert_eq!(exec(&mut session, &echo)["stdout"], "kept\n");
        // Also if belljar's own shell, whose programs are checked, would start it.
        let nested = shell(&mut session, "x='rm note.txt'; bash -c \"$x\"");
        assert_eq!(nested["status"], "blocked", "{nested}");
        let nested = shell(&mut session, "bash -c 'eval \"$(cat note.txt)\"'");
        assert_eq!(nested["status"], "blocked", "{nested}");
        assert!(folder.path().join("note.txt").is_file());
    }
}
