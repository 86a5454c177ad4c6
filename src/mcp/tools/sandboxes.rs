//! `sandbox_drop` and `sandbox_list`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::create::{MountInfo, mount_infos};
use super::{Hints, Scene, Tool};
use crate::mcp::bounds::Bounds;
use crate::mcp::error::ToolError;

/// Drops a sandbox.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Drop {
    /// The sandbox
    sandbox: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Dropped {
    /// The sandbox that is gone
    dropped: String,
}

impl Tool for Drop {
    type Answer = Dropped;
    const NAME: &'static str = "sandbox_drop";
    const TITLE: &'static str = "Drop a sandbox";
    const DESCRIPTION: &'static str =
        "Removes a sandbox with all its files, and ends what runs in it. Forks of it stay.";
    const HINTS: Hints = Hints {
        is_read_only: false,
        is_destructive: true,
        is_idempotent: true,
        is_open_world: false,
    };

    fn sandboxes(&self) -> Vec<&str> {
        vec![&self.sandbox]
    }

    fn ends(&self) -> Option<&str> {
        Some(&self.sandbox)
    }

    fn run(self, scene: &mut Scene<'_>) -> Result<Dropped, ToolError> {
        scene.sandbox(&self.sandbox)?.end();
        scene.client.forget(&self.sandbox);
        Ok(Dropped { dropped: self.sandbox })
    }
}

/// Lists sandboxes, folders and limits.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct List {}

#[derive(Serialize, JsonSchema)]
pub(super) struct Listed {
    /// Your sandboxes
    sandboxes: Vec<SandboxInfo>,
    /// Folders of the host that sandbox_create can mount
    folders: Vec<FolderInfo>,
    /// The limits of this server: bytes and milliseconds
    limits: Bounds,
}

#[derive(Serialize, JsonSchema)]
struct SandboxInfo {
    /// Its id
    sandbox: String,
    /// What it was forked from
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    /// Whether a call uses it now
    busy: bool,
    /// Bytes that its changed files take, unless it is busy
    #[serde(skip_serializing_if = "Option::is_none")]
    upper_bytes: Option<u64>,
    /// What is mounted, unless it is busy
    #[serde(skip_serializing_if = "Option::is_none")]
    mounts: Option<Vec<MountInfo>>,
}

/// A folder of the host.
#[derive(Serialize, JsonSchema)]
struct FolderInfo {
    /// Its name, for sandbox_create
    folder: String,
    /// Whether programs can change their view of it
    writable: bool,
    /// Whether sandbox_apply can write to it
    may_apply: bool,
}

impl Tool for List {
    type Answer = Listed;
    const NAME: &'static str = "sandbox_list";
    const TITLE: &'static str = "List sandboxes";
    const DESCRIPTION: &'static str =
        "Lists your sandboxes, the folders of the host that a sandbox can mount, and the limits.";
    const HINTS: Hints = Hints::reading();

    fn run(self, scene: &mut Scene<'_>) -> Result<Listed, ToolError> {
        let each = scene.client.each(|live| {
            let bytes = live.sandbox.files().upper_bytes();
            (live.origin.clone(), bytes, mount_infos(&live.sandbox, &live.folders))
        });
        let sandboxes = each.into_iter().map(|(sandbox, _, known)| {
            let busy = known.is_none();
            let (origin, upper_bytes, mounts) = match known {
                Some((origin, bytes, mounts)) => (origin, Some(bytes), Some(mounts)),
                None => (None, None, None),
            };
            SandboxInfo { sandbox, origin, busy, upper_bytes, mounts }
        });
        let policy = &scene.server().policy;
        let folder = |folder: &crate::mcp::Folder| FolderInfo {
            folder: folder.name.clone(),
            writable: folder.is_writable,
            may_apply: folder.may_apply,
        };
        Ok(Listed {
            sandboxes: sandboxes.collect(),
            folders: policy.folders.iter().map(folder).collect(),
            limits: policy.bounds,
        })
    }
}
