//! `sandbox_create`.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Hints, Scene, Tool, check_text};
use crate::WORKTREE;
use crate::host::SessionHost;
use crate::kernel::machine::TOOLCHAINS_ROOT;
use crate::kernel::vfs::{EmptyTree, VPath, beneath};
use crate::mcp::bounds::{TEXT_BYTES_MAX, WORDS_MAX};
use crate::mcp::client::{Live, Mounted};
use crate::mcp::error::ToolError;
use crate::mcp::outputs::Outputs;
use crate::mcp::server::{OpenedFolder, Server};
use crate::mcp::tape::root_on_tape;
use crate::sandbox::{
    Directories, Directory, FilesystemAccess, MEMORY_DIR, MountSource, OUTPUTS_DIR, Sandbox,
    SandboxMount, SandboxSpec,
};

/// Makes a sandbox.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Create {
    /// An id of your choice: up to 64 letters, digits, `-`, `_` and `.`. A new one is made if there is none
    id: Option<String>,
    /// Folders of the host to mount. sandbox_list has their names. Without any, /worktree is an empty directory in memory
    #[serde(default)]
    folders: Vec<FolderArg>,
    /// Environment variables of every program
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The seed of random numbers: two sandboxes with the same seed get the same ones
    #[serde(default)]
    seed: u64,
}

/// A folder of the policy.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FolderArg {
    /// Its name in the policy
    folder: String,
    /// A directory in it, relative to it
    #[serde(default)]
    path: String,
    /// Where it is mounted. Default: /worktree, where programs start
    at: Option<String>,
    /// Let programs read it only, also where the policy lets them change their view of it
    #[serde(default)]
    read_only: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Created {
    /// The id of the sandbox, for all other tools
    sandbox: String,
    /// Where programs start and relative paths begin
    start_dir: String,
    /// What is mounted
    mounts: Vec<MountInfo>,
}

/// A mount of a sandbox.
#[derive(Serialize, JsonSchema, Clone)]
pub(super) struct MountInfo {
    /// Where it is mounted
    at: String,
    /// The folder of the policy; none for a directory in memory
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    /// The directory in that folder
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Whether programs can change it, in the sandbox
    writable: bool,
    /// Whether sandbox_apply can write the changes to the host
    may_apply: bool,
}

impl Tool for Create {
    type Answer = Created;
    const NAME: &'static str = "sandbox_create";
    const TITLE: &'static str = "Create a sandbox";
    const DESCRIPTION: &'static str = "Makes a sandbox, in which programs run isolated: with files of their own, no network \
        unless the policy allows it, a clock that stands still, and limits. Files last until the sandbox is dropped. Work in \
        /worktree. Nothing that happens in a sandbox changes the host. Fork it (sandbox_fork) before you try something risky: \
        that takes microseconds. Drop it (sandbox_drop) when you are done.";
    const HINTS: Hints = Hints::adding();

    fn run(self, scene: &mut Scene<'_>) -> Result<Created, ToolError> {
        let server = scene.server().clone();
        scene.client.check_new_id(self.id.as_deref())?;
        check_env(&self.env)?;
        let place = server.budget.place()?;
        let charge = server.budget.charge(0)?;
        let id = scene.client.new_id(self.id);
        if server.tape.is_some() {
            scene.call.notes().dropped_before = scene.client.dropped();
        }
        // A replay has it from the tape.
        let dropped_before = scene.call.notes().dropped_before;
        let at_on_tape = root_on_tape(scene.client.number(), &id, dropped_before);
        let (folders, opened) = mounted(&self.folders, &server, &at_on_tape)?;
        let spec = SandboxSpec {
            session_id: String::new(),
            mounts: mounts(&folders, &opened, &server)?,
            network_policy: server.policy.network.clone(),
            limits: server.policy.bounds.limits(),
            seed: self.seed,
            env: self.env,
            ..SandboxSpec::default()
        };
        let commands = server.policy.commands.clone();
        let make_host = Arc::new(move |_: &SandboxSpec| {
            SessionHost::builder().policy(commands.clone()).answers(nobody_answers)
        });
        let opened = RefCell::new(opened);
        let open = |mount: &SandboxMount, _: &Path| {
            let taken = opened.borrow_mut().remove(&mount.target);
            Ok(taken.map_or_else(|| Directory::Layer(Arc::new(EmptyTree)), |it| it.directory))
        };
        let tape = server.tape.as_ref().map(|tape| (tape.recorder(), at_on_tape));
        let directories = Directories { open: &open, tape };
        let programs = server.loaded().programs;
        let mut sandbox = Sandbox::provision_opening(programs, spec, make_host, &directories)?;
        server.environment.prepare(sandbox.files());
        let start_dir = sandbox.start_dir().to_owned();
        let mounts = mount_infos(&sandbox, &folders);
        let outputs = Outputs::default();
        let live = Live { sandbox, outputs, charge, folders, origin: None, _place: place };
        let sandbox = scene.admit(id, live)?;
        Ok(Created { sandbox, start_dir, mounts })
    }
}

fn nobody_answers(_: &crate::host::Question) -> Result<String, String> {
    Err("nobody can be asked while a program runs".to_owned())
}

fn check_env(env: &BTreeMap<String, String>) -> Result<(), ToolError> {
    if env.len() > WORDS_MAX || env.iter().any(|(_, value)| value.len() > TEXT_BYTES_MAX * 16) {
        return Err(ToolError::arguments(format!(
            "env: more than {WORDS_MAX} variables, or a value longer than {} bytes",
            TEXT_BYTES_MAX * 16
        )));
    }
    Ok(())
}

/// The directories of a sandbox, opened beneath those of the policy, by the mount point of each.
type Opened = HashMap<String, OpenedFolder>;

fn mounted(
    asked: &[FolderArg],
    server: &Server,
    at_on_tape: &str,
) -> Result<(Vec<Mounted>, Opened), ToolError> {
    let (mut folders, mut opened): (Vec<Mounted>, Opened) = Default::default();
    if asked.len() > WORDS_MAX {
        return Err(ToolError::arguments("folders: too many"));
    }
    for FolderArg { folder, path, at, read_only } in asked {
        check_text("path", path)?;
        let root = server.policy.folders.iter().find(|root| root.name == *folder);
        let root = root.ok_or_else(|| no_folder(folder, server))?;
        let at = mount_point(at.as_deref().unwrap_or(WORKTREE), &folders)?;
        let relative = VPath::parse(path).map_err(|errno| {
            ToolError::denied(format!("path {path:?} is not in folder {folder:?}: {errno}"))
        })?;
        let dir = server.open(root, &relative, &format!("{at_on_tape}{at}")).map_err(|error| {
            ToolError::denied(format!(
                "cannot open {path:?} in folder {folder:?}: {error}. It must be a directory that no symbolic link leads out of"
            ))
        })?;
        opened.insert(at.clone(), dir);
        folders.push(Mounted {
            at,
            folder: folder.clone(),
            path: relative.as_str().to_owned(),
            is_writable: root.is_writable && !read_only,
            may_apply: root.may_apply && !read_only,
        });
    }
    Ok((folders, opened))
}

fn no_folder(name: &str, server: &Server) -> ToolError {
    let name: String = name.chars().take(64).collect();
    let names: Vec<String> =
        server.policy.folders.iter().map(|folder| format!("{:?}", folder.name)).collect();
    let next = if names.is_empty() {
        "the policy of this server lets no folder be mounted; leave out `folders`, and write files with sandbox_write"
            .to_owned()
    } else {
        format!("the policy has {}", names.join(", "))
    };
    ToolError::denied(format!("no folder {name:?}: {next}"))
}

/// The mount point `at`, if a folder can be mounted there.
fn mount_point(at: &str, others: &[Mounted]) -> Result<String, ToolError> {
    check_text("at", at)?;
    let wrong = |why: &str| ToolError::arguments(format!("at: cannot mount at {at:?}: {why}"));
    let path = VPath::parse(at).ok().filter(|path| at.starts_with('/') && !path.is_root());
    let path = path.ok_or_else(|| wrong("give an absolute path, such as /worktree"))?.absolute("/");
    if beneath(TOOLCHAINS_ROOT, &path).is_some() {
        return Err(wrong("toolchains have their files there"));
    }
    let overlaps = |other: &str| beneath(other, &path).is_some() || beneath(&path, other).is_some();
    if others.iter().any(|other| overlaps(&other.at)) {
        return Err(wrong("another folder is mounted there, below or above; choose another path"));
    }
    Ok(path)
}

fn mounts(
    folders: &[Mounted],
    opened: &Opened,
    server: &Server,
) -> Result<Vec<SandboxMount>, ToolError> {
    let in_memory =
        |target: String, access| SandboxMount { target, source: MountSource::Memory, access };
    let mut mounts = Vec::new();
    if folders.is_empty() {
        // An empty tree in place of a directory in memory, so that a diff shows what is written there.
        mounts.push(SandboxMount {
            target: WORKTREE.to_owned(),
            source: MountSource::Host(PathBuf::new()),
            access: FilesystemAccess::ReadWrite,
        });
    } else if !folders.iter().any(|folder| folder.at == WORKTREE) {
        mounts.push(in_memory(WORKTREE.to_owned(), FilesystemAccess::ReadWrite));
    }
    for folder in folders {
        let Some(OpenedFolder { path, .. }) = opened.get(&folder.at) else { continue };
        let hidden =
            server.environment.before_mount(path, &folder.at).map_err(ToolError::denied)?;
        mounts.push(SandboxMount {
            target: folder.at.clone(),
            source: MountSource::Host(path.clone()),
            access: if folder.is_writable {
                FilesystemAccess::ReadWrite
            } else {
                FilesystemAccess::ReadOnly
            },
        });
        mounts.extend(hidden.into_iter().map(|at| in_memory(at, FilesystemAccess::ReadOnly)));
    }
    Ok(mounts)
}

/// What is mounted in a sandbox, for its client: no paths of the host.
pub(super) fn mount_infos(sandbox: &Sandbox, folders: &[Mounted]) -> Vec<MountInfo> {
    let is_of_session = |at: &str| [MEMORY_DIR, OUTPUTS_DIR].contains(&at);
    let shown = sandbox.mounts().iter().filter(|mount| !is_of_session(&mount.target));
    let info = |mount: &SandboxMount| {
        let folder = folders.iter().find(|folder| folder.at == mount.target);
        MountInfo {
            at: mount.target.clone(),
            folder: folder.map(|folder| folder.folder.clone()),
            path: folder.map(|folder| folder.path.clone()),
            writable: mount.access == FilesystemAccess::ReadWrite,
            may_apply: folder.is_some_and(|folder| folder.may_apply),
        }
    };
    shown.map(info).collect()
}
