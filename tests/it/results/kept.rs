//! Which results are kept, and what the report says of those that are not.

use std::fs;

use serde_json::{Value, json};

use super::{Project, guest_arg};
use crate::support::{belljar, package, stderr, stdout};

/// Runs it twice; returns the second report, and what was said.
fn twice(project: &Project, command: &str, args: &[&str]) -> (Value, String) {
    let first = project.cached(command, args);
    let (report, output) = project.cached(command, args);
    for field in
        ["status", "exit_code", "guest_exit_code", "error", "backtrace", "trapped", "limits_hit"]
    {
        assert_eq!(first.0[field], report[field], "{field} of {args:?}");
    }
    assert_eq!(stdout(&first.1), stdout(&output), "{args:?}");
    (report, stderr(&output))
}

#[test]
fn programs_that_failed_by_themselves_are_known() {
    let project = Project::new();
    let trap = guest_arg("trap");
    for kind in ["unreachable", "divide", "overflow", "memory", "call"] {
        let (report, said) = twice(&project, "run", &[&trap, kind]);
        assert_eq!(report["cached"], true, "{kind}: {said}");
        assert_eq!((&report["status"], &report["exit_code"]), (&"trapped".into(), &134.into()));
        assert!(report["backtrace"].as_array().is_some_and(|it| !it.is_empty()), "{report}");
        assert!(said.contains("trap.wasm"), "{said}");
    }
    let (report, said) = twice(&project, "run", &["grep", "x", "no-such-file"]);
    assert_eq!((&report["cached"], &report["exit_code"]), (&true.into(), &2.into()), "{said}");

    // In a script, what is known of one that trapped does not end the script. `trap` is a builtin of the shell.
    fs::create_dir(project.tree().join("tools")).unwrap();
    fs::copy(&trap, project.tree().join("tools/crash.wasm")).unwrap();
    let script = ["--toolchain=tools", "-c", "crash divide; echo $?; yes | head -n 1"];
    project.cached("sh", &script);
    let (report, output) = project.cached("sh", &script);
    assert_eq!(stdout(&output), "134\ny\n");
    assert_eq!(
        (&report["results"]["hits"], &report["results"]["misses"]),
        (&3.into(), &0.into()),
        "{}",
        stderr(&output)
    );
    assert_eq!(report["trapped"].as_array().map(Vec::len), Some(1));
}

/// Checks that the program always runs, and that the report says `why`.
fn runs_because(project: &Project, command: &str, args: &[&str], program: &str, why: &str) {
    let (report, said) = twice(project, command, args);
    assert_eq!(report["cached"], false, "{args:?}");
    let reasons = report["results"]["not_kept"].as_array().unwrap();
    let is_said =
        |it: &Value| it["program"] == program && it["why"].as_str().unwrap().contains(why);
    assert!(reasons.iter().any(is_said), "{args:?}: {reasons:?}");
    assert!(said.contains(why), "{args:?}: {said}");
}

#[test]
fn what_the_host_or_a_limit_ended_runs_and_the_report_says_why() {
    let project = Project::new();
    fs::File::create(project.tree().join("big")).unwrap().set_len(300 << 20).unwrap();
    let [deep, looping, alloc] = ["deep", "loop", "alloc_bomb"].map(guest_arg);
    for (args, program, why) in [
        (
            &[&deep, "100000000"][..],
            "deep",
            "it trapped for a reason that is not in its code alone: ",
        ),
        (&["--timeout=100ms", &looping], "loop", "the limit timeout ended it"),
        (&["--max-memory=32MiB", &alloc], "alloc_bomb", "the limit of memory"),
        (&["cksum", "big"], "cksum", "more than 256 MiB"),
    ] {
        runs_because(&project, "run", args, program, why);
    }
    let guests = package().join("guest-examples").display().to_string();
    let killed = "sleeper 1000000 & sleep 1; kill $!; wait $!; echo $?";
    let args = ["--toolchain", &guests, "-c", killed];
    runs_because(&project, "sh", &args, "sleeper", "a signal ended it while it waited");
}

#[test]
fn components_run_and_the_report_says_why() {
    let project = Project::new();
    let guests = package().join("tests/guests").display().to_string();
    let args = ["--toolchain", &guests, "-c", "preview2_calls; true"];
    runs_because(&project, "sh", &args, "preview2_calls", "it is a component");
    let module = package().join("tests/guests/preview2_calls.wasm").display().to_string();
    let (report, said) = twice(&project, "run", &[&module]);
    assert_eq!(report["results"]["not_used"], "results of components are not cached");
    assert!(said.contains("results are not cached: "), "{said}");
}

#[cfg(unix)]
#[test]
fn programs_of_the_host_run_and_the_report_says_why() {
    let project = Project::new();
    let (report, _) = twice(&project, "run", &["--on-missing=native", "bash", "-c", "true"]);
    assert_eq!(report["results"]["not_used"], "programs of the host run");
    // One line, which is one write: how many reads take several ones is up to the host.
    let script = "bash -c 'echo b' | sort > out; true | cat";
    let args = ["--on-missing=native", "-c", script];
    let (report, said) = twice(&project, "sh", &args);
    let not_kept = json!([{ "program": "bash", "why": "it is a program of the host" }]);
    assert_eq!(report["results"]["not_kept"], not_kept);
    assert!(said.contains("belljar: ran bash: it is a program of the host\n"), "{said}");
    // What reads what it wrote is known, as long as it writes the same.
    assert_eq!((&report["results"]["hits"], &report["results"]["misses"]), (&2.into(), &0.into()));
}

/// The host is asked again: its answer is a question like others, and what follows from it is known.
#[test]
fn answers_of_people_and_of_the_host_are_asked_again() {
    let project = Project::new();
    let ask = guest_arg("ask");
    let question = ["interaction.ask", "{\"question\":\"color?\"}"];
    let with = |answer: &str| {
        project.write("answers.json", &json!([answer]).to_string());
        let args = [
            "--host-answers=answers.json",
            "--host-task=go",
            &ask,
            question[0],
            question[1],
            "runtime.task",
        ];
        let (report, output) = project.cached("run", &args);
        assert!(stdout(&output).contains(answer), "{}", stdout(&output));
        (report["cached"] == true, stderr(&output))
    };
    assert!(!with("blue").0);
    assert!(with("blue").0);
    let (is_known, said) = with("red");
    assert!(!is_known && said.contains("ran ask: the host gave another answer"), "{said}");
    assert!(with("red").0 && with("blue").0);
    let args = [&ask, "runtime.set_result", "{\"value\":{\"n\":1}}"];
    let (report, said) = twice(&project, "run", &args);
    assert_eq!(
        (&report["cached"], &report["host_result"]),
        (&true.into(), &json!({ "n": 1 })),
        "{said}"
    );
}

/// A mock answers as the host does.
#[test]
fn mocks_are_asked_again() {
    use std::sync::Arc;

    use belljar::host::{HostMock, SessionHost};
    use belljar::results::{ResultCache, Results};
    use belljar::{Command, Machine, Program};

    let folder = tempfile::tempdir().unwrap();
    let results = Arc::new(Results::new(ResultCache::new(folder.path())));
    let ask = Program::load(crate::support::engine(), crate::support::guest("ask")).unwrap();
    let answered = |answer: i32| {
        let host = SessionHost::builder().build();
        host.handle().mock("db", "query", HostMock::result(json!([answer])));
        let mut machine = Machine::builder().host(host).build().unwrap();
        let mut command = Command::new(&ask);
        let output = command.arg("db.query").cached(&results).output(&mut machine).unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains(&format!("[{answer}]")));
        let statistics = results.statistics();
        (statistics.hits, statistics.misses)
    };
    assert_eq!(
        [answered(1), answered(1), answered(2), answered(1)],
        [(0, 1), (1, 1), (1, 2), (2, 2)]
    );
}

/// A request is made again; what the server says decides.
#[cfg(feature = "http")]
#[test]
fn requests_are_made_again() {
    use crate::http::Server;

    let project = Project::new();
    let ask = guest_arg("ask");
    let answer = |text: &str| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\n{text}")
    };
    let texts = ["left", "left", "back"].map(answer);
    let server = Server::saying(&texts.each_ref().map(String::as_str));
    let allowed = format!("--allow-net=127.0.0.1:{}", server.port);
    let request = json!({ "url": server.url("/") }).to_string();
    let mut known = Vec::new();
    for text in ["left", "left", "back"] {
        let (report, output) = project.cached("run", &[&allowed, &ask, "net.http", &request]);
        assert!(stdout(&output).contains(text), "{} {}", stdout(&output), stderr(&output));
        known.push(report["cached"] == true);
    }
    assert_eq!(known, [false, true, false]);
}

/// What is typed is asked for again, byte by byte.
#[test]
fn standard_input_is_read_again() {
    let project = Project::new();
    let with = |typed: &str| {
        let mut command = belljar(&project.tree());
        command.args(["run", "--cache-results", "--json=../report.json", "cat"]);
        command.env("BELLJAR_CACHE_DIR", project.0.path().join("cache"));
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), typed.as_bytes()).unwrap();
        assert_eq!(stdout(&child.wait_with_output().unwrap()), typed);
        let report = fs::read_to_string(project.0.path().join("report.json")).unwrap();
        serde_json::from_str::<Value>(&report).unwrap()["cached"] == true
    };
    assert_eq!(
        [with("a\n"), with("a\n"), with("b\n"), with("b\n"), with("a\n")],
        [false, true, false, true, true]
    );
}
