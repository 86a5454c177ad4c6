//! The outputs of options: standard output, or files that they name.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result};

use super::args::values::Sink;
use super::exit::{ReportNotWritten, Usage};
use super::replaceable::Written;
use super::terminal;
use crate::base::disk;

/// The first error of writing to standard output.
static PRINT_ERROR: OnceLock<io::Error> = OnceLock::new();

/// Prints to standard output. A closed pipe is ignored; any other error is a failure of the command, see
/// [`print_error`].
pub fn print(bytes: &[u8]) {
    let mut stdout = terminal::Stdout;
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let _ = PRINT_ERROR.set(error);
        }
        _ => {}
    }
}

/// The error of [`print`], if there was one.
pub fn print_error() -> Option<&'static io::Error> {
    PRINT_ERROR.get()
}

/// Standard output, and its last byte, so that the output of belljar after a program's begins on a new
/// line.
#[derive(Clone)]
pub struct Stdout(Arc<AtomicU8>);

impl Default for Stdout {
    fn default() -> Self {
        Self(Arc::new(AtomicU8::new(b'\n')))
    }
}

impl Stdout {
    fn begin_line(&mut self) -> io::Result<()> {
        if self.0.load(Ordering::Relaxed) == b'\n' { Ok(()) } else { self.write_all(b"\n") }
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = terminal::Stdout.write(bytes)?;
        if let Some(last) = bytes[..count].last() {
            self.0.store(*last, Ordering::Relaxed);
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        terminal::Stdout.flush()
    }
}

/// The open output of a report.
pub struct Opened {
    what: Written,
    to: To,
}

enum To {
    Stdout(Stdout),
    File(PathBuf, File),
}

impl Opened {
    /// Opens the output `sink`: before the program runs, so that an earlier report is not taken for one of
    /// this run.
    ///
    /// # Errors
    /// [`Usage`] if it cannot be written to.
    pub fn new(what: Written, sink: &Sink, stdout: &Stdout) -> Result<Self> {
        let to = match sink {
            Sink::Stream => To::Stdout(stdout.clone()),
            Sink::File(path) => To::File(path.clone(), create(what, path)?),
        };
        Ok(Self { what, to })
    }

    /// Writes the report.
    ///
    /// # Errors
    /// [`ReportNotWritten`] if that fails.
    pub fn print(self, text: &str) -> Result<()> {
        let option = self.what.option();
        let printed = match self.to {
            To::Stdout(mut stdout) => stdout
                .begin_line()
                .and_then(|()| stdout.write_all(text.as_bytes()))
                .and_then(|()| stdout.flush())
                .with_context(|| format!("{option}: cannot write to standard output")),
            To::File(path, mut file) => file
                .write_all(text.as_bytes())
                .with_context(|| format!("{option}: cannot write {}", path.display())),
        };
        Ok(printed.map_err(ReportNotWritten)?)
    }
}

/// A file that is written while a program runs; errors are reported at the end.
pub struct Watched {
    file: File,
    failure: Failure,
}

/// The first error of a [`Watched`] file.
#[derive(Clone, Default)]
pub struct Failure(Arc<OnceLock<io::Error>>);

impl Watched {
    /// Writes to `file`, and keeps the first error in `failure`.
    pub fn new(file: File, failure: Failure) -> Self {
        Self { file, failure }
    }
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).inspect_err(|error| {
            if error.kind() != io::ErrorKind::Interrupted {
                let _ = self.failure.0.set(io::Error::new(error.kind(), error.to_string()));
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Failure {
    /// # Errors
    /// [`ReportNotWritten`] if the file that `option` names is not complete.
    pub fn check(&self, option: &str) -> Result<()> {
        match self.0.get() {
            Some(error) => {
                Err(ReportNotWritten(anyhow::anyhow!("{option}: cannot write: {error}")).into())
            }
            None => Ok(()),
        }
    }
}

/// A report that several threads may write: only the first one does.
#[derive(Clone)]
pub struct WriteOnce(Arc<Mutex<Option<Opened>>>);

impl WriteOnce {
    /// The report goes to `opened`, if that is given.
    pub fn new(opened: Option<Opened>) -> Self {
        Self(Arc::new(Mutex::new(opened)))
    }

    /// Writes the report, unless it was written already.
    ///
    /// # Errors
    /// [`ReportNotWritten`] if that fails.
    pub fn print(&self, text: &str) -> Result<()> {
        let opened = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        opened.map_or(Ok(()), |opened| opened.print(text))
    }
}

/// Creates the file `path` for `what`, or empties it. A symbolic link is not followed, as an earlier program
/// may have left it, except those of the system, such as `/dev/stdout`: their target is appended to.
///
/// # Errors
/// [`Usage`] if that cannot be done, or a file is there that [`Written::check`] refuses.
pub fn create(what: Written, path: &Path) -> Result<File> {
    let option = what.option();
    let is_link = disk::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    if is_link && path.starts_with("/dev") {
        return disk::append(path).map_err(|error| Usage::of(option, error).into());
    }
    if is_link {
        let message = format!(
            "{option}: {} is a symbolic link; name the file that it leads to",
            path.display()
        );
        return Err(Usage(message).into());
    }
    what.check(path)?;
    disk::create(path).map_err(|error| Usage::of(option, error).into())
}
