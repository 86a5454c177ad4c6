//! Subprocesses that are modules.

use std::path::{Component, Path};

use super::{
    SubprocessError, SubprocessOutput, SubprocessRequest, SubprocessStatus, SubprocessStdio,
};
use crate::engine::{Outcome, Program};
use crate::kernel::machine::{Machine, WORKTREE};
use crate::process::Command;

/// Runs `program` as `request` says in `machine`, whose worktree shows `root`.
///
/// # Errors
/// [`SubprocessError`]: `CurrentDir`, `Run`, `MachineTape`.
pub(super) fn run_in_machine(
    call: u64,
    program: &Program,
    request: &SubprocessRequest,
    stdin: &[u8],
    root: &Path,
    machine: &mut Machine,
) -> Result<SubprocessOutput, SubprocessError> {
    let mut command = Command::new(program);
    command.argv0(request.program.as_encoded_bytes()).stdin(stdin);
    command.args(request.args.iter().map(|arg| arg.as_encoded_bytes()));
    for (key, value) in request.variables() {
        command.env(key.as_encoded_bytes(), value.as_encoded_bytes());
    }
    if let Some(dir) = &request.current_dir {
        command.current_dir(guest_dir(root, dir).ok_or_else(|| SubprocessError::CurrentDir {
            call,
            program: request.name(),
            dir: dir.clone(),
            why: "a path in a machine must be UTF-8 and have no drive",
        })?);
    }
    let own = machine.limits.timeout;
    machine.limits.timeout = own.into_iter().chain(request.timeout).min();
    let output = command.output(machine);
    machine.limits.timeout = own;
    let output = output.map_err(|source| SubprocessError::Run { call, source })?;
    let status = match output.status.outcome() {
        Outcome::Tape => {
            return Err(SubprocessError::MachineTape { call, program: request.name() });
        }
        Outcome::Exited(code) => SubprocessStatus::Exited(code.cast_signed()),
        stopped => SubprocessStatus::Stopped(stopped.clone()),
    };
    let kept = |stdio, bytes| if stdio == SubprocessStdio::Null { Vec::new() } else { bytes };
    Ok(SubprocessOutput {
        status,
        stdout: kept(request.stdout, output.stdout),
        stderr: kept(request.stderr, output.stderr),
    })
}

/// The path in the machine of directory `dir`; the worktree shows `root`.
fn guest_dir(root: &Path, dir: &Path) -> Option<String> {
    let below = dir.strip_prefix(root).unwrap_or(dir);
    let mut path = if below.has_root() { String::new() } else { WORKTREE.to_owned() };
    for component in below.components() {
        let name = match component {
            Component::Prefix(_) => return None,
            Component::RootDir | Component::CurDir => continue,
            Component::ParentDir => "..",
            Component::Normal(name) => name.to_str()?,
        };
        path.push('/');
        path.push_str(name);
    }
    Some(if path.is_empty() { "/".to_owned() } else { path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_directories_map_to_machine_paths() {
        let root = Path::new("/home/me/project");
        let guest = |dir: &str| guest_dir(root, Path::new(dir)).unwrap();
        assert_eq!(guest("/home/me/project"), "/worktree");
        assert_eq!(guest("/home/me/project/a/b"), "/worktree/a/b");
        assert_eq!(guest("a/./b"), "/worktree/a/b");
        assert_eq!(guest("../x"), "/worktree/../x");
        assert_eq!(guest("/tmp"), "/tmp");
        assert_eq!(guest("/"), "/");
        assert_eq!(guest_dir(Path::new(""), Path::new("a")).unwrap(), "/worktree/a");
    }
}
