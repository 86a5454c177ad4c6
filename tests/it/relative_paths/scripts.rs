//! Scripts: in the same folder, each step has the same result in the shell with the built-in programs as in `dash` with
//! the host's programs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Arc;

use belljar::process::ShellImage;
use belljar::sandbox::{ExecRequest, Sandbox};
use belljar::{Command, HostDir, Machine, ToolchainPrograms, Toolchains, WORKTREE};

use super::native::{Leads, is_removed, leads, leads_above};
use super::{Way, calls, sequences, session_spec};
use crate::support::plans::Chance;
use crate::support::{engine, number_from_env, replays, tree};

/// Steps of a script.
const STEPS: usize = 80;

/// Number of sequences of calls per script.
const SEQUENCES_PER_SCRIPT: u64 = 20;

const NAMES: [&str; 10] = ["src", "lib", "bin", "etc", "usr", "home", "tmp", "dev", "a", "b"];

/// The top folder, whose path differs between native and inside.
const TOP: &str = "$top";

/// Begins the line with a step's status.
const MARK: &str = "<<";

/// Linux's number of the error for too many links in a path.
const ELOOP: i32 = 40;

/// A command, and the paths in it that are looked up from the current directory.
struct Step {
    text: String,
    paths: Vec<String>,
    /// Whether `..` in its path is resolved in the path by which the current directory was entered.
    is_logical: bool,
}

fn draw_path(chance: &mut Chance) -> String {
    let name = |chance: &mut Chance| {
        // Mostly one of three, so that steps meet.
        let names = if chance.below(4) > 0 { &NAMES[7..] } else { &NAMES[..] };
        names[chance.below(names.len())]
    };
    let above = ["", "", "", "", "", "", "./", "../", "../", "../../"][chance.below(10)];
    let separators = chance.below(20) / 11;
    above.to_owned() + &calls::join_names(chance, separators, name)
}

fn draw_step(chance: &mut Chance) -> Step {
    let (a, b) = (draw_path(chance), draw_path(chance));
    let text = calls::draw_text(chance);
    let word = chance.below(1000);
    let step = |text: String, paths: &[&str]| Step {
        text,
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        is_logical: false,
    };
    let of_one = [
        "mkdir", "mkdir", "mkdir", "mkdir -p", "mkdir -p", "rm", "rm -f", "rm -r", "rm -rf",
        "rmdir", "rmdir", "cat", "ls", "ls", "[ -e", "[ -d", "[ -f", "test -L", "test -d",
    ];
    let of_two = ["mv", "mv", "mv", "ln", "cp", "cp -r"];
    match chance.below(40) {
        0..=7 => {
            let option = ["", "", "-P "][chance.below(3)];
            let dir = match chance.below(10) {
                0 | 1 => "..".to_owned(),
                2 => "-".to_owned(),
                3 => TOP.to_owned(),
                4 => format!("{TOP}/{a}"),
                _ => a.clone(),
            };
            let paths = [dir.as_str()];
            let paths = if dir == "-" { &[] } else { &paths[..] };
            let is_logical = option.is_empty();
            let text = match chance.below(6) {
                0 => format!("( cd {option}{dir}; ls )"),
                _ => format!("cd {option}{dir}"),
            };
            Step { is_logical, ..step(text, paths) }
        }
        8 => step("pwd".to_owned(), &[]),
        9 => step("pwd -P || echo none".to_owned(), &[]),
        10 => step("ls".to_owned(), &[]),
        11..=13 => step(format!("echo {word} > {a}"), &[&a]),
        14 => step(format!("echo {word} >> {a}"), &[&a]),
        15..=17 => {
            // The text of a link is resolved from the link's directory.
            step(format!("ln -s {text} {a}"), &[&a])
        }
        18..=22 => {
            let name = of_two[chance.below(of_two.len())];
            let last = a.rsplit('/').find(|name| !name.is_empty()).unwrap_or_default().to_owned();
            step(format!("{name} {a} {b}"), &[&a, &b, &format!("{b}/{last}")])
        }
        _ => {
            let name = of_one[chance.below(of_one.len())];
            let end = if name.starts_with('[') { " ]" } else { "" };
            step(format!("{name} {a}{end}"), &[&a])
        }
    }
}

/// The beginning of a script in the folder `top`; after it, `cd -` has a directory to return to.
fn begin(top: &str) -> String {
    format!("top={top}; cd $top\n")
}

/// `step` as a line of a script, which prints its status and the resulting `$PWD`.
fn line(step: &Step) -> String {
    let text = &step.text;
    format!("{{ {text}; }} </dev/null 2>/dev/null; printf '\\n{MARK} %s %s\\n' \"$?\" \"$PWD\"\n")
}

/// `dash`, which runs one step at a time.
struct Dash {
    child: Child,
    output: BufReader<ChildStdout>,
    folder: PathBuf,
    /// The path by which it entered its current directory.
    named: PathBuf,
}

impl Dash {
    fn start(folder: &Path) -> Self {
        let folder = folder.canonicalize().unwrap();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut child = std::process::Command::new("dash")
            .arg("-s")
            .current_dir(&folder)
            .env_clear()
            .env("PATH", path)
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut dash = Self { child, output, named: folder.clone(), folder };
        let begin = begin(dash.folder.to_str().unwrap());
        dash.child.stdin.as_mut().unwrap().write_all(begin.as_bytes()).unwrap();
        dash
    }

    /// The output of `step`, and its status; `None` if the step cannot be compared.
    fn step(&mut self, step: &Step) -> Option<String> {
        let current = fs::read_link(format!("/proc/{}/cwd", self.child.id())).unwrap();
        let removed = is_removed(&current);
        let from = if step.is_logical { &self.named } else { &current };
        // A removed directory has no parent: see `docs/cli.md`.
        if removed && !step.is_logical && step.paths.iter().any(|path| leads_above(path)) {
            return None;
        }
        // For the same reason, `rm -r` through `..` cannot finish once it has removed the current directory.
        let removes_this = |path: &String| {
            let removed = current.join(path).canonicalize();
            leads_above(path) && removed.is_ok_and(|removed| current.starts_with(removed))
        };
        if step.text.starts_with("rm -r") && step.paths.iter().any(removes_this) {
            return None;
        }
        let top = self.folder.to_str().unwrap();
        let paths: Vec<String> = step.paths.iter().map(|path| path.replacen(TOP, top, 1)).collect();
        if differs_among_hosts(&step.text, &current, &paths) {
            return None;
        }
        for path in &paths {
            let path = if step.is_logical { lexical(from, path) } else { path.clone() };
            if step.is_logical && !Path::new(&path).starts_with(&self.folder)
                || leads([&self.folder; 2], from, &path, true, false) == Leads::Out
            {
                return None;
            }
        }
        // For a moved directory, dash prints the path by which it was entered, so the host's `pwd` is used.
        let asked = line(step).replace("pwd -P", "env pwd -P");
        self.child.stdin.as_mut().unwrap().write_all(asked.as_bytes()).unwrap();
        let mut answer = String::new();
        let named = loop {
            let start = answer.len();
            assert_ne!(self.output.read_line(&mut answer).unwrap(), 0, "dash ended: {answer}");
            if let Some(end) = answer[start..].strip_prefix(MARK) {
                break end.trim().split_once(' ').map_or("", |(_, named)| named).to_owned();
            }
        };
        self.named = PathBuf::from(named);
        Some(answer.replace(&*self.folder.display().to_string(), WORKTREE))
    }
}

impl Drop for Dash {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether `text` has different results with the programs of different hosts.
fn differs_among_hosts(text: &str, from: &Path, paths: &[String]) -> bool {
    let is_loop = |path: &String| {
        fs::metadata(from.join(path)).is_err_and(|error| error.raw_os_error() == Some(ELOOP))
    };
    // The version of `ls` determines whether a link to itself is listed.
    text.starts_with("ls ") && paths.iter().any(is_loop)
        || text.starts_with("cp -r")
            && (copies_into_itself(from, paths)
                || copies_over_its_way(from, paths)
                || copies_over_the_way_to_it(from, paths))
}

/// Whether the second of `paths` is a link in the path of the first: some versions of `cp` remove it first, and then do
/// not find the source.
fn copies_over_its_way(from: &Path, paths: &[String]) -> bool {
    let [source, to] = [&paths[0], &paths[1]].map(|path| from.join(path));
    let to = if to.is_dir() { to.join(source.file_name().unwrap_or_default()) } else { to };
    let link = |path: &Path| {
        fs::symlink_metadata(path).ok().filter(fs::Metadata::is_symlink).map(|found| found.ino())
    };
    let over = link(&to);
    over.is_some() && source.ancestors().skip(1).any(|way| link(way) == over)
}

/// Whether an entry of the first of `paths` replaces a link in the path of the second: what is copied after it depends
/// on the order in which the file system lists the first.
fn copies_over_the_way_to_it(from: &Path, paths: &[String]) -> bool {
    let [source, to] = [&paths[0], &paths[1]].map(|path| from.join(path));
    let Ok(into) = to.canonicalize() else { return false };
    let link = |path: &Path| {
        fs::symlink_metadata(path).ok().filter(fs::Metadata::is_symlink).map(|found| found.ino())
    };
    let on_the_way: Vec<u64> = to.ancestors().skip(1).filter_map(link).collect();
    let entries = fs::read_dir(&source).into_iter().flatten().flatten();
    entries
        .map(|entry| into.join(entry.file_name()))
        .filter_map(|at| link(&at))
        .any(|it| on_the_way.contains(&it))
}

/// Whether the first of `paths` is a directory that contains the second: what is copied depends on the order in which
/// the file system lists it.
fn copies_into_itself(from: &Path, paths: &[String]) -> bool {
    let Ok(source) = from.join(&paths[0]).canonicalize() else { return false };
    let to = from.join(&paths[1]);
    let is_there = |path: &&Path| path.exists();
    let above = to.ancestors().find(is_there).and_then(|above| above.canonicalize().ok());
    source.is_dir() && above.is_some_and(|above| above.starts_with(source))
}

/// `path` from `from`, with `..` resolved in the text.
fn lexical(from: &Path, path: &str) -> String {
    let mut found = if path.starts_with('/') { PathBuf::from("/") } else { from.to_owned() };
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(found.pop()),
            name => found.push(name),
        }
    }
    found.to_str().unwrap().to_owned()
}

fn programs() -> Arc<ToolchainPrograms> {
    let programs = ToolchainPrograms::new(engine(), Toolchains::default());
    Arc::new(programs.with("sh", ShellImage::maker()))
}

/// The output of `script` in `folder`, to which its changes are then written.
fn inside(way: Way, folder: &Path, script: &str) -> String {
    let stdout = if way == Way::Session {
        let mut session = Sandbox::provision(programs(), session_spec(folder)).unwrap();
        let mut request = ExecRequest::shell(script);
        request.cwd = Some(WORKTREE.to_owned());
        let result = session.exec(&request).unwrap();
        session.files().apply().unwrap();
        result.stdout
    } else {
        let machine = Machine::builder().programs(programs());
        let machine = machine.worktree(HostDir::open(folder).unwrap());
        let (mut machine, output) = replays::output(machine, &Command::shell(script));
        machine.vfs_mut().apply().unwrap();
        output.stdout
    };
    String::from_utf8(stdout).unwrap()
}

/// Compares scripts; reports each difference with the steps before it.
fn compare(way: Way, seed: u64) {
    let scratch = tempfile::tempdir().unwrap();
    let mut compared = 0;
    let scripts = (sequences() / SEQUENCES_PER_SCRIPT).max(1);
    for number in number_from_env("BELLJAR_TEST_FIRST_SCRIPT", 0) as u64..scripts {
        let at = scratch.path().join("at");
        let [there, here] = ["native", "inside"].map(|name| at.join(name));
        for folder in [&there, &here] {
            fs::create_dir_all(folder).unwrap();
        }
        let mut chance = Chance::new(seed.wrapping_mul(1 << 40).wrapping_add(number));
        calls::plant(&mut chance, [&there, &here]);
        let planted: Vec<String> = tree(&here).into_keys().collect();
        let mut dash = Dash::start(&there);
        let mut made: Vec<(Step, String)> = Vec::new();
        while made.len() < STEPS {
            let step = draw_step(&mut chance);
            if let Some(answer) = dash.step(&step) {
                made.push((step, answer));
            }
        }
        let lines: String = made.iter().map(|(step, _)| line(step)).collect();
        let answers = inside(way, &here, &(begin(WORKTREE) + &lines));
        let told = |end: usize| {
            let line = |(step, answer): &(Step, String)| {
                format!("{}  => {:?}\n", step.text, answer.trim())
            };
            made[..end].iter().map(line).collect::<String>()
        };
        let mut rest = answers.as_str();
        for (index, (_, expected)) in made.iter().enumerate() {
            let Some(after) = rest.strip_prefix(expected.as_str()) else {
                let end = rest.find(&format!("\n{MARK}")).map_or(rest.len(), |at| at + 1);
                let end = rest[end..].find('\n').map_or(rest.len(), |at| end + at);
                let answer = rest[..end].trim();
                panic!(
                    "{way:?}, script {number} over {planted:?}: inside {answer:?}, natively:\n{}",
                    told(index + 1)
                );
            };
            rest = after;
        }
        assert_eq!(rest, "", "{way:?}, script {number}");
        assert_eq!(tree(&here), tree(&there), "{way:?}, script {number}:\n{}", told(made.len()));
        compared += made.len();
        drop(dash);
        fs::remove_dir_all(&at).unwrap();
    }
    println!("{way:?}: {compared} steps in {scripts} scripts");
}

/// If `BELLJAR_REQUIRE_DASH` is set, the absence of `dash` is a failure.
#[test]
fn script_acts_in_the_worktree_as_natively() {
    let mut dash = std::process::Command::new("dash");
    if dash.args(["-c", ":"]).status().is_err() {
        assert!(std::env::var_os("BELLJAR_REQUIRE_DASH").is_none(), "dash is not installed");
        crate::support::skipped("scripts", "dash is not installed");
        return;
    }
    compare(Way::Default, 10);
    compare(Way::Session, 11);
}
