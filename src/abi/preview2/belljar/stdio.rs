//! What the descriptors of a child stand for.

use wasmtime::component::Resource;

use super::types::{Command, Stdio};
use crate::abi::Process;
use crate::abi::preview2::call::Halt;
use crate::abi::preview2::file_io::Next;
use crate::abi::preview2::input::InputStream;
use crate::abi::preview2::output::OutputStream;
use crate::base::errno::Errno;
use crate::kernel::guest::{FdAction, Whence};

/// What is done to the descriptors of a child, and what the caller has no more afterwards.
#[derive(Default)]
pub(super) struct Handed {
    pub actions: Vec<FdAction>,
    inputs: Vec<Resource<InputStream>>,
    outputs: Vec<Resource<OutputStream>>,
    /// `/dev/null`, if one of them is.
    null: Option<u32>,
}

impl Handed {
    /// Takes `command`'s descriptors.
    ///
    /// # Errors
    /// Of the kernel; `ENOTSUP` for a stream that is the body of a request or an answer. What was handed over is given back
    /// by [`Handed::release`] in any case.
    pub fn add_all(&mut self, process: &mut Process, command: &mut Command) -> Result<(), Halt> {
        let standard = [&mut command.stdin, &mut command.stdout, &mut command.stderr];
        let standard = standard.map(|it| std::mem::replace(it, Stdio::Inherit));
        let further = std::mem::take(&mut command.descriptors);
        let all: Vec<_> = (0..).zip(standard).chain(further).collect();
        // All streams are the child's, also if one of them cannot be.
        for (_, stdio) in &all {
            match stdio {
                Stdio::Input(stream) => self.inputs.push(Resource::new_own(stream.rep())),
                Stdio::Output(stream) => self.outputs.push(Resource::new_own(stream.rep())),
                Stdio::Inherit | Stdio::Null | Stdio::File(_) | Stdio::SameAs(_) => {}
            }
        }
        for (to, stdio) in all {
            self.add(process, to, &stdio)?;
        }
        Ok(())
    }

    fn add(&mut self, process: &mut Process, to: u32, stdio: &Stdio) -> Result<(), Halt> {
        let from = match stdio {
            // The child has it without that.
            Stdio::Inherit => return Ok(()),
            Stdio::SameAs(from) => {
                self.actions.push(FdAction::Dup { from: *from, to });
                return Ok(());
            }
            Stdio::Null => self.null(process)?,
            Stdio::Input(stream) => {
                let origin = process.resource(stream)?.origin();
                place(process, origin)?
            }
            Stdio::Output(stream) => {
                let destination = process.resource(stream)?.destination();
                place(process, destination)?
            }
            Stdio::File(descriptor) => process.resource(descriptor)?.fd,
        };
        self.actions.push(FdAction::Inherit { from, to });
        Ok(())
    }

    fn null(&mut self, process: &mut Process) -> Result<u32, Errno> {
        if self.null.is_none() {
            self.null = Some(process.guest.open_null()?);
        }
        self.null.ok_or(Errno::Badf)
    }

    /// Closes what the caller has no more.
    ///
    /// # Errors
    /// A trap if a stream still has pollables.
    pub fn release(self, process: &mut Process) -> Result<(), Halt> {
        if let Some(fd) = self.null {
            process.guest.fd_close(fd).map_err(Halt::Unsaid)?;
        }
        for stream in self.inputs {
            process.take(&stream)?;
        }
        for stream in self.outputs {
            process.take(&stream)?;
        }
        Ok(())
    }
}

/// The descriptor of a stream, whose offset becomes the place where the stream is.
///
/// # Errors
/// `ENOTSUP` if it has no descriptor; errors of the kernel.
fn place(process: &mut Process, stream: Option<(u32, Next)>) -> Result<u32, Errno> {
    let (fd, next) = stream.ok_or(Errno::Notsup)?;
    match next {
        Next::At(offset) => {
            let offset = i64::try_from(offset).map_err(|_| Errno::Inval)?;
            process.guest.fd_seek(fd, offset, Whence::Set)?;
        }
        Next::End => {
            process.guest.fd_seek(fd, 0, Whence::End)?;
        }
        Next::Here => {}
    }
    Ok(fd)
}
