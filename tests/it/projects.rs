//! `belljar.toml`: the toolchains and options of a project, its lock file, and trust.

use std::path::PathBuf;
use std::process::Output;

use serde_json::{Value, json};

use crate::support::{
    Belljar, belljar, guest, has_links, package, skipped, slashed, stderr, stdout, symlink,
};

/// A home, a toolchain `notes` in `notes/` and as a bundle in the project `work`, which has a folder `sub`.
struct Scene(tempfile::TempDir);

impl Scene {
    fn new(project: &str) -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        for folder in ["home", "away", "notes", "work/sub", "work/lib"] {
            std::fs::create_dir_all(scene.path(folder)).unwrap();
        }
        std::fs::copy(guest("cat"), scene.path("notes/cat.wasm")).unwrap();
        std::fs::copy(guest("env"), scene.path("notes/env.wasm")).unwrap();
        scene.pack("1", "work/notes.belljar");
        scene.write("work/lib/a.txt", "of the project\n");
        scene.write("work/belljar.toml", project);
        scene
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::write(self.path(path), text).unwrap();
    }

    /// Writes the version `version` of the toolchain to the bundle `to`.
    fn pack(&self, version: &str, to: &str) {
        let manifest = json!({
            "format": "1.0", "name": "notes", "version": version, "trees": { "share": "share" },
            "programs": {
                "note": { "module": "cat.wasm", "args": ["{toolchain}/share/note"] },
                "variables": { "module": "env.wasm" },
            },
        });
        std::fs::create_dir_all(self.path("notes/share")).unwrap();
        self.write("notes/share/note", &format!("version {version}\n"));
        self.write("notes/toolchain.json", &manifest.to_string());
        let to = self.path(to);
        let to = to.to_str().unwrap();
        let made = belljar(&self.path("notes")).args(["toolchain", "pack", "-o", to]).output();
        assert!(made.unwrap().status.success());
    }

    fn command(&self, dir: &str, args: &[&str]) -> Belljar {
        let mut command = belljar(&self.path(dir));
        command.env("BELLJAR_HOME", self.path("home")).args(args);
        command
    }

    fn call(&self, args: &[&str]) -> Output {
        self.command("work/sub", args).output().unwrap()
    }

    fn succeed(&self, args: &[&str]) -> String {
        let output = self.call(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    }

    fn fail(&self, args: &[&str]) -> String {
        let output = self.call(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stdout(&output));
        slashed(&stderr(&output))
    }

    fn config(&self) -> Value {
        serde_json::from_str(&self.succeed(&["config", "--json"])).unwrap()
    }
}

const NOTES: &str = "[toolchains]\nnotes = { source = \"notes.belljar\" }\n";

#[test]
fn a_project_gets_what_is_locked_until_it_asks_for_an_update() {
    let scene = Scene::new(NOTES);
    let missing = scene.fail(&["run", "note"]);
    assert!(
        missing.contains(
            "names notes, which is not installed for this project: run `belljar install`"
        ),
        "{missing}"
    );
    assert!(scene.fail(&["install", "--locked"]).contains("--locked forbids to add it"));
    assert_eq!(scene.succeed(&["install"]), "notes 1: note variables\n");
    let lock = std::fs::read_to_string(scene.path("work/belljar.lock")).unwrap();
    assert_eq!(scene.succeed(&["run", "--locked", "note"]), "version 1\n");
    assert_eq!(scene.succeed(&["sh", "-c", "note"]), "version 1\n");

    // What is installed is enough, without the bundle.
    scene.pack("2", "work/notes.belljar");
    scene.succeed(&["install", "--locked"]);
    assert_eq!(scene.succeed(&["run", "note"]), "version 1\n");

    // Another machine has it in no store.
    let elsewhere = scene.path("home2");
    let output =
        scene.command("work", &["install"]).env("BELLJAR_HOME", &elsewhere).output().unwrap();
    assert!(stderr(&output).contains("`belljar install --update`"), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(scene.path("work/belljar.lock")).unwrap(), lock);

    assert_eq!(scene.succeed(&["install", "--update"]), "notes 2: note variables\n");
    assert_ne!(std::fs::read_to_string(scene.path("work/belljar.lock")).unwrap(), lock);
    assert_eq!(scene.succeed(&["run", "note"]), "version 2\n");
    // The version that is not needed any more stays until `gc`, as the project may go back to it.
    let removed = scene.succeed(&["toolchain", "gc"]);
    assert!(removed.starts_with("removed notes 1, which no project needs\n"), "{removed}");
    let versions = std::fs::read_dir(scene.path("home/toolchains/versions")).unwrap().count();
    assert_eq!(versions, 1);
}

#[test]
fn an_entry_that_cannot_be_installed_names_the_file_and_what_is_wrong() {
    let scene = Scene::new(NOTES);
    scene.command("notes", &["install", "--quiet", "."]).output().unwrap();
    for (entry, why) in [
        (r#"notes = { source = "no.belljar" }"#, "there is no folder or bundle"),
        (r#"notes = { source = "no.belljar" }"#, "work/no.belljar"),
        (r#"notes = "notes.belljar""#, r#"is written `notes = { source = "notes.belljar" }`"#),
        (r#"notes = "7""#, "the version 7 is wanted, and 1 is installed"),
        (r#"other = "*""#, "there is no recipe of this name, and nothing is installed"),
        (r#"avr-gcc = "0""#, "avr-gcc 0 is wanted, and this is"),
        (r#"notes = { source = "lib" }"#, "it has no toolchain.json"),
    ] {
        scene.write("work/belljar.toml", &format!("[toolchains]\n{entry}\n"));
        let error = scene.fail(&["install"]);
        assert!(error.contains(why), "{entry}: {error}");
    }
    // Regression: `*` was compared with the version.
    for entry in [
        r#"notes = { version = "*", source = "notes.belljar" }"#,
        r#"notes = { version = "*" }"#,
        r#"notes = "*""#,
    ] {
        scene.write("work/belljar.toml", &format!("[toolchains]\n{entry}\n"));
        scene.succeed(&["install"]);
        assert_eq!(scene.succeed(&["run", "note"]), "version 1\n", "{entry}");
    }
    scene.write("work/belljar.toml", "[toolchains]\nnotes = \"9\"\n");
    let error = scene.fail(&["install", "--locked"]);
    assert!(error.contains("belljar.lock has the version 1, not the one of"), "{error}");
}

#[test]
fn two_projects_and_a_user_have_three_versions_of_a_toolchain() {
    let scene = Scene::new(NOTES);
    scene.succeed(&["install"]);
    scene.pack("2", "other.belljar");
    let other = scene.path("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::copy(scene.path("other.belljar"), other.join("notes.belljar")).unwrap();
    std::fs::write(other.join("belljar.toml"), NOTES).unwrap();
    assert!(scene.command("other", &["install"]).output().unwrap().status.success());
    scene.pack("3", "third.belljar");
    let third = scene.path("third.belljar");
    assert!(scene.command("away", &["install"]).arg(&third).output().unwrap().status.success());
    let note = |dir: &str| stdout(&scene.command(dir, &["run", "note"]).output().unwrap());
    let notes = || ["work", "other", "away"].map(note);
    assert_eq!(notes(), ["version 1\n", "version 2\n", "version 3\n"]);
    scene.succeed(&["toolchain", "gc"]);
    assert_eq!(notes(), ["version 1\n", "version 2\n", "version 3\n"]);

    // A project that is gone needs nothing.
    std::fs::remove_dir_all(&other).unwrap();
    assert!(!scene.succeed(&["toolchain", "gc"]).contains("removed 0 contents"));
    assert_eq!(["work", "away"].map(note), ["version 1\n", "version 3\n"]);
}

/// `belljar install NAME` replaces what is installed under the name; a project had locked that.
#[test]
fn a_locked_version_stays_when_another_is_installed_by_name() {
    let scene = Scene::new("[toolchains]\nnotes = \"1\"\n");
    let bundle = scene.path("work/notes.belljar");
    scene.succeed(&["install", bundle.to_str().unwrap()]);
    scene.succeed(&["install"]);
    scene.pack("2", "second.belljar");
    let second = scene.path("second.belljar");
    scene.succeed(&["install", second.to_str().unwrap()]);
    scene.succeed(&["toolchain", "gc"]);
    assert_eq!(scene.succeed(&["run", "note"]), "version 1\n");
    assert_eq!(stdout(&scene.command("away", &["run", "note"]).output().unwrap()), "version 2\n");
}

#[test]
fn a_project_with_toolchains_uses_no_others() {
    let scene = Scene::new("[toolchains]\n");
    let bundle = scene.path("work/notes.belljar");
    scene.succeed(&["install", bundle.to_str().unwrap()]);
    let output = scene.call(&["run", "note"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(
        stderr(&output).contains("the installed toolchain notes has it"),
        "{}",
        stderr(&output)
    );
    assert!(!scene.succeed(&["programs"]).contains("note "));
    let outside = scene.command("work", &["run", "note"]).env("BELLJAR_PROJECT", "none").output();
    assert_eq!(stdout(&outside.unwrap()), "version 1\n");
}

#[test]
fn a_folder_of_the_project_is_used_where_it_lies() {
    let scene = Scene::new("[toolchains]\nnotes = { source = \"tools\" }\n");
    scene.pack("1", "unused.belljar");
    std::fs::rename(scene.path("notes"), scene.path("work/tools")).unwrap();
    assert_eq!(scene.succeed(&["run", "--quiet", "note"]), "version 1\n");
    scene.write("work/tools/share/note", "edited\n");
    assert_eq!(scene.succeed(&["run", "note"]), "edited\n");
    scene.succeed(&["install"]);
    scene.succeed(&["install", "--locked"]);
    assert!(!scene.path("work/belljar.lock").exists());
}

#[test]
fn a_session_keeps_the_toolchains_that_the_project_had() {
    let scene = Scene::new(NOTES);
    scene.succeed(&["install"]);
    scene.succeed(&["sandbox", "create", "--id", "box"]);
    let shown: Value =
        serde_json::from_str(&scene.succeed(&["sandbox", "show", "--json", "box"])).unwrap();
    assert_eq!(shown["project_toolchains"][0]["version"], "1");
    let note = || scene.command("away", &["sandbox", "exec", "box", "note"]).output().unwrap();
    assert_eq!(stdout(&note()), "version 1\n");
    scene.pack("2", "second.belljar");
    let second = scene.path("second.belljar");
    scene.succeed(&["install", second.to_str().unwrap()]);
    assert_eq!(stdout(&note()), "version 1\n");
}

#[test]
fn options_of_the_command_line_precede_those_of_the_project() {
    let scene = Scene::new(
        "[run]\nseed = 7\nenv = [\"A=project\", \"B=project\"]\ndir = [\"lib\"]\nstart-at = 2020-01-01\n",
    );
    let variables = guest("env");
    let variables = variables.to_str().unwrap();
    let shown = scene.succeed(&["run", "-e", "A=mine", variables]);
    assert!(shown.contains("A=mine") && shown.contains("B=project"), "{shown}");
    assert!(!shown.contains("A=project"), "{shown}");
    let date = "date +%Y; cat lib/a.txt";
    let all = "2020\nof the project\n";
    assert_eq!(scene.succeed(&["sh", "-c", date]), all);
    assert!(
        scene.succeed(&["sh", "--start-at", "2021-01-01", "-c", "date +%Y"]).starts_with("2021")
    );
    let other = scene.path("away");
    let replaced = format!("{}::lib", other.display());
    let listed = scene.succeed(&["sh", "--dir", &replaced, "-c", "ls lib"]);
    assert!(!listed.contains("a.txt"), "{listed}");
    let report = scene.succeed(&["record", "-q", "--tape", "../../t.tape", "echo", "x"]);
    assert_eq!(report, "x\n");
    let recorded = std::fs::read_to_string(scene.path("t.tape")).unwrap();
    assert!(recorded.contains("\"seed\":7"), "{}", recorded.lines().next().unwrap());
}

#[test]
fn what_reaches_beyond_a_project_counts_once_it_is_trusted_and_until_it_changes() {
    let project = "[run]\nenv = [\"SECRET\", \"A=b\"]\ndir = [\"../outside::/outside\"]\nmax-memory = \"8GiB\"\n\
                   timeout = \"1h\"\nclock = \"real\"\napply = true\nallow-net = [\"a.test\"]\n";
    let scene = Scene::new(project);
    std::fs::create_dir(scene.path("outside")).unwrap();
    let run = || {
        let script = "echo \"$SECRET $A\"; test -d /outside && echo outside; echo new > new";
        let mut command = scene.command("work/sub", &["sh", "-c", script]);
        command.env("SECRET", "mine").output().unwrap()
    };
    let output = run();
    assert_eq!(stdout(&output), " b\n");
    let note = "env, dir, max-memory, clock, apply, allow-net of ";
    assert!(stderr(&output).contains(note), "{}", stderr(&output));
    assert!(!scene.path("work/sub/new").exists());
    let ignored = scene.config()["ignored"].as_array().unwrap().len();
    assert_eq!(ignored, 6);
    let timeout = scene.config()["options"].as_array().unwrap().iter().find_map(|option| {
        (option["name"] == "timeout").then(|| option["from"].as_str().unwrap().to_owned())
    });
    assert_eq!(timeout.as_deref(), Some("belljar.toml"));

    let asked = scene.succeed(&["trust"]);
    for setting in
        ["env = SECRET", "dir = ../outside::/outside", "max-memory = 8GiB", "apply = true"]
    {
        assert!(asked.contains(setting), "{setting}: {asked}");
    }
    assert_eq!(stdout(&run()), "mine b\noutside\n");
    assert_eq!(std::fs::read_to_string(scene.path("work/sub/new")).unwrap(), "new\n");
    assert_eq!(scene.config()["project"]["trusted"], true);

    scene.write("work/belljar.toml", &format!("{project}# changed\n"));
    assert_eq!(stdout(&run()), " b\n");
    scene.succeed(&["trust"]);
    assert_eq!(stdout(&run()), "mine b\noutside\n");
    scene.succeed(&["trust", "--revoke"]);
    assert_eq!(stdout(&run()), " b\n");
}

#[test]
fn trust_covers_the_command_policy_that_a_project_names() {
    let scene = Scene::new("[run]\nhost-policy = \"policy.json\"\n");
    scene.write("work/policy.json", "{}");
    scene.succeed(&["trust"]);
    assert_eq!(scene.config()["project"]["trusted"], true);
    scene.write("work/policy.json", "{ }");
    assert_eq!(scene.config()["project"]["trusted"], false);
}

#[test]
fn a_link_out_of_the_project_is_outside_of_it() {
    if !has_links("a_link_out_of_the_project_is_outside_of_it") {
        return;
    }
    let scene =
        Scene::new("[run]\ndir = [\"link::/x\"]\n[toolchains]\nnotes = { source = \"tools\" }\n");
    assert!(symlink("../away", scene.path("work/link")));
    assert!(symlink("../notes", scene.path("work/tools")));
    assert_eq!(scene.config()["ignored"][0]["name"], "dir");
    let error = scene.fail(&["run", "-q", "note"]);
    assert!(error.contains("tools is outside of the project"), "{error}");
    assert!(scene.fail(&["install"]).contains("tools is outside of the project"));
    scene.succeed(&["trust"]);
    assert_eq!(scene.succeed(&["run", "-q", "note"]), "version 1\n");
}

#[test]
fn what_is_wrong_in_a_project_is_named() {
    let scene = Scene::new("");
    for (project, message) in [
        (
            "[run]\nsede = 1\n",
            "belljar.toml: run.sede: there is no such setting; did you mean seed?",
        ),
        ("[run]\nseed = \"x\"\n", "run.seed: invalid value 'x' for '--seed <N>'"),
        ("[run]\ntimeout = [\"1s\"]\n", "run.timeout: it takes one value, not a list"),
        ("[run]\nno-worktree = false\n", "run.no-worktree: leave it out in place of `false`"),
        ("[run]\nmax-files = 1.5\n", "run.max-files: expected a text, a number or `true`"),
        ("run = 1\n", "belljar.toml:1:7: "),
    ] {
        scene.write("work/belljar.toml", project);
        let error = scene.fail(&["run", "-q", "echo"]);
        assert!(error.contains(message), "{project:?}: {error}");
    }
    std::fs::remove_file(scene.path("work/belljar.toml")).unwrap();
    assert!(scene.fail(&["trust"]).contains("there is no belljar.toml in this directory or above"));
    assert!(scene.fail(&["install"]).contains("run this in a project"));
    assert!(scene.fail(&["run", "--locked", "echo"]).contains("--locked: no belljar.toml"));
    assert_eq!(scene.config()["project"], Value::Null);
}

/// Regression: the path to which a setting led was taken apart again where it has `::`, and what came before was a link.
#[cfg(unix)]
#[test]
fn a_folder_with_colons_in_its_name_is_outside_of_a_project() {
    for (folder, link, setting) in
        [("q::ro", "x", "worktree = \"x\""), ("q::/z", "ro", "dir = [\"ro\"]")]
    {
        let scene = Scene::new(&format!("[run]\n{setting}\n"));
        scene.write("away/key", "secret\n");
        std::fs::create_dir_all(scene.path("work").join(folder)).unwrap();
        std::os::unix::fs::symlink("../away", scene.path("work/q")).unwrap();
        std::os::unix::fs::symlink(folder, scene.path("work").join(link)).unwrap();
        let output = scene.call(&["sh", "-c", "cat key /z/key"]);
        assert!(!stdout(&output).contains("secret"), "{setting}");
        assert_eq!(scene.config()["ignored"].as_array().unwrap().len(), 1, "{setting}");
    }
}

/// Regression: trust in a project covered what it would ask for later, as a link changed.
#[test]
fn trust_covers_the_folders_to_which_a_project_led() {
    if !has_links("trust_covers_the_folders_to_which_a_project_led") {
        return;
    }
    let scene = Scene::new("[run]\nworktree = \"data\"\n");
    scene.write("away/key", "secret\n");
    std::fs::create_dir(scene.path("work/data")).unwrap();
    scene.succeed(&["trust"]);
    std::fs::remove_dir(scene.path("work/data")).unwrap();
    assert!(symlink("../away", scene.path("work/data")));
    assert_eq!(stdout(&scene.call(&["sh", "-c", "cat key"])), "");
    assert!(scene.succeed(&["trust"]).contains("worktree = data at "));
    assert_eq!(scene.succeed(&["sh", "-c", "cat key"]), "secret\n");
    std::fs::create_dir(scene.path("other")).unwrap();
    scene.write("other/key", "another\n");
    std::fs::remove_file(scene.path("work/data")).unwrap();
    assert!(symlink("../other", scene.path("work/data")));
    assert_eq!(stdout(&scene.call(&["sh", "-c", "cat key"])), "");
}

/// Regression: the policy was looked for in the current directory, where trust did not cover it.
#[test]
fn the_command_policy_is_that_of_the_project() {
    let scene = Scene::new("[run]\nhost-policy = \"policy.json\"\n");
    scene.write("work/policy.json", "no policy");
    scene.write("work/sub/policy.json", r#"{"version": 1}"#);
    scene.succeed(&["trust"]);
    let error = scene.fail(&["sh", "-c", "echo x"]);
    assert!(error.contains("policy.json"), "{error}");
    scene.write("work/belljar.toml", "[run]\nhost-policy = 5\n");
    assert!(scene.fail(&["sh", "-c", "echo x"]).contains("run.host-policy: expected a text"));
}

/// Regression: in a folder such as `/tmp` anybody could set the options of others.
#[cfg(unix)]
#[test]
fn a_project_of_another_user_is_not_used() {
    let scene = Scene::new("[run]\nenv = [\"A=theirs\"]\n");
    let path = scene.path("work/belljar.toml");
    if std::os::unix::fs::chown(&path, Some(1234), None).is_err() {
        return skipped("projects: another user", "only the administrator can give files away");
    }
    assert_eq!(scene.succeed(&["sh", "-c", "echo $A"]), "\n");
    let work = scene.path("work");
    let named =
        scene.command("work", &["sh", "-c", "echo $A"]).env("BELLJAR_PROJECT", work).output();
    assert_eq!(stdout(&named.unwrap()), "theirs\n");
}

/// Regression: a project with folders only could not be installed with `--locked`, and a damaged version not again.
#[test]
fn what_is_damaged_in_a_locked_version_is_told_and_installed_again() {
    let scene = Scene::new(NOTES);
    scene.succeed(&["install"]);
    let files = scene.path("home/toolchains/files");
    let note = std::fs::read_dir(&files).unwrap().map(|file| file.unwrap().path());
    let note =
        note.into_iter().find(|path| std::fs::read(path).unwrap() == b"version 1\n").unwrap();
    std::fs::write(&note, "version 2\n").unwrap();
    let verified = scene.call(&["toolchain", "verify"]);
    assert_eq!(verified.status.code(), Some(1));
    assert!(stdout(&verified).contains("notes 1: share/note is missing or damaged"));
    scene.succeed(&["install", "--locked"]);
    assert_eq!(scene.succeed(&["run", "note"]), "version 1\n");
    assert!(
        scene.succeed(&["toolchain", "verify"]).contains("notes 1: all files are as they were")
    );
}

/// By the package `jsonschema` of PyPI.
#[test]
fn the_schemas_accept_the_examples_and_refuse_what_belljar_refuses() {
    let script = r#"
import json, pathlib, sys, tomllib
from jsonschema import Draft202012Validator
root = pathlib.Path(sys.argv[1])
def schema(name):
    schema = json.loads((root / "docs" / name).read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)
project, manifest = schema("belljar.schema.json"), schema("toolchain.schema.json")
for text in ["", "[toolchains]\na = \"1\"\nb = { source = \"c\" }\n", "[run]\napply = true\nfuel = 7\n",
             "signed-by = [\"RW" + "x" * 54 + "\"]\n[toolchains]\n",
             (root / "docs/project/belljar.toml").read_text()]:
    project.validate(tomllib.loads(text))
for text in ["[runs]\n", "[run]\nsede = 1\n", "[toolchains]\na = 1\n", "[run]\nno-worktree = false\n",
             "signed-by = []\n[toolchains]\n", "signed-by = [\"RWQ\"]\n[toolchains]\n",
             "signed-by = [\"RW" + "x" * 54 + "\"]\n"]:
    assert not project.is_valid(tomllib.loads(text)), text
notes = json.loads((root / "toolchains/notes/toolchain.json").read_text())
manifest.validate(notes)
recipes = [json.loads(path.read_text()) for path in root.glob("toolchains/*/recipe.json")]
assert len(recipes) >= 4
for recipe in recipes:
    manifest.validate(recipe["manifest"])
notes["programs"]["note"]["script"] = "bin/x.sh"
assert not manifest.is_valid(notes), "a program is a module or a script"
"#;
    let packages = package().join("target/jsonschema");
    let python = || {
        let mut python = std::process::Command::new("python3");
        python.env("PYTHONPATH", &packages);
        python
    };
    let found = python().args(["-c", "import jsonschema, tomllib"]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        let is_required = std::env::var_os("BELLJAR_REQUIRE_JSONSCHEMA").is_some();
        assert!(!is_required, "the Python package jsonschema is missing");
        return skipped("the JSON Schemas", "the Python package jsonschema is missing");
    }
    let output = python().args(["-c", script]).arg(package()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

/// Regression: a replay beside a `belljar.toml` that cannot be read found no built-in program.
#[test]
fn a_recording_needs_nothing_of_the_project_that_it_is_replayed_in() {
    let folder = tempfile::tempdir().unwrap();
    let (made, other) = (folder.path().join("made"), folder.path().join("other"));
    for dir in [&made, &other] {
        std::fs::create_dir(dir).unwrap();
    }
    std::fs::write(made.join("a"), "text\n").unwrap();
    let recorded =
        belljar(&made).args(["record", "-q", "--tape", "../t.tape", "cat", "a"]).output();
    assert_eq!(stdout(&recorded.unwrap()), "text\n");
    for text in ["[toolchains]\nnosuch = \"1.0\"\n", "[toolchains\n"] {
        std::fs::write(other.join("belljar.toml"), text).unwrap();
        let ran = belljar(&other).args(["run", "cat", "../made/a"]).output().unwrap();
        assert!(
            stderr(&ran).contains("belljar.toml") || stderr(&ran).contains("nosuch"),
            "{}",
            stderr(&ran)
        );
        let replayed = belljar(&other).args(["replay", "-q", "../t.tape"]).output().unwrap();
        assert_eq!(stdout(&replayed), "text\n", "{}", stderr(&replayed));
    }
}
