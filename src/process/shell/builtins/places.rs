//! `cd`, `pwd`, `umask`.

use crate::base::errno::Errno;
use crate::process::shell::context::{Run, Shell};

impl Shell {
    pub(super) async fn cd(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        let is_option = |arg: &&Vec<u8>| matches!(arg.as_slice(), b"-L" | b"-P" | b"--");
        let args = &args[args.iter().take_while(is_option).count()..];
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
                self.proc_chdir(dir)
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

    pub(super) async fn pwd(&mut self) -> Run<u8> {
        let line = format!("{}\n", self.guest.current_dir());
        self.print(line.as_bytes()).await
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
