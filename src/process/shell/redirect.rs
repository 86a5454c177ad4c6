//! Redirections (POSIX 2.7).

use super::context::{Run, Shell};
use super::held::Held;
use super::image::Part;
use super::tree::{Access, Redirect, Target};
use crate::base::errno::Errno;
use crate::kernel::guest::{FdAction, OFlags, rights};
use crate::kernel::io::fd::FdFlags;
use crate::kernel::io::pipe::PIPE_BYTES;
use crate::kernel::vfs::{FileType, Follow};

/// The lowest descriptor for the shell's own use.
const OWN_FD_MIN: u32 = 10;

/// Descriptors, with duplicates of what they referred to before, if they were open.
pub type Saved = Vec<(u32, Option<u32>)>;

/// The target of a descriptor.
#[derive(Clone, Copy)]
enum Opened {
    Closed,
    /// A duplicate of this descriptor.
    As(u32),
}

impl Shell {
    /// Makes the redirections `redirects`. `None` if one fails: that is reported, the status is set, and
    /// all are undone.
    pub async fn redirect(&mut self, redirects: &[Redirect]) -> Run<Option<Saved>> {
        let mut saved = Saved::new();
        for redirect in redirects {
            let fd = redirect.fd;
            if !saved.iter().any(|(known, _)| *known == fd) {
                let copy = match self.fd_dup(fd, OWN_FD_MIN) {
                    Ok(copy) => Some(copy),
                    Err(Errno::Badf) => None,
                    Err(errno) => {
                        return self.refuse(&format!("{fd}: {}", errno.meaning()), saved).await;
                    }
                };
                saved.push((fd, copy));
            }
            let placed = match self.open(&redirect.target).await {
                Ok(Ok(opened)) => self.place(opened, fd),
                Ok(Err(message)) => Err(message),
                Err(leave) => {
                    self.undo(saved);
                    return Err(leave);
                }
            };
            if let Err(message) = placed {
                return self.refuse(&message, saved).await;
            }
        }
        Ok(Some(saved))
    }

    /// Reports `message` on the redirected standard error, and undoes the redirections.
    async fn refuse(&mut self, message: &str, saved: Saved) -> Run<Option<Saved>> {
        let said = self.say(message).await;
        self.undo(saved);
        said?;
        self.state.status = 2;
        Ok(None)
    }

    fn place(&mut self, opened: Opened, fd: u32) -> Result<(), String> {
        match opened {
            Opened::Closed => {
                self.close(fd);
                Ok(())
            }
            Opened::As(from) if from == fd => {
                self.guest.fd_set_close_on_exec(fd, false).map_err(|errno| errno.to_string())
            }
            Opened::As(from) => {
                let placed = self.fd_dup2(from, fd);
                self.close(from);
                placed.map_err(|errno| format!("{fd}: {}", errno.meaning()))
            }
        }
    }

    /// Undoes [`Shell::redirect`].
    pub fn undo(&mut self, saved: Saved) {
        for (fd, copy) in saved.into_iter().rev() {
            match copy {
                Some(copy) => {
                    // Both descriptors are valid.
                    let _ = self.fd_dup2(copy, fd);
                    self.close(copy);
                }
                None => self.close(fd),
            }
        }
    }

    /// Makes the redirections of [`Shell::redirect`] permanent.
    pub fn keep(&mut self, saved: Saved) {
        for (_, copy) in saved {
            if let Some(copy) = copy {
                self.close(copy);
            }
        }
    }

    async fn open(&mut self, target: &Target) -> Run<Result<Opened, String>> {
        match target {
            Target::File(access, word) => {
                let path = self.text(word).await?;
                Ok(self.open_file(*access, &path).map(Opened::As))
            }
            Target::Duplicate(word) => {
                let text = self.text(word).await?;
                let text = String::from_utf8_lossy(&text);
                if text == "-" {
                    return Ok(Ok(Opened::Closed));
                }
                let Ok(from) = text.parse() else {
                    return self.fail(&format!("Syntax error: Bad fd number: {text}")).await;
                };
                // Scripts must not see the shell's own descriptors.
                if self.guest.fd_close_on_exec(from) == Ok(true) {
                    return Ok(Err(format!("{text}: {}", Errno::Badf.meaning())));
                }
                let copy = self.fd_dup(from, OWN_FD_MIN);
                Ok(copy.map(Opened::As).map_err(|errno| format!("{text}: {}", errno.meaning())))
            }
            Target::Document(document) => {
                let text = self.text(document.text()).await?;
                self.document(text).await
            }
        }
    }

    /// Opens `path` for a redirection.
    fn open_file(&mut self, access: Access, path: &[u8]) -> Result<u32, String> {
        let verb = if access == Access::Read { "open" } else { "create" };
        let shown = String::from_utf8_lossy(path);
        let refused = |errno: Errno| {
            let why = match (errno, access) {
                (Errno::Noent, Access::Read) => "No such file",
                (Errno::Noent, _) => "Directory nonexistent",
                (errno, _) => errno.meaning(),
            };
            format!("cannot {verb} {shown}: {why}")
        };
        let Ok(path) = std::str::from_utf8(path) else { return Err(refused(Errno::Ilseq)) };
        if path.is_empty() {
            return Err(refused(Errno::Noent));
        }
        let mut excl = false;
        if access == Access::Write && self.state.options.noclobber {
            match self.path_filestat_get(path.as_bytes(), Follow::Yes) {
                Ok(stat) if stat.metadata.file_type == FileType::RegularFile => {
                    return Err(refused(Errno::Exist));
                }
                Ok(_) => {}
                // It does not exist, or is a dangling link, which `open` refuses.
                Err(_) => excl = true,
            }
        }
        let creat = access != Access::Read;
        let trunc = matches!(access, Access::Write | Access::Clobber);
        let oflags = OFlags { creat, excl, trunc, ..OFlags::default() };
        let rights = match access {
            Access::Read => rights::FD_READ,
            Access::ReadWrite => rights::FD_READ | rights::FD_WRITE,
            _ => rights::FD_WRITE,
        };
        let flags = if access == Access::Append { FdFlags::APPEND } else { FdFlags::default() };
        self.path_open(path, oflags, rights, flags).map_err(refused)
    }

    /// Opens a descriptor at its end, for reading.
    pub async fn open_null(&mut self) -> Run<u32> {
        let opened = self.open_file(Access::Read, b"/dev/null");
        let own = opened.and_then(|fd| {
            let own = self.fd_dup(fd, OWN_FD_MIN);
            self.close(fd);
            own.map_err(|errno| errno.meaning().to_owned())
        });
        match own {
            Ok(fd) => Ok(fd),
            Err(message) => self.fail(&message).await,
        }
    }

    async fn document(&mut self, mut text: Vec<u8>) -> Run<Result<Opened, String>> {
        let (reader, writer) = match self.pipe() {
            Ok(ends) => ends,
            Err(errno) => return Ok(Err(format!("Pipe call failed: {}", errno.meaning()))),
        };
        let written = if text.len() <= PIPE_BYTES {
            let written = self.write(writer, &mut text).await?;
            written.map_err(|errno| errno.to_string())
        } else {
            self.reap().await?;
            let mut held = Held::none(self.memory());
            let added = held.extend(&text);
            self.check_memory(added).await?;
            let to_pipe = [FdAction::Inherit { from: writer, to: 1 }];
            let pid = self.start_part(Part::Document(held), &to_pipe).await?;
            self.feeders.insert(pid);
            Ok(())
        };
        self.close(writer);
        Ok(written.map(|()| Opened::As(reader)))
    }
}
