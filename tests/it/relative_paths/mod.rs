//! Relative paths: a program in the worktree does what the same program does natively in the same folder, compared call
//! by call and errno by errno, for each way to give a program a worktree.
//!
//! The oracle is native Linux, with one rule: a C library for WASI does not distinguish `/tmp/x` from `tmp/x`, so if
//! the folder has no entry `tmp`, `tmp/…` is in the directory `/tmp`.
//!
//! `BELLJAR_TEST_PATH_SEQUENCES` is the number of sequences of calls for each way; the default is small.

#![cfg(target_os = "linux")]

mod calls;
mod fixed;
mod known;
mod native;
mod scripts;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use belljar::Errno;
use belljar::sandbox::{
    ExecRequest, FilesystemAccess, MountSource, Sandbox, SandboxMount, SandboxSpec,
};
use belljar::{
    HostDir, Machine, Preopen, Program, Reach, Source, ToolchainPrograms, Toolchains, WORKTREE,
};

use self::calls::{
    C_CALLS, CURRENT_DIR_CALLS, Call, HERE, SLOTS, STD_CALLS, draw_call, lengthened, plant,
};
use self::native::{Native, Rules};
use crate::support::plans::Chance;
use crate::support::{engine, number_from_env, package, replays, tree};

/// Targets of rustc: its programs are modules, or components.
const MODULE: &str = "wasm32-wasip1";
const COMPONENT: &str = "wasm32-wasip2";

/// Calls of a sequence.
const CALLS: usize = 60;

/// An answer in which the number of an error is replaced by its name.
fn named(answer: &str, errno_of: impl Fn(i32) -> String) -> String {
    let number = |(before, number): (&str, &str)| Some((before.to_owned(), number.parse().ok()?));
    match answer.trim_end().rsplit_once("error ").and_then(number) {
        Some((before, number)) => before + &errno_of(number),
        None => answer.trim_end().to_owned(),
    }
}

/// The errors of calls on paths: the name in WASI, and the number in Linux.
const ERRNOS: [(&str, i32); 22] = [
    ("perm", 1),
    ("noent", 2),
    ("io", 5),
    ("badf", 9),
    ("acces", 13),
    ("busy", 16),
    ("exist", 17),
    ("xdev", 18),
    ("notdir", 20),
    ("isdir", 21),
    ("inval", 22),
    ("mfile", 24),
    ("fbig", 27),
    ("nospc", 28),
    ("spipe", 29),
    ("rofs", 30),
    ("mlink", 31),
    ("nametoolong", 36),
    ("nosys", 38),
    ("notempty", 39),
    ("loop", 40),
    ("notsup", 95),
];

fn native_errno(number: i32) -> String {
    let known = ERRNOS.iter().find(|(_, linux)| *linux == number);
    known.map_or(format!("Linux's {number}"), |(name, _)| (*name).to_owned())
}

fn wasi_errno(number: i32) -> String {
    let is_it = |name: &str| Errno::from_name(name).is_some_and(|e| i32::from(e.code()) == number);
    let known = ERRNOS.iter().find(|(name, _)| is_it(name));
    known.map_or(format!("WASI's {number}"), |(name, _)| (*name).to_owned())
}

/// Whether the kernel is meant to answer `inside` where Linux answers `native`.
fn is_meant(call: &Call, native: &str, inside: &str) -> bool {
    match (native, inside) {
        // A removed directory is empty, as in POSIX.
        ("noent", "ok") => call.name == "list" && call.slot.is_some(),
        // Before wasi-libc opens something, it asks for the rights of the descriptor.
        // The flags are refused before the way up from a removed directory is, which is a rule of the oracle.
        ("inval", "badf") | ("noent", "inval") => call.name == "create_directory",
        ("noent", "badf") => call.path.is_empty(),
        _ => false,
    }
}

/// How a program is given a worktree.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Default,
    NoWorktree,
    Session,
    /// As far as the results are known from earlier runs.
    Known,
}

/// The answers of `program` to `script` in `folder`, to which its changes are then written.
fn inside(way: Way, program: &Program, folder: &Path, script: String) -> String {
    let worktree = HostDir::open(folder).unwrap();
    let builder = match way {
        Way::Session => return in_session(program.name(), folder, script),
        Way::Known => return known::answers_twice(program, folder, &script),
        Way::Default => Machine::builder().worktree(worktree),
        Way::NoWorktree => {
            Machine::builder().tmp(false).mount("/", Source::Host(Arc::new(worktree)))
        }
    };
    let mut command = belljar::Command::new(program);
    command.stdin(script);
    if way == Way::NoWorktree {
        let (path, name) = ("/".to_owned(), ".".to_owned());
        command.preopens(vec![Preopen { path, name, reach: Reach::Confined }]);
    }
    let (mut machine, output) = replays::output(builder, &command);
    assert!(output.status.success(), "{:?}", output.status);
    machine.vfs_mut().apply().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// A session whose worktree is `folder`.
fn session_spec(folder: &Path) -> SandboxSpec {
    let worktree = SandboxMount {
        target: WORKTREE.to_owned(),
        source: MountSource::Host(folder.to_owned()),
        access: FilesystemAccess::ReadWrite,
    };
    SandboxSpec { mounts: vec![worktree], ..SandboxSpec::default() }
}

fn in_session(program: &str, folder: &Path, script: String) -> String {
    let program = Path::new(program);
    let toolchains = Toolchains::new(vec![program.parent().unwrap().to_owned()]).unwrap();
    let programs = Arc::new(ToolchainPrograms::new(engine(), toolchains));
    let mut session = Sandbox::provision(programs, session_spec(folder)).unwrap();
    let name = program.file_stem().unwrap().to_str().unwrap();
    let mut request = ExecRequest::new(name, [""; 0]);
    request.stdin = script.into_bytes();
    request.cwd = Some(WORKTREE.to_owned());
    let result = session.exec(&request).unwrap();
    assert_eq!(result.exit_code, 0, "{result:?}");
    session.files().apply().unwrap();
    String::from_utf8(result.stdout).unwrap()
}

/// A program as a native executable and as a module.
struct Guest {
    native: PathBuf,
    module: Program,
    calls: &'static [&'static str],
    has_slots: bool,
    /// Whether the program cannot distinguish `/tmp/x` from `tmp/x`.
    rule: bool,
    /// Whether one call of the program makes several system calls.
    is_composed: bool,
    lengths: Lengths,
}

/// How long names are.
#[derive(Clone, Copy, PartialEq)]
enum Lengths {
    Short,
    /// Some are longer than a file system takes.
    Any,
}

fn sequences() -> u64 {
    let asked = std::env::var("BELLJAR_TEST_PATH_SEQUENCES");
    asked.map_or(200, |number| number.parse().unwrap())
}

/// The folders of a sequence of calls.
struct Folders {
    there: PathBuf,
    here: PathBuf,
    /// Stands for `/tmp` natively.
    tmp: PathBuf,
}

impl Folders {
    /// Empty ones in `at`.
    fn new(at: &Path) -> Self {
        let [there, here, tmp] = ["native", "inside", "tmp"].map(|name| at.join(name));
        for folder in [&there, &here, &tmp] {
            fs::create_dir_all(folder).unwrap();
        }
        Self { there, here, tmp }
    }
}

/// Makes the calls natively and inside; reports the first difference with the calls before it. Returns how many were compared: some
/// cannot be.
fn compare_calls(
    guest: &Guest,
    way: Way,
    native: &mut Native,
    folders: &Folders,
    calls: impl IntoIterator<Item = Call>,
    what: &str,
) -> usize {
    let Folders { there, here, tmp } = folders;
    let confines = way == Way::NoWorktree;
    let rules = Rules { rule: guest.rule && !confines, confines, is_composed: guest.is_composed };
    native.begin(there, tmp);
    let mut made: Vec<(Call, String)> = Vec::new();
    for mut call in calls {
        if call.path == HERE {
            call.path = native.here();
        }
        if let Some(answer) = native.call(&call, rules) {
            made.push((call, named(&answer, native_errno)));
        }
    }
    let script: String = made.iter().map(|(call, _)| call.line()).collect();
    let answers = inside(way, &guest.module, here, script);
    let told = |index: usize| {
        let line = |(call, answer): &(Call, String)| {
            let call = call.line();
            format!("{}  => {answer}\n", call.replace(['\t', '\n'], " "))
        };
        made[..=index].iter().map(line).collect::<String>()
    };
    let mut answers = answers.lines();
    for (index, (call, expected)) in made.iter().enumerate() {
        let answer = named(answers.next().unwrap_or("nothing"), wasi_errno);
        let is_same = answer == *expected || is_meant(call, expected, &answer);
        assert!(is_same, "{way:?}, {what}: inside {answer}, natively:\n{}", told(index));
    }
    assert_eq!(answers.next(), None);
    assert_eq!(tree(here), tree(there), "{way:?}, {what}:\n{}", told(made.len() - 1));
    made.len()
}

/// Compares random sequences of calls.
fn compare(guest: &Guest, way: Way, seed: u64) {
    let scratch = tempfile::tempdir().unwrap();
    let mut native = Native::start(&guest.native);
    let mut compared = 0;
    let first = number_from_env("BELLJAR_TEST_SEED", 0) as u64;
    for number in first..first + sequences() {
        let at = scratch.path().join("at");
        let folders = Folders::new(&at);
        let mut chance = Chance::new(seed.wrapping_mul(1 << 40).wrapping_add(number));
        plant(&mut chance, [&folders.there, &folders.here]);
        let open = |slot: usize| {
            let (path, other) = (".".to_owned(), slot.to_string());
            Call { name: "opendir", slot: None, path, other }
        };
        let mut calls: Vec<Call> = (0..SLOTS).filter(|_| guest.has_slots).map(open).collect();
        let drawn = || {
            let call = draw_call(&mut chance, guest.calls, guest.has_slots);
            match guest.lengths {
                Lengths::Short => call,
                Lengths::Any => lengthened(&mut chance, &call),
            }
        };
        calls.extend(std::iter::repeat_with(drawn).take(CALLS));
        let what = format!("sequence {number}");
        compared += compare_calls(guest, way, &mut native, &folders, calls, &what);
        fs::remove_dir_all(&at).unwrap();
    }
    println!("{way:?}: {compared} calls in {} sequences", sequences());
    assert!(compared as u64 > sequences() * 30, "most calls are compared");
}

/// The program `name`, built by `command` with `-o`. Each build has a folder of its own, so that concurrent tests can
/// build the same program.
fn built(name: &str, command: &mut Command) -> Result<PathBuf, String> {
    let folder = crate::support::scratch_of_build();
    let aside = tempfile::tempdir_in(folder).unwrap();
    let output = command.arg("-o").arg(aside.path().join(name)).output();
    let output = output.map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    fs::rename(aside.path().join(name), folder.join(name)).unwrap();
    Ok(folder.join(name))
}

fn c_guest(module: &str) -> Guest {
    let source = package().join("tests/guests/paths.c");
    let native = built("native_paths", Command::new("cc").arg("-O1").arg(source)).unwrap();
    let module = package().join("tests/guests").join(module).with_extension("wasm");
    let module = Program::load(engine(), module).unwrap();
    Guest {
        native,
        module,
        calls: &C_CALLS,
        has_slots: true,
        rule: true,
        is_composed: false,
        lengths: Lengths::Short,
    }
}

/// A Rust program, built for this machine's target and for `target`, one of WASI.
fn std_guest(target: &str) -> Option<Guest> {
    let source = package().join("tests/guests/std_paths.rs");
    let rustc = || {
        let mut command = Command::new(std::env::var("RUSTC").unwrap_or("rustc".to_owned()));
        command.args(["--edition", "2024", "-O", "-C", "strip=symbols"]).arg(&source);
        command
    };
    let name = format!("std_paths-{target}.wasm");
    let module = match built(&name, rustc().args(["--target", target])) {
        Ok(module) => module,
        Err(why) if std::env::var_os("BELLJAR_REQUIRE_WASI_TARGET").is_some() => {
            panic!("rustc builds nothing for WASI: run `rustup target add {target}`: {why}")
        }
        Err(_) => {
            println!("skipped: run `rustup target add {target}`");
            return None;
        }
    };
    let native = built("native_std_paths", &mut rustc()).unwrap();
    let module = Program::load(engine(), module).unwrap();
    let calls = &STD_CALLS;
    Some(Guest {
        native,
        module,
        calls,
        has_slots: false,
        rule: true,
        is_composed: true,
        lengths: Lengths::Short,
    })
}

#[test]
fn c_program_acts_in_the_worktree_as_natively() {
    compare(&c_guest("paths"), Way::Default, 1);
}

#[test]
fn names_that_are_too_long_are_refused_as_natively() {
    let guest = Guest { lengths: Lengths::Any, ..c_guest("paths") };
    compare(&guest, Way::Default, 14);
    compare(&guest, Way::NoWorktree, 15);
    let calls = &CURRENT_DIR_CALLS;
    let guest = Guest { rule: false, calls, ..c_guest("paths_with_libbelljar") };
    compare(&Guest { lengths: Lengths::Any, ..guest }, Way::Session, 16);
    let Some(guest) = std_guest(MODULE) else { return };
    compare(&Guest { lengths: Lengths::Any, ..guest }, Way::Default, 17);
}

#[test]
fn c_program_acts_in_its_own_directory_as_natively() {
    compare(&c_guest("paths"), Way::NoWorktree, 2);
}

#[test]
fn c_program_acts_in_a_session_as_natively() {
    compare(&c_guest("paths"), Way::Session, 3);
}

#[test]
fn c_program_with_libbelljar_acts_as_natively_in_every_directory() {
    let calls = &CURRENT_DIR_CALLS;
    let guest = Guest { rule: false, calls, ..c_guest("paths_with_libbelljar") };
    compare(&guest, Way::Default, 4);
    compare(&guest, Way::Session, 5);
}

#[test]
fn program_with_known_results_acts_as_natively() {
    compare(&c_guest("paths"), Way::Known, 8);
    let calls = &CURRENT_DIR_CALLS;
    let guest = Guest { rule: false, calls, ..c_guest("paths_with_libbelljar") };
    compare(&guest, Way::Known, 9);
    let Some(guest) = std_guest(MODULE) else { return };
    compare(&guest, Way::Known, 10);
}

#[test]
fn rust_std_acts_in_the_worktree_as_natively() {
    let Some(guest) = std_guest(MODULE) else { return };
    compare(&guest, Way::Default, 6);
    compare(&guest, Way::NoWorktree, 7);
    compare(&guest, Way::Session, 13);
}

#[test]
fn rust_std_in_a_component_acts_as_natively() {
    let Some(guest) = std_guest(COMPONENT) else { return };
    compare(&guest, Way::Default, 11);
    compare(&guest, Way::NoWorktree, 12);
}
