//! `cd`, `pwd`, `umask`.

use std::sync::Arc;

use crate::base::errno::Errno;
use crate::kernel::guest::absolute;
use crate::kernel::vfs::{FileType, Follow};
use crate::process::shell::context::{Run, Shell};

/// Returns whether `-P` is the last of `-P` and `-L`, and the operands.
fn physical_option(args: &[Vec<u8>]) -> (bool, &[Vec<u8>]) {
    let mut is_physical = false;
    let mut rest = args;
    while let Some((arg, after)) = rest.split_first() {
        match arg.split_first() {
            Some((b'-', letters))
                if !letters.is_empty() && letters.iter().all(|letter| b"LP".contains(letter)) =>
            {
                is_physical = letters.ends_with(b"P");
            }
            Some((b'-', b"-")) => return (is_physical, after),
            _ => break,
        }
        rest = after;
    }
    (is_physical, rest)
}

impl Shell {
    pub(super) async fn cd(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        let (is_physical, args) = physical_option(args);
        let variable = |shell: &Self, name: &[u8]| {
            shell.state.variables.get(name).map(|value| value.to_vec()).unwrap_or_default()
        };
        let (dir, is_shown) = match args.first().map(Vec::as_slice) {
            None => (variable(self, b"HOME"), false),
            Some(b"-") => (variable(self, b"OLDPWD"), true),
            Some(dir) => match self.in_cdpath(dir, &variable(self, b"CDPATH")) {
                Some(found) => (found, true),
                None => (dir.to_vec(), false),
            },
        };
        if dir.is_empty() && args.first().is_none_or(|arg| !arg.is_empty()) {
            let name = if is_shown { "OLDPWD" } else { "HOME" };
            return self.fail(&format!("cd: {name} not set")).await;
        }
        let changed = match std::str::from_utf8(&dir) {
            Ok(dir) => self.change_dir(dir, is_physical),
            Err(_) => Err(Errno::Ilseq),
        };
        let before = match changed {
            Ok(before) => before,
            Err(errno) => {
                let (dir, why) = (String::from_utf8_lossy(&dir), errno.meaning());
                return self.fail(&format!("cd: can't cd to {dir}: {why}")).await;
            }
        };
        let after = self.state.current_dir.clone();
        self.set(b"OLDPWD", before.as_bytes()).await?;
        self.set(b"PWD", after.as_bytes()).await?;
        for name in [b"OLDPWD".as_slice(), b"PWD"] {
            let exported = self.state.variables.export(name);
            self.check_memory(exported).await?;
        }
        if is_shown {
            return self.print(format!("{after}\n").as_bytes()).await;
        }
        Ok(0)
    }

    /// Finds `dir` in the directories of `cdpath`, if one has it before the current directory.
    fn in_cdpath(&mut self, dir: &[u8], cdpath: &[u8]) -> Option<Vec<u8>> {
        let first = dir.split(|byte| *byte == b'/').next().unwrap_or_default();
        if cdpath.is_empty() || [&b""[..], b".", b".."].contains(&first) {
            return None;
        }
        for place in cdpath.split(|byte| *byte == b':') {
            let slash = if place.is_empty() || place.ends_with(b"/") { &b""[..] } else { b"/" };
            let found = [place, slash, dir].concat();
            let stat = self.path_filestat_get(&found, Follow::Yes);
            if stat.is_ok_and(|stat| stat.metadata.file_type == FileType::Directory) {
                return (!place.is_empty()).then_some(found);
            }
        }
        None
    }

    /// Changes the current directory to `dir`; returns the former path. Unless it `is_physical`, `..` is
    /// resolved in the logical path.
    fn change_dir(&mut self, dir: &str, is_physical: bool) -> Result<Arc<str>, Errno> {
        let dir = if dir.is_empty() { "." } else { dir };
        let from = &self.state.current_dir;
        let is_known = dir.starts_with('/') || !from.is_empty();
        let found: Arc<str> = if is_physical || !is_known {
            self.proc_chdir(dir, true)?;
            self.guest.current_dir().unwrap_or_default().into()
        } else {
            let path = absolute(if dir.starts_with('/') { "/" } else { from }, dir);
            self.proc_chdir(&path, false)?;
            path.into()
        };
        Ok(std::mem::replace(&mut self.state.current_dir, found))
    }

    /// Returns the path in `PWD`, if it leads to the current directory.
    pub(in crate::process::shell) fn named_dir(&mut self) -> Option<String> {
        let named = self.state.variables.get(b"PWD")?.clone();
        let named = std::str::from_utf8(&named).ok().filter(|path| path.starts_with('/'))?;
        let has_dots = named.split('/').any(|name| name == "." || name == "..");
        if has_dots
            || *named == *self.state.current_dir
            || self.guest.machine().kernel_version() < 3
        {
            return None;
        }
        let [there, here] =
            [named, "."].map(|path| self.path_filestat_get(path.as_bytes(), Follow::Yes));
        let (there, here) = (there.ok()?, here.ok()?);
        let is_it = (there.dev, there.metadata.ino) == (here.dev, here.metadata.ino);
        is_it.then(|| named.to_owned())
    }

    pub(super) async fn pwd(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        let dir = match self.guest.current_dir() {
            Err(errno) if physical_option(args).0 => Err(errno),
            Ok(dir) if physical_option(args).0 => Ok(dir.into_owned()),
            _ => Ok(self.state.current_dir.to_string()),
        };
        match dir {
            Ok(dir) => self.print(format!("{dir}\n").as_bytes()).await,
            Err(errno) => {
                let dir = self.state.current_dir.clone();
                self.fail(&format!("pwd: {dir}: {}", errno.meaning())).await
            }
        }
    }

    /// Accepts a mask without effect, as there are no permissions.
    pub(super) async fn umask(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        match args.first().map(Vec::as_slice) {
            None => self.print(b"0022\n").await,
            Some(b"-S") if args.len() == 1 => self.print(b"u=rwx,g=rx,o=rx\n").await,
            Some(_) => Ok(0),
        }
    }
}
