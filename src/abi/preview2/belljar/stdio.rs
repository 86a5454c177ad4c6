//! What the descriptors of a child stand for.

use wasmtime::component::Resource;

use super::types::{Command, Stdio};
use crate::abi::Process;
use crate::abi::preview2::call::Halt;
use crate::abi::preview2::file_io::Next;
use crate::abi::preview2::input::InputStream;
use crate::abi::preview2::output::OutputStream;
use crate::base::errno::Errno;
use crate::kernel::guest::FdAction;

/// What is done to the descriptors of a child, and what the caller has no more afterwards.
#[derive(Default)]
pub(super) struct Handed {
    pub actions: Vec<FdAction>,
    inputs: Vec<Resource<InputStream>>,
    outputs: Vec<Resource<OutputStream>>,
    /// Descriptors that were opened for the child.
    opened: Vec<u32>,
}

/// Most descriptors that a child is given; the same limit for arguments and for variables.
pub(super) const LIST_MAX: usize = 1 << 16;

impl Handed {
    /// Takes `command`'s descriptors.
    ///
    /// # Errors
    /// Of the kernel; `E2BIG` for more than [`LIST_MAX`]; `ENOTSUP` for a stream that is the body of a request or an answer. What was handed over is given back
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
        if all.len() > LIST_MAX {
            return Err(Errno::Toobig.into());
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
            Stdio::Null => {
                let null = process.guest.open_null()?;
                self.opened.push(null);
                null
            }
            Stdio::Input(stream) => {
                let origin = process.resource(stream)?.origin();
                self.at_place(process, origin, false)?
            }
            Stdio::Output(stream) => {
                let destination = process.resource(stream)?.destination();
                self.at_place(process, destination, true)?
            }
            Stdio::File(descriptor) => process.resource(descriptor)?.fd,
        };
        self.actions.push(FdAction::Inherit { from, to });
        Ok(())
    }

    /// The descriptor of a stream. That of a file is opened once more, as a stream has a place of its own.
    ///
    /// # Errors
    /// `ENOTSUP` if it has no descriptor; errors of the kernel.
    fn at_place(
        &mut self,
        process: &mut Process,
        stream: Option<(u32, Next)>,
        writes: bool,
    ) -> Result<u32, Errno> {
        let (fd, next) = stream.ok_or(Errno::Notsup)?;
        let offset = match next {
            Next::At(offset) => Some(offset),
            Next::End => None,
            Next::Here => return Ok(fd),
        };
        let opened = process.guest.fd_reopen(fd, offset, writes)?;
        self.opened.push(opened);
        Ok(opened)
    }

    /// Closes what the caller has no more.
    ///
    /// # Errors
    /// A trap if a stream still has pollables.
    pub fn release(self, process: &mut Process) -> Result<(), Halt> {
        for fd in self.opened {
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
