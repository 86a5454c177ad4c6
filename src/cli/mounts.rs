//! The mounts of a run: the worktree and those of `--dir`.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;

use super::args::groups::MountArgs;
use super::args::values::mount_point;
use super::args::values::{DirMount, Worktree};
use super::exit::Usage;
use super::home::{cache_dir, home_dir};
use super::host_paths::Folder;
use super::recover::before_opening;
use crate::base::disk;
use crate::kernel::machine::TOOLCHAINS_ROOT;
use crate::kernel::vfs::{Baseline, beneath};
use crate::{HostDir, Machine, MachineBuilder, MachineError, Preopen, Reach, Source, WORKTREE};

/// A mount point that is taken, and the option that took it, for messages.
struct Taken {
    at: String,
    by: String,
}

/// The machine of `builder` with the directories mounted, and the preopens if they are not the whole
/// namespace. Unless `others_write`, as native programs of the run may, directories show their present
/// state for the whole run.
pub fn mount(
    mut builder: MachineBuilder,
    args: &MountArgs,
    others_write: bool,
    quiet: bool,
) -> Result<(Machine, Option<Vec<Preopen>>)> {
    let open =
        |path: &Path| open(path).map(|source| if others_write { source } else { begun(source) });
    let mut taken: Vec<Taken> = Vec::new();
    let mut preopens = Vec::new();
    if args.no_worktree {
        builder = builder.tmp(false);
    } else {
        let Worktree { host, read_only } = args.worktree.clone().unwrap_or_default();
        before_opening(&host, quiet)?;
        let source = open(&host).map_err(|why| {
            Usage(format!("--worktree {}: {why}{}", host.display(), worktree_hint(&host)))
        })?;
        builder = if read_only {
            builder.mount_read_only(WORKTREE, source)
        } else {
            builder.mount(WORKTREE, source)
        };
        builder = hide(builder, &host, WORKTREE)?;
        taken.push(Taken { at: WORKTREE.to_owned(), by: "the worktree".to_owned() });
    }
    for mount in &args.dir {
        let refuse = |why: String| Usage(format!("--dir {}: {why}", mount.given));
        before_opening(&mount.host, quiet)?;
        let source = open(&mount.host).map_err(|why| refuse(why + &colon_hint(mount)))?;
        let at = named_mount_point(mount, args.no_worktree).map_err(refuse)?;
        if let Some(Taken { by, .. }) = taken.iter().find(|taken| taken.at == at) {
            let host = mount.host.display();
            let or = match (at == WORKTREE, mount.read_only) {
                (true, true) => format!(", or --worktree {host}::ro"),
                (true, false) => ", or --no-worktree".to_owned(),
                (false, _) => String::new(),
            };
            let why =
                format!("{by} is mounted at {at} already; choose another GUEST: {host}::GUEST{or}");
            return Err(refuse(why).into());
        }
        not_reserved(&at).map_err(refuse)?;
        not_above(&at, taken.iter().map(|taken| &*taken.at)).map_err(refuse)?;
        builder = if mount.read_only {
            builder.mount_read_only(&at, source)
        } else {
            builder.mount(&at, source)
        };
        builder = hide(builder, &mount.host, &at)?;
        let (path, name) = (at.clone(), mount.guest.clone());
        preopens.push(Preopen { path, name, reach: Reach::Confined });
        taken.push(Taken { at, by: format!("--dir {}", mount.given) });
    }
    let machine = builder.build().map_err(|error| {
        let (MachineError::Mount { path, .. }
        | MachineError::Layers { path }
        | MachineError::Ambiguous { path, .. }) = &error;
        let next_step = match &error {
            MachineError::Ambiguous { .. } => "",
            _ => "; choose another GUEST",
        };
        match taken.iter().find(|taken| taken.at == *path) {
            Some(Taken { by, .. }) => Usage(format!("{by}: {error}{next_step}")),
            None => Usage(error.to_string()),
        }
    })?;
    Ok((machine, args.no_worktree.then_some(preopens)))
}

/// The path in the namespace of the directory `mount`.
///
/// # Errors
/// It leads above the root; or it is the path on the host, in which `..` follows a symbolic link, so that it can mean
/// something else in the program.
pub fn named_mount_point(mount: &DirMount, no_worktree: bool) -> Result<String, String> {
    let at = mount_point(&mount.guest, no_worktree)?;
    if Path::new(&mount.guest) != mount.host {
        return Ok(at);
    }
    let mut before = PathBuf::new();
    for part in mount.host.components() {
        let is_up = part == Component::ParentDir;
        if is_up && disk::symlink_metadata(&before).is_ok_and(|found| found.is_symlink()) {
            let (host, link) = (mount.host.display(), before.display());
            return Err(format!(
                "`..` leads back from the symbolic link {link}; choose its name in the program: {host}::GUEST"
            ));
        }
        before.push(part);
    }
    Ok(at)
}

/// Checks that `at` is not where toolchains have their files.
///
/// # Errors
/// It is.
pub fn not_reserved(at: &str) -> Result<(), String> {
    if beneath(TOOLCHAINS_ROOT, at).is_none() {
        return Ok(());
    }
    Err(format!("{TOOLCHAINS_ROOT} is where toolchains have their files; choose another GUEST"))
}

/// Checks that nothing is mounted below `at` yet.
///
/// # Errors
/// A mount at `at` would hide one of `taken`.
pub fn not_above<'a>(at: &str, mut taken: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let is_hidden = |other: &&str| beneath(at, other).is_some_and(|rest| !rest.is_empty());
    match taken.find(is_hidden) {
        Some(hidden) => Err(format!("it would hide the mount at {hidden}; put it before that one")),
        None => Ok(()),
    }
}

/// The directories of the host that programs see, and where.
pub fn folders(args: &MountArgs) -> Vec<Folder> {
    let worktree = (!args.no_worktree).then(|| Folder {
        host: args.worktree.clone().unwrap_or_default().host,
        at: WORKTREE.to_owned(),
    });
    let dirs = args.dir.iter().filter_map(|mount| {
        let at = mount_point(&mount.guest, args.no_worktree).ok()?;
        Some(Folder { host: mount.host.clone(), at })
    });
    worktree.into_iter().chain(dirs).collect()
}

/// Opens the directory `path` of the host.
pub fn open(path: &Path) -> Result<Source, String> {
    match HostDir::open(path) {
        Ok(dir) => Ok(Source::Host(Arc::new(dir))),
        Err(error) => Err(format!("cannot open the directory {}: {error}", path.display())),
    }
}

/// `source`, fixed in its present state.
fn begun(source: Source) -> Source {
    match source {
        // A file that changes before it is read is an error: a run has no store for contents.
        Source::Host(dir) => Source::Baseline(Arc::new(Baseline::begin(dir, None, false))),
        source => source,
    }
}

/// A hint for `HOST:ro`, and for a worktree with a mount point.
pub fn worktree_hint(given: &Path) -> String {
    let given = given.to_string_lossy();
    let parts: Vec<&str> = given.split(':').filter(|part| !part.is_empty()).collect();
    match parts[..] {
        [host, "ro"] if is_folder(host) => format!("; did you mean --worktree {host}::ro?"),
        [host, guest] if is_folder(host) => format!(
            "; the worktree is always at {WORKTREE}, and only ::ro can follow it: did you mean --dir \
             {host}::{guest}?"
        ),
        _ => String::new(),
    }
}

fn is_folder(path: &str) -> bool {
    disk::metadata(Path::new(path)).is_ok_and(|found| found.is_dir())
}

/// A hint for `HOST:GUEST`.
fn colon_hint(mount: &DirMount) -> String {
    let parts: Vec<&str> = mount.given.split(':').filter(|part| !part.is_empty()).collect();
    match parts[..] {
        [host, _] | [host, _, "ro"] if is_folder(host) => {
            format!("; did you mean --dir {}?", parts.join("::"))
        }
        _ => String::new(),
    }
}

/// Hides belljar's own directories in the directory `host`, mounted at `at`.
fn hide(builder: MachineBuilder, host: &Path, at: &str) -> Result<MachineBuilder> {
    let cover = |builder: MachineBuilder, at| builder.mount_read_only(at, Source::Memory);
    Ok(hidden(host, at)?.into_iter().fold(builder, cover))
}

/// The paths of the cache of compiled code and of the home of sandboxes if the directory `host` is mounted
/// at `at` and they lie in it: a program that can write there decides what runs.
///
/// # Errors
/// [`Usage`] if `host` lies in one of them.
pub fn hidden(host: &Path, at: &str) -> Result<Vec<String>> {
    let mut hidden = Vec::new();
    for (own, what) in [(cache_dir()?, "compiled code"), (home_dir()?, "sandboxes")] {
        match place_of(&own, host, at) {
            Place::Elsewhere => {}
            Place::Around => {
                let host = disk::canonical(host).unwrap_or_else(|_| host.to_owned());
                let message =
                    format!("cannot mount {}: belljar keeps {what} there", host.display());
                return Err(Usage(message).into());
            }
            Place::At(path) => hidden.push(path),
        }
    }
    Ok(hidden)
}

/// Where a directory of belljar's own is, for programs that see another one.
pub enum Place {
    /// They do not see it.
    Elsewhere,
    /// It contains the other one.
    Around,
    /// At this path of theirs.
    At(String),
}

/// Where `own` is for programs that see the directory `host` at `at`.
pub fn place_of(own: &Path, host: &Path, at: &str) -> Place {
    let (Ok(host), Ok(own)) = (disk::canonical(host), disk::canonical(own)) else {
        return Place::Elsewhere;
    };
    if host.starts_with(&own) {
        return Place::Around;
    }
    let Ok(inside) = own.strip_prefix(&host) else { return Place::Elsewhere };
    let inside: Vec<_> = inside.iter().map(OsStr::to_string_lossy).collect();
    Place::At(format!("{}/{}", at.trim_end_matches('/'), inside.join("/")))
}
