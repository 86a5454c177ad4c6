//! What the cache of results may be trusted with: secrets, made up results, files that change, times, limits.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::{Project, files, guest_arg};
#[cfg(unix)]
use crate::support::tree;
use crate::support::{belljar, stderr, stdout};

/// Longer than the shortest value that is looked for.
const VALUE: &str = "correct horse";

impl Project {
    fn results(&self) -> PathBuf {
        self.0.path().join("cache/results-2")
    }

    /// Whether a file of the cache has these bytes.
    fn keeps(&self, text: &[u8]) -> bool {
        let has = |bytes: &Vec<u8>| bytes.windows(text.len()).any(|window| window == text);
        self.results().exists() && files(&self.results()).iter().any(|(_, bytes)| has(bytes))
    }

    /// What a run reports and prints, with the variable `SETTING` in the environment of belljar.
    fn with_setting(&self, value: &str, home: &str, args: &[&str]) -> (Value, String) {
        let mut command = belljar(&self.tree());
        command.args(["run", "--cache-results", "--explain", "--json=../report.json"]).args(args);
        command.env("BELLJAR_CACHE_DIR", self.0.path().join("cache"));
        command.env("BELLJAR_HOME", self.0.path().join(home)).env("SETTING", value);
        let output = command.output().unwrap();
        let report = fs::read_to_string(self.0.path().join("report.json")).unwrap();
        (serde_json::from_str(&report).unwrap(), stdout(&output) + &stderr(&output))
    }

    /// Changes the output of the only process in the cache from `one` to `two`.
    fn lie(&self) {
        let traces: Vec<_> =
            files(&self.results()).into_iter().filter(|(_, bytes)| !bytes.is_empty()).collect();
        let [(path, bytes)] = &traces[..] else { panic!("{} traces", traces.len()) };
        let mut body = bytes[belljar::Digest::BYTES..].to_vec();
        let at = body.windows(4).rposition(|window| window == b"one\n").unwrap();
        body[at..at + 3].copy_from_slice(b"two");
        let digest = belljar::Digest::of(&body);
        fs::write(path, [&digest.as_bytes()[..], &body].concat()).unwrap();
    }
}

/// A process that was given a value of the host's environment, and does not write it, is known; what is kept of the
/// value depends on a key that is not in the cache.
#[test]
fn values_of_the_environment_are_kept_as_digests_with_a_key() {
    let project = Project::new();
    project.write("a.txt", "b\na\n");
    let sort = ["--env", "SETTING", "sort", "a.txt"];
    let run = |value: &str, home: &str| project.with_setting(value, home, &sort).0;
    assert_eq!(run(VALUE, "home")["results"]["misses"], 1);
    assert_eq!(run(VALUE, "home")["cached"], true);
    let (report, said) = project.with_setting("another value", "home", &sort);
    assert_eq!(report["cached"], false);
    assert!(said.contains("ran sort: its environment variables differ"), "{said}");
    assert_eq!(run(VALUE, "home")["cached"], true);
    assert_eq!(run(VALUE, "elsewhere")["cached"], false, "with another key");

    assert!(!project.keeps(VALUE.as_bytes()));
    // A value on the command line is no secret: so the cache would have the other one, too.
    let given = format!("SETTING={VALUE}");
    project.cached("run", &["--env", &given, "sort", "a.txt"]);
    assert!(project.keeps(VALUE.as_bytes()));
    #[cfg(unix)]
    assert_eq!(mode(&project.0.path().join("home/results.key")), 0o600);
}

#[test]
fn results_with_secrets_are_kept_with_consent() {
    let project = Project::new();
    project.write("key", "AKIAABCDEFGHIJKLMNOP\n");
    let env = guest_arg("env");
    let options = ["--env", "SETTING", &env];
    for (args, option) in [(&options[..], None), (&options, Some("--cache-secrets"))] {
        let args: Vec<&str> = option.into_iter().chain(args.iter().copied()).collect();
        let (report, said) = project.with_setting(VALUE, "home", &args);
        assert!(said.contains(VALUE), "{said}");
        let is_kept = option.is_some();
        assert_eq!(report["results"]["withheld"], u64::from(!is_kept), "{said}");
        assert_eq!(said.contains("results of env are not kept: they hold a secret"), !is_kept);
        assert_eq!(said.contains("--cache-secrets keeps them"), !is_kept, "{said}");
        assert_eq!(project.with_setting(VALUE, "home", &args).0["cached"], is_kept);
        assert_eq!(project.keeps(VALUE.as_bytes()), is_kept);
    }
    let consented = ["--cache-secrets", "cat", "key"];
    project.cached("run", &consented);
    assert_eq!(project.cached("run", &consented).0["cached"], true);
    let alone = project.belljar(&["run", "--cache-secrets", "cat", "key"]);
    assert!(stderr(&alone).contains("--cache-results"), "{}", stderr(&alone));
}

/// The host adds it to requests, and programs never see it; one that has its value all the same has a secret.
#[cfg(feature = "http")]
#[test]
fn values_of_credentials_are_secrets() {
    let project = Project::new();
    project.write("note", &format!("{VALUE}\n"));
    let credential = ["--credential", "api.example.com=Authorization: Bearer $SETTING"];
    let args = [&credential[..], &["cat", "note"]].concat();
    let (report, said) = project.with_setting(VALUE, "home", &args);
    assert_eq!(report["results"]["withheld"], 1, "{said}");
    assert!(!project.keeps(VALUE.as_bytes()));
    let (report, said) = project.with_setting("another value", "home", &args);
    assert_eq!(report["results"]["withheld"], 0, "{said}");
}

#[cfg(unix)]
fn mode(path: &std::path::Path) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions()) & 0o777
}

#[cfg(unix)]
#[test]
fn files_of_the_cache_are_private() {
    let project = Project::new();
    project.write("a.txt", "b\na\n");
    project.cached("sh", &["-c", "sort a.txt; cat a.txt"]);
    assert_eq!(mode(&project.results()), 0o700);
    let entries = tree(&project.results());
    assert!(entries.len() > 8, "{entries:?}");
    for path in entries.into_keys() {
        let expected = if path.ends_with('/') { 0o700 } else { 0o600 };
        assert_eq!(mode(&project.results().join(&path)), expected, "{path}");
    }
}

#[test]
fn runs_that_are_shown_or_compared_are_not_answered() {
    let project = Project::new();
    project.write("a.txt", "one\n");
    project.cached("run", &["cat", "a.txt"]);
    project.lie();
    assert_eq!(stdout(&project.cached("run", &["cat", "a.txt"]).1), "two\n");
    for args in [
        &["record", "--cache-results", "--explain", "--tape=../t.tape", "cat", "a.txt"][..],
        &["run", "--cache-results", "--explain", "--trace=../trace", "cat", "a.txt"],
    ] {
        let output = project.belljar(args);
        assert_eq!(stdout(&output), "one\n", "{args:?}");
        assert!(stderr(&output).contains("results are not cached"), "{}", stderr(&output));
    }
    let trace = fs::read_to_string(project.0.path().join("trace")).unwrap();
    assert!(trace.contains("fd_read"), "{trace}");
    let verified = project.belljar(&["verify", "--cache-results", "-n", "2", "cat", "a.txt"]);
    assert!(stdout(&verified).contains("2 runs are the same"), "{}", stderr(&verified));
    let replayed = project.belljar(&["replay", "../t.tape"]);
    assert_eq!(stdout(&replayed), "one\n");
}

#[test]
fn verify_cached_compares_what_is_known_and_says_what_differs() {
    let project = Project::new();
    project.write("a.txt", "one\n");
    let verify = |args: &[&str]| {
        let output = project.belljar(&[&["verify", "--cached"], args].concat());
        (output.status.code(), stdout(&output) + &stderr(&output))
    };
    let cat = ["cat", "a.txt"];
    let (code, said) = verify(&cat);
    assert!(code == Some(0) && said.starts_with("nothing to compare: "), "{said}");
    project.belljar(&["cache", "results", "clear"]);
    project.cached("run", &cat);
    let (code, said) = verify(&cat);
    assert_eq!((code, said.as_str()), (Some(0), "1 process ran again, and did what is known\n"));

    project.lie();
    let (code, said) = verify(&cat);
    assert_eq!(code, Some(1), "{said}");
    let how = "fd_write hands over \"one\\n\", where it handed over \"two\\n\"";
    assert!(said.starts_with("cat differs from its results in call "), "{said}");
    assert!(said.lines().next().unwrap().ends_with(how), "{said}");
    assert!(said.contains("the results of 1 process are wrong, those of 0 right"), "{said}");
    let (code, said) = verify(&["--json", "cat", "a.txt"]);
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &report["equal"], &report["compared"]), (Some(1), &false.into(), &1.into()));
    assert_eq!(report["contradictions"][0]["how"], how);
    let (code, said) = verify(&["sh", "-c", "cat a.txt | wc -c"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("1 process not known before"), "{said}");

    let (code, said) = verify(&["--fuel=1000000000", "cat", "a.txt"]);
    assert!(said.contains("the results of the run are not cached: --fuel"), "{said}");
    assert_eq!(code, Some(125));
    let (code, said) = verify(&["no-such-program"]);
    assert!(said.contains("no program \"no-such-program\""), "{said}");
    assert_eq!(code, Some(127));
}

#[test]
fn part_of_what_is_known_runs_again_and_is_counted() {
    let project = Project::new();
    let script = "i=0; while [ $i -lt 200 ]; do true $i | cat; i=$((i+1)); done";
    project.cached("sh", &["-c", script]);
    // 200 processes of `cat`, one action; of which each runs again with a chance of one half.
    let counts = |percent: &str| {
        let (report, output) = project.cached("sh", &["--rerun", percent, "-c", script]);
        assert!(output.status.success(), "{}", stderr(&output));
        let count = |name: &str| report["results"][name].as_u64().unwrap();
        assert_eq!((count("misses"), count("wrong")), (0, 0), "{percent}");
        assert_eq!(count("hits") + count("rerun"), 200, "{percent}");
        let said = stderr(&output);
        assert!(said.contains(&format!("{} ran again", count("rerun"))), "{said}");
        count("rerun")
    };
    // 8 standard deviations around the mean.
    assert!((43..157).contains(&counts("50%")));
    assert_eq!(counts("0"), 0);
    assert_eq!(counts("100%"), 200);
    assert!(counts("0.01%") < 5);
    for wrong in ["101", "-1", "1e1", "half", "%", ""] {
        let output = project.belljar(&["run", &format!("--rerun={wrong}"), "true"]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(stderr(&output).contains("such as 1% or 0.1%"), "{}", stderr(&output));
    }
}

#[test]
fn touched_file_is_known_unless_its_time_was_seen() {
    let project = Project::new();
    project.write("a.txt", "one\n");
    let touch = || {
        let file = fs::File::options().append(true).open(project.tree().join("a.txt")).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000))
            .unwrap();
    };
    for mode in ["fixed", "content", "host"] {
        let args = [&format!("--mtimes={mode}"), "ls", "-l", "a.txt"];
        project.write("a.txt", "one\n");
        assert_eq!(project.counts("run", &args).1, 1, "{mode}");
        touch();
        let (hits, _, said) = project.counts("run", &args);
        assert_eq!(hits, u64::from(mode != "host"), "{mode}: {said}");
        let why = "ran ls: a.txt: it has another size, time or number";
        assert_eq!(said.contains(why), mode == "host", "{mode}: {said}");
    }
}

#[test]
fn known_processes_count_towards_limits() {
    let project = Project::new();
    let script = "seq 1000 > many; seq 1000";
    assert_eq!(project.counts("sh", &["-c", script]).1, 2);
    for (option, name) in [("--max-upper=2KiB", "upper"), ("--max-output=2KiB", "output")] {
        let run = |cached: &[&str]| {
            let args = [&["sh", option, "--json=../r.json"], cached, &["-c", script]].concat();
            let output = project.belljar(&args);
            let report = fs::read_to_string(project.0.path().join("r.json")).unwrap();
            let mut report: Value = serde_json::from_str(&report).unwrap();
            let hits = report["results"]["hits"].as_u64();
            for field in ["timings", "results", "cached", "cache_hit", "tiers"] {
                report[field] = Value::Null;
            }
            (report, output.status.code(), stdout(&output), hits)
        };
        let (report, code, printed, _) = run(&[]);
        assert_eq!(report["limits_hit"], serde_json::json!([name]), "{option}");
        let known = run(&["--cache-results"]);
        assert_eq!((&known.0, known.1, &known.2), (&report, code, &printed), "{option}");
        // What met the limit is not one of these.
        assert!(known.3 <= Some(1), "{option}: {known:?}");
        assert_eq!(
            project.counts("sh", &["-c", script]),
            (2, 0, project.counts("sh", &["-c", script]).2)
        );
    }
}

#[test]
fn sensitive_changes_are_found_when_they_are_known() {
    let project = Project::new();
    let args = ["tee", ".git/hooks/pre-commit", ".envrc"];
    fs::create_dir_all(project.tree().join(".git/hooks")).unwrap();
    let (first, output) = project.cached("run", &args);
    let (second, again) = project.cached("run", &args);
    assert_eq!((&first["cached"], &second["cached"]), (&false.into(), &true.into()));
    assert!(first["sensitive"].as_array().is_some_and(|list| !list.is_empty()), "{first}");
    assert_eq!(first["sensitive"], second["sensitive"]);
    let warning = |output| {
        let said = stderr(output);
        said.lines().find(|line| line.contains("warning")).map(str::to_owned)
    };
    assert!(warning(&output).is_some());
    assert_eq!(warning(&output), warning(&again));
}

/// A program is not given two states of the disk; what it was given of them is in its trace, which is followed where it is
/// given again, and nowhere else.
#[test]
fn files_that_change_while_a_program_runs_never_make_a_wrong_result() {
    use std::io::Write;
    use std::process::Stdio;

    let project = Project::new();
    let write = |name: &str, text: &str| project.write(name, text);
    let cat = ["run", "--cache-results", "--mtimes=fixed", "cat", "a.txt", "-", "b.txt", "c.txt"];
    let run_changing = |change: &dyn Fn()| {
        let mut command = belljar(&project.tree());
        command.args(cat).env("BELLJAR_CACHE_DIR", project.0.path().join("cache"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It has written `a.txt` when it waits for standard input.
        let mut read = [0; 1];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut read).unwrap();
        change();
        child.stdin.take().unwrap().write_all(b"middle\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let printed = String::from_utf8([&read[..], &output.stdout].concat()).unwrap();
        (printed, stderr(&output))
    };
    let run = || {
        let (printed, said) = run_changing(&|| {});
        assert_eq!(said, "");
        printed
    };
    for name in ["a.txt", "b.txt", "c.txt"] {
        write(name, "old\n");
    }
    let (changed, said) = run_changing(&|| {
        for name in ["a.txt", "b.txt", "c.txt"] {
            write(name, "new\n");
        }
    });
    assert_eq!(changed, "old\nmiddle\n");
    assert!(said.contains("b.txt was changed on the disk after the run began"), "{said}");
    assert_eq!(run(), "new\nmiddle\nnew\nnew\n");
    for name in ["a.txt", "b.txt", "c.txt"] {
        write(name, "old\n");
    }
    assert_eq!(run(), "old\nmiddle\nold\nold\n");
    write("b.txt", "new\n");
    assert_eq!(run(), "old\nmiddle\nnew\nold\n");
    assert_eq!(run(), "old\nmiddle\nnew\nold\n");
}
