//! Which files the arguments of a program name, and which are in the directories that they name.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use super::SubprocessRequest;
use super::taped_files::TapedState;
use crate::kernel::vfs::{EntryState, FolderScan, VPath};

/// Names in an argument after which a path may follow: `--input=a.c`, `-I../include`.
const OPTION_LETTER_LEN: usize = 2;

/// What a program is given.
pub(super) struct Given {
    /// What its arguments name.
    pub named: BTreeMap<VPath, TapedState>,
    /// What is in the directories that its arguments name.
    pub in_dirs: BTreeMap<VPath, TapedState>,
}

/// What `request` names beneath `root`, as it is in `scan`. `canonical` is the root without symbolic links.
pub(super) fn given(
    request: &SubprocessRequest,
    root: &Path,
    canonical: &Path,
    scan: &FolderScan,
) -> Given {
    let beneath_root = |path: &Path| {
        let path = path.strip_prefix(canonical).or_else(|_| path.strip_prefix(root));
        path.ok().map(Path::to_owned)
    };
    let cwd = match &request.current_dir {
        None => Some(VPath::root()),
        Some(dir) if dir.is_relative() => joined(&VPath::root(), dir),
        Some(dir) => beneath_root(dir).and_then(|dir| joined(&VPath::root(), &dir)),
    };
    let (mut named, mut in_dirs) = (BTreeMap::new(), BTreeMap::new());
    let taped = |(path, state): (&VPath, &EntryState)| (path.clone(), TapedState::of(state));
    let words = std::iter::once(&request.program).chain(&request.args);
    for word in words.filter_map(|word| word.to_str()) {
        let value = word.split_once('=').map(|(_, value)| value);
        let is_option = word.starts_with('-');
        let attached = word.get(OPTION_LETTER_LEN..).filter(|_| is_option);
        for path in [Some(word), value, attached].into_iter().flatten() {
            let path = Path::new(path);
            let at = if path.is_absolute() {
                beneath_root(path).and_then(|path| joined(&VPath::root(), &path))
            } else {
                // The root itself is named where the program is told to look at all.
                cwd.as_ref()
                    .filter(|_| !path.as_os_str().is_empty())
                    .and_then(|cwd| joined(cwd, path))
            };
            let Some(at) = at else { continue };
            if at.is_root() || matches!(scan.get(&at), Some(EntryState::Dir)) {
                let is_content = |state: &EntryState| !matches!(state, EntryState::Dir);
                let within = scan.beneath(at).filter(|(_, state)| is_content(state));
                in_dirs.extend(within.map(taped));
            } else if let Some((path, state)) = scan.get_entry(&at) {
                named.extend([taped((path, state))]);
            }
        }
    }
    Given { named, in_dirs }
}

/// `path` from the directory `from`, lexically; `None` if it leaves the root or is not UTF-8.
fn joined(from: &VPath, path: &Path) -> Option<VPath> {
    let mut text = from.as_str().to_owned();
    for component in path.components() {
        text.push('/');
        text.push_str(match component {
            Component::CurDir => ".",
            Component::ParentDir => "..",
            Component::Normal(name) => name.to_str()?,
            Component::Prefix(_) | Component::RootDir => return None,
        });
    }
    VPath::parse(&text).ok()
}
