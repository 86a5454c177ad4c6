//! `verify` and `fidelity`.

#[cfg(unix)]
use std::io::Write;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;

use super::{guest_arg, scratch};
use crate::support::{belljar, stderr, stdout};

/// Makes a file that is older than all others.
fn make_earlier(folder: &Path) {
    let earlier = std::fs::File::create(folder.join("earlier")).unwrap();
    earlier.set_modified(std::time::UNIX_EPOCH + Duration::from_hours(1)).unwrap();
}

fn call(folder: &Path, args: &[&str]) -> Output {
    belljar(folder).args(args).output().unwrap()
}

fn verify(folder: &Path, args: &[&str]) -> (Option<i32>, Value) {
    let output = call(folder, &[&["verify", "-q", "-n", "2", "--json"], args].concat());
    let report = serde_json::from_str(&stdout(&output));
    (output.status.code(), report.unwrap_or_else(|_| panic!("{args:?}: {}", stderr(&output))))
}

#[test]
fn verify_passes_runs_that_depend_only_on_their_files() {
    let folder = scratch();
    std::fs::create_dir(folder.path().join("unread")).unwrap();
    make_earlier(folder.path());
    std::fs::create_dir(folder.path().join("many")).unwrap();
    for number in 0..20 {
        std::fs::write(folder.path().join(format!("many/{number}")), "old").unwrap();
    }
    let (walk, random, clock) = (guest_arg("walk"), guest_arg("random"), guest_arg("clock"));
    let overwrite = guest_arg("overwrite");
    for args in [
        &["wc", "note.txt"][..],
        &["replace", "one", "two", "note.txt"],
        &["sha256sum", "note.txt", "gone"],
        &[&walk, "."],
        &[&random],
        &[&clock],
        &[&overwrite, "rename:note.txt:unread/note.txt"],
        &["--dir", ".::/twice::ro", &walk, "/twice"],
        &["--mtimes", "content", "sh", "-c", "[ note.txt -nt earlier ] && echo later"],
        &["--mtimes", "fixed", "sh", "-c", "[ note.txt -nt earlier ] && echo later"],
        // Regression: perturbed times of files were later than any clock.
        &["sh", "-c", "for f in many/*; do echo x > $f; done; date"],
    ] {
        let (code, report) = verify(folder.path(), args);
        assert_eq!((code, &report["equal"]), (Some(0), &true.into()), "{args:?}: {report}");
    }
    assert!(folder.path().join("note.txt").exists());
}

/// The cause of the difference that `verify` finds.
fn cause(folder: &Path, args: &[&str]) -> String {
    let (code, report) = verify(folder, args);
    assert_eq!((code, &report["equal"]), (Some(1), &false.into()), "{args:?}: {report}");
    report["cause"].as_str().unwrap().to_owned()
}

#[test]
fn verify_names_the_cause_of_other_dependencies() {
    let folder = scratch();
    let (env, clock, sleeper, spew) =
        (guest_arg("env"), guest_arg("clock"), guest_arg("sleeper"), guest_arg("spew"));
    make_earlier(folder.path());
    let here = folder.path().canonicalize().unwrap().display().to_string();
    let (note, define) = (format!("{here}/note.txt"), format!("BASE={here}/sub"));
    for (args, words) in [
        (&["--clock", "real", &clock][..], ["host's clock", "--clock real"]),
        (&["--clock", "real", &sleeper, "1"], ["host's clock", "--clock real"]),
        (&["--env", "USER", &env], ["a variable depends on the host", "--env NAME=VALUE"]),
        (&["--env", "LANG", &env], ["a variable depends on the host", "--env NAME=VALUE"]),
        (
            &["--env", "BELLJAR_CACHE_DIR", &env],
            ["a variable depends on the host", "--env NAME=VALUE"],
        ),
        (
            &["--env", "NOT_SET_ANYWHERE", &env],
            ["a variable depends on the host", "--env NAME=VALUE"],
        ),
        (&["--env", &define, &env], ["a variable depends on the host", "--env NAME=VALUE"]),
        (&["wc", &note], ["path of a directory of the host", "--dir"]),
        (
            &["--dir", ".::/w", &env, &format!("-I{here}")],
            ["path of a directory of the host", "/worktree"],
        ),
        (
            &["sh", "-c", "[ note.txt -nt earlier ] && echo later"],
            ["times of files", "--mtimes content"],
        ),
        // How much is printed before the timeout depends on the speed and load of the host.
        (
            &["--timeout", "200ms", &spew, "1000000"],
            ["real time ended the program", "--virtual-timeout"],
        ),
    ] {
        let cause = cause(folder.path(), args);
        assert!(words.iter().all(|word| cause.contains(word)), "{args:?}: {cause}");
    }
}

/// A path that exists in the program's namespace under the same name does not count as a path of the host.
#[cfg(unix)]
#[test]
fn verify_does_not_vary_a_namespace_path_that_is_also_a_host_path() {
    let folder = scratch();
    let here = folder.path().canonicalize().unwrap().display().to_string();
    let note = format!("{here}/note.txt");
    let (code, report) = verify(folder.path(), &["--dir", &here, "cat", &note]);
    assert_eq!((code, &report["equal"]), (Some(0), &true.into()), "{report}");
}

#[test]
fn verify_lists_what_it_varied() {
    let folder = scratch();
    let (_, report) = verify(folder.path(), &["wc", "note.txt"]);
    let varied = |report: &Value| -> Vec<String> {
        serde_json::from_value(report["varied"].clone()).unwrap()
    };
    let all = varied(&report);
    assert_eq!(all[..3], ["folder", "file times", "file order"]);
    let others = ["environment", "user name", "language", "time zone", "host load", "start time"];
    assert_eq!(all[3..], others);
    let (_, report) = verify(folder.path(), &["--no-worktree", &guest_arg("hello")]);
    assert_eq!(varied(&report), others);
    let output = call(folder.path(), &["verify", "-q", "--", "wc", "note.txt"]);
    let text = format!("varied: folder, file times, file order, {}", others.join(", "));
    assert_eq!(stdout(&output).lines().last(), Some(text.as_str()));
}

/// Each value is read by a run that gets it from the host.
#[test]
fn verify_varies_environment_and_clock() {
    let folder = scratch();
    let dir = folder.path();
    for (args, field) in [
        (&["--env", "TZ", "--", &guest_arg("env")][..], "env"),
        (&["--clock", "real", "--", &guest_arg("clock")], "value_ns"),
    ] {
        let (_, report) = verify(dir, args);
        let divergences = report["divergences"].as_array().unwrap().iter();
        let mut fields = divergences.filter_map(|found| found["fields"].as_array()).flatten();
        let is_named = |found: &&Value| found["field"].as_str().unwrap().starts_with(field);
        let found = fields.find(is_named).unwrap_or_else(|| panic!("no {field}: {report}"));
        assert_ne!(found["recorded"], found["replay"]);
    }
    // The two runs start in different seconds.
    let (_, report) = verify(dir, &["--clock", "real", &guest_arg("clock")]);
    let seconds = |name: &str| -> Vec<u64> {
        let divergences = report["divergences"].as_array().unwrap().iter();
        let lines = divergences.filter_map(|found| found[name].as_str());
        let records = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        records.filter_map(|record| Some(record["virtual_time_ms"].as_u64()? / 1000)).collect()
    };
    assert!(seconds("recorded")[0] < seconds("replay")[0], "{report}");
}

/// Regression: a program that lists a directory with a named pipe saw none in the copies.
#[cfg(unix)]
#[test]
fn verify_copies_named_pipes() {
    let folder = scratch();
    make_pipe(&folder.path().join("pipe"));
    let (code, report) = verify(folder.path(), &[&guest_arg("walk"), "."]);
    assert_eq!((code, &report["equal"]), (Some(0), &true.into()), "{report}");
}

/// Regression: compiled code is hidden from programs at its original path; the copies were treated
/// differently.
#[test]
fn verify_hides_compiled_code_in_its_copies() {
    let folder = scratch();
    for code in ["not there yet", "there"] {
        let mut command = belljar(folder.path());
        command.args(["verify", "-q", "-n", "2", "--", &guest_arg("walk"), "."]);
        let output = command.env("BELLJAR_CACHE_DIR", folder.path().join("code")).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{code}: {}", stdout(&output));
    }
}

#[cfg(unix)]
fn make_pipe(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Verifies a run whose standard input is a pipe. While the first run waits for the end of its input, `meanwhile` is
/// called, and a file with content `then` replaces the pipe.
#[cfg(unix)]
fn cause_when(dir: &Path, args: &[&str], meanwhile: impl FnOnce() + Send, then: &[u8]) -> String {
    let pipe = dir.join("pipe");
    make_pipe(&pipe);
    std::fs::write(dir.join("then"), then).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = std::fs::File::options().write(true).open(&pipe).unwrap();
            // 1 MiB exceeds the capacity of a pipe, so the program is running once it is written.
            writer.write_all(&vec![b'1'; 1 << 20]).unwrap();
            meanwhile();
            std::fs::rename(dir.join("then"), &pipe).unwrap();
        });
        cause(dir, &[&["--stdin", "pipe"], args].concat())
    })
}

#[cfg(unix)]
#[test]
fn verify_detects_stdin_that_differs_between_runs() {
    let folder = scratch();
    let cause = cause_when(folder.path(), &["wc"], || {}, b"two\n");
    assert!(cause.contains("standard input differs"), "{cause}");
    assert!(cause.contains("--stdin FILE"), "{cause}");
}

#[cfg(unix)]
#[test]
fn verify_detects_a_module_replaced_between_runs() {
    let folder = scratch();
    let dir = folder.path();
    std::fs::copy(guest_arg("cat"), dir.join("tool.wasm")).unwrap();
    let replace = || {
        std::fs::copy(guest_arg("hello"), dir.join("other.wasm")).unwrap();
        std::fs::rename(dir.join("other.wasm"), dir.join("tool.wasm")).unwrap();
    };
    let cause = cause_when(dir, &["./tool.wasm"], replace, b"");
    assert!(cause.contains("module changed between the runs"), "{cause}");
}

#[cfg(unix)]
#[test]
fn a_file_that_changes_between_the_runs_is_found() {
    let folder = scratch();
    let note = folder.path().join("note.txt");
    let change = || std::fs::write(&note, "another\n").unwrap();
    let cause = cause_when(folder.path(), &["cat", "note.txt", "-"], change, b"");
    assert!(cause.contains("a mounted file differs"), "{cause}");
    assert!(cause.contains("--worktree"), "{cause}");
}

/// `verify` cannot vary the seed, because it is an option; the comparison of two tapes shows it.
#[test]
fn fidelity_detects_another_seed() {
    let folder = scratch();
    let random = guest_arg("random");
    for (tape, seed) in [("a.tape", "1"), ("b.tape", "2")] {
        let args = ["record", "-q", "--tape", tape, "--seed", seed, "--", &random];
        assert!(call(folder.path(), &args).status.success());
    }
    let output = call(folder.path(), &["fidelity", "a.tape", "b.tape"]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.contains("machine.changed: differs in config.seed"), "{text}");
    assert!(text.contains("random.changed"), "{text}");
}

#[test]
fn standard_input_is_the_same_for_all_runs() {
    let folder = scratch();
    let mut command = belljar(folder.path());
    command.args(["verify", "-q", "--", "wc"]).stdin(std::process::Stdio::piped());
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"one\ntwo\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(stdout(&output).starts_with("3 runs are the same, in "), "{}", stdout(&output));
}

#[test]
fn verify_refuses_apply_and_missing_programs() {
    let folder = scratch();
    let output = call(folder.path(), &["verify", "--apply", "--", "wc", "note.txt"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("omit --apply"));
    let output = call(folder.path(), &["verify", "--", "nothing"]);
    assert_eq!(output.status.code(), Some(127), "as `run` would end");
    assert!(stderr(&output).contains("no program \"nothing\""), "{}", stderr(&output));
}

#[test]
fn one_inserted_event_is_one_divergence() {
    let folder = scratch();
    let dir = folder.path();
    let record = |tape: &str, args: &[&str]| {
        let output = call(dir, &[&["record", "-q", "--tape", tape, "--"], args].concat());
        assert!(output.status.success(), "{}", stderr(&output));
    };
    record("a.tape", &["wc", "note.txt"]);
    let text = std::fs::read_to_string(dir.join("a.tape")).unwrap();
    let (header, records) = text.split_once('\n').unwrap();
    let mut records: Vec<Value> =
        records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut inserted = records[4].clone();
    inserted["kind"] = "extra".into();
    records.insert(4, inserted);
    let mut other = header.to_owned();
    for (seq, mut record) in records.into_iter().enumerate() {
        record["seq"] = seq.into();
        other = format!("{other}\n{record}");
    }
    std::fs::write(dir.join("b.tape"), other + "\n").unwrap();
    for mode in ["byte-identical", "semantic"] {
        let output = call(dir, &["fidelity", "--json", "--mode", mode, "a.tape", "b.tape"]);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(report["divergence_count"], 1, "{mode}: {report}");
    }
    let output = call(dir, &["fidelity", "--mode", "outcome", "a.tape", "b.tape"]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert_eq!(call(dir, &["fidelity", "a.tape", "a.tape"]).status.code(), Some(0));
    assert_eq!(call(dir, &["fidelity", "a.tape", "gone"]).status.code(), Some(2));
}
