//! `belljar verify`: the same run, several times, under conditions that must not matter.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use belljar::WORKTREE;
use belljar::base::atomic_file;
use belljar::base::disk::{self, Copied};
use belljar::tape::{Divergence, FidelityMode, FidelityReport, Kind, TapeReader, compare};
use clap::Args;
use serde_json::json;

use super::args::RunArgs;
use super::exit::{DIFFERENT, Usage};
use super::mounts::mount_point;
use super::progress::Progress;
use super::report::printable;
use super::setup::cache_dir;
use super::values::{StdinFrom, Worktree};

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:
  belljar verify -- wc README.md
  belljar verify -n 10 --toolchain DIR -- cc1 -quiet main.c -o main.s

All options of `belljar run` can be given but --apply, --diff, --json and --trace.

Exit codes: 0 if all runs were the same, 1 if not; a program that fails the same way each
time is the same.",
    after_long_help = "Examples:
  belljar verify -- wc README.md
      Run it three times; say whether everything that crossed its boundary was the same.
  belljar verify -n 10 --toolchain DIR -- cc1 -quiet main.c -o main.s
      All options of `belljar run` can be given but --apply, --diff, --json and --trace.

The first run is as it is asked for. The others work on copies of what it saw of its folders, under
another name, with the files made in another order and at other times, as another user in another language and
time zone, on a busy machine. What a run was asked and what it answered is compared record by
record.

Exit codes: 0 if all runs were the same, 1 if not; a program that fails the same way each
time is the same."
)]
pub struct VerifyArgs {
    /// How often to run it
    #[arg(short = 'n', long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(2..=1000), help_heading = "Verification")]
    pub runs: u32,

    /// Print JSON
    #[arg(long = "report-json", help_heading = "Verification")]
    pub report_json: bool,

    #[command(flatten)]
    pub run: RunArgs,
}

pub fn run(args: &VerifyArgs) -> Result<u8> {
    let run = &args.run;
    if run.apply.is_some() || run.diff.is_some() || run.json.is_some() || run.trace.is_some() {
        let message = "verify runs the program several times and keeps nothing: leave out --apply, \
                       --diff, --json and --trace (--report-json is its own)";
        return Err(Usage(message.to_owned()).into());
    }
    let scratch = tempfile::Builder::new().prefix("belljar-verify-").tempdir()?;
    let stdin = stdin(&run.stdin, scratch.path())?;
    let first = scratch.path().join("0.tape");
    let originals = Folders::of(run)?;
    perform(run, &originals, &stdin, &first, None)?;
    let seen = Seen::on(&first)?;
    let message = format!("{} runs", args.runs);
    let _progress = Progress::start(message, run.quiet);
    let mut records = 0;
    for number in 1..args.runs {
        let home = scratch.path().join(format!("other folder {number}"));
        let copies = originals.copied_to(&home, number, &seen)?;
        let tape = scratch.path().join(format!("{number}.tape"));
        perform(run, &copies, &stdin, &tape, Some(number))?;
        let report = compare(first.as_path(), tape.as_path(), FidelityMode::ByteIdentical)?;
        records = report.recorded_records;
        if !report.is_faithful() {
            return Ok(different(args, number, report));
        }
        disk::remove_dir_all(&home)?;
    }
    if args.report_json {
        say!("{}", json!({ "equal": true, "runs": args.runs, "records": records }));
    } else {
        say!("{} runs are the same, in {records} records each", args.runs);
    }
    Ok(0)
}

fn different(args: &VerifyArgs, number: u32, mut report: FidelityReport) -> u8 {
    let cause = report.divergences.first().map_or("", cause);
    if args.report_json {
        say!(
            "{}",
            json!({
                "equal": false, "runs": number + 1, "cause": cause,
                "divergences": report.divergences, "divergence_count": report.divergence_count,
            })
        );
    } else {
        say!("run {number} is not the same: {cause}");
        // What comes after follows from it, more often than not.
        report.divergences.truncate(1);
        say!("{}", report.render().trim_end());
    }
    DIFFERENT
}

/// In words, what a first divergence comes from.
fn cause(divergence: &Divergence) -> &'static str {
    let has = |field: &str| divergence.fields.iter().any(|known| known.field.starts_with(field));
    let kind = divergence.category.split('.').next().unwrap_or_default();
    match kind {
        "machine" if has("config") => "the machine shows the host's time (--clock real)",
        "clock_read" | "clock_sleep" => "the program reads the host's clock (--clock real)",
        "process_spawn" if has("env") => "a variable of the host is passed through (--env)",
        "process_spawn" if has("module_hash") => "the program itself has changed",
        "file_stat" if has("mtime_ns") => "the program sees the times of the disk (--mtimes host)",
        "file_stat" | "dir_list" | "link_read" | "file_read" => {
            "the files below are not the same, or are asked for in another order"
        }
        "random" => "the program asks for other random bytes",
        "stream_read" => "standard input is not the same",
        "process_exit" => "the program ends in another way (a limit of real time?)",
        _ => "the program itself does something else",
    }
}

/// Standard input for all runs: it can be read only once.
fn stdin(from: &StdinFrom, scratch: &Path) -> Result<OsString> {
    match from {
        StdinFrom::File(path) => Ok(disk::canonical(path)?.into()),
        StdinFrom::Inherit if !std::io::stdin().is_terminal() => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
            let path = scratch.join("stdin");
            atomic_file::write(&path, &[&bytes])?;
            Ok(path.into())
        }
        StdinFrom::Inherit | StdinFrom::Null => Ok("null".into()),
    }
}

/// What the first run has seen of its folders: a copy needs no more.
#[derive(Default)]
struct Seen {
    /// What was looked up or read, and every folder above it.
    named: HashSet<String>,
    listed: HashSet<String>,
    read: HashSet<String>,
}

impl Seen {
    fn on(tape: &Path) -> Result<Self> {
        let mut seen = Self::default();
        for record in TapeReader::open(tape)? {
            match record?.kind {
                Kind::FileStat { path, .. } | Kind::LinkRead { path, .. } => seen.name(&path),
                Kind::DirList { path, .. } => {
                    seen.name(&path);
                    seen.listed.insert(path);
                }
                Kind::FileRead { path, .. } => {
                    seen.name(&path);
                    seen.read.insert(path);
                }
                _ => {}
            }
        }
        Ok(seen)
    }

    fn name(&mut self, path: &str) {
        let mut path = path;
        while self.named.insert(path.to_owned()) {
            path = parent(path);
        }
    }

    fn kept(&self, path: &str) -> Copied {
        if self.read.contains(path) {
            Copied::Content
        } else if self.named.contains(path) || self.listed.contains(parent(path)) {
            Copied::Shape
        } else {
            Copied::Nothing
        }
    }
}

fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        None | Some(("", _)) => "/",
        Some((parent, _)) => parent,
    }
}

/// The folders that a run works on.
struct Folders {
    worktree: Option<Worktree>,
    /// The folder of each `--dir`, and where it is mounted.
    dirs: Vec<(PathBuf, String)>,
}

impl Folders {
    fn of(run: &RunArgs) -> Result<Self> {
        let worktree = (!run.no_worktree).then(|| run.worktree.clone().unwrap_or_default());
        let mut dirs = Vec::new();
        for mount in &run.dir {
            let at = mount_point(&mount.guest, run.no_worktree).map_err(Usage)?;
            dirs.push((mount.host.clone(), at));
        }
        Ok(Self { worktree, dirs })
    }

    fn copied_to(&self, home: &Path, number: u32, seen: &Seen) -> Result<Self> {
        let copy = |from: &Path, at: &str, name: String| -> Result<PathBuf> {
            let to = home.join(name);
            let at = at.trim_end_matches('/');
            let keep = |path: &str| seen.kept(&format!("{at}/{path}"));
            disk::copy_tree_perturbed(from, &to, u64::from(number), &keep)?;
            Ok(to)
        };
        let worktree = match &self.worktree {
            None => None,
            Some(Worktree { host, read_only }) => {
                let host = copy(host, WORKTREE, "tree".to_owned())?;
                Some(Worktree { host, read_only: *read_only })
            }
        };
        let mut dirs = Vec::new();
        for (number, (dir, at)) in self.dirs.iter().enumerate() {
            dirs.push((copy(dir, at, format!("dir {number}"))?, at.clone()));
        }
        disk::create_private_dir_all(home)?;
        Ok(Self { worktree, dirs })
    }
}

/// Records one run in a process of its own; `perturbed` under the number of its conditions.
fn perform(
    run: &RunArgs,
    folders: &Folders,
    stdin: &OsString,
    tape: &Path,
    perturbed: Option<u32>,
) -> Result<()> {
    let busy = AtomicBool::new(perturbed.is_some());
    #[allow(
        clippy::disallowed_methods,
        reason = "this is belljar itself, and no program of the host's"
    )]
    let mut child = std::process::Command::new(std::env::current_exe()?);
    child.args(["record", "--quiet", "--tape"]).arg(tape).args(options(run, folders, stdin)?);
    child.arg("--").args(&run.command);
    child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    if let Some(number) = perturbed {
        let name = format!("verifier{number}");
        let zone = if number.is_multiple_of(2) { "Pacific/Auckland" } else { "America/Lima" };
        for (key, value) in [
            ("USER", name.as_str()),
            ("LOGNAME", &name),
            ("LANG", "tr_TR.UTF-8"),
            ("LC_ALL", "tr_TR.UTF-8"),
            ("TZ", zone),
            ("COLUMNS", "17"),
            ("SOURCE_DATE_EPOCH", "1"),
            ("BELLJAR_VERIFY", &name),
        ] {
            child.env(key, value);
        }
        let elsewhere = tape.parent().context("a tape lies in a folder")?;
        child.env("HOME", elsewhere).env("PWD", elsewhere);
        // Compiled code is kept in the home folder, and is the same.
        child.env("BELLJAR_CACHE_DIR", cache_dir()?);
    }
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            while busy.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let output = child.output();
        busy.store(false, Ordering::Relaxed);
        output
    })
    .context("cannot start belljar again")?;
    if !disk::metadata(tape).is_ok_and(|metadata| metadata.is_file()) {
        let message = String::from_utf8_lossy(&output.stderr);
        let message = message.trim().trim_start_matches("belljar: ");
        anyhow::bail!("the run cannot be recorded: {}", printable(message));
    }
    Ok(())
}

/// The options of a recorded run, spelled out.
fn options(run: &RunArgs, folders: &Folders, stdin: &OsString) -> Result<Vec<OsString>> {
    let mut options: Vec<OsString> = Vec::new();
    let mut add = |name: &str, value: OsString| options.extend([name.into(), value]);
    for dir in &run.toolchain {
        add("--toolchain", dir.into());
    }
    for variable in &run.env {
        add("--env", variable.clone());
    }
    if let Some(name) = &run.argv0 {
        add("--argv0", name.clone());
    }
    if let Some(Worktree { host, read_only }) = &folders.worktree {
        let mut value = host.clone().into_os_string();
        if *read_only {
            value.push("::ro");
        }
        add("--worktree", value);
    }
    for (mount, (host, _)) in run.dir.iter().zip(&folders.dirs) {
        let mut value = host.clone().into_os_string();
        value.push("::");
        value.push(&mount.guest);
        if mount.read_only {
            value.push("::ro");
        }
        add("--dir", value);
    }
    if let Some(cwd) = &run.cwd {
        add("--cwd", cwd.into());
    }
    add("--stdin", stdin.clone());
    if let Some(start_ns) = run.start_at {
        let start = jiff::Timestamp::from_nanosecond(start_ns.into()).context("--start-at")?;
        add("--start-at", start.to_string().into());
    }
    for (name, value) in [("--timeout", run.timeout), ("--virtual-timeout", run.virtual_timeout)] {
        if let Some(value) = value {
            add(name, format!("{}ns", value.as_nanos()).into());
        }
    }
    if let Some(fuel) = run.fuel {
        add("--fuel", fuel.to_string().into());
    }
    for (name, value) in [
        ("--seed", run.seed),
        ("--max-memory", run.max_memory),
        ("--max-files", run.max_files.into()),
        ("--max-processes", run.max_processes.into()),
        ("--max-upper", run.max_upper),
        ("--max-output", run.max_output),
    ] {
        add(name, value.to_string().into());
    }
    for (name, value) in [
        ("--clock", value_name(&run.clock)),
        ("--mtimes", value_name(&run.mtimes)),
        ("--unknown-imports", value_name(&run.unknown_imports)),
    ] {
        add(name, value.into());
    }
    if run.no_worktree {
        options.push("--no-worktree".into());
    }
    if run.no_cache {
        options.push("--no-cache".into());
    }
    Ok(options)
}

fn value_name(value: &impl clap::ValueEnum) -> String {
    value.to_possible_value().map(|known| known.get_name().to_owned()).unwrap_or_default()
}
