//! `belljar sandbox`: sessions that outlive the command.

mod copy;
mod create;
mod disk;
mod exec;
mod show;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bytesize::ByteSize;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::compile::Compiler;
use super::exit::{Hinted, Usage, describe};
use super::mounts::{Place, place_of};
use super::planted_links::{Folders, through_link};
use super::progress::Progress;
use super::recover::before_opening;
use super::setup::POOL_SLOTS;
use super::text::count;
use crate::cli::args::groups::CompileArgs;
use crate::cli::args::sandbox::{
    ForkArgs, GcArgs, RmArgs, SandboxAction, SandboxArgs, SnapshotArgs,
};
use crate::cli::home;
use crate::cli::project::lock::Locked;
use crate::engine::TierChoice;
use crate::host::{CommandPolicy, PolicyError};
use crate::kernel::process::programs::Programs;
use crate::process::ShellImage;
use crate::results::Results;
use crate::sandbox::{
    HomeError, MountSource, SandboxError, SandboxHome, SandboxMount, SandboxSpec, SnapshotError,
};
use crate::toolchain::Loaded;
use crate::{EngineConfig, ToolchainPrograms, Toolchains};

/// The metadata key of a session's toolchain directories.
const TOOLCHAIN: &str = "belljar.toolchain";

/// The metadata key of the toolchains of the project in which a session was made.
const PROJECT_TOOLCHAINS: &str = "belljar.project_toolchains";

/// Runs a command of `belljar sandbox`.
pub fn run(args: &SandboxArgs) -> Result<u8> {
    match &args.action {
        SandboxAction::Create(args) => create::run(args),
        SandboxAction::Exec(args) => exec::run(args),
        SandboxAction::Cp(args) => copy::run(args),
        SandboxAction::Ls(args) => show::ls(args),
        SandboxAction::Diff(args) => show::diff(args),
        SandboxAction::Apply(args) => disk::apply(args),
        SandboxAction::Refresh(args) => disk::refresh(args),
        SandboxAction::Snapshot(args) => snapshot(args),
        SandboxAction::Fork(args) => fork(args, None),
        SandboxAction::Resume(args) => resume(args),
        SandboxAction::Rm(args) => rm(args),
        SandboxAction::Gc(args) => gc(args),
        SandboxAction::List(args) => show::list(args),
        SandboxAction::Show(args) => show::show(args),
    }
}

/// The sessions of this user, to run no program in them.
fn home() -> Result<SandboxHome> {
    home_with(None, None, None)
}

/// The sessions of this user. Modules are compiled within the limits `compile`; `loaded` is called for each
/// program that is loaded; processes may be answered from `results`.
fn home_with(
    compile: Option<CompileArgs>,
    loaded: Option<Loaded>,
    results: Option<Arc<Results>>,
) -> Result<SandboxHome> {
    let cache_dir = home::cache_dir()?;
    let programs = move |spec: &SandboxSpec| {
        before_opening_folders(spec).map_err(|error| SandboxError::Io {
            what: "cannot open a directory of the session".to_owned(),
            source: std::io::Error::other(format!("{error:#}")),
        })?;
        // A program that can write there decides what runs.
        let is_seen = sees(spec, &cache_dir);
        if is_seen {
            note!(
                "belljar: note: {}, where belljar keeps compiled code, lies in a directory of the session, so it is not used",
                cache_dir.display()
            );
        }
        let cache_dir = (!is_seen).then(|| cache_dir.clone());
        programs(spec, cache_dir, compile, loaded.clone())
            .map(|programs| programs.answered_from(results.clone()))
            .map(|programs| Arc::new(programs) as Arc<dyn Programs>)
            .map_err(|error| SandboxError::InvalidRequest {
                field: "toolchain".to_owned(),
                message: format!("{error:#}"),
            })
    };
    Ok(SandboxHome::open(home::home_dir()?, Box::new(programs))?)
}

/// What was `resumed` of session `id`; says what to do if its state is damaged, or a directory that it needs is gone.
fn or_explain<T>(resumed: Result<T, HomeError>, id: &str) -> Result<T> {
    resumed.map_err(|error| {
        let hint = match &error {
            HomeError::Snapshot(SnapshotError::Restore { .. }) => Some(repair(id)),
            HomeError::Snapshot(SnapshotError::Provision { source, .. }) => match &**source {
                SandboxError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => Some(format!(
                    "put the directory back in its place, or remove the session with `belljar sandbox rm {id}`"
                )),
                _ => None,
            },
            _ => None,
        };
        let error = anyhow::Error::from(error);
        let Some(hint) = hint else { return error };
        Hinted { error: error.context(format!("cannot resume session {id}")), hint }.into()
    })
}

/// How a session whose state is damaged can be used again.
fn repair(id: &str) -> String {
    format!(
        "`belljar sandbox refresh --discard {id}` takes its directories from the disk again, and drops its changes"
    )
}

/// Recovers the directories of a session that is about to be made or resumed, and checks that a link which a program has put
/// there leads nowhere else.
fn before_opening_folders(spec: &SandboxSpec) -> Result<()> {
    let folders = Folders::of_session(&spec.mounts);
    for SandboxMount { target, source, .. } in &spec.mounts {
        let MountSource::Host(path) = source else { continue };
        // `create` keeps paths without links; another program of the library may not.
        let moved = if spec.metadata.contains_key(TOOLCHAIN) { through_link(path) } else { None };
        let left_by = || folders.left_by(path).map(|(_, real)| real);
        if let Some(real) = moved.or_else(left_by) {
            bail!(
                "{}, which is mounted at {target}, leads to {} by a symbolic link, which a program may have put there; put \
                 the directory back in its place, or make a new session",
                path.display(),
                real.display(),
            );
        }
        before_opening(path, false)?;
    }
    let home = home::home_dir()?;
    if sees(spec, &home) {
        bail!(
            "belljar keeps sandboxes in {} now, where programs of the session could write; move that directory, or make a \
             new session",
            home.display()
        );
    }
    Ok(())
}

/// Whether programs of a session see `own`, a directory of belljar's own.
fn sees(spec: &SandboxSpec, own: &Path) -> bool {
    spec.mounts.iter().any(|SandboxMount { target, source, .. }| {
        let MountSource::Host(host) = source else { return false };
        match place_of(own, host, target) {
            Place::Elsewhere => false,
            Place::Around => true,
            Place::At(path) => !spec.mounts.iter().any(|mount| mount.target == path),
        }
    })
}

/// The toolchains of a session.
fn toolchains(spec: &SandboxSpec) -> Result<Toolchains> {
    let dirs = spec.metadata.get(TOOLCHAIN).map_or("[]", String::as_str);
    let toolchains = Toolchains::new(serde_json::from_str(dirs)?)?;
    let store = home::installed_toolchains()?;
    let Some(locked) = spec.metadata.get(PROJECT_TOOLCHAINS) else {
        return Ok(toolchains.with_installed(&store)?);
    };
    let locked: Vec<Locked> = serde_json::from_str(locked)?;
    locked.iter().try_fold(toolchains, |toolchains, Locked { name, version, digest }| {
        Ok(toolchains.with_version(&store, name, version, *digest)?)
    })
}

fn programs(
    spec: &SandboxSpec,
    cache_dir: Option<PathBuf>,
    compile: Option<CompileArgs>,
    loaded: Option<Loaded>,
) -> Result<ToolchainPrograms> {
    let engine = EngineConfig {
        pool_slots: POOL_SLOTS,
        fuel: spec.limits.fuel.is_some(),
        cache_dir: cache_dir.clone(),
        tier: compile.map_or(TierChoice::Auto, |it| it.tier.into()),
        cache_bytes_max: home::cache_bytes_max()?,
        // A process of its own does that.
        optimize_in_background: false,
        compile_memory_bytes_max: compile
            .map_or(EngineConfig::default().compile_memory_bytes_max, |it| {
                it.limits.max_compile_memory
            }),
    };
    let fuel = engine.fuel;
    let mut programs = ToolchainPrograms::with_engine_config(engine, toolchains(spec)?);
    if let Some(limits) = compile {
        let compiler = Compiler { cache_dir, fuel, args: limits, quiet: false };
        programs = programs.compiler(compiler.clone().shared());
        programs = programs.on_load(Arc::new(move |program, module, is_cached| {
            if is_cached {
                compiler.loaded(program, module);
            }
            if let Some(loaded) = &loaded {
                loaded(program, module, is_cached);
            }
        }));
    }
    Ok(programs.with("sh", ShellImage::maker()))
}

/// The command policy of a session, whose text is kept.
#[derive(Serialize, Deserialize)]
struct KeptPolicy {
    file: String,
    text: String,
}

impl KeptPolicy {
    /// Its metadata key.
    const NAME: &str = "belljar.host_policy";

    fn read(path: &Path) -> Result<Self> {
        let text = CommandPolicy::read_text(path);
        let text = text.map_err(|error| Usage::of("--host-policy", error))?;
        let kept = Self { file: path.display().to_string(), text };
        kept.policy().map_err(|error| Usage::of("--host-policy", error))?;
        Ok(kept)
    }

    fn policy(&self) -> Result<CommandPolicy, PolicyError> {
        CommandPolicy::from_json(&self.file, &self.text)
    }

    fn keep(&self, metadata: &mut BTreeMap<String, String>) -> Result<()> {
        metadata.insert(Self::NAME.to_owned(), serde_json::to_string(self)?);
        Ok(())
    }

    /// The policy of the session with this metadata.
    fn of(metadata: &BTreeMap<String, String>) -> Result<CommandPolicy> {
        let Some(kept) = metadata.get(Self::NAME) else { return Ok(CommandPolicy::default()) };
        let kept: Self = serde_json::from_str(kept).context("the session's command policy")?;
        kept.policy().context("the session's command policy")
    }
}

/// Shows that another process uses the session `id`, until this is dropped.
fn waiting(id: &str) -> Progress {
    Progress::start(format!("waiting for the program that runs in {id}"), false)
}

fn say_id(id: &str, json: bool) {
    if json {
        say!("{}", json!({ "id": id }));
    } else {
        say!("{id}");
    }
}

fn snapshot(args: &SnapshotArgs) -> Result<u8> {
    let id = home()?.snapshot(&args.id)?;
    say_id(&id.to_string(), args.json);
    Ok(0)
}

fn fork(args: &ForkArgs, fallback: Option<&str>) -> Result<u8> {
    let id = args.id.as_deref().or(fallback);
    say_id(&home()?.fork(&args.from, id)?, args.json);
    Ok(0)
}

/// A fork under the id of the snapshot's session.
fn resume(args: &ForkArgs) -> Result<u8> {
    let origin = home()?.origin_of(&args.from)?;
    fork(args, Some(&origin))
}

fn rm(args: &RmArgs) -> Result<u8> {
    let home = home()?;
    let (mut removed, mut failed) = (Vec::new(), Vec::new());
    for id in &args.ids {
        match home.remove(id, || waiting(id)) {
            Ok(()) => removed.push(id.as_str()),
            Err(error) => failed.push((id.as_str(), describe(&error.into()))),
        }
    }
    for (_, (_, message)) in &failed {
        complain!("belljar: {message}");
    }
    // After an error the user must know what was removed.
    if !failed.is_empty() && !removed.is_empty() {
        note!("belljar: removed {}", removed.join(", "));
    }
    if args.json {
        let failed = failed.iter().map(|(id, (_, error))| json!({ "id": id, "error": error }));
        say!("{}", json!({ "removed": removed, "failed": failed.collect::<Vec<_>>() }));
    }
    Ok(failed.iter().map(|(_, (code, _))| *code).max().unwrap_or(0))
}

fn gc(args: &GcArgs) -> Result<u8> {
    let removed = home()?.collect_garbage()?;
    if args.json {
        say!("{}", json!({ "contents": removed.contents, "bytes": removed.bytes }));
    } else {
        let bytes = ByteSize(removed.bytes).display().iec();
        say!("removed {}, {bytes}", count(removed.contents, "content"));
    }
    Ok(0)
}
