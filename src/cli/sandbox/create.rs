//! `belljar sandbox create`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{KeptPolicy, PROJECT_TOOLCHAINS, TOOLCHAIN, before_opening_folders, home, say_id};
use crate::WORKTREE;
use crate::base::disk;
use crate::cli::args::groups::MountArgs;
use crate::cli::args::sandbox::CreateArgs;
use crate::cli::exit::Usage;
use crate::cli::home::installed_toolchains;
use crate::cli::mounts::{hidden, named_mount_point, not_above, not_reserved, worktree_hint};
use crate::cli::options;
use crate::cli::planted_links::check_folders;
use crate::cli::project::lock::Locked;
use crate::cli::setup;
use crate::sandbox::{FilesystemAccess, MountSource, Sandbox, SandboxMount, SandboxSpec};

pub fn run(args: &CreateArgs) -> Result<u8> {
    let home = home()?;
    let mut toolchains = setup::named_toolchains(&args.toolchain)?;
    let of_project = setup::project_toolchains(&installed_toolchains()?, false)?;
    let locked = of_project.as_ref().map(|toolchains| {
        let installed = toolchains.described().filter(|toolchain| toolchain.is_installed());
        installed.map(|toolchain| Locked::of(toolchain)).collect::<Vec<_>>()
    });
    toolchains = toolchains.then(of_project.unwrap_or_default());
    let dirs: Vec<PathBuf> =
        toolchains.dirs().map(|dir| Ok(disk::canonical(dir)?)).collect::<Result<_>>()?;
    let toolchain = serde_json::to_string(&dirs).context("--toolchain")?;
    let mut metadata = BTreeMap::from([(TOOLCHAIN.to_owned(), toolchain)]);
    if let Some(locked) = locked {
        metadata.insert(PROJECT_TOOLCHAINS.to_owned(), serde_json::to_string(&locked)?);
    }
    if let Some(path) = &args.rules.host_policy {
        KeptPolicy::read(path)?.keep(&mut metadata)?;
    }
    let spec = SandboxSpec {
        session_id: String::new(),
        mounts: mounts(&args.mounts)?,
        network_policy: options::network_policy(&args.rules)?,
        limits: options::limits(&args.limits),
        clock: options::clock(&args.time)?,
        mtimes: options::mtimes(&args.time)?,
        seed: args.time.seed,
        env: environment(&args.env)?,
        metadata,
    };
    before_opening_folders(&spec)?;
    options::note_dense_times(&args.time);
    note_own_mnt(&spec.mounts);
    let programs = home.programs(&spec)?;
    let mut sandbox = Sandbox::provision(programs, spec)?;
    say_id(&home.create(args.id.as_deref(), &mut sandbox)?, args.json);
    Ok(0)
}

/// Says what a worktree with an entry `mnt` means for the session's own directories.
fn note_own_mnt(mounts: &[SandboxMount]) {
    let has_mnt = |mount: &SandboxMount| {
        let MountSource::Host(dir) = &mount.source else { return false };
        mount.target == WORKTREE && disk::symlink_metadata(&dir.join("mnt")).is_ok()
    };
    if mounts.iter().any(has_mnt) {
        note!(
            "belljar: note: the worktree has an entry mnt, so programs of wasi-libc do not reach /mnt/memory and \
             /mnt/session/outputs; the shell and its commands do"
        );
    }
}

/// The variables of `--env`, which must be UTF-8 in a session.
pub fn environment(given: &[OsString]) -> Result<BTreeMap<String, String>> {
    let text = |text: OsString| {
        text.into_string()
            .map_err(|text| Usage(format!("--env {}: it is not UTF-8", text.display())))
    };
    let mut variables = BTreeMap::new();
    for (key, value) in options::environment(given)? {
        variables.insert(text(key)?, text(value)?);
    }
    Ok(variables)
}

fn mounts(args: &MountArgs) -> Result<Vec<SandboxMount>> {
    check_folders(args)?;
    let mut mounts = Vec::new();
    if !args.no_worktree {
        let worktree = args.worktree.clone().unwrap_or_default();
        mount(&mut mounts, "--worktree", &worktree.host, WORKTREE, worktree.read_only)?;
    }
    for dir in &args.dir {
        let option = format!("--dir {}", dir.given);
        let at = named_mount_point(dir, args.no_worktree)
            .map_err(|why| Usage(format!("{option}: {why}")))?;
        if mounts.iter().any(|mount| mount.target == at) {
            let why = format!("something is mounted at {at} already; choose another GUEST");
            return Err(Usage(format!("{option}: {why}")).into());
        }
        not_reserved(&at).map_err(|why| Usage(format!("{option}: {why}")))?;
        not_above(&at, mounts.iter().map(|mount: &SandboxMount| &*mount.target))
            .map_err(|why| Usage(format!("{option}: {why}")))?;
        mount(&mut mounts, &option, &dir.host, &at, dir.read_only)?;
    }
    Ok(mounts)
}

/// Adds the directory `host` at `target`, and hides belljar's own directories in it.
fn mount(
    mounts: &mut Vec<SandboxMount>,
    option: &str,
    host: &Path,
    target: &str,
    read_only: bool,
) -> Result<()> {
    let given = host;
    let host = disk::canonical(host).map_err(|error| Usage::of(option, error))?;
    if !disk::metadata(&host).is_ok_and(|metadata| metadata.is_dir()) {
        let hint = if option == "--worktree" { worktree_hint(given) } else { String::new() };
        let given = given.display();
        return Err(Usage(format!("{option}: there is no directory {given}{hint}")).into());
    }
    if host.to_str().is_none() {
        let why = "a session needs paths in UTF-8; rename it";
        return Err(Usage(format!("{option}: {}: {why}", host.display())).into());
    }
    let access = if read_only { FilesystemAccess::ReadOnly } else { FilesystemAccess::ReadWrite };
    let hidden = hidden(&host, target)?;
    mounts.push(SandboxMount {
        target: target.to_owned(),
        source: MountSource::Host(host),
        access,
    });
    mounts.extend(hidden.into_iter().map(|target| SandboxMount {
        target,
        source: MountSource::Memory,
        access: FilesystemAccess::ReadOnly,
    }));
    Ok(())
}
