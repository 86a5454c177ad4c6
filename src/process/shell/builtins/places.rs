//! `cd`, `pwd`, `umask`.

use crate::base::errno::Errno;
use crate::kernel::vfs::{FileType, Follow};
use crate::process::shell::context::{Run, Shell};

/// Links that one path may lead through.
const LINKS_MAX: u32 = 40;

/// Whether `-P` is given, and not `-L` after it; and the operands.
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
            Some(dir) => (dir.to_vec(), false),
        };
        if dir.is_empty() && args.first().is_none_or(|arg| !arg.is_empty()) {
            let name = if is_shown { "OLDPWD" } else { "HOME" };
            return self.fail(&format!("cd: {name} not set")).await;
        }
        let before = self.guest.current_dir().as_bytes().to_vec();
        let changed = match std::str::from_utf8(&dir) {
            Ok(dir) => {
                let dir = if dir.is_empty() { "." } else { dir };
                let real = if is_physical { self.real_path(dir) } else { Ok(dir.to_owned()) };
                real.and_then(|real| self.proc_chdir(&real))
            }
            Err(_) => Err(Errno::Ilseq),
        };
        if let Err(errno) = changed {
            let (dir, why) = (String::from_utf8_lossy(&dir), errno.meaning());
            return self.fail(&format!("cd: can't cd to {dir}: {why}")).await;
        }
        let after = self.guest.current_dir().as_bytes().to_vec();
        self.set(b"OLDPWD", before).await?;
        self.set(b"PWD", after.clone()).await?;
        for name in [b"OLDPWD".as_slice(), b"PWD"] {
            let exported = self.state.variables.export(name);
            self.check_memory(exported).await?;
        }
        if is_shown {
            return self.print(&[after.as_slice(), b"\n"].concat()).await;
        }
        Ok(0)
    }

    pub(super) async fn pwd(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        let mut dir = self.guest.current_dir().to_owned();
        if physical_option(args).0 {
            dir = match self.real_path(".") {
                Ok(real) => real,
                Err(errno) => return self.fail(&format!("pwd: {dir}: {}", errno.meaning())).await,
            };
        }
        dir.push('\n');
        self.print(dir.as_bytes()).await
    }

    /// `path` as an absolute path without links (POSIX `realpath`), of what is there.
    ///
    /// # Errors
    /// `ELOOP` beyond 40 links; `ENOENT`, `ENOTDIR` and the like.
    fn real_path(&mut self, path: &str) -> Result<String, Errno> {
        let parts = |path: &str| path.rsplit('/').map(str::to_owned).collect::<Vec<_>>();
        let mut rest = parts(path);
        if !path.starts_with('/') {
            rest.extend(parts(self.guest.current_dir()));
        }
        let (mut real, mut links) = (String::new(), 0);
        while let Some(part) = rest.pop() {
            match part.as_str() {
                "" | "." => continue,
                ".." => {
                    real.truncate(real.rfind('/').unwrap_or(0));
                    continue;
                }
                _ => {}
            }
            let next = format!("{real}/{part}");
            let found = self.path_filestat_get(next.as_bytes(), Follow::No)?;
            if found.metadata.file_type != FileType::SymbolicLink {
                real = next;
                continue;
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(Errno::Loop);
            }
            let text = self.path_readlink(&next)?;
            if text.starts_with('/') {
                real.clear();
            }
            rest.extend(parts(&text));
        }
        Ok(if real.is_empty() { "/".to_owned() } else { real })
    }

    /// There are no permissions: a mask is taken, and nothing comes of it.
    pub(super) async fn umask(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        match args.first().map(Vec::as_slice) {
            None => self.print(b"0022\n").await,
            Some(b"-S") if args.len() == 1 => self.print(b"u=rwx,g=rx,o=rx\n").await,
            Some(_) => Ok(0),
        }
    }
}
